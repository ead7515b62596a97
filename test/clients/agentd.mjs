// What the tests of all clients share. The Go test that starts them starts
// agentd and its simulated model, whose rules are there: obliging in
// test/e2e/compat/clients_test.go.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const url = process.env.AGENTD_URL;
export const key = process.env.AGENTD_KEY;
export const agent = process.env.AGENT;
export const careful = process.env.CAREFUL; // asks before it reckons

export const greeting = 'Hello from the model.';
export const sunny = 'It is sunny in Bern.';
export const city = { city: 'Bern', degrees: 21 };
export const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

export const weatherSchema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };

// example runs a program of docs/examples/clients and gives what it prints.
export async function example(name) {
  const { stdout } = await promisify(execFile)(process.execPath, [join(process.env.EXAMPLES, name)]);
  return stdout;
}

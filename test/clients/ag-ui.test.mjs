import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpAgent } from '@ag-ui/client';
import { careful, city, example, greeting, key, agent as helper, sunny, url } from './agentd.mjs';

const connect = (id, more = {}) => new HttpAgent({ url: `${url}/agui/agents/${id}`, headers: { Authorization: `Bearer ${key}` }, threadId: crypto.randomUUID(), ...more });
const say = (agent, content) => agent.messages.push({ id: crypto.randomUUID(), role: 'user', content });
const weather = { name: 'weather', description: 'Tells the weather.', parameters: { type: 'object', properties: { city: { type: 'string' } } } };

// run runs the agent, and returns the types of the events.
async function run(agent, parameters) {
  const types = [];
  let outcome;
  await agent.runAgent(parameters, {
    onEvent: ({ event }) => void types.push(event.type),
    onRunFinishedEvent: ({ event }) => void (outcome = event.outcome),
  });
  return { types, outcome };
}

test('a conversation', async () => {
  const agent = connect(helper);
  say(agent, 'Hello');
  const first = await run(agent);
  assert.equal(agent.messages.at(-1).content, greeting);
  assert.equal(first.types[0], 'RUN_STARTED');
  assert.equal(first.types.at(-1), 'RUN_FINISHED');
  assert.deepEqual(first.outcome, { type: 'success' });
  say(agent, 'Hello again');
  await run(agent);
  assert.equal(agent.messages.length, 4);

  // Another page of the same conversation has nothing, and gets it.
  const other = connect(helper, { threadId: agent.threadId });
  await run(other);
  assert.deepEqual(other.messages.map((m) => [m.role, m.content]), agent.messages.map((m) => [m.role, m.content]));
  say(other, 'And from here');
  await run(other);
  assert.equal(other.messages.at(-1).content, greeting);
});

test('a tool of the page', async () => {
  const agent = connect(helper);
  say(agent, 'Weather?');
  const asked = await run(agent, { tools: [weather] });
  const [call] = agent.messages.at(-1).toolCalls;
  assert.deepEqual(JSON.parse(call.function.arguments), city);
  assert.deepEqual(asked.outcome.pendingToolCallIds, [call.id]);
  agent.messages.push({ id: crypto.randomUUID(), role: 'tool', toolCallId: call.id, content: 'sunny in Bern' });
  await run(agent, { tools: [weather] });
  assert.equal(agent.messages.at(-1).content, sunny);
  say(agent, 'Thanks');
  await run(agent);
  assert.equal(agent.messages.at(-1).content, greeting);
});

test('a state that both share', async () => {
  const agent = connect(helper, { initialState: { city: 'Zurich' } });
  say(agent, 'Set the city to Bern.');
  const { types } = await run(agent);
  assert.deepEqual(agent.state, { city: 'Bern' });
  assert.ok(types.includes('STATE_SNAPSHOT') && types.includes('STATE_DELTA'));
});

test('an approval', async () => {
  const agent = connect(careful);
  say(agent, 'Reckon.');
  const waiting = await run(agent);
  const [interrupt] = waiting.outcome.interrupts;
  assert.equal(agent.pendingInterrupts.length, 1);
  await assert.rejects(run(agent, { resume: [{ interruptId: interrupt.id, status: 'resolved', payload: { approved: 'yes' } }] }), /422/);
  const { types } = await run(agent, { resume: [{ interruptId: interrupt.id, status: 'resolved', payload: { approved: true } }] });
  assert.ok(types.includes('TOOL_CALL_RESULT'));
  assert.match(agent.messages.at(-1).content, /^It is /);
});

test('a run that fails', async () => {
  const agent = connect(helper);
  say(agent, 'fail');
  const types = [];
  await agent.runAgent({}, { onEvent: ({ event }) => void types.push(event.type) }).catch(() => {});
  assert.equal(types.at(-1), 'RUN_ERROR');
});

test('examples of the documentation', async () => {
  assert.deepEqual((await example('ag-ui.mjs')).trimEnd().split('\n'), [greeting, sunny, "{ city: 'Bern' }"]);
});

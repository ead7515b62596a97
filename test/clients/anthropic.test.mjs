import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { city, example, greeting, key, pixel, sunny, url, weatherSchema } from './agentd.mjs';

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const ask = (content) => ({ model: 'claude-agentd', max_tokens: 1024, system: 'Be brief.', messages: [{ role: 'user', content }] });
const weather = { name: 'weather', description: 'Tells the weather.', input_schema: weatherSchema };

test('a whole answer', async () => {
  const got = await client.messages.create({ ...ask('Hello'), temperature: 0, stop_sequences: ['END'], metadata: { user_id: 'ann' } });
  assert.equal(got.type, 'message');
  assert.equal(got.model, 'claude-agentd');
  assert.deepEqual(got.content.map((b) => [b.type, b.text]), [['text', greeting]]);
  assert.equal(got.stop_reason, 'end_turn');
  assert.deepEqual([got.usage.input_tokens, got.usage.output_tokens], [12, 7]);
});

test('a model of the catalogue, and the key as a bearer token', async () => {
  const bearer = new Anthropic({ baseURL: url, apiKey: null, authToken: key, maxRetries: 0 });
  const got = await bearer.messages.create({ ...ask('Hello'), model: 'default/sim-model' });
  assert.equal(got.content[0].text, greeting);
});

test('the stream helper', async () => {
  const stream = client.messages.stream(ask('Hello'));
  const pieces = [];
  stream.on('text', (text) => pieces.push(text));
  const got = await stream.finalMessage();
  assert.equal(got.content[0].text, greeting);
  assert.equal(pieces.join(''), greeting);
  assert.ok(pieces.length > 1, 'it came at once');
  assert.equal(got.stop_reason, 'end_turn');
  assert.equal(got.usage.output_tokens, 7);
});

test('events of a stream, in order', async () => {
  const names = [];
  for await (const event of await client.messages.create({ ...ask('Weather?'), tools: [weather], stream: true }))
    if (event.type !== 'ping' && names.at(-1) !== event.type) names.push(event.type);
  assert.deepEqual(names, ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop']);
});

test('a tool, plain and streamed, and its result', async () => {
  for (const stream of [false, true]) {
    const body = { ...ask('Weather?'), tools: [weather], tool_choice: { type: 'any' } };
    const asked = stream ? await client.messages.stream(body).finalMessage() : await client.messages.create(body);
    const call = asked.content.find((b) => b.type === 'tool_use');
    assert.equal(asked.stop_reason, 'tool_use');
    assert.deepEqual(call.input, city);
    const told = await client.messages.create({
      ...body,
      tool_choice: { type: 'auto' },
      messages: [
        ...body.messages,
        { role: 'assistant', content: asked.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: [{ type: 'text', text: 'sunny in Bern' }] }] },
      ],
    });
    assert.equal(told.content[0].text, sunny);
  }
});

test('the tool runner', async () => {
  const asked = [];
  const runner = client.beta.messages.toolRunner({
    ...ask('Weather?'),
    tools: [{ ...weather, run: (input) => { asked.push(input.city); return `sunny in ${input.city}`; } }],
  });
  assert.equal((await runner).content[0].text, sunny);
  assert.deepEqual(asked, ['Bern']);
});

test('an image', async () => {
  const got = await client.messages.create(ask([
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } },
    { type: 'text', text: 'What is this?' },
  ]));
  assert.equal(got.content[0].text, 'It is a picture.');
});

test('counting tokens', async () => {
  const got = await client.messages.countTokens({ model: 'claude-agentd', system: 'Be brief.', messages: [{ role: 'user', content: 'Hello there, you.' }] });
  assert.ok(got.input_tokens > 4 && got.input_tokens < 30, `${got.input_tokens}`);
});

test('refusals are the classes of the client', async () => {
  const wrong = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  await assert.rejects(wrong.messages.create(ask('Hello')), (e) => e instanceof Anthropic.AuthenticationError && e.error.error.type === 'authentication_error');
  await assert.rejects(client.messages.create({ ...ask('Hello'), max_tokens: undefined }), (e) => e.error.error.type === 'invalid_request_error');
});

test('an error of the model', async () => {
  await assert.rejects(client.messages.create(ask('Please fail.')), Anthropic.APIError);
  await assert.rejects(client.messages.stream(ask('Please fail.')).finalMessage(), Anthropic.AnthropicError);
});

test('examples of the documentation', async () => {
  assert.deepEqual((await example('anthropic.mjs')).trimEnd().split('\n'), [greeting, `${greeting} (end_turn)`, sunny]);
});

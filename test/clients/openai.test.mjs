import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { agent, city, example, greeting, key, pixel, sunny, url, weatherSchema } from './agentd.mjs';

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const City = z.object({ city: z.string(), degrees: z.number() });
const ask = (content) => ({ model: agent, messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content }] });

test('chat: a whole answer', async () => {
  const got = await client.chat.completions.create({ ...ask('Hello'), temperature: 0, max_tokens: 100, stop: ['END'], seed: 1, user: 'ann' });
  assert.equal(got.object, 'chat.completion');
  assert.equal(got.choices.length, 1);
  assert.equal(got.choices[0].message.content, greeting);
  assert.equal(got.choices[0].finish_reason, 'stop');
  assert.deepEqual([got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.total_tokens], [12, 7, 19]);
});

test('chat: the stream helper', async () => {
  const stream = client.chat.completions.stream({ ...ask('Hello'), stream_options: { include_usage: true } });
  const pieces = [];
  stream.on('content', (delta) => pieces.push(delta));
  assert.equal(await stream.finalContent(), greeting);
  assert.ok(pieces.length > 1, 'it came at once');
  assert.equal(pieces.join(''), greeting);
  assert.equal((await stream.totalUsage()).total_tokens, 19);
});

test('chat: an image', async () => {
  const content = [{ type: 'text', text: 'What is this?' }, { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }];
  const got = await client.chat.completions.create({ model: `agent/${agent}`, messages: [{ role: 'user', content }] });
  assert.equal(got.choices[0].message.content, 'It is a picture.');
});

for (const stream of [false, true]) {
  test(`chat: tools that the client runs, ${stream ? 'streamed' : 'plain'}`, async () => {
    const asked = [];
    const runner = client.chat.completions.runTools({
      ...ask('Weather?'),
      stream,
      tools: [{
        type: 'function',
        function: {
          name: 'weather', description: 'Tells the weather.', parameters: weatherSchema, parse: JSON.parse,
          function: (args) => { asked.push(args.city); return `sunny in ${args.city}`; },
        },
      }],
    });
    assert.equal(await runner.finalContent(), sunny);
    assert.deepEqual(asked, ['Bern']);
    assert.deepEqual(runner.messages.map((m) => m.role), ['system', 'user', 'assistant', 'tool', 'assistant']);
  });
}

test('chat: structured outputs', async () => {
  const parsed = await client.chat.completions.parse({ ...ask('How warm?'), response_format: zodResponseFormat(City, 'city') });
  assert.deepEqual(parsed.choices[0].message.parsed, city);
  const streamed = client.chat.completions.stream({ ...ask('How warm?'), response_format: zodResponseFormat(City, 'city') });
  assert.deepEqual((await streamed.finalChatCompletion()).choices[0].message.parsed, city);
  const called = await client.chat.completions.parse({
    ...ask('How warm?'), tools: [zodFunction({ name: 'report', parameters: City })], tool_choice: { type: 'function', function: { name: 'report' } },
  });
  assert.deepEqual(called.choices[0].message.tool_calls[0].function.parsed_arguments, city);
});

test('chat: refusals are the classes of the client', async () => {
  const none = { ...ask('Hello'), model: 'gpt-5' };
  await assert.rejects(client.chat.completions.create(none), (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found');
  await assert.rejects(client.chat.completions.create({ ...none, stream: true }), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...ask('Hello'), temperature: 9 }), (e) => e instanceof OpenAI.UnprocessableEntityError && e.param === 'temperature');
  await assert.rejects(new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }).models.list(), OpenAI.AuthenticationError);
});

test('chat: a run that fails is an answer', async () => {
  const got = await client.chat.completions.create(ask('Please fail.'));
  assert.equal(got.choices[0].finish_reason, 'error');
  assert.equal(got.run_error.code, 'model_error');
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({ ...ask('Please fail.'), stream: true })) chunks.push(chunk);
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'error');
});

test('models', async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.ok(ids.includes(agent));
  assert.equal((await client.models.retrieve(`agent/${agent}`)).id, agent);
});

test('embeddings', async () => {
  const input = ['red apples', 'green pears'];
  const got = await client.embeddings.create({ model: 'any', input }); // which asks for base64
  const floats = await client.embeddings.create({ model: 'any', input, encoding_format: 'float' });
  assert.equal(got.model, 'sim-embedding');
  assert.equal(got.data.length, 2);
  got.data.forEach(({ embedding }, i) => {
    assert.equal(embedding.length, 128);
    embedding.forEach((x, j) => assert.ok(Math.abs(x - floats.data[i].embedding[j]) < 1e-6));
  });
});

test('responses: a whole answer, read back, and a chain', async () => {
  const first = await client.responses.create({ model: agent, input: 'Hello', instructions: 'Be brief.' });
  assert.equal(first.output_text, greeting);
  assert.equal(first.status, 'completed');
  assert.deepEqual([first.usage.input_tokens, first.usage.output_tokens], [12, 7]);
  assert.equal((await client.responses.retrieve(first.id)).output_text, greeting);
  const second = await client.responses.create({ model: agent, input: [{ role: 'user', content: 'Again?' }], previous_response_id: first.id });
  assert.equal(second.output_text, greeting);
  assert.equal(second.previous_response_id, first.id);
  await assert.rejects(client.responses.create({ model: agent, input: 'Hello', previous_response_id: agent }), OpenAI.NotFoundError);
});

test('responses: the stream helper', async () => {
  const stream = client.responses.stream({ model: agent, input: 'Hello' });
  const names = new Set();
  let text = '';
  for await (const event of stream) {
    names.add(event.type);
    if (event.type === 'response.output_text.delta') text += event.delta;
  }
  assert.equal(text, greeting);
  for (const name of ['response.created', 'response.output_item.added', 'response.content_part.added', 'response.output_text.done', 'response.completed'])
    assert.ok(names.has(name), `there is no ${name}`);
  assert.equal((await stream.finalResponse()).output_text, greeting);
});

test('responses: tools', async () => {
  const tools = [{ type: 'function', name: 'weather', description: 'Tells the weather.', parameters: weatherSchema, strict: true }];
  for (const stream of [false, true]) {
    const input = [{ role: 'user', content: 'Weather?' }];
    const asked = stream
      ? await client.responses.stream({ model: agent, input, tools }).finalResponse()
      : await client.responses.create({ model: agent, input, tools });
    const call = asked.output.find((item) => item.type === 'function_call');
    assert.equal(call.name, 'weather');
    assert.equal(JSON.parse(call.arguments).city, 'Bern');
    const result = { type: 'function_call_output', call_id: call.call_id, output: 'sunny in Bern' };
    const told = await client.responses.create({ model: agent, tools, previous_response_id: asked.id, input: [result] });
    assert.equal(told.output_text, sunny);
    const again = await client.responses.create({ model: agent, tools, input: [...input, ...asked.output, result] });
    assert.equal(again.output_text, sunny);
  }
});

test('responses: structured outputs', async () => {
  const parsed = await client.responses.parse({ model: agent, input: 'How warm?', text: { format: zodTextFormat(City, 'city') } });
  assert.deepEqual(parsed.output_parsed, city);
});

test('examples of the documentation', async () => {
  assert.deepEqual((await example('openai.mjs')).trimEnd().split('\n'), [greeting, greeting, sunny, greeting]);
  assert.equal(await example('embeddings.mjs'), 'sim-embedding: 2 vectors of 128 numbers\n');
});

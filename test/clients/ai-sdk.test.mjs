import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateObject, generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { agent, city, example, greeting, key, pixel, sunny, url } from './agentd.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;

const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
const compatible = createOpenAICompatible({ name: 'agentd', baseURL: `${url}/v1`, apiKey: key, includeUsage: true, supportsStructuredOutputs: true });
const anthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey: key });

const models = {
  'openai, responses': openai(agent),
  'openai, chat': openai.chat(agent),
  'openai-compatible': compatible(agent),
  anthropic: anthropic('claude-agentd'),
};
const schema = z.object({ city: z.string(), degrees: z.number() });
const weather = tool({ description: 'Tells the weather.', inputSchema: z.object({ city: z.string() }), execute: async (input) => `sunny in ${input.city}` });

for (const [name, model] of Object.entries(models)) {
  test(`${name}: generateText`, async () => {
    const got = await generateText({ model, instructions: 'Be brief.', prompt: 'Hello', maxRetries: 0 });
    assert.equal(got.text, greeting);
    assert.equal(got.finishReason, 'stop');
    assert.deepEqual([got.usage.inputTokens, got.usage.outputTokens], [12, 7]);
  });

  test(`${name}: streamText`, async () => {
    const got = streamText({ model, prompt: 'Hello', maxRetries: 0 });
    const pieces = [];
    for await (const piece of got.textStream) pieces.push(piece);
    assert.equal(pieces.join(''), greeting);
    assert.ok(pieces.length > 1, 'it came at once');
    assert.deepEqual([(await got.usage).inputTokens, (await got.usage).outputTokens], [12, 7]);
  });

  test(`${name}: tools`, async () => {
    const got = await generateText({ model, prompt: 'Weather?', tools: { weather }, stopWhen: stepCountIs(4), maxRetries: 0 });
    assert.equal(got.text, sunny);
    assert.equal(got.steps.length, 2);
    assert.deepEqual(got.steps[0].toolCalls.map((call) => call.toolName), ['weather']);
    const streamed = streamText({ model, prompt: 'Weather?', tools: { weather }, stopWhen: stepCountIs(4), maxRetries: 0 });
    assert.equal(await streamed.text, sunny);
    assert.equal((await streamed.steps).length, 2);
  });

  test(`${name}: objects`, async () => {
    assert.deepEqual((await generateObject({ model, schema, prompt: 'How warm?', maxRetries: 0 })).object, city);
    assert.deepEqual((await generateText({ model, output: Output.object({ schema }), prompt: 'How warm?', maxRetries: 0 })).output, city);
  });

  test(`${name}: an image`, async () => {
    const content = [{ type: 'text', text: 'What is this?' }, { type: 'image', image: Buffer.from(pixel, 'base64'), mediaType: 'image/png' }];
    assert.equal((await generateText({ model, messages: [{ role: 'user', content }], maxRetries: 0 })).text, 'It is a picture.');
  });
}

test('embeddings', async () => {
  for (const model of [openai.embedding('any'), compatible.embeddingModel('any')]) {
    const { embeddings } = await embedMany({ model, values: ['red apples', 'green pears'], maxRetries: 0 });
    assert.deepEqual(embeddings.map((e) => e.length), [128, 128]);
  }
});

test('examples of the documentation', async () => {
  assert.deepEqual((await example('ai-sdk.mjs')).trimEnd().split('\n'), [greeting, greeting, sunny, "{ city: 'Bern', degrees: 21 }"]);
});

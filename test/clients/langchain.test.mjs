import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ChatAnthropic } from '@langchain/anthropic';
import { HumanMessage, SystemMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { z } from 'zod';
import { agent, city, example, greeting, key, pixel, sunny, url } from './agentd.mjs';

const configuration = { baseURL: `${url}/v1` };
const models = {
  ChatOpenAI: new ChatOpenAI({ model: agent, apiKey: key, configuration, maxRetries: 0 }),
  'ChatOpenAI, responses': new ChatOpenAI({ model: agent, apiKey: key, configuration, maxRetries: 0, useResponsesApi: true }),
  ChatAnthropic: new ChatAnthropic({ model: 'claude-agentd', apiKey: key, anthropicApiUrl: url, maxRetries: 0 }),
};
const schema = z.object({ city: z.string(), degrees: z.number() });
const weather = tool((input) => `sunny in ${input.city}`, { name: 'weather', description: 'Tells the weather.', schema: z.object({ city: z.string() }) });

for (const [name, model] of Object.entries(models)) {
  test(`${name}: invoke`, async () => {
    const got = await model.invoke([new SystemMessage('Be brief.'), new HumanMessage('Hello')]);
    assert.equal(got.text, greeting);
    assert.equal(got.usage_metadata.total_tokens, 19);
  });

  test(`${name}: stream`, async () => {
    let all;
    let pieces = 0;
    for await (const chunk of await model.stream('Hello')) {
      all = all ? all.concat(chunk) : chunk;
      pieces += chunk.text ? 1 : 0;
    }
    assert.equal(all.text, greeting);
    assert.ok(pieces > 1, 'it came at once');
    // Of a streamed message it reads the input's tokens where they are only estimated.
    assert.equal(all.usage_metadata[name === 'ChatAnthropic' ? 'output_tokens' : 'total_tokens'], name === 'ChatAnthropic' ? 7 : 19);
  });

  test(`${name}: tools`, async () => {
    for (const stream of [false, true]) {
      const bound = model.bindTools([weather]);
      const messages = [new HumanMessage('Weather?')];
      let call;
      if (stream) for await (const chunk of await bound.stream(messages)) call = call ? call.concat(chunk) : chunk;
      else call = await bound.invoke(messages);
      assert.deepEqual(call.tool_calls.map((c) => [c.name, c.args]), [['weather', city]]);
      messages.push(call);
      for (const wanted of call.tool_calls) messages.push(await weather.invoke(wanted));
      assert.equal((await bound.invoke(messages)).text, sunny);
    }
  });

  test(`${name}: structured output`, async () => {
    for (const method of name.startsWith('ChatOpenAI') ? ['jsonSchema', 'functionCalling'] : ['functionCalling'])
      assert.deepEqual(await model.withStructuredOutput(schema, { name: 'city', method }).invoke('How warm?'), city);
  });

  test(`${name}: an image`, async () => {
    const content = [{ type: 'text', text: 'What is this?' }, { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }];
    assert.equal((await model.invoke([new HumanMessage({ content })])).text, 'It is a picture.');
  });
}

test('embeddings', async () => {
  const embeddings = new OpenAIEmbeddings({ model: 'any', apiKey: key, configuration, maxRetries: 0 });
  assert.deepEqual((await embeddings.embedDocuments(['red apples', 'green pears'])).map((e) => e.length), [128, 128]);
  assert.equal((await embeddings.embedQuery('red apples')).length, 128);
});

test('examples of the documentation', async () => {
  assert.deepEqual((await example('langchain.mjs')).trimEnd().split('\n'), [greeting, greeting, sunny, "{ city: 'Bern', degrees: 21 }"]);
});

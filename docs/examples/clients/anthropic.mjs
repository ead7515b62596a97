// A model behind Anthropic's own client: a whole answer, a streamed one, a tool.
import Anthropic from '@anthropic-ai/sdk';

const client = new Anthropic({ baseURL: process.env.AGENTD_URL, apiKey: process.env.AGENTD_KEY });
const model = 'claude-agentd'; // every claude-… is the model that the operator chose for this route

const answer = await client.messages.create({
  model,
  max_tokens: 1024,
  messages: [{ role: 'user', content: 'Say hello.' }],
});
console.log(answer.content[0].text);

const stream = client.messages.stream({
  model,
  max_tokens: 1024,
  messages: [{ role: 'user', content: 'Say hello.' }],
});
stream.on('text', (text) => process.stdout.write(text));
console.log(` (${(await stream.finalMessage()).stop_reason})`);

// The client runs the tool when the model calls it, and asks again.
const final = await client.beta.messages.toolRunner({
  model,
  max_tokens: 1024,
  messages: [{ role: 'user', content: 'What is the weather in Bern?' }],
  tools: [
    {
      name: 'weather',
      description: 'Tells the weather of a city.',
      input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      run: ({ city }) => `sunny in ${city}`,
    },
  ],
});
console.log(final.content[0].text);

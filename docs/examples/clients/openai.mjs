// An agent behind OpenAI's own client: a whole answer, a streamed one, a tool.
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: `${process.env.AGENTD_URL}/v1`, apiKey: process.env.AGENTD_KEY });
const model = process.env.AGENT; // an agent's id

const answer = await client.chat.completions.create({
  model,
  messages: [{ role: 'user', content: 'Say hello.' }],
});
console.log(answer.choices[0].message.content);

const stream = await client.chat.completions.create({
  model,
  messages: [{ role: 'user', content: 'Say hello.' }],
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '');
console.log();

// The client runs the function when the model calls it, and asks again.
const runner = client.chat.completions.runTools({
  model,
  messages: [{ role: 'user', content: 'What is the weather in Bern?' }],
  tools: [
    {
      type: 'function',
      function: {
        name: 'weather',
        description: 'Tells the weather of a city.',
        parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
        parse: JSON.parse,
        function: ({ city }) => `sunny in ${city}`,
      },
    },
  ],
});
console.log(await runner.finalContent());

// The responses shape keeps the conversation on the server.
const first = await client.responses.create({ model, input: 'Say hello.' });
const second = await client.responses.create({ model, input: 'Once more.', previous_response_id: first.id });
console.log(second.output_text);

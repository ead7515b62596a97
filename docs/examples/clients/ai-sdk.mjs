// An agent behind the AI SDK: a whole answer, a streamed one, a tool, an object.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const agentd = createOpenAICompatible({
  name: 'agentd',
  baseURL: `${process.env.AGENTD_URL}/v1`,
  apiKey: process.env.AGENTD_KEY,
  includeUsage: true, // of streams
  supportsStructuredOutputs: true, // if the agent's model does
});
const model = agentd(process.env.AGENT); // an agent's id

const { text } = await generateText({ model, prompt: 'Say hello.' });
console.log(text);

for await (const piece of streamText({ model, prompt: 'Say hello.' }).textStream) process.stdout.write(piece);
console.log();

const weather = tool({
  description: 'Tells the weather of a city.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});
const asked = await generateText({ model, prompt: 'What is the weather in Bern?', tools: { weather }, stopWhen: stepCountIs(5) });
console.log(asked.text);

const schema = z.object({ city: z.string(), degrees: z.number() });
const { output } = await generateText({ model, prompt: 'How warm is it in Bern?', output: Output.object({ schema }) });
console.log(output);

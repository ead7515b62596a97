// An agent behind LangChain.js: a whole answer, a streamed one, a tool, an object.
import { tool } from '@langchain/core/tools';
import { HumanMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';

const model = new ChatOpenAI({
  model: process.env.AGENT, // an agent's id
  apiKey: process.env.AGENTD_KEY,
  configuration: { baseURL: `${process.env.AGENTD_URL}/v1` },
});

console.log((await model.invoke('Say hello.')).text);

for await (const chunk of await model.stream('Say hello.')) process.stdout.write(chunk.text);
console.log();

const weather = tool(({ city }) => `sunny in ${city}`, {
  name: 'weather',
  description: 'Tells the weather of a city.',
  schema: z.object({ city: z.string() }),
});
const messages = [new HumanMessage('What is the weather in Bern?')];
const call = await model.bindTools([weather]).invoke(messages);
messages.push(call);
for (const wanted of call.tool_calls) messages.push(await weather.invoke(wanted));
console.log((await model.bindTools([weather]).invoke(messages)).text);

const schema = z.object({ city: z.string(), degrees: z.number() });
const structured = model.withStructuredOutput(schema, { name: 'city', method: 'jsonSchema' });
console.log(await structured.invoke('How warm is it in Bern?'));

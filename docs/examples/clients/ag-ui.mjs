// An agent behind AG-UI: text, a tool of the page, and a state that both share.
import { HttpAgent } from '@ag-ui/client';

const agent = new HttpAgent({
  url: `${process.env.AGENTD_URL}/agui/agents/${process.env.AGENT}`, // an agent's id
  headers: { Authorization: `Bearer ${process.env.AGENTD_KEY}` }, // in a browser: a stream token
  threadId: crypto.randomUUID(), // the session's external_id
});
const say = (content) => agent.messages.push({ id: crypto.randomUUID(), role: 'user', content });
const last = () => agent.messages.at(-1);

say('Say hello.');
await agent.runAgent();
console.log(last().content);

const weather = {
  name: 'weather',
  description: 'Tells the weather of a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
say('What is the weather in Bern?');
await agent.runAgent({ tools: [weather] });
for (const call of last().toolCalls ?? []) {
  const { city } = JSON.parse(call.function.arguments);
  agent.messages.push({ id: crypto.randomUUID(), role: 'tool', toolCallId: call.id, content: `sunny in ${city}` });
}
await agent.runAgent({ tools: [weather] });
console.log(last().content);

agent.state = { city: 'Zurich' };
say('Set the city to Bern.');
await agent.runAgent();
console.log(agent.state);

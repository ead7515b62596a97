// A chat of the AI SDK without a page: useChat of React has the same methods.
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } from 'ai';

// What @ai-sdk/react keeps in React's state.
class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = (message) => this.messages.push(message);
  popMessage = () => this.messages.pop();
  replaceMessage = (index, message) => (this.messages[index] = message);
  snapshot = (value) => structuredClone(value);
}
class Chat extends AbstractChat {
  constructor(init) {
    super({ ...init, state: new State() });
  }
}

const chat = new Chat({
  transport: new DefaultChatTransport({
    api: `${process.env.AGENTD_URL}/api/v1/agents/${process.env.AGENT}/ui`, // an agent's id
    headers: { Authorization: `Bearer ${process.env.AGENTD_KEY}` }, // in a browser: a stream token
    body: {
      tools: {
        weather: {
          description: 'Tells the weather of a city.',
          inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
        },
      },
    },
  }),
  onToolCall({ toolCall }) {
    chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: `sunny in ${toolCall.input.city}` });
  },
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
  onFinish: ({ message }) => console.log(message.parts.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`)).join(' ')),
});

await chat.sendMessage({ text: 'What is the weather in Bern?' });

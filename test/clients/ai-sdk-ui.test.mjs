import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from 'ai';
import { careful, example, greeting, key, agent as helper, sunny, url } from './agentd.mjs';

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
  constructor(agent, init = {}) {
    super({
      transport: new DefaultChatTransport({ api: `${url}/api/v1/agents/${agent}/ui`, headers: { Authorization: `Bearer ${key}` }, body: init.body }),
      state: new State(), ...init,
    });
  }
  text = () => this.lastMessage.parts.filter((part) => part.type === 'text').map((part) => part.text).join('');
  // settled waits until nothing goes on by itself.
  async settled() {
    for (let quiet = 0; quiet < 5; ) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      quiet = this.status === 'ready' || this.status === 'error' ? quiet + 1 : 0;
    }
    assert.equal(this.error, undefined);
  }
}

const tools = { weather: { description: 'Tells the weather.', inputSchema: { type: 'object', properties: { city: { type: 'string' } } } } };

test('a conversation', async () => {
  const chat = new Chat(helper);
  await chat.sendMessage({ text: 'Hello' });
  assert.equal(chat.error, undefined);
  assert.equal(chat.text(), greeting);
  const run = chat.lastMessage.parts.find((part) => part.type === 'data-run');
  assert.equal(run.data.status, 'completed');
  assert.deepEqual(Object.keys(chat.lastMessage.parts.find((part) => part.type === 'data-usage').data).sort(), ['cost_usd', 'input_tokens', 'output_tokens']);
  await chat.sendMessage({ text: 'Hello again' });
  assert.equal(chat.messages.length, 4);
  await chat.regenerate();
  assert.equal(chat.error, undefined);
  assert.equal(chat.text(), greeting);
  await chat.resumeStream(); // nothing runs
  assert.equal(chat.error, undefined);
  assert.equal(chat.messages.length, 4);
});

test('a tool of the page', async () => {
  const chat = new Chat(helper, {
    body: { tools }, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall: ({ toolCall }) => void chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: `sunny in ${toolCall.input.city}` }),
  });
  await chat.sendMessage({ text: 'Weather?' });
  await chat.settled();
  assert.equal(chat.text(), sunny);
  assert.equal(chat.messages.length, 2);
});

for (const approved of [true, false]) {
  test(`an approval that is ${approved ? 'given' : 'refused'}`, async () => {
    const chat = new Chat(careful, { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await chat.sendMessage({ text: 'Reckon.' });
    const part = chat.lastMessage.parts.find((p) => p.type === 'tool-calculator');
    assert.equal(part.state, 'approval-requested');

    // A page that was loaded anew shows the message as far as it is.
    const other = new Chat(careful, { id: chat.id });
    await other.resumeStream();
    assert.equal(other.lastMessage.parts.find((p) => p.type === 'tool-calculator').state, 'approval-requested');

    await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: 'because' });
    await chat.settled();
    assert.equal(chat.lastMessage.parts.find((p) => p.type === 'tool-calculator').state, approved ? 'output-available' : 'output-denied');
    assert.match(chat.text(), /It is /);
    assert.equal(chat.messages.length, 2);
  });
}

test('a run that fails', async () => {
  const chat = new Chat(helper);
  await chat.sendMessage({ text: 'fail' });
  assert.match(chat.error.message, /./);
});

test('examples of the documentation', async () => {
  assert.match(await example('ai-sdk-ui.mjs'), new RegExp(`${sunny}`.replace('.', '\\.')));
});

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { Agentd, ConnectionError, FrameReader, NotFoundError, PermissionError, RateLimitError, StreamError, TenantSwitchedError, ValidationError } from '../dist/index.js';

const servers = [];
after(() => servers.forEach((s) => s.close()));

/** A server whose answers are functions, one for each request in turn; the last one stays. */
async function serve(...answers) {
  const seen = [];
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (d) => (body += d));
    req.on('end', () => {
      seen.push({ method: req.method, url: req.url, headers: req.headers, body });
      answers[Math.min(seen.length, answers.length) - 1](req, res);
    });
  });
  servers.push(server);
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const baseUrl = `http://127.0.0.1:${server.address().port}`;
  return { baseUrl, seen, agentd: (more = {}) => new Agentd({ baseUrl, apiKey: 'svc_key', maxDelay: 5, ...more }) };
}

const json = (status, body, headers = {}) => (_, res) => res.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body));
const cut = (_, res) => res.destroy();

test('requests carry the key, the company, the path, the query and the body', async () => {
  const s = await serve(json(201, { agent_id: 'a' }), json(200, { items: [], has_more: false, cursor: null }));
  const agentd = s.agentd({ baseUrl: `${s.baseUrl}/team/`, tenantId: 't1' });
  assert.deepEqual(await agentd.post('/api/v1/agents', { body: { name: 'x' } }), { agent_id: 'a' });
  await agentd.get('/api/v1/runs', { params: { query: { status: 'failed', limit: 2 } } });
  assert.equal(s.seen[0].url, '/team/api/v1/agents');
  assert.equal(s.seen[0].headers.authorization, 'Bearer svc_key');
  assert.equal(s.seen[0].headers['x-tenant-id'], 't1');
  assert.equal(s.seen[0].body, '{"name":"x"}');
  assert.equal(s.seen[1].url, '/team/api/v1/runs?status=failed&limit=2');
  assert.equal(s.seen[1].headers['idempotency-key'], undefined);
});

test('a write is repeated with the same key and body until it is answered', async () => {
  const s = await serve(cut, json(503, {}), json(202, { in_progress: true }, { 'Retry-After': '0' }), json(201, { agent_id: 'a' }));
  assert.deepEqual(await s.agentd().post('/api/v1/agents', { body: { name: 'x' } }), { agent_id: 'a' });
  assert.equal(s.seen.length, 4);
  const keys = new Set(s.seen.map((r) => r.headers['idempotency-key']));
  assert.equal(keys.size, 1);
  assert.match([...keys][0], /^[0-9a-f]{32}$/);
  assert.ok(s.seen.every((r) => r.body === '{"name":"x"}'));
});

test('what the server would refuse again is not repeated', async () => {
  for (const [answer, kind] of [
    [json(404, { code: 'NOT_FOUND', detail: 'No.' }), NotFoundError],
    [json(403, { code: 'FORBIDDEN', detail: 'No.' }), PermissionError],
    [json(409, { code: 'TENANT_SWITCHED', detail: 'No.' }, { 'X-Should-Retry': 'false' }), TenantSwitchedError],
    [json(422, { code: 'VALIDATION_ERROR', detail: 'No.', errors: [{ field: 'name', message: 'required', pointer: '/name' }] }), ValidationError],
  ]) {
    const s = await serve(answer);
    await assert.rejects(s.agentd().post('/api/v1/agents', { body: { name: '' } }), (e) => {
      assert.ok(e instanceof kind, `${e.name} is no ${kind.name}`);
      assert.equal(e.message, 'No.');
      if (kind === ValidationError) assert.deepEqual(e.fields[0].pointer, '/name');
      return true;
    });
    assert.equal(s.seen.length, 1);
  }
});

test('tries end, with what was answered last', async () => {
  const busy = await serve(json(429, { code: 'RATE_LIMITED', detail: 'Slower.' }, { 'Retry-After': '0' }));
  await assert.rejects(busy.agentd({ retries: 2 }).get('/api/v1/me'), RateLimitError);
  assert.equal(busy.seen.length, 3);
  const gone = await serve(cut);
  await assert.rejects(gone.agentd({ retries: 1 }).get('/api/v1/me'), ConnectionError);
  assert.equal(gone.seen.length, 2);
});

test('lists are read page by page', async () => {
  const s = await serve(json(200, { items: [1, 2], has_more: true, cursor: 'next' }), json(200, { items: [3], has_more: false, cursor: null }));
  const rows = [];
  for await (const row of s.agentd().list('/api/v1/runs', { params: { query: { limit: 2 } } })) rows.push(row);
  assert.deepEqual(rows, [1, 2, 3]);
  assert.equal(s.seen[1].url, '/api/v1/runs?limit=2&cursor=next');
});

const frame = (id, event, data) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify({ event, ...data })}\n\n`;
const stream = (...frames) => (_, res) => {
  res.writeHead(200, { 'Content-Type': 'text/event-stream' });
  res.write('retry: 1\n\n');
  for (const f of frames) if (f === cut) return setTimeout(() => res.destroy(), 20);
  else res.write(f);
  res.end();
};

test('a stream that breaks goes on after the last id', async () => {
  const s = await serve(
    stream(frame(1, 'llm.chunk', { text: 'a' }), frame(2, 'llm.chunk', { text: 'b' }), cut),
    json(503, {}),
    stream(frame(3, 'llm.chunk', { text: 'c' }), ': ping\n\n', frame(4, 'done', { status: 'completed' }), 'data: [DONE]\n\n'),
  );
  const got = [];
  const states = [];
  for await (const e of s.agentd().stream('/api/v1/runs/{runId}/events', { params: { path: { runId: 'r/1' } }, onState: (x) => states.push(x) })) got.push([e.id, e.data.text ?? e.data.status]);
  assert.deepEqual(got, [['1', 'a'], ['2', 'b'], ['3', 'c'], ['4', 'completed']]);
  assert.deepEqual(s.seen.map((r) => r.headers['last-event-id']), [undefined, '2', '2']);
  assert.equal(s.seen[0].url, '/api/v1/runs/r%2F1/events');
  assert.deepEqual(states, ['open', 'lost', 'lost', 'open']);
});

test('a stream about many things goes on after the end of one of them', async () => {
  const frames = ['done', 'changed'].map((event, i) => `id: ${i}\nevent: ${event}\ndata: ${JSON.stringify({ event })}\n\n`).join('');
  const s = await serve((_, res) => res.writeHead(200, { 'Content-Type': 'text/event-stream' }).end(frames), json(404, {}));
  const seen = [];
  await assert.rejects(async () => {
    for await (const { event } of s.agentd().stream('/api/v1/changes/stream', { endless: true })) seen.push(event);
  }, NotFoundError);
  assert.deepEqual(seen, ['done', 'changed']);
});

test('a stream says why it is refused, gives up, and ends when it is told', async () => {
  const refused = await serve(json(404, { code: 'NOT_FOUND', detail: 'No.' }));
  await assert.rejects(refused.agentd().stream('/api/v1/runs/{runId}/events', { params: { path: { runId: 'x' } } }).next(), NotFoundError);
  const silent = await serve((_, res) => res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('retry: 1\n\n'));
  await assert.rejects(silent.agentd().stream('/api/v1/runs/{runId}/events', { params: { path: { runId: 'x' } }, silence: 30, retries: 1 }).next(), StreamError);
  assert.equal(silent.seen.length, 2);
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 30);
  const ended = await silent.agentd().stream('/api/v1/runs/{runId}/events', { params: { path: { runId: 'x' } }, signal: stop.signal }).next();
  assert.equal(ended.done, true);
});

test('frames are read however they are cut', () => {
  const text = ': c\r\nid: 1\r\nevent: a\r\ndata: x\r\ndata: y\r\n\r\ndata:z\n\nevent: none\n\nid: 2\rdata: ü\r\r';
  for (let size = 1; size <= text.length; size++) {
    const reader = new FrameReader();
    const got = [];
    for (let i = 0; i < text.length; i += size) got.push(...reader.push(text.slice(i, i + size)));
    got.push(...reader.push('\n'));
    assert.deepEqual(got, [
      { id: '1', event: 'a', data: 'x\ny' },
      { id: '1', event: 'message', data: 'z' },
      { id: '2', event: 'message', data: 'ü' },
    ]);
  }
});

test('against agentd', { skip: !process.env.AGENTD_URL || !process.env.AGENTD_KEY }, async () => {
  const agentd = new Agentd({ baseUrl: process.env.AGENTD_URL, apiKey: process.env.AGENTD_KEY });
  const agent = await agentd.post('/api/v1/agents', { body: { name: 'client test' } });
  const run = await agentd.post('/api/v1/runs', { body: { agent_id: agent.agent_id, input: { message: 'slowly: one two three' } } });
  let text = '';
  let status = '';
  for await (const { data } of agentd.stream('/api/v1/runs/{runId}/events', { params: { path: { runId: run.run_id } } })) {
    if (data.event === 'llm.chunk') text += data.text;
    if (data.event === 'done') status = data.status;
  }
  assert.match(text, /one two three/);
  assert.equal(status, 'completed');
  await agentd.delete('/api/v1/agents/{agentId}', { params: { path: { agentId: agent.agent_id } } });
  await assert.rejects(agentd.get('/api/v1/agents/{agentId}', { params: { path: { agentId: agent.agent_id } } }), NotFoundError);
});

// What happens elsewhere is seen in an open tab: by the change stream, and by asking again where it
// is refused.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { api, broken, launch, signedIn, url } from './harness.mjs';

let browser;
let context;
let page;
let agent;
const asked = [];

const start = (message) => api('POST', '/api/v1/runs', { agent_id: agent.agent_id, input: { message } });

before(async () => {
  browser = await launch();
  agent = await api('POST', '/api/v1/agents', { name: 'Elsewhere', built_in_tools: ['calculator'], approval_required_tools: ['calculator'] });
  await start('say: the first');
  ({ context, page } = await signedIn(browser));
  page.on('request', (r) => new URL(r.url()).pathname.startsWith('/api/') && asked.push(`${r.method()} ${new URL(r.url()).pathname}`));
});
after(async () => {
  await context?.close();
  await browser?.close();
});

/** Waits until a page has what it shows, and the stream is open. */
async function settled(p) {
  await p.waitForLoadState('load');
  for (let before = -1; before !== asked.length; ) {
    before = asked.length;
    await p.waitForTimeout(1500);
  }
}

test('a run that is started elsewhere appears, and nothing is asked for meanwhile', async () => {
  await settled(page); // the page after the sign-in has a stream of its own
  asked.length = 0;
  await page.goto(`${url}/runs`);
  await page.waitForSelector('td:has-text("the first")');
  await settled(page);
  assert.equal(asked.filter((a) => a.endsWith('/changes/stream')).length, 1, asked.join('\n'));
  asked.length = 0;
  await page.waitForTimeout(7000); // longer than pages waited before they asked again
  assert.deepEqual(asked, []);
  await start('say: seen at once');
  await page.waitForSelector('tr:has-text("seen at once"):has-text("Completed")', { timeout: 20_000 });
  await page.waitForTimeout(1000);
  assert.deepEqual(asked, [], 'the row came with the stream');
});

test('badges, filtered lists and the inbox follow', async () => {
  await page.goto(`${url}/runs?status=awaiting_approval`);
  await page.waitForSelector('h2:has-text("No run matches")');
  await settled(page);
  asked.length = 0;
  const run = await start('call calculator {"expression": "3*4"}');
  await page.waitForSelector('td:has-text("3*4")', { timeout: 20_000 });
  await page.waitForSelector('.nav .c.hot:has-text("1")', { timeout: 20_000 });
  await page.click('nav.side a:has-text("Inbox")');
  await page.waitForSelector('h2:has-text("Allow calculator with 3*4?")');
  const [approval] = (await api('GET', `/api/v1/runs/${run.run_id}`)).pending_approvals;
  await api('POST', `/api/v1/runs/${run.run_id}/approve`, { approval_id: approval.approval_id });
  await page.waitForSelector('text=Nothing is waiting', { timeout: 20_000 });
  await page.waitForSelector('.nav .c.hot', { state: 'detached', timeout: 20_000 });
});

test('the run that is open shows its steps as they happen, and its end', async () => {
  const run = await start('call calculator {"expression": "5*5"}');
  await page.goto(`${url}/runs/${run.run_id}`);
  await page.waitForSelector('.appr:has-text("5*5")');
  await settled(page);
  asked.length = 0;
  await page.waitForTimeout(4000);
  assert.deepEqual(asked, []);
  const [approval] = (await api('GET', `/api/v1/runs/${run.run_id}`)).pending_approvals;
  await api('POST', `/api/v1/runs/${run.run_id}/approve`, { approval_id: approval.approval_id });
  await page.waitForSelector('.st:has-text("Completed")', { timeout: 20_000 });
  await page.waitForSelector('.wfr:has-text("calculator")', { timeout: 20_000 });
  await page.waitForFunction(() => document.querySelectorAll('.wfr:not(.hd)').length >= 3, undefined, { timeout: 20_000 });
});

test('a conversation that goes on elsewhere goes on here', async () => {
  const session = await api('POST', '/api/v1/sessions', { agent_id: agent.agent_id });
  await api('POST', `/api/v1/sessions/${session.session_id}/messages`, { content: 'say: one' });
  await page.goto(`${url}/chat/${session.session_id}`);
  await page.waitForSelector('.md:has-text("one")');
  await settled(page);
  asked.length = 0;
  await page.waitForTimeout(3500);
  assert.deepEqual(asked, []);
  await api('POST', `/api/v1/sessions/${session.session_id}/messages`, { content: 'say: two comes from elsewhere' });
  await page.waitForSelector('.md:has-text("two comes from elsewhere")', { timeout: 20_000 });
});

test('where the stream is refused, pages ask again', async () => {
  const other = await context.newPage();
  await other.route('**/changes/stream**', (r) => r.fulfill({ status: 403, contentType: 'application/problem+json', body: '{"title":"Forbidden","status":403,"detail":"no"}' }));
  await other.goto(`${url}/runs`);
  await other.waitForSelector('td:has-text("the first")');
  await other.waitForTimeout(500);
  await start('say: found by asking');
  await other.waitForSelector('td:has-text("found by asking")', { timeout: 30_000 });
  await other.close();
});

test('a stream that breaks is resumed after its last id, and a gap loads the lists anew', async () => {
  const other = await context.newPage();
  const ids = [];
  let lists = 0;
  const frame = (id, data) => `${id ? `id: ${id}\n` : ''}event: ${data.event}\ndata: ${JSON.stringify(data)}\n\n`;
  await other.route('**/changes/stream**', async (r) => {
    ids.push((await r.request().allHeaders())['last-event-id'] ?? '');
    const at = new Date().toISOString();
    const ready = frame('', { event: 'ready', last_event_id: 'x', kinds: ['run'], timestamp: at });
    const bodies = [
      `retry: 200\n\n${ready}${frame('7-a', { event: 'changed', kind: 'agent', id: 'none', op: 'deleted', at })}`,
      ready + frame('8-a', { event: 'gap', last_event_id: '8-a', timestamp: at }),
    ];
    if (ids.length > bodies.length) return r.fulfill({ status: 403, contentType: 'application/problem+json', body: '{"status":403,"title":"Forbidden"}' });
    return r.fulfill({ status: 200, contentType: 'text/event-stream', body: bodies[ids.length - 1] });
  });
  other.on('request', (r) => new URL(r.url()).pathname === '/api/v1/runs' && new URL(r.url()).search.includes('limit=50') && lists++);
  await other.goto(`${url}/runs`);
  await other.waitForSelector('td:has-text("the first")');
  await other.waitForFunction(() => performance.getEntriesByType('resource').filter((e) => e.name.includes('/changes/stream')).length >= 2, undefined, { timeout: 10_000 }).catch(() => undefined);
  for (let i = 0; i < 50 && (ids.length < 3 || lists < 2); i++) await other.waitForTimeout(100);
  assert.deepEqual(ids.slice(0, 3), ['', '7-a', '8-a']);
  assert.ok(lists >= 2, `the list was asked for ${lists} times`);
  await other.close();
});

test('no script failed, and nothing was asked of another server', () => {
  assert.deepEqual(broken, []);
});

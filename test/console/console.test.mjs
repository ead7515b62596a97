// The console in a browser: from the first agent on. Pictures of every page in both themes go to
// SHOTS, if that is set.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { api, broken, inspect, key, launch, picture, signedIn as signIn, url } from './harness.mjs';

let browser;
let context;
let page;
const signedIn = (as, options) => signIn(browser, as, options);

before(async () => {
  browser = await launch();
  ({ context, page } = await signedIn());
});
after(async () => {
  await context?.close();
  await browser?.close();
});

test('a wrong key is refused kindly', async () => {
  const c = await browser.newContext();
  const p = await c.newPage();
  await p.goto(`${url}/signin/key`);
  await p.fill('#key', 'svc_aaaaaaaa_0123456789abcdefghijklmnopqrstuv');
  await p.click('button:has-text("Sign in")');
  assert.match(await p.textContent('[role=alert]'), /not a valid key/);
  await c.close();
});

test('the first agent is three clicks away, and answers', async () => {
  await page.goto(`${url}/agents`);
  await page.click('button:has-text("Create the echo agent")');
  await page.waitForURL('**/chat?agent=*');
  await page.click('.chip:has-text("What is 6*7?")');
  await page.waitForURL('**/chat/*');
  await page.waitForSelector('.msg .md:has-text("42")');
  await page.click('.step:has-text("calculator")');
  await page.waitForSelector('.body .code:has-text("42")');
});

test('text streams, and goes on after a reload', async () => {
  const words = Array.from({ length: 40 }, (_, i) => `word${i}`).join(' ');
  await page.fill('.comp textarea', `slowly: ${words}`);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.md.live:has-text("word3")');
  const early = await page.textContent('.md.live');
  assert.ok(!early.includes('word39'), `the text was there at once: ${early}`);
  await page.reload();
  await page.waitForSelector('.md:has-text("word20")');
  await page.waitForSelector('.md:not(.live):has-text("word39")');
  const text = (await page.locator('.md').last().textContent()).match(/word\d+/g);
  assert.deepEqual(text, words.split(' '), 'no word is missing, and none came twice');
  assert.equal(await page.locator('.md.live').count(), 0);
});

test('a call is approved from the inbox by keyboard', async () => {
  const agent = await api('POST', '/api/v1/agents', { name: 'Careful', built_in_tools: ['calculator', 'ask_user'], approval_required_tools: ['calculator'] });
  const run = await api('POST', '/api/v1/runs', { agent_id: agent.agent_id, input: { message: 'call calculator {"expression": "180*1.25"}' } });
  const asks = await api('POST', '/api/v1/runs', { agent_id: agent.agent_id, input: { message: 'call ask_user {"question": "Which depot?"}' } });
  await page.waitForSelector('.nav .c.hot:has-text("2")', { timeout: 20_000 }); // the badge, on another page
  await page.keyboard.press('Escape');
  await page.locator('body').click({ position: { x: 1300, y: 600 } });
  await page.keyboard.press('g');
  await page.keyboard.press('i');
  await page.waitForSelector('h2:has-text("Allow calculator with 180*1.25?")');
  await page.waitForSelector('.args dd:has-text("180*1.25")');
  await page.keyboard.press('a');
  await page.click('button:has-text("Send now")');
  await page.waitForSelector('h2:has-text("Which depot?")');
  assert.equal((await api('GET', `/api/v1/runs/${run.run_id}/wait?timeout_sec=20`)).status, 'completed');
  await page.fill('.appr textarea', 'The second one');
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=Nothing is waiting');
  assert.equal((await api('GET', `/api/v1/runs/${asks.run_id}/wait?timeout_sec=20`)).status, 'completed');
});

test('an approval that was taken back still waits', async () => {
  const [agent] = (await api('GET', '/api/v1/agents?q=Careful')).items;
  const run = await api('POST', '/api/v1/runs', { agent_id: agent.agent_id, input: { message: 'call calculator {"expression": "1+1"}' } });
  await page.waitForSelector('.args dd:has-text("1+1")');
  await page.keyboard.press('a');
  await page.keyboard.press('u');
  await page.waitForSelector('.decide button:has-text("Approve")');
  assert.equal((await api('GET', `/api/v1/runs/${run.run_id}`)).status, 'awaiting_approval');
  await page.keyboard.press('r');
  await page.fill('form input.in', 'too small');
  await page.click('button:has-text("Reject and end the run")');
  const ended = await api('GET', `/api/v1/runs/${run.run_id}/wait?timeout_sec=20`);
  assert.equal(ended.status, 'rejected');
  assert.match(ended.error, /too small/);
});

test('a failed run is explained, and forked', async () => {
  const [agent] = (await api('GET', '/api/v1/agents?q=Echo')).items;
  const run = await api('POST', '/api/v1/runs', { agent_id: agent.agent_id, input: { message: 'fail: 400' } });
  await api('GET', `/api/v1/runs/${run.run_id}/wait?timeout_sec=20`);
  await page.goto(`${url}/runs?status=failed`);
  await page.click(`a[href$="${run.run_id}"]`);
  await page.waitForSelector('.note h2:has-text("The model did not answer")');
  assert.equal(await page.locator('.note .btn.p').textContent().then((t) => /Continue from step 1/.test(t)), true);
  await page.click('.note button:has-text("Fork")');
  await page.fill('dialog textarea', 'say: all is well');
  await page.click('dialog button[type=submit]');
  await page.waitForURL((u) => !u.pathname.endsWith(run.run_id));
  await page.waitForSelector('.st:has-text("Completed")');
  await page.click('nav.tabs a:has-text("Input and output")');
  await page.waitForSelector('.md:has-text("all is well")');
  assert.ok(await page.locator('.facts:has-text("Forked from")').count());
});

test('a version is saved, compared and taken back', async () => {
  const [agent] = (await api('GET', '/api/v1/agents?q=Echo')).items;
  await page.goto(`${url}/agents/${agent.agent_id}`);
  const name = page.locator('form input.in').first();
  await name.waitFor();
  await name.fill('Echo two');
  await page.click('button:has-text("Save as v2")');
  await page.waitForSelector('h1:has-text("Echo two")');
  await page.click('nav.tabs a:has-text("Versions")');
  await page.waitForSelector('.code .ins:has-text("Echo two")');
  await page.click('button.lnk:has-text("v1")');
  await page.click('button:has-text("Go back to v1")');
  await page.click('dialog button:has-text("Go back to v1")');
  await page.waitForSelector('h1:text-is("Echo")');
});

test('a key is made, shown once, and revoked', async () => {
  await page.goto(`${url}/settings/keys`);
  await page.click('button:has-text("New key")');
  await page.fill('dialog input.in >> nth=0', 'for a test');
  await page.click('dialog button:has-text("Create")');
  const secret = await page.inputValue('dialog input[data-secret]');
  assert.match(secret, /^svc_/);
  assert.ok((await api('GET', '/api/v1/me', undefined, secret)).tenant);
  await page.click('dialog button:has-text("I have stored it")');
  await page.click('td a:has-text("for a test")');
  await page.click('aside button:has-text("Revoke")');
  await page.click('dialog button:has-text("Revoke")');
  await page.waitForSelector('text=for a test is gone');
  await assert.rejects(api('GET', '/api/v1/me', undefined, secret), /401/);
});

test('a webhook is made, tested and redelivered', async () => {
  await page.goto(`${url}/settings/webhooks`);
  const hook = await api('POST', '/api/v1/webhooks', { url: 'https://example.com/hook', events: ['run.completed'] });
  await api('POST', `/api/v1/webhooks/${hook.webhook_id}/test`, {});
  await page.goto(`${url}/settings/webhooks/${hook.webhook_id}`);
  await page.click('td a.mono');
  await page.waitForSelector('aside h3:has-text("What was sent")');
  await page.click('button:has-text("Redeliver")');
  await page.waitForSelector('text=It is sent again');
  await api('DELETE', `/api/v1/webhooks/${hook.webhook_id}`);
});

test('a rule is simulated before it holds', async () => {
  await page.goto(`${url}/governance`);
  await page.click('button:has-text("No payment above 100")');
  await page.waitForSelector('.gov fieldset .fl');
  await page.click('button:has-text("Simulate")');
  await page.waitForSelector('text=replayed');
  await page.click('button:has-text("Publish as v1")');
  await page.waitForSelector('.gov .it:has-text("No payment above 100")');
  assert.equal((await api('GET', '/api/v1/governance/constitution')).rules.length, 1);
});

test('the palette finds things and runs commands', async () => {
  await page.goto(`${url}/overview`);
  await page.waitForSelector('.stats');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('Careful');
  await page.waitForSelector('dialog.pal [role=option]:has-text("Careful")');
  await page.keyboard.press('Enter');
  await page.waitForSelector('h1:has-text("Careful")');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog:has-text("Shortcuts")');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'detached' });
});

test('a tab whose key was revoked says so, and a role that is too low too', async () => {
  const made = await api('POST', '/api/v1/tenants/me/keys', { name: 'short', scopes: ['agents:read', 'runs:read', 'sessions:read'] });
  const other = await signedIn(made.raw_key);
  await other.page.goto(`${url}/settings/audit`);
  await other.page.waitForSelector('text=Your role does not allow this');
  await api('DELETE', `/api/v1/tenants/me/keys/${made.key_id}`);
  await other.page.waitForSelector('dialog:has-text("You were signed out")', { timeout: 30_000 });
  await other.context.close();
});

test('two tabs show the same conversation', async () => {
  const [session] = (await api('GET', '/api/v1/sessions')).items;
  await page.goto(`${url}/chat/${session.session_id}`);
  const other = await context.newPage();
  await other.goto(`${url}/chat/${session.session_id}`);
  await other.waitForSelector('.msg');
  await page.fill('.comp textarea', 'say: seen in both tabs');
  await page.keyboard.press('Enter');
  await other.waitForSelector('.md:has-text("seen in both tabs")');
  await other.close();
});

test('a lost server is said in one line, and the page stays', async () => {
  await page.goto(`${url}/agents`);
  await page.waitForSelector('td a:has-text("Careful")');
  try {
    await context.setOffline(true);
    await page.waitForSelector('.off:has-text("No connection")');
    assert.ok(await page.locator('td a:has-text("Careful")').count());
  } finally {
    await context.setOffline(false);
  }
  await page.waitForSelector('.off', { state: 'detached', timeout: 20_000 });
});

const pages = [
  'overview', 'inbox', 'chat', 'runs', 'agents', 'teams', 'library', 'library/files', 'library/workspaces', 'library/memory', 'governance', 'governance/ledger', 'governance/votes',
  'settings', 'settings/members', 'settings/keys', 'settings/usage', 'settings/audit', 'settings/webhooks', 'settings/mcp', 'settings/models', 'settings/guardrails', 'reference/createRun',
];

test('every page is free of serious findings of axe, in both themes', async () => {
  const session = (await api('GET', '/api/v1/sessions')).items[0].session_id;
  const run = (await api('GET', '/api/v1/runs?status=failed')).items[0].run_id;
  const agent = (await api('GET', '/api/v1/agents')).items[0].agent_id;
  const all = [...pages, `chat/${session}`, `runs/${run}`, `runs/${run}?tab=events`, `agents/${agent}`, `agents/${agent}/versions`];
  assert.deepEqual(await inspect(page, all), []);
});

test('nothing overflows on a phone', async () => {
  const phone = await signedIn(key, { viewport: { width: 390, height: 844 }, hasTouch: true });
  for (const path of ['overview', 'inbox', 'chat', 'runs', 'agents', 'settings/keys']) {
    await phone.page.goto(`${url}/${path}`);
    await phone.page.waitForSelector('h1');
    await phone.page.waitForTimeout(300);
    const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${path} is ${wide} wide`);
    await picture(phone.page, `${path}-390`);
  }
  await phone.context.close();
});

test('it works below a path prefix', { skip: !process.env.PREFIXED }, async () => {
  const at = process.env.PREFIXED;
  const c = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const p = await c.newPage();
  p.on('pageerror', (e) => broken.push(e.stack ?? e.message));
  p.on('request', (r) => !r.url().startsWith(`${at}/`) && broken.push(`asked for ${r.url()}`));
  await p.goto(`${at}/agents`);
  await p.waitForURL(`${at}/signin?**`);
  await p.click('text=Use an API key');
  await p.fill('#key', key);
  await p.click('button:has-text("Sign in")');
  await p.waitForURL(`${at}/agents`);
  await p.click('button:has-text("Create the echo agent")');
  await p.click('.chip:has-text("What is 6*7?")');
  await p.waitForURL(`${at}/chat/*`);
  await p.waitForSelector('.msg .md:has-text("42")');
  await c.close();
});

test('the first paint is fast, and a run of thousands of events scrolls', async () => {
  const fresh = await signedIn();
  await fresh.page.goto(`${url}/agents`);
  await fresh.page.waitForSelector('td a');
  const paint = await fresh.page.evaluate(() => performance.getEntriesByType('paint').find((e) => e.name === 'first-contentful-paint').startTime);
  assert.ok(paint < 3000, `the first paint took ${paint} ms`);
  const [agent] = (await api('GET', '/api/v1/agents?q=Echo')).items;
  const run = await api('POST', '/api/v1/runs', { agent_id: agent.agent_id, input: { message: `say: ${'word '.repeat(4000)}` } });
  await api('GET', `/api/v1/runs/${run.run_id}/wait?timeout_sec=30`);
  await fresh.page.goto(`${url}/runs/${run.run_id}?tab=events`);
  await fresh.page.waitForSelector('.evr');
  const rows = await fresh.page.locator('.evr').count();
  assert.ok(rows < 200, `${rows} rows stand in the page at once`);
  await fresh.context.close();
});

test('no script failed, and nothing was asked of another server', () => {
  assert.deepEqual(broken, []);
});

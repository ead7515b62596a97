// Runs are compared, messages changed, models switched, and pages pinned.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { api, broken, inspect, launch, signedIn, url } from './harness.mjs';

let browser;
let context;
let page;
let agent;

before(async () => {
  browser = await launch();
  agent = await api('POST', '/api/v1/agents', { name: 'Twice', built_in_tools: ['calculator'] });
  ({ context, page } = await signedIn(browser));
});
after(async () => {
  await context?.close();
  await browser?.close();
});

const run = async (message) => {
  const made = await api('POST', '/api/v1/runs', { agent_id: agent.agent_id, input: { message } });
  return (await api('GET', `/api/v1/runs/${made.run_id}/wait?timeout_sec=30`)).run_id;
};

test('two runs are compared side by side', async () => {
  const first = await run('call calculator {"expression": "1+1"}');
  const second = await run('say: something else');
  await page.goto(`${url}/runs/${first}`);
  await page.click('.ph button[aria-haspopup=menu]');
  await page.click('[role=menuitem]:has-text("Compare with another run")');
  await page.click('dialog .nav:has-text("something else")');
  await page.waitForURL(`**/runs/${first}/compare/${second}`);
  await page.waitForSelector('.note:has-text("differ first at step")');
  await page.waitForSelector('.code .ins:has-text("something else")');
  assert.ok((await page.locator('tr[data-differs]').count()) >= 1);
  assert.deepEqual(await inspect(page, [`runs/${first}/compare/${second}`]), []);
});

test('what a run was to reach is shown, with each verdict', async () => {
  const outcome = { criteria: [{ name: 'polite', description: 'It says "please".' }] };
  const judged = async (more) => {
    const made = await api('POST', '/api/v1/runs', { agent_id: agent.agent_id, input: { message: 'Ask for the salt.' }, outcome: { ...outcome, ...more } });
    return (await api('GET', `/api/v1/runs/${made.run_id}/wait?timeout_sec=30`)).run_id;
  };
  await page.goto(`${url}/runs/${await judged({ max_iterations: 1 })}`);
  await page.waitForSelector('.note:has-text("The outcome was not reached")');
  const id = await judged({});
  await page.goto(`${url}/runs/${id}?tab=outcome`);
  await page.waitForSelector('.io .st:has-text("Reached")');
  assert.equal(await page.locator('th:has-text("Judged")').count(), 2);
  assert.deepEqual(await inspect(page, [`runs/${id}?tab=outcome`]), []);
  await page.click('th a:has-text("Judged 1")');
  await page.waitForSelector('aside:has-text("What the agent was told")');
});

test('a changed message makes a branch, also the first one, and one goes between them', async () => {
  const session = await api('POST', '/api/v1/sessions', { agent_id: agent.agent_id });
  for (const word of ['one', 'two']) {
    const { run_id } = await api('POST', `/api/v1/sessions/${session.session_id}/messages`, { content: `say: ${word}` });
    await api('GET', `/api/v1/runs/${run_id}/wait?timeout_sec=30`);
  }
  const change = async (n, text) => {
    await page.locator('button[aria-label="Change this message"]').nth(n).click();
    await page.fill('.msg form textarea', text);
    await page.click('.msg form button[type=submit]');
  };
  const versions = page.locator('[role=group][aria-label="Versions of this message"]');
  await page.goto(`${url}/chat/${session.session_id}`);
  await page.waitForSelector('.md:has-text("two")');
  assert.equal(await versions.count(), 0);
  await change(1, 'say: three');
  await page.waitForSelector('.md:has-text("three")');
  assert.equal(await page.locator('.md:has-text("two")').count(), 0);
  assert.ok(await page.locator('.md:has-text("one")').count());
  assert.equal((await api('GET', `/api/v1/sessions/${session.session_id}`)).branches.length, 2);
  await page.waitForSelector('.vers:has-text("2/2")');
  await page.click('button[aria-label="Version before"]');
  await page.waitForSelector('.md:has-text("two")');
  await page.waitForSelector('.vers:has-text("1/2")');
  assert.equal(await page.locator('.md:has-text("three")').count(), 0);
  await change(0, 'say: anew');
  await page.waitForSelector('.md:has-text("anew")');
  assert.equal(await page.locator('.md').count(), 1);
  await page.click('button:has-text("Answer anew")');
  await page.waitForSelector('.vers:has-text("3/3")');
  await page.click('button[aria-label="Version before"]');
  await page.waitForSelector('.vers:has-text("2/3")');
  await page.waitForFunction(() => !document.querySelector('main [aria-busy=true]'));
  await page.click('button[aria-label="Version before"]');
  await page.waitForSelector('.vers:has-text("1/3")');
  await page.waitForSelector('.md:has-text("one")');
  assert.equal((await api('GET', `/api/v1/sessions/${session.session_id}`)).branches.length, 4);
  assert.deepEqual(await inspect(page, [`chat/${session.session_id}`]), []);
});

test('a file of a workspace is added, deleted, and restored from the trash', async () => {
  const workspace = await api('POST', '/api/v1/workspaces', { name: 'Desk' });
  const person = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const [name, value] = process.env.AGENTD_COOKIE.split('=');
  await person.addCookies([{ name, value, url }]);
  const p = await person.newPage();
  await p.goto(`${url}/library/workspaces/${workspace.workspace_id}`);
  await p.setInputFiles('input[aria-label="Add files"]', { name: 'plan.md', mimeType: 'text/markdown', buffer: Buffer.from('# Plan') });
  await p.click('button[aria-label="Delete plan.md"]');
  await p.click('dialog footer button:has-text("Delete")');
  await p.waitForSelector('text=Nothing is in here');
  await p.click('nav.tabs a:has-text("Trash")');
  await p.waitForSelector('td:has-text("plan.md")');
  assert.deepEqual(await inspect(p, ['library/trash']), []);
  await p.click('button:has-text("Restore")');
  await p.waitForSelector('text=The trash is empty');
  assert.equal((await api('GET', `/api/v1/workspaces/${workspace.workspace_id}/files`)).files[0].path, 'plan.md');
  await person.close();
  await page.goto(`${url}/library/trash`); // a key has none
  await page.waitForSelector('text=The trash is for people');
});

test('the model of the next turn is switched, and back', async () => {
  const session = await api('POST', '/api/v1/sessions', { agent_id: agent.agent_id });
  await page.goto(`${url}/chat/${session.session_id}`);
  await page.getByLabel('Model of the next turn').selectOption('builtin/echo');
  await page.waitForSelector('text=The next turn asks builtin/echo');
  assert.equal((await api('GET', `/api/v1/sessions/${session.session_id}`)).model_override.model_ref, 'builtin/echo');
  await page.getByLabel('Model of the next turn').selectOption('');
  await page.waitForSelector('text=The next turn asks the model of the agent');
  assert.equal((await api('GET', `/api/v1/sessions/${session.session_id}`)).model_override, null);
});

test('a view of a list is pinned with its filters, by keyboard', async () => {
  await page.goto(`${url}/runs?status=completed`);
  await page.waitForSelector('td:has-text("something else")');
  await page.keyboard.press('p');
  await page.fill('dialog input', 'What is done');
  await page.keyboard.press('Enter');
  await page.waitForSelector('nav.side a:has-text("What is done")');
  await page.goto(`${url}/overview`);
  await page.click('nav.side a:has-text("What is done")');
  await page.waitForURL('**/runs?status=completed');
  await page.waitForSelector('button[aria-label="Take the pin away"][aria-pressed=true]');
  assert.deepEqual(await inspect(page, ['runs?status=completed']), []);
  await page.click('button[aria-label="Take the pin away"]');
  await page.waitForSelector('nav.side a:has-text("What is done")', { state: 'detached' });
});

test('no script failed, and nothing was asked of another server', () => {
  assert.deepEqual(broken, []);
});

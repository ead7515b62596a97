// The areas beside runs and chats: missions, initiatives, integrations, machines, visitors, the
// operator's settings.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { api, broken, inspect, key, launch, picture, signedIn, url } from './harness.mjs';

let browser;
let context;
let page;
let worker;

before(async () => {
  browser = await launch();
  worker = await api('POST', '/api/v1/agents', { name: 'Worker', visibility: 'public', description: 'Does what is planned.' });
  ({ context, page } = await signedIn(browser));
});
after(async () => {
  await context?.close();
  await browser?.close();
});

/** A mission whose plan waits for a person. */
async function planned() {
  const session = await api('POST', '/api/v1/sessions', { agent_id: worker.agent_id });
  return api('POST', '/api/v1/missions', {
    session_id: session.session_id,
    goal: 'A garden',
    plan: {
      requires_authorization: true,
      objectives: [{ title: 'Dig', priority: 'high' }, { title: 'Sow', depends_on_indices: [0] }, { title: 'Fence' }, { title: 'Water', depends_on_indices: [1, 2], budget: { max_cost_usd: 2 } }],
    },
  });
}

test('a mission is looked at, authorised, and followed to its end', async () => {
  const made = await planned();
  await page.goto(`${url}/missions`);
  await page.click('td a:has-text("A garden")');
  await page.waitForSelector('.note:has-text("The plan waits for you")');
  assert.equal(await page.locator('svg.plan g').count(), 4);
  assert.equal(await page.locator('svg.plan path').count(), 3);
  await page.click('tr:has-text("Water") .lnk');
  await page.waitForSelector('section.card:has-text("Water")');
  await page.click('section.card button:has-text("Change")');
  await page.fill('dialog textarea >> nth=0', 'Twice a day');
  await page.click('dialog button[type=submit]');
  await page.waitForSelector('section.card:has-text("Twice a day")');
  await page.click('button:has-text("Authorise the plan")');
  await page.waitForSelector('.ph .st:has-text("Completed"), .ph .st:has-text("Failed")', { timeout: 60_000 }); // by its stream
  await page.click('nav.tabs a:has-text("Report")');
  await page.waitForSelector('h2:has-text("Phases")');
  assert.equal((await api('GET', `/api/v1/missions/${made.mission_id}/objectives`)).items.find((o) => o.title === 'Water').description, 'Twice a day');
});

test('a mission is started from a form, and aborted', async () => {
  await page.goto(`${url}/missions`);
  await page.click('.ph button:has-text("Start a mission")');
  await page.fill('dialog textarea >> nth=0', 'A shed');
  await page.click('dialog summary:has-text("Plan")');
  await page.click('dialog button:has-text("Add to objectives")');
  await page.fill('dialog .items .card input.in >> nth=0', 'Saw the planks');
  await page.click('dialog .check:has-text("Requires authorization") >> nth=0');
  await page.click('dialog footer button[type=submit]');
  await page.waitForSelector('h1:has-text("A shed")');
  await page.waitForSelector('.lnk:has-text("Saw the planks")');
  const abort = page.locator('.ph button:has-text("Abort")');
  if (await abort.count()) {
    await abort.click();
    await page.fill('dialog input', 'no wood');
    await page.click('dialog footer button:has-text("Abort")');
  }
  await page.waitForSelector('.ph .st:has-text("Aborted"), .ph .st:has-text("Completed"), .ph .st:has-text("Failed")');
});

test('an initiative is made, paused and resumed', async () => {
  await page.goto(`${url}/initiatives`);
  await page.click('.ph button:has-text("New initiative")');
  await page.fill('dialog input.in >> nth=0', 'Newsletter');
  await page.getByLabel('Mission').fill('A weekly letter that people read');
  await page.click('dialog button:has-text("Add to strategic goals")');
  await page.getByRole('group', { name: 'Strategic goals 1' }).getByLabel('Title').fill('Weekly issues');
  await page.click('dialog footer button[type=submit]');
  await page.waitForSelector('h1:has-text("Newsletter")');
  await page.click('button:has-text("Pause")');
  await page.waitForSelector('.ph .st:has-text("Paused")');
  await page.click('button:has-text("Resume")');
  await page.waitForSelector('.ph .st:has-text("Active")');
});

test('a service is connected, tested, switched off and disconnected', async () => {
  await page.goto(`${url}/settings/integrations`);
  await page.click('.ph button:has-text("Connect a service")');
  await page.click('dialog .tpl button:has-text("GitHub")');
  await page.waitForSelector('dialog button:has-text("Authorise at GitHub")');
  await page.fill('dialog input[type=password]', 'ghp_secret');
  await picture(page, 'settings-integrations-connect');
  await page.click('dialog footer button[type=submit]');
  await page.click('td a:has-text("GitHub")');
  await page.waitForSelector('aside .mono.b:has-text("github_get_user")');
  assert.ok(!(await page.textContent('aside')).includes('ghp_secret'));
  await page.click('aside button:has-text("Switch off")');
  await page.waitForSelector('aside button:has-text("Switch on")');
  await page.click('aside button:has-text("Disconnect")');
  await page.click('dialog button:has-text("Disconnect")');
  await page.waitForSelector('text=No service is connected');
  assert.equal((await api('GET', '/api/v1/integrations')).total, 0);
});

test('a public agent has its script tag, and a machine is listed', async () => {
  await page.goto(`${url}/settings/visitors`);
  await page.waitForSelector(`pre:has-text("${worker.agent_id}")`);
  await api('POST', '/api/v1/bridge/register', { agent_id: worker.agent_id, machine_id: 'build-7', hostname: 'build-7', working_directory: '/work', capabilities: ['read_file'], version: '1.0.0', os: 'linux' });
  await page.goto(`${url}/settings/machines`);
  await page.click('td a:has-text("build-7")');
  await page.click('aside button:has-text("Disconnect")');
  await page.click('dialog button:has-text("Disconnect")');
  await page.waitForSelector('text=No machine is connected, aside', { state: 'detached' }).catch(() => undefined);
});

test('the operator changes a section, exports all and imports it', async () => {
  await page.goto(`${url}/settings`);
  await page.click('nav.side a:has-text("The service")');
  await page.waitForSelector('h2:has-text("Limits of runs")');
  const field = page.getByLabel('Max steps');
  await field.fill('400');
  await page.click('section button:has-text("Save")');
  await page.waitForSelector('text=It holds on every node');
  assert.equal((await api('GET', '/api/v1/admin/config/runtime')).runtime.max_steps, 400);
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('.ph button:has-text("Export")')]);
  const saved = await file.path();
  await page.getByLabel('Max steps').fill('');
  await page.click('section button:has-text("Save")');
  for (let i = 0; i < 50 && (await api('GET', '/api/v1/admin/config/runtime')).runtime.max_steps !== null; i++) await page.waitForTimeout(100);
  assert.equal((await api('GET', '/api/v1/admin/config/runtime')).runtime.max_steps, null);
  await page.click('.ph button:has-text("Import")');
  await page.setInputFiles('dialog input[type=file]', saved);
  await page.click('dialog button:has-text("Try it first")');
  await page.waitForSelector('dialog [role=status]:has-text("runtime")');
  await page.click('dialog button[type=submit]');
  await page.waitForSelector('dialog', { state: 'detached' });
  assert.equal((await api('GET', '/api/v1/admin/config/runtime')).runtime.max_steps, 400);
});

test('who does not operate the service is not shown its settings', async () => {
  const made = await api('POST', '/api/v1/tenants/me/keys', { name: 'low', scopes: ['agents:read', 'runs:read'] });
  const other = await signedIn(browser, made.raw_key);
  await other.page.goto(`${url}/settings`);
  await other.page.waitForSelector('nav.side a:has-text("Keys")');
  assert.equal(await other.page.locator('nav.side a:has-text("The service")').count(), 0);
  await other.page.goto(`${url}/settings/operator`);
  await other.page.waitForSelector('text=Your role does not allow this');
  await other.context.close();
});

test('an agent is listed, found, called and rated', async () => {
  const other = (await api('POST', '/api/v1/admin/tenants', { name: 'Elsewhere', slug: `elsewhere-${Date.now()}` })).raw_key;
  await page.goto(`${url}/marketplace/mine`);
  await page.click('.ph button:has-text("List an agent")');
  await page.locator('dialog').getByLabel('Agent ID').selectOption({ label: 'Worker' });
  await page.locator('dialog').getByLabel('Name').fill('Helper');
  await page.locator('dialog').getByLabel('Category').selectOption('research');
  await page.click('dialog footer button[type=submit]');
  await page.click('td a:has-text("Helper")').catch(() => undefined);
  await page.click('aside button:has-text("Publish")');
  await page.waitForSelector('aside button:has-text("Withdraw")');
  const theirs = await signedIn(browser, other);
  const p = theirs.page;
  await p.goto(`${url}/marketplace?category=research`);
  await p.click('a:has-text("Helper")');
  await p.click('button:has-text("Call it")');
  await p.fill('dialog textarea', 'say: done for you');
  await p.click('dialog button[type=submit]');
  await p.waitForSelector('.md:has-text("done for you")');
  await p.goBack();
  await p.click('button:has-text("Rate it")');
  await p.fill('dialog textarea', 'Quick');
  await p.click('dialog button[type=submit]');
  await p.waitForSelector('aside li:has-text("Quick")');
  await theirs.context.close();
});

test('an agent is evaluated, its versions are compared, and one gets a part of the runs', async () => {
  const clerk = await api('POST', '/api/v1/agents', { name: 'Clerk' });
  await api('PUT', `/api/v1/agents/${clerk.agent_id}`, { ...clerk, name: 'Clerk', description: 'Second' }).catch(() => api('PATCH', `/api/v1/agents/${clerk.agent_id}`, { description: 'Second' }));
  await page.goto(`${url}/agents/${clerk.agent_id}/evaluations/datasets`);
  await page.click('button:has-text("New dataset") >> nth=0');
  await page.locator('dialog').getByLabel('Name').fill('Echoes');
  for (const [i, word] of ['one', 'two'].entries()) {
    await page.click('dialog button:has-text("Add to cases")');
    const one = page.getByRole('group', { name: `Cases ${i + 1}` });
    await one.getByLabel('Input').fill(`"say: ${word}"`);
    await one.getByLabel('Expected output').fill(i === 0 ? '"one"' : '"three"');
  }
  await page.click('dialog footer button[type=submit]');
  await page.waitForSelector('aside li:has-text("say: one")');
  await page.click('.seg button:has-text("Evaluations")');
  await page.click('button:has-text("Run an evaluation") >> nth=0');
  await page.click('dialog footer button[type=submit]');
  await page.waitForSelector('.big:has-text("50.0 %")', { timeout: 60_000 });
  await page.waitForSelector('tr:has-text("say: two") .st.failed');
  await page.getByLabel('Not passed only').check();
  await page.waitForSelector('tr:has-text("say: one")', { state: 'detached' });
  await page.goto(`${url}/agents/${clerk.agent_id}/evaluations/experiments`);
  await page.click('button:has-text("Compare versions") >> nth=0');
  await page.locator('dialog').getByLabel('Name').first().fill('One or two');
  await page.click('dialog footer button[type=submit]');
  await page.waitForFunction(() => document.querySelectorAll('main .meter').length === 2, undefined, { timeout: 60_000 });
  await page.goto(`${url}/agents/${clerk.agent_id}/evaluations/rollout`);
  await page.click('button:has-text("Set the shares") >> nth=0');
  await page.click('dialog footer button[type=submit]');
  await page.waitForSelector('td:has-text("10 %")');
  assert.deepEqual((await api('GET', `/api/v1/agents/${clerk.agent_id}/traffic`)).entries.map((e) => e.weight).sort(), [10, 90]);
  await page.click('button:has-text("Give all runs the newest version")');
  await page.click('dialog footer button:has-text("Give all runs")');
  await page.waitForSelector('text=Every run uses the newest version');
});

test('these pages are free of serious findings of axe, in both themes', async () => {
  const mission = await planned();
  const initiative = (await api('GET', '/api/v1/initiatives')).items[0].initiative_id;
  const listing = (await api('GET', '/api/v1/marketplace/listings')).items[0].listing_id;
  const clerk = (await api('GET', '/api/v1/agents?q=Clerk')).items[0].agent_id;
  const tested = (await api('GET', `/api/v1/agents/${clerk}/evaluations`)).eval_runs;
  const paths = [`agents/${clerk}/evaluations`, `agents/${clerk}/evaluations/evaluations/${tested[0].eval_run_id}`, `agents/${clerk}/evaluations/experiments`, `agents/${clerk}/evaluations/rollout`, 'missions', `missions/${mission.mission_id}`, 'initiatives', `initiatives/${initiative}`, 'settings/integrations', 'settings/machines', 'settings/visitors', 'settings/visitors?tab=reports', 'settings/operator', 'settings/operator/plans', 'settings/operator/feature-flags', 'settings/operator/rate-limits', 'marketplace', 'marketplace/mine', 'marketplace/calls', 'marketplace/subscribed', `marketplace/browse/${listing}`, 'governance/permissions', 'governance/goals', 'settings/customers', 'settings/companies', `runs/${(await api('GET', '/api/v1/runs')).items[0].run_id}?tab=rules`];
  assert.deepEqual(await inspect(page, paths), []);
});

/** Every address of the console, of things that the tests above made. */
async function everyAddress() {
  const first = async (path, id) => (await api('GET', path)).items?.[0]?.[id] ?? 'none';
  const agent = (await api('GET', '/api/v1/agents?q=Clerk')).items[0].agent_id;
  const run = await first('/api/v1/runs', 'run_id');
  const below = (root, names) => names.map((n) => `${root}/${n}`);
  return [
    'overview', 'inbox', 'inbox?show=decided', 'chat', `chat/${await first('/api/v1/sessions', 'session_id')}`, 'runs', `runs/${run}`, ...['events', 'io', 'rules', 'files'].map((x) => `runs/${run}?tab=${x}`), `runs/${run}/compare/${run}`,
    'agents', `agents/${agent}`, ...below(`agents/${agent}`, ['versions', 'runs', 'memory', 'evaluations', 'evaluations/datasets', 'evaluations/experiments', 'evaluations/scorers', 'evaluations/rollout']),
    'teams', 'missions', `missions/${(await planned()).mission_id}`, 'initiatives', `initiatives/${await first('/api/v1/initiatives', 'initiative_id')}`,
    'marketplace', ...below('marketplace', ['mine', 'calls', 'subscribed', `browse/${await first('/api/v1/marketplace/listings', 'listing_id')}`]),
    'library', ...below('library', ['memory', 'files', 'workspaces', 'trash']),
    'governance', ...below('governance', ['violations', 'votes', 'cases', 'goals', 'requests', 'designs', 'improvements', 'permissions', 'ledger']),
    ...below('settings', ['general', 'members', 'invites', 'keys', 'usage', 'audit', 'webhooks', 'sensors', 'schedules', 'tasks', 'integrations', 'mcp', 'a2a', 'machines', 'models', 'notifications', 'guardrails', 'visitors', 'visitors?tab=reports', 'products', 'customers', 'orders', 'enrollments', 'operator', 'operator/feature-flags', 'operator/plans', 'operator/rate-limits', 'companies', 'dead-letters', 'devices']),
    'reference', 'reference/createRun',
  ];
}

test('every page fits a phone', async () => {
  const long = 'A name that somebody chose without a thought of narrow screens '.repeat(2).trim();
  await api('POST', '/api/v1/commerce/customers', { name: long, email: 'ada@example.com' });
  await api('POST', '/api/v1/governance/goals', { agent_id: worker.agent_id, title: long, rationale: 'Customers wait' });
  await api('POST', '/api/v1/webhooks', { url: `https://example.com/${'hook'.repeat(40)}`, events: ['run.completed'] });
  const phone = await signedIn(browser, key, { viewport: { width: 390, height: 844 }, hasTouch: true });
  const wide = [];
  for (const path of await everyAddress()) {
    await phone.page.evaluate((p) => history.pushState(null, '', p), `/${path}`); // as a link does, without loading all anew
    await phone.page.waitForSelector('main h1, main h2', { state: 'attached' });
    await phone.page.waitForFunction(() => !document.querySelector('main .skr'), undefined, { timeout: 10_000 });
    const at = await phone.page.evaluate(() => Math.max(document.documentElement.scrollWidth, document.getElementById('main').scrollWidth));
    if (at > 390) wide.push(`${path} is ${at} wide`);
    await picture(phone.page, `${path}-390`);
  }
  assert.deepEqual(wide, []);
  await phone.context.close();
});

test('no script failed, and nothing was asked of another server', () => {
  assert.deepEqual(broken, []);
});

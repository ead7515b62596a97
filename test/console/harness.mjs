// What the tests in a browser share: a server of their own (AGENTD_URL, AGENTD_KEY), a browser
// (CHROMIUM), and pictures (SHOTS, if they are wanted).
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

export const url = process.env.AGENTD_URL;
export const key = process.env.AGENTD_KEY;
const shots = process.env.SHOTS;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What no page may do: fail, break its Content-Security-Policy, ask another server. */
export const broken = [];

export async function api(method, path, body, as = key) {
  const response = await fetch(url + path, {
    method,
    headers: { Authorization: `Bearer ${as}`, 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/** A new context that is signed in by a key. */
export async function signedIn(browser, as = key, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  watch(page, url);
  await page.goto(`${url}/runs?status=failed`);
  await page.waitForURL('**/signin?**');
  await page.click('text=Use an API key');
  await page.fill('#key', as);
  await page.click('button:has-text("Sign in")');
  await page.waitForURL('**/runs?status=failed'); // back to where one wanted to go
  return { context, page };
}

function watch(page, origin) {
  page.setDefaultTimeout(60_000);
  page.on('pageerror', (e) => broken.push(e.stack ?? e.message));
  page.on('console', (m) => m.type() === 'error' && /Content Security Policy|Refused/.test(m.text()) && broken.push(m.text()));
  page.on('request', (r) => new URL(r.url()).origin !== origin && !r.url().startsWith('data:') && !r.url().startsWith('blob:') && broken.push(`asked for ${r.url()}`));
}

/** The serious findings of axe on a page. */
export async function serious(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} (${n.any[0]?.message ?? ''})`).join(' | ')}`);
}

/** Keeps a picture, if pictures are wanted. */
export async function picture(page, name) {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: `${shots}/${name.replace(/[/?=&]/g, '-').replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'one')}.png` });
}

/** Opens a page, and waits until what it shows has come. */
export async function visit(page, path) {
  await page.goto(`${url}/${path}`);
  await page.waitForSelector('h1, .conv .hd');
  await page.waitForFunction(() => !document.querySelector('main [aria-busy=true] .skr'));
  await page.waitForTimeout(120);
}

/** Looks at pages in both themes: pictures, and what axe finds. Each page is loaded once, as it follows
 * the theme of the system; two tabs share the work. */
export async function inspect(page, paths) {
  const found = [];
  const waiting = [...paths];
  const look = async (tab) => {
    for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
      await tab.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
      await visit(tab, path);
      for (const scheme of ['light', 'dark']) {
        await tab.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' }); // colours change at once
        await picture(tab, `${path}-${scheme}`);
        if (scheme === 'light' || path.length < 12) for (const v of await serious(tab)) found.push(`${path} (${scheme}): ${v}`);
      }
    }
  };
  if (paths.length === 1) {
    await look(page);
    return found;
  }
  const other = await page.context().newPage();
  watch(other, url);
  await Promise.all([look(page), look(other)]);
  await other.close();
  return found;
}

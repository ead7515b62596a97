// Builds the console into internal/edge/console/dist, where the program embeds it: each file
// compressed once, the licences of what is in it, and the hash of its sources, by which a test
// notices a build that is older than they are.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';

const web = dirname(fileURLToPath(import.meta.url));
const root = dirname(web);
const out = join(root, 'internal/edge/console/dist');

/** First load: the scripts that the page names, compressed. */
const budget = 250_000;

function* walk(dir) {
  for (const name of readdirSync(dir).sort()) {
    const path = join(dir, name);
    if (statSync(path).isDirectory()) yield* walk(path);
    else yield path;
  }
}

/** The files that the build is made of; internal/edge/console hashes the same. */
export function sources() {
  const files = ['web/index.html', 'web/package-lock.json', 'web/vite.config.ts', 'web/build.mjs'];
  for (const dir of ['web/src', 'web/public', 'clients/typescript/src']) {
    for (const path of walk(join(root, dir))) files.push(relative(root, path));
  }
  return files.filter((f) => f !== 'clients/typescript/src/schema.ts').sort();
}

export function hash() {
  const sum = createHash('sha256');
  for (const file of sources()) sum.update(`${file}\0`).update(readFileSync(join(root, file))).update('\0');
  return sum.digest('hex');
}

function licences() {
  const { dependencies } = JSON.parse(readFileSync(join(web, 'package.json'), 'utf8'));
  const seen = new Map();
  const add = (name) => {
    if (seen.has(name)) return;
    const dir = join(web, 'node_modules', name);
    const about = JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8'));
    const file = readdirSync(dir).find((f) => /^licen[cs]e/i.test(f));
    seen.set(name, `${name} ${about.version} (${about.license})\n\n${file ? readFileSync(join(dir, file), 'utf8').trim() : ''}`);
    for (const d of Object.keys(about.dependencies ?? {})) add(d);
  };
  Object.keys(dependencies).forEach(add);
  return [...seen.values()].join(`\n\n${'-'.repeat(80)}\n\n`) + '\n';
}

process.chdir(web);
await build({ logLevel: 'warn' });
rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, 'assets'), { recursive: true });
const sizes = new Map();
for (const path of walk(join(web, 'dist'))) {
  const name = relative(join(web, 'dist'), path);
  const content = readFileSync(path);
  if (name === 'index.html') {
    writeFileSync(join(out, name), content);
    continue;
  }
  const packed = gzipSync(content, { level: 9 });
  sizes.set(name, packed.length);
  writeFileSync(join(out, `${name}.gz`), packed);
}
writeFileSync(join(out, 'licences.txt.gz'), gzipSync(licences(), { level: 9 }));
writeFileSync(join(out, 'source.sha256'), hash() + '\n');

const index = readFileSync(join(out, 'index.html'), 'utf8');
const first = [...index.matchAll(/(?:src|href)="\.\/([^"]+\.js)"/g)].reduce((sum, m) => sum + (sizes.get(m[1]) ?? 0), 0);
const all = [...sizes.values()].reduce((a, b) => a + b, 0);
console.log(`console: ${(first / 1000).toFixed(0)} KB of scripts at the first view, ${(all / 1000).toFixed(0)} KB in all`);
if (first > budget) {
  console.error(`the first view may have ${budget / 1000} KB`);
  process.exit(1);
}

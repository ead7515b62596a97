import { useState } from 'react';
import { Link } from 'wouter';
import { curlOf, read, send, useGet } from '../../api';
import { toast } from '../../bus';
import { bodyOf, resolve, typeOf, useDocument, type OpenApi } from '../../document';
import { SchemaFields, type Value } from '../../schemaform';
import { connect } from '../../strings/connect';
import { en } from '../../strings/en';
import { Block, Button, Dialog, Failure, Field, FormError, Head, Json, Loading, sentence, useAction } from '../../ui';

const s = connect.operator;
const root = '/api/v1/admin/config/';

/** The sections that the document can read and write. */
function sectionsOf(doc: OpenApi): string[] {
  return Object.entries(doc.paths)
    .filter(([p, o]) => p.startsWith(root) && !p.slice(root.length).includes('/') && o.get && o.put)
    .map(([p]) => p.slice(root.length))
    .sort((a, b) => label(a).localeCompare(label(b)));
}

const label = (section: string) => s.sections[section] ?? sentence(section.replaceAll('-', '_'));

/** Settings of the service, each a form out of the document. */
export default function Operator({ section }: { section?: string }) {
  const doc = useDocument();
  const [importing, setImporting] = useState(false);
  if (!doc.data) return doc.error ? <Failure error={doc.error} /> : <Loading />;
  const all = sectionsOf(doc.data);
  const shown = section && all.includes(section) ? section : (all.find((x) => x === 'runtime') ?? all[0]!);
  return (
    <>
      <Head title={s.title} curl={curlOf('GET', root + shown)}>
        <Button icon="export" label={s.export} onClick={() => void download().catch((e: Error) => toast(e.message, true))} />
        <Button icon="plus" label={s.import} onClick={() => setImporting(true)} />
      </Head>
      <div className="opset">
        <nav aria-label={s.nav}>
          {all.map((x) => (
            <Link key={x} className="nav" href={`/settings/operator/${x}`} aria-current={x === shown ? 'page' : undefined}>
              {label(x)}
            </Link>
          ))}
        </nav>
        <Section key={shown} doc={doc.data} section={shown} />
      </div>
      {importing && <Import onClose={() => setImporting(false)} />}
    </>
  );
}

function Section({ doc, section }: { doc: OpenApi; section: string }) {
  const path = root + section;
  const q = useGet<Value>(path, {}, { retry: false });
  return (
    <section className="sec" aria-labelledby="section">
      <h2 id="section">{label(section)}</h2>
      <p className="t2" style={{ margin: '4px 0 14px' }}>{about(doc.paths[path]?.put?.description)}</p>
      <Block q={q}>{(now) => <Form key={JSON.stringify(now)} doc={doc} path={path} now={now} />}</Block>
    </section>
  );
}

/** What a section is for; how its body is sent is said once for all. */
function about(description = ''): string {
  return `${description.split(/ ?(?:The body is merged|Needs the role)/)[0]} ${s.note}`.trim();
}

function Form({ doc, path, now }: { doc: OpenApi; path: string; now: Value }) {
  const schema = bodyOf(doc, path, 'put');
  // What is read in another shape than it is written in is shown beside the form, not in it.
  const start: Value = Object.fromEntries(
    Object.entries(schema.properties ?? {}).flatMap(([k, p]) => {
      const v = now[k];
      if (v === null || v === undefined) return [];
      const type = typeOf(resolve(doc, p));
      const fits = type === 'array' ? Array.isArray(v) : type === 'object' ? typeof v === 'object' && !Array.isArray(v) : true;
      return fits ? [[k, withoutNulls(v)]] : [];
    }),
  );
  const [value, setValue] = useState<Value>(start);
  const body = difference(start, value) as Value;
  const changed = Object.keys(body).length > 0;
  const [busy, error, run] = useAction(async () => {
    await send('put', path, {}, body);
    toast(s.saved);
  });
  const resets = doc.paths[path]?.delete !== undefined;
  const beside = Object.fromEntries(Object.entries(now).filter(([k]) => !(k in start)));
  return (
    <form className="narrow" onSubmit={(e) => (e.preventDefault(), void run())}>
      <SchemaFields doc={doc} schema={schema} value={value} onChange={setValue} error={error} depth={0} />
      <FormError error={error} />
      <div className="row" style={{ marginTop: 12 }}>
        <Button kind="primary" type="submit" label={s.save} busy={busy} disabled={!changed} />
        {resets && <Button label={s.reset} onClick={() => void send('delete', path).then(() => toast(s.resetDone), (e: Error) => toast(e.message, true))} />}
      </div>
      {Object.values(beside).some((v) => v !== null && typeof v === 'object' && Object.keys(v).length > 0) && (
        <details className="adv" style={{ marginTop: 16 }}>
          <summary>{s.now}</summary>
          <Json value={beside} />
        </details>
      )}
    </form>
  );
}

function withoutNulls(v: unknown): unknown {
  if (v === null || typeof v !== 'object' || Array.isArray(v)) return v;
  return Object.fromEntries(Object.entries(v).filter(([, x]) => x !== null).map(([k, x]) => [k, withoutNulls(x)]));
}

/** What a merge has to say: members that changed; null for those that were emptied. */
function difference(before: Value, after: Value): Value {
  const out: Value = {};
  for (const k of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [a, b] = [before[k], after[k]];
    if (JSON.stringify(a) === JSON.stringify(b)) continue;
    const objects = [a ?? {}, b ?? {}].every((x) => typeof x === 'object' && !Array.isArray(x)) && (a !== undefined || b !== undefined);
    if (objects && typeof (a ?? b) === 'object') out[k] = difference((a ?? {}) as Value, (b ?? {}) as Value);
    else out[k] = b === undefined ? (Array.isArray(a) ? [] : null) : b;
  }
  return out;
}

async function download(): Promise<void> {
  const all = await read<unknown>(`${root}export`);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([JSON.stringify(all, null, 2)], { type: 'application/json' }));
  link.download = 'agentd-settings.json';
  link.click();
  URL.revokeObjectURL(link.href);
}

function Import({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [said, setSaid] = useState('');
  const parsed = (): Value => {
    try {
      return JSON.parse(text) as Value;
    } catch {
      throw new Error(s.notJson);
    }
  };
  const [checking, wrong, check] = useAction(async () => {
    const { format_version, sections } = parsed();
    const r = await send<{ sections: string[] }>('post', `${root}import`, {}, { format_version, sections, dry_run: true });
    setSaid(s.checked(r.sections));
  });
  const [busy, error, run] = useAction(async () => {
    const { format_version, sections } = parsed();
    const r = await send<{ imported: number }>('post', `${root}import`, {}, { format_version, sections });
    toast(s.imported(r.imported));
    onClose();
  });
  return (
    <Dialog
      title={s.import}
      onClose={onClose}
      footer={
        <>
          <Button label={s.check} busy={checking} disabled={!text.trim()} onClick={() => void check()} />
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="import" label={s.import} busy={busy} disabled={!text.trim()} />
        </>
      }
    >
      <form id="import" onSubmit={(e) => (e.preventDefault(), void run())}>
        <p className="t2" style={{ marginBottom: 10 }}>{s.importText}</p>
        <Field label={s.document}>{(p) => <textarea {...p} className="in mono" rows={10} spellCheck={false} value={text} onChange={(e) => (setText(e.target.value), setSaid(''))} />}</Field>
        <Field label={s.file}>{(p) => <input {...p} type="file" accept="application/json,.json" onChange={(e) => void e.target.files?.[0]?.text().then(setText)} />}</Field>
        {said && (
          <p className="note" role="status">
            {said}
          </p>
        )}
        <FormError error={error ?? wrong} />
      </form>
    </Dialog>
  );
}

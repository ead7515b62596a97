import { useMemo, useState } from 'react';
import { Link } from 'wouter';
import { curlOf, prefix } from '../api';
import { resolve, typeOf, useDocument, type JsonSchema, type OpenApi, type Operation } from '../document';
import { Icon } from '../icons';
import { orderOf } from '../schemaform';
import { useSettled } from '../palette';
import { en } from '../strings/en';
import { Block, Empty, Head, Json, copy, Button } from '../ui';

const s = en.reference;

interface Entry {
  path: string;
  method: string;
  op: Operation;
}

/** The operations of this server, from the document that it serves. */
export default function Reference({ id }: { id?: string }) {
  const doc = useDocument();
  const [q, setQ] = useState('');
  const asked = useSettled(q.trim().toLowerCase(), 120);
  const all = useMemo(() => (doc.data ? entriesOf(doc.data) : []), [doc.data]);
  const shown = asked ? all.filter((e) => `${e.method} ${e.path} ${e.op.summary ?? ''} ${e.op.operationId}`.toLowerCase().includes(asked)) : all;
  const groups = useMemo(() => {
    const map = new Map<string, Entry[]>();
    for (const e of shown) map.set(e.op.tags?.[0] ?? '', [...(map.get(e.op.tags?.[0] ?? '') ?? []), e]);
    return [...map];
  }, [shown]);
  const entry = all.find((e) => e.op.operationId === id);
  return (
    <>
      <Head title={s.title} n={doc.data ? s.operations(all.length) : undefined} curl={`curl -sS ${location.origin}${prefix}/api/v1/openapi.json`}>
        <a className="btn q" href={`${prefix}/docs`}>
          {s.swagger}
        </a>
      </Head>
      <Block q={doc} rows={10}>
        {(d) => (
          <div className="refd">
            <nav aria-label={s.title}>
              <div className="tb">
                <span className="find-in">
                  <Icon name="search" small />
                  <input type="search" value={q} placeholder={s.find} aria-label={s.find} onChange={(e) => setQ(e.target.value)} />
                </span>
              </div>
              {groups.map(([tag, list]) => (
                <details key={tag} open={asked !== '' || list.includes(entry!)}>
                  <summary>
                    {tag} <span className="n">{list.length}</span>
                  </summary>
                  {list.map((e) => (
                    <Link key={e.op.operationId} className="nav" href={`/reference/${e.op.operationId}`} aria-current={e === entry ? 'page' : undefined}>
                      <span className={`verb ${e.method}`}>{e.method.toUpperCase()}</span>
                      <span className="trunc">{e.op.summary ?? e.path}</span>
                    </Link>
                  ))}
                </details>
              ))}
            </nav>
            <article>{entry ? <Shown doc={d} entry={entry} /> : <Empty icon="book" title={s.choose} text={s.chooseText} />}</article>
          </div>
        )}
      </Block>
    </>
  );
}

function entriesOf(doc: OpenApi): Entry[] {
  const out: Entry[] = [];
  for (const [path, methods] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(methods)) if (op.operationId) out.push({ path, method, op });
  }
  return out;
}

function Shown({ doc, entry: { path, method, op } }: { doc: OpenApi; entry: Entry }) {
  const content = op.requestBody?.content['application/json'];
  const example = content?.example ?? Object.values(content?.examples ?? {})[0]?.value;
  const parameters = (op.parameters ?? []).map((p) => (p.$ref ? doc.components.parameters?.[p.$ref.split('/').pop()!] : p)).filter((p) => p !== undefined);
  const good = Object.entries(op.responses).find(([code]) => code.startsWith('2'));
  const answer = Object.values(good?.[1].content ?? {})[0];
  const scopes = [...new Set((op.security ?? []).flatMap((x) => Object.values(x).flat()))];
  const curl = curlOf(method.toUpperCase(), path, {}, example);
  return (
    <>
      <p className="mono row wrap">
        <span className={`verb ${method}`}>{method.toUpperCase()}</span> {path}
      </p>
      <h2 className="big" style={{ fontSize: 'var(--fs-20)', margin: '6px 0' }}>
        {op.summary}
      </h2>
      {op.description && <p className="t2" style={{ whiteSpace: 'pre-wrap' }}>{op.description}</p>}
      {scopes.length > 0 && (
        <p className="t2 fs12" style={{ marginTop: 8 }}>
          {s.scopes} {scopes.map((x) => <code key={x}>{x}</code>)}
        </p>
      )}
      <div className="row" style={{ margin: '18px 0 6px' }}>
        <h3 className="lbl grow">curl</h3>
        <Button small kind="quiet" icon="copy" label={en.common.copy} onClick={() => void copy(curl, en.common.curlCopied)} />
      </div>
      <Json value={curl} />
      {parameters.length > 0 && (
        <>
          <h3 className="lbl" style={{ margin: '18px 0 6px' }}>{s.parameters}</h3>
          <dl className="args">
            {parameters.map((p) => (
              <div key={p.in + p.name}>
                <dt>
                  {p.name} {p.required && <span className="bad">*</span>}
                  <br />
                  <span className="t3">{p.in}</span>
                </dt>
                <dd className="t2">{p.description}</dd>
              </div>
            ))}
          </dl>
        </>
      )}
      {content?.schema && (
        <>
          <h3 className="lbl" style={{ margin: '18px 0 6px' }}>{s.body}</h3>
          <Schema doc={doc} schema={content.schema} depth={0} />
        </>
      )}
      {good && (
        <>
          <h3 className="lbl" style={{ margin: '18px 0 6px' }}>
            {s.answer} {good[0]}
          </h3>
          {answer?.schema ? <Schema doc={doc} schema={answer.schema} depth={0} /> : <p className="t2">{good[1].description}</p>}
        </>
      )}
    </>
  );
}

function Schema({ doc, schema, depth }: { doc: OpenApi; schema: JsonSchema; depth: number }) {
  const r = resolve(doc, schema);
  if (r.oneOf && r.oneOf.length > 1) return <p className="t2">{r.oneOf.map((o) => o.$ref?.split('/').pop() ?? o.type).join(', ')}</p>;
  if (typeOf(r) === 'array') return <Schema doc={doc} schema={r.items ?? {}} depth={depth} />;
  if (!r.properties) return <p className="t2">{r.description ?? typeOf(r)}</p>;
  return (
    <dl className="args">
      {orderOf(r).map((name) => {
        const f = resolve(doc, r.properties![name]);
        const inner = typeOf(f) === 'array' ? resolve(doc, f.items) : f;
        return (
          <div key={name}>
            <dt>
              {name} {r.required?.includes(name) && <span className="bad">*</span>}
              <br />
              <span className="t3">{typeOf(f) === 'array' ? `[${typeOf(inner)}]` : typeOf(f)}</span>
            </dt>
            <dd>
              <span className="t2">{f.description}</span> {f.enum && <span className="mono t3">{f.enum.filter((x) => x !== null).join(' | ')}</span>}
              {inner.properties && depth < 3 && (
                <details style={{ marginTop: 6 }}>
                  <summary className="acc fs12">{s.members}</summary>
                  <Schema doc={doc} schema={inner} depth={depth + 1} />
                </details>
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

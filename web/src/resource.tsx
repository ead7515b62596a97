import { useMemo, useState, type ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { curlOf, may, send, useGet, useList, useMe, type Params } from './api';
import { toast } from './bus';
import { useCommands, type Command } from './commands';
import { bodyOf, useDocument } from './document';
import { type IconName } from './icons';
import { AgentName } from './names';
import { SchemaFields, type Refs, type Value } from './schemaform';
import { en } from './strings/en';
import { Button, Confirm, CopyCurl, Dialog, Empty, Failure, FormError, Head, IconButton, Json, Loading, More, copy, sentence, useAction, useSelection } from './ui';

const s = en.resource;

export interface Column<T> {
  label: string;
  cell: (row: T) => ReactNode;
  right?: boolean;
  wide?: boolean;
}

/** One pattern for what is administered: a table, a panel at its right, and a form from the
 * document. */
export interface Kind<T extends Value = Value> {
  id: string;
  title: string;
  icon: IconName;
  list: string;
  query?: Record<string, unknown>;
  /** What stands in the paths, such as the agent whose things these are. */
  params?: Record<string, string>;
  idOf: (row: T) => string;
  nameOf: (row: T) => string;
  columns: Column<T>[];
  /** The operation that creates one. */
  create?: { path: string; role: string; skip?: string[]; start?: Value; label?: string };
  /** The path of one, with its parameter. */
  one?: { path: string; param: string; read?: boolean };
  update?: { method: 'patch' | 'put'; role: string; skip?: string[] };
  remove?: { role: string; label?: string; text?: (row: T) => string; path?: string };
  /** A member of the answer that is shown once. */
  secret?: string;
  empty: { title: string; text: string };
  detail?: (row: T, close: () => void) => ReactNode;
  actions?: (row: T) => ReactNode;
  refs?: Refs;
  before?: ReactNode;
  /** A way of its own to make one, in place of the form of the document. */
  button?: ReactNode;
  onNew?: () => void;
  /** What stands below the list. */
  after?: ReactNode;
  /** How often the list is asked for again while something in it is under way that no stream tells of. */
  meanwhile?: (rows: T[]) => number | false;
}

export function ResourcePage<T extends Value>({ kind, selected, base, embedded }: { kind: Kind<T>; selected?: string; base: string; embedded?: boolean }) {
  const [, go] = useLocation();
  const me = useMe();
  const list = useList<T>(kind.list, { path: kind.params, query: kind.query }, { every: 8000, limit: 100, meanwhile: kind.meanwhile });
  const [making, setMaking] = useState(() => new URLSearchParams(location.search).has('new'));
  const rows = list.rows;
  const makes = kind.create && may(me.data, kind.create.role);
  const sel = useSelection(rows, kind.idOf);
  const row = rows.find((r) => kind.idOf(r) === selected);
  const commands = useMemo<Command[]>(
    () => [
      { id: `${kind.id}.next`, title: s.next, keys: 'j', hidden: true, run: () => sel.move(1) },
      { id: `${kind.id}.prev`, title: s.previous, keys: 'k', hidden: true, run: () => sel.move(-1) },
      { id: `${kind.id}.open`, title: s.open, keys: 'enter', hidden: true, run: () => sel.id && go(`${base}/${encodeURIComponent(sel.id)}`) },
      ...(makes ? [{ id: `${kind.id}.new`, title: kind.create!.label ?? s.new(kind.title), keys: 'n', icon: 'plus' as const, run: () => setMaking(true) }] : kind.onNew ? [{ id: `${kind.id}.new`, title: s.new(kind.title), keys: 'n', icon: 'plus' as const, run: kind.onNew }] : []),
      ...(selected ? [{ id: `${kind.id}.close`, title: s.closePanel, keys: 'escape', hidden: true, run: () => go(base) }] : []),
    ],
    // eslint-disable-next-line
    [sel, makes, selected, base],
  );
  useCommands(commands);
  const curl = curlOf('GET', kind.list, { path: kind.params, query: { limit: 100, ...kind.query } });
  const button = makes ? <Button kind="primary" icon="plus" label={kind.create!.label ?? s.newShort} keys="n" onClick={() => setMaking(true)} /> : (kind.button ?? null);
  return (
    <>
      {embedded ? (
        <div className="tb">
          <span className="n">{rows.length > 0 ? s.count(rows.length) : ''}</span>
          <span className="grow" />
          {button}
        </div>
      ) : (
        <Head title={kind.title} n={list.data ? `${rows.length}${list.hasNextPage ? '+' : ''}` : undefined} curl={curl}>
          {button}
        </Head>
      )}
      {kind.before}
      {list.error && rows.length === 0 ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : list.isLoading ? (
        <Loading />
      ) : rows.length === 0 ? (
        <Empty icon={kind.icon} title={kind.empty.title} text={kind.empty.text} curl={kind.create ? curlOf('POST', kind.create.path, { path: kind.params }, kind.create.start ?? {}) : undefined}>
          {button}
        </Empty>
      ) : (
        <div className={row ? 'spl one' : ''}>
          <div>
            <div className="tblw">
              <table className="tbl res">
                <thead>
                  <tr>
                    {kind.columns.map((c) => (
                      <th key={c.label} className={c.right ? 'r' : ''}>
                        {c.label}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {rows.map((r) => {
                    const id = kind.idOf(r);
                    return (
                      <tr key={id} className="go" data-selected={id === selected || id === sel.id || undefined} onClick={() => go(`${base}/${encodeURIComponent(id)}`)}>
                        {kind.columns.map((c, i) => (
                          <td key={c.label} data-label={c.right && i > 0 ? c.label : undefined} className={`${c.right ? 'r t2' : ''} ${c.wide ? 'wide' : ''}`}>
                            {i === 0 ? (
                              <Link className="b" href={`${base}/${encodeURIComponent(id)}`} onClick={(e) => e.stopPropagation()}>
                                {c.cell(r)}
                              </Link>
                            ) : c.wide ? (
                              <span className="trunc t2">{c.cell(r)}</span>
                            ) : (
                              c.cell(r)
                            )}
                          </td>
                        ))}
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </div>
            <More q={list} shown={rows.length} what={s.rows} />
          </div>
          {row && <Panel kind={kind} row={row} close={() => go(base)} />}
        </div>
      )}
      {kind.after}
      {making && kind.create && <Create kind={kind} onClose={() => setMaking(false)} onMade={(r) => r && go(`${base}/${encodeURIComponent(r)}`)} />}
    </>
  );
}

function Panel<T extends Value>({ kind, row, close }: { kind: Kind<T>; row: T; close: () => void }) {
  const me = useMe();
  const id = kind.idOf(row);
  const params: Params = kind.one ? { path: { ...kind.params, [kind.one.param]: id } } : {};
  const full = useGet<T>(kind.one?.path ?? '', params, { enabled: kind.one?.read !== false && !!kind.one, retry: false });
  const [asking, setAsking] = useState(false);
  const [editing, setEditing] = useState(false);
  const data = full.data ?? row;
  const removes = kind.remove && may(me.data, kind.remove.role);
  const edits = kind.update && may(me.data, kind.update.role);
  return (
    <aside aria-label={kind.nameOf(row)}>
      <div className="row">
        <h2 className="b grow trunc h2">{kind.nameOf(row)}</h2>
        {edits && <Button small icon="edit" label={en.common.edit} onClick={() => setEditing(true)} />}
        {removes && <Button small kind="danger" icon="trash" label={kind.remove!.label ?? en.common.delete} onClick={() => setAsking(true)} />}
        <IconButton small icon="x" label={en.common.close} onClick={close} />
      </div>
      {kind.actions && <div className="row wrap" style={{ marginTop: 10 }}>{kind.actions(data)}</div>}
      {kind.detail ? kind.detail(data, close) : <Facts value={data} />}
      {asking && kind.one && (
        <Confirm
          title={s.removeTitle(kind.remove!.label ?? en.common.delete, kind.nameOf(row))}
          text={kind.remove!.text?.(row) ?? s.removeText}
          action={kind.remove!.label ?? en.common.delete}
          danger
          onClose={() => setAsking(false)}
          onConfirm={async () => {
            await send('delete', kind.remove!.path ?? kind.one!.path, params);
            toast(s.removed(kind.nameOf(row)));
            close();
          }}
        />
      )}
      {editing && kind.update && kind.one && <Edit kind={kind} row={data} params={params} onClose={() => setEditing(false)} />}
    </aside>
  );
}

/** Everything that is known of one thing. */
export function Facts({ value, skip = ['tenant_id'] }: { value: Value; skip?: string[] }) {
  const rows = Object.entries(value).filter(([k, v]) => !skip.includes(k) && v !== null && v !== undefined && v !== '' && !(Array.isArray(v) && v.length === 0));
  const flat = rows.filter(([, v]) => typeof v !== 'object' || (Array.isArray(v) && v.every((x) => typeof x === 'string')));
  const deep = rows.filter(([, v]) => !flat.some(([, f]) => f === v) && Object.keys(v as object).length > 0);
  return (
    <>
      <dl className="kv" style={{ marginTop: 14 }}>
        {flat.map(([k, v]) => (
          <div key={k} style={{ display: 'contents' }}>
            <dt>{sentence(k)}</dt>
            <dd className={/_id$|^id$|hash|url/.test(k) ? 'mono' : ''} style={{ overflowWrap: 'anywhere' }}>
              <Fact name={k} value={v} />
            </dd>
          </div>
        ))}
      </dl>
      {deep.map(([k, v]) => (
        <section key={k} style={{ marginTop: 14 }}>
          <h3 className="lbl" style={{ marginBottom: 6 }}>{sentence(k)}</h3>
          {isFlat(v) ? (
            <dl className="kv">
              {Object.entries(v).map(([name, x]) => (
                <div key={name} style={{ display: 'contents' }}>
                  <dt>{sentence(name)}</dt>
                  <dd style={{ overflowWrap: 'anywhere' }}>
                    <Fact name={name} value={x} />
                  </dd>
                </div>
              ))}
            </dl>
          ) : (
            <Json value={v} max={60} />
          )}
        </section>
      ))}
    </>
  );
}

/** Whether all members of an object can be shown as words. */
function isFlat(v: unknown): v is Record<string, unknown> {
  return !Array.isArray(v) && Object.values(v as object).every((x) => x === null || typeof x !== 'object' || (Array.isArray(x) && x.every((y) => typeof y === 'string')));
}

const words = /^(status|plan|type|kind|role|state|severity|decision|phase|visibility|channel|category|priority|mode|topology|.*_(status|type|kind|mode|strategy))$/;

/** One value of a thing, as a person reads it; what is named by an ID is named by its name. */
function Fact({ name, value }: { name: string; value: unknown }) {
  if (value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0)) return <span className="t3">{en.common.none}</span>;
  if (typeof value === 'boolean') return value ? en.common.yes : en.common.no;
  if (typeof value === 'number') return value.toLocaleString('en');
  if (Array.isArray(value)) return value.join(', ');
  const text = String(value);
  if (/(^|_)agent_id$/.test(name)) return <AgentName id={text} link />;
  if (/(^|_)run_id$/.test(name)) return <Link className="acc" href={`/runs/${text}`}>{text}</Link>;
  return words.test(name) ? sentence(text) : when(text);
}

function when(text: string): string {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text) ? new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' }).format(Date.parse(text)) : text;
}

function Create<T extends Value>({ kind, onClose, onMade }: { kind: Kind<T>; onClose: () => void; onMade: (id: string) => void }) {
  const doc = useDocument();
  const [value, setValue] = useState<Value>(kind.create!.start ?? {});
  const [shown, setShown] = useState<Value | null>(null);
  const [stored, setStored] = useState(false);
  const [busy, error, run] = useAction(async () => {
    const made = await send<T>('post', kind.create!.path, { path: kind.params }, value);
    if (kind.secret && made?.[kind.secret]) {
      setShown(made);
      return;
    }
    toast(s.created);
    onClose();
    onMade(made ? kind.idOf(made) : '');
  });
  if (shown) {
    const secret = String(shown[kind.secret!]);
    return (
      <Dialog
        title={s.secretTitle}
        onClose={() => stored && onClose()}
        footer={
          <>
            <span className="grow" />
            <Button kind="primary" label={s.stored} onClick={() => (setStored(true), onClose())} />
          </>
        }
      >
        <p className="t2" style={{ marginBottom: 10 }}>{s.secretText}</p>
        <div className="row">
          <input className="in mono grow" readOnly value={secret} aria-label={s.secret} data-secret="" onFocus={(e) => e.target.select()} />
          <Button icon="copy" label={en.common.copy} onClick={() => void copy(secret)} />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog
      title={kind.create!.label ?? s.new(kind.title)}
      onClose={onClose}
      footer={
        <>
          <CopyCurl small curl={curlOf('POST', kind.create!.path, { path: kind.params }, value)} />
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="create" label={en.common.create} busy={busy} />
        </>
      }
    >
      {doc.data ? (
        <form
          id="create"
          onSubmit={(e) => {
            e.preventDefault();
            void run();
          }}
        >
          <SchemaFields doc={doc.data} schema={bodyOf(doc.data, kind.create!.path, 'post')} value={value} onChange={setValue} error={error} skip={kind.create!.skip} refs={kind.refs} depth={1} />
          <FormError error={error} />
        </form>
      ) : doc.error ? (
        <Failure error={doc.error} />
      ) : (
        <Loading rows={3} />
      )}
    </Dialog>
  );
}

export function Edit<T extends Value>({ kind, row, params, onClose }: { kind: Kind<T>; row: T; params: Params; onClose: () => void }) {
  const doc = useDocument();
  const method = kind.update!.method;
  const schema = doc.data ? bodyOf(doc.data, kind.one!.path, method) : undefined;
  const fields = Object.keys(schema?.properties ?? {});
  const [value, setValue] = useState<Value | null>(null);
  const start = useMemo(() => Object.fromEntries(Object.entries(row).filter(([k, v]) => fields.includes(k) && v !== null)), [row, fields.join()]); // eslint-disable-line
  const current = value ?? start;
  const [busy, error, run] = useAction(async () => {
    const body = method === 'put' ? current : Object.fromEntries(Object.entries(current).filter(([k, v]) => JSON.stringify(v) !== JSON.stringify(start[k])));
    await send(method, kind.one!.path, params, body);
    toast(s.saved);
    onClose();
  });
  return (
    <Dialog
      title={s.editTitle(kind.nameOf(row))}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="edit" label={en.common.save} busy={busy} disabled={value === null} />
        </>
      }
    >
      {schema && doc.data ? (
        <form
          id="edit"
          onSubmit={(e) => {
            e.preventDefault();
            void run();
          }}
        >
          <SchemaFields doc={doc.data} schema={schema} value={current} onChange={setValue} error={error} skip={kind.update!.skip} refs={kind.refs} depth={1} />
          <FormError error={error} />
        </form>
      ) : (
        <Loading rows={3} />
      )}
    </Dialog>
  );
}


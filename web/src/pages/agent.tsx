import { lazy, useEffect, useMemo, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { ApiError, curlOf, may, rowsOf, send, useGet, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { useCommands } from '../commands';
import { bodyOf, resolve, useDocument, type OpenApi } from '../document';
import { lineDiff } from '../diff';
import { Icon } from '../icons';
import { useTurn } from '../live/turn';
import { ResourcePage, type Kind } from '../resource';
import { RunTable } from '../runtable';
import { orderOf, SchemaFields, type Refs, type Value } from '../schemaform';
import { en } from '../strings/en';
import { Parts, Waiting } from '../turn';
import { Block, Button, Confirm, Dialog, Failure, FormError, Head, Loading, Menu, More, Status, Tabs, Time, sentence, useAction, type MenuItem } from '../ui';

const Evaluations = lazy(() => import('./evaluations'));
const s = en.agent;
type Agent = Schema<'Agent'>;

export default function AgentPage({ id, tab, sub, one }: { id: string; tab: string; sub?: string; one?: string }) {
  const path = { path: { agentId: id } };
  const agent = useGet<Agent>('/api/v1/agents/{agentId}', path);
  const me = useMe();
  const [, go] = useLocation();
  const writes = may(me.data, 'developer', 'agents:write');
  const [asking, setAsking] = useState<'' | 'delete' | 'suspend'>('');
  const commands = useMemo(
    () => [
      { id: 'agent.chat', title: s.chat, keys: 't', icon: 'chat' as const, run: () => go(`/chat?agent=${id}`) },
      { id: 'agent.runs', title: s.itsRuns, icon: 'runs' as const, run: () => go(`/runs?agent_id=${id}`) },
    ],
    [id, go],
  );
  useCommands(commands);
  if (!agent.data) return <Block q={agent}>{() => null}</Block>;
  const a = agent.data;
  const menu: MenuItem[] = [];
  if (writes) {
    if (a.status === 'active') menu.push({ label: s.suspend, icon: 'pause', run: () => setAsking('suspend') });
    else menu.push({ label: s.activate, icon: 'play', run: () => void send('post', '/api/v1/agents/{agentId}/activate', path).then(() => toast(s.activated), (e: Error) => toast(e.message, true)) });
    menu.push({ label: s.duplicate, icon: 'copy', run: () => void duplicate(a).then((b) => go(`/agents/${b.agent_id}`), (e: Error) => toast(e.message, true)) });
  }
  menu.push({ label: s.export, icon: 'export', run: () => download(a) });
  if (writes) menu.push({ label: s.delete, icon: 'trash', danger: true, run: () => setAsking('delete') });
  const at = (t: string) => `/agents/${id}${t === 'configuration' ? '' : `/${t}`}`;
  return (
    <>
      <Head crumbs={[{ label: en.agents.title, to: '/agents' }]} title={a.name} after={<Status of={a.status} />} curl={curlOf('GET', '/api/v1/agents/{agentId}', path)}>
        <Button icon="chat" label={s.chat} keys="t" onClick={() => go(`/chat?agent=${id}`)} />
        <Menu label={s.more} items={menu} />
      </Head>
      {a.status === 'suspended' && (
        <div className="note warn exp">
          <Icon name="s-paused" />
          <div className="grow">
            <b className="b">{s.suspended}</b> <span className="t2">{a.status_reason}</span>
          </div>
        </div>
      )}
      <Tabs
        active={tab}
        tabs={[
          { id: 'configuration', label: s.configuration, to: at('configuration') },
          { id: 'versions', label: s.versions, to: at('versions'), n: a.version },
          { id: 'evaluations', label: s.evaluations, to: at('evaluations') },
          { id: 'runs', label: s.runs, to: at('runs') },
          { id: 'memory', label: s.memory, to: at('memory') },
        ]}
      />
      {tab === 'configuration' && <Editor key={a.version} agent={a} writes={writes} />}
      {tab === 'versions' && <Versions agent={a} writes={writes} />}
      {tab === 'evaluations' && <Evaluations agent={a} section={sub ?? 'evaluations'} id={one} />}
      {tab === 'runs' && <RunTable filters={{ agent_id: id }} />}
      {tab === 'memory' && <Memory id={id} selected={sub} />}
      {asking === 'delete' && (
        <Confirm
          title={s.deleteTitle(a.name)}
          text={s.deleteText(Number(a.version))}
          action={s.delete}
          danger
          onClose={() => setAsking('')}
          onConfirm={async () => {
            await send('delete', '/api/v1/agents/{agentId}', path);
            toast(s.deleted(a.name));
            go('/agents');
          }}
        />
      )}
      {asking === 'suspend' && <Confirm title={s.suspendTitle(a.name)} text={s.suspendText} action={s.suspend} onClose={() => setAsking('')} onConfirm={() => send('post', '/api/v1/agents/{agentId}/suspend', path, {})} />}
    </>
  );
}

async function duplicate(a: Agent): Promise<Agent> {
  return send<Agent>('post', '/api/v1/agents', {}, { ...writable(a as unknown as Value), name: s.copyOf(a.name) });
}

function download(a: Agent): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([JSON.stringify(writable(a as unknown as Value), null, 2)], { type: 'application/json' }));
  link.download = `${a.name.replace(/[^\w-]+/g, '-')}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

const readOnly = new Set(['agent_id', 'tenant_id', 'version', 'status', 'created_at', 'updated_at', 'status_reason', 'status_reason_code', 'status_changed_at', 'model_provider', 'fallback_model_provider']);

/** What a body may say of an agent: what is null or empty is left out. */
function writable(a: Value): Value {
  return Object.fromEntries(
    Object.entries(a).filter(([k, v]) => !readOnly.has(k) && v !== null && !(Array.isArray(v) && v.length === 0) && !(typeof v === 'object' && !Array.isArray(v) && Object.keys(v as object).length === 0)),
  );
}

const groupOrder = ['basics', 'model', 'tools', 'approvals', 'memory', 'knowledge', 'guardrails', 'limits', 'context', 'schedule', 'publishing', 'execution', 'governance'];

function groupsOf(doc: OpenApi): [string, string[]][] {
  const schema = bodyOf(doc, '/api/v1/agents', 'post');
  const groups = new Map<string, string[]>();
  for (const name of orderOf(schema)) {
    const f = resolve(doc, schema.properties![name]);
    if (/has no effect yet\.$/.test(f.description ?? '') || name === 'knowledge_base_id') continue;
    const group = f['x-group'] ?? 'basics';
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  return [...groups].sort((x, y) => groupOrder.indexOf(x[0]) - groupOrder.indexOf(y[0]));
}

function useRefs(me: Schema<'Me'> | undefined): Refs {
  const admin = may(me, 'admin');
  const tools = useGet<Schema<'BuiltInToolList'>>('/api/v1/admin/tools', {}, { enabled: admin, retry: false, staleTime: 300_000 });
  const models = useGet<Schema<'LlmModels'>>('/api/v1/llm/models', {}, { retry: false, staleTime: 60_000 });
  const bases = useGet<unknown>('/api/v1/knowledge-bases', { query: { limit: 100 } }, { retry: false });
  const workspaces = useGet<unknown>('/api/v1/workspaces', { query: { limit: 100 } }, { retry: false });
  return useMemo(
    () => ({
      ...(tools.data ? { tool: tools.data.tools.map((t) => ({ value: t.id, label: t.name, note: t.description })) } : {}),
      ...(models.data ? { model: models.data.models.map((m) => ({ value: m.id, label: m.id, note: m.display_name })) } : {}),
      ...(bases.data ? { knowledge_base: rowsOf<{ id: string; name: string }>(bases.data).map((k) => ({ value: k.id, label: k.name })) } : {}),
      ...(workspaces.data ? { workspace: rowsOf<{ workspace_id: string; name: string }>(workspaces.data).map((w) => ({ value: w.workspace_id, label: w.name })) } : {}),
    }),
    [tools.data, models.data, bases.data, workspaces.data],
  );
}

/** The form of an agent, drawn from the document, with a try-out beside it. */
function Editor({ agent, writes }: { agent: Agent; writes: boolean }) {
  const doc = useDocument();
  const me = useMe();
  const refs = useRefs(me.data);
  const saved = useMemo(() => writable(agent as unknown as Value), [agent]);
  const [draft, setDraft] = useState<Value>(saved);
  const [showing, setShowing] = useState(false);
  const changes = useMemo(() => changesOf(saved, draft), [saved, draft]);
  const [busy, error, save] = useAction(async () => {
    const body: Value = {};
    for (const c of changes) body[c.field] = draft[c.field] ?? null;
    const next = await send<Agent>('patch', '/api/v1/agents/{agentId}', { path: { agentId: agent.agent_id } }, body, { 'If-Match': `"${agent.version}"` });
    toast(s.savedAs(next.version));
  });
  const groups = useMemo(() => (doc.data ? groupsOf(doc.data) : []), [doc.data]);
  const commands = useMemo(() => (writes && changes.length > 0 ? [{ id: 'agent.save', title: s.save, keys: 'mod+s', everywhere: true, icon: 'check' as const, run: () => void save() }] : []), [writes, changes, save]);
  useCommands(commands);
  useEffect(() => {
    if (changes.length === 0) return;
    const stop = (e: BeforeUnloadEvent) => e.preventDefault();
    addEventListener('beforeunload', stop);
    return () => removeEventListener('beforeunload', stop);
  }, [changes.length]);
  if (!doc.data) return doc.error ? <Failure error={doc.error} retry={() => void doc.refetch()} /> : <Loading />;
  const schema = bodyOf(doc.data, '/api/v1/agents', 'post');
  const conflict = error instanceof ApiError && error.status === 412;
  const edited = new Set(changes.map((c) => c.field));
  return (
    <>
      {changes.length > 0 && (
        <div className="tb savebar">
          <span className="tag acc">{s.draft(changes.length)}</span>
          <span className="grow" />
          <Button small icon="hist" label={s.showChanges} onClick={() => setShowing(true)} />
          <Button small kind="quiet" label={s.discard} onClick={() => setDraft(saved)} />
          {writes && <Button small kind="primary" label={s.saveAs(Number(agent.version) + 1)} keys="mod+s" busy={busy} onClick={() => void save()} />}
        </div>
      )}
      <div className="ed" style={{ borderTop: 0 }}>
        <nav aria-label={s.formSections}>
          {groups.map(([g, names]) => (
            <a
              key={g}
              className="nav"
              href={`#${g}`}
              onClick={(e) => {
                e.preventDefault();
                document.getElementById(`g-${g}`)?.scrollIntoView({ block: 'start' });
              }}
            >
              <span>{s.groups[g] ?? sentence(g)}</span>
              {names.some((n) => edited.has(n)) && <b className="c">{s.edited}</b>}
            </a>
          ))}
        </nav>
        <form aria-label={s.configuration} onSubmit={(e) => e.preventDefault()}>
          {error !== undefined && <FormError error={conflict ? new Error(s.conflict) : error} />}
          <fieldset disabled={!writes}>
            <legend className="vh">{s.configuration}</legend>
            {groups.map(([g, names]) => (
              <section key={g} id={`g-${g}`}>
                <h2>{s.groups[g] ?? sentence(g)}</h2>
                <SchemaFields doc={doc.data!} schema={schema} value={draft} onChange={setDraft} error={error} refs={refs} only={names} depth={0} />
              </section>
            ))}
          </fieldset>
        </form>
        <TryOut agent={agent} dirty={changes.length > 0} />
      </div>
      {showing && (
        <Dialog title={s.changes} wide onClose={() => setShowing(false)}>
          {changes.map((c) => (
            <Change key={c.field} field={c.field} from={c.from} to={c.to} />
          ))}
        </Dialog>
      )}
    </>
  );
}

function changesOf(from: Value, to: Value): { field: string; from: unknown; to: unknown }[] {
  return [...new Set([...Object.keys(from), ...Object.keys(to)])].filter((k) => JSON.stringify(from[k]) !== JSON.stringify(to[k])).map((field) => ({ field, from: from[field], to: to[field] }));
}

/** A change, line by line. */
export function Change({ field, from, to }: { field: string; from: unknown; to: unknown }) {
  const text = (v: unknown) => (v === undefined || v === null ? '' : typeof v === 'string' ? v : JSON.stringify(v, null, 2));
  const a = text(from).split('\n');
  const b = text(to).split('\n');
  return (
    <section style={{ marginBottom: 14 }}>
      <h3 className="lbl mono" style={{ marginBottom: 4 }}>
        {field}
      </h3>
      <pre className="code" tabIndex={0}>
        {lineDiff(a, b).map((l, i) => (
          <span key={i} className={l.kind === '-' ? 'del' : l.kind === '+' ? 'ins' : ''}>
            {l.kind} {l.text}
            {'\n'}
          </span>
        ))}
      </pre>
    </section>
  );
}

/** One message to the saved version, as a run of its own. */
function TryOut({ agent, dirty }: { agent: Agent; dirty: boolean }) {
  const [text, setText] = useState('');
  const [said, setSaid] = useState('');
  const [runId, setRunId] = useState<string>();
  const turn = useTurn(runId);
  const me = useMe();
  const may1 = may(me.data, 'developer', 'runs:create');
  const [busy, error, start] = useAction(async () => {
    const message = text;
    const run = await send<Schema<'Run'>>('post', '/api/v1/runs', {}, { agent_id: agent.agent_id, input: { message } });
    setSaid(message);
    setText('');
    setRunId(run.run_id);
  });
  return (
    <aside aria-label={s.tryOut}>
      <div className="row" style={{ padding: '10px 14px 8px' }}>
        <b className="b grow">{s.tryOut}</b>
        <span className="tag">{dirty ? s.runsSaved(agent.version) : `v${agent.version}`}</span>
      </div>
      <div className="grow col" style={{ padding: '4px 14px 10px', gap: 14, overflow: 'auto' }}>
        {said ? (
          <>
            <div className="msg" data-one="">
              <div>
                <div className="who">
                  <b>{s.you}</b>
                </div>
                <p style={{ whiteSpace: 'pre-wrap' }}>{said}</p>
              </div>
            </div>
            <div className="msg" data-one="">
              <div>
                <div className="who">
                  <b>{agent.name}</b> <Status of={turn.status} />
                </div>
                <Parts parts={turn.parts} runId={runId ?? ''} decide={may1} />
                <Waiting turn={turn} />
                {turn.error && <p className="bad">{turn.error}</p>}
              </div>
            </div>
          </>
        ) : (
          <p className="t2 fs12">{s.tryHint}</p>
        )}
        <FormError error={error} />
      </div>
      {runId && (
        <div className="row fs12 t2" style={{ padding: '8px 14px', borderTop: '1px solid var(--line)' }}>
          <span className="grow">{turn.metrics ? s.tryMetrics(turn.metrics.steps_count, turn.metrics.input_tokens + turn.metrics.output_tokens) : ''}</span>
          <Link className="acc" href={`/runs/${runId}`}>
            {en.turn.openRun}
          </Link>
        </div>
      )}
      <form
        className="comp"
        style={{ padding: '0 10px 10px' }}
        onSubmit={(e) => {
          e.preventDefault();
          if (text.trim()) void start();
        }}
      >
        <div>
          <textarea rows={2} value={text} aria-label={s.tryMessage} placeholder={s.tryMessage} disabled={!may1} onChange={(e) => setText(e.target.value)} onKeyDown={(e) => e.key === 'Enter' && !e.shiftKey && !e.nativeEvent.isComposing && (e.preventDefault(), text.trim() && void start())} />
          <div className="ba">
            <span className="grow" />
            <Button small kind="primary" type="submit" icon="send" label={s.send} busy={busy} disabled={!text.trim()} />
          </div>
        </div>
      </form>
    </aside>
  );
}

/** Versions, what changed between two of them, and the way back. */
function Versions({ agent, writes }: { agent: Agent; writes: boolean }) {
  const path = { path: { agentId: agent.agent_id } };
  const list = useList<Schema<'AgentVersion'>>('/api/v1/agents/{agentId}/versions', { ...path, query: { fields: 'summary' } });
  const [to, setTo] = useState<number>(Number(agent.version));
  const [from, setFrom] = useState<number>(Math.max(1, Number(agent.version) - 1));
  const [asking, setAsking] = useState(false);
  const diff = useGet<Schema<'AgentVersionDiff'>>('/api/v1/agents/{agentId}/versions/{versionNum}/diff', { path: { agentId: agent.agent_id, versionNum: String(to) }, query: { compare_to: from } }, { enabled: from !== to });
  return (
    <div className="spl" style={{ borderTop: 0 }}>
      <div>
        <table className="tbl">
          <thead>
            <tr>
              <th>{s.version}</th>
              <th>{s.changelog}</th>
              <th>{s.by}</th>
              <th className="r">{s.saved}</th>
            </tr>
          </thead>
          <tbody>
            {list.rows.map((v) => (
              <tr key={v.version} className="go" data-selected={v.version === to || undefined} onClick={() => (setTo(v.version), setFrom(Math.max(1, v.version - 1)))}>
                <td>
                  <button type="button" className="lnk b" onClick={() => (setTo(v.version), setFrom(Math.max(1, v.version - 1)))}>
                    v{v.version}
                  </button>
                </td>
                <td className="t2 wide">
                  <span className="trunc">{v.changelog}</span>
                </td>
                <td className="t2">{v.created_by.length > 30 ? '' : v.created_by}</td>
                <td className="r t2">
                  <Time at={v.created_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        <More q={list} shown={list.rows.length} what={s.versionsShown} />
      </div>
      <aside aria-label={s.changes}>
        <div className="row" style={{ marginBottom: 10 }}>
          <h2 className="h2 grow">{from === to ? `v${to}` : s.fromTo(from, to)}</h2>
          {writes && to !== Number(agent.version) && <Button small icon="hist" label={s.rollback(to)} onClick={() => setAsking(true)} />}
        </div>
        {to === 1 && from === to ? (
          <p className="t2">{s.firstVersion}</p>
        ) : (
          <Block q={diff}>
            {(d) =>
              d.changed_fields.length === 0 ? (
                <p className="t2">{s.noChanges}</p>
              ) : (
                <>
                  {d.changed_fields.map((f) => {
                    const pair = (d.diff as Record<string, { from?: unknown; to?: unknown; old?: unknown; new?: unknown }>)[f] ?? {};
                    return <Change key={f} field={f} from={pair.from ?? pair.old} to={pair.to ?? pair.new} />;
                  })}
                </>
              )
            }
          </Block>
        )}
      </aside>
      {asking && (
        <Confirm
          title={s.rollbackTitle(to)}
          text={s.rollbackText(Number(agent.version) + 1)}
          action={s.rollback(to)}
          onClose={() => setAsking(false)}
          onConfirm={async () => {
            await send('post', '/api/v1/agents/{agentId}/rollback', path, { version: to });
            toast(s.rolledBack(to));
          }}
        />
      )}
    </div>
  );
}

const memories: Kind<Value> = {
  id: 'memory',
  title: s.memoryText,
  icon: 'hist',
  list: '/api/v1/agents/{agentId}/memory',
  idOf: (r) => String(r.entry_id),
  nameOf: (r) => String(r.content ?? '').slice(0, 60),
  create: { path: '/api/v1/agents/{agentId}/memory', role: 'developer', label: s.newMemory },
  one: { path: '/api/v1/agents/{agentId}/memory/{entryId}', param: 'entryId' },
  update: { method: 'put', role: 'developer' },
  remove: { role: 'developer' },
  columns: [
    { label: s.memoryText, cell: (r) => String(r.content ?? ''), wide: true },
    { label: s.memoryType, cell: (r) => sentence(String(r.type ?? '')) },
    { label: s.saved, cell: (r) => <Time at={r.created_at as string} />, right: true },
  ],
  empty: { title: s.noMemory, text: s.noMemoryText },
};

/** Searches the memory as the agent does. */
function Recall({ agent }: { agent: string }) {
  const [query, setQuery] = useState('');
  const [found, setFound] = useState<Value[] | null>(null);
  const [busy, error, run] = useAction(async () => {
    setFound(rowsOf<Value>(await send('post', '/api/v1/agents/{agentId}/memory/search', { path: { agentId: agent } }, { query, limit: 10 })));
  });
  return (
    <form className="tb" onSubmit={(e) => (e.preventDefault(), query.trim() && void run())}>
      <span className="find-in wide">
        <Icon name="search" small />
        <input type="search" value={query} placeholder={s.recall} aria-label={s.recall} onChange={(e) => (setQuery(e.target.value), setFound(null))} />
      </span>
      <Button small type="submit" label={s.find} busy={busy} disabled={!query.trim()} />
      <FormError error={error} />
      {found && (
        <ol className="dots" style={{ flex: '1 0 100%' }} aria-label={s.found(found.length)}>
          {found.length === 0 && <li className="t2">{s.found(0)}</li>}
          {found.map((x, i) => (
            <li key={i}>{String(x.content ?? (x.entry as Value | undefined)?.content ?? '')}</li>
          ))}
        </ol>
      )}
    </form>
  );
}

function Memory({ id, selected }: { id: string; selected?: string }) {
  const path = { path: { agentId: id } };
  const core = useGet<{ items?: Value[]; blocks?: Value[] }>('/api/v1/agents/{agentId}/memory/core', path, { retry: false });
  const blocks = core.data?.items ?? core.data?.blocks ?? [];
  return (
    <>
      {blocks.length > 0 && (
        <section className="sec">
          <h2>{s.coreMemory}</h2>
          <dl className="args" style={{ marginTop: 10 }}>
            {blocks.map((b) => (
              <div key={String(b.label)}>
                <dt>{String(b.label)}</dt>
                <dd>{String(b.value ?? b.content ?? '')}</dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      <ResourcePage kind={{ ...memories, params: { agentId: id }, before: <Recall agent={id} /> }} selected={selected} base={`/agents/${id}/memory`} embedded />
    </>
  );
}


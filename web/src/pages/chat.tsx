import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { api, curlOf, may, queries, send, useGet, useList, useMe, type Schema } from '../api';
import { deleteBranch, Versions, pathsOf, versionsOf } from '../branches';
import { toast } from '../bus';
import { useCommands } from '../commands';
import { bytes, clock, count, shortId, span, usd } from '../format';
import { Icon } from '../icons';
import { useTurn, type Part, type Turn } from '../live/turn';
import { en } from '../strings/en';
import { templates } from '../templates';
import { Parts, Waiting, tryParse } from '../turn';
import { Avatar, Button, Confirm, CopyCurl, Dialog, Empty, Failure, Field, FormError, IconButton, Loading, Menu, Select, Status, Time, copy, useAction, useTitle, type MenuItem } from '../ui';
import { personOf } from '../shell';

const s = en.chat;
type Session = Schema<'Session'>;
type Row = Schema<'SessionListItem'>;
type Entry = Schema<'ConversationEntry'>;
type Messages = Schema<'SessionMessageList'>;

export default function Chat({ id }: { id?: string }) {
  const list = useList<Row>('/api/v1/sessions', {}, { every: 5000 });
  const [, go] = useLocation();
  const agent = new URLSearchParams(useSearch()).get('agent') ?? '';
  const rows = list.rows;
  const at = rows.findIndex((r) => r.session_id === id);
  const commands = useMemo(
    () => [
      { id: 'chat.new', title: s.new, keys: 'n', icon: 'plus' as const, run: () => go('/chat') },
      { id: 'chat.next', title: s.next, keys: 'j', hidden: true, run: () => rows[at + 1] && go(`/chat/${rows[at + 1]!.session_id}`, { replace: true }) },
      { id: 'chat.prev', title: s.previous, keys: 'k', hidden: true, run: () => rows[at - 1] && go(`/chat/${rows[at - 1]!.session_id}`, { replace: true }) },
    ],
    [rows, at, go],
  );
  useCommands(commands);
  return (
    <div className={`chat ${id || agent ? 'open' : ''} ${id ? '' : 'bare'}`}>
      <div className="list">
        <div className="ph">
          <h1>{s.title}</h1>
          <div className="act" style={{ marginLeft: 'auto', width: 'auto' }}>
            <Button small icon="plus" label={s.newShort} keys="n" onClick={() => go('/chat')} />
          </div>
        </div>
        {list.error && rows.length === 0 ? <Failure error={list.error} retry={() => void list.refetch()} /> : list.isLoading ? <Loading /> : null}
        {!list.isLoading && rows.length === 0 && !list.error && <p className="t3 fs12 pad">{s.none}</p>}
        <nav aria-label={s.sessions}>
          {rows.map((r) => (
            <Link key={r.session_id} className="sess" href={`/chat/${r.session_id}`} aria-current={r.session_id === id ? 'true' : undefined}>
              <div className="row">
                <span className="b trunc grow">{titleOf(r)}</span>
                <Time at={r.updated_at} className="t3 fs11" />
              </div>
              <div className="row t2 fs12">
                <span className="trunc">{r.agent_name}</span>
                <span className="t3 trunc grow">{r.last_message}</span>
              </div>
            </Link>
          ))}
        </nav>
        {list.hasNextPage && (
          <div className="more">
            <Button small kind="quiet" label={s.older} busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()} />
          </div>
        )}
      </div>
      {id ? <Conversation key={id} id={id} row={rows.find((r) => r.session_id === id)} /> : <Begin key={agent} agentId={agent} />}
    </div>
  );
}

export function titleOf(r: Row): string {
  const given = (r as Row & { title?: string }).title ?? (r.metadata as { title?: string } | undefined)?.title;
  return given || r.first_user_message || s.untitled;
}

/** Choose an agent, and say something: the conversation begins with the first message. */
function Begin({ agentId }: { agentId: string }) {
  const [, go] = useLocation();
  const me = useMe();
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', { query: { status: 'active' } }, { limit: 100 });
  const [chosen, setChosen] = useState(agentId);
  const agent = agents.rows.find((a) => a.agent_id === chosen) ?? agents.rows[0];
  useTitle(s.new);
  const talks = may(me.data, 'developer', 'sessions:write') || may(me.data, 'developer', 'runs:create');
  const begin = async (text: string, files: string[]) => {
    if (!agent) return;
    const session = await send<Session>('post', '/api/v1/sessions', {}, { agent_id: agent.agent_id });
    await send('post', '/api/v1/sessions/{sessionId}/messages', { path: { sessionId: session.session_id } }, { content: text, ...(files.length ? { file_ids: files } : {}) });
    go(`/chat/${session.session_id}`, { replace: agentId !== '' });
  };
  const [busy, error, run] = useAction(begin);
  if (agents.isLoading) return <section className="conv"><Loading /></section>;
  if (agents.rows.length === 0) {
    return (
      <section className="conv">
        <Empty icon="chat" title={s.noAgent} text={s.noAgentText}>
          <Button kind="primary" icon="plus" label={en.agents.new} onClick={() => go('/agents?new=1')} />
        </Empty>
      </section>
    );
  }
  const examples: string[] = templates.find((t) => (t.body.built_in_tools as string[] | undefined)?.join() === agent?.built_in_tools.join() && t.examples.length > 0)?.examples ?? (agent?.skills ?? []).flatMap((k: unknown) => (k as { examples?: string[] }).examples ?? []).slice(0, 3);
  return (
    <section className="conv" aria-label={s.new}>
      <div className="hd">
        <Link className="ib sm back-s" href="/chat" aria-label={s.sessions}>
          <Icon name="left" />
        </Link>
        <b className="b">{s.new}</b>
        <span className="grow" />
        <CopyCurl small curl={curlOf('POST', '/api/v1/sessions', {}, { agent_id: agent?.agent_id })} />
      </div>
      <div className="sc">
        <div className="startc">
          <h2 className="big" style={{ marginBottom: 14 }}>{s.whom}</h2>
          <div className="tpl">
            {agents.rows.slice(0, 24).map((a) => (
              <button key={a.agent_id} type="button" aria-pressed={a.agent_id === agent?.agent_id} onClick={() => setChosen(a.agent_id)}>
                <span className="row">
                  <Icon name="agents" small className="acc" />
                  <b className="b trunc">{a.name}</b>
                </span>
                <span className="t2 fs12 trunc">{a.description || a.model.model_ref}</span>
              </button>
            ))}
          </div>
          {examples.length > 0 && (
            <>
              <p className="lbl" style={{ margin: '18px 0 6px' }}>{s.tryThese}</p>
              <div className="col" style={{ gap: 6, alignItems: 'flex-start' }}>
                {examples.map((x) => (
                  <button key={x} type="button" className="chip" style={{ height: 'auto', minHeight: 28, whiteSpace: 'pre-wrap', textAlign: 'left' }} disabled={busy} onClick={() => void run(x, [])}>
                    {x}
                  </button>
                ))}
              </div>
            </>
          )}
          <FormError error={error} />
        </div>
      </div>
      <Composer draftKey={`new-${agent?.agent_id}`} placeholder={s.messageTo(agent?.name ?? '')} disabled={!talks || agent?.status === 'suspended'} busy={busy} onSend={run} autoFocus />
    </section>
  );
}

/** Entries of one run stand together as one turn of the agent. */
interface Said {
  key: string;
  runId: string;
  user?: Entry;
  notes: Entry[];
  parts: Part[];
  cost?: number;
  at: string;
}

function turnsOf(entries: Entry[]): Said[] {
  const out: Said[] = [];
  for (const e of entries) {
    let t = out[out.length - 1];
    if (!t || t.runId !== e.run_id || (e.role === 'user' && t.user && e.message_id === e.run_id)) {
      t = { key: e.run_id, runId: e.run_id, notes: [], parts: [], at: e.timestamp };
      out.push(t);
    }
    if (e.role === 'user' && !t.user) {
      t.user = e;
      t.at = e.timestamp;
    } else if (e.role === 'user') t.parts.push({ kind: 'note', key: e.message_id, note: 'governance', text: e.content });
    else if (e.role === 'system') t.notes.push(e);
    else if (e.role === 'assistant') {
      if (e.thinking) t.parts.push({ kind: 'thinking', key: `${e.message_id}-t`, step: e.message_id, text: e.thinking, done: true, at: e.timestamp });
      if (e.content) t.parts.push({ kind: 'text', key: e.message_id, step: e.message_id, text: e.content, done: true });
      for (const c of e.tool_calls ?? []) t.parts.push({ kind: 'tool', key: c.id + e.message_id, id: c.id, name: c.name, args: tryParse(c.input ?? ''), status: c.status === 'error' ? 'error' : 'done', output: c.error || tryParse(c.output ?? ''), ms: c.duration_ms });
      t.cost = (t.cost ?? 0) + (e.cost_usd ?? 0);
    }
  }
  return out;
}

const pageSize = 100;

function Conversation({ id, row }: { id: string; row?: Row }) {
  const path = { path: { sessionId: id } };
  const me = useMe();
  const [, go] = useLocation();
  const [limit, setLimit] = useState(pageSize);
  const session = useGet<Session>('/api/v1/sessions/{sessionId}', path, { every: 10_000 });
  const messages = useGet<Messages>('/api/v1/sessions/{sessionId}/messages', { ...path, query: { limit } }, {
    every: (m) => (m?.active_run_id ? 15_000 : 3000),
    placeholderData: (before: unknown) => before as never,
  });
  const agent = useGet<Schema<'Agent'>>('/api/v1/agents/{agentId}', { path: { agentId: session.data?.agent_id ?? '' } }, { enabled: !!session.data, retry: false });
  const active = messages.data?.active_run_id;
  const [announced, announce] = useState('');
  const name = agent.data?.name ?? row?.agent_name ?? s.agent;
  const turn = useTurn(active, (t) => {
    announce(t.status === 'completed' ? s.hasAnswered(name) : s.hasEnded(name));
    void queries.invalidateQueries({ queryKey: ['/api/v1/sessions/{sessionId}/messages'] });
    void queries.invalidateQueries({ queryKey: ['/api/v1/sessions'] });
  });
  const [pending, setPending] = useState<{ text: string; runId?: string } | null>(null);
  const [asking, setAsking] = useState<'' | 'close' | 'share' | 'branch'>('');
  const talks = may(me.data, 'developer');
  const turns = useMemo(() => turnsOf(messages.data?.items ?? []), [messages.data]);
  const paths = useMemo(() => (session.data && session.data.branches.length > 1 ? pathsOf(session.data) : null), [session.data]);
  const live = active && !turn.ended;
  useTitle(row ? titleOf(row) : s.title);
  useEffect(() => {
    if (pending?.runId && turns.some((t) => t.runId === pending.runId)) setPending(null);
  }, [turns, pending]);
  useEffect(() => {
    if (turn.status === 'awaiting_approval') announce(s.needsYou(name));
  }, [turn.status, name]);

  const post = async (text: string, files: string[]) => {
    setPending({ text });
    try {
      const made = await send<{ run_id: string }>('post', '/api/v1/sessions/{sessionId}/messages', path, { content: text, ...(files.length ? { file_ids: files } : {}) });
      setPending({ text, runId: made.run_id });
    } catch (e) {
      setPending(null);
      throw e;
    }
  };
  /** Says something else, or the same again, in place of a message: a branch shares what was before it. */
  const edit = async (at: number, text: string) => {
    const before = turns[at - 1];
    const files = turns[at]?.user?.attachments?.map((f) => f.file_id) ?? [];
    const from = before ? { fork_point_run_id: before.runId } : { fork_point: -1, parent_branch_id: 'main' };
    const branch = await send<Schema<'SessionBranch'>>('post', '/api/v1/sessions/{sessionId}/branch', path, { ...from, name: text.slice(0, 40) });
    await send('put', '/api/v1/sessions/{sessionId}/branches/{branchId}/activate', { path: { sessionId: id, branchId: branch.branch_id } }, {});
    await post(text, files);
  };
  const stop = useCallback(() => {
    if (active) void send('post', '/api/v1/runs/{runId}/cancel', { path: { runId: active } }, {}).then(() => toast(s.stopped), (e: Error) => toast(e.message, true));
  }, [active]);
  const commands = useMemo(() => (live ? [{ id: 'chat.stop', title: s.stop, keys: 'escape', everywhere: true, icon: 'stop' as const, run: stop }] : []), [live, stop]);
  useCommands(commands);

  const { ref, pinned, toEnd } = usePinned(`${turns.length} ${turn.parts.length} ${textLength(turn)} ${pending?.text ?? ''}`);
  if (session.error && !session.data) return <section className="conv"><Failure error={session.error} /></section>;
  const closed = session.data && session.data.status !== 'active';
  const branch = session.data?.branches.find((b) => b.branch_id === session.data.active_branch && b.parent_branch_id);
  const menu: MenuItem[] = [
    { label: s.copyConversation, icon: 'copy', run: () => void copy(turns.map((t) => `${t.user?.content ?? ''}\n\n${t.parts.filter((p) => p.kind === 'text').map((p) => p.text).join('\n\n')}`).join('\n\n---\n\n')) },
    ...(talks ? [{ label: s.share, icon: 'link' as const, run: () => setAsking('share') }] : []),
    ...(talks && !closed && !live && branch ? [{ label: s.deleteBranch, icon: 'trash' as const, danger: true, run: () => setAsking('branch') }] : []),
    ...(talks && !closed ? [{ label: s.close, icon: 'x' as const, danger: true, run: () => setAsking('close') }] : []),
  ];
  return (
    <>
      <section className="conv" aria-label={s.conversation}>
        <div className="hd">
          <Link className="ib sm back-s" href="/chat" aria-label={s.sessions}>
            <Icon name="left" />
          </Link>
          <h2 className="b trunc">{row ? titleOf(row) : ''}</h2>
          <Link className="tag hide-s" href={session.data ? `/agents/${session.data.agent_id}` : '#'}>
            <Icon name="agents" small />
            {name}
          </Link>
          {(session.data?.branches.length ?? 0) > 1 && (
            <span className="tag">
              <Icon name="branch" small />
              {s.branches(session.data!.branches.length)}
            </span>
          )}
          <span className="grow" />
          <CopyCurl small curl={curlOf('POST', '/api/v1/sessions/{sessionId}/messages', path, { content: 'Hello' })} />
          <Menu label={s.more} items={menu} />
        </div>
        <div className="sc" ref={ref}>
          <div className="thread">
            {messages.data?.has_more && (
              <div className="thin">
                <Button small kind="quiet" label={s.earlier} onClick={() => setLimit(limit + pageSize)} />
              </div>
            )}
            {messages.isLoading && <Loading rows={4} />}
            {messages.error && !messages.data && <Failure error={messages.error} retry={() => void messages.refetch()} />}
            {turns.map((t, i) => (
              <TurnBlock key={t.key} onEdit={talks && !closed && !live && (i > 0 || !messages.data?.has_more) ? (text) => edit(i, text) : undefined} versions={talks && paths && session.data && <Versions session={session.data} versions={versionsOf(session.data, paths, t.runId)} run={t.runId} />} last={i === turns.length - 1} said={t} me={me.data ? personOf(me.data) : ''} name={name} live={t.runId === active && live ? turn : undefined} decide={talks} model={agent.data?.model.model_ref} />
            ))}
            {pending && !turns.some((t) => t.runId === pending.runId) && (
              <article className="msg">
                <Avatar name={me.data ? personOf(me.data) : ''} />
                <div>
                  <div className="who">
                    <b>{me.data ? personOf(me.data) : ''}</b>
                    <span className="t3 fs12">{s.sending}</span>
                  </div>
                  <p style={{ whiteSpace: 'pre-wrap' }}>{pending.text}</p>
                </div>
              </article>
            )}
          </div>
          {!pinned && (
            <div className="newtext row" style={{ justifyContent: 'center' }}>
              <Button small icon="down" label={s.newText} onClick={toEnd} />
            </div>
          )}
        </div>
        <div className="vh" role="status" aria-live="polite">
          {announced}
        </div>
        <Composer draftKey={id} placeholder={closed ? s.closed : live && turn.status === 'awaiting_approval' ? s.waitsForYou : s.messageTo(name)} disabled={!talks || closed} onSend={post} running={!!live} onStop={stop} autoFocus={turns.length === 0} />
      </section>
      <aside className="ctx" aria-label={s.thisTurn}>
        <Context turn={turn} active={active} last={turns[turns.length - 1]} session={session.data} />
        {talks && !closed && session.data && <NextModel session={session.data} />}
      </aside>
      {asking === 'close' && <Confirm title={s.closeTitle} text={s.closeText} action={s.close} onClose={() => setAsking('')} onConfirm={() => send('delete', '/api/v1/sessions/{sessionId}', path).then(() => go('/chat'))} />}
      {asking === 'branch' && session.data && branch && <Confirm title={s.deleteBranchTitle(branch.name || shortId(branch.branch_id))} text={s.deleteBranchText} action={s.deleteBranch} danger onClose={() => setAsking('')} onConfirm={() => deleteBranch(session.data, branch.branch_id).then(() => toast(s.branchDeleted))} />}
      {asking === 'share' && <Share id={id} onClose={() => setAsking('')} />}
    </>
  );
}

function textLength(t: Turn): number {
  let n = 0;
  for (const p of t.parts) if (p.kind === 'text' || p.kind === 'thinking') n += p.text.length;
  return n;
}

function TurnBlock({ said, me, name, live, decide, model, onEdit, versions, last }: { said: Said; me: string; name: string; live?: Turn; decide: boolean; model?: string; onEdit?: (text: string) => Promise<void>; versions?: ReactNode; last?: boolean }) {
  const [editing, setEditing] = useState(false);
  const user = said.user;
  const [busy, error, again] = useAction(async () => onEdit?.(user?.content ?? ''));
  const parts = live ? live.parts : said.parts;
  return (
    <>
      {said.notes.map((n) => (
        <div className="thin" key={n.message_id} title={n.content}>
          {s.summed}
        </div>
      ))}
      {said.user && (
        <article className="msg">
          <Avatar name={me} />
          <div>
            <div className="who">
              <b>{me}</b>
              <span className="t3 fs12">{clock(said.user.timestamp).slice(0, 5)}</span>
              {onEdit && !editing && <IconButton small icon="edit" label={s.edit} onClick={() => setEditing(true)} />}
              {!editing && versions}
            </div>
            {editing && onEdit ? <EditMessage text={said.user.content} note={s.editBranch} onClose={() => setEditing(false)} onSave={onEdit} /> : <p style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{said.user.content}</p>}
            {(said.user.attachments ?? []).length > 0 && (
              <div className="row wrap" style={{ marginTop: 6 }}>
                {said.user.attachments!.map((f) => (
                  <a className="chip" key={f.file_id} href={api.url('/api/v1/files/{fileId}/content', { path: { fileId: f.file_id } })}>
                    <Icon name="file" small />
                    {f.filename} <span className="t3">{bytes(f.size_bytes)}</span>
                  </a>
                ))}
              </div>
            )}
          </div>
        </article>
      )}
      {(parts.length > 0 || live) && (
        <article className="msg" aria-busy={live ? true : undefined}>
          <Avatar name={name} agent />
          <div>
            <div className="who">
              <b>{name}</b>
              <span className="t3 fs12">
                {[clock(said.at).slice(0, 5), model, said.cost ? usd(said.cost) : ''].filter(Boolean).join(' · ')}
              </span>
            </div>
            <Parts parts={parts} runId={said.runId} decide={decide} />
            {live && <Waiting turn={live} />}
            {live && parts.length === 0 && !live.waiting && (
              <p className="t3">
                <Status of={live.status === 'queued' ? 'queued' : 'running'} label={live.status === 'queued' ? s.queued : s.working} />
              </p>
            )}
            {!live && <Outcome runId={said.runId} parts={said.parts} />}
            {last && onEdit && user && <Anew busy={busy} error={error} run={again} />}
          </div>
        </article>
      )}
      {parts.length === 0 && !live && (
        <article className="msg">
          <Avatar name={name} agent />
          <div>
            <div className="who">
              <b>{name}</b>
            </div>
            <Outcome runId={said.runId} parts={said.parts} />
            {last && onEdit && user && <Anew busy={busy} error={error} run={again} />}
          </div>
        </article>
      )}
    </>
  );
}

function Anew({ busy, error, run }: { busy: boolean; error: unknown; run: () => Promise<void> }) {
  return (
    <div style={{ marginTop: 6 }}>
      <Button small kind="quiet" icon="refresh" label={<span title={s.anewTitle}>{s.anew}</span>} busy={busy} onClick={() => void run()} />
      <FormError error={error} />
    </div>
  );
}

function EditMessage({ text, note, onSave, onClose }: { text: string; note: string; onSave: (text: string) => Promise<void>; onClose: () => void }) {
  const [value, setValue] = useState(text);
  const [busy, error, run] = useAction(() => onSave(value.trim()), onClose);
  return (
    <form onSubmit={(e) => (e.preventDefault(), value.trim() && void run())} onKeyDown={(e) => e.key === 'Escape' && (e.stopPropagation(), onClose())}>
      <textarea className="in" rows={3} value={value} aria-label={s.edit} autoFocus onChange={(e) => setValue(e.target.value)} />
      <p className="t3 fs12" style={{ margin: '4px 0 8px' }}>{note}</p>
      <div className="row">
        <Button small kind="primary" type="submit" icon="branch" label={s.sendEdited} busy={busy} disabled={!value.trim() || value.trim() === text.trim()} />
        <Button small kind="quiet" label={en.common.cancel} onClick={onClose} />
      </div>
      <FormError error={error} />
    </form>
  );
}

/** The model of the next turns of this conversation. */
function NextModel({ session }: { session: Session }) {
  const models = useGet<Schema<'LlmModels'>>('/api/v1/llm/models', {}, { retry: false, staleTime: 60_000 });
  const now = session.model_override?.model_ref ?? '';
  const ids = [...new Set([...(models.data?.models ?? []).filter((m) => m.modality === 'chat').map((m) => m.id), ...(now ? [now] : [])])];
  const set = (ref: string) =>
    void send('put', '/api/v1/sessions/{sessionId}', { path: { sessionId: session.session_id } }, { model_override: ref ? { provider: ref.startsWith('builtin/') ? 'custom' : 'openai_compat', model_ref: ref } : null }).then(
      () => toast(ref ? s.modelSet(ref) : s.modelReset),
      (e: Error) => toast(e.message, true),
    );
  return (
    <div style={{ marginTop: 22 }}>
      <Field label={s.nextModel}>{(p) => <Select {...p} value={now} onChange={set} options={[['', s.agentsModel], ...ids.map((m) => [m, m] as const)]} />}</Field>
    </div>
  );
}

/** How a turn without an answer ended. */
function Outcome({ runId, parts }: { runId: string; parts: Part[] }) {
  const silent = !parts.some((p) => p.kind === 'text' && p === parts[parts.length - 1]);
  const run = useGet<Schema<'Run'>>('/api/v1/runs/{runId}', { path: { runId } }, { enabled: silent, retry: false });
  const r = run.data;
  if (!silent || !r || r.status === 'completed' || r.status === 'running' || r.status === 'queued') return null;
  return (
    <div className={`note ${r.status === 'failed' || r.status === 'timeout' ? 'bad' : ''}`} style={{ marginTop: 8 }}>
      <Icon name={r.status === 'failed' ? 's-failed' : 's-cancelled'} />
      <div className="grow">
        <b className="b">{en.status[r.status as keyof typeof en.status] ?? r.status}</b> <span className="t2">{r.error}</span>{' '}
        <Link className="acc" href={`/runs/${runId}`}>
          {en.turn.openRun}
        </Link>
      </div>
    </div>
  );
}

function Context({ turn, active, last, session }: { turn: Turn; active?: string; last?: Said; session?: Session }) {
  const runId = active ?? last?.runId;
  const run = useGet<Schema<'Run'>>('/api/v1/runs/{runId}', { path: { runId: runId ?? '' } }, { enabled: !!runId, retry: false, every: active && !turn.ended ? 3000 : false });
  const r = run.data;
  if (!runId) return <p className="t3 fs12">{s.noTurn}</p>;
  const status = active && !turn.ended ? turn.status : (r?.status ?? '');
  return (
    <>
      <h2 className="h2">{s.thisTurn}</h2>
      {status && (
        <div style={{ marginTop: 8 }}>
          <Status of={status} />
        </div>
      )}
      <dl className="kv" style={{ marginTop: 10 }}>
        <dt>{s.run}</dt>
        <dd className="mono trunc">
          <Link className="acc" href={`/runs/${runId}`}>
            {shortId(runId)}
          </Link>
        </dd>
        {r && (
          <>
            <dt>{s.steps}</dt>
            <dd className="num">{r.metrics.steps_count}</dd>
            <dt>{s.tokens}</dt>
            <dd className="num">{count(r.metrics.input_tokens + r.metrics.output_tokens)}</dd>
            <dt>{s.cost}</dt>
            <dd className="num">{usd(r.metrics.total_cost_usd)}</dd>
            <dt>{s.took}</dt>
            <dd className="num">{span(r.metrics.duration_ms)}</dd>
          </>
        )}
      </dl>
      {session && session.branches.length > 1 && <Branches session={session} />}
    </>
  );
}

function Branches({ session }: { session: Session }) {
  const use = (branchId: string) => send('put', '/api/v1/sessions/{sessionId}/branches/{branchId}/activate', { path: { sessionId: session.session_id, branchId } }, {}).catch((e: Error) => toast(e.message, true));
  return (
    <>
      <h2 className="h2" style={{ marginTop: 22 }}>{s.branchesTitle}</h2>
      <ul className="col" style={{ marginTop: 8, gap: 2 }}>
        {session.branches.map((b) => (
          <li key={b.branch_id}>
            <button type="button" className="nav" aria-current={b.branch_id === session.active_branch ? 'true' : undefined} onClick={() => void use(b.branch_id)}>
              <Icon name="branch" small />
              <span>{(b as { name?: string }).name || shortId(b.branch_id)}</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

function Share({ id, onClose }: { id: string; onClose: () => void }) {
  const [made, setMade] = useState<{ page_url?: string; share_url?: string } | null>(null);
  const [busy, error, run] = useAction(async () => setMade(await send('post', '/api/v1/sessions/{sessionId}/share', { path: { sessionId: id } }, {})));
  const url = made?.page_url ?? made?.share_url ?? '';
  return (
    <Dialog title={s.share} onClose={onClose}>
      <p className="t2" style={{ marginBottom: 12 }}>{s.shareText}</p>
      {made ? (
        <div className="row">
          <input className="in mono grow" readOnly value={url} aria-label={s.link} onFocus={(e) => e.target.select()} />
          <Button icon="copy" label={en.common.copy} onClick={() => void copy(url)} />
        </div>
      ) : (
        <Button kind="primary" icon="link" label={s.makeLink} busy={busy} onClick={() => void run()} />
      )}
      <FormError error={error} />
    </Dialog>
  );
}

/** Keeps a list at its end while new text arrives, if it was there. */
function usePinned(changed: string) {
  const ref = useRef<HTMLDivElement>(null);
  const [pinned, setPinned] = useState(true);
  const pin = useRef(true);
  const toEnd = useCallback(() => {
    const el = ref.current;
    if (el) el.scrollTop = el.scrollHeight;
    pin.current = true;
    setPinned(true);
  }, []);
  useEffect(() => {
    const el = ref.current;
    if (!el) return;
    const seen = () => {
      const at = el.scrollHeight - el.scrollTop - el.clientHeight < 60;
      pin.current = at;
      setPinned(at);
    };
    el.addEventListener('scroll', seen, { passive: true });
    const grown = new ResizeObserver(() => pin.current && (el.scrollTop = el.scrollHeight));
    if (el.firstElementChild) grown.observe(el.firstElementChild);
    return () => {
      el.removeEventListener('scroll', seen);
      grown.disconnect();
    };
  });
  useLayoutEffect(() => {
    if (pin.current && ref.current) ref.current.scrollTop = ref.current.scrollHeight;
  }, [changed]);
  return { ref, pinned, toEnd };
}

interface Upload {
  id: string;
  name: string;
}

function Composer({ draftKey, placeholder, disabled, busy, running, onSend, onStop, autoFocus }: { draftKey: string; placeholder: string; disabled?: boolean; busy?: boolean; running?: boolean; onSend: (text: string, files: string[]) => Promise<void>; onStop?: () => void; autoFocus?: boolean }) {
  const store = `agentd.draft.${draftKey}`;
  const [text, setText] = useState(() => read(store));
  const [files, setFiles] = useState<Upload[]>([]);
  const [uploading, setUploading] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const pick = useRef<HTMLInputElement>(null);
  const [sending, error, run] = useAction(async () => {
    const said = text;
    setText('');
    write(store, '');
    try {
      await onSend(said, files.map((f) => f.id));
      setFiles([]);
    } catch (e) {
      setText(said);
      write(store, said);
      throw e;
    }
  });
  useLayoutEffect(() => {
    const el = area.current;
    if (!el) return;
    el.style.height = 'auto';
    el.style.height = `${Math.min(240, el.scrollHeight)}px`;
  }, [text]);
  const upload = async (list: FileList | null) => {
    if (!list || list.length === 0) return;
    setUploading(true);
    try {
      for (const file of list) {
        const form = new FormData();
        form.append('file', file);
        const made = (await api.post('/api/v1/files', { body: form as never, bodySerializer: (b: unknown) => b } as never)) as unknown as { file_id: string };
        setFiles((f) => [...f, { id: made.file_id, name: file.name }]);
      }
    } catch (e) {
      toast((e as Error).message, true);
    } finally {
      setUploading(false);
      if (pick.current) pick.current.value = '';
    }
  };
  const submit = () => {
    if (text.trim() && !disabled && !sending) void run();
  };
  return (
    <form
      className="comp"
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
    >
      <div>
        {files.length > 0 && (
          <div className="pick" style={{ padding: '8px 10px 0' }}>
            {files.map((f) => (
              <span className="chip" key={f.id}>
                <Icon name="file" small />
                {f.name}
                <button type="button" aria-label={en.form.remove(f.name)} onClick={() => setFiles(files.filter((x) => x.id !== f.id))}>
                  <Icon name="x" small />
                </button>
              </span>
            ))}
          </div>
        )}
        <textarea
          ref={area}
          rows={1}
          value={text}
          disabled={disabled}
          autoFocus={autoFocus}
          aria-label={s.message}
          placeholder={placeholder}
          onChange={(e) => (setText(e.target.value), write(store, e.target.value))}
          onKeyDown={(e) => {
            if (e.key === 'Enter' && !e.shiftKey && !e.nativeEvent.isComposing) {
              e.preventDefault();
              submit();
            }
          }}
        />
        <div className="ba">
          <input ref={pick} type="file" multiple hidden onChange={(e) => void upload(e.target.files)} />
          <IconButton small icon="clip" label={uploading ? s.uploading : s.attach} onClick={() => pick.current?.click()} />
          <span className="grow">{error !== undefined && <span className="bad fs12">{(error as Error).message}</span>}</span>
          <span className="t3 fs12 hide-s">{s.newLine}</span>
          {running && <Button small icon="stop" label={s.stop} onClick={onStop} />}
          <Button small kind="primary" type="submit" icon="send" label={error !== undefined ? s.again : s.send} busy={sending || busy} disabled={disabled || !text.trim()} />
        </div>
      </div>
    </form>
  );
}

function read(key: string): string {
  try {
    return sessionStorage.getItem(key) ?? '';
  } catch {
    return '';
  }
}
function write(key: string, value: string): void {
  try {
    if (value) sessionStorage.setItem(key, value);
    else sessionStorage.removeItem(key);
  } catch {
    // No storage: the draft lives as long as the page.
  }
}

import { useEffect, useMemo, useRef, useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { curlOf, may, useGet, useList, useMe, type Schema } from '../api';
import { emit, toast } from '../bus';
import { useCommands, type Command } from '../commands';
import { ago, coarse, shortId } from '../format';
import { Icon, type IconName } from '../icons';
import { notificationsOn, setNotifications } from '../notify';
import { en } from '../strings/en';
import { Args, EditArgs, QuestionCard, Reject, brief, decideApproval } from '../turn';
import { Button, Empty, Failure, FormError, Head, Kbd, Loading, Segmented, Status, Time, useAction, useTick } from '../ui';

const s = en.inbox;
type Approval = Schema<'Approval'>;
type Run = Schema<'Run'>;

interface Item {
  key: string;
  kind: 'approval' | 'question' | 'auth';
  runId: string;
  title: string;
  text: string;
  agent: string;
  at: string;
  expires?: string;
  approval?: Approval;
  run?: Run;
}

/** Approvals, questions and authorizations that wait, the one that expires first on top. */
export function useWaiting(enabled: boolean) {
  const approvals = useList<Approval>('/api/v1/approvals', { query: { status: 'pending', fields: 'summary' } }, { every: 3000, limit: 100, enabled });
  const paused = useList<Run>('/api/v1/runs', { query: { status: 'paused', fields: 'summary' } }, { every: 3000, limit: 100, enabled });
  const auth = useList<Run>('/api/v1/runs', { query: { status: 'auth_required', fields: 'summary' } }, { every: 5000, limit: 100, enabled });
  const items = useMemo<Item[]>(() => {
    const a = approvals.rows.map((x): Item => ({ key: x.approval_id, kind: 'approval', runId: x.run_id, title: x.tool_name, text: '', agent: x.agent_name ?? '', at: x.requested_at, expires: x.expires_at, approval: x }));
    const q = paused.rows.filter((r) => r.pending_input).map((r): Item => ({ key: r.pending_input!.input_id, kind: 'question', runId: r.run_id, title: r.pending_input!.question || s.hasQuestion, text: r.input_preview ?? '', agent: r.agent_name ?? '', at: r.pending_input!.requested_at || r.created_at, run: r }));
    const o = auth.rows.map((r): Item => ({ key: `auth-${r.run_id}`, kind: 'auth', runId: r.run_id, title: s.authorize(r.pending_auth?.name ?? ''), text: r.input_preview ?? '', agent: r.agent_name ?? '', at: r.created_at, run: r }));
    return [...a.sort((x, y) => (x.expires ?? '').localeCompare(y.expires ?? '')), ...q.sort((x, y) => x.at.localeCompare(y.at)), ...o];
  }, [approvals.rows, paused.rows, auth.rows]);
  return { items, loading: approvals.isLoading, error: approvals.error, refetch: approvals.refetch };
}

const icons: Record<Item['kind'], IconName> = { approval: 's-waiting', question: 'ask', auth: 'link' };

export default function Inbox({ id }: { id?: string }) {
  const [, go] = useLocation();
  const view = new URLSearchParams(useSearch()).get('view') === 'decided' ? 'decided' : 'waiting';
  const me = useMe();
  const decides = may(me.data, 'developer', 'runs:create');
  const { items, loading, error, refetch } = useWaiting(view === 'waiting');
  const at = Math.max(0, items.findIndex((i) => i.key === id));
  const item = items.find((i) => i.key === id) ?? items[0];
  const [notify, setNotify] = useState(notificationsOn);
  const open = (i: Item | undefined) => i && go(`/inbox/${i.key}`, { replace: true });
  const commands = useMemo<Command[]>(
    () => [
      { id: 'inbox.next', title: s.next, keys: 'j', hidden: true, run: () => open(items[Math.min(items.length - 1, at + 1)]) },
      { id: 'inbox.prev', title: s.previous, keys: 'k', hidden: true, run: () => open(items[Math.max(0, at - 1)]) },
      { id: 'inbox.run', title: s.openRun, keys: 'o', hidden: true, run: () => item && go(`/runs/${item.runId}`) },
    ],
    // eslint-disable-next-line
    [items, at, item],
  );
  useCommands(commands);
  return (
    <>
      <Head title={s.title} n={view === 'waiting' && items.length > 0 ? s.waiting(items.length) : undefined} curl={curlOf('GET', '/api/v1/approvals', { query: { status: view === 'waiting' ? 'pending' : undefined, limit: 100 } })}>
        <Segmented label={s.title} value={view} onChange={(v) => go(v === 'decided' ? '/inbox?view=decided' : '/inbox')} options={[['waiting', s.open], ['decided', s.decided]] as const} />
        <Button
          kind="quiet"
          icon="bell"
          label={notify ? s.notifyOff : s.notify}
          onClick={() =>
            void setNotifications(!notify).then((on) => {
              setNotify(on);
              if (!notify && !on) toast(s.notifyDenied, true);
            })
          }
        />
      </Head>
      {view === 'decided' ? (
        <Decided />
      ) : error && items.length === 0 ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : loading ? (
        <Loading />
      ) : items.length === 0 ? (
        <Empty icon="inbox" title={s.empty} text={s.emptyText} curl={curlOf('POST', '/api/v1/agents', {}, { name: 'Careful', built_in_tools: ['calculator'], approval_required_tools: ['calculator'] })}>
          <Button icon="plus" label={en.agents.new} onClick={() => go('/agents?new=1')} />
        </Empty>
      ) : (
        <div className={`ibx ${id ? 'one' : ''}`}>
          <ul aria-label={s.items}>
            {(['approval', 'question', 'auth'] as const).map((kind) => {
              const group = items.filter((i) => i.kind === kind);
              if (group.length === 0) return null;
              return [
                <li key={kind} className="grp">
                  {s.kinds[kind]} <span className="n">{group.length}</span>
                </li>,
                ...group.map((i) => (
                  <li key={i.key}>
                    <Link className={`it ${i.key === item?.key ? 'sel' : ''}`} href={`/inbox/${i.key}`} aria-current={i.key === item?.key ? 'true' : undefined} data-selected={i.key === item?.key || undefined}>
                      <span className={i.kind === 'approval' ? 'warn' : 'acc'}>
                        <Icon name={icons[i.kind]} />
                      </span>
                      <span className={`b trunc ${i.kind === 'approval' ? 'mono' : ''}`}>{i.title}</span>
                      <span className="t3 fs12 num">{ago(i.at).replace(' ago', '')}</span>
                      <p className="row fs12 t2">
                        <span className="trunc grow">{i.text || (i.expires ? s.left(coarse(Date.parse(i.expires) - Date.now())) : '')}</span>
                        <span className="t3">{i.agent}</span>
                      </p>
                    </Link>
                  </li>
                )),
              ];
            })}
          </ul>
          {item && <Detail key={item.key} item={item} decides={decides} onNext={() => open(items[at + 1] ?? items[at - 1])} />}
        </div>
      )}
    </>
  );
}

/** After a decision the next one is shown; the call is sent after five seconds, in which `u`
 * takes it back. */
const grace = 5000;

function Detail({ item, decides, onNext }: { item: Item; decides: boolean; onNext: () => void }) {
  const approval = useGet<Approval>('/api/v1/approvals/{approvalId}', { path: { approvalId: item.key } }, { enabled: item.kind === 'approval' });
  const run = useGet<Run>('/api/v1/runs/{runId}', { path: { runId: item.runId } });
  const agent = useGet<Schema<'Agent'>>('/api/v1/agents/{agentId}', { path: { agentId: run.data?.agent_id ?? '' } }, { enabled: !!run.data, retry: false });
  const [mode, setMode] = useState<'' | 'edit' | 'reject'>('');
  const now = useTick(30_000);
  const a = approval.data;
  const [busy, error, decide] = useAction(async (what: 'approve' | 'reject', extra: Record<string, unknown>): Promise<void> => {
    await decideApproval(item.runId, item.key, what, extra);
    toast(what === 'approve' ? en.turn.approved(item.title) : en.turn.rejected(item.title));
    onNext();
  });
  const held = useRef<number>(0);
  const [pending, setPending] = useState(false);
  const approve = () => {
    if (pending || busy || !a) return;
    setPending(true);
    toast(s.approving);
    held.current = window.setTimeout(() => {
      setPending(false);
      void decide('approve', {});
    }, grace);
  };
  const approveNow = () => {
    clearTimeout(held.current);
    setPending(false);
    void decide('approve', {});
  };
  const takeBack = () => {
    if (!pending) return;
    clearTimeout(held.current);
    setPending(false);
    emit('toast', { text: s.takenBack });
  };
  useEffect(
    () => () => {
      // Leaving the page sends what was approved.
      if (held.current && pendingNow.current) {
        clearTimeout(held.current);
        void decideApproval(item.runId, item.key, 'approve').catch((e: Error) => toast(e.message, true));
      }
    },
    // eslint-disable-next-line
    [],
  );
  const pendingNow = useRef(pending);
  pendingNow.current = pending;
  const commands = useMemo<Command[]>(
    () =>
      item.kind === 'approval' && decides && a
        ? [
            { id: 'inbox.approve', title: s.approve, keys: 'a', icon: 'check', run: approve },
            { id: 'inbox.edit', title: s.edit, keys: 'e', icon: 'edit', run: () => setMode('edit') },
            { id: 'inbox.reject', title: s.reject, keys: 'r', icon: 'x', run: () => setMode('reject') },
            { id: 'inbox.rejectGo', title: s.rejectGo, keys: 'shift+r', icon: 'x', run: () => void decide('reject', { continue: true }) },
            { id: 'inbox.undo', title: s.undo, keys: 'u', icon: 'refresh', run: takeBack },
          ]
        : [],
    // eslint-disable-next-line
    [item.key, decides, a, pending, busy],
  );
  useCommands(commands);
  const name = agent.data?.name ?? item.agent;
  const title = item.kind === 'approval' ? s.allow(item.title, brief(a?.arguments ?? null)) : item.title;
  const why = a ? reason(agent.data, a.tool_name) : '';
  return (
    <section className="det" aria-label={s.kinds[item.kind]}>
      <div className="sc">
        <div className="row wrap t2 fs12">
          <Link className="row acc back-s" href="/inbox">
            <Icon name="left" small />
            {s.title}
          </Link>
          <Icon name={icons[item.kind]} small className={item.kind === 'approval' ? 'warn' : 'acc'} />
          <span>{s.kindOne[item.kind]}</span>·
          {run.data && (
            <Link className="acc" href={`/agents/${run.data.agent_id}`}>
              {name}
            </Link>
          )}
          ·
          <Link className="acc" href={`/runs/${item.runId}`}>
            {s.run} <span className="mono">{shortId(item.runId)}</span>
          </Link>
          <span className="grow" />
          <span className="hide-s">
            {s.asked} <Time at={item.at} /> {item.expires && <>· {s.left(coarse(Date.parse(item.expires) - now))}</>}
          </span>
        </div>
        <h2 data-big="" style={{ marginTop: 8, overflowWrap: 'anywhere' }}>
          {title}
        </h2>
        {item.kind === 'approval' && (
          <>
            <p className="t2" style={{ marginTop: 4 }}>
              {s.wants(name)} <code>{item.title}</code>. {why}
            </p>
            <div className="row" style={{ margin: '18px 0 8px' }}>
              <h3 className="lbl grow">{s.arguments}</h3>
              {a && (
                <span className="t3 fs12 mono hide-s" title={a.arguments_hash}>
                  sha256 {shortId(a.arguments_hash)}
                </span>
              )}
            </div>
            {a ? <Args value={a.arguments} /> : approval.error ? <Failure error={approval.error} /> : <Loading rows={2} />}
            {mode === 'edit' && a && <EditArgs args={a.arguments} busy={busy} onSave={(x) => void decide('approve', { arguments: x })} onCancel={() => setMode('')} />}
            {mode === 'reject' && <Reject busy={busy} onReject={(r, on) => void decide('reject', { reason: r, continue: on })} onCancel={() => setMode('')} />}
          </>
        )}
        {item.kind === 'question' && (
          <div style={{ marginTop: 14 }}>
            <QuestionCard runId={item.runId} text={run.data?.pending_input?.question ?? item.title} decide={decides} onDone={onNext} />
          </div>
        )}
        {item.kind === 'auth' && (
          <div className="note warn" style={{ marginTop: 14 }}>
            <Icon name="link" />
            <div className="grow">
              {en.turn.needsSignIn(run.data?.pending_auth?.name ?? '')}{' '}
              {run.data?.pending_auth && (
                <a className="acc" href={run.data.pending_auth.authorization_url} target="_blank" rel="noopener noreferrer">
                  {en.turn.authorize}
                </a>
              )}
            </div>
          </div>
        )}
        <FormError error={error} />
        {run.data && (
          <>
            <h3 className="lbl" style={{ margin: '20px 0 6px' }}>{s.task}</h3>
            <p style={{ whiteSpace: 'pre-wrap' }}>{(run.data.input as { message?: string } | undefined)?.message}</p>
          </>
        )}
        <Context runId={item.runId} tool={item.title} agentId={run.data?.agent_id} kind={item.kind} />
      </div>
      {item.kind === 'approval' && mode === '' && decides && (
        <div className="decide">
          {pending ? (
            <>
              <Button kind="primary" icon="check" label={s.sendNow} onClick={approveNow} />
              <Button icon="refresh" label={s.undo} keys="u" onClick={takeBack} />
            </>
          ) : (
            <>
              <Button kind="primary" icon="check" label={en.turn.approve} keys="a" busy={busy} disabled={!a} onClick={approve} />
              <Button icon="edit" label={en.turn.edit} keys="e" onClick={() => setMode('edit')} />
              <Button kind="danger" icon="x" label={en.turn.reject} keys="r" onClick={() => setMode('reject')} />
              <span className="hide-s">
                <Button kind="quiet" label={s.rejectGo} keys="shift+r" onClick={() => void decide('reject', { continue: true })} />
              </span>
            </>
          )}
          <span className="grow hide-s" />
          <span className="t3 fs12 hide-s row">
            <Kbd keys="j" />
            <Kbd keys="k" /> {s.nextShort} <Kbd keys="o" /> {s.openRun}
          </span>
        </div>
      )}
      {!decides && <div className="decide t2">{s.cannot}</div>}
    </section>
  );
}

/** Which field of the agent asks for the approval. */
function reason(agent: Schema<'Agent'> | undefined, tool: string): string {
  if (!agent) return '';
  const rules = ((agent.policies as { tool_approvals?: { tool_name: string; approval: string; condition?: string }[] }).tool_approvals ?? []).find((r) => r.tool_name === tool);
  if (rules?.condition) return s.becauseWhen(rules.condition);
  if (agent.approval_required_tools.includes('*')) return s.becauseAll;
  if (agent.approval_required_tools.includes(tool) || rules) return s.becauseNamed;
  return s.becauseRule;
}

function Context({ runId, tool, agentId, kind }: { runId: string; tool: string; agentId?: string; kind: string }) {
  const steps = useGet<{ steps: Schema<'RunStep'>[] }>('/api/v1/runs/{runId}/steps', { path: { runId }, query: { fields: 'summary', limit: 100 } }, { retry: false });
  const past = useList<Approval>('/api/v1/approvals', { query: { agent_id: agentId, fields: 'summary' } }, { enabled: !!agentId && kind === 'approval', limit: 100 });
  const alike = past.rows.filter((p) => p.tool_name === tool && p.status !== 'pending');
  const reply = [...(steps.data?.steps ?? [])].reverse().find((x) => x.type === 'llm' && x.output_preview);
  const tools = (steps.data?.steps ?? []).filter((x) => x.type === 'tool');
  return (
    <>
      {(reply || tools.length > 0) && (
        <>
          <h3 className="lbl" style={{ margin: '20px 0 6px' }}>{s.before}</h3>
          {reply && <p className="t2">{reply.output_preview}</p>}
          {tools.length > 0 && (
            <div className="steps" style={{ marginTop: 10 }}>
              {tools.slice(-6).map((t) => (
                <Link className="step" key={t.step_id} href={`/runs/${runId}?step=${t.step_id}`}>
                  <Status of={t.status} bare />
                  <span className="mono">{t.name}</span>
                  <span className="t3 trunc grow">{t.input_preview}</span>
                  <Icon name="right" small className="t3" />
                </Link>
              ))}
            </div>
          )}
        </>
      )}
      {alike.length > 0 && (
        <>
          <h3 className="lbl" style={{ margin: '20px 0 6px' }}>{s.similar}</h3>
          <p className="t2">
            {s.similarText(
              alike.length,
              alike.filter((x) => x.status === 'approved').length,
              alike.filter((x) => x.status === 'rejected').length,
            )}
          </p>
        </>
      )}
    </>
  );
}

function Decided() {
  const list = useList<Approval>('/api/v1/approvals', { query: { fields: 'summary' } }, { limit: 100 });
  const rows = list.rows.filter((a) => a.status !== 'pending');
  const [, go] = useLocation();
  if (list.error && rows.length === 0) return <Failure error={list.error} retry={() => void list.refetch()} />;
  if (list.isLoading) return <Loading />;
  if (rows.length === 0) return <Empty icon="check" title={s.noneDecided} text={s.noneDecidedText} />;
  return (
    <div className="tblw">
      <table className="tbl">
        <thead>
          <tr>
            <th>{s.decision}</th>
            <th>{s.tool}</th>
            <th>{s.agent}</th>
            <th>{s.reason}</th>
            <th className="r">{s.when}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((a) => (
            <tr key={a.approval_id} className="go" onClick={() => go(`/runs/${a.run_id}`)}>
              <td>
                <Status of={a.status} />
              </td>
              <td>
                <Link className="mono b" href={`/runs/${a.run_id}`} onClick={(e) => e.stopPropagation()}>
                  {a.tool_name}
                </Link>
              </td>
              <td className="t2">{a.agent_name}</td>
              <td className="t2 wide">
                <span className="trunc">{a.reason}</span>
              </td>
              <td className="r t2">
                <Time at={a.decided_at ?? a.requested_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}


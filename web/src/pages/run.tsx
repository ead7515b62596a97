import { useVirtualizer } from '@tanstack/react-virtual';
import { Suspense, lazy, useEffect, useMemo, useRef, useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { api, curlOf, may, noticeError, queries, send, useGet, useMe, type Page, type Schema } from '../api';
import { toast } from '../bus';
import { useCommands, type Command } from '../commands';
import { explain, type Action } from '../explain';
import { bytes, clock, count, shortId, span, usd } from '../format';
import { Icon, type IconName } from '../icons';
import { useFollow } from '../live/changes';
import { useVisible } from '../live/turn';
import { runMs } from '../runtable';
import { compare } from '../strings/compare';
import { en } from '../strings/en';
import { outcome } from '../strings/outcome';
import { ApprovalCard, QuestionCard, Text } from '../turn';
import { Block, Button, Dialog, Empty, Failure, Field, FormError, Head, IconButton, Json, Loading, Menu, Status, Tabs, Time, copy, runStatus, sentence, useAction, useTick, type MenuItem } from '../ui';
import { Outcome, Verdict } from './outcome';

const ChooseRun = lazy(() => import('./compare').then((m) => ({ default: m.ChooseRun })));
const s = en.run;
type Run = Schema<'Run'>;
type Span = Schema<'RunSpan'>;
type Step = Schema<'RunStep'>;

const final = new Set(['completed', 'failed', 'cancelled', 'timeout', 'guardrail_blocked', 'rejected']);

export default function RunPage({ id }: { id: string }) {
  const path = { path: { runId: id } };
  const [, go] = useLocation();
  const search = new URLSearchParams(useSearch());
  const asked = search.get('tab') ?? '';
  const tab = ['events', 'io', 'outcome', 'rules', 'files'].includes(asked) ? asked : 'timeline';
  const me = useMe();
  const acts = may(me.data, 'developer', 'runs:create');
  const run = useGet<Run>('/api/v1/runs/{runId}', path, { every: (r) => (r && final.has(r.status) ? false : 2000) });
  const agent = useGet<Schema<'Agent'>>('/api/v1/agents/{agentId}', { path: { agentId: run.data?.agent_id ?? '' } }, { enabled: !!run.data, retry: false, staleTime: 60_000 });
  const [forking, setForking] = useState<number | null>(null);
  const [comparing, setComparing] = useState(false);
  const r = run.data;
  const ended = r ? final.has(r.status) : false;
  useFollow(id, !!r && !ended && tab !== 'events');
  const act = (what: string, body: unknown = {}) =>
    void send<{ run_id?: string }>('post', `/api/v1/runs/{runId}/${what}`, path, body).then(
      (a) => {
        toast(s.did[what] ?? what);
        if (what === 'continue' && a?.run_id) go(`/runs/${a.run_id}`);
      },
      (e: Error) => toast(e.message, true),
    );
  const canContinue = !!r && acts && (r.status === 'failed' || r.status === 'timeout') && !r.continued_by_run_id;
  const commands = useMemo<Command[]>(
    () => [
      { id: 'run.curl', title: en.common.copyCurl, keys: 'shift+c', icon: 'code', run: () => void copy(curlOf('GET', '/api/v1/runs/{runId}', path), en.common.curlCopied) },
      ...(acts && ended && r ? [{ id: 'run.fork', title: s.fork, keys: 'f', icon: 'fork' as const, run: () => setForking(r.step_seq) }] : []),
      ...(ended ? [{ id: 'run.compare', title: compare.with, keys: 'd', icon: 'compare' as const, run: () => setComparing(true) }] : []),
      ...(canContinue ? [{ id: 'run.continue', title: s.continue, keys: 'c', icon: 'play' as const, run: () => act('continue') }] : []),
    ],
    // eslint-disable-next-line
    [id, acts, ended, canContinue, r?.step_seq],
  );
  useCommands(commands);
  if (!r) return <Block q={run}>{() => null}</Block>;
  const st = runStatus(r);
  const menu: MenuItem[] = [];
  if (acts) {
    if (r.status === 'running') menu.push({ label: s.pause, icon: 'pause', run: () => act('pause') });
    if (r.status === 'paused' && !r.pending_input) menu.push({ label: s.resume, icon: 'play', run: () => act('resume') });
    if (!ended) menu.push({ label: s.cancel, icon: 'stop', danger: true, run: () => act('cancel') });
  }
  menu.push({ label: compare.with, icon: 'compare', run: () => setComparing(true) });
  if (r.session_id) menu.push({ label: s.openChat, icon: 'chat', run: () => go(`/chat/${r.session_id}`) });
  menu.push({ label: s.copyId, icon: 'copy', run: () => void copy(id) }, { label: s.family, icon: 'teams', run: () => go(`/runs?root_run_id=${r.root_run_id ?? id}`) });
  const to = (t: string) => `/runs/${id}${t === 'timeline' ? '' : `?tab=${t}`}`;
  const name = agent.data?.name ?? shortId(r.agent_id);
  return (
    <>
      <Head
        mono
        doc={`${s.run} ${shortId(id)}`}
        crumbs={[
          { label: en.runs.title, to: '/runs' },
          { label: name, to: `/agents/${r.agent_id}` },
        ]}
        title={shortId(id)}
        after={<Status of={st.of} label={st.label} />}
        curl={curlOf('GET', '/api/v1/runs/{runId}', path)}
      >
        {acts && ended && r.metrics.steps_count > 0 && <Button icon="fork" label={s.fork} keys="f" onClick={() => setForking(r.step_seq)} />}
        <Menu label={s.more} items={menu} />
      </Head>
      <Explained run={r} acts={acts} onAct={act} onFork={() => setForking(r.step_seq)} />
      <Pending run={r} decide={acts} />
      <Facts run={r} agent={name} />
      <Tabs
        active={tab}
        tabs={[
          { id: 'timeline', label: s.timeline, to: to('timeline'), n: r.metrics.steps_count || undefined },
          { id: 'events', label: s.events, to: to('events') },
          { id: 'io', label: s.inputOutput, to: to('io') },
          ...(r.outcome ? [{ id: 'outcome', label: outcome.tab, to: to('outcome'), n: r.outcome.verdicts?.length || undefined }] : []),
          { id: 'rules', label: s.rules, to: to('rules') },
          { id: 'files', label: s.files, to: to('files'), n: r.artifacts.length || undefined },
        ]}
      />
      {tab === 'timeline' && <Timeline run={r} live={!ended} chosen={search.get('step') ?? ''} onChoose={(step) => go(`/runs/${id}${step ? `?step=${step}` : ''}`, { replace: true })} onFork={acts && ended ? setForking : undefined} />}
      {tab === 'events' && <Events id={id} live={!ended} />}
      {tab === 'io' && <InputOutput run={r} />}
      {tab === 'outcome' && r.outcome && <Outcome of={r.outcome} runId={id} />}
      {tab === 'rules' && <Rules run={r} live={!ended} />}
      {tab === 'files' && <Files run={r} />}
      {comparing && (
        <Suspense>
          <ChooseRun run={r} onClose={() => setComparing(false)} />
        </Suspense>
      )}
      {forking !== null && <Fork run={r} seq={forking} onClose={() => setForking(null)} />}
    </>
  );
}

/** Explanation first: what happened, what is kept, what to do. */
function Explained({ run, acts, onAct, onFork }: { run: Run; acts: boolean; onAct: (what: string) => void; onFork: () => void }) {
  const [, go] = useLocation();
  const x = explain(run);
  const steps = useGet<{ steps: Step[] }>('/api/v1/runs/{runId}/steps', { path: { runId: run.run_id }, query: { fields: 'summary', limit: 200 } }, { enabled: x !== null && run.status !== 'completed', retry: false });
  if (run.waiting_for && run.status === 'running') return <WaitingFor run={run} />;
  if (!x) return null;
  const all = steps.data?.steps ?? [];
  const kept = all.filter((q) => q.status === 'completed').length;
  const failed = [...all].reverse().find((q) => q.status === 'failed');
  const tries = failed?.attempts?.length ?? 0;
  const buttons: Record<Action, [string, IconName, () => void]> = {
    continue: [failed ? s.continueFrom(failed.seq) : s.continue, 'play', () => onAct('continue')],
    fork: [s.forkOther, 'fork', onFork],
    agent: [s.openAgent, 'agents', () => go(`/agents/${run.agent_id}`)],
    governance: [s.openRules, 'gov', () => go('/governance')],
    budget: [s.openBudget, 'clock', () => go('/settings/usage')],
    guardrails: [s.openGuardrails, 'shield', () => go('/settings/guardrails')],
    again: [s.again, 'refresh', () => void send<Run>('post', '/api/v1/runs', {}, { agent_id: run.agent_id, input: run.input }).then((r) => go(`/runs/${r.run_id}`), (e: Error) => toast(e.message, true))],
  };
  return (
    <div className={`note exp ${x.tone}`} role="note">
      <Icon name={x.tone === 'bad' ? 's-failed' : x.tone === 'warn' ? 's-waiting' : 's-cancelled'} />
      <div className="grow">
        <h2>{x.title}</h2>
        <p className="t2" style={{ marginTop: 2 }}>
          {run.error && <>{run.error} </>}
          {x.text} {tries > 1 && s.tried(failed!.seq, tries)} {kept > 0 && run.status !== 'completed' && <b className="b">{s.kept(kept)}</b>}
        </p>
        {run.continued_by_run_id && (
          <p style={{ marginTop: 4 }}>
            <Link className="acc" href={`/runs/${run.continued_by_run_id}`}>
              {s.continuedBy}
            </Link>
          </p>
        )}
        {acts && x.actions.length > 0 && (
          <div className="row wrap" style={{ marginTop: 10 }}>
            {x.actions.map((a, i) => (
              <Button key={a} kind={i === 0 ? 'primary' : undefined} icon={buttons[a][1]} label={buttons[a][0]} keys={a === 'continue' ? 'c' : undefined} onClick={buttons[a][2]} />
            ))}
            {run.error_code && (
              <Link className="acc fs12" href={`/runs?status=${run.status}&error_code=${run.error_code}`}>
                {s.alike}
              </Link>
            )}
          </div>
        )}
      </div>
    </div>
  );
}

function WaitingFor({ run }: { run: Run }) {
  const now = useTick(1000);
  const at = run.next_attempt_at ? Math.max(0, Math.round((Date.parse(run.next_attempt_at) - now) / 1000)) : null;
  return (
    <div className="note exp">
      <Icon name="s-paused" />
      <div className="grow">
        <h2>{run.waiting_for === 'child_runs' ? s.waitsForChildren : run.waiting_for === 'provider_limit' ? en.status.provider_limit : en.status.waiting_model}</h2>
        <p className="t2" style={{ marginTop: 2 }}>
          {at !== null && en.turn.retryIn(at)} {run.attempts ? s.attempts(run.attempts) : ''} {s.waitsCalmly}
        </p>
      </div>
    </div>
  );
}

function Pending({ run, decide }: { run: Run; decide: boolean }) {
  const approvals = run.pending_approvals ?? [];
  if (approvals.length === 0 && !run.pending_input && !run.pending_auth) return null;
  return (
    <div className="exp" style={{ maxWidth: 760 }}>
      {approvals.map((a, i) => (
        <ApprovalCard key={a.approval_id} runId={run.run_id} id={a.approval_id} tool={a.tool_name} args={a.arguments} expires={a.expires_at} decide={decide} keys={i === 0} />
      ))}
      {run.pending_input && <QuestionCard runId={run.run_id} text={run.pending_input.question} decide={decide} />}
      {run.pending_auth && (
        <div className="note warn">
          <Icon name="s-waiting" />
          <div className="grow">
            {en.turn.needsSignIn(run.pending_auth.name)}{' '}
            <a className="acc" href={run.pending_auth.authorization_url} target="_blank" rel="noopener noreferrer">
              {en.turn.authorize}
            </a>
          </div>
        </div>
      )}
    </div>
  );
}

function Facts({ run, agent }: { run: Run; agent: string }) {
  const m = run.metrics;
  useTick(final.has(run.status) ? 0 : 1000);
  const facts: [string, React.ReactNode][] = [
    [s.agent, `${agent}${run.agent_version ? ` v${run.agent_version}` : ''}`],
    [s.started, run.started_at ? clock(run.started_at) : ''],
    [s.took, span(runMs(run))],
    [s.steps, m.steps_count],
    [s.tokens, <>{count(m.input_tokens + m.output_tokens)}{m.cached_tokens > 0 && <span className="t3 num"> {s.cached(Math.round((100 * m.cached_tokens) / Math.max(1, m.input_tokens)))}</span>}</>],
    [s.cost, usd(m.total_cost_usd)],
    [s.by, run.started_by ? `${sentence(run.started_by.type)}${run.started_by.name ? `: ${run.started_by.name}` : ''}` : ''],
    [s.code, run.error_code ? <span className="mono">{run.error_code}</span> : ''],
  ];
  return (
    <div className="facts">
      {facts
        .filter(([, v]) => v !== '')
        .map(([k, v]) => (
          <span key={k}>
            {k} <b>{v}</b>
          </span>
        ))}
      {run.parent_run_id && (
        <span>
          {s.parent}{' '}
          <Link className="acc mono" href={`/runs/${run.parent_run_id}`}>
            {shortId(run.parent_run_id)}
          </Link>
        </span>
      )}
      {run.continues_run_id && (
        <span>
          {s.continues}{' '}
          <Link className="acc mono" href={`/runs/${run.continues_run_id}`}>
            {shortId(run.continues_run_id)}
          </Link>
        </span>
      )}
      {run.forked_from_run_id && (
        <span>
          {s.forkedFrom}{' '}
          <Link className="acc mono" href={`/runs/${run.forked_from_run_id}`}>
            {shortId(run.forked_from_run_id)}
          </Link>
        </span>
      )}
    </div>
  );
}

interface Row {
  span: Span;
  depth: number;
  no: string;
  ticks: Span[];
}

/** Spans as a tree in order of their start; attempts are ticks on the bar of their step. */
function rowsOf(spans: Span[]): Row[] {
  const children = new Map<string, Span[]>();
  const ids = new Set(spans.map((x) => x.span_id));
  for (const x of spans) {
    const parent = x.parent_id && ids.has(x.parent_id) ? x.parent_id : '';
    children.set(parent, [...(children.get(parent) ?? []), x]);
  }
  const out: Row[] = [];
  const walk = (parent: string, depth: number, prefix: string) => {
    let n = 0;
    for (const x of children.get(parent) ?? []) {
      if (x.type === 'retry') continue;
      if (x.type === 'run' && depth === 0) {
        walk(x.span_id, 0, '');
        continue;
      }
      n++;
      const no = prefix ? `${prefix}.${n}` : String(n);
      out.push({ span: x, depth, no, ticks: (children.get(x.span_id) ?? []).filter((c) => c.type === 'retry') });
      walk(x.span_id, depth + 1, no);
    }
  };
  walk('', 0, '');
  return out;
}

const looks: Record<string, [IconName, string, string]> = {
  llm: ['think', 'acc', 'llm'],
  tool: ['tool', 't3', 'tool'],
  guardrail: ['shield', 't3', ''],
  memory: ['hist', 't3', ''],
  compaction: ['folded', 't3', ''],
  judge: ['shield', 't3', 'llm'],
  approval: ['s-waiting', 'warn', 'wait'],
  input: ['ask', 'warn', 'wait'],
  wait: ['s-waiting', 'warn', 'wait'],
  child: ['teams', 't3', 'sub'],
  run: ['teams', 't3', 'sub'],
};

function Timeline({ run, live, chosen, onChoose, onFork }: { run: Run; live: boolean; chosen: string; onChoose: (id: string) => void; onFork?: (seq: number) => void }) {
  const q = useGet<Page<Span>>('/api/v1/runs/{runId}/timeline', { path: { runId: run.run_id }, query: { limit: 1000 } }, { every: live ? 2000 : false });
  const rows = useMemo(() => rowsOf(q.data?.items ?? []), [q.data]);
  const now = useTick(live ? 1000 : 0);
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => 32, overscan: 20 });
  const begin = Date.parse(run.started_at ?? run.created_at);
  const end = Math.max(begin + 1, ...rows.map((r) => (r.span.end ? Date.parse(r.span.end) : live ? now : begin)));
  const at = rows.findIndex((r) => r.span.span_id === chosen);
  const sel = rows[at];
  const shown = sel ?? rows.find((r) => r.span.status === 'failed'); // why it failed is what one looks for first
  const fold = useMemo(() => folded(rows, begin, end), [rows, begin, end]);
  const x = (t: number) => scale(t, begin, end, fold);
  const commands = useMemo<Command[]>(() => {
    const move = (by: number) => {
      const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
      if (next) onChoose(next.span.span_id);
      virtual.scrollToIndex(Math.max(0, at + by));
    };
    return [
      { id: 'step.next', title: s.nextStep, keys: 'j', hidden: true, run: () => move(1) },
      { id: 'step.prev', title: s.previousStep, keys: 'k', hidden: true, run: () => move(-1) },
    ];
    // eslint-disable-next-line
  }, [rows, at]);
  useCommands(commands);
  if (q.error && !q.data) return <Failure error={q.error} retry={() => void q.refetch()} />;
  if (!q.data) return <Loading />;
  if (rows.length === 0) return <p className="pad t2">{run.status === 'queued' ? s.queued : s.noSteps}</p>;
  const marks = axis(begin, end, fold);
  return (
    <div className="runsplit">
      <div className="wf" ref={box}>
        <div className="wfr hd">
          <span>{s.step}</span>
          <span className="axis">
            {marks.map((m) => (
              <i key={m.label} style={{ left: `${x(m.at)}%` }}>
                {m.label}
              </i>
            ))}
          </span>
          <span className="r">{s.time}</span>
          <span className="r">{s.tokens}</span>
          <span className="r">{s.cost}</span>
        </div>
        <div style={{ height: virtual.getTotalSize(), position: 'relative' }} role="list" aria-label={s.timeline}>
          {virtual.getVirtualItems().map((v) => {
            const r = rows[v.index]!;
            const sp = r.span;
            const look = looks[sp.step_type ?? sp.type] ?? looks[sp.type] ?? (['s-idle', 't3', ''] as [IconName, string, string]);
            const failed = sp.status === 'failed';
            const from = Date.parse(sp.start);
            const till = sp.end ? Date.parse(sp.end) : live ? now : from;
            const left = x(from);
            return (
              <div role="listitem" key={sp.span_id} style={{ position: 'absolute', top: 0, left: 0, right: 0, transform: `translateY(${v.start}px)` }}>
                <button type="button" className={`wfr ${sp.span_id === chosen ? (failed ? 'sel' : 'sel ok') : ''}`} onClick={() => onChoose(sp.span_id === chosen ? '' : sp.span_id)} aria-pressed={sp.span_id === chosen}>
                  <span className={`l in${Math.min(2, r.depth)}`}>
                    <Icon name={failed ? 's-failed' : look[0]} small className={failed ? 'bad' : look[1]} />
                    <span className="t3 num no">{r.no}</span>
                    <span className="t2">{s.kinds[sp.step_type ?? sp.type] ?? sp.type}</span>
                    <span className="trunc b">{sp.name}</span>
                  </span>
                  <span className="lane">
                    {marks.map((m) => (
                      <i key={m.label} className="gl" style={{ left: `${x(m.at)}%` }} />
                    ))}
                    <i className={`bar ${failed ? 'err' : look[2]} ${!sp.end && live ? 'alive' : ''}`} style={{ left: `${left}%`, width: `${Math.max(0.3, x(till) - left)}%` }} />
                    {r.ticks.map((t) => (
                      <i key={t.span_id} className="tick" style={{ left: `${x(Date.parse(t.start))}%` }} />
                    ))}
                  </span>
                  <span className="r num">{span(till - from)}</span>
                  <span className="r num t2">{sp.tokens ? count(sp.tokens) : ''}</span>
                  <span className="r num t2">{usd(sp.cost_usd)}</span>
                </button>
              </div>
            );
          })}
        </div>
        <div className="more">
          <span className="legend hide-s">
            <span>
              <i className="llm" />
              {s.kinds.llm}
            </span>
            <span>
              <i className="k1" />
              {s.kinds.tool}
            </span>
            <span>
              <i className="k3" />
              {s.other}
            </span>
          </span>
          {q.data.has_more && <span>{s.moreSpans}</span>}
        </div>
      </div>
      <aside aria-label={s.step}>{shown ? <StepPanel run={run} row={shown} onFork={onFork} /> : <p className="t2 fs12">{s.chooseStep}</p>}</aside>
    </div>
  );
}

interface Fold {
  from: number;
  to: number;
}

/** A wait that is longer than a third of the run is folded, so that the rest can be read. */
function folded(rows: Row[], begin: number, end: number): Fold | null {
  const total = end - begin;
  for (const r of rows) {
    if (r.span.type !== 'wait' || !r.span.end) continue;
    const from = Date.parse(r.span.start);
    const to = Date.parse(r.span.end);
    if (to - from > total / 3 && to - from > 5000) return { from, to };
  }
  return null;
}

function scale(t: number, begin: number, end: number, fold: Fold | null): number {
  if (!fold) return (100 * (t - begin)) / (end - begin);
  const width = 8; // per cent that the fold takes
  const rest = end - begin - (fold.to - fold.from);
  const per = (100 - width) / Math.max(1, rest);
  if (t <= fold.from) return (t - begin) * per;
  if (t >= fold.to) return (fold.from - begin) * per + width + (t - fold.to) * per;
  return (fold.from - begin) * per + (width * (t - fold.from)) / (fold.to - fold.from);
}

function axis(begin: number, end: number, fold: Fold | null): { at: number; label: string }[] {
  const total = end - begin - (fold ? fold.to - fold.from : 0);
  const units = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000];
  const unit = units.find((u) => total / u <= 5) ?? total / 4;
  const out: { at: number; label: string }[] = [];
  for (let t = 0; t <= end - begin && out.length < 8; t += unit) {
    if (fold && begin + t > fold.from && begin + t < fold.to) {
      t = Math.ceil((fold.to - begin) / unit) * unit - unit;
      continue;
    }
    out.push({ at: begin + t, label: t === 0 ? '0' : short(t) });
  }
  return out;
}

function short(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${ms / 1000} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} m`;
  return `${Math.round(ms / 3_600_000)} h`;
}

function StepPanel({ run, row, onFork }: { run: Run; row: Row; onFork?: (seq: number) => void }) {
  const sp = row.span;
  const isStep = sp.type === 'step';
  const step = useGet<Step>('/api/v1/runs/{runId}/steps/{stepId}', { path: { runId: sp.run_id, stepId: sp.span_id } }, { enabled: isStep, retry: false });
  const d = step.data;
  return (
    <>
      <div className="row">
        <h2 className="b grow h2">{s.stepTitle(row.no, s.kinds[sp.step_type ?? sp.type] ?? sp.type)}</h2>
        <Status of={sp.status} />
      </div>
      <p className="t2 fs12" style={{ marginTop: 4 }}>
        <span className="mono">{sp.name}</span>
      </p>
      {(sp.type === 'child' || sp.type === 'run') && (
        <p style={{ marginTop: 10 }}>
          <Link className="acc" href={`/runs/${sp.run_id}`}>
            {s.openChild}
          </Link>
        </p>
      )}
      {(sp.error || d?.error) && (
        <div className="note bad" style={{ marginTop: 10 }}>
          <Icon name="s-failed" />
          <p>{d?.error ?? sp.error}</p>
        </div>
      )}
      {d?.attempts && d.attempts.length > 0 && (
        <>
          <h3 className="lbl" style={{ marginTop: 16 }}>{s.whatHappened}</h3>
          <ul className="att" style={{ marginTop: 8 }}>
            {d.attempts.slice(0, 30).map((a, i) => (
              <li key={i}>
                <Icon name={i === d.attempts!.length - 1 && d.status === 'failed' ? 's-failed' : 'refresh'} className={i === d.attempts!.length - 1 && d.status === 'failed' ? 'bad' : 't3'} />
                <div className="row">
                  <span className="b grow">{s.nth(i + 1)}</span>
                  <span className="t3 num">{clock(a.at)}</span>
                </div>
                <span className="t2">{a.error}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      {isStep && !d && (step.error ? <Failure error={step.error} /> : <Loading rows={3} />)}
      {d?.input && d.type !== 'judge' && (
        <>
          <h3 className="lbl" style={{ margin: '14px 0 6px' }}>{s.input}</h3>
          <StepInput of={d.input as Record<string, unknown>} />
        </>
      )}
      {d?.output && (
        <>
          <h3 className="lbl" style={{ margin: '14px 0 6px' }}>{s.output}</h3>
          {d.type === 'judge' ? <Verdict of={d.output as unknown as Parameters<typeof Verdict>[0]['of']} /> : <StepOutput of={d.output as Record<string, unknown>} />}
        </>
      )}
      {d?.metrics && Object.values(d.metrics).some((v) => v !== null && v !== 0 && v !== false && typeof v !== 'object') && (
        <>
          <h3 className="lbl" style={{ margin: '14px 0 6px' }}>{s.figures}</h3>
          <dl className="kv">
            {Object.entries(d.metrics)
              .filter(([, v]) => v !== null && v !== 0 && v !== false && typeof v !== 'object')
              .map(([k, v]) => (
                <div key={k} style={{ display: 'contents' }}>
                  <dt>{sentence(k)}</dt>
                  <dd className="num">{/_usd$/.test(k) ? usd(v as number) : typeof v === 'number' ? v.toLocaleString('en') : en.common.yes}</dd>
                </div>
              ))}
          </dl>
        </>
      )}
      {d && (
        <div className="row wrap" style={{ marginTop: 14 }}>
          {onFork && sp.run_id === run.run_id && <Button small icon="fork" label={s.forkHere} onClick={() => onFork(d.seq)} />}
          <Button small kind="quiet" icon="copy" label={s.copyStep} onClick={() => void copy(JSON.stringify(d, null, 2))} />
        </div>
      )}
    </>
  );
}

function parsed(text: unknown): unknown {
  if (typeof text !== 'string') return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Arguments by name; what has none is shown as it is. */
function Args({ of }: { of: unknown }) {
  const value = parsed(of);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return typeof value === 'string' && value ? <p style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{value}</p> : <Json value={value} max={60} />;
  if (Object.keys(value).length === 0) return <p className="t3">{s.noArguments}</p>;
  return (
    <dl className="argl">
      {Object.entries(value).map(([k, v]) => (
        <div key={k} style={{ display: 'contents' }}>
          <dt>{k}</dt>
          <dd>{typeof v === 'string' ? v : JSON.stringify(v, null, 1)}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What a step was given, in words: how many messages, the arguments of a tool. */
function StepInput({ of }: { of: Record<string, unknown> }) {
  const { messages, arguments: args, tool_call_id: _id, name: _name, ...rest } = of;
  return (
    <>
      {typeof messages === 'number' && <p className="t2">{s.messagesSent(messages)}</p>}
      {args !== undefined && <Args of={args} />}
      {Object.keys(rest).length > 0 && <Json value={rest} max={60} />}
      {typeof messages !== 'number' && messages !== undefined && <Json value={messages} max={60} />}
    </>
  );
}

const reasons = new Set(['stop', 'tool_calls']);

/** What a step answered: text, calls of tools, what the rules decided. */
function StepOutput({ of }: { of: Record<string, unknown> }) {
  const { text, content, tool_calls: calls, rulings, model, finish_reason: reason, thinking, is_error: _failed, ...rest } = of;
  const said = typeof text === 'string' ? text : typeof content === 'string' ? content : '';
  return (
    <div className="col" style={{ gap: 8 }}>
      {typeof thinking === 'string' && thinking && <p className="t2" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{thinking}</p>}
      {said && (typeof parsed(said) === 'object' && parsed(said) !== null ? <Json value={parsed(said)} max={60} /> : <p style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{said}</p>)}
      {Array.isArray(calls) &&
        (calls as { id?: string; name?: string; arguments?: unknown }[]).map((c, i) => (
          <div key={c.id ?? i} className="card pad">
            <p className="mono b" style={{ marginBottom: 4 }}>{c.name}</p>
            <Args of={c.arguments} />
          </div>
        ))}
      {Array.isArray(rulings) && (rulings as Ruling[]).map((r, i) => <RulingRow key={i} of={r} />)}
      {content !== undefined && typeof content !== 'string' && <Json value={content} max={60} />}
      {(typeof model === 'string' || (typeof reason === 'string' && !reasons.has(reason))) && (
        <p className="t3 fs12">
          <span className="mono">{model as string}</span> {typeof reason === 'string' && !reasons.has(reason) ? sentence(reason) : ''}
        </p>
      )}
      {Object.keys(rest).length > 0 && <Json value={rest} max={60} />}
    </div>
  );
}

interface Ruling {
  rule_id?: string;
  severity?: string;
  action?: string;
  decision?: string;
  message?: string;
  shadow?: boolean;
}

function RulingRow({ of }: { of: Ruling }) {
  const stops = of.decision === 'block' || of.decision === 'terminate_agent';
  return (
    <div className={`note ${stops ? 'bad' : 'warn'}`}>
      <Icon name={stops ? 's-blocked' : 's-waiting'} />
      <div className="grow">
        <p>
          <Link className="b" href={`/governance/rules/${encodeURIComponent(of.rule_id ?? '')}`}>
            {of.message || of.rule_id}
          </Link>
        </p>
        <p className="t2 fs12">
          {sentence(of.decision ?? '')}
          {of.action ? ` · ${of.action}` : ''}
          {of.shadow ? ` · ${en.governance.shadow}` : ''}
        </p>
      </div>
    </div>
  );
}

/** The rules and guardrails that acted in a run, by step. */
function Rules({ run, live }: { run: Run; live: boolean }) {
  const q = useGet<{ steps: Step[] }>('/api/v1/runs/{runId}/steps', { path: { runId: run.run_id }, query: { limit: 200 } }, { every: live ? 4000 : false });
  return (
    <Block q={q} rows={3}>
      {({ steps }) => {
        const acted = steps.flatMap((x) => {
          const out = (x.output ?? {}) as { rulings?: Ruling[] };
          return x.type === 'guardrail' || (out.rulings ?? []).length > 0 ? [{ step: x, rulings: out.rulings ?? [] }] : [];
        });
        if (acted.length === 0 && run.status !== 'guardrail_blocked') return <Empty icon="shield" title={s.noRules} text={s.noRulesText} />;
        return (
          <div className="io">
            {run.status === 'guardrail_blocked' && run.error && (
              <section className="sec" style={{ borderTop: 0 }}>
                <div className="note bad">
                  <Icon name="s-blocked" />
                  <p>{run.error}</p>
                </div>
              </section>
            )}
            {acted.map(({ step, rulings }) => (
              <section key={step.step_id} className="sec">
                <div className="row" style={{ marginBottom: 8 }}>
                  <h2 className="grow">
                    <Link href={`/runs/${run.run_id}?step=${step.step_id}`}>{s.stepTitle(String(step.seq), s.kinds[step.type] ?? step.type)}</Link>
                  </h2>
                  <Time at={step.started_at} className="t3 fs12" />
                </div>
                <div className="col" style={{ gap: 8 }}>
                  {rulings.map((r, i) => (
                    <RulingRow key={i} of={r} />
                  ))}
                  {step.type === 'guardrail' && step.output && <StepOutput of={step.output as Record<string, unknown>} />}
                </div>
              </section>
            ))}
          </div>
        );
      }}
    </Block>
  );
}

interface Event {
  id: string;
  event: string;
  data: Record<string, unknown>;
}

/** The newest events in memory; older ones are dropped from it, not from the server. */
const keep = 5000;

function Events({ id, live }: { id: string; live: boolean }) {
  const [events, setEvents] = useState<Event[]>([]);
  const [kind, setKind] = useState('');
  const [follow, setFollow] = useState(live);
  const [chosen, setChosen] = useState('');
  const [error, setError] = useState<unknown>();
  const visible = useVisible();
  const last = useRef('');
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!visible) return;
    const stop = new AbortController();
    let waiting: Event[] = [];
    const timer = setInterval(() => {
      if (waiting.length === 0) return;
      const more = waiting;
      waiting = [];
      setEvents((e) => [...e, ...more].slice(-keep));
    }, 100);
    void (async () => {
      try {
        for await (const e of api.stream('/api/v1/runs/{runId}/events', { params: { path: { runId: id } }, lastEventId: last.current, signal: stop.signal, retries: 1000 })) {
          if (e.id) last.current = e.id;
          waiting.push({ id: e.id, event: e.event, data: e.data as unknown as Record<string, unknown> });
        }
      } catch (cause) {
        noticeError(cause);
        setError(cause);
      }
    })();
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [id, visible]);
  const kinds = useMemo(() => [...new Set(events.map((e) => e.event))].sort(), [events]);
  const rows = kind ? events.filter((e) => e.event === kind) : events;
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => 28, overscan: 30 });
  useEffect(() => {
    if (follow && rows.length > 0) virtual.scrollToIndex(rows.length - 1);
    // eslint-disable-next-line
  }, [follow, rows.length]);
  const sel = events.find((e) => e.id === chosen);
  return (
    <div className="runsplit">
      <div className="wf col">
        <div className="tb">
          <select className="chipsel" aria-label={s.kind} value={kind} onChange={(e) => setKind(e.target.value)}>
            <option value="">{s.allEvents(events.length)}</option>
            {kinds.map((k) => (
              <option key={k}>{k}</option>
            ))}
          </select>
          <label className="check">
            <input type="checkbox" checked={follow} onChange={(e) => setFollow(e.target.checked)} />
            {s.follow}
          </label>
        </div>
        {error !== undefined && <Failure error={error} />}
        <div ref={box} style={{ overflow: 'auto', flex: 1, minHeight: 240 }} tabIndex={0} aria-label={s.events} role="list">
          <div style={{ height: virtual.getTotalSize(), position: 'relative' }}>
            {virtual.getVirtualItems().map((v) => {
              const e = rows[v.index]!;
              return (
                <div role="listitem" key={v.index} style={{ position: 'absolute', top: 0, left: 0, right: 0, height: 28, transform: `translateY(${v.start}px)` }}>
                  <button type="button" className={`evr ${e.id === chosen ? 'sel' : ''}`} onClick={() => setChosen(e.id)}>
                    <span className="t3 num">{e.id}</span>
                    <span className="t3 num">{typeof e.data.timestamp === 'string' ? clock(e.data.timestamp) : ''}</span>
                    <span className="mono">{e.event}</span>
                    <span className="t2 trunc">{line(e.data)}</span>
                  </button>
                </div>
              );
            })}
          </div>
        </div>
      </div>
      <aside aria-label={s.event}>{sel ? <Json value={sel.data} /> : <p className="t2 fs12">{s.chooseEvent}</p>}</aside>
    </div>
  );
}

function line(d: Record<string, unknown>): string {
  for (const k of ['text', 'name', 'tool_name', 'message', 'error', 'question', 'reason', 'rule_id', 'type', 'status', 'model']) if (typeof d[k] === 'string') return (d[k] as string).slice(0, 160);
  return '';
}

function InputOutput({ run }: { run: Run }) {
  const message = (run.input as { message?: string } | undefined)?.message;
  const text = (run.output as { text?: string } | null)?.text;
  return (
    <div className="io">
      <section className="sec" style={{ borderTop: 0 }}>
        <h2 style={{ marginBottom: 8 }}>{s.input}</h2>
        {message ? <p style={{ whiteSpace: 'pre-wrap', fontSize: 'var(--fs-14)' }}>{message}</p> : null}
        <details className="adv" style={{ marginTop: 10 }}>
          <summary>JSON</summary>
          <Json value={run.input} />
        </details>
      </section>
      <section className="sec">
        <h2 style={{ marginBottom: 8 }}>{s.output}</h2>
        {text ? <div className="msg" data-one=""><Text text={text} /></div> : <p className="t3">{s.noOutput}</p>}
        {run.output && (
          <details className="adv" style={{ marginTop: 10 }}>
            <summary>JSON</summary>
            <Json value={run.output} />
          </details>
        )}
      </section>
      {run.metadata && Object.keys(run.metadata).length > 0 && (
        <section className="sec">
          <h2 style={{ marginBottom: 8 }}>{s.metadata}</h2>
          <Json value={run.metadata} />
        </section>
      )}
      {(run.approvals ?? []).length > 0 && (
        <section className="sec">
          <h2 style={{ marginBottom: 8 }}>{s.decisions}</h2>
          <ul className="tl">
            {run.approvals!.map((a) => (
              <li key={a.approval_id}>
                <Status of={a.status} />
                <span className="mono">{a.tool_name}</span>
                <span className="t2 grow trunc">{a.reason}</span>
                <Time at={a.decided_at} className="t3" />
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

function Files({ run }: { run: Run }) {
  if (run.artifacts.length === 0) return <p className="pad t2">{s.noFiles}</p>;
  return (
    <table className="tbl">
      <thead>
        <tr>
          <th>{s.file}</th>
          <th>{s.type}</th>
          <th className="r">{s.size}</th>
        </tr>
      </thead>
      <tbody>
        {run.artifacts.map((a) => (
          <tr key={a.artifact_id}>
            <td className="b">
              <a href={api.url('/api/v1/artifacts/{artifactId}/content', { path: { artifactId: a.artifact_id } })} download>
                {a.name}
              </a>
            </td>
            <td className="t2">{a.mime_type}</td>
            <td className="r num t2">{bytes(a.size_bytes)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A new run that begins as this one did, up to a step. It asks only for what may differ. */
function Fork({ run, seq, onClose }: { run: Run; seq: number; onClose: () => void }) {
  const [, go] = useLocation();
  const [step, setStep] = useState(String(Math.max(1, seq)));
  const [message, setMessage] = useState('');
  const [version, setVersion] = useState('');
  const steps = useGet<{ steps: Step[] }>('/api/v1/runs/{runId}/steps', { path: { runId: run.run_id }, query: { fields: 'summary', limit: 200, inherited: true } }, { retry: false });
  const body = { step_seq: Number(step), ...(message ? { message } : {}), ...(version ? { version: Number(version) } : {}) };
  const [busy, error, fork] = useAction(async () => {
    const made = await send<Run>('post', '/api/v1/runs/{runId}/fork', { path: { runId: run.run_id } }, body);
    void queries.invalidateQueries();
    toast(s.forked);
    onClose();
    go(`/runs/${made.run_id}`);
  });
  return (
    <Dialog
      title={s.forkTitle}
      onClose={onClose}
      footer={
        <>
          <IconButton icon="code" label={en.common.copyCurl} onClick={() => void copy(curlOf('POST', '/api/v1/runs/{runId}/fork', { path: { runId: run.run_id } }, body), en.common.curlCopied)} />
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" icon="fork" type="submit" form="fork" label={s.fork} busy={busy} />
        </>
      }
    >
      <p className="t2" style={{ marginBottom: 12 }}>{s.forkText}</p>
      <form
        id="fork"
        onSubmit={(e) => {
          e.preventDefault();
          void fork();
        }}
      >
        <Field label={s.forkStep} help={s.forkStepHelp}>
          {(p) =>
            steps.data && steps.data.steps.length > 0 ? (
              <span className="selw">
                <select {...p} className="in" value={step} onChange={(e) => setStep(e.target.value)}>
                  {steps.data.steps.map((x) => (
                    <option key={x.step_id} value={x.seq}>
                      {`${x.seq} · ${s.kinds[x.type] ?? x.type} ${x.name ?? ''}`}
                    </option>
                  ))}
                </select>
                <Icon name="down" small className="t3" />
              </span>
            ) : (
              <input {...p} className="in num" type="number" min={1} value={step} onChange={(e) => setStep(e.target.value)} />
            )
          }
        </Field>
        <Field label={s.forkMessage} optional help={s.forkMessageHelp}>
          {(p) => <textarea {...p} className="in" rows={3} value={message} onChange={(e) => setMessage(e.target.value)} />}
        </Field>
        <Field label={s.forkVersion} optional help={s.forkVersionHelp}>
          {(p) => <input {...p} className="in num" type="number" min={1} value={version} onChange={(e) => setVersion(e.target.value)} />}
        </Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}


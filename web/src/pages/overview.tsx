import { lazy, Suspense, useMemo } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { curlOf, may, useGet, useList, useMe, type Schema } from '../api';
import { useCommands, type Command } from '../commands';
import { coarse, count, percent, span, usd } from '../format';
import { Icon } from '../icons';
import { en } from '../strings/en';
import { CopyCurl, Failure, Head, Loading, Segmented, Status, runStatus, Time } from '../ui';
import { useWaiting } from './inbox';

const Chart = lazy(() => import('../chart'));
const s = en.overview;
type Timeseries = Schema<'AnalyticsTimeseries'>;

export default function Overview() {
  const [, go] = useLocation();
  const me = useMe();
  const days = Number(new URLSearchParams(useSearch()).get('days') ?? 7);
  const sees = may(me.data, 'viewer', 'read:analytics');
  const metrics = 'runs,completed,failures,p50,p95,tokens,cached_tokens,input_tokens,cost';
  const query = { metrics, days };
  const series = useGet<Timeseries>('/api/v1/analytics/timeseries', { query }, { enabled: sees, every: 60_000, retry: false });
  const commands = useMemo<Command[]>(() => [{ id: 'overview.run', title: en.runs.start, keys: 'n', icon: 'play', run: () => go('/runs') }], [go]);
  useCommands(commands);
  return (
    <>
      <Head title={s.title} curl={curlOf('GET', '/api/v1/analytics/timeseries', { query })}>
        <Segmented label={s.range} value={String(days)} onChange={(v) => go(v === '7' ? '/overview' : `/overview?days=${v}`)} options={[['1', s.day1], ['7', s.days7], ['30', s.days30]] as const} />
      </Head>
      {series.data ? <Stats data={series.data} /> : series.error ? <Failure error={series.error} what={s.noFigures} retry={() => void series.refetch()} /> : <Loading rows={2} />}
      <div className="ovg">
        <div>
          <NeedsYou />
          {series.data && <Charts data={series.data} />}
          <Busiest days={days} />
        </div>
        <aside>
          <Budget />
          <Now />
          <Failures days={days} />
          <FirstSteps />
        </aside>
      </div>
    </>
  );
}

function totals(d: Timeseries): Record<string, number> {
  return (d.series[0]?.totals ?? {}) as Record<string, number>;
}

function Stats({ data }: { data: Timeseries }) {
  const t = totals(data);
  const ended = (t.completed ?? 0) + (t.failures ?? 0);
  const stats: [string, string, React.ReactNode][] = [
    [s.runs, count(t.runs ?? 0), s.inDays(data.range.days)],
    [s.failed, percent(t.failures ?? 0, ended) || '0%', <span className={t.failures ? 'bad' : ''}>{s.failedRuns(t.failures ?? 0)}</span>],
    [s.median, span(t.p50) || '–', t.p95 ? s.p95(span(t.p95)) : ''],
    [s.tokens, count(t.tokens ?? 0), t.input_tokens ? s.cached(Math.round((100 * (t.cached_tokens ?? 0)) / t.input_tokens)) : ''],
    [s.cost, usd(t.cost ?? 0), t.runs ? s.perRun(usd((t.cost ?? 0) / t.runs)) : ''],
  ];
  return (
    <div className="stats">
      {stats.map(([l, v, d]) => (
        <div key={l}>
          <div className="l">{l}</div>
          <div className="v">{v}</div>
          <div className="d trunc">{d}</div>
        </div>
      ))}
    </div>
  );
}

function NeedsYou() {
  const me = useMe();
  const { items } = useWaiting(may(me.data, 'viewer', 'runs:read'));
  const failed = useList<Schema<'Run'>>('/api/v1/runs', { query: { status: 'failed', fields: 'summary', created_after: dayAgo() } }, { every: 15_000, limit: 100 });
  const webhooks = useGet<{ webhooks: Schema<'WebhookSubscription'>[] }>('/api/v1/webhooks', {}, { enabled: may(me.data, 'admin'), retry: false, every: 30_000 });
  const approvals = items.filter((i) => i.kind === 'approval');
  const questions = items.filter((i) => i.kind === 'question');
  const bad = (webhooks.data?.webhooks ?? []).filter((w) => w.status !== 'active');
  const oldest = approvals.reduce((a, i) => (i.at < a ? i.at : a), approvals[0]?.at ?? '');
  const rows: [string, React.ReactNode, string, string, string][] = [];
  if (approvals.length > 0) rows.push(['s-waiting warn', '', s.approvals(approvals.length), s.oldest(coarse(Date.now() - Date.parse(oldest))), '/inbox']);
  if (questions.length > 0) rows.push(['ask acc', '', s.questions(questions.length), [...new Set(questions.map((q) => q.agent))].join(', '), `/inbox/${questions[0]!.key}`]);
  if (failed.rows.length > 0) rows.push(['s-failed bad', '', s.runsFailed(failed.rows.length, failed.hasNextPage), failed.rows[0]?.error ?? '', '/runs?status=failed&range=24h']);
  for (const w of bad.slice(0, 3)) rows.push(['hook warn', '', s.webhook(host(w.url), w.status), s.webhookFails(w.failure_count), `/settings/webhooks/${w.webhook_id}`]);
  return (
    <section className="sec todo">
      <div className="row">
        <h2 className="grow">{s.needsYou}</h2>
        <Link className="acc fs12" href="/inbox">
          {s.openInbox}
        </Link>
      </div>
      <div style={{ marginTop: 6 }}>
        {rows.length === 0 && (
          <p className="t2 row" style={{ height: 34 }}>
            <Icon name="check" className="ok" /> {s.nothing}
          </p>
        )}
        {rows.map(([icon, , title, text, to]) => {
          const [name, tone] = icon.split(' ');
          return (
            <Link key={title} href={to}>
              <span className={tone}>
                <Icon name={name as 'ask'} />
              </span>
              <span className="b">{title}</span>
              <span className="t2 trunc grow">{text}</span>
              <Icon name="right" small className="t3" />
            </Link>
          );
        })}
      </div>
    </section>
  );
}

function host(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

function dayAgo(): string {
  return new Date(Math.floor((Date.now() - 86_400_000) / 600_000) * 600_000).toISOString();
}

const whole = (v: number) => count(Math.round(v));
const ms = (v: number) => span(v) || '0';

function Charts({ data }: { data: Timeseries }) {
  const values = (data.series[0]?.values ?? {}) as Record<string, (number | null)[]>;
  const runs = useMemo(
    () => [
      { label: s.begun, values: values.runs ?? [], color: '--chart-2', bars: true },
      { label: s.failed, values: values.failures ?? [], color: '--bad', bars: true },
    ],
    [values],
  );
  const times = useMemo(
    () => [
      { label: s.median, values: values.p50 ?? [], color: '--chart-1' },
      { label: 'p95', values: values.p95 ?? [], color: '--chart-3' },
    ],
    [values],
  );
  const t = totals(data);
  return (
    <>
      <section className="sec">
        <div className="row" style={{ marginBottom: 10 }}>
          <h2 className="grow">{s.runsByDay}</h2>
          <span className="legend">
            <span>
              <i className="k1" />
              {s.begun}
            </span>
            <span>
              <i className="k2" />
              {s.failed}
            </span>
          </span>
        </div>
        <Suspense fallback={<Loading rows={4} />}>
          <Chart dates={data.dates} series={runs} finding={s.findingRuns(t.runs ?? 0, t.failures ?? 0, data.range.days)} format={whole} />
        </Suspense>
      </section>
      <section className="sec">
        <div className="row" style={{ marginBottom: 10 }}>
          <h2 className="grow">{s.timeAtWork}</h2>
          <span className="legend">
            <span>
              <i className="llm" />
              {s.median}
            </span>
            <span>
              <i className="k3" />
              p95
            </span>
          </span>
        </div>
        <Suspense fallback={<Loading rows={4} />}>
          <Chart dates={data.dates} series={times} finding={s.findingTime(span(t.p50) || '–', span(t.p95) || '–')} format={ms} height={140} />
        </Suspense>
      </section>
    </>
  );
}

function Busiest({ days }: { days: number }) {
  const [, go] = useLocation();
  const q = useGet<Schema<'AgentAnalyticsSummary'>>('/api/v1/analytics/agents', { query: { days } }, { retry: false, every: 60_000 });
  const rows = (q.data?.top_by_runs ?? []).filter((a) => a.runs > 0).slice(0, 6);
  if (rows.length === 0) return null;
  return (
    <section className="sec">
      <div className="row">
        <h2 className="grow">{s.busiest}</h2>
        <CopyCurl small curl={curlOf('GET', '/api/v1/analytics/agents', { query: { days } })} />
        <Link className="acc fs12" href="/agents">
          {s.allAgents}
        </Link>
      </div>
      <table className="tbl flush compact bz">
        <thead>
          <tr>
            <th>{en.agents.agent}</th>
            <th className="r">{s.runs}</th>
            <th className="r">{s.failed}</th>
            <th className="r">{s.average}</th>
            <th className="r">{s.cost}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((a) => (
            <tr key={a.agent_id} className="go" onClick={() => go(`/agents/${a.agent_id}`)}>
              <td className="b">
                <Link href={`/agents/${a.agent_id}`}>{a.name}</Link>
              </td>
              <td className="r num">{count(a.runs)}</td>
              <td className={`r num ${a.failures / Math.max(1, a.runs) > 0.05 ? 'bad' : 't2'}`}>{percent(a.failures, a.runs)}</td>
              <td className="r num t2">{span(a.average_ms)}</td>
              <td className="r num">{usd(a.cost_usd)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Budget() {
  const me = useMe();
  const q = useGet<Schema<'BillingBudget'>>('/api/v1/billing/budget', {}, { enabled: may(me.data, 'viewer', 'billing:read'), retry: false });
  const st = q.data?.status;
  if (!q.data?.configured || !st) return null;
  const part = Math.min(1, st.utilization);
  return (
    <section className="sec">
      <div className="row">
        <h2 className="grow">{s.budget}</h2>
        {st.hard_limit_reached ? <span className="tag bad">{s.spent}</span> : st.soft_alert ? <span className="tag warn">{s.soonSpent}</span> : null}
      </div>
      <div className="row" style={{ marginTop: 10 }}>
        <span className="big">{usd(st.spent_usd)}</span>
        <span className="t2">{s.of(usd(st.limit_usd))}</span>
        <span className="grow" />
        <span className="num t2">{Math.round(part * 100)}%</span>
      </div>
      <div className={`meter ${st.soft_alert ? 'warn' : ''}`} style={{ marginTop: 8 }}>
        <i style={{ width: `${part * 100}%` }} />
      </div>
      <p className="fs12 t2" style={{ marginTop: 8 }}>
        <Link className="acc" href="/settings/usage">
          {s.changeBudget}
        </Link>
      </p>
    </section>
  );
}

function Now() {
  const list = useList<Schema<'Run'>>('/api/v1/runs', { query: { status: 'running', fields: 'summary' } }, { every: 4000, limit: 100 });
  const queued = useList<Schema<'Run'>>('/api/v1/runs', { query: { status: 'queued', fields: 'summary' } }, { every: 4000, limit: 100 });
  const waiting = list.rows.filter((r) => r.waiting_for);
  const busy = list.rows.length - waiting.length;
  const rows: [string, string, number][] = [
    ['running', en.status.running, busy],
    ['queued', s.queued, queued.rows.length],
    ['waiting_model', s.waitingModel, waiting.length],
  ];
  return (
    <section className="sec">
      <h2>{s.now}</h2>
      <ul className="now" style={{ marginTop: 8 }}>
        {rows.map(([of, label, n]) => (
          <li key={of}>
            <Status of={n > 0 ? of : of === 'running' ? 'disabled' : of} label={label} />
            <span />
            <span className="num r">{n}</span>
          </li>
        ))}
      </ul>
      {list.rows.slice(0, 3).map((r) => {
        const st = runStatus(r);
        return (
          <p key={r.run_id} className="row fs12" style={{ marginTop: 6 }}>
            <Status of={st.of} label={st.label} bare />
            <Link className="trunc grow" href={`/runs/${r.run_id}`}>
              {r.agent_name}: {r.input_preview}
            </Link>
            <Time at={r.created_at} className="t3" />
          </p>
        );
      })}
    </section>
  );
}

function Failures({ days }: { days: number }) {
  const after = useMemo(() => new Date(Math.floor((Date.now() - days * 86_400_000) / 600_000) * 600_000).toISOString(), [days]);
  const list = useList<Schema<'Run'>>('/api/v1/runs', { query: { status: 'failed', fields: 'summary', created_after: after } }, { limit: 100 });
  const codes = new Map<string, number>();
  for (const r of list.rows) codes.set(r.error_code || 'other', (codes.get(r.error_code || 'other') ?? 0) + 1);
  const rows = [...codes].sort((a, b) => b[1] - a[1]).slice(0, 5);
  if (rows.length === 0) return null;
  const most = rows[0]![1];
  return (
    <section className="sec">
      <div className="row">
        <h2 className="grow">{s.whyFailed}</h2>
        <Link className="acc fs12" href="/runs?status=failed">
          {s.runsN(list.rows.length, list.hasNextPage)}
        </Link>
      </div>
      <ul className="col" style={{ marginTop: 8, gap: 6 }}>
        {rows.map(([code, n], i) => (
          <li key={code} className="row gap3">
            <Link className="mono grow trunc" href={`/runs?status=failed&error_code=${code}`}>
              {code}
            </Link>
            <svg width="70" height="8" aria-hidden="true">
              <rect className={i === 0 ? 'b2' : 'b3'} width={(n / most) * 70} height="8" rx="2" />
            </svg>
            <span className="num r" style={{ width: 28 }}>
              {n}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Four first steps, until they are done. */
function FirstSteps() {
  const me = useMe();
  const admin = may(me.data, 'admin');
  const agents = useList<unknown>('/api/v1/agents', {}, { limit: 1 });
  const runs = useList<unknown>('/api/v1/runs', { query: { fields: 'summary' } }, { limit: 1 });
  const webhooks = useGet<{ webhooks: unknown[] }>('/api/v1/webhooks', {}, { enabled: admin, retry: false });
  const keys = useGet<{ keys: { kind: string }[] }>('/api/v1/tenants/me/keys', {}, { enabled: admin, retry: false });
  if (!admin || agents.isLoading || runs.isLoading || !webhooks.data || !keys.data) return null;
  const steps: [string, boolean, string][] = [
    [s.stepAgent, agents.rows.length > 0, '/agents'],
    [s.stepRun, runs.rows.length > 0, '/chat'],
    [s.stepKey, keys.data.keys.filter((k) => k.kind === 'api_key').length > 1, '/settings/keys'],
    [s.stepWebhook, webhooks.data.webhooks.length > 0, '/settings/webhooks'],
  ];
  if (steps.every(([, done]) => done)) return null;
  return (
    <section className="sec">
      <h2>{s.firstSteps}</h2>
      <ul className="now" style={{ marginTop: 8 }}>
        {steps.map(([label, done, to]) => (
          <li key={label}>
            <span className={`st ${done ? 'completed' : 'idle'}`}>
              <Icon name={done ? 's-completed' : 's-queued'} />
              {done ? <span className="t3">{label}</span> : <Link href={to}>{label}</Link>}
            </span>
            <span />
            <span className="vh">{done ? en.common.done : ''}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}


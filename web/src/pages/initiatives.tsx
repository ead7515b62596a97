import { useState } from 'react';
import { Link } from 'wouter';
import { curlOf, may, rowsOf, send, useGet, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { count, shortId, usd } from '../format';
import { useReloadOn } from '../live/changes';
import { Edit, ResourcePage, type Kind } from '../resource';
import type { Refs, Value } from '../schemaform';
import { en } from '../strings/en';
import { work } from '../strings/work';
import { Block, Button, Head, Status, Time, sentence } from '../ui';
import { WorkTabs, useWorkers } from '../worktabs';
import { Plan, type Objective } from './plan';

const s = work.initiative;
type Initiative = Schema<'Initiative'>;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));

export default function Initiatives({ id }: { id?: string }) {
  const w = useWorkers();
  const kind: Kind<Value> = {
    id: 'initiatives',
    title: work.initiatives,
    icon: 'teams',
    list: '/api/v1/initiatives',
    idOf: (r) => text(r.initiative_id),
    nameOf: (r) => text(r.name),
    before: <WorkTabs active="initiatives" />,
    create: { path: '/api/v1/initiatives', role: 'developer', label: s.new, start: { budget: { total_usd: 10, daily_limit_usd: 5, alert_threshold_pct: 80 } } },
    one: { path: '/api/v1/initiatives/{initiativeId}', param: 'initiativeId' },
    update: { method: 'patch', role: 'developer' },
    refs: w.refs,
    columns: [
      { label: s.name, cell: (r) => text(r.name) },
      { label: s.mission, cell: (r) => text(r.mission), wide: true },
      { label: s.status, cell: (r) => <Status of={text(r.status)} /> },
      { label: s.goals, cell: (r) => count((r.strategic_goals as unknown[]).length), right: true },
      { label: s.spent, cell: (r) => usd((r.budget as Initiative['budget']).spent_usd), right: true },
      { label: s.tick, cell: (r) => <Time at={r.last_tick_at as string | null} />, right: true },
    ],
    empty: { title: s.empty, text: s.emptyText },
  };
  if (id) return <One id={id} names={w.names} refs={w.refs} kind={kind} />;
  return <ResourcePage kind={kind} base="/initiatives" />;
}

function One({ id, names, refs, kind }: { id: string; names: Map<string, string>; refs: Refs; kind: Kind<Value> }) {
  const path = { path: { initiativeId: id } };
  const me = useMe();
  const q = useGet<Initiative>('/api/v1/initiatives/{initiativeId}', path, { every: 10_000 });
  const plan = useGet<{ objectives: Objective[] }>('/api/v1/initiatives/{initiativeId}/objectives', path, { every: 10_000 });
  useReloadOn('/api/v1/initiatives/{initiativeId}/events', path.path, true);
  const [editing, setEditing] = useState(false);
  const i = q.data;
  if (!i) return <Block q={q}>{() => null}</Block>;
  const writes = may(me.data, 'developer', 'agents:write');
  const act = (what: string, said: string) => () => void send('post', `/api/v1/initiatives/{initiativeId}/${what}`, path, {}).then(() => toast(said), (e: Error) => toast(e.message, true));
  return (
    <>
      <Head crumbs={[{ label: work.initiatives, to: '/initiatives' }]} title={i.name} after={<Status of={i.status} />} curl={curlOf('GET', '/api/v1/initiatives/{initiativeId}', path)}>
        {writes && i.status === 'active' && <Button icon="refresh" label={s.look} onClick={act('tick', s.looked)} />}
        {writes && i.status === 'active' && <Button icon="pause" label={s.pause} onClick={act('pause', s.paused)} />}
        {writes && i.status === 'paused' && <Button kind="primary" icon="play" label={s.resume} onClick={act('resume', s.resumed)} />}
        {writes && <Button icon="edit" label={en.common.edit} onClick={() => setEditing(true)} />}
      </Head>
      {i.status_reason && <p className="note exp t2">{sentence(i.status_reason)}</p>}
      <div className="ovg" style={{ borderTop: '1px solid var(--line)' }}>
        <div>
          <section className="sec">
            <p style={{ whiteSpace: 'pre-wrap', maxWidth: '70ch' }}>{i.mission}</p>
          </section>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.objectives}</h2>
            <Block q={plan} rows={3}>{(p) => <Plan objectives={p.objectives} names={names} refs={refs} />}</Block>
          </section>
          <Activity id={id} names={names} />
        </div>
        <aside>
          <Budget id={id} />
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.strategy}</h2>
            <ul className="col" style={{ gap: 10 }}>
              {i.strategic_goals.map((g, n) => (
                <li key={g.goal_id ?? n}>
                  <b className="b">{g.title}</b> {g.completed_at && <span className="tag">{s.done}</span>}
                  {g.description && <p className="t2 fs12">{g.description}</p>}
                  {(g.kpis ?? []).map((k) => (
                    <p key={k.name} className="t2 fs12 num">
                      {s.kpi(k.name, text((k as Value).current ?? '–'), text((k as Value).target))}
                    </p>
                  ))}
                </li>
              ))}
            </ul>
          </section>
          {i.agent_ids.length + i.team_ids.length > 0 && (
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.people}</h2>
            <ul className="col" style={{ gap: 6 }}>
              {[...i.agent_ids.map((a) => [a, `/agents/${a}`]), ...i.team_ids.map((t) => [t, `/teams/${t}`])].map(([who, to]) => (
                <li key={who}>
                  <Link className="acc" href={to!}>
                    {names.get(who!) ?? shortId(who!)}
                  </Link>
                </li>
              ))}
            </ul>
          </section>
          )}
        </aside>
      </div>
      {editing && <Edit kind={kind} row={i as unknown as Value} params={path} onClose={() => setEditing(false)} />}
    </>
  );
}

function Budget({ id }: { id: string }) {
  const q = useGet<Schema<'InitiativeSpending'>>('/api/v1/initiatives/{initiativeId}/budget', { path: { initiativeId: id } }, { retry: false });
  const b = q.data;
  if (!b) return null;
  const part = b.total_usd > 0 ? Math.min(1, b.spent_usd / b.total_usd) : 0;
  return (
    <section className="sec">
      <h2>{s.budget}</h2>
      <div className="row" style={{ marginTop: 8 }}>
        <span className="big">{usd(b.spent_usd)}</span>
        <span className="t2">{b.total_usd > 0 ? s.of(usd(b.total_usd)) : s.unlimited}</span>
      </div>
      {b.total_usd > 0 && (
        <div className={`meter ${part * 100 >= b.alert_threshold_pct && b.alert_threshold_pct > 0 ? 'warn' : ''}`} style={{ marginTop: 8 }}>
          <i style={{ width: `${part * 100}%` }} />
        </div>
      )}
      {b.daily_limit_usd > 0 && <p className="t2 fs12" style={{ marginTop: 6 }}>{s.today(usd(b.spent_today_usd), usd(b.daily_limit_usd))}</p>}
    </section>
  );
}

function Activity({ id, names }: { id: string; names: Map<string, string> }) {
  const q = useGet<unknown>('/api/v1/initiatives/{initiativeId}/activity', { path: { initiativeId: id }, query: { limit: 50 } });
  const rows = rowsOf<Schema<'InitiativeActivityEntry'>>({ items: (q.data as { entries?: unknown[] } | undefined)?.entries ?? [] });
  return (
    <section className="sec">
      <h2 style={{ marginBottom: 8 }}>{s.activity}</h2>
      {rows.length === 0 ? (
        <p className="t2">{s.noActivity}</p>
      ) : (
        <table className="tbl flush compact">
          <thead>
            <tr>
              <th>{s.purpose}</th>
              <th>{work.plan.who}</th>
              <th>{s.run}</th>
              <th className="r">{s.cost}</th>
              <th className="r">{s.when}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((r) => (
              <tr key={r.run_id}>
                <td>
                  <Status of={r.success === null ? 'running' : r.success ? 'completed' : 'failed'} label={sentence(r.purpose)} />
                </td>
                <td className="t2">{names.get(r.team_id ?? r.agent_id ?? '') ?? ''}</td>
                <td className="mono">
                  <Link className="acc" href={`/runs/${r.run_id}`}>
                    {shortId(r.run_id)}
                  </Link>
                </td>
                <td className="r num t2">{usd(r.cost_usd)}</td>
                <td className="r t2">
                  <Time at={r.created_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

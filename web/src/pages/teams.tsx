import { useMemo, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { curlOf, may, send, useGet, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { count, shortId, usd } from '../format';
import { Icon } from '../icons';
import { Edit, ResourcePage, type Kind } from '../resource';
import type { Refs, Value } from '../schemaform';
import { en } from '../strings/en';
import { Text } from '../turn';
import { WorkTabs } from '../worktabs';
import { Block, Button, Confirm, Empty, Failure, Field, FormError, Head, Loading, Status, Time, sentence, useAction } from '../ui';

const s = en.teams;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));

export default function Teams({ id, run }: { id?: string; run?: string }) {
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', { query: { fields: 'summary' } }, { limit: 100 });
  const refs = useMemo<Refs>(() => ({ agent: agents.rows.map((a) => ({ value: a.agent_id, label: a.name })) }), [agents.rows]);
  const names = useMemo(() => new Map(agents.rows.map((a) => [a.agent_id, a.name])), [agents.rows]);
  if (id && run) return <TeamRun team={id} id={run} names={names} />;
  if (id) return <Team id={id} names={names} refs={refs} />;
  const kind: Kind<Value> = {
    ...teamKind,
    create: { path: '/api/v1/teams', role: 'developer', label: s.new, start: { topology: 'supervisor' } },
    refs,
    before: <WorkTabs active="teams" />,
  };
  return <ResourcePage kind={kind} base="/teams" />;
}

const teamKind: Kind<Value> = {
  id: 'teams',
  title: s.title,
  icon: 'teams',
  list: '/api/v1/teams',
  idOf: (r) => text(r.team_id),
  nameOf: (r) => text(r.name),
  one: { path: '/api/v1/teams/{teamId}', param: 'teamId' },
  update: { method: 'patch', role: 'developer' },
  columns: [
    { label: s.name, cell: (r) => text(r.name) },
    { label: s.topology, cell: (r) => sentence(text(r.topology)) },
    { label: s.description, cell: (r) => text(r.description), wide: true },
    { label: s.members, cell: (r) => count(membersOf(r as unknown as Schema<'Team'>).length), right: true },
    { label: s.changed, cell: (r) => <Time at={r.updated_at as string} />, right: true },
  ],
  empty: { title: s.empty, text: s.emptyText },
};

/** The supervisor, the workers and the other members, each once. */
function membersOf(t: Schema<'Team'>): string[] {
  return [...new Set([...(t.supervisor_agent_id ? [t.supervisor_agent_id] : []), ...(t.agent_ids ?? []), ...(t.workers ?? []).map((w) => w.agent_id)])];
}

function Team({ id, names, refs }: { id: string; names: Map<string, string>; refs: Refs }) {
  const path = { path: { teamId: id } };
  const [changing, setChanging] = useState<'' | 'edit' | 'delete'>('');
  const [, go] = useLocation();
  const me = useMe();
  const starts = may(me.data, 'developer', 'agents:write');
  const team = useGet<Schema<'Team'>>('/api/v1/teams/{teamId}', path);
  const runs = useGet<{ runs: Schema<'TeamRunSummary'>[] }>('/api/v1/teams/{teamId}/runs', { ...path, query: { limit: 50 } }, { every: 4000 });
  const graph = useGet<Schema<'TeamGraph'>>('/api/v1/teams/{teamId}/graph', path, { retry: false });
  const [message, setMessage] = useState('');
  const [busy, error, start] = useAction(async () => {
    const made = await send<Schema<'TeamRun'>>('post', '/api/v1/teams/{teamId}/runs', path, { message });
    go(`/teams/${id}/runs/${made.team_run_id}`);
  });
  if (!team.data) return <Block q={team}>{() => null}</Block>;
  const t = team.data;
  const members = membersOf(t);
  return (
    <>
      <Head crumbs={[{ label: s.title, to: '/teams' }]} title={t.name} after={<span className="tag">{sentence(t.topology)}</span>} curl={curlOf('POST', '/api/v1/teams/{teamId}/runs', path, { message: 'Hello' })}>
        {starts && <Button icon="edit" label={en.common.edit} onClick={() => setChanging('edit')} />}
        {starts && <Button kind="danger" icon="trash" label={en.common.delete} onClick={() => setChanging('delete')} />}
      </Head>
      {changing === 'edit' && <Edit kind={{ ...teamKind, refs }} row={t as unknown as Value} params={path} onClose={() => setChanging('')} />}
      {changing === 'delete' && (
        <Confirm
          title={en.resource.removeTitle(en.common.delete, t.name)}
          text={s.removeText}
          action={en.common.delete}
          danger
          onClose={() => setChanging('')}
          onConfirm={async () => {
            await send('delete', '/api/v1/teams/{teamId}', path);
            toast(en.resource.removed(t.name));
            go('/teams');
          }}
        />
      )}
      <div className="ovg" style={{ borderTop: '1px solid var(--line)' }}>
        <div>
          {starts && (
            <section className="sec">
              <form
                onSubmit={(e) => {
                  e.preventDefault();
                  if (message.trim()) void start();
                }}
              >
                <Field label={s.task}>{(p) => <textarea {...p} className="in" rows={3} value={message} onChange={(e) => setMessage(e.target.value)} />}</Field>
                <Button type="submit" kind="primary" icon="play" label={s.start} busy={busy} disabled={!message.trim()} />
                <FormError error={error} />
              </form>
            </section>
          )}
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.runs}</h2>
            {runs.error ? (
              <Failure error={runs.error} />
            ) : runs.isLoading ? (
              <Loading rows={3} />
            ) : (runs.data?.runs.length ?? 0) === 0 ? (
              <p className="t2">{s.noRuns}</p>
            ) : (
              <table className="tbl flush">
                <tbody>
                  {runs.data!.runs.map((r) => (
                    <tr key={r.team_run_id} className="go" onClick={() => go(`/teams/${id}/runs/${r.team_run_id}`)}>
                      <td>
                        <Status of={r.status === 'pending' ? 'queued' : r.status === 'partial_failure' ? 'failed' : r.status} label={r.status === 'partial_failure' ? s.partly : undefined} />
                      </td>
                      <td className="wide">
                        <Link className="trunc" href={`/teams/${id}/runs/${r.team_run_id}`}>
                          {r.message}
                        </Link>
                      </td>
                      <td className="r t2">
                        <Time at={r.created_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
          </section>
        </div>
        <aside>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.graph}</h2>
            <Drawing topology={t.topology} supervisor={t.supervisor_agent_id} members={members} names={names} edges={graph.data?.edges ?? []} />
          </section>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.members}</h2>
            <ul className="col" style={{ gap: 6 }}>
              {members.map((m) => (
                <li key={m} className="row">
                  <Icon name="agents" small className="t3" />
                  <Link className="grow trunc" href={`/agents/${m}`}>
                    {names.get(m) ?? shortId(m)}
                  </Link>
                  {m === t.supervisor_agent_id && <span className="tag">{s.supervisor}</span>}
                </li>
              ))}
            </ul>
          </section>
          {t.description && (
            <section className="sec">
              <p className="t2">{t.description}</p>
            </section>
          )}
        </aside>
      </div>
    </>
  );
}

/** Who talks to whom: the supervisor in the middle, a pipeline in a row, others in a ring. */
function Drawing({ topology, supervisor, members, names, edges, active }: { topology: string; supervisor: string; members: string[]; names: Map<string, string>; edges: { from: string; to: string }[]; active?: Map<string, string> }) {
  const w = 286;
  const workers = members.filter((m) => m !== supervisor || topology !== 'supervisor');
  const rows = topology === 'pipeline';
  const h = rows ? Math.max(60, workers.length * 44) : 210;
  const at = new Map<string, [number, number]>();
  if (topology === 'supervisor' && supervisor) at.set(supervisor, [w / 2, h / 2]);
  workers.forEach((m, i) => {
    if (rows) at.set(m, [w / 2, 24 + i * 44]);
    else {
      const a = (2 * Math.PI * i) / Math.max(1, workers.length) - Math.PI / 2;
      at.set(m, [w / 2 + Math.cos(a) * 98, h / 2 + Math.sin(a) * 78]);
    }
  });
  const lines: [string, string][] =
    edges.length > 0
      ? edges.map((e) => [e.from, e.to])
      : topology === 'supervisor'
        ? workers.map((m) => [supervisor, m])
        : rows
          ? workers.slice(1).map((m, i) => [workers[i]!, m])
          : workers.map((m, i) => [m, workers[(i + 1) % workers.length]!]);
  return (
    <svg className="graph" viewBox={`0 0 ${w} ${h}`} role="img" aria-label={s.drawing(members.length, sentence(topology))}>
      {lines.map(([a, b], i) => {
        const p = at.get(a);
        const q = at.get(b);
        return p && q && a !== b ? <line key={i} x1={p[0]} y1={p[1]} x2={q[0]} y2={q[1]} /> : null;
      })}
      {[...at].map(([m, [x, y]]) => (
        <g key={m} className={active?.get(m) ?? ''}>
          <rect x={x - 54} y={y - 13} width="108" height="26" rx="6" />
          <text x={x} y={y + 4} textAnchor="middle">
            {(names.get(m) ?? shortId(m)).slice(0, 16)}
          </text>
        </g>
      ))}
    </svg>
  );
}

const over = new Set(['completed', 'failed', 'partial_failure', 'cancelled']);

function TeamRun({ team, id, names }: { team: string; id: string; names: Map<string, string> }) {
  const path = { path: { teamId: team, teamRunId: id } };
  const me = useMe();
  const t = useGet<Schema<'Team'>>('/api/v1/teams/{teamId}', { path: { teamId: team } });
  const run = useGet<Schema<'TeamRun'>>('/api/v1/teams/{teamId}/runs/{teamRunId}', path, { every: (r) => (r && over.has(r.status) ? false : 1500) });
  const live = !run.data || !over.has(run.data.status);
  const messages = useGet<Schema<'TeamRunMessages'>>('/api/v1/teams/{teamId}/runs/{teamRunId}/messages', path, { every: live ? 2000 : false });
  if (!run.data) return <Block q={run}>{() => null}</Block>;
  const r = run.data;
  const name = (a: string) => names.get(a) ?? (a ? shortId(a) : s.person);
  const members = t.data ? membersOf(t.data) : [];
  const active = new Map(r.runs.map((x) => [x.agent_id, x.status]));
  const cost = r.runs.reduce((sum, x) => sum + (x.metrics?.total_cost_usd ?? 0), 0);
  return (
    <>
      <Head
        mono
        doc={s.run}
        crumbs={[
          { label: s.title, to: '/teams' },
          { label: t.data?.name ?? '', to: `/teams/${team}` },
        ]}
        title={shortId(id)}
        after={<Status of={r.status === 'pending' ? 'queued' : r.status === 'partial_failure' ? 'failed' : r.status} label={r.status === 'partial_failure' ? s.partly : undefined} />}
        curl={curlOf('GET', '/api/v1/teams/{teamId}/runs/{teamRunId}', path)}
      >
        {live && may(me.data, 'developer', 'agents:write') && <Button icon="stop" label={en.run.cancel} onClick={() => void send('post', '/api/v1/teams/{teamId}/runs/{teamRunId}/cancel', path, {}).then(() => toast(en.run.did.cancel!), (e: Error) => toast(e.message, true))} />}
      </Head>
      {r.error && (
        <div className="note bad exp">
          <Icon name="s-failed" />
          <p>{r.error}</p>
        </div>
      )}
      <div className="ovg" style={{ borderTop: '1px solid var(--line)' }}>
        <div>
          <section className="sec">
            <h2 style={{ marginBottom: 6 }}>{s.task}</h2>
            <p style={{ whiteSpace: 'pre-wrap' }}>{r.message}</p>
          </section>
          {r.output && (
            <section className="sec">
              <h2 style={{ marginBottom: 6 }}>{en.run.output}</h2>
              <Text text={r.output} />
            </section>
          )}
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.messages}</h2>
            <Block q={messages} rows={3}>
              {(m) =>
                m.protocol_messages.length === 0 ? (
                  <p className="t2">{s.noMessages}</p>
                ) : (
                  <ol className="col" style={{ gap: 10 }}>
                    {m.protocol_messages.map((x) => (
                      <li key={x.message_id} className="card pad">
                        <div className="row fs12">
                          <b className="b">{name(x.from_agent_id)}</b>
                          <Icon name="right" small className="t3" />
                          <span>{name(x.to_agent_id)}</span>
                          <span className="tag">{sentence(x.type)}</span>
                          <span className="grow" />
                          <Time at={x.timestamp} className="t3" />
                        </div>
                        <p style={{ whiteSpace: 'pre-wrap', marginTop: 4, maxHeight: 220, overflow: 'auto' }}>{x.content}</p>
                      </li>
                    ))}
                  </ol>
                )
              }
            </Block>
          </section>
        </div>
        <aside>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.graph}</h2>
            {t.data && <Drawing topology={t.data.topology} supervisor={t.data.supervisor_agent_id} members={members} names={names} edges={(messages.data?.protocol_messages ?? []).filter((m) => m.from_agent_id && m.to_agent_id).map((m) => ({ from: m.from_agent_id, to: m.to_agent_id }))} active={active} />}
          </section>
          <section className="sec">
            <div className="row">
              <h2 className="grow">{s.memberRuns}</h2>
              <span className="num t2">{usd(cost)}</span>
            </div>
            <ul className="col" style={{ gap: 6, marginTop: 8 }}>
              {r.runs.length === 0 && <li className="t2">{s.noMemberRuns}</li>}
              {r.runs.map((x) => (
                <li key={x.run_id} className="row">
                  <Status of={x.status} bare />
                  <Link className="grow trunc" href={`/runs/${x.run_id}`}>
                    {name(x.agent_id)}
                  </Link>
                  <span className="t3 num fs12">{usd(x.metrics?.total_cost_usd)}</span>
                </li>
              ))}
            </ul>
          </section>
        </aside>
      </div>
      {messages.error && <Empty icon="teams" title={s.noMessages} text={String(messages.error)} />}
    </>
  );
}

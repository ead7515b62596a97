import { useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { curlOf, may, send, useGet, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { bodyOf, useDocument } from '../document';
import { count, shortId, span, usd } from '../format';
import { Icon } from '../icons';
import { useReloadOn } from '../live/changes';
import { ResourcePage, type Kind } from '../resource';
import { Chips, SchemaFields, type Refs, type Value } from '../schemaform';
import { en } from '../strings/en';
import { work } from '../strings/work';
import { Block, Button, Dialog, Empty, Field, FormError, Head, Loading, Select, Status, Tabs, Time, sentence, useAction } from '../ui';
import { WorkTabs, useWorkers } from '../worktabs';
import { Plan, type Objective } from './plan';

const s = work.mission;
type Mission = Schema<'Mission'>;
const over = new Set(['completed', 'failed', 'aborted']);
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));

export default function Missions({ id }: { id?: string }) {
  const w = useWorkers();
  const me = useMe();
  const [starting, setStarting] = useState(false);
  if (id) return <OneMission id={id} names={w.names} refs={w.refs} />;
  const starts = may(me.data, 'developer', 'agents:write');
  const button = starts ? <Button kind="primary" icon="play" label={s.start} keys="n" onClick={() => setStarting(true)} /> : null;
  const kind: Kind<Value> = {
    id: 'missions',
    title: work.missions,
    icon: 'teams',
    list: '/api/v1/missions',
    idOf: (r) => text(r.mission_id),
    nameOf: (r) => text(r.goal),
    before: <WorkTabs active="missions" />,
    columns: [
      { label: s.goal, cell: (r) => text(r.goal), wide: true },
      { label: s.status, cell: (r) => <Status of={text(r.status)} label={sentence(text(r.status))} /> },
      { label: s.objectives, cell: (r) => count((r.objective_ids as unknown[]).length), right: true },
      { label: s.cost, cell: (r) => usd((r.metrics as Schema<'MissionMetrics'> | null)?.total_cost_usd), right: true },
      { label: s.created, cell: (r) => <Time at={text(r.created_at)} />, right: true },
    ],
    empty: { title: s.empty, text: s.emptyText },
    button,
    onNew: starts ? () => setStarting(true) : undefined,
  };
  return (
    <>
      <ResourcePage kind={kind} base="/missions" />
      {starting && <Start agents={w.agents} refs={w.refs} onClose={() => setStarting(false)} />}
    </>
  );
}

/** A mission belongs to a session: one is made with the agent that works. */
function Start({ agents, refs, onClose }: { agents: Schema<'Agent'>[]; refs: Refs; onClose: () => void }) {
  const [, go] = useLocation();
  const doc = useDocument();
  const [agent, setAgent] = useState('');
  const [helpers, setHelpers] = useState<string[]>([]);
  const [value, setValue] = useState<Value>({});
  const worker = agent || agents[0]?.agent_id || '';
  const [busy, error, run] = useAction(async () => {
    const session = await send<Schema<'Session'>>('post', '/api/v1/sessions', {}, { agent_id: worker });
    const chosen = agents.filter((a) => helpers.includes(a.agent_id)).map((a) => ({ agent_id: a.agent_id, name: a.name, ...(a.description ? { description: a.description } : {}) }));
    const made = await send<{ mission_id: string }>('post', '/api/v1/missions', {}, { ...value, session_id: session.session_id, ...(chosen.length > 0 ? { available_agents: chosen } : {}) });
    onClose();
    go(`/missions/${made.mission_id}`);
  });
  return (
    <Dialog
      wide
      title={s.start}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" icon="play" type="submit" form="mission" label={s.begin} busy={busy} disabled={!worker} />
        </>
      }
    >
      {!doc.data ? (
        <Loading rows={3} />
      ) : agents.length === 0 ? (
        <p className="t2">{s.notFirst}</p>
      ) : (
        <form id="mission" onSubmit={(e) => (e.preventDefault(), void run())}>
          <Field label={s.agent} help={s.agentHelp}>
            {(p) => <Select {...p} value={worker} onChange={setAgent} options={agents.map((a) => [a.agent_id, a.name] as const)} />}
          </Field>
          <SchemaFields doc={doc.data} schema={bodyOf(doc.data, '/api/v1/missions', 'post')} value={value} onChange={setValue} error={error} refs={refs} only={['goal']} depth={1} />
          <Field label={s.helpers} help={s.helpersHelp} optional>
            {(p) => <Chips id={p.id} label={s.helpers} value={helpers} onChange={setHelpers} options={refs.agent} />}
          </Field>
          <SchemaFields doc={doc.data} schema={bodyOf(doc.data, '/api/v1/missions', 'post')} value={value} onChange={setValue} error={error} refs={refs} skip={['goal', 'session_id', 'available_agents']} depth={1} />
          <FormError error={error} />
        </form>
      )}
    </Dialog>
  );
}

function OneMission({ id, names, refs }: { id: string; names: Map<string, string>; refs: Refs }) {
  const path = { path: { missionId: id } };
  const me = useMe();
  const tab = new URLSearchParams(useSearch()).get('tab') === 'report' ? 'report' : 'plan';
  const mission = useGet<Mission>('/api/v1/missions/{missionId}', path, { every: (m) => (m && over.has(m.status) ? false : 3000) });
  const ended = mission.data ? over.has(mission.data.status) : true;
  const plan = useGet<{ items: Objective[] }>('/api/v1/missions/{missionId}/objectives', path, { every: ended ? false : 3000 });
  useReloadOn('/api/v1/missions/{missionId}/events', path.path, !ended);
  const [aborting, setAborting] = useState(false);
  const m = mission.data;
  if (!m) return <Block q={mission}>{() => null}</Block>;
  const writes = may(me.data, 'developer', 'agents:write');
  const act = (what: string, said: string) => () => void send('post', `/api/v1/missions/{missionId}/${what}`, path, {}).then(() => toast(said), (e: Error) => toast(e.message, true));
  const objectives = plan.data?.items ?? [];
  const reached = objectives.filter((o) => o.status === 'completed').length;
  return (
    <>
      <Head doc={m.goal} crumbs={[{ label: work.missions, to: '/missions' }]} title={<span className="trunc">{m.goal}</span>} after={<Status of={m.status} label={sentence(m.status)} />} curl={curlOf('GET', '/api/v1/missions/{missionId}', path)}>
        {writes && m.status === 'executing' && <Button icon="pause" label={s.pause} onClick={act('pause', s.paused)} />}
        {writes && m.status === 'paused' && <Button kind="primary" icon="play" label={s.resume} onClick={act('resume', s.resumed)} />}
        {writes && !ended && <Button kind="danger" icon="stop" label={s.abort} onClick={() => setAborting(true)} />}
      </Head>
      {m.status === 'awaiting_authorization' && (
        <div className="note warn exp">
          <Icon name="s-waiting" />
          <div className="grow">
            <h2>{s.waits}</h2>
            <p className="t2">{s.waitsText}</p>
            {writes && (
              <div className="row" style={{ marginTop: 10 }}>
                <Button kind="primary" icon="check" label={s.authorize} onClick={act('authorize', s.authorized)} />
              </div>
            )}
          </div>
        </div>
      )}
      {m.result_summary && ended && (
        <div className={`note exp ${m.outcome === 'success' ? '' : 'bad'}`}>
          <Icon name={m.outcome === 'success' ? 's-completed' : 's-failed'} />
          <p>{m.result_summary}</p>
        </div>
      )}
      <div className="facts">
        <span>
          {s.objectives} <b>{s.reached(reached, objectives.length)}</b>
        </span>
        <span>
          {s.created} <b><Time at={m.created_at} /></b>
        </span>
        {m.completed_at && (
          <span>
            {s.ended} <b><Time at={m.completed_at} /></b>
          </span>
        )}
        {m.deadline && (
          <span>
            {s.deadline} <b><Time at={m.deadline} /></b>
          </span>
        )}
        {m.metrics && (
          <>
            <span>
              {s.took} <b>{span(m.metrics.total_duration_ms)}</b>
            </span>
            <span>
              {s.tokens} <b>{count(m.metrics.total_tokens)}</b>
            </span>
            <span>
              {s.cost} <b>{usd(m.metrics.total_cost_usd)}</b>
            </span>
          </>
        )}
        <span>
          {s.chat}{' '}
          <Link className="acc mono" href={`/chat/${m.session_id}`}>
            {shortId(m.session_id)}
          </Link>
        </span>
      </div>
      <Tabs
        active={tab}
        tabs={[
          { id: 'plan', label: s.plan, to: `/missions/${id}`, n: objectives.length || undefined },
          { id: 'report', label: s.report, to: `/missions/${id}?tab=report` },
        ]}
      />
      <section className="sec first">
        {tab === 'plan' ? (
          <Block q={plan}>{(p) => <Plan objectives={p.items} names={names} refs={refs} change={writes && !ended ? { path: '/api/v1/missions/{missionId}/objectives/{objectiveId}', params: path.path } : undefined} />}</Block>
        ) : ended ? (
          <Report id={id} />
        ) : (
          <Empty icon="file" title={s.report} text={s.noReport} />
        )}
      </section>
      {aborting && <Abort id={id} onClose={() => setAborting(false)} />}
    </>
  );
}

function Abort({ id, onClose }: { id: string; onClose: () => void }) {
  const [reason, setReason] = useState('');
  const [busy, error, run] = useAction(async () => {
    await send('post', '/api/v1/missions/{missionId}/abort', { path: { missionId: id } }, reason.trim() ? { reason: reason.trim() } : {});
    toast(s.aborted);
    onClose();
  });
  return (
    <Dialog
      title={s.abortTitle}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="danger" type="submit" form="abort" label={s.abort} busy={busy} />
        </>
      }
    >
      <form id="abort" onSubmit={(e) => (e.preventDefault(), void run())}>
        <p className="t2" style={{ marginBottom: 10 }}>{s.abortText}</p>
        <Field label={s.reason} optional>{(p) => <input {...p} className="in" value={reason} onChange={(e) => setReason(e.target.value)} />}</Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

function Report({ id }: { id: string }) {
  const q = useGet<Schema<'AfterActionReport'>>('/api/v1/missions/{missionId}/aar', { path: { missionId: id } }, { retry: false });
  return (
    <Block q={q}>
      {(r) => (
        <div className="io">
          <h2 style={{ marginBottom: 8 }}>{s.outcomes}</h2>
          <table className="tbl flush compact">
            <tbody>
              {r.objective_outcomes.map((o) => (
                <tr key={o.objective_id}>
                  <td>
                    <Status of={o.final_status} label={sentence(o.final_status)} />
                  </td>
                  <td className="wide">{o.title}</td>
                  <td className="t2">{o.abort_reason ? sentence(o.abort_reason) : o.verified ? work.plan.verified : ''}</td>
                  <td className="r num t2">{span(o.duration_ms)}</td>
                  <td className="r num t2">{usd(o.cost_usd)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {r.failure_analysis && (
            <>
              <h2 style={{ margin: '18px 0 8px' }}>{s.causes}</h2>
              <ul className="dots">
                {r.failure_analysis.root_causes.map((c, i) => (
                  <li key={i}>
                    <b className="b">{sentence(c.category)}</b> <span className="t2">{c.details}</span>
                  </li>
                ))}
              </ul>
            </>
          )}
          {r.lessons.length > 0 && (
            <>
              <h2 style={{ margin: '18px 0 8px' }}>{s.lessons}</h2>
              <ul className="dots">
                {r.lessons.map((l, i) => (
                  <li key={i}>
                    <b className="b">{sentence(l.pattern)}</b> <span className="t2">{l.recommendation}</span>
                  </li>
                ))}
              </ul>
            </>
          )}
          <h2 style={{ margin: '18px 0 8px' }}>{s.phases}</h2>
          <dl className="kv">
            {r.phases.map((p) => (
              <div key={p.phase} style={{ display: 'contents' }}>
                <dt>{sentence(p.phase)}</dt>
                <dd className="num">{span(p.duration_ms)}</dd>
              </div>
            ))}
          </dl>
        </div>
      )}
    </Block>
  );
}

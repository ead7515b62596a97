import { useState } from 'react';
import { Link } from 'wouter';
import { may, send, useGet, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { bodyOf, useDocument } from '../document';
import { usd } from '../format';
import { Icon } from '../icons';
import { AgentName } from '../names';
import { Facts, ResourcePage, type Kind } from '../resource';
import { SchemaFields, type Refs, type Value } from '../schemaform';
import { areas as s } from '../strings/areas';
import { en } from '../strings/en';
import { Block, Button, Dialog, Empty, FormError, Json, Loading, Status, Time, sentence, useAction } from '../ui';

const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));
const looks: Record<string, string> = { draft: 'pending', proposed: 'pending', voting: 'running', arbiter_review: 'running', sandbox_testing: 'running', achieved: 'completed', approved: 'completed', applied: 'completed', spawned: 'completed', resolved: 'completed', abandoned: 'cancelled', expired: 'timeout', rejected: 'rejected' };
const state = (v: unknown) => <Status of={looks[text(v)] ?? text(v)} label={sentence(text(v))} />;

/** Goals, requests of agents, designs, improvements and permissions. */
export default function More({ section, selected }: { section: string; selected?: string }) {
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', { query: { fields: 'summary' } }, { limit: 100 });
  const [chosen, setChosen] = useState('');
  const refs: Refs = { agent: agents.rows.map((a) => ({ value: a.agent_id, label: a.name })) };
  const base = `/governance/${section}`;
  if (section === 'goals') return <ResourcePage kind={{ ...goals, refs }} selected={selected} base={base} embedded />;
  if (section === 'requests') return <ResourcePage kind={{ ...requests, refs }} selected={selected} base={base} embedded />;
  if (section === 'designs') return <ResourcePage kind={{ ...designs, refs }} selected={selected} base={base} embedded />;
  const agent = chosen || agents.rows[0]?.agent_id || '';
  if (agents.isLoading) return <Loading />;
  if (!agent) return <Empty icon="gov" title={section === 'permissions' ? s.noPermissions : s.noImprovements} text={en.agents.empty} />;
  const choice = (
    <div className="tb">
      <select className="chipsel" aria-label={s.agent} value={agent} onChange={(e) => setChosen(e.target.value)}>
        {agents.rows.map((a) => (
          <option key={a.agent_id} value={a.agent_id}>
            {a.name}
          </option>
        ))}
      </select>
    </div>
  );
  return (
    <>
      {choice}
      {section === 'permissions' ? <Permissions key={agent} agent={agent} refs={refs} /> : <ResourcePage key={agent} kind={{ ...improvements, params: { agentId: agent } }} selected={selected} base={base} embedded />}
    </>
  );
}

/** Sets one of a few states. */
function States({ now, to, call }: { now: string; to: string[]; call: (status: string) => Promise<unknown> }) {
  const me = useMe();
  const [busy, error, run] = useAction(async (status: string) => {
    await call(status);
    toast(s.done);
  });
  if (!may(me.data, 'admin', 'agents:write')) return null;
  return (
    <>
      {to
        .filter((x) => x !== now)
        .map((x) => (
          <Button key={x} small label={s.setStatus(sentence(x))} busy={busy} onClick={() => void run(x)} />
        ))}
      <FormError error={error} />
    </>
  );
}

const goals: Kind<Value> = {
  id: 'goals',
  title: s.goals,
  icon: 's-completed',
  list: '/api/v1/governance/goals',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.title),
  create: { path: '/api/v1/governance/goals', role: 'developer', label: s.newGoal },
  columns: [
    { label: s.title, cell: (r) => text(r.title) },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.agent, cell: (r) => <AgentName id={text(r.agent_id)} /> },
    { label: s.created, cell: (r) => <Time at={text(r.created_at)} />, right: true },
  ],
  empty: { title: s.noGoals, text: s.noGoalsText },
  actions: (r) => <States now={text(r.status)} to={['active', 'achieved', 'abandoned']} call={(status) => send('put', '/api/v1/governance/goals/{goalId}/status', { path: { goalId: text(r.id) } }, { status })} />,
};

const designs: Kind<Value> = {
  id: 'designs',
  title: s.designs,
  icon: 'agents',
  list: '/api/v1/governance/builder/requests',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.title),
  create: { path: '/api/v1/governance/builder/requests', role: 'developer', label: s.newDesign },
  columns: [
    { label: s.title, cell: (r) => text(r.title) },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.proposed, cell: (r) => text(r.agent_name) },
    { label: s.created, cell: (r) => <Time at={text(r.created_at)} />, right: true },
  ],
  empty: { title: s.noDesigns, text: s.noDesignsText },
  actions: (r) => <States now={text(r.status)} to={['voting', 'approved', 'rejected']} call={(status) => send('put', '/api/v1/governance/builder/requests/{designRequestId}/status', { path: { designRequestId: text(r.id) } }, { status })} />,
};

const requests: Kind<Value> = {
  id: 'requests',
  title: s.requests,
  icon: 'inbox',
  list: '/api/v1/governance/ambassador/requests',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.subject),
  create: { path: '/api/v1/governance/ambassador/requests', role: 'developer', label: s.newRequest },
  columns: [
    { label: s.subject, cell: (r) => text(r.subject) },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.kind, cell: (r) => sentence(text(r.type)) },
    { label: s.agent, cell: (r) => <AgentName id={text(r.from_agent_id)} /> },
    { label: s.created, cell: (r) => <Time at={text(r.created_at)} />, right: true },
  ],
  empty: { title: s.noRequests, text: s.noRequestsText },
  detail: (r) => <Request row={r} />,
};

function Request({ row }: { row: Value }) {
  const me = useMe();
  const [response, setResponse] = useState('');
  const [busy, error, run] = useAction(async () => {
    await send('post', '/api/v1/governance/ambassador/requests/{requestId}/resolve', { path: { requestId: text(row.id) } }, { response });
    toast(s.answered);
  });
  return (
    <>
      <p style={{ marginTop: 10, whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{text(row.body)}</p>
      {row.status === 'pending' && may(me.data, 'admin') && (
        <form style={{ marginTop: 12 }} onSubmit={(e) => (e.preventDefault(), void run())}>
          <textarea className="in" rows={3} aria-label={s.answer} value={response} maxLength={10_000} onChange={(e) => setResponse(e.target.value)} />
          <div className="row" style={{ marginTop: 8 }}>
            <Button type="submit" small kind="primary" label={s.answer} busy={busy} disabled={!response.trim()} />
          </div>
          <FormError error={error} />
        </form>
      )}
      <Facts value={row} skip={['tenant_id', 'subject', 'body']} />
    </>
  );
}

const improvements: Kind<Value> = {
  id: 'improvements',
  title: s.improvements,
  icon: 'fork',
  list: '/api/v1/governance/improvement/{agentId}',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.title),
  create: { path: '/api/v1/governance/improvement/{agentId}', role: 'developer', label: s.newImprovement },
  columns: [
    { label: s.title, cell: (r) => text(r.title) },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.kind, cell: (r) => sentence(text(r.type)) },
    { label: s.created, cell: (r) => <Time at={text(r.created_at)} />, right: true },
  ],
  empty: { title: s.noImprovements, text: s.noImprovementsText },
  actions: (r) => <States now={text(r.status)} to={['approved', 'applied', 'rejected']} call={(status) => send('put', '/api/v1/governance/improvement/{agentId}/{version}/status', { path: { agentId: text(r.agent_id), version: text(r.version) } }, { status })} />,
  detail: (r) => (
    <>
      <p style={{ marginTop: 10, whiteSpace: 'pre-wrap' }}>{text(r.rationale)}</p>
      <h3 className="lbl" style={{ margin: '14px 0 6px' }}>{s.change}</h3>
      <Json value={r.diff} max={60} />
      <Facts value={r} skip={['tenant_id', 'title', 'rationale', 'diff']} />
    </>
  ),
};

function Permissions({ agent, refs }: { agent: string; refs: Refs }) {
  const path = { path: { agentId: agent } };
  const me = useMe();
  const q = useGet<Value>('/api/v1/governance/permissions/{agentId}', path, { retry: false });
  const lineage = useGet<{ chain: Value[] }>('/api/v1/governance/permissions/{agentId}/lineage', path, { retry: false });
  const [editing, setEditing] = useState(false);
  const writes = may(me.data, 'admin', 'agents:write');
  const none = (q.error as { status?: number } | null)?.status === 404;
  const button = writes && <Button icon="edit" label={s.setPermissions} onClick={() => setEditing(true)} />;
  return (
    <>
      {none ? (
        <Empty icon="shield" title={s.noPermissions} text={s.noPermissionsText}>
          {button}
        </Empty>
      ) : (
        <Block q={q} rows={4}>
          {(p) => (
            <div className="io">
              <section className="sec first">
                <div className="row">
                  <h2 className="grow">{s.permissionsOf}</h2>
                  {button}
                </div>
                <Facts value={p} skip={['tenant_id', 'agent_id', 'id']} />
              </section>
              <section className="sec">
                <h2>{s.lineage}</h2>
                <p className="t2" style={{ margin: '4px 0 10px' }}>{s.lineageText}</p>
                <Block q={lineage} rows={2}>
                  {(l) =>
                    l.chain.length < 2 ? (
                      <p className="t2">{s.noLineage}</p>
                    ) : (
                      <ol className="tl">
                        {l.chain.map((x, i) => (
                          <li key={i} style={{ paddingLeft: 12 + 16 * i }}>
                            <Icon name="agents" small className="t3" />
                            <Link className="b grow trunc" href={`/agents/${text(x.agent_id)}`}>
                              {text(x.name) || <AgentName id={text(x.agent_id)} />}
                            </Link>
                            {typeof x.max_budget_per_run_usd === 'number' && <span className="t3 num">{usd(x.max_budget_per_run_usd)}</span>}
                          </li>
                        ))}
                      </ol>
                    )
                  }
                </Block>
              </section>
            </div>
          )}
        </Block>
      )}
      {editing && <EditPermissions agent={agent} now={none ? {} : (q.data ?? {})} refs={refs} onClose={() => setEditing(false)} />}
    </>
  );
}

function EditPermissions({ agent, now, refs, onClose }: { agent: string; now: Value; refs: Refs; onClose: () => void }) {
  const doc = useDocument();
  const schema = doc.data ? bodyOf(doc.data, '/api/v1/governance/permissions/{agentId}', 'put') : undefined;
  const fields = Object.keys(schema?.properties ?? {});
  const [value, setValue] = useState<Value | null>(null);
  const current = value ?? Object.fromEntries(Object.entries(now).filter(([k, v]) => fields.includes(k) && v !== null));
  const [busy, error, run] = useAction(async () => {
    await send('put', '/api/v1/governance/permissions/{agentId}', { path: { agentId: agent } }, current);
    toast(s.permissionsSaved);
    onClose();
  });
  return (
    <Dialog
      title={s.setPermissions}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="permissions" label={en.common.save} busy={busy} />
        </>
      }
    >
      {schema && doc.data ? (
        <form id="permissions" onSubmit={(e) => (e.preventDefault(), void run())}>
          <SchemaFields doc={doc.data} schema={schema} value={current} onChange={setValue} error={error} refs={refs} depth={1} />
          <FormError error={error} />
        </form>
      ) : (
        <Loading rows={3} />
      )}
    </Dialog>
  );
}

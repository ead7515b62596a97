import { lazy, Suspense, useMemo, useState } from 'react';
import { Link } from 'wouter';
import { curlOf, may, rowsOf, send, useGet, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { ago, bytes, count, shortId, usd } from '../format';
import { Icon } from '../icons';
import { Facts, ResourcePage, type Kind } from '../resource';
import type { Refs, Value } from '../schemaform';
import { en } from '../strings/en';
import { Block, Button, Dialog, Empty, Failure, Field, FormError, Head, Json, Loading, Select, Status, Time, copy, sentence, useAction } from '../ui';

const Chart = lazy(() => import('../chart'));
const s = en.settings;

export const settingsNav: { title: string; items: { id: string; label: string; role: string }[] }[] = [
  {
    title: s.company,
    items: [
      { id: 'general', label: s.general, role: 'viewer' },
      { id: 'members', label: s.members, role: 'viewer' },
      { id: 'invites', label: s.invites, role: 'admin' },
      { id: 'keys', label: s.keys, role: 'viewer' },
      { id: 'usage', label: s.usage, role: 'viewer' },
      { id: 'audit', label: s.audit, role: 'admin' },
    ],
  },
  {
    title: s.connections,
    items: [
      { id: 'webhooks', label: s.webhooks, role: 'developer' },
      { id: 'sensors', label: s.sensors, role: 'developer' },
      { id: 'schedules', label: s.schedules, role: 'viewer' },
      { id: 'mcp', label: s.mcp, role: 'developer' },
      { id: 'models', label: s.models, role: 'viewer' },
      { id: 'notifications', label: s.notifications, role: 'viewer' },
    ],
  },
  { title: s.safety, items: [{ id: 'guardrails', label: s.guardrails, role: 'developer' }] },
  { title: s.you, items: [{ id: 'devices', label: s.devices, role: 'viewer' }] },
];

export default function Settings({ section, id, sub }: { section: string; id?: string; sub?: string }) {
  const base = `/settings/${section}`;
  switch (section) {
    case 'general':
      return <General />;
    case 'members':
      return <ResourcePage kind={members} selected={id} base={base} />;
    case 'invites':
      return <ResourcePage kind={invites} selected={id} base={base} />;
    case 'keys':
      return <Keys selected={id} base={base} />;
    case 'usage':
      return <Usage />;
    case 'audit':
      return <Audit />;
    case 'webhooks':
      return id ? <Webhook id={id} chosen={sub} /> : <ResourcePage kind={webhooks} base={base} />;
    case 'sensors':
      return <WithAgents>{(refs) => <ResourcePage kind={{ ...sensors, refs }} selected={id} base={base} />}</WithAgents>;
    case 'schedules':
      return <ResourcePage kind={schedules} selected={id} base={base} />;
    case 'mcp':
      return <ResourcePage kind={mcp} selected={id} base={base} />;
    case 'models':
      return <Models />;
    case 'notifications':
      return <ResourcePage kind={targets} selected={id} base={base} />;
    case 'guardrails':
      return <ResourcePage kind={guardrails} selected={id} base={base} />;
    case 'devices':
      return <ResourcePage kind={devices} selected={id} base={base} />;
  }
  return <Empty icon="search" title={en.shell.noPage} text={en.shell.noPageText} />;
}

export function WithAgents({ children }: { children: (refs: Refs) => React.ReactNode }) {
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', { query: { fields: 'summary' } }, { limit: 100 });
  const refs = useMemo<Refs>(() => ({ agent: agents.rows.map((a) => ({ value: a.agent_id, label: a.name })) }), [agents.rows]);
  return <>{children(refs)}</>;
}

const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));
const at = (v: unknown) => <Time at={v as string | null} />;

const members: Kind<Value> = {
  id: 'members',
  title: s.members,
  icon: 'user',
  list: '/api/v1/users',
  idOf: (r) => text(r.id ?? r.user_id),
  nameOf: (r) => text(r.name) || text(r.email) || shortId(text(r.id ?? r.user_id)),
  one: { path: '/api/v1/users/{userId}', param: 'userId' },
  remove: { role: 'admin', text: () => s.removeMember },
  columns: [
    { label: s.name, cell: (r) => text(r.name) || text(r.email) || shortId(text(r.id ?? r.user_id)) },
    { label: s.email, cell: (r) => <span className="t2">{text(r.email)}</span> },
    { label: s.role, cell: (r) => sentence(text(r.role)) },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status)} /> },
    { label: s.lastLogin, cell: (r) => at(r.last_login_at), right: true },
  ],
  empty: { title: s.noMembers, text: s.noMembersText },
  actions: (r) => <MemberActions row={r} />,
};

function MemberActions({ row }: { row: Value }) {
  const me = useMe();
  const [role, setRole] = useState(text(row.role));
  const path = { path: { userId: text(row.id ?? row.user_id) } };
  const act = (p: Promise<unknown>, what: string) => void p.then(() => toast(what), (e: Error) => toast(e.message, true));
  if (!may(me.data, 'admin', 'users:write')) return null;
  return (
    <>
      <Select aria-label={s.role} value={role} onChange={(v) => (setRole(v), act(send('put', '/api/v1/users/{userId}/role', path, { role: v }), s.roleChanged))} options={['viewer', 'developer', 'admin', 'owner'].map((r) => [r, sentence(r)] as const)} />
      {row.status === 'active' ? (
        <Button small icon="pause" label={s.suspend} onClick={() => act(send('put', '/api/v1/users/{userId}/suspend', path, {}), s.suspended)} />
      ) : (
        <Button small icon="play" label={s.unsuspend} onClick={() => act(send('put', '/api/v1/users/{userId}/unsuspend', path, {}), s.unsuspended)} />
      )}
    </>
  );
}

const invites: Kind<Value> = {
  id: 'invites',
  title: s.invites,
  icon: 'send',
  list: '/api/v1/users/invites',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.email),
  create: { path: '/api/v1/users/invites', role: 'admin', label: s.invite },
  one: { path: '/api/v1/users/invites/{inviteId}', param: 'inviteId', read: false },
  remove: { role: 'admin', label: s.revoke },
  secret: 'invite_url',
  columns: [
    { label: s.email, cell: (r) => text(r.email) },
    { label: s.role, cell: (r) => sentence(text(r.role)) },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status)} /> },
    { label: s.expires, cell: (r) => at(r.expires_at), right: true },
  ],
  empty: { title: s.noInvites, text: s.noInvitesText },
};

function Keys({ selected, base }: { selected?: string; base: string }) {
  const me = useMe();
  const scopes = me.data?.scopes.includes('*') ? undefined : me.data?.scopes.map((x) => ({ value: x, label: x }));
  const kind: Kind<Value> = {
    id: 'keys',
    title: s.keys,
    icon: 'key',
    list: '/api/v1/tenants/me/keys',
    idOf: (r) => text(r.key_id),
    nameOf: (r) => text(r.name) || text(r.prefix),
    create: { path: '/api/v1/tenants/me/keys', role: 'viewer', label: s.newKey },
    one: { path: '/api/v1/tenants/me/keys/{keyId}', param: 'keyId', read: false },
    remove: { role: 'viewer', label: s.revoke, text: () => s.revokeText },
    secret: 'raw_key',
    ...(scopes ? { refs: { scope: scopes } } : {}),
    columns: [
      { label: s.name, cell: (r) => text(r.name) },
      { label: s.prefix, cell: (r) => <span className="mono t2">svc_{text(r.prefix)}_…</span> },
      { label: s.scopes, cell: (r) => ((r.scopes as string[]) ?? []).join(', '), wide: true },
      { label: en.agents.status, cell: (r) => <Status of={text(r.status)} /> },
      { label: s.lastUsed, cell: (r) => at(r.last_used_at), right: true },
      { label: s.expires, cell: (r) => at(r.expires_at), right: true },
    ],
    empty: { title: s.noKeys, text: s.noKeysText },
  };
  return <ResourcePage kind={kind} selected={selected} base={base} />;
}

const webhooks: Kind<Value> = {
  id: 'webhooks',
  title: s.webhooks,
  icon: 'hook',
  list: '/api/v1/webhooks',
  idOf: (r) => text(r.webhook_id),
  nameOf: (r) => text(r.url),
  create: { path: '/api/v1/webhooks', role: 'developer', label: s.newWebhook },
  secret: 'secret',
  columns: [
    { label: s.url, cell: (r) => text(r.url) },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status)} /> },
    { label: s.events, cell: (r) => ((r.events as string[]) ?? []).join(', '), wide: true },
    { label: s.failures, cell: (r) => count(r.failure_count as number), right: true },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noWebhooks, text: s.noWebhooksText },
};

type Delivery = Schema<'WebhookDelivery'>;

/** Did it arrive: deliveries, what was sent, what came back, and sending it again. */
function Webhook({ id, chosen }: { id: string; chosen?: string }) {
  const path = { path: { webhookId: id } };
  const hook = useGet<Schema<'WebhookSubscription'>>('/api/v1/webhooks/{webhookId}', path, { every: 5000 });
  const list = useGet<{ deliveries: Delivery[]; total: number }>('/api/v1/webhooks/{webhookId}/deliveries', { ...path, query: { limit: 100 } }, { every: 3000, meanwhile: (l) => (l?.deliveries.some((d) => d.status === 'pending') ? 3000 : false) });
  const [asking, setAsking] = useState(false);
  const w = hook.data;
  const act = (p: Promise<unknown>, what: string) => void p.then(() => toast(what), (e: Error) => toast(e.message, true));
  if (!w) return <Block q={hook}>{() => null}</Block>;
  const rows = list.data?.deliveries ?? [];
  const sel = rows.find((d) => d.delivery_id === chosen);
  return (
    <>
      <Head crumbs={[{ label: s.webhooks, to: '/settings/webhooks' }]} title={w.url.replace(/^https?:\/\//, '')} after={<Status of={w.status} />} curl={curlOf('GET', '/api/v1/webhooks/{webhookId}/deliveries', path)}>
        {w.status === 'disabled' && <Button icon="play" label={s.enable} onClick={() => act(send('post', '/api/v1/webhooks/{webhookId}/enable', path, {}), s.enabled)} />}
        <Button icon="send" label={s.sendTest} onClick={() => act(send('post', '/api/v1/webhooks/{webhookId}/test', path, {}), s.testSent)} />
        <Button kind="danger" icon="trash" label={en.common.delete} onClick={() => setAsking(true)} />
      </Head>
      {w.status !== 'active' && (
        <div className="note warn exp">
          <Icon name="s-waiting" />
          <div className="grow">
            <b className="b">{w.status === 'disabled' ? s.hookDisabled(w.failure_count) : s.hookFailing(w.failure_count)}</b> <span className="t2">{w.last_failure_at ? s.lastFailure(ago(w.last_failure_at)) : ''}</span>
          </div>
        </div>
      )}
      <div className="facts">
        <span>
          {s.events} <b className="mono">{w.events.join(' ')}</b>
        </span>
        <span>
          {s.created} <b>{ago(w.created_at)}</b>
        </span>
      </div>
      <div className={sel ? 'spl' : ''} style={{ borderTop: '1px solid var(--line)' }}>
        <div>
          {list.isLoading ? (
            <Loading />
          ) : list.error ? (
            <Failure error={list.error} />
          ) : rows.length === 0 ? (
            <Empty icon="hook" title={s.noDeliveries} text={s.noDeliveriesText}>
              <Button icon="send" label={s.sendTest} onClick={() => act(send('post', '/api/v1/webhooks/{webhookId}/test', path, {}), s.testSent)} />
            </Empty>
          ) : (
            <div className="tblw">
              <table className="tbl compact">
                <thead>
                  <tr>
                    <th>{s.result}</th>
                    <th>{s.event}</th>
                    <th className="r">{s.response}</th>
                    <th className="r">{s.latency}</th>
                    <th className="r">{s.attempt}</th>
                    <th>{s.nextTry}</th>
                    <th className="r">{s.at}</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((d) => (
                    <tr key={d.delivery_id} data-selected={d.delivery_id === chosen || undefined}>
                      <td>
                        <Status of={d.status === 'success' ? 'delivered' : d.status === 'failed' ? (d.next_retry_at ? 'retrying' : 'gave_up') : 'queued'} label={s.results[d.status === 'failed' && d.next_retry_at ? 'retrying' : d.status] ?? d.status} />
                      </td>
                      <td>
                        <Link className="mono b" href={`/settings/webhooks/${id}/${d.delivery_id}`}>
                          {d.event_type}
                        </Link>
                      </td>
                      <td className="r mono t2">{d.response_status ?? (d.status === 'pending' ? '' : s.noAnswer)}</td>
                      <td className="r num t2">{d.latency_ms !== null ? `${Math.round(d.latency_ms)} ms` : ''}</td>
                      <td className="r num t2">{d.attempt_number}</td>
                      <td className="t2">{d.next_retry_at ? <Time at={d.next_retry_at} /> : ''}</td>
                      <td className="r t2">
                        <Time at={d.created_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </div>
        {sel && <DeliveryPanel id={id} delivery={sel} />}
      </div>
      {asking && (
        <Dialog
          title={s.deleteHook}
          onClose={() => setAsking(false)}
          footer={
            <>
              <span className="grow" />
              <Button kind="quiet" label={en.common.cancel} onClick={() => setAsking(false)} />
              <Button kind="danger" label={en.common.delete} onClick={() => void send('delete', '/api/v1/webhooks/{webhookId}', path).then(() => history.back(), (e: Error) => toast(e.message, true))} />
            </>
          }
        >
          <p className="t2">{s.deleteHookText}</p>
        </Dialog>
      )}
    </>
  );
}

function DeliveryPanel({ id, delivery }: { id: string; delivery: Delivery }) {
  const path = { path: { webhookId: id, deliveryId: delivery.delivery_id } };
  const full = useGet<Delivery>('/api/v1/webhooks/{webhookId}/deliveries/{deliveryId}', path, { retry: false });
  const [busy, error, run] = useAction(async () => {
    await send('post', '/api/v1/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver', path, {});
    toast(s.redelivered);
  });
  const d = full.data ?? delivery;
  let body: unknown = d.request_body;
  try {
    body = d.request_body ? JSON.parse(d.request_body) : undefined;
  } catch {
    // It is shown as it is.
  }
  return (
    <aside aria-label={s.delivery}>
      <div className="row">
        <b className="b mono grow">{d.event_type}</b>
        <Button small icon="refresh" label={s.redeliver} busy={busy} onClick={() => void run()} />
      </div>
      <p className="fs12 t3 mono" style={{ marginTop: 4 }}>
        {s.event} {shortId(d.event_id)}
      </p>
      {d.error_message && (
        <div className="note bad" style={{ marginTop: 10 }}>
          <Icon name="s-failed" />
          <p>{d.error_message}</p>
        </div>
      )}
      <FormError error={error} />
      {body !== undefined && (
        <>
          <h3 className="lbl" style={{ margin: '14px 0 6px' }}>{s.sent}</h3>
          <Json value={body} max={80} />
        </>
      )}
      <h3 className="lbl" style={{ marginTop: 14 }}>{s.howToFix}</h3>
      <p className="fs12 t2" style={{ marginTop: 4 }}>{s.howToFixText}</p>
    </aside>
  );
}

const sensors: Kind<Value> = {
  id: 'sensors',
  title: s.sensors,
  icon: 'bolt',
  list: '/api/v1/webhooks/sensors',
  idOf: (r) => text(r.webhook_id),
  nameOf: (r) => text(r.instructions).slice(0, 40) || shortId(text(r.webhook_id)),
  create: { path: '/api/v1/webhooks/sensors', role: 'developer', label: s.newSensor },
  one: { path: '/api/v1/webhooks/sensors/{sensorId}', param: 'sensorId' },
  remove: { role: 'developer' },
  secret: 'secret',
  columns: [
    { label: s.url, cell: (r) => shortId(text(r.webhook_id)) },
    { label: s.instructions, cell: (r) => text(r.instructions), wide: true },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status)} /> },
    { label: s.triggers, cell: (r) => count(r.triggers as number), right: true },
    { label: s.lastUsed, cell: (r) => at(r.last_triggered_at), right: true },
  ],
  empty: { title: s.noSensors, text: s.noSensorsText },
};

const schedules: Kind<Value> = {
  id: 'schedules',
  title: s.schedules,
  icon: 'clock',
  list: '/api/v1/schedules',
  idOf: (r) => text(r.agent_id),
  nameOf: (r) => text(r.cron),
  columns: [
    { label: s.cron, cell: (r) => <span className="mono">{text(r.cron)}</span> },
    { label: s.timezone, cell: (r) => text(r.timezone) },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status)} /> },
    { label: s.nextRun, cell: (r) => at(r.next_run_at), right: true },
    { label: s.lastRun, cell: (r) => at(r.last_fired_at), right: true },
  ],
  empty: { title: s.noSchedules, text: s.noSchedulesText },
  actions: (r) => (
    <Link className="acc" href={`/agents/${text(r.agent_id)}`}>
      {en.run.openAgent}
    </Link>
  ),
};

const mcp: Kind<Value> = {
  id: 'mcp',
  title: s.mcp,
  icon: 'tool',
  list: '/api/v1/mcp/servers',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.name),
  create: { path: '/api/v1/mcp/servers', role: 'developer', label: s.newMcp, start: { transport: 'streamable_http' } },
  one: { path: '/api/v1/mcp/servers/{serverId}', param: 'serverId' },
  update: { method: 'patch', role: 'developer' },
  remove: { role: 'developer' },
  columns: [
    { label: s.name, cell: (r) => text(r.name) },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status) === 'error' ? 'failed' : text(r.status)} label={sentence(text(r.status))} /> },
    { label: s.transport, cell: (r) => <span className="mono t2">{text(r.transport)}</span> },
    { label: s.url, cell: (r) => text(r.url ?? r.command), wide: true },
    { label: s.tools, cell: (r) => count(((r.capabilities as string[]) ?? []).length), right: true },
    { label: s.synced, cell: (r) => at(r.last_synced), right: true },
  ],
  empty: { title: s.noMcp, text: s.noMcpText },
  actions: (r) => <McpActions row={r} />,
};

function McpActions({ row }: { row: Value }) {
  const path = { path: { serverId: text(row.id) } };
  const [busy, error, run] = useAction(async () => {
    const answer = await send<Value>('post', '/api/v1/mcp/servers/{serverId}/test', path, {});
    toast(s.tested(JSON.stringify(answer).slice(0, 160)));
  });
  const authorize = () => void send<{ authorization_url?: string }>('post', '/api/v1/mcp/servers/{serverId}/authorize', path, {}).then((a) => a.authorization_url && window.open(a.authorization_url, '_blank', 'noopener'), (e: Error) => toast(e.message, true));
  return (
    <>
      <Button small icon="refresh" label={s.test} busy={busy} onClick={() => void run()} />
      {row.status === 'auth_required' && <Button small kind="primary" icon="link" label={en.turn.authorize} onClick={authorize} />}
      <FormError error={error} />
    </>
  );
}

const guardrails: Kind<Value> = {
  id: 'guardrails',
  title: s.guardrails,
  icon: 'shield',
  list: '/api/v1/guardrails',
  idOf: (r) => text(r.guardrail_id),
  nameOf: (r) => text(r.name),
  create: { path: '/api/v1/guardrails', role: 'developer', label: s.newGuardrail },
  one: { path: '/api/v1/guardrails/{guardrailId}', param: 'guardrailId' },
  update: { method: 'patch', role: 'developer' },
  remove: { role: 'developer' },
  columns: [
    { label: s.name, cell: (r) => text(r.name) },
    { label: s.kind, cell: (r) => <span className="mono t2">{text(r.kind)}</span> },
    { label: s.stage, cell: (r) => sentence(text(r.stage)) },
    { label: s.action, cell: (r) => sentence(text(r.action)) },
    { label: en.agents.status, cell: (r) => <Status of={r.enabled ? 'active' : 'disabled'} label={r.enabled ? en.status.active : s.off} /> },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noGuardrails, text: s.noGuardrailsText },
};

const targets: Kind<Value> = {
  id: 'targets',
  title: s.notifications,
  icon: 'bell',
  list: '/api/v1/notifications/targets',
  idOf: (r) => text(r.id ?? r.target_id),
  nameOf: (r) => text(r.name ?? r.address ?? r.url ?? r.channel),
  create: { path: '/api/v1/notifications/targets', role: 'viewer', label: s.newTarget },
  one: { path: '/api/v1/notifications/targets/{targetId}', param: 'targetId', read: false },
  remove: { role: 'viewer' },
  columns: [
    { label: s.name, cell: (r) => text(r.name ?? r.address ?? r.url ?? r.channel) },
    { label: s.kind, cell: (r) => text(r.channel ?? r.type ?? r.kind) },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noTargets, text: s.noTargetsText },
};

const devices: Kind<Value> = {
  id: 'devices',
  title: s.devices,
  icon: 'user',
  list: '/api/v1/me/sessions',
  idOf: (r) => text(r.session_id ?? r.key_id ?? r.id),
  nameOf: (r) => text(r.device_label ?? r.label ?? r.name) || s.device,
  one: { path: '/api/v1/me/sessions/{keyId}', param: 'keyId', read: false },
  remove: { role: 'viewer', label: s.signOutDevice },
  columns: [
    { label: s.name, cell: (r) => text(r.device_label ?? r.label ?? r.name) || s.device },
    { label: s.address, cell: (r) => <span className="mono t2">{text(r.ip_address ?? r.address)}</span> },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
    { label: s.lastUsed, cell: (r) => at(r.last_used_at), right: true },
  ],
  empty: { title: s.noDevices, text: s.noDevicesText },
};

/** Providers of models, and the company's own keys for them. */
function Models() {
  const me = useMe();
  const writes = may(me.data, 'admin');
  const q = useGet<unknown>('/api/v1/llm-credentials/providers', {}, { retry: false });
  const models = useGet<Schema<'LlmModels'>>('/api/v1/llm/models', {}, { retry: false });
  const [setting, setSetting] = useState('');
  return (
    <>
      <Head title={s.models} curl={curlOf('GET', '/api/v1/llm/models')} />
      <section className="sec" style={{ borderTop: 0 }}>
        <h2>{s.available}</h2>
        <Block q={models}>
          {(m) => (
            <table className="tbl flush compact">
              <thead>
                <tr>
                  <th>{s.model}</th>
                  <th>{s.provider}</th>
                  <th className="r">{s.context}</th>
                  <th className="r">{s.priceIn}</th>
                  <th className="r">{s.priceOut}</th>
                </tr>
              </thead>
              <tbody>
                {m.models.map((x) => (
                  <tr key={x.id}>
                    <td className="mono b">{x.id}{x.id === m.default_model && <span className="tag" style={{ marginLeft: 8 }}>{s.default}</span>}</td>
                    <td className="t2">{x.provider}</td>
                    <td className="r num t2">{x.max_context_tokens ? count(x.max_context_tokens) : ''}</td>
                    <td className="r num t2">{x.pricing.known ? usd(x.pricing.input_usd_per_mtok) : ''}</td>
                    <td className="r num t2">{x.pricing.known ? usd(x.pricing.output_usd_per_mtok) : ''}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Block>
      </section>
      <section className="sec">
        <h2 style={{ marginBottom: 4 }}>{s.ownKeys}</h2>
        <p className="t2 fs12" style={{ marginBottom: 8 }}>{s.ownKeysText}</p>
        <Block q={q}>
          {(d) => (
            <ul className="tl">
              {rowsOf<Schema<'LlmCredentialProvider'>>(d).map((p) => (
                <li key={p.id}>
                  <b className="b">{p.name}</b>
                  <span className="t2 mono grow trunc">{p.default_endpoint}</span>
                  {p.configured ? <Status of="active" label={s.stored} /> : <span className="t3">{s.none}</span>}
                  {writes && <Button small label={p.configured ? s.replace : s.addKey} onClick={() => setSetting(p.id)} />}
                  {writes && p.configured && <Button small kind="quiet" icon="trash" label={en.common.delete} onClick={() => void send('delete', '/api/v1/llm-credentials/{provider}', { path: { provider: p.id } }).then(() => toast(s.keyRemoved), (e: Error) => toast(e.message, true))} />}
                </li>
              ))}
            </ul>
          )}
        </Block>
      </section>
      {setting && <SetModelKey provider={setting} onClose={() => setSetting('')} />}
    </>
  );
}

function SetModelKey({ provider, onClose }: { provider: string; onClose: () => void }) {
  const [key, setKey] = useState('');
  const [busy, error, run] = useAction(async () => {
    await send('put', '/api/v1/llm-credentials/{provider}', { path: { provider } }, { api_key: key });
    toast(s.keyStored);
    onClose();
  });
  return (
    <Dialog
      title={s.keyOf(provider)}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="mk" label={en.common.save} busy={busy} disabled={!key} />
        </>
      }
    >
      <form
        id="mk"
        onSubmit={(e) => {
          e.preventDefault();
          void run();
        }}
      >
        <Field label={s.apiKey} help={s.sealed}>
          {(p) => <input {...p} className="in" type="password" autoComplete="off" value={key} onChange={(e) => setKey(e.target.value)} />}
        </Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

function General() {
  const me = useMe();
  const company = useGet<Value>('/api/v1/tenants/me');
  const writes = may(me.data, 'admin', 'tenants:write');
  const [name, setName] = useState<string>();
  const [busy, error, run] = useAction(async () => {
    await send('patch', '/api/v1/tenants/me', {}, { name });
    toast(en.resource.saved);
    setName(undefined);
  });
  return (
    <>
      <Head title={s.general} curl={curlOf('GET', '/api/v1/tenants/me')} />
      <section className="sec" style={{ borderTop: 0, maxWidth: 720 }}>
        <Block q={company}>
          {(c) => (
            <>
              <form
                onSubmit={(e) => {
                  e.preventDefault();
                  void run();
                }}
              >
                <Field label={s.companyName}>{(p) => <input {...p} className="in" disabled={!writes} maxLength={200} value={name ?? text(c.name)} onChange={(e) => setName(e.target.value)} />}</Field>
                {writes && <Button type="submit" kind="primary" label={en.common.save} busy={busy} disabled={name === undefined || name === c.name} />}
                <FormError error={error} />
              </form>
              <Facts value={c} skip={['name']} />
            </>
          )}
        </Block>
      </section>
    </>
  );
}

function Usage() {
  const me = useMe();
  const [days, setDays] = useState('30');
  const series = useGet<Schema<'AnalyticsTimeseries'>>('/api/v1/analytics/timeseries', { query: { metrics: 'cost,tokens,runs', days } }, { retry: false });
  const quota = useGet<Schema<'QuotaStatus'>>('/api/v1/usage/quota', {}, { retry: false });
  const usage = useGet<Schema<'UsageSummary'>>('/api/v1/usage', { query: { days, breakdown: 'model' } }, { retry: false });
  const budget = useGet<Schema<'BillingBudget'>>('/api/v1/billing/budget', {}, { retry: false });
  const [editing, setEditing] = useState(false);
  const values = (series.data?.series[0]?.values ?? {}) as Record<string, (number | null)[]>;
  const cost = useMemo(() => [{ label: en.overview.cost, values: values.cost ?? [], color: '--chart-2', bars: true }], [values]);
  const tokens = useMemo(() => [{ label: en.overview.tokens, values: values.tokens ?? [], color: '--chart-2', bars: true }], [values]);
  return (
    <>
      <Head title={s.usage} curl={curlOf('GET', '/api/v1/usage', { query: { days } })}>
        <Select aria-label={en.overview.range} value={days} onChange={setDays} options={[['7', en.overview.days7], ['30', en.overview.days30], ['90', s.days90]] as const} />
      </Head>
      <div className="ovg">
        <div>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{en.overview.cost}</h2>
            {series.data ? (
              <Suspense fallback={<Loading rows={3} />}>
                <Chart dates={series.data.dates} series={cost} finding={s.findingCost(usd((series.data.series[0]?.totals as Record<string, number> | undefined)?.cost ?? 0), Number(days))} format={usd} height={150} />
              </Suspense>
            ) : series.error ? (
              <Failure error={series.error} />
            ) : (
              <Loading rows={3} />
            )}
          </section>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{en.overview.tokens}</h2>
            {series.data && (
              <Suspense fallback={<Loading rows={3} />}>
                <Chart dates={series.data.dates} series={tokens} finding={s.findingTokens(count((series.data.series[0]?.totals as Record<string, number> | undefined)?.tokens ?? 0), Number(days))} format={count} height={150} />
              </Suspense>
            )}
          </section>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.byModel}</h2>
            <Block q={usage} rows={3}>
              {(u) => (
                <table className="tbl flush compact">
                  <thead>
                    <tr>
                      <th>{s.model}</th>
                      <th className="r">{s.calls}</th>
                      <th className="r">{en.overview.tokens}</th>
                      <th className="r">{en.overview.cost}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {(u.by_model ?? []).map((m) => {
                      const x = m as unknown as Record<string, number & string>;
                      return (
                        <tr key={x.model}>
                          <td className="mono">{x.model}</td>
                          <td className="r num t2">{count(x.llm_calls_count ?? x.calls)}</td>
                          <td className="r num t2">{count(x.total_tokens ?? Number(x.input_tokens ?? 0) + Number(x.output_tokens ?? 0))}</td>
                          <td className="r num">{usd(x.total_cost ?? x.cost_usd ?? x.cost)}</td>
                        </tr>
                      );
                    })}
                  </tbody>
                </table>
              )}
            </Block>
          </section>
        </div>
        <aside>
          <section className="sec">
            <div className="row">
              <h2 className="grow">{en.overview.budget}</h2>
              {may(me.data, 'admin') && <Button small label={budget.data?.configured ? en.common.edit : s.setBudget} onClick={() => setEditing(true)} />}
            </div>
            {budget.data?.status ? (
              <>
                <p style={{ marginTop: 8 }}>
                  <span className="big">{usd(budget.data.status.spent_usd)}</span> <span className="t2">{en.overview.of(usd(budget.data.status.limit_usd))}</span>
                </p>
                <div className="meter" style={{ marginTop: 8 }}>
                  <i style={{ width: `${Math.min(100, budget.data.status.utilization * 100)}%` }} />
                </div>
              </>
            ) : (
              <p className="t2 fs12" style={{ marginTop: 6 }}>{s.noBudget}</p>
            )}
          </section>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.plan}</h2>
            <Block q={quota} rows={3}>
              {(p) => (
                <>
                  <p className="t2 fs12">{sentence(p.plan)}</p>
                  <dl className="kv" style={{ marginTop: 8 }}>
                    {p.counters.map((c) => (
                      <div key={c.resource} style={{ display: 'contents' }}>
                        <dt>{sentence(c.resource)}</dt>
                        <dd className="num">
                          {count(c.used)} {c.limit !== null && <span className="t3">{en.overview.of(count(c.limit))}</span>}
                        </dd>
                      </div>
                    ))}
                    {usage.data && (
                      <>
                        <dt>{s.storage}</dt>
                        <dd className="num">{bytes(usage.data.storage_bytes)}</dd>
                      </>
                    )}
                  </dl>
                </>
              )}
            </Block>
          </section>
        </aside>
      </div>
      {editing && <SetBudget now={budget.data?.budget?.limit_usd} onClose={() => setEditing(false)} />}
    </>
  );
}

function SetBudget({ now, onClose }: { now?: number; onClose: () => void }) {
  const [limit, setLimit] = useState(now === undefined ? '' : String(now));
  const [period, setPeriod] = useState('monthly');
  const [busy, error, run] = useAction(async () => {
    await send('put', '/api/v1/billing/budget', {}, { limit_usd: Number(limit), period });
    toast(en.resource.saved);
    onClose();
  });
  return (
    <Dialog
      title={s.setBudget}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="budget" label={en.common.save} busy={busy} disabled={!limit} />
        </>
      }
    >
      <form
        id="budget"
        onSubmit={(e) => {
          e.preventDefault();
          void run();
        }}
      >
        <Field label={s.limitUsd} help={s.limitHelp}>
          {(p) => <input {...p} className="in num" type="number" min="0" step="0.01" value={limit} onChange={(e) => setLimit(e.target.value)} />}
        </Field>
        <Field label={s.period}>{(p) => <Select {...p} value={period} onChange={setPeriod} options={['monthly', 'weekly', 'daily'].map((x) => [x, sentence(x)] as const)} />}</Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

function Audit() {
  const [action, setAction] = useState('');
  const list = useList<Schema<'AuditEntry'>>('/api/v1/admin/audit', { query: { action: action || undefined } }, { limit: 100, every: 15_000 });
  const users = useList<{ id: string; name?: string; email?: string }>('/api/v1/users', {}, { limit: 100 });
  const names = useMemo(() => new Map(users.rows.map((u) => [u.id, u.name || u.email || shortId(u.id)])), [users.rows]);
  const [chosen, setChosen] = useState('');
  const sel = list.rows.find((e) => e.entry_id === chosen);
  return (
    <>
      <Head title={s.audit} curl={curlOf('GET', '/api/v1/admin/audit', { query: { limit: 100, action: action || undefined } })} />
      <div className="tb">
        <span className="find-in">
          <Icon name="filter" small />
          <input type="search" value={action} placeholder={s.auditAction} aria-label={s.auditAction} onChange={(e) => setAction(e.target.value)} />
        </span>
      </div>
      {list.error && list.rows.length === 0 ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : list.isLoading ? (
        <Loading />
      ) : list.rows.length === 0 ? (
        <Empty icon="hist" title={s.noAudit} text={s.noAuditText} />
      ) : (
        <div className={sel ? 'spl' : ''}>
          <div>
            <div className="tblw">
              <table className="tbl compact">
                <thead>
                  <tr>
                    <th>{s.what}</th>
                    <th>{s.who}</th>
                    <th>{s.target}</th>
                    <th>{s.address}</th>
                    <th className="r">{s.at}</th>
                  </tr>
                </thead>
                <tbody>
                  {list.rows.map((e) => (
                    <tr key={e.entry_id} className="go" data-selected={e.entry_id === chosen || undefined} onClick={() => setChosen(e.entry_id)}>
                      <td>
                        <button type="button" className="lnk mono b" onClick={() => setChosen(e.entry_id)}>
                          {e.action}
                        </button>
                      </td>
                      <td className="t2">{names.get(e.actor_user_id ?? '') ?? shortId(e.actor_user_id)}</td>
                      <td className="t2">
                        {e.target_type} <span className="mono">{shortId(e.target_id)}</span>
                      </td>
                      <td className="mono t3">{e.ip_address}</td>
                      <td className="r t2">
                        <Time at={e.timestamp} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {list.hasNextPage && (
              <div className="more">
                <Button small kind="quiet" label={s.older} busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()} />
              </div>
            )}
          </div>
          {sel && (
            <aside aria-label={sel.action}>
              <div className="row">
                <h2 className="h2 mono grow">{sel.action}</h2>
                <Button small kind="quiet" icon="copy" label={en.common.copy} onClick={() => void copy(JSON.stringify(sel, null, 2))} />
              </div>
              <Facts value={sel as unknown as Value} />
            </aside>
          )}
        </div>
      )}
    </>
  );
}

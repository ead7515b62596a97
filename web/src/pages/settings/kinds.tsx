import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { may, send, useMe } from '../../api';
import { toast } from '../../bus';
import { count, inWords, shortId } from '../../format';
import { AgentName, memberName } from '../../names';
import { ResourcePage, type Kind } from '../../resource';
import { type Value } from '../../schemaform';
import { en } from '../../strings/en';
import { Button, FormError, Select, Status, Time, sentence, useAction } from '../../ui';

const s = en.settings;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));
const at = (v: unknown) => <Time at={v as string | null} />;

export const members: Kind<Value> = {
  id: 'members',
  title: s.members,
  icon: 'user',
  list: '/api/v1/users',
  idOf: (r) => text(r.id ?? r.user_id),
  nameOf: (r) => memberName(r),
  one: { path: '/api/v1/users/{userId}', param: 'userId' },
  remove: { role: 'admin', text: () => s.removeMember },
  columns: [
    { label: s.name, cell: (r) => memberName(r) },
    { label: s.email, cell: (r) => <span className="t2">{text(r.email)}</span> },
    { label: s.role, cell: (r) => sentence(text(r.role)) },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status)} /> },
    { label: s.lastLogin, cell: (r) => at(r.last_login_at), right: true },
  ],
  empty: { title: s.noMembers, text: s.noMembersText },
  actions: (r) => <MemberActions row={r} />,
  button: <InviteButton />,
};

function InviteButton() {
  const me = useMe();
  const [, go] = useLocation();
  return may(me.data, 'admin') ? <Button kind="primary" icon="plus" label={s.invite} onClick={() => go('/settings/invites?new=1')} /> : null;
}

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

export const invites: Kind<Value> = {
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

export function Keys({ selected, base }: { selected?: string; base: string }) {
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

export const webhooks: Kind<Value> = {
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

export const sensors: Kind<Value> = {
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
    { label: en.agents.agent, cell: (r) => <AgentName id={text(r.agent_id)} /> },
    { label: s.instructions, cell: (r) => text(r.instructions), wide: true },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status)} /> },
    { label: s.triggers, cell: (r) => count(r.triggers as number), right: true },
    { label: s.lastUsed, cell: (r) => at(r.last_triggered_at), right: true },
  ],
  empty: { title: s.noSensors, text: s.noSensorsText },
};

export const schedules: Kind<Value> = {
  id: 'schedules',
  title: s.schedules,
  icon: 'clock',
  list: '/api/v1/schedules',
  idOf: (r) => text(r.agent_id),
  nameOf: (r) => text(r.agent_name) || text(r.cron),
  columns: [
    { label: en.agents.agent, cell: (r) => text(r.agent_name) || <AgentName id={text(r.agent_id)} /> },
    { label: s.cron, cell: (r) => <>{inWords(text(r.cron)) ?? <span className="mono">{text(r.cron)}</span>}</> },
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

export const mcp: Kind<Value> = {
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

export const guardrails: Kind<Value> = {
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

export const targets: Kind<Value> = {
  id: 'targets',
  title: s.notifications,
  icon: 'bell',
  list: '/api/v1/notifications/targets',
  idOf: (r) => text(r.id ?? r.target_id),
  nameOf: (r) => text(r.label) || targetOf(r),
  create: { path: '/api/v1/notifications/targets', role: 'viewer', label: s.newTarget },
  one: { path: '/api/v1/notifications/targets/{targetId}', param: 'targetId', read: false },
  remove: { role: 'viewer' },
  columns: [
    { label: s.name, cell: (r) => text(r.label) || targetOf(r) },
    { label: s.kind, cell: (r) => sentence(text((r.config as Value)?.kind)) },
    { label: s.address, cell: (r) => targetOf(r), wide: true },
    { label: en.agents.status, cell: (r) => <Status of={!r.enabled ? 'disabled' : r.confirmed === false ? 'pending' : 'active'} label={!r.enabled ? s.off : r.confirmed === false ? s.unconfirmed : en.status.active} /> },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noTargets, text: s.noTargetsText },
  actions: (r) => <TargetActions row={r} />,
};

/** Where a target is: an address of mail or of the web. */
function targetOf(r: Value): string {
  const c = (r.config ?? {}) as Value;
  return text(c.url ?? c.address ?? c.email ?? c.channel);
}

function TargetActions({ row }: { row: Value }) {
  const [busy, error, run] = useAction(async () => {
    await send('post', '/api/v1/notifications/targets/{targetId}/test', { path: { targetId: text(row.id) } }, {});
    toast(s.targetTested);
  });
  return (
    <>
      <Button small icon="send" label={s.test} busy={busy} onClick={() => void run()} />
      <FormError error={error} />
    </>
  );
}

export const devices: Kind<Value> = {
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


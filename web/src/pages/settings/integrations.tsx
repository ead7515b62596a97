import { useState } from 'react';
import { curlOf, may, send, useGet, useMe, type Schema } from '../../api';
import { toast } from '../../bus';
import { useDocument, type JsonSchema } from '../../document';
import { count } from '../../format';
import { Icon } from '../../icons';
import { Facts, ResourcePage, type Kind } from '../../resource';
import { Chips, SchemaFields, type Value } from '../../schemaform';
import { connect } from '../../strings/connect';
import { en } from '../../strings/en';
import { Block, Button, CopyCurl, Dialog, Field, FormError, Loading, Status, Time, useAction } from '../../ui';
import { useWorkers } from '../../worktabs';

const s = connect.integrations;
type Integration = Schema<'Integration'>;
type Connector = Schema<'IntegrationCatalogItem'>;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));

export default function Integrations({ selected, base }: { selected?: string; base: string }) {
  const me = useMe();
  const w = useWorkers();
  const admin = may(me.data, 'admin');
  const catalog = useGet<{ connectors: Connector[] }>('/api/v1/integrations/catalog', {}, { staleTime: 300_000 });
  const [making, setMaking] = useState(false);
  const named = (id: unknown) => catalog.data?.connectors.find((c) => c.id === id)?.name ?? text(id);
  const kind: Kind<Value> = {
    id: 'integrations',
    title: s.title,
    icon: 'link',
    list: '/api/v1/integrations',
    idOf: (r) => text(r.id),
    nameOf: (r) => text(r.name),
    one: { path: '/api/v1/integrations/{integrationId}', param: 'integrationId' },
    remove: { role: 'admin', label: s.remove, text: () => s.removeText },
    columns: [
      { label: s.name, cell: (r) => text(r.name) },
      { label: s.service, cell: (r) => named(r.connector_id) },
      { label: s.status, cell: (r) => <Status of={text(r.status)} /> },
      { label: s.health, cell: (r) => <Health of={r as unknown as Integration} /> },
      { label: s.tools, cell: (r) => count(r.tool_count as number), right: true },
      { label: s.lastSync, cell: (r) => <Time at={r.last_sync_at as string | null} />, right: true },
    ],
    empty: { title: s.empty, text: s.emptyText },
    button: admin ? <Button kind="primary" icon="plus" label={s.connect} keys="n" onClick={() => setMaking(true)} /> : null,
    onNew: admin ? () => setMaking(true) : undefined,
    actions: (r) => <Actions row={r as unknown as Integration} connectors={catalog.data?.connectors ?? []} agents={w.refs.agent ?? []} />,
    detail: (r) => <Detail row={r as unknown as Integration} names={w.names} />,
  };
  return (
    <>
      <ResourcePage kind={kind} selected={selected} base={base} />
      {making && <Connect connectors={catalog.data?.connectors ?? []} agents={w.refs.agent ?? []} onClose={() => setMaking(false)} />}
    </>
  );
}

function Health({ of }: { of: Integration }) {
  return of.health.state === 'unknown' ? <span className="t3">–</span> : <Status of={of.health.state} />;
}

/** The fields of a connector as the forms of the document have theirs. */
function schemaOf(c: Connector): JsonSchema {
  const fields = Object.entries(c.config_schema as Record<string, Omit<JsonSchema, 'required'> & { required?: boolean; secret?: boolean }>);
  return {
    type: 'object',
    required: fields.filter(([, f]) => f.required === true).map(([k]) => k),
    properties: Object.fromEntries(
      fields.map(([k, { required: _, secret, ...f }]) => [k, { ...f, ...(secret ? { format: 'password' } : {}), ...(f.type === 'array' && !f.items ? { items: { type: 'string' } } : {}) } as JsonSchema]),
    ),
  };
}

function Connect({ connectors, agents, onClose }: { connectors: Connector[]; agents: { value: string; label: string }[]; onClose: () => void }) {
  const [id, setId] = useState('');
  const c = connectors.find((x) => x.id === id);
  if (c) return <ConnectTo connector={c} agents={agents} onBack={() => setId('')} onClose={onClose} />;
  return (
    <Dialog wide title={s.choose} onClose={onClose}>
      <div className="tpl">
        {connectors.map((x) => (
          <button key={x.id} type="button" onClick={() => setId(x.id)}>
            <b className="b">{x.name}</b>
            <span className="t2 fs12" style={{ display: 'block' }}>{x.description}</span>
          </button>
        ))}
      </div>
    </Dialog>
  );
}

function ConnectTo({ connector: c, agents, onBack, onClose }: { connector: Connector; agents: { value: string; label: string }[]; onBack: () => void; onClose: () => void }) {
  const doc = useDocument();
  const [name, setName] = useState(c.name);
  const [config, setConfig] = useState<Value>({});
  const [users, setUsers] = useState<string[]>([]);
  const body = { connector_id: c.id, name, ...(Object.keys(config).length > 0 ? { config } : {}), ...(users.length > 0 ? { assigned_agent_ids: users } : {}) };
  const [busy, error, run] = useAction(async () => {
    await send('post', '/api/v1/integrations', {}, body);
    toast(s.connected(name));
    onClose();
  });
  const [asking, refused, authorize] = useAction(async () => {
    await startOAuth(c, { name });
    onClose();
  });
  return (
    <Dialog
      title={c.name}
      onClose={onClose}
      footer={
        <>
          <Button kind="quiet" icon="left" label={s.back} onClick={onBack} />
          <CopyCurl small curl={curlOf('POST', '/api/v1/integrations', {}, { ...body, config: {} })} />
          <span className="grow" />
          <Button kind={c.auth_type === 'oauth2' ? undefined : 'primary'} type="submit" form="connect" label={s.create} busy={busy} />
        </>
      }
    >
      {c.auth_type === 'oauth2' && (
        <div className="card pad" style={{ marginBottom: 14 }}>
          <p className="t2">{s.authorizeText(c.name)}</p>
          {(c.required_oauth_scopes ?? []).length > 0 && (
            <p className="fs12 t2" style={{ marginTop: 6, overflowWrap: 'anywhere' }}>
              {s.scopes}: <span className="mono">{c.required_oauth_scopes!.join(', ')}</span>
            </p>
          )}
          <div className="row" style={{ marginTop: 10 }}>
            <Button kind="primary" icon="link" label={s.authorize(c.name)} busy={asking} onClick={() => void authorize()} />
          </div>
          <FormError error={refused} />
        </div>
      )}
      <form id="connect" onSubmit={(e) => (e.preventDefault(), void run())}>
        <Field label={s.name}>{(p) => <input {...p} className="in" required value={name} onChange={(e) => setName(e.target.value)} />}</Field>
        {doc.data ? <SchemaFields doc={doc.data} schema={schemaOf(c)} value={config} onChange={setConfig} error={error} path="config" depth={1} /> : <Loading rows={2} />}
        <Field label={s.agents} optional>
          {(p) => <Chips id={p.id} label={s.agents} value={users} onChange={setUsers} options={agents} />}
        </Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

/** The service's own page asks the person; it comes back to the server, not to this page. */
async function startOAuth(c: Connector, more: { name?: string; integration_id?: string }): Promise<void> {
  const provider = c.oauth_provider || c.id;
  const started = await send<{ auth_url: string }>('post', '/api/v1/integrations/{provider}/oauth/start', { path: { provider } }, { connector_id: c.id, ...more });
  window.open(started.auth_url, '_blank', 'noopener');
  toast(s.opened);
}

function Actions({ row, connectors, agents }: { row: Integration; connectors: Connector[]; agents: { value: string; label: string }[] }) {
  const me = useMe();
  const path = { path: { integrationId: row.id } };
  const [editing, setEditing] = useState(false);
  const [testing, failed, test] = useAction(async () => {
    const r = await send<Schema<'IntegrationTest'>>('post', '/api/v1/integrations/{integrationId}/test', path, {});
    toast(r.ok ? s.works(r.latency_ms) : s.fails(r.message ?? ''), !r.ok);
  });
  const [syncing, refused, sync] = useAction(async () => toast(s.synced((await send<Integration>('post', '/api/v1/integrations/{integrationId}/sync', path, {})).tool_count)));
  const [, , turn] = useAction(async () => {
    await send('patch', '/api/v1/integrations/{integrationId}', path, { enabled: !row.enabled });
    toast(s.switched);
  });
  const c = connectors.find((x) => x.id === row.connector_id);
  if (!may(me.data, 'admin')) return null;
  return (
    <>
      <Button small icon="check" label={s.test} busy={testing} onClick={() => void test()} />
      <Button small icon="refresh" label={s.sync} busy={syncing} onClick={() => void sync()} />
      <Button small icon="edit" label={s.edit} onClick={() => setEditing(true)} />
      <Button small icon={row.enabled ? 'pause' : 'play'} label={row.enabled ? s.disable : s.enable} onClick={() => void turn()} />
      {c?.auth_type === 'oauth2' && <Button small icon="link" label={s.authorize(c.name)} onClick={() => void startOAuth(c, { integration_id: row.id }).catch((e: Error) => toast(e.message, true))} />}
      <FormError error={failed ?? refused} />
      {editing && c && <Change row={row} connector={c} agents={agents} onClose={() => setEditing(false)} />}
    </>
  );
}

function Change({ row, connector, agents, onClose }: { row: Integration; connector: Connector; agents: { value: string; label: string }[]; onClose: () => void }) {
  const doc = useDocument();
  const [name, setName] = useState(row.name);
  const [config, setConfig] = useState<Value>({});
  const [users, setUsers] = useState(row.assigned_agent_ids);
  const schema = schemaOf(connector);
  const [busy, error, run] = useAction(async () => {
    await send('patch', '/api/v1/integrations/{integrationId}', { path: { integrationId: row.id } }, { name, assigned_agent_ids: users, ...(Object.keys(config).length > 0 ? { config } : {}) });
    toast(en.resource.saved);
    onClose();
  });
  const shown = Object.fromEntries(Object.entries(row.config as Value).filter(([k]) => schema.properties?.[k] && schema.properties[k]!.format !== 'password'));
  return (
    <Dialog
      title={row.name}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="integration" label={en.common.save} busy={busy} />
        </>
      }
    >
      <form id="integration" onSubmit={(e) => (e.preventDefault(), void run())}>
        <Field label={s.name}>{(p) => <input {...p} className="in" required value={name} onChange={(e) => setName(e.target.value)} />}</Field>
        <Field label={s.agents}>{(p) => <Chips id={p.id} label={s.agents} value={users} onChange={setUsers} options={agents} />}</Field>
        {doc.data && (
          <SchemaFields
            doc={doc.data}
            schema={{ ...schema, required: [] }}
            value={{ ...shown, ...config }}
            onChange={(v) => setConfig(Object.fromEntries(Object.entries(v).filter(([k, x]) => k in config || x !== shown[k])))}
            error={error}
            path="config"
            depth={1}
          />
        )}
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

function Detail({ row, names }: { row: Integration; names: Map<string, string> }) {
  const tools = useGet<{ items: Schema<'IntegrationTool'>[]; has_more: boolean; total: number }>('/api/v1/integrations/{integrationId}/tools', { path: { integrationId: row.id }, query: { limit: 100 } }, { retry: false });
  const shown = { ...row, assigned_agent_ids: row.assigned_agent_ids.map((a) => names.get(a) ?? a) } as unknown as Value;
  return (
    <>
      {(row.connect_error || row.health.message) && (
        <div className="note bad" style={{ marginTop: 10 }}>
          <Icon name="s-failed" />
          <p>{row.connect_error || row.health.message}</p>
        </div>
      )}
      <Facts value={shown} skip={['tenant_id', 'health', 'connect_error']} />
      <h3 className="lbl" style={{ margin: '14px 0 6px' }}>{s.tools}</h3>
      <Block q={tools} rows={3}>
        {(t) =>
          t.items.length === 0 ? (
            <p className="t2">{s.noTools}</p>
          ) : (
            <ul className="col" style={{ gap: 8 }}>
              {t.items.map((x) => (
                <li key={x.name}>
                  <span className="mono b">{x.name}</span> {x.read_only && <span className="tag">{s.reads}</span>}
                  <p className="t2 fs12">{x.description}</p>
                </li>
              ))}
            </ul>
          )
        }
      </Block>
    </>
  );
}

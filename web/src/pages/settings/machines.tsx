import { Link } from 'wouter';
import { may, send, useGet, useMe, type Schema } from '../../api';
import { toast } from '../../bus';
import { shortId } from '../../format';
import { Facts, ResourcePage, type Kind } from '../../resource';
import type { Value } from '../../schemaform';
import { connect } from '../../strings/connect';
import { Button, Confirm, Status, Time, copy } from '../../ui';
import { useWorkers } from '../../worktabs';
import { useState } from 'react';

const s = connect.machines;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));

/** Machines that carry the runs of agents. Their heartbeats are no changes, so the list is asked for again. */
export default function Machines({ selected, base }: { selected?: string; base: string }) {
  const w = useWorkers();
  const kind: Kind<Value> = {
    id: 'machines',
    title: s.title,
    icon: 'bolt',
    list: '/api/v1/bridge/agents',
    idOf: (r) => text(r.machine_id),
    nameOf: (r) => text(r.machine_name) || text(r.hostname) || text(r.machine_id),
    meanwhile: (rows) => (rows.length > 0 ? 15_000 : false),
    columns: [
      { label: s.name, cell: (r) => text(r.machine_name) || text(r.hostname) || shortId(text(r.machine_id)) },
      { label: s.status, cell: (r) => <Status of={text(r.status)} /> },
      { label: s.agent, cell: (r) => w.names.get(text(r.agent_id)) ?? shortId(text(r.agent_id)) },
      { label: s.app, cell: (r) => [text(r.app), text(r.version)].filter(Boolean).join(' ') },
      { label: s.directory, cell: (r) => text(r.working_directory), wide: true },
      { label: s.heard, cell: (r) => <Time at={text(r.last_heartbeat)} />, right: true },
    ],
    empty: { title: s.empty, text: s.emptyText },
    button: <Button icon="copy" label={s.copyCommand} onClick={() => void copy(s.curl(w.agents[0]?.name ?? 'AGENT'))} />,
    actions: (r) => <Actions row={r} />,
    detail: (r) => (
      <>
        <p style={{ marginTop: 10 }}>
          <Link className="acc" href={`/agents/${text(r.agent_id)}`}>
            {w.names.get(text(r.agent_id)) ?? shortId(text(r.agent_id))}
          </Link>
        </p>
        <Facts value={r} skip={['tenant_id', 'agent_id']} />
      </>
    ),
    after: <Deleted />,
  };
  return <ResourcePage kind={kind} selected={selected} base={base} />;
}

function Actions({ row }: { row: Value }) {
  const me = useMe();
  const [asking, setAsking] = useState(false);
  if (!may(me.data, 'developer', 'agents:write')) return null;
  return (
    <>
      <Button small kind="danger" icon="x" label={s.remove} onClick={() => setAsking(true)} />
      {asking && <Confirm title={`${s.remove}?`} text={s.removeText} action={s.remove} danger onClose={() => setAsking(false)} onConfirm={() => send('post', '/api/v1/bridge/deregister', {}, { machine_id: row.machine_id })} />}
    </>
  );
}

function Deleted() {
  const me = useMe();
  const q = useGet<{ items: Schema<'DeletedMachine'>[] }>('/api/v1/bridge/deleted-machines', {}, { retry: false });
  if (!q.data || q.data.items.length === 0) return null;
  return (
    <section className="sec">
      <h2 style={{ marginBottom: 8 }}>{s.deleted}</h2>
      <ul className="col" style={{ gap: 6 }}>
        {q.data.items.map((m) => (
          <li key={m.machine_id} className="row">
            <span className="grow">{m.machine_name || m.machine_id}</span>
            <Time at={m.deleted_at} className="t3" />
            {may(me.data, 'developer', 'agents:write') && <Button small label={s.forget} onClick={() => void send('delete', '/api/v1/bridge/deleted-machines/{machine}', { path: { machine: m.machine_id } }).then(() => toast(s.forgotten), (e: Error) => toast(e.message, true))} />}
          </li>
        ))}
      </ul>
    </section>
  );
}

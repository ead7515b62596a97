import { useMemo, useState } from 'react';
import { useLocation, useSearch } from 'wouter';
import { curlOf, may, send, useList, useMe, type Schema } from '../api';
import { useCommands } from '../commands';
import { Icon } from '../icons';
import { RunTable } from '../runtable';
import { en } from '../strings/en';
import { Button, CopyCurl, Dialog, Empty, Field, FormError, Head, Select, Tabs, useAction } from '../ui';

const s = en.runs;
const statuses = ['queued', 'running', 'awaiting_approval', 'paused', 'auth_required', 'completed', 'failed', 'timeout', 'cancelled', 'rejected', 'guardrail_blocked'];
const hour = 3_600_000;
const ranges: Record<string, number> = { '1h': hour, '24h': 24 * hour, '7d': 168 * hour };

/** Filters live in the address, so that a view is a link. */
export default function Runs() {
  const [, go] = useLocation();
  const search = useSearch();
  const params = useMemo(() => new URLSearchParams(search), [search]);
  const me = useMe();
  const starts = may(me.data, 'developer', 'runs:create');
  const [starting, setStarting] = useState(false);
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', {}, { limit: 100 });
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(params);
    if (value) next.set(name, value);
    else next.delete(name);
    go(`/runs${next.size ? `?${next}` : ''}`, { replace: true });
  };
  const range = params.get('range') ?? '';
  const filters = useMemo(() => {
    const f: Record<string, unknown> = {};
    for (const name of ['status', 'agent_id', 'error_code', 'parent_run_id', 'root_run_id', 'session_id', 'started_by']) {
      const v = params.get(name);
      if (v) f[name] = v;
    }
    const ms = ranges[params.get('range') ?? ''];
    // To the minute, so that the same list is asked for again.
    if (ms) f.created_after = new Date(Math.floor((Date.now() - ms) / 60_000) * 60_000).toISOString();
    return f;
  }, [params]);
  const status = params.get('status') ?? '';
  const commands = useMemo(() => (starts ? [{ id: 'runs.start', title: s.start, keys: 'n', icon: 'play' as const, run: () => setStarting(true) }] : []), [starts]);
  useCommands(commands);
  const filtered = Object.keys(filters).length > 0;
  const tabs = [
    { id: '', label: s.all, to: '/runs' },
    { id: 'failed', label: en.status.failed, to: '/runs?status=failed' },
    { id: 'running', label: en.status.running, to: '/runs?status=running' },
    { id: 'awaiting_approval', label: en.status.awaiting_approval, to: '/runs?status=awaiting_approval' },
  ];
  return (
    <>
      <Head title={s.title} curl={curlOf('GET', '/api/v1/runs', { query: { fields: 'summary', limit: 50, ...filters } })}>
        {starts && <Button kind="primary" icon="play" label={s.start} keys="n" onClick={() => setStarting(true)} />}
      </Head>
      <Tabs active={status} tabs={tabs} />
      <div className="tb">
        <select className="chipsel" aria-label={s.range} value={range} onChange={(e) => set('range', e.target.value)}>
          <option value="">{s.anyTime}</option>
          {Object.keys(ranges).map((r) => (
            <option key={r} value={r}>
              {s.ranges[r]}
            </option>
          ))}
        </select>
        <select className="chipsel" aria-label={s.status} value={status} onChange={(e) => set('status', e.target.value)}>
          <option value="">{s.anyStatus}</option>
          {statuses.map((x) => (
            <option key={x} value={x}>
              {en.status[x as keyof typeof en.status]}
            </option>
          ))}
        </select>
        <select className="chipsel" aria-label={s.agent} value={params.get('agent_id') ?? ''} onChange={(e) => set('agent_id', e.target.value)}>
          <option value="">{s.anyAgent}</option>
          {agents.rows.map((a) => (
            <option key={a.agent_id} value={a.agent_id}>
              {a.name}
            </option>
          ))}
        </select>
        {['error_code', 'parent_run_id', 'root_run_id', 'session_id'].map((n) =>
          params.get(n) ? (
            <span className="chip" key={n}>
              <span className="t2">{n}</span>
              <b>{params.get(n)}</b>
              <button type="button" className="ib sm" aria-label={en.form.remove(n)} onClick={() => set(n, '')}>
                <Icon name="x" small />
              </button>
            </span>
          ) : null,
        )}
        {filtered && <Button small kind="quiet" label={s.clear} onClick={() => go('/runs')} />}
      </div>
      <RunTable
        filters={filters}
        empty={
          filtered ? (
            <Empty icon="search" title={s.noMatch} text={s.noMatchText}>
              <Button icon="x" label={s.clear} onClick={() => go('/runs')} />
            </Empty>
          ) : (
            <Empty icon="runs" title={s.none} text={s.noneText}>
              {starts && <Button kind="primary" icon="play" label={s.start} onClick={() => setStarting(true)} />}
            </Empty>
          )
        }
      />
      {starting && <StartRun agents={agents.rows} agentId={params.get('agent_id') ?? ''} onClose={() => setStarting(false)} />}
    </>
  );
}

export function StartRun({ agents, agentId, onClose }: { agents: Schema<'Agent'>[]; agentId: string; onClose: () => void }) {
  const [, go] = useLocation();
  const [agent, setAgent] = useState(agentId);
  const [message, setMessage] = useState('');
  const body = { agent_id: agent || agents[0]?.agent_id || '', input: { message } };
  const [busy, error, run] = useAction(async () => {
    const made = await send<Schema<'Run'>>('post', '/api/v1/runs', {}, body);
    onClose();
    go(`/runs/${made.run_id}`);
  });
  return (
    <Dialog
      title={s.start}
      onClose={onClose}
      footer={
        <>
          <CopyCurl small curl={curlOf('POST', '/api/v1/runs', {}, body)} />
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" icon="play" type="submit" form="start-run" label={s.startShort} busy={busy} disabled={!body.agent_id || !message.trim()} />
        </>
      }
    >
      <form
        id="start-run"
        onSubmit={(e) => {
          e.preventDefault();
          if (message.trim()) void run();
        }}
      >
        <Field label={s.agent}>{(p) => <Select {...p} value={body.agent_id} onChange={setAgent} options={agents.map((a) => [a.agent_id, a.name] as const)} />}</Field>
        <Field label={s.message}>{(p) => <textarea {...p} className="in" rows={4} value={message} onChange={(e) => setMessage(e.target.value)} />}</Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

import { useMemo, useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { curlOf, may, queries, send, useGet, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { useCommands } from '../commands';
import { count, percent, usd } from '../format';
import { Icon } from '../icons';
import { useSettled } from '../palette';
import { en } from '../strings/en';
import { templates } from '../templates';
import { Button, CopyCurl, Dialog, Empty, Failure, FormError, Head, Loading, More, Status, Tabs, Time, useAction, useSelection } from '../ui';

const s = en.agents;
type Agent = Schema<'Agent'>;

export default function Agents() {
  const [, go] = useLocation();
  const search = new URLSearchParams(useSearch());
  const [q, setQ] = useState(search.get('q') ?? '');
  const asked = useSettled(q, 200);
  const view = search.get('view') ?? 'all';
  const me = useMe();
  const writes = may(me.data, 'developer', 'agents:write');
  const [making, setMaking] = useState(search.get('new') === '1');
  const params = { query: { q: asked || undefined } };
  const list = useList<Agent>('/api/v1/agents', params, { every: 10_000 });
  const stats = useGet<Schema<'AgentAnalyticsSummary'>>('/api/v1/analytics/agents', { query: { days: 7 } }, { retry: false, every: 30_000, enabled: may(me.data, 'viewer', 'read:analytics') });
  const byAgent = useMemo(() => {
    const map = new Map<string, Schema<'AgentSummary'>>();
    for (const a of stats.data?.agents ?? []) map.set(a.agent_id, a);
    return map;
  }, [stats.data]);
  const rows = list.rows.filter((a) => view !== 'suspended' || a.status === 'suspended');
  const selected = useSelection(rows, (a) => a.agent_id);
  const commands = useMemo(
    () => [
      { id: 'agents.next', title: s.next, keys: 'j', hidden: true, run: () => selected.move(1) },
      { id: 'agents.prev', title: s.previous, keys: 'k', hidden: true, run: () => selected.move(-1) },
      { id: 'agents.open', title: s.openSelected, keys: 'enter', hidden: true, run: () => selected.id && go(`/agents/${selected.id}`) },
      { id: 'agents.try', title: s.trySelected, keys: 't', hidden: true, run: () => selected.id && go(`/chat?agent=${selected.id}`) },
      { id: 'agents.filter', title: s.filter, keys: '/', hidden: true, run: () => document.getElementById('agents-q')?.focus() },
      ...(writes ? [{ id: 'agents.new', title: s.new, keys: 'n', icon: 'plus' as const, run: () => setMaking(true) }] : []),
    ],
    [selected, go, writes],
  );
  useCommands(commands);
  const curl = curlOf('GET', '/api/v1/agents', { query: { limit: 50, ...params.query } });
  return (
    <>
      <Head title={s.title} n={list.data ? `${list.rows.length}${list.hasNextPage ? '+' : ''}` : undefined} curl={list.rows.length > 0 ? curl : undefined}>
        {writes && <Button kind="primary" icon="plus" label={s.new} keys="n" onClick={() => setMaking(true)} />}
      </Head>
      <Tabs active={view} tabs={[{ id: 'all', label: s.all, to: '/agents' }, { id: 'suspended', label: s.suspended, to: '/agents?view=suspended' }, { id: 'marketplace', label: s.marketplace, to: '/marketplace' }]} />
      {(list.rows.length > 0 || asked) && (
        <div className="tb">
          <span className="find-in">
            <Icon name="search" small />
            <input id="agents-q" type="search" value={q} placeholder={s.search} aria-label={s.search} onChange={(e) => setQ(e.target.value)} />
          </span>
          {stats.data && <span className="chip"><span className="t2">{s.runsIn}</span><b>{s.sevenDays}</b></span>}
        </div>
      )}
      {list.error && rows.length === 0 ? (
        <Failure error={list.error} what={s.didNotLoad} retry={() => void list.refetch()} />
      ) : list.isLoading ? (
        <Loading />
      ) : rows.length === 0 ? (
        asked || view !== 'all' ? (
          <Empty icon="search" title={s.none} text={s.noneText}>
            <Button icon="x" label={s.clear} onClick={() => (setQ(''), go('/agents'))} />
          </Empty>
        ) : (
          <FirstAgent writes={writes} onMore={() => setMaking(true)} />
        )
      ) : (
        <>
          <div className="tblw">
          <table className="tbl ag">
            <thead>
              <tr>
                <th>{s.agent}</th>
                <th>{s.status}</th>
                <th>{s.model}</th>
                <th className="r">{s.runs}</th>
                <th className="r">{s.failed}</th>
                <th className="r">{s.cost}</th>
                <th className="r">{s.changed}</th>
                <th className="r">{s.version}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((a) => {
                const f = byAgent.get(a.agent_id);
                const failedRuns = f?.failures ?? 0;
                const runs = f?.runs ?? 0;
                return (
                  <tr key={a.agent_id} className="go" data-selected={a.agent_id === selected.id || undefined} onClick={() => go(`/agents/${a.agent_id}`)}>
                    <td>
                      <div className="row gap3">
                        <Link className="b" href={`/agents/${a.agent_id}`} onClick={(e) => e.stopPropagation()}>
                          {a.name}
                        </Link>
                        <span className="t2 trunc ds">{a.description}</span>
                      </div>
                    </td>
                    <td>
                      <Status of={a.status} />
                    </td>
                    <td className="mono t2">{a.model.model_ref}</td>
                    <td className="r num">{f ? count(runs) : ''}</td>
                    <td className={`r num ${failedRuns > 0 && failedRuns / runs > 0.05 ? 'bad' : 't2'}`}>{f && runs > 0 ? percent(failedRuns, runs) : ''}</td>
                    <td className="r num">{f ? usd(f.cost_usd) : ''}</td>
                    <td className="r t2">
                      <Time at={a.updated_at} />
                    </td>
                    <td className="r mono t3">v{a.version}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
          </div>
          <More q={list} shown={rows.length} what={s.shown} />
        </>
      )}
      {making && <NewAgent onClose={() => setMaking(false)} />}
    </>
  );
}

/** The first agent in three clicks, offline. */
function FirstAgent({ writes, onMore }: { writes: boolean; onMore: () => void }) {
  const [, go] = useLocation();
  const echo = templates[0]!;
  const [busy, error, run] = useAction(async () => {
    const a = await send<Agent>('post', '/api/v1/agents', {}, echo.body);
    toast(s.created(a.name));
    go(`/chat?agent=${a.agent_id}`);
  });
  return (
    <Empty icon="agents" title={s.empty} text={s.emptyText} curl={curlOf('POST', '/api/v1/agents', {}, echo.body)}>
      {writes && <Button kind="primary" icon="bolt" label={s.createEcho} busy={busy} onClick={() => void run()} />}
      {writes && <Button icon="book" label={s.templates} onClick={onMore} />}
      <FormError error={error} />
    </Empty>
  );
}

function NewAgent({ onClose }: { onClose: () => void }) {
  const [, go] = useLocation();
  const [chosen, setChosen] = useState(0);
  const [name, setName] = useState('');
  const models = useGet<Schema<'LlmModels'>>('/api/v1/llm/models', {}, { retry: false });
  const template = templates[chosen]!;
  const [model, setModel] = useState('');
  const body: Record<string, unknown> = { ...template.body, name: name.trim() || template.body.name };
  if (model) body.model = { provider: 'custom', model_ref: model };
  const [busy, error, run] = useAction(async () => {
    const a = await send<Agent>('post', '/api/v1/agents', {}, body);
    queries.setQueryData(['/api/v1/agents/{agentId}', { path: { agentId: a.agent_id } }], a);
    toast(s.created(a.name));
    onClose();
    go(`/agents/${a.agent_id}`);
  });
  return (
    <Dialog
      wide
      title={s.newTitle}
      onClose={onClose}
      footer={
        <>
          <CopyCurl small curl={curlOf('POST', '/api/v1/agents', {}, body)} />
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="new-agent" label={s.create} busy={busy} />
        </>
      }
    >
      <form
        id="new-agent"
        onSubmit={(e) => {
          e.preventDefault();
          void run();
        }}
      >
        <div className="two">
          <div className="fl">
            <label htmlFor="na-name">{s.name}</label>
            <input id="na-name" className="in" autoFocus value={name} placeholder={template.body.name} maxLength={200} onChange={(e) => setName(e.target.value)} />
          </div>
          <div className="fl">
            <label htmlFor="na-model">{s.model}</label>
            <input id="na-model" className="in mono" list="na-models" value={model} placeholder={models.data?.default_model ?? s.defaultModel} onChange={(e) => setModel(e.target.value)} />
            <datalist id="na-models">{models.data?.models.filter((m) => !m.modality || m.modality === 'chat').map((m) => <option key={m.id} value={m.id}>{m.display_name}</option>)}</datalist>
          </div>
        </div>
        <p className="lbl" style={{ marginBottom: 6 }}>{s.startFrom}</p>
        <div className="tpl" role="group" aria-label={s.startFrom}>
          {templates.map((t, i) => (
            <button key={t.id} type="button" aria-pressed={i === chosen} onClick={() => setChosen(i)}>
              <span className="row">
                <Icon name={t.icon} small className="acc" />
                <b className="b">{t.title}</b>
              </span>
              <span className="t2 fs12">{t.text}</span>
            </button>
          ))}
        </div>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

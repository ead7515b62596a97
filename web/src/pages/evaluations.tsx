import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { may, send, useGet, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { bodyOf, useDocument } from '../document';
import { count, shortId, span, usd } from '../format';
import { Icon } from '../icons';
import { ResourcePage, type Kind } from '../resource';
import { SchemaFields, type Refs, type Value } from '../schemaform';
import { en } from '../strings/en';
import { evals as s } from '../strings/evals';
import { Block, Button, Confirm, Dialog, Empty, FormError, Loading, Segmented, Status, Time, sentence, useAction } from '../ui';

type EvalRun = Schema<'EvalRun'>;
type Experiment = Schema<'Experiment'>;
type Section = keyof typeof s.tabs;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));
const over = new Set(['completed', 'failed', 'cancelled']);
const pct = (v: number) => `${(100 * v).toFixed(1)} %`;

/** How good an agent is: evaluations, their datasets and scorers, experiments, and the rollout of a version. */
export default function Evaluations({ agent, section, id }: { agent: Schema<'Agent'>; section: string; id?: string }) {
  const [, go] = useLocation();
  const params = { agentId: agent.agent_id };
  const base = `/agents/${agent.agent_id}/evaluations`;
  const datasets = useList<Schema<'EvalDataset'>>('/api/v1/agents/{agentId}/datasets', { path: params }, { limit: 100 });
  const scorers = useList<Schema<'AgentScorer'>>('/api/v1/agents/{agentId}/scorers', { path: params }, { limit: 100 });
  const versions = Array.from({ length: Number(agent.version) }, (_, i) => String(Number(agent.version) - i)).slice(0, 50);
  const names = new Map(datasets.rows.map((d) => [d.dataset_id, d.name]));
  const refs: Refs = {
    dataset_id: datasets.rows.map((d) => ({ value: d.dataset_id, label: d.name })),
    scorers: [...scorers.rows.map((x) => x.name), 'exact', 'contains', 'numeric', 'tool_calls', 'embedding'].map((v) => ({ value: v, label: v })),
    agent_version: versions.map((v) => ({ value: v, label: `v${v}` })),
    version: versions.map((v) => ({ value: v, label: `v${v}` })),
  };
  const active: Section = section in s.tabs ? (section as Section) : 'evaluations';
  const nav = (
    <div className="tb">
      <Segmented label={s.tab} value={active} onChange={(v) => go(v === 'evaluations' ? base : `${base}/${v}`)} options={(Object.keys(s.tabs) as Section[]).map((x) => [x, s.tabs[x]] as const)} />
    </div>
  );
  const kinds: Record<string, Kind<Value>> = {
    evaluations: {
      id: 'evaluations',
      title: s.tabs.evaluations,
      icon: 'check',
      list: '/api/v1/agents/{agentId}/evaluations',
      params,
      idOf: (r) => text(r.eval_run_id),
      nameOf: (r) => shortId(text(r.eval_run_id)),
      create: { path: '/api/v1/agents/{agentId}/evaluations', role: 'developer', label: s.run, start: datasets.rows[0] ? { dataset_id: datasets.rows[0].dataset_id } : {} },
      refs,
      columns: [
        { label: s.dataset, cell: (r) => names.get(text(r.dataset_id)) ?? shortId(text(r.dataset_id)) },
        { label: s.version, cell: (r) => `v${text(r.agent_version)}` },
        { label: s.status, cell: (r) => <Status of={r.status === 'pending' ? 'queued' : text(r.status)} /> },
        { label: s.passed, cell: (r) => ((r.summary as EvalRun['summary']) ? s.of((r as unknown as EvalRun).summary!.passed, (r as unknown as EvalRun).summary!.total_cases) : s.of(Number(r.ended_cases), Number(r.total_cases))), right: true },
        { label: s.rate, cell: (r) => ((r as unknown as EvalRun).summary ? pct((r as unknown as EvalRun).summary!.pass_rate) : ''), right: true },
        { label: s.when, cell: (r) => <Time at={text(r.created_at)} />, right: true },
      ],
      empty: { title: s.none, text: s.noneText },
    },
    datasets: {
      id: 'datasets',
      title: s.tabs.datasets,
      icon: 'file',
      list: '/api/v1/agents/{agentId}/datasets',
      params,
      idOf: (r) => text(r.dataset_id),
      nameOf: (r) => text(r.name),
      create: { path: '/api/v1/agents/{agentId}/datasets', role: 'developer', label: s.newDataset },
      one: { path: '/api/v1/agents/{agentId}/datasets/{datasetId}', param: 'datasetId', read: false },
      remove: { role: 'developer', text: () => s.removeDataset },
      columns: [
        { label: s.name, cell: (r) => text(r.name) },
        { label: s.cases, cell: (r) => count(r.case_count as number), right: true },
        { label: en.settings.created, cell: (r) => <Time at={text(r.created_at)} />, right: true },
      ],
      empty: { title: s.noDatasets, text: s.noDatasetsText },
      detail: (r) => <Cases agent={agent.agent_id} dataset={text(r.dataset_id)} />,
    },
    experiments: {
      id: 'experiments',
      title: s.tabs.experiments,
      icon: 'compare',
      list: '/api/v1/agents/{agentId}/experiments',
      params,
      idOf: (r) => text(r.experiment_id),
      nameOf: (r) => text(r.name),
      meanwhile: (rows) => (rows.some((r) => !over.has(text(r.status))) ? 3000 : false),
      create: { path: '/api/v1/agents/{agentId}/experiments', role: 'developer', label: s.newExperiment, start: { variants: versions.slice(0, 2).reverse().map((version) => ({ version })), ...(datasets.rows[0] ? { dataset_id: datasets.rows[0].dataset_id } : {}) } },
      refs,
      columns: [
        { label: s.name, cell: (r) => text(r.name) },
        { label: s.status, cell: (r) => <Status of={r.status === 'pending' ? 'queued' : text(r.status)} /> },
        { label: s.result, cell: (r) => text((r as unknown as Experiment).comparison?.conclusion), wide: true },
        { label: s.when, cell: (r) => <Time at={text(r.created_at)} />, right: true },
      ],
      empty: { title: s.noExperiments, text: s.noExperimentsText },
    },
    scorers: {
      id: 'scorers',
      title: s.tabs.scorers,
      icon: 'filter',
      list: '/api/v1/agents/{agentId}/scorers',
      params,
      idOf: (r) => text(r.scorer_id),
      nameOf: (r) => text(r.name),
      create: { path: '/api/v1/agents/{agentId}/scorers', role: 'developer', label: s.newScorer },
      one: { path: '/api/v1/agents/{agentId}/scorers/{scorerId}', param: 'scorerId', read: false },
      remove: { role: 'developer' },
      columns: [
        { label: s.name, cell: (r) => text(r.name) },
        { label: s.type, cell: (r) => sentence(text((r.config as Value)?.type)) },
        { label: en.settings.created, cell: (r) => <Time at={text(r.created_at)} />, right: true },
      ],
      empty: { title: s.noScorers, text: s.noScorersText },
    },
  };
  if (active === 'rollout') {
    return (
      <>
        {nav}
        <Rollout agent={agent} refs={refs} />
      </>
    );
  }
  if (active === 'evaluations' && id) return <OneEvaluation agent={agent.agent_id} id={id} names={names} />;
  if (active === 'experiments' && id) return <OneExperiment agent={agent.agent_id} id={id} />;
  return (
    <>
      {nav}
      <ResourcePage key={active} embedded kind={kinds[active]!} selected={id} base={`${base}/${active}`} />
    </>
  );
}

function useCases(agent: string, dataset: string) {
  return useGet<Schema<'EvalCaseList'>>('/api/v1/agents/{agentId}/datasets/{datasetId}/cases', { path: { agentId: agent, datasetId: dataset }, query: { limit: 100 } }, { retry: false, enabled: dataset !== '', staleTime: 300_000 });
}

const said = (v: unknown): string => (typeof v === 'string' ? v : ((v as { message?: string } | undefined)?.message ?? (v === undefined || v === null ? '' : JSON.stringify(v))));

function Cases({ agent, dataset }: { agent: string; dataset: string }) {
  const q = useCases(agent, dataset);
  return (
    <Block q={q} rows={3}>
      {(c) => (
        <ol className="col" style={{ gap: 8, marginTop: 12 }}>
          {c.cases.map((x) => (
            <li key={x.case_id} className="card pad">
              <p style={{ whiteSpace: 'pre-wrap' }}>{said(x.input)}</p>
              {x.expected_output !== undefined && <p className="t2 mono fs12">{said(x.expected_output)}</p>}
            </li>
          ))}
        </ol>
      )}
    </Block>
  );
}

function Rate({ of }: { of: NonNullable<EvalRun['summary']> }) {
  const i = of.pass_rate_interval;
  return (
    <>
      <div className="row">
        <span className="big">{pct(of.pass_rate)}</span>
        <span className="t2">{s.of(of.passed, of.total_cases)}</span>
        {i && <span className="t3 fs12">{s.interval(pct(i.low), pct(i.high))}</span>}
      </div>
      <div className="meter" style={{ marginTop: 6, maxWidth: 420 }}>
        <i style={{ width: `${100 * of.pass_rate}%` }} />
      </div>
    </>
  );
}

function OneEvaluation({ agent, id, names }: { agent: string; id: string; names: Map<string, string> }) {
  const path = { path: { agentId: agent, evalRunId: id } };
  const me = useMe();
  const [failedOnly, setFailedOnly] = useState(false);
  const q = useGet<EvalRun>('/api/v1/agents/{agentId}/evaluations/{evalRunId}', path, { every: (r) => (r && over.has(r.status) ? false : 2000) });
  const results = useGet<Schema<'EvalResultList'>>('/api/v1/agents/{agentId}/evaluations/{evalRunId}/results', { ...path, query: { limit: 100 } }, { every: () => (q.data && over.has(q.data.status) ? false : 2000) });
  const cases = useCases(agent, q.data?.dataset_id ?? '');
  const r = q.data;
  if (!r) return <Block q={q}>{() => null}</Block>;
  const inputs = new Map((cases.data?.cases ?? []).map((c) => [c.case_id, said(c.input)]));
  const rows = (results.data?.results ?? []).filter((x) => !failedOnly || !x.passed);
  const g = r.summary?.regression;
  return (
    <>
      <section className="sec first">
        <div className="row wrap">
          <Link className="ib sm" href={`/agents/${agent}/evaluations`} aria-label={s.tabs.evaluations}>
            <Icon name="left" />
          </Link>
          <h2 className="grow">
            {names.get(r.dataset_id) ?? shortId(r.dataset_id)} · v{r.agent_version}
          </h2>
          <Status of={r.status === 'pending' ? 'queued' : r.status} />
          {!over.has(r.status) && may(me.data, 'developer', 'agents:write') && <Button small icon="stop" label={s.cancel} onClick={() => void send('post', '/api/v1/agents/{agentId}/evaluations/{evalRunId}/cancel', path, {}).then(() => toast(s.cancelled), (e: Error) => toast(e.message, true))} />}
        </div>
        <div style={{ marginTop: 10 }}>{r.summary ? <Rate of={r.summary} /> : <p className="t2">{s.ended(r.ended_cases, r.total_cases)}</p>}</div>
        {r.summary && (
          <p className="t2 fs12 num" style={{ marginTop: 8 }}>
            {[...Object.entries(r.summary.avg_scores ?? {}).map(([k, v]) => `${k} ${Number(v).toFixed(3)}`), span(r.summary.avg_duration_ms), usd(r.summary.total_cost_usd)].filter(Boolean).join(' · ')}
          </p>
        )}
        {r.error && <p className="bad" style={{ marginTop: 8 }}>{r.error}</p>}
        {r.summary?.regression_detected && g && (
          <div className="note bad" style={{ marginTop: 10 }}>
            <Icon name="s-failed" />
            <div className="grow">
              <b className="b">{s.regression}</b>
              <p className="t2">
                {s.lostGained(g.lost, g.gained)}. {(g.reasons ?? []).join(' ')}
              </p>
            </div>
          </div>
        )}
      </section>
      <section className="sec">
        <div className="row" style={{ marginBottom: 8 }}>
          <h2 className="grow">{s.results}</h2>
          <label className="check">
            <input type="checkbox" checked={failedOnly} onChange={(e) => setFailedOnly(e.target.checked)} />
            {s.failedOnly}
          </label>
        </div>
        <Block q={results} rows={3}>
          {() => (
            <div className="tblw">
              <table className="tbl flush compact">
                <thead>
                  <tr>
                    <th>{s.result}</th>
                    <th>{s.input}</th>
                    <th>{s.output}</th>
                    <th>{s.scores}</th>
                    <th>{s.because}</th>
                    <th className="r">{s.time}</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((x) => (
                    <tr key={x.case_id}>
                      <td>
                        <Link href={x.run_id ? `/runs/${x.run_id}` : '#'}>
                          <Status of={x.passed ? 'passed' : 'failed'} />
                          <span className="vh">: {s.openRun}</span>
                        </Link>
                      </td>
                      <td>
                        <span className="trunc">{inputs.get(x.case_id) ?? shortId(x.case_id)}</span>
                      </td>
                      <td>
                        <span className="trunc t2">{x.error || x.output}</span>
                      </td>
                      <td className="num t2">{Object.entries(x.scores ?? {}).map(([k, v]) => `${k} ${Number(v).toFixed(2)}`).join(', ')}</td>
                      <td>
                        <span className="trunc t2">{Object.values(x.reasons ?? {}).map(String).join(' ')}</span>
                      </td>
                      <td className="r num t2">{span(x.duration_ms)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Block>
      </section>
    </>
  );
}

function OneExperiment({ agent, id }: { agent: string; id: string }) {
  const path = { path: { agentId: agent, experimentId: id } };
  const q = useGet<Experiment>('/api/v1/agents/{agentId}/experiments/{experimentId}', path, { meanwhile: (e) => (e && over.has(e.status) ? false : 2000) });
  if (!q.data) return <Block q={q}>{() => null}</Block>;
  const e = q.data;
  const models = new Map(e.variants.map((v) => [v.eval_run_id, v.model?.model_ref]));
  return (
    <section className="sec first">
      <div className="row wrap">
        <Link className="ib sm" href={`/agents/${agent}/evaluations/experiments`} aria-label={s.tabs.experiments}>
          <Icon name="left" />
        </Link>
        <h2 className="grow">{e.name}</h2>
        <Status of={e.status === 'pending' ? 'queued' : e.status} />
      </div>
      {e.comparison?.conclusion && <p style={{ margin: '10px 0' }}>{e.comparison.conclusion}</p>}
      <div className="tblw">
        <table className="tbl flush">
          <thead>
            <tr>
              <th>{s.variant}</th>
              <th>{s.rate}</th>
              <th className="r">{s.time}</th>
              <th className="r">{s.cost}</th>
              <th className="r">{s.change}</th>
              <th className="r">{s.chance}</th>
            </tr>
          </thead>
          <tbody>
            {(e.comparison?.variants ?? []).map((v) => (
              <tr key={v.eval_run_id}>
                <td>
                  <Link className="b" href={`/agents/${agent}/evaluations/evaluations/${v.eval_run_id}`}>
                    v{v.version} {models.get(v.eval_run_id) ?? ''}
                  </Link>{' '}
                  {v.eval_run_id === e.comparison?.winner_eval_run_id && <span className="tag">{s.winner}</span>}
                </td>
                <td>{v.summary ? <Rate of={v.summary} /> : <Status of={v.status === 'pending' ? 'queued' : v.status} />}</td>
                <td className="r num t2">{span(v.summary?.avg_duration_ms)}</td>
                <td className="r num t2">{usd(v.summary?.total_cost_usd)}</td>
                <td className="r num">{v.against_baseline ? `${v.against_baseline.pass_rate_change > 0 ? '+' : ''}${pct(v.against_baseline.pass_rate_change)}` : s.first}</td>
                <td className="r num t2">{v.against_baseline ? `p = ${v.against_baseline.p_value.toFixed(4)}` : ''}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Rollout({ agent, refs }: { agent: Schema<'Agent'>; refs: Refs }) {
  const path = { path: { agentId: agent.agent_id } };
  const me = useMe();
  const writes = may(me.data, 'developer', 'agents:write');
  const split = useGet<Schema<'AgentTrafficSplit'>>('/api/v1/agents/{agentId}/traffic', path);
  const results = useGet<Schema<'AgentTrafficResults'>>('/api/v1/agents/{agentId}/traffic/results', path, { retry: false, enabled: (split.data?.entries.length ?? 0) > 0 });
  const [asking, setAsking] = useState<'' | 'set' | 'end'>('');
  if (!split.data) return <Block q={split}>{() => null}</Block>;
  const t = split.data;
  const by = new Map((results.data?.versions ?? []).map((v) => [v.version, v]));
  const button = writes ? <Button kind={t.entries.length === 0 ? 'primary' : undefined} icon="branch" label={s.split} onClick={() => setAsking('set')} /> : null;
  return (
    <section className="sec first">
      {t.entries.length === 0 ? (
        <Empty icon="branch" title={s.noRollout} text={s.noRolloutText}>
          {button}
        </Empty>
      ) : (
        <>
          <div className="row wrap" style={{ marginBottom: 10 }}>
            <h2 className="grow">{t.rollout ? s.candidate(t.rollout.candidate_version) : s.tabs.rollout}</h2>
            {t.rollout?.outcome && <Status of={t.rollout.outcome} label={s.outcome[t.rollout.outcome]} />}
            {button}
            {writes && <Button label={s.end} onClick={() => setAsking('end')} />}
          </div>
          {t.rollout?.reason && <p className="t2" style={{ marginBottom: 10 }}>{t.rollout.reason}</p>}
          <table className="tbl flush">
            <thead>
              <tr>
                <th>{s.version}</th>
                <th className="r">{s.weight}</th>
                <th className="r">{s.runs}</th>
                <th className="r">{s.success}</th>
                <th className="r">{s.average}</th>
                <th className="r">{s.chance}</th>
              </tr>
            </thead>
            <tbody>
              {t.entries.map((e) => {
                const v = by.get(e.version);
                return (
                  <tr key={e.version}>
                    <td className="b">v{e.version}</td>
                    <td className="r num">{e.weight} %</td>
                    <td className="r num t2">{v ? count(v.runs) : ''}</td>
                    <td className="r num t2">{v && v.runs > 0 ? pct(v.success_rate) : ''}</td>
                    <td className="r num t2">{v && v.runs > 0 ? span(v.avg_duration_ms) : ''}</td>
                    <td className="r num t2">{v && v.p_value !== null && v.p_value !== undefined ? `p = ${v.p_value.toFixed(4)}` : ''}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </>
      )}
      {asking === 'set' && <SetSplit agent={agent} now={t} refs={refs} onClose={() => setAsking('')} />}
      {asking === 'end' && (
        <Confirm
          title={`${s.end}?`}
          text={s.ended2}
          action={s.end}
          onClose={() => setAsking('')}
          onConfirm={async () => {
            await send('delete', '/api/v1/agents/{agentId}/traffic', path);
            toast(s.ended2);
          }}
        />
      )}
    </section>
  );
}

function SetSplit({ agent, now, refs, onClose }: { agent: Schema<'Agent'>; now: Schema<'AgentTrafficSplit'>; refs: Refs; onClose: () => void }) {
  const doc = useDocument();
  const newest = Number(agent.version);
  const [value, setValue] = useState<Value>(() => ({ entries: now.entries.length > 0 ? now.entries : newest > 1 ? [{ version: newest - 1, weight: 90 }, { version: newest, weight: 10 }] : [{ version: newest, weight: 100 }] }));
  const [busy, error, run] = useAction(async () => {
    await send('put', '/api/v1/agents/{agentId}/traffic', { path: { agentId: agent.agent_id } }, value);
    toast(s.splitSaved);
    onClose();
  });
  return (
    <Dialog
      title={s.split}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="split" label={en.common.save} busy={busy} />
        </>
      }
    >
      {doc.data ? (
        <form id="split" onSubmit={(e) => (e.preventDefault(), void run())}>
          <SchemaFields doc={doc.data} schema={bodyOf(doc.data, '/api/v1/agents/{agentId}/traffic', 'put')} value={value} onChange={setValue} error={error} refs={refs} depth={1} />
          <FormError error={error} />
        </form>
      ) : (
        <Loading rows={3} />
      )}
    </Dialog>
  );
}

import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { curlOf, useGet, useList, type Schema } from '../api';
import { lineDiff } from '../diff';
import { count, shortId, span, usd } from '../format';
import { Icon } from '../icons';
import { useAgentNames } from '../names';
import { runMs } from '../runtable';
import { compare as s } from '../strings/compare';
import { en } from '../strings/en';
import { Block, Button, Dialog, Field, Head, Status, Time, sentence } from '../ui';

type Run = Schema<'Run'>;
type Pair = Schema<'RunStepPair'>;

/** Two runs side by side: how they ended, what they cost, and where they part. */
export default function Compare({ id, other }: { id: string; other: string }) {
  const [, go] = useLocation();
  const [differing, setDiffering] = useState(false);
  const params = { path: { runId: id }, query: { with: other } };
  const q = useGet<Schema<'RunDiff'>>('/api/v1/runs/{runId}/diff', params, { retry: false });
  const a = useGet<Run>('/api/v1/runs/{runId}', { path: { runId: id } });
  const names = useAgentNames();
  const b = useGet<Run>('/api/v1/runs/{runId}', { path: { runId: other } });
  return (
    <>
      <Head
        title={s.title}
        crumbs={[
          { label: en.runs.title, to: '/runs' },
          { label: shortId(id), to: `/runs/${id}` },
        ]}
        curl={curlOf('GET', '/api/v1/runs/{runId}/diff', params)}
      >
        <Button icon="updown" label={s.swap} onClick={() => go(`/runs/${other}/compare/${id}`, { replace: true })} />
      </Head>
      <Block q={q}>
        {(d) => (
          <>
            <div className="note exp">
              <Icon name={d.same ? 's-completed' : 'compare'} />
              <p>{d.same || d.first_difference === null ? s.same : s.differ(d.steps[d.first_difference]?.from?.seq ?? d.steps[d.first_difference]?.to?.seq ?? d.first_difference + 1)}</p>
            </div>
            <section className="sec">
              <div className="tblw">
                <table className="tbl flush">
                  <thead>
                    <tr>
                      <th>
                        <span className="vh">{s.title}</span>
                      </th>
                      <th>{s.run}</th>
                      <th>{s.other}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {rowsOf(d, a.data, b.data, names).map(([label, left, right, same]) => (
                      <tr key={label}>
                        <th scope="row">
                          {!same && <span aria-hidden="true">≠ </span>}
                          {label}
                        </th>
                        <td>{left}</td>
                        <td>{right}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            </section>
            <section className="sec">
              <h2 style={{ marginBottom: 8 }}>{s.answer}</h2>
              {(d.from?.text ?? '') === (d.to?.text ?? '') ? <p className="t2">{s.sameAnswer}</p> : <Lines a={d.from?.text ?? ''} b={d.to?.text ?? ''} />}
            </section>
            <section className="sec">
              <div className="row" style={{ marginBottom: 8 }}>
                <h2 className="grow">{s.steps}</h2>
                <label className="check">
                  <input type="checkbox" checked={differing} onChange={(e) => setDiffering(e.target.checked)} />
                  {s.onlyDiffering}
                </label>
              </div>
              {differing && d.steps.every((p) => p.change === 'same') ? <p className="t2">{s.nothing(d.steps.length)}</p> : <Steps pairs={d.steps.filter((p) => !differing || p.change !== 'same')} />}
              {d.truncated && <p className="t3">{s.cut}</p>}
            </section>
          </>
        )}
      </Block>
    </>
  );
}

function rowsOf(d: Schema<'RunDiff'>, a: Run | undefined, b: Run | undefined, names: Map<string, string>): [string, React.ReactNode, React.ReactNode, boolean][] {
  const tokens = (r: Run | undefined) => (r ? count(r.metrics.input_tokens + r.metrics.output_tokens) : '');
  const version = (x: Schema<'RunDiffSide'> | undefined, r: Run | undefined) => [r?.agent_name ?? names.get(x?.agent_id ?? '') ?? shortId(x?.agent_id ?? ''), x?.agent_version ? `v${x.agent_version}` : ''].filter(Boolean).join(' ');
  const plain: [string, string, string][] = [
    [s.agent, version(d.from, a), version(d.to, b)],
    [s.time, a ? span(runMs(a)) : '', b ? span(runMs(b)) : ''],
    [s.steps, count(a?.metrics.steps_count), count(b?.metrics.steps_count)],
    [s.tokens, tokens(a), tokens(b)],
    [s.cost, usd(a?.metrics.total_cost_usd), usd(b?.metrics.total_cost_usd)],
  ];
  return [
    [s.run, <Link key="a" className="acc mono" href={`/runs/${d.run_id}`}>{shortId(d.run_id)}</Link>, <Link key="b" className="acc mono" href={`/runs/${d.with_run_id}`}>{shortId(d.with_run_id)}</Link>, true],
    [s.status, <Status key="a" of={d.from?.status ?? ''} />, <Status key="b" of={d.to?.status ?? ''} />, d.from?.status === d.to?.status],
    ...plain.map(([l, x, y]) => [l, x, y, x === y] as [string, React.ReactNode, React.ReactNode, boolean]),
    [s.started, <Time key="a" at={a?.started_at} />, <Time key="b" at={b?.started_at} />, true],
  ];
}

function Lines({ a, b }: { a: string; b: string }) {
  return (
    <pre className="code" tabIndex={0} style={{ whiteSpace: 'pre-wrap' }}>
      {lineDiff(a.split('\n'), b.split('\n')).map((l, i) => (
        <span key={i} className={l.kind === '-' ? 'del' : l.kind === '+' ? 'ins' : ''}>
          {l.kind} {l.text}
          {'\n'}
        </span>
      ))}
    </pre>
  );
}

function Steps({ pairs }: { pairs: Pair[] }) {
  return (
    <div className="tblw">
      <table className="tbl flush compact pairs">
        <thead>
          <tr>
            <th>{s.step}</th>
            <th>{s.run}</th>
            <th>{s.other}</th>
            <th>{s.differs}</th>
          </tr>
        </thead>
        <tbody>
          {pairs.map((p, i) => (
            <tr key={i} data-differs={p.change === 'same' ? undefined : 'true'}>
              <td className="num">
                {p.change !== 'same' && <span aria-hidden="true">≠ </span>}
                {p.from?.seq ?? p.to?.seq}
              </td>
              <td>
                <Step of={p.from} />
              </td>
              <td>
                <Step of={p.to} />
              </td>
              <td className="t2">{p.change === 'same' ? s.equal : p.change === 'removed' ? s.onlyHere : p.change === 'added' ? s.onlyThere : (p.differs ?? []).map((x) => sentence(x)).join(', ')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Step({ of }: { of?: Schema<'RunStep'> }) {
  if (!of) return <span className="t3">–</span>;
  return (
    <>
      <Link className="b" href={`/runs/${of.run_id}`}>
        <Status of={of.status} label={`${en.run.kinds[of.type] ?? sentence(of.type)} ${of.name ?? ''}`} />
      </Link>
      <p className="t2 fs12" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{of.output_preview || of.input_preview}</p>
    </>
  );
}

/** Asks which run another one is compared with: the one it came of first, then others of its agent. */
export function ChooseRun({ run, onClose }: { run: Run; onClose: () => void }) {
  const [, go] = useLocation();
  const [id, setId] = useState('');
  const list = useList<Run>('/api/v1/runs', { query: { fields: 'summary', agent_id: run.agent_id } }, { limit: 20 });
  const origin = run.forked_from_run_id ?? run.continues_run_id;
  const rows = list.rows.filter((r) => r.run_id !== run.run_id).sort((x, y) => Number(y.run_id === origin) - Number(x.run_id === origin));
  const open = (other: string) => (onClose(), go(`/runs/${run.run_id}/compare/${other.trim()}`));
  return (
    <Dialog
      title={s.choose}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="compare" label={s.show} disabled={!id.trim()} />
        </>
      }
    >
      <form id="compare" onSubmit={(e) => (e.preventDefault(), open(id))}>
        {rows.length === 0 && !list.isLoading && <p className="t2">{s.none}</p>}
        <ul className="col" style={{ gap: 2, marginBottom: 12 }}>
          {rows.slice(0, 12).map((r) => (
            <li key={r.run_id}>
              <button type="button" className="nav" onClick={() => open(r.run_id)}>
                <Status of={r.status} bare />
                <span className="trunc grow">{r.input_preview || shortId(r.run_id)}</span>
                <Time at={r.created_at} className="t3 fs12" />
              </button>
            </li>
          ))}
        </ul>
        <Field label={s.id} optional>{(p) => <input {...p} className="in mono" value={id} onChange={(e) => setId(e.target.value)} />}</Field>
      </form>
    </Dialog>
  );
}

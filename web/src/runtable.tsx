import { useMemo } from 'react';
import { Link, useLocation } from 'wouter';
import { useList, type Schema } from './api';
import { useCommands } from './commands';
import { count, span, usd } from './format';
import { en } from './strings/en';
import { Empty, Failure, Loading, More, Status, Time, runStatus, useSelection } from './ui';

const s = en.runs;
type Run = Schema<'Run'>;

export function runMs(r: Run): number | null {
  if (!r.started_at) return null;
  return (r.completed_at ? Date.parse(r.completed_at) : Date.now()) - Date.parse(r.started_at);
}

/** The runs that filters leave, newest first. */
export function RunTable({ filters, empty }: { filters: Record<string, unknown>; empty?: React.ReactNode }) {
  const [, go] = useLocation();
  const list = useList<Run>('/api/v1/runs', { query: { fields: 'summary', ...filters } }, { every: 4000 });
  const rows = list.rows;
  const selected = useSelection(rows, (r) => r.run_id);
  const commands = useMemo(
    () => [
      { id: 'runs.next', title: s.next, keys: 'j', hidden: true, run: () => selected.move(1) },
      { id: 'runs.prev', title: s.previous, keys: 'k', hidden: true, run: () => selected.move(-1) },
      { id: 'runs.open', title: s.openSelected, keys: 'enter', hidden: true, run: () => selected.id && go(`/runs/${selected.id}`) },
    ],
    [selected, go],
  );
  useCommands(commands);
  if (list.error && rows.length === 0) return <Failure error={list.error} what={s.didNotLoad} retry={() => void list.refetch()} />;
  if (list.isLoading) return <Loading rows={8} />;
  if (rows.length === 0) return <>{empty ?? <Empty icon="runs" title={s.none} text={s.noneText} />}</>;
  return (
    <>
      <div className="tblw">
      <table className="tbl rn">
        <thead>
          <tr>
            <th>{s.status}</th>
            <th>{s.agent}</th>
            <th>{s.message}</th>
            <th className="r">{s.steps}</th>
            <th className="r">{s.time}</th>
            <th className="r">{s.tokens}</th>
            <th className="r">{s.cost}</th>
            <th className="r">{s.started}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => {
            const st = runStatus(r);
            return (
              <tr key={r.run_id} className="go" data-selected={r.run_id === selected.id || undefined} onClick={() => go(`/runs/${r.run_id}`)}>
                <td>
                  <Status of={st.of} label={st.label} />
                </td>
                <td className="b who">
                  <span className="trunc">{r.agent_name}</span>
                </td>
                <td className="wide">
                  <Link className="trunc t2" href={`/runs/${r.run_id}`} onClick={(e) => e.stopPropagation()}>
                    {r.input_preview || r.run_id}
                  </Link>
                </td>
                <td className="r num t2">{count(r.metrics.steps_count)}</td>
                <td className="r num t2">{span(runMs(r))}</td>
                <td className="r num t2">{count(r.metrics.input_tokens + r.metrics.output_tokens)}</td>
                <td className="r num t2">{usd(r.metrics.total_cost_usd)}</td>
                <td className="r t3">
                  <Time at={r.created_at} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      </div>
      <More q={list} shown={rows.length} what={s.shown} />
    </>
  );
}

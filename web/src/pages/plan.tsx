import { useMemo, useState } from 'react';
import { Link } from 'wouter';
import { send, type Schema } from '../api';
import { toast } from '../bus';
import { bodyOf, useDocument } from '../document';
import { shortId, usd } from '../format';
import { SchemaFields, type Refs, type Value } from '../schemaform';
import { en } from '../strings/en';
import { work } from '../strings/work';
import { Button, Dialog, FormError, IconButton, Loading, Status, Time, sentence, useAction } from '../ui';

const s = work.plan;
export type Objective = Schema<'Objective'>;

interface PlanProps {
  objectives: Objective[];
  names: Map<string, string>;
  refs: Refs;
  /** Where an objective is changed, if it can be. */
  change?: { path: string; params: Record<string, string> };
}

/** A plan as a graph of what waits for what, and as a table that says the same. */
export function Plan({ objectives, names, refs, change }: PlanProps) {
  const [chosen, choose] = useState('');
  const rows = useMemo(() => inOrder(objectives), [objectives]);
  if (objectives.length === 0) return <p className="t2">{s.none}</p>;
  const one = objectives.find((o) => o.objective_id === chosen);
  const titles = new Map(objectives.map((o, i) => [o.objective_id, `${i + 1}`]));
  return (
    <>
      {objectives.length > 1 && objectives.length <= 60 && <Graph objectives={objectives} chosen={chosen} onChoose={choose} />}
      <div className="tblw">
        <table className="tbl flush">
          <thead>
            <tr>
              <th>{s.objective}</th>
              <th>{s.status}</th>
              <th>{s.who}</th>
              <th>{s.after}</th>
              <th className="r">{s.strikes}</th>
              <th className="r">{s.spent}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ o, depth }) => (
              <tr key={o.objective_id} className="go" data-selected={o.objective_id === chosen || undefined} onClick={() => choose(o.objective_id === chosen ? '' : o.objective_id)}>
                <td className="wide">
                  <span className="row" style={{ paddingLeft: depth * 18 }}>
                    <span className="t3 num">{titles.get(o.objective_id)}</span>
                    <button type="button" className="lnk b trunc" aria-expanded={o.objective_id === chosen} onClick={(e) => (e.stopPropagation(), choose(o.objective_id === chosen ? '' : o.objective_id))}>
                      {o.title}
                    </button>
                  </span>
                </td>
                <td>
                  <Status of={o.status === 'pending' ? 'queued' : o.status} label={sentence(o.status)} /> {o.verified && <span className="t3 fs12">{s.verified}</span>}
                </td>
                <td className="t2">{who(o, names)}</td>
                <td className="num t2">{o.dependencies.map((d) => titles.get(d) ?? shortId(d)).join(', ')}</td>
                <td className="r num t2">{o.strikes_used || ''}</td>
                <td className="r num t2">{spent(o)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {one && <Details key={one.objective_id} o={one} names={names} refs={refs} change={change} onClose={() => choose('')} />}
    </>
  );
}

function who(o: Objective, names: Map<string, string>): string {
  const id = o.assigned_team_id ?? o.assigned_agent_id;
  return id ? (names.get(id) ?? shortId(id)) : s.first;
}

function spent(o: Objective): string {
  const cost = usd(o.budget.spent_cost_usd);
  if (o.budget.max_cost_usd !== null) return s.of(cost, usd(o.budget.max_cost_usd));
  if (o.budget.max_runs !== null) return s.of(String(o.budget.spent_runs), s.runs(o.budget.max_runs));
  return o.budget.spent_runs > 0 ? cost : '';
}

/** What is a part of another stands below it. */
function inOrder(all: Objective[]): { o: Objective; depth: number }[] {
  const ids = new Set(all.map((o) => o.objective_id));
  const out: { o: Objective; depth: number }[] = [];
  const walk = (parent: string | null, depth: number) => {
    for (const o of all) {
      const mine = o.parent_id && ids.has(o.parent_id) ? o.parent_id : null;
      if (mine !== parent || depth > 20) continue;
      out.push({ o, depth });
      walk(o.objective_id, depth + 1);
    }
  };
  walk(null, 0);
  return out;
}

const [width, height, gapX, gapY] = [168, 32, 44, 12];

/** Columns by what has to be completed before. */
function Graph({ objectives, chosen, onChoose }: { objectives: Objective[]; chosen: string; onChoose: (id: string) => void }) {
  const { at, w, h } = useMemo(() => {
    const by = new Map(objectives.map((o) => [o.objective_id, o]));
    const level = new Map<string, number>();
    const of = (id: string, trail: string[]): number => {
      const known = level.get(id);
      if (known !== undefined) return known;
      const before = (by.get(id)?.dependencies ?? []).filter((d) => by.has(d) && !trail.includes(d));
      const l = before.length === 0 ? 0 : 1 + Math.max(...before.map((d) => of(d, [...trail, id])));
      level.set(id, l);
      return l;
    };
    const columns: string[][] = [];
    for (const o of objectives) (columns[of(o.objective_id, [])] ??= []).push(o.objective_id);
    const places = new Map<string, [number, number]>();
    const tallest = Math.max(...columns.map((c) => c?.length ?? 0));
    columns.forEach((c, x) => c?.forEach((id, y) => places.set(id, [x * (width + gapX), (y + (tallest - c.length) / 2) * (height + gapY)])));
    return { at: places, w: columns.length * (width + gapX) - gapX, h: tallest * (height + gapY) - gapY };
  }, [objectives]);
  const done = objectives.filter((o) => o.status === 'completed').length;
  return (
    <div className="planw" tabIndex={0} role="region" aria-label={s.graph(objectives.length, done)}>
      <svg className="plan" width={w + 4} height={h + 4} viewBox={`-2 -2 ${w + 4} ${h + 4}`} role="img" aria-label={s.graph(objectives.length, done)}>
        {objectives.flatMap((o) =>
          o.dependencies.map((d) => {
            const [p, q] = [at.get(d), at.get(o.objective_id)];
            if (!p || !q) return null;
            const [x1, y1, x2, y2] = [p[0] + width, p[1] + height / 2, q[0], q[1] + height / 2];
            return <path key={`${d}${o.objective_id}`} d={`M${x1} ${y1} C${x1 + gapX / 2} ${y1} ${x2 - gapX / 2} ${y2} ${x2} ${y2}`} />;
          }),
        )}
        {objectives.map((o) => {
          const [x, y] = at.get(o.objective_id)!;
          return (
            <g key={o.objective_id} className={`${o.status} ${o.objective_id === chosen ? 'sel' : ''}`} onClick={() => onChoose(o.objective_id === chosen ? '' : o.objective_id)}>
              <title>{`${o.title}: ${sentence(o.status)}`}</title>
              <rect x={x} y={y} width={width} height={height} rx="6" />
              <text x={x + 10} y={y + 20}>
                {o.title.length > 24 ? `${o.title.slice(0, 23)}…` : o.title}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function Details({ o, names, refs, change, onClose }: { o: Objective; names: Map<string, string>; refs: Refs; change: PlanProps['change']; onClose: () => void }) {
  const [editing, setEditing] = useState(false);
  const over = ['completed', 'failed', 'skipped'].includes(o.status);
  const facts: [string, React.ReactNode][] = [
    [s.status, sentence(o.status)],
    [s.who, o.assigned_team_id ? <Link className="acc" href={`/teams/${o.assigned_team_id}`}>{who(o, names)}</Link> : o.assigned_agent_id ? <Link className="acc" href={`/agents/${o.assigned_agent_id}`}>{who(o, names)}</Link> : who(o, names)],
    [s.priority, sentence(o.priority)],
    [s.spent, `${usd(o.budget.spent_cost_usd)}, ${s.runs(o.budget.spent_runs)}`],
    [work.mission.deadline, o.deadline ? <Time at={o.deadline} /> : ''],
    [s.gaveUp, o.abort_reason ? sentence(o.abort_reason) : ''],
  ];
  return (
    <section className="card pad" aria-label={o.title} style={{ marginTop: 14 }}>
      <div className="row">
        <h3 className="h2 grow">{o.title}</h3>
        {change && !over && <Button small icon="edit" label={s.change} onClick={() => setEditing(true)} />}
        <IconButton small icon="x" label={en.common.close} onClick={onClose} />
      </div>
      {o.description && <p className="t2" style={{ marginTop: 4, whiteSpace: 'pre-wrap' }}>{o.description}</p>}
      <dl className="kv" style={{ marginTop: 10 }}>
        {facts
          .filter(([, v]) => v !== '')
          .map(([k, v]) => (
            <div key={k} style={{ display: 'contents' }}>
              <dt>{k}</dt>
              <dd>{v}</dd>
            </div>
          ))}
      </dl>
      <Lines title={s.criteria} lines={o.success_criteria} />
      {(o.result ?? o.output_summary) && (
        <>
          <h4 className="lbl" style={{ margin: '12px 0 4px' }}>{s.result}</h4>
          <p style={{ whiteSpace: 'pre-wrap', maxHeight: 260, overflow: 'auto' }} tabIndex={0}>{o.result ?? o.output_summary}</p>
        </>
      )}
      <Lines title={s.notes} lines={o.progress_notes.map(String)} />
      {editing && change && <Change o={o} refs={refs} change={change} onClose={() => setEditing(false)} />}
    </section>
  );
}

function Lines({ title, lines }: { title: string; lines: string[] }) {
  if (lines.length === 0) return null;
  return (
    <>
      <h4 className="lbl" style={{ margin: '12px 0 4px' }}>{title}</h4>
      <ul className="dots">
        {lines.map((l, i) => (
          <li key={i}>{l}</li>
        ))}
      </ul>
    </>
  );
}

function Change({ o, refs, change, onClose }: { o: Objective; refs: Refs; change: { path: string; params: Record<string, string> }; onClose: () => void }) {
  const doc = useDocument();
  const [value, setValue] = useState<Value>({});
  const start: Value = { title: o.title, description: o.description, priority: o.priority, success_criteria: o.success_criteria, assigned_agent_id: o.assigned_agent_id ?? '', ...value };
  const [busy, error, run] = useAction(async () => {
    await send('patch', change.path, { path: { ...change.params, objectiveId: o.objective_id } }, value);
    toast(s.changed);
    onClose();
  });
  return (
    <Dialog
      title={o.title}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="objective" label={en.common.save} busy={busy} disabled={Object.keys(value).length === 0} />
        </>
      }
    >
      {doc.data ? (
        <form id="objective" onSubmit={(e) => (e.preventDefault(), void run())}>
          <SchemaFields
            doc={doc.data}
            schema={bodyOf(doc.data, change.path, 'patch')}
            value={start}
            onChange={(v) => setValue(Object.fromEntries(Object.entries(v).filter(([k, x]) => k in value || JSON.stringify(x) !== JSON.stringify(start[k]))))}
            error={error}
            refs={refs}
            depth={1}
          />
          <FormError error={error} />
        </form>
      ) : (
        <Loading rows={3} />
      )}
    </Dialog>
  );
}

import { Link } from 'wouter';
import type { Schema } from '../api';
import { outcome as s } from '../strings/outcome';
import { Status } from '../ui';

const shapes: Record<string, string> = { open: 'running', reached: 'completed', not_reached: 'failed', not_judged: 'failed' };

/** A score with two digits. */
const digits = (score: number) => score.toFixed(2);

/** What became of the outcome that a run was to reach: each criterion by iteration, and what
 * the judge says of the last result. */
export function Outcome({ of, runId }: { of: Schema<'RunOutcome'>; runId: string }) {
  const verdicts = of.verdicts ?? [];
  const criteria = of.rubric?.criteria ?? [];
  const least = digits(of.rubric?.min_score ?? 0.8);
  const last = verdicts.at(-1);
  const best = Math.max(...verdicts.map((v) => v.score));
  return (
    <div className="io">
      <section className="sec" style={{ borderTop: 0 }}>
        <div className="row wrap" style={{ marginBottom: 8 }}>
          <Status of={shapes[of.status] ?? of.status} label={s.status[of.status]} />
          <span className="t2">{of.score === null ? s.needed(least) : s.best(digits(of.score), least)}</span>
          <span className="t3">{s.judgedAtMost(of.rubric?.max_iterations ?? 3)}</span>
          {of.rubric?.judge_model && <span className="t3">{s.by(of.rubric.judge_model)}</span>}
        </div>
        <div className="tblw">
          <table className="tbl flush">
            <thead>
              <tr>
                <th scope="col">{s.criterion}</th>
                <th scope="col" className="r">
                  {s.weight}
                </th>
                {verdicts.map((v) => (
                  <th key={v.iteration} scope="col" className="r">
                    <Link href={`/runs/${runId}?step=${v.step_id}`}>{s.iteration(v.iteration)}</Link>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {criteria.map((c, i) => (
                <tr key={c.name}>
                  <td>
                    <span className="b">{c.name}</span>
                    {c.description && <p className="t2 fs12">{c.description}</p>}
                  </td>
                  <td className="r num t2">{c.weight ?? 1}</td>
                  {verdicts.map((v) => (
                    <td key={v.iteration} className="r num">
                      {v.criteria[i] ? digits(v.criteria[i].score) : ''}
                    </td>
                  ))}
                </tr>
              ))}
              {last && (
                <tr>
                  <td className="b">{s.total}</td>
                  <td />
                  {verdicts.map((v) => (
                    <td key={v.iteration} className={`r num ${v.score === best ? 'b' : ''}`}>
                      {digits(v.score)}
                    </td>
                  ))}
                </tr>
              )}
            </tbody>
          </table>
        </div>
        {!last && <p className="t3">{s.none}</p>}
      </section>
      {last && (
        <section className="sec">
          <h2 style={{ marginBottom: 8 }}>{s.reasons}</h2>
          <Scores of={last.criteria} />
        </section>
      )}
    </div>
  );
}

function Scores({ of }: { of: Schema<'OutcomeScore'>[] }) {
  return (
    <dl className="argl">
      {of.map((c) => (
        <div key={c.name} style={{ display: 'contents' }}>
          <dt>{c.name}</dt>
          <dd>
            <span className="num">{digits(c.score)}</span> <span className="t2">{c.reason}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** What a step of a judge says. */
export function Verdict({ of }: { of: { score: number; reached: boolean; criteria: Schema<'OutcomeScore'>[]; feedback?: string; model?: string } }) {
  return (
    <div className="col" style={{ gap: 8 }}>
      <p className="b">{s.score(digits(of.score), of.reached)}</p>
      <Scores of={of.criteria} />
      {of.feedback && (
        <>
          <h3 className="lbl">{s.feedback}</h3>
          <p style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{of.feedback}</p>
        </>
      )}
      {of.model && <p className="t3 fs12 mono">{of.model}</p>}
    </div>
  );
}

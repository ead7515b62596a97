import type { Schema } from './api';
import { en } from './strings/en';

type Run = Schema<'Run'>;
export type Action = 'continue' | 'fork' | 'agent' | 'governance' | 'budget' | 'guardrails' | 'again';

interface Explanation {
  title: string;
  text: string;
  actions: Action[];
  tone: 'bad' | 'warn' | '';
}

/** What ended a run, as a sentence with the next step as a button. A test compares the codes
 * with those of docs/errors.md. */
const byCode: Record<string, { actions: Action[]; tone: 'bad' | 'warn' | '' }> = {
  model_error: { actions: ['continue', 'fork', 'agent'], tone: 'bad' },
  model_rate_limited: { actions: ['continue', 'fork'], tone: 'bad' },
  provider_auth_failed: { actions: ['agent', 'continue'], tone: 'bad' },
  provider_not_configured: { actions: ['agent', 'continue'], tone: 'bad' },
  model_provider_missing: { actions: ['agent', 'continue'], tone: 'bad' },
  step_crashed: { actions: ['continue', 'fork'], tone: 'bad' },
  agent_deleted: { actions: [], tone: 'bad' },
  policy_blocked: { actions: ['governance'], tone: 'warn' },
  guardrail_blocked: { actions: ['guardrails', 'fork'], tone: 'warn' },
  approval_rejected: { actions: ['fork'], tone: '' },
  approval_expired: { actions: ['continue', 'fork'], tone: 'warn' },
  run_input_timeout: { actions: ['continue', 'fork'], tone: 'warn' },
  authorization_expired: { actions: ['continue'], tone: 'warn' },
  output_schema_mismatch: { actions: ['fork', 'agent'], tone: 'bad' },
  outcome_not_reached: { actions: ['continue', 'fork', 'agent'], tone: 'warn' },
  outcome_not_judged: { actions: ['continue', 'agent'], tone: 'warn' },
  model_refused: { actions: ['fork', 'agent'], tone: 'bad' },
  content_filtered: { actions: ['fork', 'agent'], tone: 'bad' },
  budget_exceeded: { actions: ['continue', 'budget', 'agent'], tone: 'bad' },
  quota_exceeded: { actions: ['budget', 'continue'], tone: 'bad' },
  CONTEXT_LENGTH_EXCEEDED: { actions: ['fork', 'agent'], tone: 'bad' },
  MAX_DURATION_EXCEEDED: { actions: ['continue', 'agent'], tone: 'bad' },
  PRICING_UNAVAILABLE: { actions: ['agent', 'fork'], tone: 'bad' },
  RUN_CANCELLED: { actions: ['again', 'fork'], tone: '' },
  machine_silent: { actions: ['continue', 'again'], tone: 'warn' },
  machine_failed: { actions: ['again', 'agent'], tone: 'bad' },
  machine_runaway: { actions: ['again', 'agent'], tone: 'bad' },
  internal_error: { actions: ['continue', 'fork'], tone: 'bad' },
};

const continuable = new Set(['failed', 'timeout']);

export function explain(run: Run): Explanation | null {
  const s = en.explain;
  if (run.status === 'completed' || run.status === 'running' || run.status === 'queued') {
    return run.status === 'completed' && (run.output as { truncated?: boolean } | null)?.truncated ? { ...s.truncated, actions: ['fork'], tone: 'warn' } : null;
  }
  if (run.status === 'awaiting_approval' || run.status === 'paused' || run.status === 'auth_required') return null;
  const code = run.error_code ?? '';
  const known = byCode[code];
  const words = s.codes[code];
  const actions = (known?.actions ?? ['continue', 'fork']).filter((a) => a !== 'continue' || (continuable.has(run.status) && !run.continued_by_run_id));
  return {
    title: words?.title ?? s.ended[run.status] ?? s.endedOther,
    text: words?.text ?? '',
    actions,
    tone: known?.tone ?? 'bad',
  };
}

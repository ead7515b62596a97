import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { api, noticeError, type Schema } from '../api';
import { outcome } from '../strings/outcome';

type RunEvent = Schema<'RunEvent'>;

/** A part of what an agent did in a run, in its true order. */
export type Part =
  | { kind: 'thinking'; key: string; step: string; text: string; done: boolean; at: string; ms?: number }
  | { kind: 'text'; key: string; step: string; text: string; done: boolean }
  | { kind: 'tool'; key: string; id: string; name: string; args: unknown; status: 'running' | 'done' | 'error'; output?: unknown; ms?: number }
  | { kind: 'approval'; key: string; id: string; call: string; name: string; args: unknown; expires: string; status: 'pending' | 'approved' | 'rejected' | 'expired' | 'cancelled'; edited?: boolean; by?: string; reason?: string }
  | { kind: 'question'; key: string; id: string; text: string; answer?: string }
  | { kind: 'auth'; key: string; name: string; url: string }
  | { kind: 'note'; key: string; note: 'void' | 'compacted' | 'guardrail' | 'governance' | 'memory' | 'judged'; text: string };

export interface Turn {
  status: string;
  parts: Part[];
  waiting: { attempt: number; until: number; reason: string } | null;
  error: string;
  errorCode: string;
  cost: number | null;
  metrics: Schema<'RunMetrics'> | null;
  ended: boolean;
  steps: number;
}

export const emptyTurn: Turn = { status: 'queued', parts: [], waiting: null, error: '', errorCode: '', cost: null, metrics: null, ended: false, steps: 0 };

/** Returns a turn after an event. Events of a stream that begins anew lead to the same turn. */
export function applied(t: Turn, e: RunEvent): Turn {
  const parts = t.parts.slice();
  const next: Turn = { ...t, parts };
  const last = parts[parts.length - 1];
  const replace = (match: (p: Part) => boolean, change: (p: Part) => Part) => {
    for (let i = parts.length - 1; i >= 0; i--) {
      if (match(parts[i]!)) {
        parts[i] = change(parts[i]!);
        return true;
      }
    }
    return false;
  };
  const finish = () => {
    for (let i = 0; i < parts.length; i++) {
      const p = parts[i]!;
      if (p.kind === 'thinking' && !p.done) parts[i] = { ...p, done: true, ms: Date.parse(stamp(e)) - Date.parse(p.at) };
      if (p.kind === 'text' && !p.done) parts[i] = { ...p, done: true };
    }
  };
  switch (e.event) {
    case 'run.queued':
    case 'run.started':
    case 'run.resumed':
    case 'run.paused':
    case 'run.awaiting_approval':
      next.status = e.status;
      next.waiting = null;
      break;
    case 'run.auth_required':
      next.status = 'auth_required';
      parts.push({ kind: 'auth', key: `auth-${e.seq}`, name: e.name, url: e.authorization_url });
      break;
    case 'step.started':
      next.steps = Math.max(next.steps, e.step_seq ?? 0);
      next.waiting = null;
      break;
    case 'step.retrying':
      next.waiting = { attempt: e.attempt, until: Date.parse(e.timestamp) + e.after_ms, reason: e.reason };
      break;
    case 'step.draft_void':
      next.parts = parts.filter((p) => !((p.kind === 'text' || p.kind === 'thinking') && p.step === (e.step_id ?? '')));
      next.parts.push({ kind: 'note', key: `void-${e.seq}`, note: 'void', text: '' });
      break;
    case 'llm.thinking':
      next.waiting = null;
      if (last?.kind === 'thinking' && !last.done && last.step === (e.step_id ?? '')) parts[parts.length - 1] = { ...last, text: last.text + e.text };
      else parts.push({ kind: 'thinking', key: `th-${e.seq ?? parts.length}`, step: e.step_id ?? '', text: e.text, done: false, at: e.timestamp });
      break;
    case 'llm.chunk':
      next.waiting = null;
      if (last?.kind === 'text' && !last.done && last.step === (e.step_id ?? '')) parts[parts.length - 1] = { ...last, text: last.text + e.text };
      else {
        finish();
        parts.push({ kind: 'text', key: `tx-${e.seq ?? parts.length}`, step: e.step_id ?? '', text: e.text, done: false });
      }
      break;
    case 'llm.completed':
      finish();
      break;
    case 'tool.call': {
      const call: Part = { kind: 'tool', key: `tc-${e.tool_call_id}`, id: e.tool_call_id, name: e.name, args: e.arguments, status: 'running' };
      if (!replace((p) => p.kind === 'tool' && p.id === e.tool_call_id && p.status === 'running', () => call)) parts.push(call);
      break;
    }
    case 'tool.result':
      replace(
        (p) => p.kind === 'tool' && p.id === e.tool_call_id,
        (p) => ({ ...(p as Extract<Part, { kind: 'tool' }>), status: e.status === 'error' || e.status === 'failed' ? 'error' : 'done', output: e.output, ms: e.duration_ms }),
      );
      break;
    case 'approval.requested':
      parts.push({ kind: 'approval', key: `ap-${e.approval_id}`, id: e.approval_id, call: e.tool_call_id, name: e.name, args: e.arguments, expires: e.expires_at, status: 'pending' });
      break;
    case 'approval.resolved':
      replace(
        (p) => p.kind === 'approval' && p.id === e.approval_id,
        (p) => ({ ...(p as Extract<Part, { kind: 'approval' }>), status: e.status, edited: e.edited, by: e.decided_by, reason: e.reason }),
      );
      break;
    case 'input.requested':
      parts.push({ kind: 'question', key: `q-${e.input_id}`, id: e.input_id, text: e.question });
      break;
    case 'input.received':
      replace(
        (p) => p.kind === 'question' && p.id === e.input_id,
        (p) => ({ ...(p as Extract<Part, { kind: 'question' }>), answer: e.response }),
      );
      break;
    case 'context.compacted':
      parts.push({ kind: 'note', key: `c-${e.seq}`, note: 'compacted', text: String(e.folded) });
      break;
    case 'guardrail.violated':
      parts.push({ kind: 'note', key: `g-${e.seq}`, note: 'guardrail', text: `${e.name}: ${e.reason ?? e.action}` });
      break;
    case 'governance.decided':
      parts.push({ kind: 'note', key: `gv-${e.seq}`, note: 'governance', text: e.message || `${e.rule_id}: ${e.decision}` });
      break;
    case 'outcome.judged':
      parts.push({ kind: 'note', key: `j-${e.seq}`, note: 'judged', text: outcome.judged(e.score.toFixed(2), e.min_score.toFixed(2)) });
      break;
    case 'memory.retrieved':
      parts.push({ kind: 'note', key: `m-${e.seq}`, note: 'memory', text: String(e.entries.length) });
      break;
    case 'run.completed':
    case 'run.failed':
    case 'run.cancelled':
    case 'run.timeout':
    case 'run.guardrail_blocked':
    case 'run.rejected':
      finish();
      next.status = e.status;
      next.error = e.error ?? '';
      next.errorCode = e.error_code ?? '';
      next.waiting = null;
      break;
    case 'done':
      finish();
      next.status = e.status;
      next.error = e.error ?? '';
      next.errorCode = e.error_code ?? '';
      next.cost = e.cost_usd;
      next.metrics = e.metrics;
      next.ended = true;
      break;
  }
  return next;
}

function stamp(e: RunEvent): string {
  return 'timestamp' in e ? e.timestamp : new Date().toISOString();
}

/** What is known of a run, outside of React: pieces of text are applied once a frame. */
class Store<T> {
  #value: T;
  #pending: T;
  #frame = 0;
  #watchers = new Set<() => void>();
  constructor(value: T) {
    this.#value = this.#pending = value;
  }
  change(f: (v: T) => T): void {
    this.#pending = f(this.#pending);
    this.#frame ||= window.setTimeout(this.#show, 16);
  }
  #show = () => {
    this.#frame = 0;
    this.#value = this.#pending;
    for (const w of this.#watchers) w();
  };
  get = (): T => this.#value;
  subscribe = (w: () => void): (() => void) => {
    this.#watchers.add(w);
    return () => this.#watchers.delete(w);
  };
}

/** Follows a run from its beginning. The stream of a tab that nobody sees is given up after a
 * minute, and resumed where it was. */
export function useTurn(runId: string | undefined, onEnd?: (t: Turn) => void): Turn {
  const [store, setStore] = useState(() => new Store(emptyTurn));
  const ended = useRef(onEnd);
  ended.current = onEnd;
  const visible = useVisible();
  const lastId = useRef('');
  const followed = useRef('');
  useEffect(() => {
    if (!runId || !visible) return;
    let mine = store;
    if (followed.current !== runId) {
      followed.current = runId;
      lastId.current = '';
      mine = new Store(emptyTurn);
      setStore(mine);
    }
    if (mine.get().ended) return;
    const stop = new AbortController();
    void (async () => {
      try {
        const events = api.stream('/api/v1/runs/{runId}/events', { params: { path: { runId } }, lastEventId: lastId.current, signal: stop.signal, retries: 1000 });
        for await (const { id, data } of events) {
          if (id) lastId.current = id;
          if (data.event === 'gap') continue; // the whole text comes with the end
          mine.change((t) => applied(t, data));
          if (data.event === 'done') setTimeout(() => ended.current?.(mine.get()), 30);
        }
      } catch (e) {
        noticeError(e);
      }
    })();
    return () => stop.abort();
    // eslint-disable-next-line
  }, [runId, visible]);
  return useSyncExternalStore(store.subscribe, store.get);
}

/** Reports whether a person can see this tab, or could until a minute ago. */
export function useVisible(): boolean {
  const [visible, set] = useState(true);
  useEffect(() => {
    let timer = 0;
    const change = () => {
      clearTimeout(timer);
      if (document.visibilityState === 'visible') set(true);
      else timer = window.setTimeout(() => set(false), 60_000);
    };
    document.addEventListener('visibilitychange', change);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', change);
    };
  }, []);
  return visible;
}

import { useSyncExternalStore } from 'react';

/** What the change stream says of the whole company. */
export interface Counts {
  inbox: number;
  running: number;
}

interface State {
  /** The stream tells of changes: nothing needs to be asked for again. */
  live: boolean;
  counts: Counts | null;
}

let state: State = { live: false, counts: null };
const watchers = new Set<() => void>();

export function setState(change: Partial<State>): void {
  state = { ...state, ...change };
  for (const w of watchers) w();
}

function watch(w: () => void): () => void {
  watchers.add(w);
  return () => watchers.delete(w);
}

/** Reports whether the change stream is open. Where it is refused, pages ask again by themselves. */
export function useLive(): boolean {
  return useSyncExternalStore(watch, () => state.live);
}

export function useStreamedCounts(): Counts | null {
  return useSyncExternalStore(watch, () => state.counts);
}

/** When a query was last asked for, by its hash: what began before the stream may lack a change. */
export const begun = new Map<string, number>();

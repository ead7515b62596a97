import { useEffect } from 'react';
import { api, noticeError } from '../api';
import { apply, reloadBefore, reloadOf, type Change } from './cache';
import { setState, type Counts } from './state';
import { useVisible } from './turn';

/** A stream that has said nothing for so long is no help: pages ask by themselves until it does. */
const patience = 10_000;

/** Runs that a page has open: their events come with the stream. */
const followed = new Map<string, number>();
let reopen: (() => void) | undefined;

/** The one change stream of this tab. A tab that nobody sees gives it up after a minute. */
export function useChanges(enabled: boolean): void {
  const visible = useVisible();
  useEffect(() => {
    if (!enabled || !visible) return;
    return connect();
  }, [enabled, visible]);
}

/** Follows a run while a component shows it: its steps are loaded as they happen. */
export function useFollow(runId: string, enabled: boolean): void {
  useEffect(() => {
    if (!enabled) return;
    followed.set(runId, (followed.get(runId) ?? 0) + 1);
    reopen?.();
    return () => {
      const n = followed.get(runId)! - 1;
      if (n > 0) followed.set(runId, n);
      else followed.delete(runId);
      // What is followed no longer costs nothing until the stream opens anew.
    };
  }, [runId, enabled]);
}

/** Asks again for one thing whenever its own stream tells of something, while a component shows it. */
export function useReloadOn(path: string, params: Record<string, string>, enabled: boolean): void {
  const visible = useVisible();
  const id = Object.values(params)[0] ?? '';
  useEffect(() => {
    if (!enabled || !visible || !id) return;
    const stop = new AbortController();
    void (async () => {
      try {
        for await (const e of api.stream(path as '/api/v1/changes/stream', { params: { path: params }, signal: stop.signal, retries: 100 })) if (e.id) reloadOf(id);
      } catch (e) {
        noticeError(e);
      }
    })();
    return () => stop.abort();
    // eslint-disable-next-line
  }, [path, id, enabled, visible]);
}

let lastId = '';

function connect(): () => void {
  let stop = new AbortController();
  let closed = false;
  let waiting: Change[] = [];
  let flush = 0;
  let lost = window.setTimeout(() => setState({ live: false }), patience);
  const applyAll = () => {
    flush = 0;
    const all = waiting;
    waiting = [];
    apply(all);
  };
  const run = async (mine: AbortController) => {
    const follow = [...followed.keys()].slice(0, 20).map((id) => `run:${id}@latest`);
    let opened = 0;
    try {
      const events = api.stream('/api/v1/changes/stream', {
        params: { query: follow.length > 0 ? { follow: follow.join(',') } : {} },
        lastEventId: lastId,
        signal: mine.signal,
        retries: Infinity,
        endless: true,
        onState: (s) => {
          if (s === 'open') opened = performance.now();
          else if (!mine.signal.aborted) {
            clearTimeout(lost);
            lost = window.setTimeout(() => setState({ live: false }), patience);
          }
        },
      });
      for await (const { id, data } of events) {
        const resumed = lastId !== '';
        if (id) lastId = id;
        switch (data.event) {
          case 'ready':
            clearTimeout(lost);
            setState({ live: true });
            // Changes of before are in what is loaded after this; a resumed stream sends them.
            if (!resumed) reloadBefore(Math.max(opened, performance.now() - 1));
            for (const one of followed.keys()) reloadOf(one);
            break;
          case 'gap':
            reloadBefore(Infinity);
            break;
          case 'counts':
            setState({ counts: countsOf(data as unknown as Numbers) });
            break;
          case 'changed':
            waiting.push(data as Change);
            flush ||= window.setTimeout(applyAll, 100);
            break;
          default:
            if ('run_id' in data && typeof data.run_id === 'string' && !/^llm\.(chunk|thinking)$/.test(data.event)) reloadOf(data.run_id);
        }
      }
    } catch (e) {
      noticeError(e);
    }
    // It was refused, or has ended: pages ask by themselves.
    if (!mine.signal.aborted) {
      clearTimeout(lost);
      setState({ live: false, counts: null });
    }
  };
  void run(stop);
  reopen = () => {
    if (closed) return;
    const before = stop;
    stop = new AbortController();
    void run(stop);
    before.abort();
  };
  return () => {
    closed = true;
    reopen = undefined;
    clearTimeout(lost);
    clearTimeout(flush);
    if (waiting.length > 0) apply(waiting);
    stop.abort();
    setState({ live: false });
  };
}

/** What the console shows of a frame with numbers; a key without a scope has no such part. */
interface Numbers {
  inbox?: { approval: number; input: number; authorization: number };
  runs?: { running: { count: number } };
}

function countsOf(c: Numbers): Counts | null {
  if (!c.inbox || !c.runs) return null;
  return { inbox: c.inbox.approval + c.inbox.input + c.inbox.authorization, running: c.runs.running.count };
}

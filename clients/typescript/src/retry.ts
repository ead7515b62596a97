import { ConnectionError, secondsOf } from './errors.js';

export interface RetryOptions {
  /** How often a request is repeated after its first try. Default: 3. */
  retries?: number;
  /** The longest wait between two tries, in milliseconds. Default: 30000. */
  maxDelay?: number;
  fetch?: (request: Request) => Promise<Response>;
}

const repeatable = new Set([408, 425, 429, 500, 502, 503, 504]);
const writes = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/** Returns a fetch that repeats what may be repeated. A write gets an Idempotency-Key, with
 * which the server carries it out once, however often it arrives. */
export function retrying(options: RetryOptions): (request: Request) => Promise<Response> {
  const send = options.fetch ?? ((request: Request) => fetch(request));
  const retries = options.retries ?? 3;
  const maxDelay = options.maxDelay ?? 30_000;
  return async (request) => {
    if (writes.has(request.method) && !request.headers.has('idempotency-key')) {
      request.headers.set('Idempotency-Key', newKey());
    }
    for (let tries = 0; ; tries++) {
      const last = tries >= retries;
      let response: Response | undefined;
      try {
        response = await send(last ? request : request.clone());
      } catch (cause) {
        if (request.signal.aborted) throw cause;
        if (last) throw new ConnectionError('The server cannot be reached.', { cause });
      }
      if (response && (last || !(await again(response)))) return response;
      const asked = secondsOf(response?.headers.get('retry-after'));
      await response?.body?.cancel();
      await sleep(Math.min(asked === undefined ? backoff(tries) : asked * 1000, maxDelay), request.signal);
    }
  };
}

/** Reports whether the same request may succeed later. */
async function again(response: Response): Promise<boolean> {
  if (response.headers.get('x-should-retry') === 'false') return false;
  if (repeatable.has(response.status)) return true;
  if (!response.headers.has('retry-after')) return false;
  if (response.status === 409) return true; // a state that passes by itself
  if (response.status !== 202) return false;
  // The same write is being carried out by an earlier request.
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  return (body as { in_progress?: boolean } | undefined)?.in_progress === true;
}

/** The wait before the next try, in milliseconds: doubled each time, with jitter. */
export function backoff(tries: number): number {
  return 250 * 2 ** tries * (0.5 + Math.random());
}

export function sleep(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

/** A random key. crypto.randomUUID exists only on pages of https and localhost. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}

import { AgentdError, ApiError, ConnectionError, StreamError, errorOf } from './errors.js';
import { sleep } from './retry.js';

/** A frame of an event stream. */
export interface Frame {
  /** Where to resume; '' if the frame has no id. */
  id: string;
  event: string;
  data: string;
}

/** Takes the text of an event stream in pieces and returns its frames. */
export class FrameReader {
  #rest = '';
  #id = '';
  #event = '';
  #data: string[] = [];
  /** Milliseconds before reconnecting, as the server asked. */
  retry: number | undefined;

  push(piece: string): Frame[] {
    const frames: Frame[] = [];
    this.#rest += piece;
    for (;;) {
      const end = this.#rest.search(/[\r\n]/);
      // A \r at the very end may be the first half of \r\n.
      if (end < 0 || (this.#rest[end] === '\r' && end === this.#rest.length - 1)) return frames;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + (this.#rest.startsWith('\r\n', end) ? 2 : 1));
      const frame = this.#line(line);
      if (frame) frames.push(frame);
    }
  }

  #line(line: string): Frame | undefined {
    if (line === '') {
      const data = this.#data;
      const frame = { id: this.#id, event: this.#event || 'message', data: data.join('\n') };
      this.#event = '';
      this.#data = [];
      return data.length > 0 ? frame : undefined;
    }
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    switch (name) {
      case 'id':
        if (!value.includes('\0')) this.#id = value;
        break;
      case 'event':
        this.#event = value;
        break;
      case 'data':
        this.#data.push(value);
        break;
      case 'retry':
        if (/^\d+$/.test(value)) this.retry = Number(value);
        break;
    }
    return undefined;
  }
}

export interface StreamOptions {
  /** Continue after this id. */
  lastEventId?: string;
  signal?: AbortSignal;
  /** A connection that is silent for so many milliseconds is dead. The server sends something every 15 s. Default: 35000. */
  silence?: number;
  /** How often in a row the stream is opened anew without an event in between. Default: 10. */
  retries?: number;
  /** The stream is about many things and goes on after the end of one of them, as the change stream does. */
  endless?: boolean;
  /** Called when the stream is open, and when its connection is lost. */
  onState?: (state: 'open' | 'lost') => void;
}

/** A frame whose data was JSON. */
export interface StreamEvent<T> {
  id: string;
  event: string;
  data: T;
}

/** Names of frames after which a stream has said everything. */
const finals = new Set(['done', 'session_closed']);

/** Reads a stream, and resumes it after the last id where its connection breaks. It ends after
 * a final event (`done`, `session_closed`), and throws what a refusal says. */
export async function* follow<T>(
  open: (headers: Record<string, string>, signal: AbortSignal) => Promise<Response>,
  options: StreamOptions = {},
): AsyncGenerator<StreamEvent<T>, void, undefined> {
  let lastId = options.lastEventId ?? '';
  let wait = 1000;
  for (let tries = 0; ; tries++) {
    const reader = new FrameReader();
    try {
      for await (const frame of frames(open, reader, lastId, options)) {
        if (frame.data === '[DONE]') return;
        tries = 0;
        wait = reader.retry ?? wait;
        const data = JSON.parse(frame.data) as T;
        if (frame.event === 'error') {
          // The stream could not go on; what it follows does.
          throw new ConnectionError((data as { detail?: string }).detail ?? 'The stream broke.');
        }
        if (frame.id) lastId = frame.id;
        yield { id: frame.id, event: frame.event, data };
        if (finals.has(frame.event) && !options.endless) return;
      }
    } catch (e) {
      if (options.signal?.aborted) return;
      if (e instanceof ApiError && e.status < 500 && e.status !== 429) throw e;
      if (!(e instanceof AgentdError) && !(e instanceof TypeError) && !isAbort(e)) throw e;
    }
    if (options.signal?.aborted) return;
    options.onState?.('lost');
    if (tries >= (options.retries ?? 10)) throw new StreamError('The stream broke and could not be opened again.');
    try {
      await sleep(Math.min(wait * 2 ** tries, 30_000) * (0.5 + Math.random() / 2), options.signal);
    } catch {
      return; // aborted
    }
  }
}

function isAbort(e: unknown): boolean {
  return e instanceof Error && e.name === 'AbortError';
}

async function* frames(
  open: (headers: Record<string, string>, signal: AbortSignal) => Promise<Response>,
  reader: FrameReader,
  lastId: string,
  options: StreamOptions,
): AsyncGenerator<Frame, void, undefined> {
  const silence = options.silence ?? 35_000;
  const dead = new AbortController();
  const stop = () => dead.abort(options.signal?.reason);
  options.signal?.addEventListener('abort', stop, { once: true });
  let timer = setTimeout(() => dead.abort(), silence);
  try {
    const headers: Record<string, string> = { Accept: 'text/event-stream' };
    if (lastId) headers['Last-Event-ID'] = lastId;
    const response = await open(headers, dead.signal);
    if (!response.ok) throw await errorOf(response);
    if (!response.body) throw new ConnectionError('The stream has no body.');
    options.onState?.('open');
    const decoder = new TextDecoder();
    const body = response.body.getReader();
    try {
      for (;;) {
        const { done, value } = await body.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => dead.abort(), silence);
        yield* reader.push(decoder.decode(value, { stream: true }));
      }
    } finally {
      body.cancel().catch(() => undefined); // the reader left
    }
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener('abort', stop);
  }
}

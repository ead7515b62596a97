import createClient, { type Client, type FetchResponse, type MaybeOptionalInit } from 'openapi-fetch';
import { errorOfBody } from './errors.js';
import { retrying, type RetryOptions } from './retry.js';
import type { components, paths } from './schema.js';
import { follow, type StreamEvent, type StreamOptions } from './stream.js';

type Media = `${string}/${string}`;
type Method = 'get' | 'put' | 'post' | 'patch' | 'delete';

/** The paths that have a method. */
export type PathsWith<M extends Method> = {
  [P in keyof paths]: paths[P] extends { [K in M]: unknown } ? (paths[P][M] extends undefined ? never : P) : never;
}[keyof paths];

type Operation<P extends keyof paths, M extends Method> = paths[P][M] extends infer O ? (O extends Record<string | number, any> ? O : never) : never;

/** What an operation takes: `params` (`path`, `query`, `header`) and `body`. */
export type Options<P extends keyof paths, M extends Method> = MaybeOptionalInit<paths[P], M & keyof paths[P]>;

/** What an operation answers. */
export type Answer<P extends keyof paths, M extends Method> = NonNullable<FetchResponse<Operation<P, M>, object, Media>['data']>;

type Init<P extends keyof paths, M extends Method> = undefined extends Options<P, M> ? [options?: Options<P, M>] : [options: Options<P, M>];

/** A schema of the OpenAPI document, by its name. */
export type Schema<N extends keyof components['schemas']> = components['schemas'][N];

export interface AgentdOptions extends RetryOptions {
  /** Where the server is, such as http://127.0.0.1:8080. Default: the origin of the page. */
  baseUrl?: string;
  /** An API key. Left out in a browser that is signed in: the cookie counts. */
  apiKey?: string;
  /** The company that requests are meant for: one that the credential left is refused with TenantSwitchedError. */
  tenantId?: string;
  /** Further headers of every request. */
  headers?: Record<string, string>;
}

/** A client of one server. */
export class Agentd {
  /** openapi-fetch's own client, for what this class does not cover. It answers refusals in place of throwing them. */
  readonly raw: Client<paths>;
  readonly baseUrl: string;
  /** The company that requests are meant for; see AgentdOptions. */
  tenantId: string | undefined;
  readonly #headers: Record<string, string>;
  readonly #send: (request: Request) => Promise<Response>;
  readonly #fetch: (request: Request) => Promise<Response>;

  constructor(options: AgentdOptions = {}) {
    this.baseUrl = (options.baseUrl ?? globalThis.location?.origin ?? '').replace(/\/+$/, '');
    this.tenantId = options.tenantId;
    this.#headers = { ...options.headers };
    if (options.apiKey) this.#headers['Authorization'] = `Bearer ${options.apiKey}`;
    this.#fetch = options.fetch ?? ((request) => fetch(request));
    this.#send = retrying(options);
    this.raw = createClient<paths>({
      baseUrl: this.baseUrl,
      fetch: (request) => this.#send(this.#signed(request)),
    });
  }

  get<P extends PathsWith<'get'>>(path: P, ...init: Init<P, 'get'>): Promise<Answer<P, 'get'>> {
    return this.#call('GET', path, init[0]);
  }
  post<P extends PathsWith<'post'>>(path: P, ...init: Init<P, 'post'>): Promise<Answer<P, 'post'>> {
    return this.#call('POST', path, init[0]);
  }
  put<P extends PathsWith<'put'>>(path: P, ...init: Init<P, 'put'>): Promise<Answer<P, 'put'>> {
    return this.#call('PUT', path, init[0]);
  }
  patch<P extends PathsWith<'patch'>>(path: P, ...init: Init<P, 'patch'>): Promise<Answer<P, 'patch'>> {
    return this.#call('PATCH', path, init[0]);
  }
  delete<P extends PathsWith<'delete'>>(path: P, ...init: Init<P, 'delete'>): Promise<Answer<P, 'delete'>> {
    return this.#call('DELETE', path, init[0]);
  }

  /** All rows of a list, page by page, as they are needed. */
  async *list<P extends PathsWith<'get'>>(path: P, ...init: Init<P, 'get'>): AsyncGenerator<Row<Answer<P, 'get'>>, void, undefined> {
    let cursor: string | undefined;
    do {
      const options = (init[0] ?? {}) as { params?: { query?: Record<string, unknown> } };
      const query = { ...options.params?.query, ...(cursor ? { cursor } : {}) };
      const page = (await this.#call('GET', path, { ...options, params: { ...options.params, query } })) as Page;
      yield* page.items as Row<Answer<P, 'get'>>[];
      cursor = page.has_more ? (page.cursor ?? undefined) : undefined;
    } while (cursor);
  }

  /** Follows an event stream; see follow. */
  stream<P extends PathsWith<'get'>>(
    path: P,
    options: { params?: { path?: Record<string, string>; query?: Record<string, string> } } & StreamOptions = {},
  ): AsyncGenerator<StreamEvent<Answer<P, 'get'>>, void, undefined> {
    const url = this.url(path, options.params);
    return follow<Answer<P, 'get'>>(
      (headers, signal) => this.#fetch(this.#signed(new Request(url, { headers, signal, cache: 'no-store' }))),
      options,
    );
  }

  /** The address of an operation. */
  url(path: string, params?: { path?: Record<string, string>; query?: Record<string, unknown> }): string {
    const filled = path.replace(/\{(\w+)\}/g, (whole, name: string) => {
      const value = params?.path?.[name];
      return value === undefined ? whole : encodeURIComponent(value);
    });
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(params?.query ?? {})) {
      if (value !== undefined && value !== null && value !== '') query.set(name, String(value));
    }
    return this.baseUrl + filled + (query.size > 0 ? `?${query}` : '');
  }

  #signed(request: Request): Request {
    for (const [name, value] of Object.entries(this.#headers)) {
      if (!request.headers.has(name)) request.headers.set(name, value);
    }
    if (this.tenantId && !request.headers.has('x-tenant-id')) request.headers.set('X-Tenant-Id', this.tenantId);
    return request;
  }

  async #call(method: string, path: string, options: unknown): Promise<any> {
    const request = this.raw.request as (method: string, path: string, options: unknown) => Promise<{ data?: unknown; error?: unknown; response: Response }>;
    const { data, error, response } = await request(method.toLowerCase(), path, options ?? {});
    if (!response.ok) throw errorOfBody(error, response);
    return data;
  }
}

interface Page {
  items: unknown[];
  cursor?: string | null;
  has_more?: boolean;
}
type Row<L> = L extends { items: (infer T)[] } ? T : never;

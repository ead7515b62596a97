import { QueryClient, hashKey, useInfiniteQuery, useQuery, type InfiniteData, type QueryKey, type UseQueryOptions } from '@tanstack/react-query';
import { Agentd, ApiError, AuthenticationError, PermissionError, NotFoundError, TenantSwitchedError, type Schema } from 'agentd';
import { emit } from './bus';
import { begun, useLive } from './live/state';

/** The path below which the server is reached, without a slash at the end; the server wrote it into <base>. */
export const prefix = new URL(document.baseURI).pathname.replace(/\/$/, '');

export const api = new Agentd({
  baseUrl: location.origin + prefix,
  retries: 1,
  fetch: async (request) => {
    try {
      const response = await fetch(request);
      emit('online', true);
      return response;
    } catch (e) {
      if (!request.signal.aborted) emit('online', false);
      throw e;
    }
  },
});

/** What is not worth asking for again. */
function final(e: unknown): boolean {
  return e instanceof ApiError && e.status < 500 && e.status !== 429;
}

export const queries = new QueryClient({
  defaultOptions: {
    queries: { staleTime: 2_000, gcTime: 300_000, retry: (count, e) => !final(e) && count < 1, refetchOnWindowFocus: true, networkMode: 'always' },
  },
});
addEventListener('offline', () => emit('online', false));
queries.getQueryCache().subscribe((e) => {
  if (e.type === 'updated' && e.action.type === 'error') noticeError(e.action.error);
});

/** Tells the shell of refusals that concern the whole page. */
export function noticeError(e: unknown): void {
  if (e instanceof TenantSwitchedError) emit('switched', e);
  else if (e instanceof AuthenticationError) emit('signedOut', e);
}

export type Me = Schema<'Me'>;

export function isSignedOut(e: unknown): boolean {
  return e instanceof AuthenticationError;
}

export function signInAddress(): string {
  const here = location.pathname.slice(prefix.length) + location.search;
  return `${prefix}/signin?return_to=${encodeURIComponent(here || '/')}`;
}

export function useMe() {
  return useQuery({
    queryKey: ['me'],
    staleTime: 60_000,
    queryFn: async () => {
      const me = await api.get('/api/v1/me');
      api.tenantId = me.tenant.tenant_id;
      return me;
    },
  });
}

const ranks = ['viewer', 'developer', 'admin', 'owner'];

/** Reports whether somebody may do what needs a role and a scope. */
export function may(me: Me | undefined, role: string, scope?: string): boolean {
  if (!me) return false;
  const enough = ranks.indexOf(me.role) >= ranks.indexOf(role);
  return enough && (!scope || me.scopes.includes('*') || me.scopes.includes(scope));
}

type Interval<T> = number | false | ((data: T | undefined) => number | false);

interface Asking<T> {
  /** How often it is asked for again where the change stream is refused. */
  every?: Interval<T>;
  /** How often it is asked for again while something is under way that no stream tells of. */
  meanwhile?: Interval<T>;
}

const intervalOf = <T>(of: Interval<T> | undefined, data: T | undefined): number | false => (typeof of === 'function' ? of(data) : (of ?? false));

function least(a: number | false, b: number | false): number | false {
  return a === false ? b : b === false ? a : Math.min(a, b);
}

/** A GET as a query. Its key is its path and parameters, by which writes and changes make it stale. */
export function useGet<T>(path: string, params: Params = {}, { every, meanwhile, ...options }: Partial<Omit<UseQueryOptions<T>, 'refetchInterval'>> & Asking<T> = {}) {
  const live = useLive();
  return useQuery<T>({
    queryKey: [path, params],
    queryFn: ({ signal, queryKey }) => {
      begun.set(hashKey(queryKey), performance.now());
      return read<T>(path, params, signal);
    },
    refetchInterval: (q: { state: { data: T | undefined } }) => least(live ? false : intervalOf(every, q.state.data), intervalOf(meanwhile, q.state.data)),
    ...options,
  } as UseQueryOptions<T>);
}

export interface Params {
  path?: Record<string, string>;
  query?: Record<string, unknown>;
}

/** Reads a path whose type the caller knows. */
export function read<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  return api.get(path as '/api/v1/me', { params: params as never, signal }) as unknown as Promise<T>;
}

/** Sends a write whose type the caller knows, and makes lists that may show it stale. */
export async function send<T = unknown>(method: 'post' | 'put' | 'patch' | 'delete', path: string, params: Params = {}, body?: unknown, headers?: Record<string, string>): Promise<T> {
  try {
    const call = api[method].bind(api) as (path: string, options: unknown) => Promise<unknown>;
    return (await call(path, { params, body, headers })) as T;
  } catch (e) {
    noticeError(e);
    throw e;
  } finally {
    void queries.invalidateQueries();
  }
}

export interface Page<T> {
  items: T[];
  cursor?: string | null;
  has_more?: boolean;
}

/** The rows of an answer: some lists name them after what they are. */
export function rowsOf<T>(page: unknown): T[] {
  if (Array.isArray(page)) return page as T[];
  const p = page as Record<string, unknown> | undefined;
  const rows = p?.['items'] ?? Object.values(p ?? {}).find(Array.isArray);
  return (rows as T[] | undefined) ?? [];
}

/** A list by cursor. */
export function useList<T>(path: string, params: Params = {}, options: { enabled?: boolean; limit?: number } & { every?: number; meanwhile?: (rows: T[]) => number | false } = {}) {
  const live = useLive();
  const q = useInfiniteQuery<Page<T>, Error, InfiniteData<Page<T>, string>, QueryKey, string>({
    queryKey: [path, params, 'pages'],
    initialPageParam: '',
    enabled: options.enabled ?? true,
    refetchInterval: (query) => {
      const pages = query.state.data?.pages;
      if ((pages?.length ?? 1) > 2) return false;
      return least(live ? false : (options.every ?? false), pages && options.meanwhile ? options.meanwhile(pages.flatMap((p) => rowsOf<T>(p))) : false);
    },
    queryFn: ({ pageParam, signal, queryKey }) => {
      if (pageParam === '') begun.set(hashKey(queryKey), performance.now());
      return read<Page<T>>(path, { ...params, query: { limit: options.limit ?? 50, ...params.query, ...(pageParam ? { cursor: pageParam } : {}) } }, signal);
    },
    getNextPageParam: (last) => (last.has_more ? (last.cursor ?? undefined) : undefined),
    maxPages: 40,
  });
  return { ...q, rows: q.data?.pages.flatMap((p) => rowsOf<T>(p)) ?? [] };
}

/** The request as a curl command, with the key in $AGENTD_KEY. */
export function curlOf(method: string, path: string, params: Params = {}, body?: unknown): string {
  const url = api.url(path, params as never).slice(api.baseUrl.length);
  let out = `export AGENTD_URL=${api.baseUrl}\ncurl -sS`;
  if (method !== 'GET') out += ` -X ${method}`;
  out += ` "$AGENTD_URL${url}" \\\n  -H "Authorization: Bearer $AGENTD_KEY"`;
  if (body !== undefined) out += ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", `'\\''`)}'`;
  return out;
}

export { ApiError, PermissionError, NotFoundError };
export type { Schema };

import { hashKey, notifyManager, type InfiniteData, type Query } from '@tanstack/react-query';
import { queries, type Page, type Params } from '../api';
import { begun } from './state';

export interface Change {
  kind: string;
  id: string;
  op: string;
  version?: number;
  row?: Record<string, unknown>;
}

/** Where the things of a kind are listed, which member is their id, and what else changes with
 * them. Kinds that are not named here are found by their plural in the path. */
const kinds: Record<string, { list?: string; id?: string; newestFirst?: boolean; also?: string[]; slow?: string[] }> = {
  agent: { list: '/api/v1/agents', id: 'agent_id' },
  run: {
    list: '/api/v1/runs',
    id: 'run_id',
    also: ['/api/v1/approvals', '/teams/{teamId}/runs', '/deliveries', '/missions', '/initiatives/', '/evaluations', '/experiments', '/marketplace/invocations', '/bridge/'],
    slow: ['/analytics/', '/usage', '/billing/budget', '/governance/'],
  },
  session: { list: '/api/v1/sessions', id: 'session_id', newestFirst: true },
  approval: { list: '/api/v1/approvals', id: 'approval_id', also: ['/inbox'] },
  team: { list: '/api/v1/teams', id: 'team_id' },
  guardrail: { list: '/api/v1/guardrails', id: 'guardrail_id' },
  initiative: { list: '/api/v1/initiatives', id: 'initiative_id' },
  mission: { list: '/api/v1/missions', id: 'mission_id' },
  evaluation: { also: ['/evaluations', '/experiments'] },
  visitor_report: { list: '/api/v1/visitor-reports' },
  proposal: { also: ['/governance/'] },
  ambassador_request: { also: ['/governance/'] },
  case: { also: ['/governance/'] },
};

/** Members of a row that name other things which it belongs to. */
const parents = ['session_id', 'parent_run_id', 'root_run_id', 'team_run_id', 'run_id'];

type Rows = InfiniteData<Page<Record<string, unknown>>, string>;

/** Puts changes into what was loaded; what cannot be told from the row is asked for again. */
export function apply(changes: Change[]): void {
  const cache = queries.getQueryCache().getAll();
  notifyManager.batch(() => {
    for (const c of changes) for (const q of cache) concerns(q, c);
  });
}

function concerns(q: Query, c: Change): void {
  const [path, params, shape] = q.queryKey as [string, Params | undefined, string | undefined];
  if (typeof path !== 'string' || !path.startsWith('/')) return;
  const rule = kinds[c.kind] ?? {};
  if (rule.list === path) {
    if (shape === 'pages' && rule.id && q.state.data && (c.row || c.op === 'deleted')) {
      const next = patched(q.state.data as Rows, params?.query ?? {}, rule.id, rule.newestFirst ?? false, c);
      if (next) {
        if (next !== q.state.data) queries.setQueryData(q.queryKey, next);
        return;
      }
    }
    stale(q, 400);
    return;
  }
  const ids = Object.values(params?.path ?? {});
  if (ids.length > 0 && (ids.includes(c.id) || parents.some((p) => c.row?.[p] && ids.includes(String(c.row[p]))))) stale(q, 400);
  else if (rule.also?.some((part) => path.includes(part))) stale(q, 1000);
  else if (rule.slow?.some((part) => path.includes(part))) stale(q, 15_000);
  else if (!rule.list && path.includes(`/${c.kind.replaceAll('_', '-')}s`)) stale(q, 400);
}

/** Returns the list with the change in it, or undefined where the row does not tell. */
function patched(data: Rows, query: Record<string, unknown>, id: string, newestFirst: boolean, c: Change): Rows | undefined {
  const pages = data.pages;
  if (!pages.every((p) => Array.isArray(p.items))) return undefined;
  const fits = c.op === 'deleted' ? false : matches(c.row!, query);
  if (fits === undefined) return undefined;
  const at = pages.findIndex((p) => p.items.some((r) => r[id] === c.id));
  const old = pages[at]?.items.find((r) => r[id] === c.id);
  if (!old) {
    if (!fits || !pages[0]) return data;
    return { ...data, pages: [{ ...pages[0], items: [c.row!, ...pages[0].items] }, ...pages.slice(1)] };
  }
  if (fits && Number(c.row!.version) < Number(old.version)) return data;
  const row = { ...old, ...c.row };
  const without = pages.map((p, i) => (i === at ? { ...p, items: p.items.filter((r) => r !== old) } : p));
  if (!fits) return { ...data, pages: without };
  if (newestFirst) return { ...data, pages: [{ ...without[0]!, items: [row, ...without[0]!.items] }, ...without.slice(1)] };
  return { ...data, pages: pages.map((p, i) => (i === at ? { ...p, items: p.items.map((r) => (r === old ? row : r)) } : p)) };
}

/** Reports whether a list with these filters has the row; undefined if only the server can tell. */
function matches(row: Record<string, unknown>, query: Record<string, unknown>): boolean | undefined {
  for (const [name, wanted] of Object.entries(query)) {
    if (wanted === undefined || wanted === '' || name === 'fields' || name === 'limit') continue;
    if (name === 'created_after' && typeof row.created_at === 'string') {
      if (Date.parse(row.created_at) < Date.parse(String(wanted))) return false;
      continue;
    }
    if (!(name in row) || (row[name] !== null && typeof row[name] === 'object')) return undefined;
    if (String(row[name] ?? '') !== String(wanted)) return false;
  }
  return true;
}

const due = new Map<string, number>();

/** Asks again soon, once for all that happens until then; what nobody sees is asked for when somebody does. */
function stale(q: Query, ms: number): void {
  const hash = q.queryHash;
  if (due.has(hash)) return;
  due.set(
    hash,
    window.setTimeout(() => {
      due.delete(hash);
      void queries.invalidateQueries({ queryKey: q.queryKey, exact: true });
    }, ms),
  );
}

/** Asks again for what was asked for before a moment: a change may be missing in it. */
export function reloadBefore(moment: number): void {
  void queries.invalidateQueries({ predicate: (q) => (begun.get(hashKey(q.queryKey)) ?? Infinity) <= moment });
}

/** Asks again for everything that is about one thing. */
export function reloadOf(id: string): void {
  for (const q of queries.getQueryCache().getAll()) {
    if (Object.values((q.queryKey[1] as Params | undefined)?.path ?? {}).includes(id)) stale(q, 700);
  }
}

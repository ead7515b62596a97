import { useQuery } from '@tanstack/react-query';
import { read, type Page, type Schema } from './api';

export interface Counts {
  inbox: number;
  running: number;
}

/** What waits for a person, and what runs now; at most 100 of each are counted. */
export function useCounts(enabled: boolean): Counts {
  const q = useQuery({
    queryKey: ['counts'],
    enabled,
    refetchInterval: 5_000,
    queryFn: async ({ signal }) => {
      const list = (path: string, query: Record<string, unknown>) => read<Page<Schema<'Run'>>>(path, { query: { limit: 100, fields: 'summary', ...query } }, signal).then((p) => p.items);
      const [approvals, paused, running] = await Promise.all([
        list('/api/v1/approvals', { status: 'pending' }),
        list('/api/v1/runs', { status: 'paused' }),
        list('/api/v1/runs', { status: 'running' }),
      ]);
      return { inbox: approvals.length + paused.filter((r) => r.pending_input).length, running: running.length };
    },
  });
  return q.data ?? { inbox: 0, running: 0 };
}

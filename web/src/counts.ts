import { useQuery } from '@tanstack/react-query';
import { read, type Page, type Schema } from './api';
import { useLive, useStreamedCounts, type Counts } from './live/state';


/** What waits for a person, and what runs now: out of the change stream, or asked for where it is
 * refused; at most 100 of each are counted then. */
export function useCounts(enabled: boolean): Counts {
  const live = useLive();
  const streamed = useStreamedCounts();
  const q = useQuery({
    queryKey: ['counts'],
    enabled: enabled && !live && !streamed,
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
  return streamed ?? q.data ?? { inbox: 0, running: 0 };
}

import { useMemo } from 'react';
import { Link } from 'wouter';
import { useList, type Schema } from './api';
import { shortId } from './format';
import { sentence } from './ui';

/** The names of the company's agents; one request for all that show one. */
export function useAgentNames(): Map<string, string> {
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', { query: { fields: 'summary' } }, { limit: 100 });
  return useMemo(() => new Map(agents.rows.map((a) => [a.agent_id, a.name])), [agents.rows]);
}

/** An agent by its name, or by the beginning of its ID where it is not listed. */
export function AgentName({ id, link }: { id: string | null | undefined; link?: boolean }) {
  const names = useAgentNames();
  if (!id) return null;
  const name = names.get(id);
  const shown = name ?? <span className="mono">{shortId(id)}</span>;
  return link ? (
    <Link className="acc" href={`/agents/${id}`} onClick={(e) => e.stopPropagation()}>
      {shown}
    </Link>
  ) : (
    <>{shown}</>
  );
}

/** A member as people call them: the one who was made at the first start has no name yet. */
export function memberName(u: { name?: string | null; email?: string | null; role?: string | null; id?: string | null }): string {
  return u.name || u.email || sentence(u.role ?? '') || shortId(u.id ?? '');
}

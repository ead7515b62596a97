import { useMemo } from 'react';
import { useList, type Schema } from './api';
import type { Refs } from './schemaform';
import { work } from './strings/work';
import { Tabs } from './ui';

/** Teams, missions and initiatives: those who work together. */
export function WorkTabs({ active }: { active: 'teams' | 'missions' | 'initiatives' }) {
  return (
    <Tabs
      active={active}
      tabs={(['teams', 'missions', 'initiatives'] as const).map((id) => ({ id, label: work[id], to: `/${id}` }))}
    />
  );
}

/** Agents and teams by name, and as choices of forms. */
export function useWorkers(): { agents: Schema<'Agent'>[]; names: Map<string, string>; refs: Refs; loading: boolean } {
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', { query: { fields: 'summary' } }, { limit: 100 });
  const teams = useList<Schema<'Team'>>('/api/v1/teams', {}, { limit: 100 });
  return useMemo(
    () => ({
      agents: agents.rows,
      loading: agents.isLoading,
      names: new Map([...agents.rows.map((a) => [a.agent_id, a.name] as const), ...teams.rows.map((t) => [t.team_id, t.name] as const)]),
      refs: { agent: agents.rows.map((a) => ({ value: a.agent_id, label: a.name })), team: teams.rows.map((t) => ({ value: t.team_id, label: t.name })) },
    }),
    // eslint-disable-next-line
    [agents.data, teams.data],
  );
}

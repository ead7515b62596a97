import { lazy, useMemo } from 'react';
import { useList, type Schema } from '../api';
import { ResourcePage } from '../resource';
import type { Refs } from '../schemaform';
import { en } from '../strings/en';
import { Empty } from '../ui';
import { Audit, General } from './settings/company';
import { Keys, devices, guardrails, invites, mcp, members, schedules, sensors, targets, webhooks } from './settings/kinds';
import { Models } from './settings/models';
import { Usage } from './settings/usage';
import { Webhook } from './settings/webhook';

const Integrations = lazy(() => import('./settings/integrations'));
const Machines = lazy(() => import('./settings/machines'));
const Visitors = lazy(() => import('./settings/visitors'));
const Lists = lazy(() => import('./settings/lists'));
const Operator = lazy(() => import('./settings/operator'));

export default function Settings({ section, id, sub }: { section: string; id?: string; sub?: string }) {
  const base = `/settings/${section}`;
  switch (section) {
    case 'general':
      return <General />;
    case 'members':
      return <ResourcePage kind={members} selected={id} base={base} />;
    case 'invites':
      return <ResourcePage kind={invites} selected={id} base={base} />;
    case 'keys':
      return <Keys selected={id} base={base} />;
    case 'usage':
      return <Usage />;
    case 'audit':
      return <Audit />;
    case 'webhooks':
      return id ? <Webhook id={id} chosen={sub} /> : <ResourcePage kind={webhooks} base={base} />;
    case 'sensors':
      return <WithAgents>{(refs) => <ResourcePage kind={{ ...sensors, refs }} selected={id} base={base} />}</WithAgents>;
    case 'schedules':
      return <ResourcePage kind={schedules} selected={id} base={base} />;
    case 'mcp':
      return <ResourcePage kind={mcp} selected={id} base={base} />;
    case 'models':
      return <Models />;
    case 'notifications':
      return <ResourcePage kind={targets} selected={id} base={base} />;
    case 'guardrails':
      return <ResourcePage kind={guardrails} selected={id} base={base} />;
    case 'integrations':
      return <Integrations selected={id} base={base} />;
    case 'machines':
      return <Machines selected={id} base={base} />;
    case 'visitors':
      return <Visitors selected={id} base={base} />;
    case 'operator':
      return <Operator section={id} />;
    case 'products':
    case 'customers':
    case 'orders':
    case 'enrollments':
    case 'tasks':
    case 'a2a':
    case 'companies':
    case 'dead-letters':
      return <WithAgents>{(refs) => <Lists section={section} selected={id} refs={refs} />}</WithAgents>;
    case 'devices':
      return <ResourcePage kind={devices} selected={id} base={base} />;
  }
  return <Empty icon="search" title={en.shell.noPage} text={en.shell.noPageText} />;
}

export function WithAgents({ children }: { children: (refs: Refs) => React.ReactNode }) {
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', { query: { fields: 'summary' } }, { limit: 100 });
  const refs = useMemo<Refs>(() => ({ agent: agents.rows.map((a) => ({ value: a.agent_id, label: a.name })) }), [agents.rows]);
  return <>{children(refs)}</>;
}


import { Link } from 'wouter';
import { may, useGet, type Me } from './api';
import { Icon } from './icons';
import { areas } from './strings/areas';
import { en } from './strings/en';

const s = en.settings;

const settingsNav: { title: string; items: { id: string; label: string; role: string }[] }[] = [
  {
    title: s.company,
    items: [
      { id: 'general', label: s.general, role: 'viewer' },
      { id: 'members', label: s.members, role: 'viewer' },
      { id: 'invites', label: s.invites, role: 'admin' },
      { id: 'keys', label: s.keys, role: 'viewer' },
      { id: 'usage', label: s.usage, role: 'viewer' },
      { id: 'audit', label: s.audit, role: 'admin' },
    ],
  },
  {
    title: s.connections,
    items: [
      { id: 'webhooks', label: s.webhooks, role: 'developer' },
      { id: 'sensors', label: s.sensors, role: 'developer' },
      { id: 'schedules', label: s.schedules, role: 'viewer' },
      { id: 'tasks', label: areas.tasks, role: 'viewer' },
      { id: 'integrations', label: s.integrations, role: 'viewer' },
      { id: 'mcp', label: s.mcp, role: 'developer' },
      { id: 'a2a', label: areas.a2a, role: 'developer' },
      { id: 'machines', label: s.machines, role: 'viewer' },
      { id: 'models', label: s.models, role: 'viewer' },
      { id: 'notifications', label: s.notifications, role: 'viewer' },
    ],
  },
  { title: s.safety, items: [
      { id: 'guardrails', label: s.guardrails, role: 'developer' },
      { id: 'visitors', label: s.visitors, role: 'viewer' },
    ],
  },
  {
    title: areas.selling,
    items: [
      { id: 'products', label: areas.products, role: 'viewer' },
      { id: 'customers', label: areas.customers, role: 'viewer' },
      { id: 'orders', label: areas.orders, role: 'viewer' },
      { id: 'enrollments', label: areas.enrollments, role: 'viewer' },
    ],
  },
  { title: s.you, items: [{ id: 'devices', label: s.devices, role: 'viewer' }] },
];

/** Sections of the operator: only whoever may read one of them sees any. */
function useOperator(me: Me): boolean {
  const q = useGet('/api/v1/admin/config/logging', {}, { enabled: may(me, 'admin'), retry: false, staleTime: Infinity });
  return q.data !== undefined;
}

/** The list of settings, in the sidebar's place. */
export default function SettingsNav({ me, section }: { me: Me; section: string }) {
  const operates = useOperator(me);
  return (
    <>
      <Link className="nav" href="/">
        <Icon name="left" />
        <span>{en.settings.back}</span>
      </Link>
      {(operates ? [...settingsNav, { title: s.operator, items: [{ id: 'operator', label: s.service, role: 'admin' }, { id: 'companies', label: areas.companies, role: 'admin' }, { id: 'dead-letters', label: areas.dead, role: 'admin' }] }] : settingsNav).map((g) => (
        <div key={g.title} className="snav">
          <h2>{g.title}</h2>
          {g.items
            .filter((i) => may(me, i.role))
            .map((i) => (
              <Link key={i.id} className="nav" href={`/settings/${i.id}`} aria-current={section === i.id ? 'page' : undefined}>
                <span>{i.label}</span>
              </Link>
            ))}
        </div>
      ))}
    </>
  );
}

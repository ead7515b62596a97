import { useState } from 'react';
import { may, send, useMe } from '../../api';
import { toast } from '../../bus';
import { count, inWords, shortId } from '../../format';
import { AgentName } from '../../names';
import { ResourcePage, type Kind } from '../../resource';
import { type Value } from '../../schemaform';
import { areas as s } from '../../strings/areas';
import { Button, Confirm, FormError, Status, Time, sentence, useAction } from '../../ui';

const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));
const at = (v: unknown) => <Time at={v as string | null} />;
const looks: Record<string, string> = { paid: 'completed', refunded: 'cancelled', draft: 'pending', archived: 'cancelled', enrolled: 'active' };
const state = (v: unknown) => <Status of={looks[text(v)] ?? text(v)} label={sentence(text(v))} />;
const money = (cents: unknown, currency: unknown) => (typeof cents === 'number' ? new Intl.NumberFormat('en', { style: 'currency', currency: text(currency) || 'USD' }).format(cents / 100) : '');
const nameOfCustomer = (r: Value) => text(r.name) || [text(r.first_name), text(r.last_name)].join(' ').trim() || text(r.email);

/** Buttons for what can be done with a thing as it is now. */
function Acts({ acts, call }: { acts: string[]; call: (act: string) => Promise<unknown> }) {
  const me = useMe();
  const [busy, error, run] = useAction(async (act: string) => {
    await call(act);
    toast(s.done);
  });
  if (!may(me.data, 'developer')) return null;
  return (
    <>
      {acts.map((a) => (
        <Button key={a} small label={s.acts[a] ?? sentence(a)} busy={busy} onClick={() => void run(a)} />
      ))}
      <FormError error={error} />
    </>
  );
}

const products: Kind<Value> = {
  id: 'products',
  title: s.products,
  icon: 'folded',
  list: '/api/v1/commerce/products',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.name),
  create: { path: '/api/v1/commerce/products', role: 'developer', label: s.newProduct },
  one: { path: '/api/v1/commerce/products/{productId}', param: 'productId' },
  update: { method: 'patch', role: 'developer' },
  remove: { role: 'developer' },
  columns: [
    { label: s.name, cell: (r) => text(r.name) },
    { label: s.kind, cell: (r) => sentence(text(r.type)) },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.price, cell: (r) => money(r.price_cents, r.currency), right: true },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noProducts, text: s.noProductsText },
};

const customers: Kind<Value> = {
  id: 'customers',
  title: s.customers,
  icon: 'user',
  list: '/api/v1/commerce/customers',
  idOf: (r) => text(r.id),
  nameOf: nameOfCustomer,
  create: { path: '/api/v1/commerce/customers', role: 'developer', label: s.newCustomer },
  one: { path: '/api/v1/commerce/customers/{customerId}', param: 'customerId' },
  update: { method: 'patch', role: 'developer' },
  remove: { role: 'developer' },
  columns: [
    { label: s.name, cell: nameOfCustomer },
    { label: s.email, cell: (r) => text(r.email), wide: true },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noCustomers, text: s.noCustomersText },
};

const orders: Kind<Value> = {
  id: 'orders',
  title: s.orders,
  icon: 'runs',
  list: '/api/v1/commerce/orders',
  idOf: (r) => text(r.id),
  nameOf: (r) => money(r.amount_cents, r.currency),
  create: { path: '/api/v1/commerce/orders', role: 'developer', label: s.newOrder },
  one: { path: '/api/v1/commerce/orders/{orderId}', param: 'orderId' },
  columns: [
    { label: s.amount, cell: (r) => money(r.amount_cents, r.currency) },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.customer, cell: (r) => <span className="mono t2">{shortId(text(r.customer_id))}</span> },
    { label: s.paid, cell: (r) => at(r.paid_at), right: true },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noOrders, text: s.noOrdersText },
  actions: (r) => <Acts acts={r.status === 'pending' ? ['pay', 'fail'] : r.status === 'paid' ? ['refund'] : []} call={(a) => send('post', `/api/v1/commerce/orders/{orderId}/${a}`, { path: { orderId: text(r.id) } }, {})} />,
};

const enrollments: Kind<Value> = {
  id: 'enrollments',
  title: s.enrollments,
  icon: 'user',
  list: '/api/v1/commerce/enrollments',
  idOf: (r) => text(r.id),
  nameOf: (r) => shortId(text(r.id)),
  create: { path: '/api/v1/commerce/enrollments', role: 'developer', label: s.newEnrollment },
  one: { path: '/api/v1/commerce/enrollments/{enrollmentId}', param: 'enrollmentId' },
  columns: [
    { label: s.customer, cell: (r) => <span className="mono">{shortId(text(r.customer_id))}</span> },
    { label: s.product, cell: (r) => <span className="mono t2">{shortId(text(r.product_id))}</span> },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noEnrollments, text: s.noEnrollmentsText },
  actions: (r) => <Acts acts={r.status === 'paused' ? ['resume', 'cancel'] : r.status === 'active' ? ['complete', 'pause', 'cancel'] : []} call={(a) => send('post', `/api/v1/commerce/enrollments/{enrollmentId}/${a}`, { path: { enrollmentId: text(r.id) } }, {})} />,
};

const tasks: Kind<Value> = {
  id: 'tasks',
  title: s.tasks,
  icon: 'check',
  list: '/api/v1/todos',
  idOf: (r) => text(r.todo_id),
  nameOf: (r) => text(r.title),
  create: { path: '/api/v1/todos', role: 'developer', label: s.newTask },
  columns: [
    { label: s.title, cell: (r) => text(r.title) },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.agent, cell: (r) => text(r.agent_name) || <AgentName id={text(r.assign_agent_id)} /> },
    { label: s.repeats, cell: (r) => inWords(text((r.recurrence as Value | null)?.cron ?? r.recurrence)) ?? '' },
    { label: s.due, cell: (r) => at(r.next_fire_at ?? r.due_at), right: true },
  ],
  empty: { title: s.noTasks, text: s.noTasksText },
};

const a2a: Kind<Value> = {
  id: 'a2a',
  title: s.a2a,
  icon: 'link',
  list: '/api/v1/a2a/credentials',
  idOf: (r) => text(r.credential_id),
  nameOf: (r) => text(r.name) || text(r.url),
  create: { path: '/api/v1/a2a/credentials', role: 'developer', label: s.newA2a },
  one: { path: '/api/v1/a2a/credentials/{a2aCredentialId}', param: 'a2aCredentialId' },
  update: { method: 'patch', role: 'developer' },
  remove: { role: 'developer' },
  columns: [
    { label: s.name, cell: (r) => text(r.name) || text(r.url) },
    { label: s.address, cell: (r) => text(r.url), wide: true },
    { label: s.scheme, cell: (r) => sentence(text(r.scheme)) },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noA2a, text: s.noA2aText },
};

const companies: Kind<Value> = {
  id: 'companies',
  title: s.companies,
  icon: 'user',
  list: '/api/v1/admin/tenants',
  idOf: (r) => text(r.tenant_id),
  nameOf: (r) => text(r.name),
  create: { path: '/api/v1/admin/tenants', role: 'admin', label: s.newCompany },
  one: { path: '/api/v1/admin/tenants/{tenantId}', param: 'tenantId' },
  secret: 'raw_key',
  columns: [
    { label: s.name, cell: (r) => text(r.name) },
    { label: s.slug, cell: (r) => <span className="mono t2">{text(r.slug)}</span> },
    { label: s.status, cell: (r) => state(r.status) },
    { label: s.plan, cell: (r) => sentence(text(r.plan)) },
    { label: s.created, cell: (r) => at(r.created_at), right: true },
  ],
  empty: { title: s.noCompanies, text: s.noCompaniesText },
  actions: (r) => <CompanyActions row={r} />,
};

function CompanyActions({ row }: { row: Value }) {
  const [asking, setAsking] = useState(false);
  const path = { path: { tenantId: text(row.tenant_id) } };
  const [busy, error, reactivate] = useAction(async () => {
    await send('put', '/api/v1/admin/tenants/{tenantId}/reactivate', path, {});
    toast(s.reactivated);
  });
  if (row.operator === true) return null; // the company that runs the service
  return (
    <>
      {row.status === 'suspended' ? <Button small icon="play" label={s.reactivate} busy={busy} onClick={() => void reactivate()} /> : <Button small kind="danger" icon="pause" label={s.suspend} onClick={() => setAsking(true)} />}
      <FormError error={error} />
      {asking && (
        <Confirm
          title={s.suspendTitle(text(row.name))}
          text={s.suspendText}
          action={s.suspend}
          danger
          onClose={() => setAsking(false)}
          onConfirm={async () => {
            await send('put', '/api/v1/admin/tenants/{tenantId}/suspend', path, {});
            toast(s.suspended);
          }}
        />
      )}
    </>
  );
}

const dead: Kind<Value> = {
  id: 'dead-letters',
  title: s.dead,
  icon: 'hook',
  list: '/api/v1/admin/webhooks/dlq',
  idOf: (r) => text(r.eventId),
  nameOf: (r) => text(r.eventType),
  columns: [
    { label: s.event, cell: (r) => <span className="mono">{text(r.eventType)}</span> },
    { label: s.error, cell: (r) => text(r.errorMessage), wide: true },
    { label: s.attempts, cell: (r) => count(r.attempts as number), right: true },
    { label: s.at, cell: (r) => at(r.timestamp), right: true },
  ],
  empty: { title: s.noDead, text: s.noDeadText },
  actions: (r) => <Replay id={text(r.eventId)} />,
};

function Replay({ id }: { id: string }) {
  const [busy, error, run] = useAction(async () => {
    await send('post', '/api/v1/admin/webhooks/dlq/{eventId}/replay', { path: { eventId: id } }, {});
    toast(s.replayed);
  });
  return (
    <>
      <Button small icon="refresh" label={s.replay} busy={busy} onClick={() => void run()} />
      <FormError error={error} />
    </>
  );
}

const all: Record<string, Kind<Value>> = { products, customers, orders, enrollments, tasks, a2a, companies, 'dead-letters': dead };

/** What is sold, tasks, credentials for other agents, and the operator's lists. */
export default function Lists({ section, selected, refs }: { section: string; selected?: string; refs: Kind['refs'] }) {
  const kind = all[section]!;
  return <ResourcePage kind={{ ...kind, refs }} selected={selected} base={`/settings/${section}`} />;
}


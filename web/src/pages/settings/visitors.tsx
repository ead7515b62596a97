import { Link, useSearch } from 'wouter';
import { api, may, send, useList, useMe, type Schema } from '../../api';
import { toast } from '../../bus';
import { Facts, ResourcePage, type Kind } from '../../resource';
import type { Value } from '../../schemaform';
import { connect } from '../../strings/connect';
import { Button, Empty, Failure, Head, Loading, Status, Tabs, Time, copy, sentence } from '../../ui';
import { useWorkers } from '../../worktabs';

const s = connect.visitors;
type Agent = Schema<'Agent'>;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));

export default function Visitors({ selected, base }: { selected?: string; base: string }) {
  const reports = new URLSearchParams(useSearch()).get('tab') === 'reports' || !!selected;
  const w = useWorkers();
  const tabs = (
    <Tabs
      active={reports ? 'reports' : 'agents'}
      tabs={[
        { id: 'agents', label: s.agents, to: base },
        { id: 'reports', label: s.reports, to: `${base}?tab=reports` },
      ]}
    />
  );
  if (!reports) return <PublicAgents tabs={tabs} />;
  const kind: Kind<Value> = {
    id: 'reports',
    title: s.title,
    icon: 'shield',
    list: '/api/v1/visitor-reports',
    idOf: (r) => text(r.report_id),
    nameOf: (r) => sentence(text(r.reason)),
    one: { path: '/api/v1/visitor-reports/{visitorReportId}', param: 'visitorReportId' },
    remove: { role: 'admin', label: s.remove },
    before: tabs,
    columns: [
      { label: s.reason, cell: (r) => sentence(text(r.reason)) },
      { label: s.status, cell: (r) => <Status of={text(r.status)} /> },
      { label: s.agent, cell: (r) => w.names.get(text(r.agent_id)) ?? '' },
      { label: s.details, cell: (r) => text(r.details), wide: true },
      { label: s.when, cell: (r) => <Time at={text(r.created_at)} />, right: true },
    ],
    empty: { title: s.noReports, text: s.noReportsText },
    actions: (r) => <Decide row={r} />,
    detail: (r) => (
      <>
        <p style={{ whiteSpace: 'pre-wrap', margin: '12px 0' }}>{text(r.details)}</p>
        <Facts value={r} skip={['tenant_id', 'details']} />
      </>
    ),
  };
  return <ResourcePage kind={kind} selected={selected} base={base} />;
}

function Decide({ row }: { row: Value }) {
  const me = useMe();
  if (!may(me.data, 'developer')) return null;
  const to = (status: string) => () => void send('patch', '/api/v1/visitor-reports/{visitorReportId}', { path: { visitorReportId: text(row.report_id) } }, { status }).then(() => toast(s.changed), (e: Error) => toast(e.message, true));
  return (
    <>
      {row.status !== 'resolved' && <Button small icon="check" label={s.resolve} onClick={to('resolved')} />}
      {row.status !== 'dismissed' && <Button small icon="x" label={s.dismiss} onClick={to('dismissed')} />}
    </>
  );
}

function PublicAgents({ tabs }: { tabs: React.ReactNode }) {
  const list = useList<Agent>('/api/v1/agents', {}, { limit: 100, every: 20_000 });
  const rows = list.rows.filter((a) => a.visibility === 'public');
  return (
    <>
      <Head title={s.title} />
      {tabs}
      {list.error && rows.length === 0 ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : list.isLoading ? (
        <Loading />
      ) : rows.length === 0 ? (
        <Empty icon="agents" title={s.none} text={s.noneText} />
      ) : (
        <ul className="col pad" style={{ gap: 12, maxWidth: 820 }}>
          {rows.map((a) => {
            const tag = `<script src="${api.baseUrl}/widget.js" data-agent="${a.agent_id}" async></script>`;
            return (
              <li key={a.agent_id} className="card pad">
                <div className="row wrap">
                  <Link className="b grow" href={`/agents/${a.agent_id}`}>
                    {a.name}
                  </Link>
                  <Status of={a.status} />
                  <Button small icon="code" label={s.copyEmbed} onClick={() => void copy(tag)} />
                  <Button small kind="quiet" icon="link" label={s.copyCard} onClick={() => void copy(`${api.baseUrl}/api/v1/public/agents/${a.agent_id}`)} />
                </div>
                {a.description && <p className="t2" style={{ marginTop: 4 }}>{a.description}</p>}
                <p className="lbl" style={{ margin: '10px 0 4px' }}>{s.embed}</p>
                <pre className="code" tabIndex={0} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{tag}</pre>
              </li>
            );
          })}
        </ul>
      )}
    </>
  );
}

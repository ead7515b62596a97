import { useMemo, useState } from 'react';
import { curlOf, may, send, useGet, useList, useMe, type Schema } from '../../api';
import { toast } from '../../bus';
import { shortId } from '../../format';
import { Icon } from '../../icons';
import { memberName } from '../../names';
import { Facts } from '../../resource';
import { type Value } from '../../schemaform';
import { en } from '../../strings/en';
import { Block, Button, Empty, Failure, Field, FormError, Head, Loading, Time, copy, sentence, useAction } from '../../ui';

const s = en.settings;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));
export function General() {
  const me = useMe();
  const company = useGet<Value>('/api/v1/tenants/me');
  const writes = may(me.data, 'admin', 'tenants:write');
  const [name, setName] = useState<string>();
  const [busy, error, run] = useAction(async () => {
    await send('patch', '/api/v1/tenants/me', {}, { name });
    toast(en.resource.saved);
    setName(undefined);
  });
  return (
    <>
      <Head title={s.general} curl={curlOf('GET', '/api/v1/tenants/me')} />
      <section className="sec" style={{ borderTop: 0, maxWidth: 720 }}>
        <Block q={company}>
          {(c) => (
            <>
              <form
                onSubmit={(e) => {
                  e.preventDefault();
                  void run();
                }}
              >
                <Field label={s.companyName}>{(p) => <input {...p} className="in" disabled={!writes} maxLength={200} value={name ?? text(c.name)} onChange={(e) => setName(e.target.value)} />}</Field>
                {writes && <Button type="submit" kind="primary" label={en.common.save} busy={busy} disabled={name === undefined || name === c.name} />}
                <FormError error={error} />
              </form>
              <Facts value={c} skip={['name', 'quotas', 'settings']} />
              <NotStored of={(c.settings ?? {}) as Value} writes={writes} />
              <Quotas of={(c.quotas ?? {}) as Value} />
            </>
          )}
        </Block>
      </section>
    </>
  );
}

const personal = ['email', 'phone', 'credit_card', 'iban', 'ip_address', 'us_ssn', 'api_key'];

/** The kinds of data that runs and sessions do not store. */
function NotStored({ of, writes }: { of: Value; writes: boolean }) {
  const stored = (of.redact ?? []) as string[];
  const [chosen, setChosen] = useState<string[]>();
  const now = chosen ?? stored;
  const [busy, error, run] = useAction(async () => {
    await send('patch', '/api/v1/tenants/me', {}, { settings: { redact: now.length > 0 ? now : null } });
    toast(en.resource.saved);
    setChosen(undefined);
  });
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        void run();
      }}
    >
      <h2 className="h2" style={{ margin: '18px 0 4px' }}>{s.notStored}</h2>
      <p className="t2 fs12" style={{ marginBottom: 8 }}>{s.notStoredText}</p>
      <div className="row wrap" role="group" aria-label={s.notStored} style={{ gap: 16, marginBottom: 8 }}>
        {personal.map((kind) => (
          <label key={kind} className="check">
            <input type="checkbox" disabled={!writes} checked={now.includes(kind)} onChange={(e) => setChosen(personal.filter((k) => (k === kind ? e.target.checked : now.includes(k))))} /> {s.personal[kind]}
          </label>
        ))}
      </div>
      {writes && <Button type="submit" label={en.common.save} busy={busy} disabled={chosen === undefined || chosen.join() === stored.join()} />}
      <FormError error={error} />
    </form>
  );
}

/** What the company may use at most. */
function Quotas({ of }: { of: Value }) {
  const set = Object.entries(of).filter(([, v]) => v !== null);
  return (
    <>
      <h2 className="h2" style={{ margin: '18px 0 8px' }}>{s.quotas}</h2>
      {set.length === 0 ? (
        <p className="t2">{s.noQuotas}</p>
      ) : (
        <dl className="kv">
          {set.map(([k, v]) => (
            <div key={k} style={{ display: 'contents' }}>
              <dt>{sentence(k)}</dt>
              <dd className="num">{Number(v).toLocaleString('en')}</dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}

export function Audit() {
  const [action, setAction] = useState('');
  const list = useList<Schema<'AuditEntry'>>('/api/v1/admin/audit', { query: { action: action || undefined } }, { limit: 100, every: 15_000 });
  const users = useList<{ id: string; name?: string; email?: string; role?: string }>('/api/v1/users', {}, { limit: 100 });
  const names = useMemo(() => new Map(users.rows.map((u) => [u.id, memberName(u)])), [users.rows]);
  const [chosen, setChosen] = useState('');
  const sel = list.rows.find((e) => e.entry_id === chosen);
  return (
    <>
      <Head title={s.audit} curl={curlOf('GET', '/api/v1/admin/audit', { query: { limit: 100, action: action || undefined } })} />
      <div className="tb">
        <span className="find-in wide">
          <Icon name="filter" small />
          <input type="search" value={action} placeholder={s.auditAction} aria-label={s.auditAction} onChange={(e) => setAction(e.target.value)} />
        </span>
      </div>
      {list.error && list.rows.length === 0 ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : list.isLoading ? (
        <Loading />
      ) : list.rows.length === 0 ? (
        <Empty icon="hist" title={s.noAudit} text={s.noAuditText} />
      ) : (
        <div className={sel ? 'spl' : ''}>
          <div>
            <div className="tblw">
              <table className="tbl compact">
                <thead>
                  <tr>
                    <th>{s.what}</th>
                    <th>{s.who}</th>
                    <th>{s.target}</th>
                    <th>{s.address}</th>
                    <th className="r">{s.at}</th>
                  </tr>
                </thead>
                <tbody>
                  {list.rows.map((e) => (
                    <tr key={e.entry_id} className="go" data-selected={e.entry_id === chosen || undefined} onClick={() => setChosen(e.entry_id)}>
                      <td>
                        <button type="button" className="lnk mono b" onClick={() => setChosen(e.entry_id)}>
                          {e.action}
                        </button>
                      </td>
                      <td className="t2">{names.get(e.actor_user_id ?? '') ?? shortId(e.actor_user_id)}</td>
                      <td className="t2">
                        {sentence(e.target_type ?? '')} <span className="mono">{shortId(e.target_id)}</span>
                      </td>
                      <td className="mono t3">{e.ip_address}</td>
                      <td className="r t2">
                        <Time at={e.timestamp} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {list.hasNextPage && (
              <div className="more">
                <Button small kind="quiet" label={s.older} busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()} />
              </div>
            )}
          </div>
          {sel && (
            <aside aria-label={sel.action}>
              <div className="row">
                <h2 className="h2 mono grow">{sel.action}</h2>
                <Button small kind="quiet" icon="copy" label={en.common.copy} onClick={() => void copy(JSON.stringify(sel, null, 2))} />
              </div>
              <Facts value={sel as unknown as Value} />
            </aside>
          )}
        </div>
      )}
    </>
  );
}

import { useState } from 'react';
import { Link } from 'wouter';
import { curlOf, send, useGet, type Schema } from '../../api';
import { toast } from '../../bus';
import { ago, shortId } from '../../format';
import { Icon } from '../../icons';
import { en } from '../../strings/en';
import { Block, Button, Dialog, Empty, Failure, FormError, Head, Json, Loading, Status, Time, useAction } from '../../ui';

const s = en.settings;
type Delivery = Schema<'WebhookDelivery'>;

/** Did it arrive: deliveries, what was sent, what came back, and sending it again. */
export function Webhook({ id, chosen }: { id: string; chosen?: string }) {
  const path = { path: { webhookId: id } };
  const hook = useGet<Schema<'WebhookSubscription'>>('/api/v1/webhooks/{webhookId}', path, { every: 5000 });
  const list = useGet<{ deliveries: Delivery[]; total: number }>('/api/v1/webhooks/{webhookId}/deliveries', { ...path, query: { limit: 100 } }, { every: 3000 });
  const [asking, setAsking] = useState(false);
  const w = hook.data;
  const act = (p: Promise<unknown>, what: string) => void p.then(() => toast(what), (e: Error) => toast(e.message, true));
  if (!w) return <Block q={hook}>{() => null}</Block>;
  const rows = list.data?.deliveries ?? [];
  const sel = rows.find((d) => d.delivery_id === chosen);
  return (
    <>
      <Head crumbs={[{ label: s.webhooks, to: '/settings/webhooks' }]} title={w.url.replace(/^https?:\/\//, '')} after={<Status of={w.status} />} curl={curlOf('GET', '/api/v1/webhooks/{webhookId}/deliveries', path)}>
        {w.status === 'disabled' && <Button icon="play" label={s.enable} onClick={() => act(send('post', '/api/v1/webhooks/{webhookId}/enable', path, {}), s.enabled)} />}
        <Button icon="send" label={s.sendTest} onClick={() => act(send('post', '/api/v1/webhooks/{webhookId}/test', path, {}), s.testSent)} />
        <Button kind="danger" icon="trash" label={en.common.delete} onClick={() => setAsking(true)} />
      </Head>
      {w.status !== 'active' && (
        <div className="note warn exp">
          <Icon name="s-waiting" />
          <div className="grow">
            <b className="b">{w.status === 'disabled' ? s.hookDisabled(w.failure_count) : s.hookFailing(w.failure_count)}</b> <span className="t2">{w.last_failure_at ? s.lastFailure(ago(w.last_failure_at)) : ''}</span>
          </div>
        </div>
      )}
      <div className="facts">
        <span>
          {s.events} <b className="mono">{w.events.join(' ')}</b>
        </span>
        <span>
          {s.created} <b>{ago(w.created_at)}</b>
        </span>
      </div>
      <div className={sel ? 'spl' : ''} style={{ borderTop: '1px solid var(--line)' }}>
        <div>
          {list.isLoading ? (
            <Loading />
          ) : list.error ? (
            <Failure error={list.error} />
          ) : rows.length === 0 ? (
            <Empty icon="hook" title={s.noDeliveries} text={s.noDeliveriesText}>
              <Button icon="send" label={s.sendTest} onClick={() => act(send('post', '/api/v1/webhooks/{webhookId}/test', path, {}), s.testSent)} />
            </Empty>
          ) : (
            <div className="tblw">
              <table className="tbl compact">
                <thead>
                  <tr>
                    <th>{s.result}</th>
                    <th>{s.event}</th>
                    <th className="r">{s.response}</th>
                    <th className="r">{s.latency}</th>
                    <th className="r">{s.attempt}</th>
                    <th>{s.nextTry}</th>
                    <th className="r">{s.at}</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((d) => (
                    <tr key={d.delivery_id} data-selected={d.delivery_id === chosen || undefined}>
                      <td>
                        <Status of={d.status === 'success' ? 'delivered' : d.status === 'failed' ? (d.next_retry_at ? 'retrying' : 'gave_up') : 'queued'} label={s.results[d.status === 'failed' && d.next_retry_at ? 'retrying' : d.status] ?? d.status} />
                      </td>
                      <td>
                        <Link className="mono b" href={`/settings/webhooks/${id}/${d.delivery_id}`}>
                          {d.event_type}
                        </Link>
                      </td>
                      <td className="r mono t2">{d.response_status ?? (d.status === 'pending' ? '' : s.noAnswer)}</td>
                      <td className="r num t2">{d.latency_ms !== null ? `${Math.round(d.latency_ms)} ms` : ''}</td>
                      <td className="r num t2">{d.attempt_number}</td>
                      <td className="t2">{d.next_retry_at && Date.parse(d.next_retry_at) > Date.now() ? <Time at={d.next_retry_at} /> : ''}</td>
                      <td className="r t2">
                        <Time at={d.created_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </div>
        {sel && <DeliveryPanel id={id} delivery={sel} />}
      </div>
      {asking && (
        <Dialog
          title={s.deleteHook}
          onClose={() => setAsking(false)}
          footer={
            <>
              <span className="grow" />
              <Button kind="quiet" label={en.common.cancel} onClick={() => setAsking(false)} />
              <Button kind="danger" label={en.common.delete} onClick={() => void send('delete', '/api/v1/webhooks/{webhookId}', path).then(() => history.back(), (e: Error) => toast(e.message, true))} />
            </>
          }
        >
          <p className="t2">{s.deleteHookText}</p>
        </Dialog>
      )}
    </>
  );
}

function DeliveryPanel({ id, delivery }: { id: string; delivery: Delivery }) {
  const path = { path: { webhookId: id, deliveryId: delivery.delivery_id } };
  const full = useGet<Delivery>('/api/v1/webhooks/{webhookId}/deliveries/{deliveryId}', path, { retry: false });
  const [busy, error, run] = useAction(async () => {
    await send('post', '/api/v1/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver', path, {});
    toast(s.redelivered);
  });
  const d = full.data ?? delivery;
  let body: unknown = d.request_body;
  try {
    body = d.request_body ? JSON.parse(d.request_body) : undefined;
  } catch {
    // It is shown as it is.
  }
  return (
    <aside aria-label={s.delivery}>
      <div className="row">
        <b className="b mono grow">{d.event_type}</b>
        <Button small icon="refresh" label={s.redeliver} busy={busy} onClick={() => void run()} />
      </div>
      <p className="fs12 t3 mono" style={{ marginTop: 4 }}>
        {s.event} {shortId(d.event_id)}
      </p>
      {d.error_message && (
        <div className="note bad" style={{ marginTop: 10 }}>
          <Icon name="s-failed" />
          <p>{d.error_message}</p>
        </div>
      )}
      <FormError error={error} />
      {body !== undefined && (
        <>
          <h3 className="lbl" style={{ margin: '14px 0 6px' }}>{s.sent}</h3>
          <Json value={body} max={80} />
        </>
      )}
      <h3 className="lbl" style={{ marginTop: 14 }}>{s.howToFix}</h3>
      <p className="fs12 t2" style={{ marginTop: 4 }}>{s.howToFixText}</p>
    </aside>
  );
}


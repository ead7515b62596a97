import { lazy, Suspense, useMemo, useState } from 'react';
import { curlOf, may, send, useGet, useMe, type Schema } from '../../api';
import { toast } from '../../bus';
import { bytes, count, usd } from '../../format';
import { en } from '../../strings/en';
import { Block, Button, Dialog, Failure, Field, FormError, Head, Loading, Select, sentence, useAction } from '../../ui';

const s = en.settings;
const Chart = lazy(() => import('../../chart'));
export function Usage() {
  const me = useMe();
  const [days, setDays] = useState('30');
  const series = useGet<Schema<'AnalyticsTimeseries'>>('/api/v1/analytics/timeseries', { query: { metrics: 'cost,tokens,runs', days } }, { retry: false });
  const quota = useGet<Schema<'QuotaStatus'>>('/api/v1/usage/quota', {}, { retry: false });
  const usage = useGet<Schema<'UsageSummary'>>('/api/v1/usage', { query: { days, breakdown: 'model' } }, { retry: false });
  const budget = useGet<Schema<'BillingBudget'>>('/api/v1/billing/budget', {}, { retry: false });
  const [editing, setEditing] = useState(false);
  const values = (series.data?.series[0]?.values ?? {}) as Record<string, (number | null)[]>;
  const cost = useMemo(() => [{ label: en.overview.cost, values: values.cost ?? [], color: '--chart-2', bars: true }], [values]);
  const tokens = useMemo(() => [{ label: en.overview.tokens, values: values.tokens ?? [], color: '--chart-2', bars: true }], [values]);
  return (
    <>
      <Head title={s.usage} curl={curlOf('GET', '/api/v1/usage', { query: { days } })}>
        <Select aria-label={en.overview.range} value={days} onChange={setDays} options={[['7', en.overview.days7], ['30', en.overview.days30], ['90', s.days90]] as const} />
      </Head>
      <div className="ovg">
        <div>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{en.overview.cost}</h2>
            {series.data ? (
              <Suspense fallback={<Loading rows={3} />}>
                <Chart dates={series.data.dates} series={cost} finding={s.findingCost(usd((series.data.series[0]?.totals as Record<string, number> | undefined)?.cost ?? 0), Number(days))} format={usd} height={150} />
              </Suspense>
            ) : series.error ? (
              <Failure error={series.error} />
            ) : (
              <Loading rows={3} />
            )}
          </section>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{en.overview.tokens}</h2>
            {series.data && (
              <Suspense fallback={<Loading rows={3} />}>
                <Chart dates={series.data.dates} series={tokens} finding={s.findingTokens(count((series.data.series[0]?.totals as Record<string, number> | undefined)?.tokens ?? 0), Number(days))} format={count} height={150} />
              </Suspense>
            )}
          </section>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.byModel}</h2>
            <Block q={usage} rows={3}>
              {(u) => (
                <table className="tbl flush compact">
                  <thead>
                    <tr>
                      <th>{s.model}</th>
                      <th className="r">{s.calls}</th>
                      <th className="r">{en.overview.tokens}</th>
                      <th className="r">{en.overview.cost}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {(u.by_model ?? []).map((m) => {
                      const x = m as unknown as Record<string, number & string>;
                      return (
                        <tr key={x.model}>
                          <td className="mono">{x.model}</td>
                          <td className="r num t2">{count(x.llm_calls_count ?? x.calls)}</td>
                          <td className="r num t2">{count(x.total_tokens ?? Number(x.input_tokens ?? 0) + Number(x.output_tokens ?? 0))}</td>
                          <td className="r num">{usd(x.total_cost ?? x.cost_usd ?? x.cost)}</td>
                        </tr>
                      );
                    })}
                  </tbody>
                </table>
              )}
            </Block>
          </section>
        </div>
        <aside>
          <section className="sec">
            <div className="row">
              <h2 className="grow">{en.overview.budget}</h2>
              {may(me.data, 'admin') && <Button small label={budget.data?.configured ? en.common.edit : s.setBudget} onClick={() => setEditing(true)} />}
            </div>
            {budget.data?.status ? (
              <>
                <p style={{ marginTop: 8 }}>
                  <span className="big">{usd(budget.data.status.spent_usd)}</span> <span className="t2">{en.overview.of(usd(budget.data.status.limit_usd))}</span>
                </p>
                <div className="meter" style={{ marginTop: 8 }}>
                  <i style={{ width: `${Math.min(100, budget.data.status.utilization * 100)}%` }} />
                </div>
              </>
            ) : (
              <p className="t2 fs12" style={{ marginTop: 6 }}>{s.noBudget}</p>
            )}
          </section>
          <section className="sec">
            <h2 style={{ marginBottom: 8 }}>{s.plan}</h2>
            <Block q={quota} rows={3}>
              {(p) => (
                <>
                  <p className="t2 fs12">{sentence(p.plan)}</p>
                  <dl className="kv" style={{ marginTop: 8 }}>
                    {p.counters.map((c) => (
                      <div key={c.resource} style={{ display: 'contents' }}>
                        <dt>{sentence(c.resource)}</dt>
                        <dd className="num">
                          {count(c.used)} {c.limit !== null && <span className="t3">{en.overview.of(count(c.limit))}</span>}
                        </dd>
                      </div>
                    ))}
                    {usage.data && (
                      <>
                        <dt>{s.storage}</dt>
                        <dd className="num">{bytes(usage.data.storage_bytes)}</dd>
                      </>
                    )}
                  </dl>
                </>
              )}
            </Block>
          </section>
        </aside>
      </div>
      {editing && <SetBudget now={budget.data?.budget?.limit_usd} onClose={() => setEditing(false)} />}
    </>
  );
}

function SetBudget({ now, onClose }: { now?: number; onClose: () => void }) {
  const [limit, setLimit] = useState(now === undefined ? '' : String(now));
  const [period, setPeriod] = useState('monthly');
  const [busy, error, run] = useAction(async () => {
    await send('put', '/api/v1/billing/budget', {}, { limit_usd: Number(limit), period });
    toast(en.resource.saved);
    onClose();
  });
  return (
    <Dialog
      title={s.setBudget}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="budget" label={en.common.save} busy={busy} disabled={!limit} />
        </>
      }
    >
      <form
        id="budget"
        onSubmit={(e) => {
          e.preventDefault();
          void run();
        }}
      >
        <Field label={s.limitUsd} help={s.limitHelp}>
          {(p) => <input {...p} className="in num" type="number" min="0" step="0.01" value={limit} onChange={(e) => setLimit(e.target.value)} />}
        </Field>
        <Field label={s.period}>{(p) => <Select {...p} value={period} onChange={setPeriod} options={['monthly', 'weekly', 'daily'].map((x) => [x, sentence(x)] as const)} />}</Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}


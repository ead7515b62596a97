import { useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { curlOf, may, send, useGet, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { count, shortId, span, usd } from '../format';
import { Icon } from '../icons';
import { useSettled } from '../palette';
import { Facts, ResourcePage, type Kind } from '../resource';
import type { Value } from '../schemaform';
import { en } from '../strings/en';
import { market as s } from '../strings/market';
import { Text } from '../turn';
import { Block, Button, Dialog, Empty, Failure, Field, FormError, Head, Json, Loading, Select, Status, Tabs, Time, sentence, useAction } from '../ui';
import { useWorkers } from '../worktabs';

type Listing = Schema<'MarketplaceListing'>;
type Invocation = Schema<'MarketplaceInvocation'>;
type Section = keyof typeof s.tabs;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));
const base = '/marketplace';

export default function Marketplace({ section, id }: { section: string; id?: string }) {
  if (section === 'browse' && id) return <OneListing id={id} />;
  if (section === 'calls' && id) return <OneCall id={id} />;
  switch (section as Section) {
    case 'subscribed':
      return <Subscriptions />;
    case 'mine':
      return <Mine id={id} />;
    case 'calls':
      return <Calls />;
  }
  return <Browse />;
}

function MarketTabs({ active }: { active: Section }) {
  return <Tabs active={active} tabs={(Object.keys(s.tabs) as Section[]).map((x) => ({ id: x, label: s.tabs[x], to: x === 'browse' ? base : `${base}/${x}` }))} />;
}

function Revenue() {
  const q = useGet<Schema<'MarketplaceRevenue'>>('/api/v1/marketplace/revenue', {}, { retry: false });
  return q.data && q.data.earned_usd + q.data.spent_usd > 0 ? <span className="n">{s.revenue(usd(q.data.earned_usd), usd(q.data.spent_usd))}</span> : null;
}

/** The price of a listing, as its pricing says. */
function price(l: Pick<Listing, 'pricing'>): string {
  const p = l.pricing as { model?: string } & Record<string, unknown>;
  for (const [k, said] of [
    ['price_per_run_usd', s.perCall],
    ['price_per_1k_tokens_usd', s.perTokens],
    ['price_per_month_usd', s.perMonth],
  ] as const) {
    if (typeof p[k] === 'number' && (p[k] as number) > 0) return said(usd(p[k] as number));
  }
  return !p.model || p.model === 'free' ? s.free : sentence(p.model);
}

function Browse() {
  const [, go] = useLocation();
  const params = new URLSearchParams(useSearch());
  const [q, setQ] = useState(params.get('q') ?? '');
  const asked = useSettled(q, 200);
  const category = params.get('category') ?? '';
  const sort = params.get('sort') ?? 'recency';
  const categories = useGet<{ categories: string[] }>('/api/v1/marketplace/categories', {}, { staleTime: Infinity });
  const query = { q: asked || undefined, category: category || undefined, sort, limit: 100 };
  const found = useGet<{ items: Listing[] }>('/api/v1/marketplace/search', { query }, { placeholderData: (b: unknown) => b as never });
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(params);
    if (value) next.set(name, value);
    else next.delete(name);
    go(`${base}${next.size ? `?${next}` : ''}`, { replace: true });
  };
  const rows = found.data?.items ?? [];
  return (
    <>
      <Head title={s.title} crumbs={[{ label: s.agents, to: '/agents' }]} curl={curlOf('GET', '/api/v1/marketplace/search', { query })} after={<Revenue />} />
      <MarketTabs active="browse" />
      <div className="tb">
        <span className="find-in">
          <Icon name="search" small />
          <input type="search" value={q} placeholder={s.search} aria-label={s.search} onChange={(e) => setQ(e.target.value)} />
        </span>
        <select className="chipsel" aria-label={s.category} value={category} onChange={(e) => set('category', e.target.value)}>
          <option value="">{s.any}</option>
          {(categories.data?.categories ?? []).map((c) => (
            <option key={c} value={c}>
              {sentence(c)}
            </option>
          ))}
        </select>
        <select className="chipsel" aria-label={s.sort} value={sort} onChange={(e) => set('sort', e.target.value)}>
          {Object.entries(s.sorts).map(([v, l]) => (
            <option key={v} value={v}>
              {l}
            </option>
          ))}
        </select>
      </div>
      {found.error && !found.data ? (
        <Failure error={found.error} retry={() => void found.refetch()} />
      ) : found.isLoading ? (
        <Loading />
      ) : rows.length === 0 ? (
        <Empty icon="search" title={asked || category ? s.noMatch : s.none} text={s.noneText} />
      ) : (
        <ul className="tpl pad">
          {rows.map((l) => (
            <li key={l.listing_id} className="card pad">
              <Link className="b" href={`${base}/browse/${l.listing_id}`}>
                {l.name}
              </Link>{' '}
              <span className="tag">{sentence(l.category)}</span>
              <p className="t2" style={{ margin: '4px 0' }}>{l.description}</p>
              <p className="t2 fs12 num">{[price(l), s.rated(l.stats.rating_avg, l.stats.rating_count), s.calls(l.stats.invocation_count)].join(' · ')}</p>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function OneListing({ id }: { id: string }) {
  const path = { path: { listingId: id } };
  const me = useMe();
  const acts = may(me.data, 'developer', 'agents:write');
  const q = useGet<Listing>('/api/v1/marketplace/listings/{listingId}', path);
  const mine = useGet<{ subscriptions: Schema<'MarketplaceSubscription'>[] }>('/api/v1/marketplace/subscriptions', {}, { retry: false });
  const reviews = useGet<{ reviews: Schema<'MarketplaceListingRating'>[] }>('/api/v1/marketplace/listings/{listingId}/reviews', { ...path, query: { limit: 50 } }, { retry: false });
  const [asking, setAsking] = useState<'' | 'invoke' | 'rate'>('');
  const subscribed = mine.data?.subscriptions.some((x) => x.listing_id === id && x.status === 'active');
  const act = (p: Promise<unknown>, said: string) => void p.then(() => toast(said), (e: Error) => toast(e.message, true));
  if (!q.data) return <Block q={q}>{() => null}</Block>;
  const l = q.data;
  const facts: [string, React.ReactNode][] = [
    [s.price, price(l)],
    [s.rating, s.rated(l.stats.rating_avg, l.stats.rating_count)],
    [s.tabs.calls, count(l.stats.invocation_count)],
    [s.version, l.agent_version],
    [s.listed, <Time key="t" at={l.created_at} />],
  ];
  return (
    <>
      <Head crumbs={[{ label: s.title, to: base }]} title={l.name} after={<span className="tag">{sentence(l.category)}</span>} curl={curlOf('POST', '/api/v1/marketplace/listings/{listingId}/invoke', path, { input: { message: 'Hello' } })}>
        {acts && <Button kind="quiet" label={s.favourite} onClick={() => act(send('put', '/api/v1/marketplace/listings/{listingId}/favourite', path, {}), s.kept)} />}
        {acts && (subscribed || (l.pricing as { model?: string }).model === 'subscription') && (subscribed ? <Button label={s.unsubscribe} onClick={() => act(send('delete', '/api/v1/marketplace/listings/{listingId}/subscribe', path), en.common.done)} /> : <Button icon="plus" label={s.subscribe} onClick={() => act(send('post', '/api/v1/marketplace/listings/{listingId}/subscribe', path, {}), s.subscribed)} />)}
        {acts && <Button kind="primary" icon="play" label={s.invoke} onClick={() => setAsking('invoke')} />}
      </Head>
      <div className="facts">
        {facts
          .filter(([, v]) => v !== '')
          .map(([k, v]) => (
            <span key={k}>
              {k} <b>{v}</b>
            </span>
          ))}
      </div>
      <div className="ovg" style={{ borderTop: '1px solid var(--line)' }}>
        <div>
          <section className="sec">
            <p className={l.description ? '' : 't3'}>{l.description || s.noText}</p>
            {l.readme && <div className="msg" data-one="" style={{ marginTop: 12 }}><Text text={l.readme} /></div>}
            {l.tags.length > 0 && (
              <p className="row wrap" style={{ marginTop: 12 }}>
                {l.tags.map((t) => (
                  <span key={t} className="tag">
                    {t}
                  </span>
                ))}
              </p>
            )}
          </section>
        </div>
        <aside>
          <section className="sec">
            <div className="row">
              <h2 className="grow">{s.reviews}</h2>
              {acts && <Button small label={s.rate} onClick={() => setAsking('rate')} />}
            </div>
            <ul className="col" style={{ gap: 10, marginTop: 8 }}>
              {(reviews.data?.reviews ?? []).length === 0 && <li className="t2">{s.noReviews}</li>}
              {(reviews.data?.reviews ?? []).map((r) => (
                <li key={r.rating_id}>
                  <b className="b num">{r.rating}/5</b> <Time at={r.created_at} className="t3 fs12" />
                  <p className="t2">{r.review || r.comment}</p>
                </li>
              ))}
            </ul>
          </section>
        </aside>
      </div>
      {asking === 'invoke' && <Invoke listing={l} onClose={() => setAsking('')} />}
      {asking === 'rate' && <Rate id={id} onClose={() => setAsking('')} />}
    </>
  );
}

function Invoke({ listing, onClose }: { listing: Listing; onClose: () => void }) {
  const [, go] = useLocation();
  const [message, setMessage] = useState('');
  const [busy, error, run] = useAction(async () => {
    const made = await send<Invocation>('post', '/api/v1/marketplace/listings/{listingId}/invoke', { path: { listingId: listing.listing_id } }, { input: { message } });
    onClose();
    go(`${base}/calls/${made.invocation_id}`);
  });
  return (
    <Dialog
      title={listing.name}
      onClose={onClose}
      footer={
        <>
          <span className="t2 fs12 grow">{price(listing)}</span>
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" icon="play" type="submit" form="invoke" label={s.invoke} busy={busy} disabled={!message.trim()} />
        </>
      }
    >
      <form id="invoke" onSubmit={(e) => (e.preventDefault(), void run())}>
        <Field label={s.message}>{(p) => <textarea {...p} className="in" rows={4} value={message} onChange={(e) => setMessage(e.target.value)} />}</Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

function Rate({ id, onClose }: { id: string; onClose: () => void }) {
  const [rating, setRating] = useState('5');
  const [review, setReview] = useState('');
  const [busy, error, run] = useAction(async () => {
    await send('post', '/api/v1/marketplace/listings/{listingId}/rate', { path: { listingId: id } }, { rating: Number(rating), ...(review.trim() ? { review: review.trim() } : {}) });
    toast(s.sent);
    onClose();
  });
  return (
    <Dialog
      title={s.rate}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="rate" label={s.rate} busy={busy} />
        </>
      }
    >
      <form id="rate" onSubmit={(e) => (e.preventDefault(), void run())}>
        <Field label={s.rating}>{(p) => <Select {...p} value={rating} onChange={setRating} options={['5', '4', '3', '2', '1'].map((n) => [n, n] as const)} />}</Field>
        <Field label={s.review} optional>{(p) => <textarea {...p} className="in" rows={3} value={review} onChange={(e) => setReview(e.target.value)} />}</Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

function Subscriptions() {
  const names = useListingNames();
  const kind: Kind<Value> = {
    id: 'subscriptions',
    title: s.title,
    icon: 'link',
    list: '/api/v1/marketplace/subscriptions',
    idOf: (r) => text(r.listing_id),
    nameOf: (r) => names.get(text(r.listing_id)) ?? text(r.listing_id),
    before: <MarketTabs active="subscribed" />,
    columns: [
      { label: s.listing, cell: (r) => names.get(text(r.listing_id)) ?? shortId(text(r.listing_id)) },
      { label: s.status, cell: (r) => <Status of={text(r.status)} /> },
      { label: s.until, cell: (r) => <Time at={text(r.paid_until)} />, right: true },
      { label: s.since, cell: (r) => <Time at={text(r.created_at)} />, right: true },
    ],
    empty: { title: s.noSubscriptions, text: s.noSubscriptionsText },
    button: <Link className="btn" href="/marketplace">{s.tabs.browse}</Link>,
  };
  return <ResourcePage kind={kind} base={`${base}/browse`} />;
}

function useListingNames(): Map<string, string> {
  const q = useGet<{ items: Listing[] }>('/api/v1/marketplace/search', { query: { limit: 100 } }, { staleTime: 60_000 });
  const own = useList<Listing>('/api/v1/marketplace/listings', {}, { limit: 100 });
  return new Map([...(q.data?.items ?? []), ...own.rows].map((l) => [l.listing_id, l.name]));
}

function Mine({ id }: { id?: string }) {
  const w = useWorkers();
  const kind: Kind<Value> = {
    id: 'listings',
    title: s.title,
    icon: 'export',
    list: '/api/v1/marketplace/listings',
    idOf: (r) => text(r.listing_id),
    nameOf: (r) => text(r.name),
    before: <MarketTabs active="mine" />,
    create: { path: '/api/v1/marketplace/listings', role: 'developer', label: s.new },
    one: { path: '/api/v1/marketplace/listings/{listingId}', param: 'listingId' },
    update: { method: 'patch', role: 'developer' },
    remove: { role: 'developer', text: () => s.removed },
    refs: w.refs,
    columns: [
      { label: s.name, cell: (r) => text(r.name) },
      { label: s.status, cell: (r) => <Status of={text(r.status)} /> },
      { label: s.category, cell: (r) => sentence(text(r.category)) },
      { label: s.price, cell: (r) => price(r as unknown as Listing) },
      { label: s.tabs.calls, cell: (r) => count((r.stats as Listing['stats']).invocation_count), right: true },
      { label: s.changed, cell: (r) => <Time at={text(r.updated_at)} />, right: true },
    ],
    empty: { title: s.noneMine, text: s.noneMineText },
    actions: (r) => <ListingActions row={r} />,
    detail: (r) => <Facts value={r} />,
  };
  return <ResourcePage kind={kind} selected={id} base={`${base}/mine`} />;
}

function ListingActions({ row }: { row: Value }) {
  const me = useMe();
  const path = { path: { listingId: text(row.listing_id) } };
  const act = (what: string, said: string) => () => void send('post', `/api/v1/marketplace/listings/{listingId}/${what}`, path, {}).then(() => toast(said), (e: Error) => toast(e.message, true));
  if (!may(me.data, 'developer', 'agents:write')) return null;
  return row.status === 'published' ? <Button small icon="pause" label={s.deprecate} onClick={act('deprecate', s.deprecated)} /> : <Button small kind="primary" icon="play" label={s.publish} onClick={act('publish', s.published)} />;
}

const over = new Set(['completed', 'failed']);

function Calls() {
  const names = useListingNames();
  const me = useMe();
  const kind: Kind<Value> = {
    id: 'calls',
    title: s.title,
    icon: 'runs',
    list: '/api/v1/marketplace/invocations',
    idOf: (r) => text(r.invocation_id),
    nameOf: (r) => shortId(text(r.invocation_id)),
    before: <MarketTabs active="calls" />,
    meanwhile: (rows) => (rows.some((r) => !over.has(text(r.status))) ? 3000 : false),
    columns: [
      { label: s.listing, cell: (r) => names.get(text(r.listing_id)) ?? shortId(text(r.listing_id)) },
      { label: s.status, cell: (r) => <Status of={r.status === 'pending' ? 'queued' : text(r.status)} /> },
      { label: s.by, cell: (r) => (r.caller_tenant_id === me.data?.tenant.tenant_id ? s.us : s.others) },
      { label: s.price, cell: (r) => usd((r.metrics as Invocation['metrics'])?.price_usd), right: true },
      { label: s.took, cell: (r) => span((r.metrics as Invocation['metrics'])?.duration_ms), right: true },
      { label: s.since, cell: (r) => <Time at={text(r.created_at)} />, right: true },
    ],
    empty: { title: s.noCalls, text: s.noCallsText },
  };
  return <ResourcePage kind={kind} base={`${base}/calls`} />;
}

/** A call that runs at another company is no run of this one: it is asked for until it has ended. */
function OneCall({ id }: { id: string }) {
  const names = useListingNames();
  const path = { path: { invocationId: id } };
  const q = useGet<Invocation>('/api/v1/marketplace/invocations/{invocationId}', path, { meanwhile: (i) => (i && over.has(i.status) ? false : 1500) });
  if (!q.data) return <Block q={q}>{() => null}</Block>;
  const i = q.data;
  const said = (i.input as { message?: string }).message;
  return (
    <>
      <Head crumbs={[{ label: s.title, to: base }, { label: s.tabs.calls, to: `${base}/calls` }]} title={names.get(i.listing_id) ?? shortId(id)} after={<Status of={i.status === 'pending' ? 'queued' : i.status} />} curl={curlOf('GET', '/api/v1/marketplace/invocations/{invocationId}', path)} />
      <div className="facts">
        <span>
          {s.since} <b><Time at={i.created_at} /></b>
        </span>
        {i.metrics && (
          <>
            <span>
              {s.took} <b>{span(i.metrics.duration_ms)}</b>
            </span>
            <span>
              {s.price} <b>{usd(i.metrics.price_usd)}</b>
            </span>
          </>
        )}
      </div>
      <section className="sec io">
        <h2 style={{ marginBottom: 8 }}>{s.input}</h2>
        {said ? <p style={{ whiteSpace: 'pre-wrap' }}>{said}</p> : <Json value={i.input} />}
      </section>
      {i.result && (
        <section className="sec io">
          <h2 style={{ marginBottom: 8 }}>{s.result}</h2>
          <div className="msg" data-one=""><Text text={i.result.text} /></div>
          {i.result.truncated && <p className="t3">{s.cut}</p>}
        </section>
      )}
    </>
  );
}

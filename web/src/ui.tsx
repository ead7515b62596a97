import { useCallback, useEffect, useId, useRef, useState, type ReactNode, type RefObject } from 'react';
import { Link } from 'wouter';
import { ApiError, NotFoundError, PermissionError, rowsOf, useGet, useMe } from './api';
import { toast } from './bus';
import { caps } from './commands';
import { ago, exact, initials } from './format';
import { Icon, type IconName } from './icons';
import { PinButton } from './pins';
import { en } from './strings/en';

const s = en.common;

export function Kbd({ keys }: { keys: string }) {
  return (
    <>
      {caps(keys).map((k, i) => (
        <span key={i} className="kbd k" aria-hidden="true">
          {k}
        </span>
      ))}
    </>
  );
}

interface ButtonProps {
  label: ReactNode;
  icon?: IconName;
  kind?: 'primary' | 'quiet' | 'danger';
  small?: boolean;
  keys?: string;
  type?: 'button' | 'submit';
  disabled?: boolean;
  busy?: boolean;
  onClick?: () => void;
  className?: string;
  form?: string;
  autoFocus?: boolean;
}

export function Button({ label, icon, kind, small, keys, type = 'button', disabled, busy, onClick, className, form, autoFocus }: ButtonProps) {
  const cls = ['btn', kind === 'primary' ? 'p' : kind === 'quiet' ? 'q' : kind === 'danger' ? 'd' : '', small ? 'sm' : '', className ?? ''].join(' ');
  return (
    <button type={type} className={cls} disabled={disabled || busy} aria-busy={busy || undefined} onClick={onClick} form={form} autoFocus={autoFocus}>
      {busy ? <Icon name="s-running" small className="spin" /> : icon && <Icon name={icon} small />}
      {label}
      {keys && <Kbd keys={keys} />}
    </button>
  );
}

export function IconButton({ icon, label, small, onClick, pressed, disabled }: { icon: IconName; label: string; small?: boolean; onClick: () => void; pressed?: boolean; disabled?: boolean }) {
  return (
    <button type="button" className={`ib ${small ? 'sm' : ''}`} aria-label={label} title={label} aria-pressed={pressed} disabled={disabled} onClick={onClick}>
      <Icon name={icon} />
    </button>
  );
}

const shapes: Record<string, [IconName, string]> = {
  completed: ['s-completed', 'completed'],
  failed: ['s-failed', 'failed'],
  running: ['s-running', 'running'],
  queued: ['s-queued', 'queued'],
  awaiting_approval: ['s-waiting', 'waiting'],
  auth_required: ['s-waiting', 'waiting'],
  paused: ['s-paused', 'idle'],
  cancelled: ['s-cancelled', 'cancelled'],
  timeout: ['clock', 'failed'],
  guardrail_blocked: ['s-blocked', 'blocked'],
  rejected: ['s-rejected', 'rejected'],
  pending: ['s-waiting', 'waiting'],
  approved: ['s-completed', 'completed'],
  expired: ['clock', 'idle'],
  active: ['s-completed', 'completed'],
  suspended: ['s-paused', 'idle'],
  failing: ['s-waiting', 'waiting'],
  disabled: ['s-idle', 'idle'],
  delivered: ['s-completed', 'completed'],
  retrying: ['clock', 'waiting'],
  gave_up: ['s-failed', 'failed'],
  ready: ['s-completed', 'completed'],
  processing: ['s-running', 'running'],
  indexed: ['s-completed', 'completed'],
  open: ['s-running', 'running'],
  passed: ['s-completed', 'completed'],
  waiting_model: ['s-paused', 'idle'],
  planning: ['s-queued', 'queued'],
  awaiting_authorization: ['s-waiting', 'waiting'],
  executing: ['s-running', 'running'],
  verifying: ['s-running', 'running'],
  in_progress: ['s-running', 'running'],
  aborted: ['s-cancelled', 'cancelled'],
  blocked: ['s-waiting', 'waiting'],
  skipped: ['s-cancelled', 'idle'],
  success: ['s-completed', 'completed'],
  partial: ['s-waiting', 'waiting'],
  published: ['s-completed', 'completed'],
  online: ['s-completed', 'completed'],
  stale: ['clock', 'waiting'],
  ok: ['s-completed', 'completed'],
  error: ['s-failed', 'failed'],
  received: ['s-waiting', 'waiting'],
  resolved: ['s-completed', 'completed'],
  promoted: ['s-completed', 'completed'],
  rolled_back: ['s-failed', 'failed'],
};

/** Shape, word and colour: never colour alone. */
export function Status({ of, label, bare }: { of: string; label?: string; bare?: boolean }) {
  const [icon, cls] = shapes[of] ?? (['s-idle', 'idle'] as [IconName, string]);
  const word = label ?? en.status[of as keyof typeof en.status] ?? sentence(of);
  return (
    <span className={`st ${cls}`} title={bare ? word : undefined}>
      <Icon name={icon} className={icon === 's-running' ? 'spin' : ''} />
      {bare ? <span className="vh">{word}</span> : word}
    </span>
  );
}

export function sentence(code: string): string {
  const words = code.replaceAll('_', ' ').replaceAll('.', ' ').replace(/\b(id|ids|url|mcp|os|llm|api|ip|sse|mfa|usd|json|csp)\b/gi, (w) => (/^ids$/i.test(w) ? 'IDs' : w.toUpperCase()));
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function runStatus(run: { status: string; waiting_for?: string | null; pending_input?: unknown }): { of: string; label?: string } {
  if (run.status === 'running' && run.waiting_for === 'model') return { of: 'waiting_model', label: en.status.waiting_model };
  if (run.status === 'running' && run.waiting_for === 'provider_limit') return { of: 'waiting_model', label: en.status.provider_limit };
  if (run.status === 'paused' && run.pending_input) return { of: 'awaiting_approval', label: en.status.question };
  return { of: run.status };
}

export function Time({ at, className }: { at: string | null | undefined; className?: string }) {
  useTick(at ? 10_000 : 0);
  if (!at) return null;
  return (
    <time dateTime={at} title={exact(at)} className={className}>
      {ago(at)}
    </time>
  );
}

/** Draws anew every so many milliseconds. */
export function useTick(ms: number): number {
  const [now, set] = useState(() => Date.now());
  useEffect(() => {
    if (!ms) return;
    const timer = setInterval(() => set(Date.now()), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return now;
}

export function Avatar({ name, agent, small }: { name: string; agent?: boolean; small?: boolean }) {
  return (
    <span className={`av ${agent ? 'a' : ''} ${small ? 's' : ''}`} aria-hidden="true">
      {agent ? <Icon name="agents" /> : initials(name)}
    </span>
  );
}

export async function copy(text: string, what = s.copied): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages of plain http have no clipboard.
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  toast(what);
}

export function CopyCurl({ curl, small }: { curl: string; small?: boolean }) {
  return <Button kind="quiet" small={small} icon="code" label={s.copyCurl} onClick={() => void copy(curl, s.curlCopied)} />;
}

interface HeadProps {
  title: ReactNode;
  crumbs?: { label: string; to: string }[];
  n?: ReactNode;
  after?: ReactNode;
  children?: ReactNode;
  curl?: string;
  mono?: boolean;
  doc?: string;
}

/** The head of a page: where one is, what it is called, what can be done. */
export function Head({ title, crumbs, n, after, children, curl, mono, doc }: HeadProps) {
  useTitle(doc ?? (typeof title === 'string' ? title : ''));
  return (
    <div className="ph">
      {crumbs && crumbs.length > 0 && (
        <nav className="crumb" aria-label={s.breadcrumb}>
          {crumbs.map((c) => (
            <span key={c.to} className="crumb">
              <Link href={c.to}>{c.label}</Link>
              <Icon name="right" small className="t3" />
            </span>
          ))}
        </nav>
      )}
      <h1 className={mono ? 'mono' : ''}>{title}</h1>
      {n !== undefined && <span className="n">{n}</span>}
      {after}
      <div className="act">
        {curl && <CopyCurl curl={curl} />}
        <PinButton />
        {children}
      </div>
    </div>
  );
}

export function useTitle(title: string): void {
  useEffect(() => {
    if (title) document.title = `${title} · agentd`;
  }, [title]);
}

/** Rows in the shape of what comes, after 200 ms. */
export function Loading({ rows = 6 }: { rows?: number }) {
  const shown = useDelayed(200);
  const widths = [84, 120, 210, 40, 52];
  return (
    <div aria-busy="true" aria-label={s.loading} role="status">
      {shown &&
        Array.from({ length: rows }, (_, r) => (
          <div className="skr" key={r}>
            {widths.map((w, i) => (
              <i key={i} style={{ width: w + ((r * 37 + i * 17) % 40) - 20 }} />
            ))}
          </div>
        ))}
    </div>
  );
}

function useDelayed(ms: number): boolean {
  const [on, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), ms);
    return () => clearTimeout(timer);
  }, [ms]);
  return on;
}

export function Empty({ icon, title, text, children, curl }: { icon: IconName; title: string; text: ReactNode; children?: ReactNode; curl?: string }) {
  return (
    <div className="ctr">
      <span className="big-i">
        <Icon name={icon} />
      </span>
      <h2>{title}</h2>
      <p className="t2">{text}</p>
      {children && <div className="row" style={{ marginTop: 12 }}>{children}</div>}
      {curl && (
        <div style={{ margin: '8px 0 0 -8px' }}>
          <CopyCurl curl={curl} small />
        </div>
      )}
    </div>
  );
}

/** What went wrong, where it went wrong, with a way on. */
export function Failure({ error, what, retry }: { error: unknown; what?: string; retry?: () => void }) {
  if (error instanceof PermissionError) return <MissingRole error={error} />;
  if (error instanceof NotFoundError) return <Empty icon="search" title={s.notFound} text={s.notFoundText} />;
  const id = error instanceof ApiError ? error.requestId : '';
  return (
    <div className="pad">
      <div className="note bad" role="alert">
        <Icon name="s-failed" />
        <div className="grow">
          <b className="b">{what ?? s.didNotLoad}</b>
          <p className="t2">{error instanceof Error ? error.message : String(error)}</p>
          <div className="row wrap" style={{ marginTop: 10 }}>
            {retry && <Button small icon="refresh" label={s.tryAgain} onClick={retry} />}
            {id && <Button small kind="quiet" label={s.copyRequestId} onClick={() => void copy(id)} />}
          </div>
        </div>
      </div>
    </div>
  );
}

function MissingRole({ error }: { error: ApiError }) {
  const me = useMe();
  const users = useGet<unknown>('/api/v1/users', { query: { limit: 50 } }, { retry: false });
  const helpers = rowsOf<{ id: string; role: string; name?: string; email?: string }>(users.data).filter((u) => u.role === 'owner' || u.role === 'admin').slice(0, 4);
  return (
    <div className="ctr">
      <span className="big-i">
        <Icon name="lock" />
      </span>
      <h2>{s.missingRole}</h2>
      <p className="t2">{error.message}</p>
      {me.data && <p className="t2" style={{ marginTop: 6 }}>{s.youAre(me.data.role, me.data.tenant.name)}</p>}
      <div className="row wrap" style={{ marginTop: 10 }}>
        {helpers.map((u) => (
          <span className="chip" key={u.id}>
            <Avatar small name={u.name || u.email || u.role} />
            {u.name || u.email || s.someone} <span className="t3">{u.role}</span>
          </span>
        ))}
      </div>
      <div style={{ marginTop: 12 }}>
        <Button icon="copy" label={s.copyMessage} onClick={() => void copy(s.roleMessage(location.href))} />
      </div>
    </div>
  );
}

/** Shows the states of a query, and its content once there is one. */
export function Block<T>({ q, what, children, rows }: { q: { data?: T; error: unknown; isLoading: boolean; refetch: () => unknown }; what?: string; rows?: number; children: (data: T) => ReactNode }) {
  if (q.data !== undefined) return <>{children(q.data)}</>;
  if (q.error) return <Failure error={q.error} what={what} retry={() => void q.refetch()} />;
  return <Loading rows={rows} />;
}

interface DialogProps {
  title: string;
  children: ReactNode;
  onClose: () => void;
  wide?: boolean;
  footer?: ReactNode;
  label?: string;
}

/** A native dialog: focus stays in it, Escape closes it, and focus returns to where it was. */
export function Dialog({ title, children, onClose, wide, footer }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const d = ref.current;
    if (d && !d.open) {
      d.showModal();
      // What one came for, not the button that closes.
      (d.querySelector<HTMLElement>('.dlg-body input, .dlg-body textarea, .dlg-body select') ?? d.querySelector<HTMLElement>('footer .btn:last-child'))?.focus();
    }
    return () => d?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      className={`dlg ${wide ? 'wide' : ''}`}
      aria-labelledby={id}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onMouseDown={(e) => e.target === ref.current && onClose()}
    >
      <div className="dlg-in">
        <header className="row">
          <h2 id={id} className="grow">
            {title}
          </h2>
          <IconButton icon="x" label={s.close} small onClick={onClose} />
        </header>
        <div className="dlg-body">{children}</div>
        {footer && <footer className="row">{footer}</footer>}
      </div>
    </dialog>
  );
}

export function Confirm({ title, text, action, danger, onConfirm, onClose }: { title: string; text: ReactNode; action: string; danger?: boolean; onConfirm: () => Promise<unknown>; onClose: () => void }) {
  const [busy, error, run] = useAction(onConfirm, onClose);
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={s.cancel} onClick={onClose} />
          <Button kind={danger ? 'danger' : 'primary'} label={action} busy={busy} onClick={() => void run()} />
        </>
      }
    >
      <p className="t2">{text}</p>
      {error !== undefined && <FormError error={error} />}
    </Dialog>
  );
}

/** Runs something once at a time; returns whether it runs and why it failed. */
export function useAction<A extends unknown[]>(action: (...args: A) => Promise<unknown>, done?: () => void): [boolean, unknown, (...args: A) => Promise<void>] {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const alive = useRef(true);
  useEffect(() => {
    alive.current = true;
    return () => void (alive.current = false);
  }, []);
  const run = async (...args: A) => {
    if (busy) return;
    setBusy(true);
    setError(undefined);
    try {
      await action(...args);
      if (alive.current) setBusy(false);
      done?.();
    } catch (e) {
      if (!alive.current) return;
      setBusy(false);
      setError(e);
    }
  };
  return [busy, error, run];
}

export function FormError({ error }: { error: unknown }) {
  if (error === undefined || error === null) return null;
  const fields = error instanceof ApiError ? error.fields : [];
  return (
    <div className="note bad" role="alert" style={{ marginTop: 10 }}>
      <Icon name="s-failed" />
      <div className="grow">
        <p>{error instanceof Error ? error.message : String(error)}</p>
        {fields.length > 0 && (
          <ul className="col fs12" style={{ marginTop: 4 }}>
            {fields.map((f) => (
              <li key={f.field + f.message}>
                <code>{f.field}</code> {f.message}
              </li>
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}

/** The message for a field of a form that was refused. */
export function fieldError(error: unknown, field: string): string {
  if (!(error instanceof ApiError)) return '';
  return error.fields.find((f) => f.field === field || f.field.startsWith(`${field}.`) || f.field.startsWith(`${field}[`))?.message ?? '';
}

export function Field({ label, help, error, children, optional }: { label: string; help?: ReactNode; error?: string; optional?: boolean; children: (props: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: boolean }) => ReactNode }) {
  const id = useId();
  const described = help || error ? `${id}-h` : undefined;
  return (
    <div className="fl">
      <label htmlFor={id}>
        {label} {optional && <span className="t3">{s.optional}</span>}
      </label>
      {children({ id, 'aria-describedby': described, 'aria-invalid': error ? true : undefined })}
      {(help || error) && (
        <span className={error ? 'h bad' : 'h'} id={described}>
          {error || help}
        </span>
      )}
    </div>
  );
}

export function Select({ value, onChange, options, ...rest }: { value: string; onChange: (v: string) => void; options: readonly (readonly [string, string])[]; id?: string; 'aria-label'?: string; className?: string }) {
  return (
    <span className="selw">
      <select {...rest} className={`in ${rest.className ?? ''}`} value={value} onChange={(e) => onChange(e.target.value)}>
        {options.map(([v, l]) => (
          <option key={v} value={v}>
            {l}
          </option>
        ))}
      </select>
      <Icon name="down" small className="t3" />
    </span>
  );
}

export function Segmented<T extends string>({ value, onChange, options, label }: { value: T; onChange: (v: T) => void; options: readonly (readonly [T, ReactNode])[]; label: string }) {
  return (
    <span className="seg" role="group" aria-label={label}>
      {options.map(([v, l]) => (
        <button key={v} type="button" aria-pressed={v === value} onClick={() => onChange(v)}>
          {l}
        </button>
      ))}
    </span>
  );
}

export function Tabs({ tabs, active }: { tabs: { id: string; label: ReactNode; to: string; n?: ReactNode }[]; active: string }) {
  return (
    <nav className="tabs" aria-label={s.sections}>
      {tabs.map((t) => (
        <Link key={t.id} href={t.to} aria-current={t.id === active ? 'page' : undefined}>
          {t.label}
          {t.n !== undefined && <span className="n">{t.n}</span>}
        </Link>
      ))}
    </nav>
  );
}

/** JSON with the colours of its kinds of values. */
export function Json({ value, max = 400 }: { value: unknown; max?: number }) {
  const [all, setAll] = useState(false);
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? 'null');
  const lines = text.split('\n');
  const cut = !all && lines.length > max;
  return (
    <div className="codew">
      <pre className="code" tabIndex={0}>{typeof value === 'string' ? (cut ? lines.slice(0, max).join('\n') : text) : coloured(cut ? lines.slice(0, max).join('\n') : text)}</pre>
      <div className="codea">
        {cut && <Button small kind="quiet" label={s.allLines(lines.length)} onClick={() => setAll(true)} />}
        <IconButton small icon="copy" label={s.copy} onClick={() => void copy(text)} />
      </div>
    </div>
  );
}

function coloured(text: string): ReactNode[] {
  const out: ReactNode[] = [];
  const tokens = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
  let at = 0;
  for (const m of text.matchAll(tokens)) {
    if (m.index > at) out.push(text.slice(at, m.index));
    const cls = m[1] ? (m[2] ? 'k' : 's') : 'm';
    out.push(
      <span key={m.index} className={cls}>
        {m[1] ?? m[3] ?? m[4]}
      </span>,
    );
    if (m[2]) out.push(m[2]);
    at = m.index + m[0].length;
  }
  out.push(text.slice(at));
  return out;
}

/** Asks for the next page two screens early. */
export function More({ q, shown, what }: { q: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }; shown: number; what: string }) {
  const ref = useRef<HTMLDivElement>(null);
  const { hasNextPage, fetchNextPage } = q;
  useEffect(() => {
    const el = ref.current;
    if (!el || !hasNextPage) return;
    const seen = new IntersectionObserver((e) => e.some((x) => x.isIntersecting) && fetchNextPage(), { rootMargin: '1500px' });
    seen.observe(el);
    return () => seen.disconnect();
  }, [hasNextPage, fetchNextPage, shown]);
  return (
    <div className="more" ref={ref}>
      {q.isFetchingNextPage ? s.loadingMore : q.hasNextPage || shown > 20 ? `${shown.toLocaleString('en')}${q.hasNextPage ? '+' : ''} ${what}` : null}
    </div>
  );
}

/** Selection in a list by j and k. */
export function useSelection<T>(rows: T[], idOf: (row: T) => string): { id: string; index: number; set: (id: string) => void; move: (by: number) => void } {
  const [id, set] = useState('');
  const index = rows.findIndex((r) => idOf(r) === id);
  const move = useCallback(
    (by: number) => {
      const next = rows[Math.max(0, Math.min(rows.length - 1, index < 0 ? (by > 0 ? 0 : rows.length - 1) : index + by))];
      if (!next) return;
      set(idOf(next));
      requestAnimationFrame(() => document.querySelector('[data-selected=true]')?.scrollIntoView({ block: 'nearest' }));
    },
    // eslint-disable-next-line
    [rows, index],
  );
  return { id, index, set, move };
}

/** Closes a popover when something outside of it is used. */
export function useOutside(ref: RefObject<HTMLElement | null>, close: () => void): void {
  useEffect(() => {
    const down = (e: Event) => {
      if (ref.current && e.target instanceof Node && !ref.current.contains(e.target)) close();
    };
    const key = (e: KeyboardEvent) => e.key === 'Escape' && close();
    document.addEventListener('mousedown', down);
    document.addEventListener('keydown', key);
    return () => {
      document.removeEventListener('mousedown', down);
      document.removeEventListener('keydown', key);
    };
  }, [ref, close]);
}

export interface MenuItem {
  label: string;
  icon?: IconName;
  danger?: boolean;
  run: () => void;
}

export function Menu({ label, items, icon = 'more' }: { label: string; items: MenuItem[]; icon?: IconName }) {
  const [open, setOpen] = useState(false);
  const ref = useRef<HTMLSpanElement>(null);
  const close = useCallback(() => setOpen(false), []);
  useOutside(ref, close);
  if (items.length === 0) return null;
  const walk = (e: React.KeyboardEvent) => {
    const all = [...(ref.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
    const i = all.indexOf(document.activeElement as HTMLElement);
    if (e.key === 'ArrowDown') all[(i + 1) % all.length]?.focus();
    else if (e.key === 'ArrowUp') all[(i - 1 + all.length) % all.length]?.focus();
    else return;
    e.preventDefault();
  };
  return (
    <span className="menuw" ref={ref} onKeyDown={walk}>
      <button type="button" className="ib" aria-label={label} title={label} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={icon} />
      </button>
      {open && (
        <div className="menu" role="menu" aria-label={label}>
          {items.map((m) => (
            <button
              key={m.label}
              type="button"
              role="menuitem"
              className={m.danger ? 'bad' : ''}
              onClick={() => {
                close();
                m.run();
              }}
            >
              {m.icon && <Icon name={m.icon} small />}
              {m.label}
            </button>
          ))}
        </div>
      )}
    </span>
  );
}

import { useMemo, useState, useSyncExternalStore } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { api } from './api';
import { toast } from './bus';
import { useCommands } from './commands';
import { Icon } from './icons';
import { pins as s } from './strings/compare';
import { en } from './strings/en';
import { Button, Dialog, Field, IconButton } from './ui';

export interface Pin {
  to: string;
  name: string;
}

/** At most so many: more would be a second menu. */
const most = 7;

/** Pins are of one browser and one company; there is no operation that would keep them elsewhere. */
const key = () => `agentd.pins.${api.tenantId ?? ''}`;
const watchers = new Set<() => void>();
let cached: { key: string; pins: Pin[] } | undefined;

function load(): Pin[] {
  if (cached?.key === key()) return cached.pins;
  let pins: Pin[] = [];
  try {
    const kept = JSON.parse(localStorage.getItem(key()) ?? '[]') as unknown;
    if (Array.isArray(kept)) pins = kept.filter((p): p is Pin => typeof p?.to === 'string' && p.to.startsWith('/') && typeof p.name === 'string').slice(0, most);
  } catch {
    // What cannot be read is as if there were none.
  }
  cached = { key: key(), pins };
  return pins;
}

function save(pins: Pin[]): void {
  cached = { key: key(), pins };
  try {
    localStorage.setItem(key(), JSON.stringify(pins));
  } catch {
    // No storage: they last as long as the page.
  }
  for (const w of watchers) w();
}

function usePins(): Pin[] {
  return useSyncExternalStore((w) => (watchers.add(w), () => watchers.delete(w)), load);
}

/** Pins the address with its filters, so that a view of a list is one key away. */
export function PinButton() {
  const [path] = useLocation();
  const search = useSearch();
  const pins = usePins();
  const [naming, setNaming] = useState(false);
  const to = path + (search ? `?${search}` : '');
  const pinned = pins.some((p) => p.to === to);
  const toggle = () => {
    if (!pinned && pins.length >= most) toast(s.full, true);
    else if (!pinned) setNaming(true);
    else {
      save(pins.filter((p) => p.to !== to));
      toast(s.gone);
    }
  };
  const commands = useMemo(
    () => [{ id: 'pin', title: pinned ? s.unpin : s.pin, keys: 'p', icon: 'pin' as const, run: toggle }],
    // eslint-disable-next-line
    [to, pinned, pins],
  );
  useCommands(commands);
  return (
    <>
      <IconButton icon="pin" label={pinned ? s.unpin : s.pin} pressed={pinned} onClick={toggle} />
      {naming && <Name to={to} onClose={() => setNaming(false)} onSave={(name) => save([...pins, { to, name }])} />}
    </>
  );
}

function Name({ to, onClose, onSave }: { to: string; onClose: () => void; onSave: (name: string) => void }) {
  const filters = [...new URLSearchParams(to.split('?')[1] ?? '').values()].filter((v) => v.length < 24).join(', ');
  const [name, setName] = useState(() => [document.title.replace(/ · agentd$/, ''), filters].filter(Boolean).join(': ').slice(0, 60));
  return (
    <Dialog
      title={s.pin}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="pin" label={s.save} disabled={!name.trim()} />
        </>
      }
    >
      <form id="pin" onSubmit={(e) => (e.preventDefault(), onSave(name.trim()), onClose())}>
        <p className="t2" style={{ marginBottom: 10 }}>{s.text}</p>
        <Field label={s.name}>{(p) => <input {...p} className="in" maxLength={60} value={name} onChange={(e) => setName(e.target.value)} />}</Field>
      </form>
    </Dialog>
  );
}

/** What is pinned, below the places of the sidebar. */
export function Pinned() {
  const [path] = useLocation();
  const search = useSearch();
  const pins = usePins();
  if (pins.length === 0) return null;
  const here = path + (search ? `?${search}` : '');
  return (
    <>
      <h2>{s.title}</h2>
      {pins.map((p) => (
        <Link key={p.to} className="nav" href={p.to} aria-current={p.to === here ? 'page' : undefined} title={p.name}>
          <Icon name="pin" />
          <span className="trunc">{p.name}</span>
        </Link>
      ))}
    </>
  );
}

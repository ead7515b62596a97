import { useEffect, useMemo, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { useGet, type Schema } from './api';
import { useAllCommands } from './commands';
import { Icon, type IconName } from './icons';
import { en } from './strings/en';
import { Kbd } from './ui';

const s = en.palette;

interface Entry {
  id: string;
  group: string;
  title: string;
  note?: string;
  icon: IconName;
  keys?: string;
  run: () => void;
}

/** Search and commands in one box. `>` shows commands only. */
export function Palette({ onClose }: { onClose: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const [, go] = useLocation();
  const commands = useAllCommands();
  const only = text.startsWith('>');
  const words = (only ? text.slice(1) : text).trim().toLowerCase();
  const asked = useSettled(words, 150);
  const found = useGet<Schema<'SearchResults'>>('/api/v1/search', { query: { q: asked, limit: 12 } }, { enabled: !only && asked.length >= 2, retry: false });
  useEffect(() => {
    const d = ref.current;
    if (d && !d.open) d.showModal();
    return () => d?.close();
  }, []);
  const entries = useMemo(() => {
    const seen = new Set<string>();
    const out: Entry[] = commands
      .filter((c) => !c.hidden && c.title.toLowerCase().includes(words) && !seen.has(c.id) && seen.add(c.id))
      .slice(0, words ? 12 : 24)
      .map((c) => ({ id: c.id, group: c.group ?? s.here, title: c.title, icon: c.icon ?? 'right', keys: c.keys, run: c.run }));
    const icons: Record<string, IconName> = { agent: 'agents', session: 'chat', run: 'runs' };
    const paths: Record<string, string> = { agent: '/agents/', session: '/chat/', run: '/runs/' };
    const results = only || words.length < 2 ? [] : (found.data?.results ?? []);
    for (const r of results) {
      out.push({ id: r.type + r.id, group: s.groups[r.type] ?? s.found, title: r.title, note: r.subtitle, icon: icons[r.type] ?? 'search', run: () => go((paths[r.type] ?? '/') + r.id) });
    }
    return [...out].sort((a, b) => order(a.group) - order(b.group));
  }, [commands, words, only, found.data, go]);
  const chosen = entries[Math.min(at, entries.length - 1)];
  const run = (e: Entry | undefined) => {
    if (!e) return;
    onClose();
    e.run();
  };
  let group = '';
  return (
    <dialog
      ref={ref}
      className="pal"
      aria-label={en.shell.search}
      onCancel={(e) => (e.preventDefault(), onClose())}
      onMouseDown={(e) => e.target === ref.current && onClose()}
      onKeyDown={(e) => {
        if (e.key === 'ArrowDown') setAt(Math.min(at + 1, entries.length - 1));
        else if (e.key === 'ArrowUp') setAt(Math.max(at - 1, 0));
        else if (e.key === 'Enter') run(chosen);
        else return;
        e.preventDefault();
      }}
    >
      <div className="q">
        <Icon name="search" className="t3" />
        <input
          className="grow"
          autoFocus
          value={text}
          placeholder={en.shell.search}
          role="combobox"
          aria-expanded="true"
          aria-controls="pal-list"
          aria-activedescendant={chosen ? `pal-${entries.indexOf(chosen)}` : undefined}
          aria-label={en.shell.search}
          onChange={(e) => (setText(e.target.value), setAt(0))}
        />
        <Kbd keys="escape" />
      </div>
      <ul id="pal-list" role="listbox" aria-label={s.results}>
        {entries.length === 0 && <li className="t3">{s.nothing}</li>}
        {entries.map((e, i) => {
          const heading = e.group !== group ? e.group : '';
          group = e.group;
          return [
            heading && (
              <li key={`h-${heading}`} role="presentation" className="h">
                {heading}
              </li>
            ),
            <li
              key={e.id}
              id={`pal-${i}`}
              role="option"
              aria-selected={e === chosen}
              ref={(el) => {
                if (e === chosen) el?.scrollIntoView({ block: 'nearest' });
              }}
              onMouseMove={() => setAt(i)}
              onClick={() => run(e)}
            >
              <Icon name={e.icon} />
              <span className="grow trunc">{e.title}</span>
              {e.note && <span className="t3 fs12 trunc">{e.note}</span>}
              {e.keys && <Kbd keys={e.keys} />}
            </li>,
          ];
        })}
      </ul>
      <footer>
        <span className="row">
          <Kbd keys="arrowup arrowdown" /> {s.move}
        </span>
        <span className="row">
          <Kbd keys="enter" /> {s.open}
        </span>
        <span className="row hide-s">
          <span className="kbd">&gt;</span> {s.commandsOnly}
        </span>
      </footer>
    </dialog>
  );
}

function order(group: string): number {
  const i = [s.here, en.shell.doGroup, s.groups.agent, s.groups.session, s.groups.run, s.found, en.shell.goToGroup].indexOf(group);
  return i < 0 ? 9 : i;
}

/** A value that has not changed for so many milliseconds. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

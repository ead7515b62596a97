import { useEffect, useSyncExternalStore } from 'react';
import type { IconName } from './icons';

/** Something that a person can do. Palette, shortcuts sheet and keys read the same registry. */
export interface Command {
  id: string;
  title: string;
  /** Such as 'j', 'g r' or 'mod+k'. */
  keys?: string;
  icon?: IconName;
  /** The heading under which it stands. */
  group?: string;
  /** Works in text fields too. */
  everywhere?: boolean;
  /** Not in the palette: it needs something that is selected. */
  hidden?: boolean;
  run: () => void;
}

const registry = new Map<string, Command[]>();
const watchers = new Set<() => void>();
let all: Command[] = [];

function changed(): void {
  // What was registered last goes first: a page's keys over the shell's.
  all = [...registry.values()].reverse().flat();
  for (const w of watchers) w();
}

let serial = 0;

/** Registers commands for as long as a component is shown. */
export function useCommands(commands: Command[]): void {
  useEffect(() => {
    const key = String(serial++);
    registry.set(key, commands);
    changed();
    return () => {
      registry.delete(key);
      changed();
    };
    // eslint-disable-next-line
  }, [commands]);
}

export function useAllCommands(): Command[] {
  return useSyncExternalStore(
    (w) => {
      watchers.add(w);
      return () => watchers.delete(w);
    },
    () => all,
  );
}

const store = 'agentd.singleKeys';

/** Single letters can be switched off (WCAG 2.1.4). */
export function singleKeys(): boolean {
  try {
    return localStorage.getItem(store) !== 'off';
  } catch {
    return true;
  }
}
export function setSingleKeys(on: boolean): void {
  try {
    localStorage.setItem(store, on ? 'on' : 'off');
  } catch {
    // No storage: for this page only, they stay.
  }
}

let first = '';
let firstAt = 0;

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function pressed(e: KeyboardEvent): string {
  const key = e.key.length === 1 ? (e.shiftKey && /[a-z]/i.test(e.key) ? `shift+${e.key.toLowerCase()}` : e.key.toLowerCase()) : e.key.toLowerCase();
  return (e.ctrlKey || e.metaKey ? 'mod+' : '') + key;
}

export function listenToKeys(): () => void {
  const handler = (e: KeyboardEvent) => {
    if (e.defaultPrevented || e.altKey || e.isComposing) return;
    const key = pressed(e);
    const inField = typing(e.target);
    const inDialog = document.querySelector('dialog[open]') !== null;
    const sequence = Date.now() - firstAt < 900 && first ? `${first} ${key}` : '';
    const single = !key.startsWith('mod+') && key !== 'escape' && key !== 'enter' && !/^arrow/.test(key);
    for (const wanted of [sequence, key]) {
      if (!wanted) continue;
      const command = all.find((c) => c.keys === wanted && (c.everywhere || (!inField && !inDialog)));
      if (!command || (single && !command.everywhere && !singleKeys())) continue;
      if (key === 'enter' && e.target instanceof HTMLElement && /^(A|BUTTON)$/.test(e.target.tagName)) return;
      e.preventDefault();
      first = '';
      command.run();
      return;
    }
    if (!inField && !inDialog && single && all.some((c) => c.keys?.startsWith(`${key} `))) {
      first = key;
      firstAt = Date.now();
    } else first = '';
  };
  addEventListener('keydown', handler);
  return () => removeEventListener('keydown', handler);
}

/** The caps of a key combination. */
export function caps(keys: string): string[] {
  const names: Record<string, string> = { mod: /Mac/.test(navigator.platform) ? '⌘' : 'Ctrl', shift: 'Shift', enter: 'Enter', escape: 'Esc', arrowup: '↑', arrowdown: '↓' };
  return keys.split(/[ +]/).map((k) => names[k] ?? (k.length === 1 ? k.toUpperCase() : k));
}

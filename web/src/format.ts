const number = new Intl.NumberFormat('en');

export function count(n: number | null | undefined): string {
  if (n === null || n === undefined) return '';
  if (n >= 10_000_000) return `${(n / 1_000_000).toFixed(1)} M`;
  return number.format(n);
}

export function usd(v: number | null | undefined): string {
  if (v === null || v === undefined) return '';
  if (v === 0) return '$0';
  if (v < 0.001) return '<$0.001';
  return `$${v < 1 ? v.toFixed(3) : v.toFixed(2)}`;
}

/** 410 ms, 1.2 s, 1 m 52 s, 2 h 14 m, 3 d. */
export function span(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || ms < 0 || Number.isNaN(ms)) return '';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${pad(Math.floor(s % 60))} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${pad(Math.floor((s % 3600) / 60))} m`;
  return `${Math.floor(s / 86_400)} d`;
}

const pad = (n: number) => String(n).padStart(2, '0');

/** Relative up to a day, then a date. */
export function ago(iso: string | null | undefined, now = Date.now()): string {
  if (!iso) return '';
  const s = (now - Date.parse(iso)) / 1000;
  if (s < 0) return until(iso, now);
  if (s < 10) return 'now';
  if (s < 60) return `${Math.floor(s)} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} m ago`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ago`;
  return new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short', year: s > 300 * 86_400 ? 'numeric' : undefined }).format(Date.parse(iso));
}

export function until(iso: string | null | undefined, now = Date.now()): string {
  if (!iso) return '';
  const ms = Date.parse(iso) - now;
  return ms <= 0 ? 'now' : `in ${coarse(ms)}`;
}

/** A length of time to its largest unit. */
export function coarse(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 60) return `${Math.ceil(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  if (s < 72 * 3600) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

export function clock(iso: string | null | undefined): string {
  return iso ? new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(Date.parse(iso)) : '';
}

export function exact(iso: string): string {
  return new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' }).format(Date.parse(iso));
}

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return '';
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['KB', 1e3]] as const) if (n >= size) return `${(n / size).toFixed(1)} ${unit}`;
  return `${n} B`;
}

/** 019a8c3e…77d0 */
export function shortId(id: string | null | undefined): string {
  if (!id) return '';
  return id.length <= 14 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}

export function initials(name: string): string {
  const words = name.split(/[\s@._-]+/).filter(Boolean);
  return ((words[0]?.[0] ?? '?') + (words[1]?.[0] ?? '')).toUpperCase();
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)}%` : '';
}

const days = ['Sundays', 'Mondays', 'Tuesdays', 'Wednesdays', 'Thursdays', 'Fridays', 'Saturdays', 'Sundays'];

/** A schedule as people say it, if it is one of those that people say: "Weekdays at 07:30". */
export function inWords(cron: string): string | null {
  const [minute, hour, day, month, weekday, more] = cron.trim().split(/\s+/);
  if (more !== undefined || month !== '*' || minute === undefined || hour === undefined || weekday === undefined) return null;
  const every = /^\*\/(\d+)$/.exec(minute)?.[1];
  if (hour === '*' && day === '*' && weekday === '*') return every ? `Every ${every} minutes` : minute === '*' ? 'Every minute' : /^\d+$/.test(minute) ? `Every hour at ${minute.padStart(2, '0')} minutes` : null;
  if (!/^\d+$/.test(minute) || !/^\d+$/.test(hour)) return null;
  const at = `at ${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  if (day !== '*') return weekday === '*' && /^\d+$/.test(day!) ? `On day ${day} of each month ${at}` : null;
  if (weekday === '*') return `Every day ${at}`;
  if (weekday === '1-5') return `Weekdays ${at}`;
  return /^[0-7]$/.test(weekday) ? `${days[Number(weekday)]} ${at}` : null;
}

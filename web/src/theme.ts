export type Theme = 'system' | 'light' | 'dark';
const key = 'agentd.theme';

export function theme(): Theme {
  const set = document.documentElement.dataset['theme'];
  return set === 'light' || set === 'dark' ? set : 'system';
}

export function setTheme(t: Theme): void {
  if (t === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = t;
  try {
    if (t === 'system') localStorage.removeItem(key);
    else localStorage.setItem(key, t);
  } catch {
    // No storage: for this page only.
  }
  dispatchEvent(new Event('themechange'));
}

export function isDark(): boolean {
  const t = theme();
  return t === 'dark' || (t === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
}

export function toggleTheme(): void {
  setTheme(isDark() ? 'light' : 'dark');
}

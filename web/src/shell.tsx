import { Component, lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import { Link, Redirect, Route, Switch, useLocation } from 'wouter';
import { api, isSignedOut, may, prefix, queries, send, signInAddress, useGet, useMe, type Me, type Schema } from './api';
import { on, toast } from './bus';
import { listenToKeys, useCommands, type Command } from './commands';
import { useCounts } from './counts';
import { Icon, type IconName } from './icons';
import { useChanges } from './live/changes';
import { noticeWaiting } from './notify';
import { Palette } from './palette';
import { Pinned } from './pins';
import { Shortcuts } from './shortcuts';
import { en } from './strings/en';
import { isDark, toggleTheme } from './theme';
import { Avatar, Button, Dialog, Failure, IconButton, Kbd, Loading, useOutside, useTick } from './ui';

const Agents = lazy(() => import('./pages/agents'));
const Agent = lazy(() => import('./pages/agent'));
const Chat = lazy(() => import('./pages/chat'));
const Runs = lazy(() => import('./pages/runs'));
const Run = lazy(() => import('./pages/run'));
const Inbox = lazy(() => import('./pages/inbox'));
const Overview = lazy(() => import('./pages/overview'));
const Settings = lazy(() => import('./pages/settings'));
const Library = lazy(() => import('./pages/library'));
const Teams = lazy(() => import('./pages/teams'));
const Compare = lazy(() => import('./pages/compare'));
const Missions = lazy(() => import('./pages/missions'));
const Initiatives = lazy(() => import('./pages/initiatives'));
const Marketplace = lazy(() => import('./pages/marketplace'));
const Governance = lazy(() => import('./pages/governance'));
const Reference = lazy(() => import('./pages/reference'));
const SettingsNav = lazy(() => import('./settingsnav'));
const pages = { Agents, Agent, Chat, Runs, Run, Inbox, Overview, Settings, Library, Teams, Compare, Missions, Initiatives, Marketplace, Governance, Reference };

const s = en.shell;

interface Place {
  id: string;
  label: string;
  icon: IconName;
  to: string;
  keys: string;
  role: string;
}

const settingsPlaces = (['members', 'keys', 'usage', 'audit', 'webhooks', 'sensors', 'mcp', 'models', 'guardrails'] as const).map((id) => [id, en.settings[id]] as const);

export const places: Place[] = [
  { id: 'overview', label: s.overview, icon: 'overview', to: '/overview', keys: 'g o', role: 'viewer' },
  { id: 'inbox', label: s.inbox, icon: 'inbox', to: '/inbox', keys: 'g i', role: 'viewer' },
  { id: 'chat', label: s.chat, icon: 'chat', to: '/chat', keys: 'g c', role: 'viewer' },
  { id: 'runs', label: s.runs, icon: 'runs', to: '/runs', keys: 'g r', role: 'viewer' },
  { id: 'agents', label: s.agents, icon: 'agents', to: '/agents', keys: 'g a', role: 'viewer' },
  { id: 'teams', label: s.teams, icon: 'teams', to: '/teams', keys: 'g t', role: 'viewer' },
  { id: 'library', label: s.library, icon: 'library', to: '/library', keys: 'g l', role: 'viewer' },
  { id: 'governance', label: s.governance, icon: 'gov', to: '/governance', keys: 'g v', role: 'viewer' },
];

export function Shell() {
  const me = useMe();
  useEffect(() => listenToKeys(), []);
  if (me.error && isSignedOut(me.error)) {
    location.replace(signInAddress());
    return null;
  }
  if (me.error) {
    return (
      <main className="alone">
        <Failure error={me.error} what={s.noServer} retry={() => void me.refetch()} />
      </main>
    );
  }
  if (!me.data) return <Frame />;
  return <SignedIn me={me.data} />;
}

/** The frame alone, while nobody knows yet who is there. */
function Frame({ children }: { children?: ReactNode }) {
  return (
    <div className="app">
      <header className="top">
        <span className="brand">
          <Icon name="logo" />
          <b>agentd</b>
        </span>
      </header>
      <nav className="side" aria-label={s.main} />
      <main className="main">{children ?? <Loading />}</main>
    </div>
  );
}

function SignedIn({ me }: { me: Me }) {
  const [path, go] = useLocation();
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  useChanges(true);
  const counts = useCounts(may(me, 'viewer', 'runs:read'));
  useEffect(() => noticeWaiting(counts.inbox), [counts.inbox]);
  const seen = useMemo(() => places.filter((p) => may(me, p.role)), [me]);
  const commands = useMemo<Command[]>(
    () => [
      { id: 'palette', title: s.search, keys: 'mod+k', everywhere: true, hidden: true, run: () => setPalette((p) => !p) },
      ...seen.map((p) => ({ id: `go.${p.id}`, title: s.goTo(p.label), keys: p.keys, icon: p.icon, group: s.goToGroup, run: () => go(p.to) })),
      { id: 'go.settings', title: s.goTo(s.settings), keys: 'g s', icon: 'settings' as const, group: s.goToGroup, run: () => go('/settings') },
      ...(['missions', 'initiatives', 'marketplace'] as const).map((id) => ({ id: `go.${id}`, title: s.goTo(s[id]), icon: id === 'marketplace' ? ('export' as const) : ('teams' as const), group: s.goToGroup, run: () => go(`/${id}`) })),
      { id: 'go.reference', title: s.goTo(s.reference), icon: 'code' as const, group: s.goToGroup, run: () => go('/reference') },
      ...settingsPlaces.map(([id, label]) => ({ id: `go.settings.${id}`, title: s.goTo(`${s.settings}: ${label}`), icon: 'settings' as const, group: s.goToGroup, run: () => go(`/settings/${id}`) })),
      { id: 'theme', title: s.changeTheme, icon: 'sun' as const, group: s.doGroup, run: toggleTheme },
      { id: 'help', title: s.shortcuts, keys: '?', icon: 'help' as const, group: s.doGroup, run: () => setHelp(true) },
      { id: 'signout', title: s.signOut, icon: 'export' as const, group: s.doGroup, run: signOut },
    ],
    [seen, go],
  );
  useCommands(commands);
  const closePalette = useCallback(() => setPalette(false), []);
  const first = path.split('/')[1] ?? '';
  const current = first === 'missions' || first === 'initiatives' ? 'teams' : first === 'marketplace' ? 'agents' : first;
  const badge = (id: string) =>
    id === 'inbox' && counts.inbox > 0 ? (
      <b className="c hot">{counts.inbox > 99 ? '99+' : counts.inbox}</b>
    ) : id === 'runs' && counts.running > 0 ? (
      <b className="c">{counts.running > 99 ? '99+' : counts.running}</b>
    ) : null;
  const inSettings = current === 'settings';
  return (
    <>
      <a className="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById('main')?.focus())}>
        {s.skip}
      </a>
      <Offline />
      <div className="app">
        <header className="top">
          <Link className="brand" href="/">
            <Icon name="logo" />
            <b>agentd</b>
            <span className="vh">{s.home}</span>
          </Link>
          <span className="sep" />
          <Company me={me} />
          <button type="button" className="find" aria-keyshortcuts="Control+K" onClick={() => setPalette(true)}>
            <Icon name="search" small />
            <span className="grow">{s.search}</span>
            <Kbd keys="mod+k" />
          </button>
          <span className="only-s grow" />
          <span className="only-s">
            <IconButton icon="search" label={s.search} onClick={() => setPalette(true)} />
          </span>
          <Live />
          <span className="hide-s row">
            <ThemeButton />
          </span>
          <a href={`${prefix}/account`} title={`${personOf(me)}, ${me.role}`}>
            <Avatar name={personOf(me)} />
            <span className="vh">{s.account(personOf(me), me.role)}</span>
          </a>
        </header>
        <nav className="side" aria-label={inSettings ? s.settings : s.main}>
          {inSettings ? (
            <Suspense>
              <SettingsNav me={me} section={path.split('/')[2] ?? 'general'} />
            </Suspense>
          ) : (
            seen.map((p) => (
              <Link key={p.id} className="nav" href={p.to} aria-current={current === p.id ? 'page' : undefined} title={p.label}>
                <Icon name={p.icon} />
                <span>{p.label}</span>
                {badge(p.id)}
              </Link>
            ))
          )}
          {!inSettings && <Pinned />}
          <div className="foot">
            <Link className="nav" href="/reference" aria-current={current === 'reference' ? 'page' : undefined} title={s.reference}>
              <Icon name="code" />
              <span>{s.reference}</span>
            </Link>
            {!inSettings && (
              <Link className="nav" href="/settings" title={s.settings}>
                <Icon name="settings" />
                <span>{s.settings}</span>
              </Link>
            )}
            <button type="button" className="nav" onClick={() => setHelp(true)} title={s.helpLabel}>
              <Icon name="help" />
              <span>{s.helpLabel}</span>
            </button>
          </div>
        </nav>
        <main className="main" id="main" tabIndex={-1}>
          <Boundary key={first}>
            <Suspense fallback={<Loading />}>
              <Pages />
            </Suspense>
          </Boundary>
        </main>
        <nav className="tabbar" aria-label={s.mainSmall}>
          {['inbox', 'chat', 'runs', 'agents'].map((id) => places.find((p) => p.id === id)!).map((p) => (
            <Link key={p.id} href={p.to} aria-current={current === p.id ? 'page' : undefined}>
              <Icon name={p.icon} />
              {p.label}
              {badge(p.id)}
            </Link>
          ))}
          <button type="button" onClick={() => setPalette(true)}>
            <Icon name="menu" />
            {s.more}
          </button>
        </nav>
      </div>
      {palette && <Palette onClose={closePalette} />}
      {help && <Shortcuts onClose={() => setHelp(false)} />}
      <Interruptions />
      <Toasts />
    </>
  );
}

function Pages() {
  return (
    <Switch>
      <Route path="/">
        <Redirect to="/overview" replace />
      </Route>
      <Route path="/agents">
        <pages.Agents />
      </Route>
      <Route path="/agents/:id/:tab?">{(p) => <pages.Agent key={p.id} id={p.id} tab={p.tab ?? 'configuration'} />}</Route>
      <Route path="/agents/:id/:tab/:sub/:one?">{(p) => <pages.Agent key={p.id} id={p.id} tab={p.tab} sub={p.sub} one={p.one} />}</Route>
      <Route path="/chat/:id?">{(p) => <pages.Chat id={p.id} />}</Route>
      <Route path="/runs">
        <pages.Runs />
      </Route>
      <Route path="/runs/:id">{(p) => <pages.Run key={p.id} id={p.id} />}</Route>
      <Route path="/runs/:id/compare/:other">{(p) => <pages.Compare key={p.id + p.other} id={p.id} other={p.other} />}</Route>
      <Route path="/overview">
        <pages.Overview />
      </Route>
      <Route path="/inbox/:id?">{(p) => <pages.Inbox id={p.id} />}</Route>
      <Route path="/teams/:id?">{(p) => <pages.Teams id={p.id} />}</Route>
      <Route path="/teams/:id/runs/:run">{(p) => <pages.Teams id={p.id} run={p.run} />}</Route>
      <Route path="/missions/:id?">{(p) => <pages.Missions key={p.id} id={p.id} />}</Route>
      <Route path="/initiatives/:id?">{(p) => <pages.Initiatives key={p.id} id={p.id} />}</Route>
      <Route path="/marketplace/:section?/:id?">{(p) => <pages.Marketplace section={p.section ?? 'browse'} id={p.id} />}</Route>
      <Route path="/library/:section?/:id?">{(p) => <pages.Library section={p.section ?? 'knowledge'} id={decoded(p.id)} />}</Route>
      <Route path="/governance/:section?/:id?">{(p) => <pages.Governance section={p.section ?? 'rules'} id={decoded(p.id)} />}</Route>
      <Route path="/settings/:section?/:id?/:sub?">{(p) => <pages.Settings key={p.section} section={p.section ?? 'general'} id={decoded(p.id)} sub={p.sub} />}</Route>
      <Route path="/reference/:id?">{(p) => <pages.Reference id={p.id} />}</Route>
      <Route>
        <NotHere />
      </Route>
    </Switch>
  );
}

/** A page that fails leaves the rest of the console as it is. */
class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  override render() {
    if (!this.state.error) return this.props.children;
    return <Failure error={this.state.error} what={s.broken} retry={() => this.setState({ error: undefined })} />;
  }
}

function decoded(id: string | undefined): string | undefined {
  return id === undefined ? undefined : decodeURIComponent(id);
}

function NotHere() {
  return (
    <div className="ctr">
      <h1 className="h2">{s.noPage}</h1>
      <p className="t2">{s.noPageText}</p>
    </div>
  );
}

export function personOf(me: Me): string {
  return me.user?.name || me.user?.email || me.tenant.name;
}

function signOut(): void {
  const form = document.createElement('form');
  form.method = 'post';
  form.action = `${prefix}/signout`;
  document.body.append(form);
  form.submit();
}

function ThemeButton() {
  const [dark, set] = useState(isDark);
  useEffect(() => {
    const change = () => set(isDark());
    addEventListener('themechange', change);
    return () => removeEventListener('themechange', change);
  }, []);
  return <IconButton icon="sun" label={dark ? s.toLight : s.toDark} onClick={toggleTheme} />;
}

function Company({ me }: { me: Me }) {
  const [open, setOpen] = useState(false);
  const ref = useRef<HTMLSpanElement>(null);
  const close = useCallback(() => setOpen(false), []);
  useOutside(ref, close);
  const mine = useGet<Schema<'MyTenants'>>('/api/v1/me/tenants', {}, { enabled: open, retry: false });
  const switchTo = async (id: string) => {
    await send('post', '/api/v1/me/tenants/switch', {}, { tenant_id: id });
    location.assign(`${prefix}/`);
  };
  const letter = me.tenant.name.charAt(0).toUpperCase();
  return (
    <span className="menuw" ref={ref}>
      <button type="button" className="co" aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span className="co-i" aria-hidden="true">
          {letter}
        </span>
        <span className="trunc">{me.tenant.name}</span>
        <span className="vh">{s.switchCompany}</span>
        <Icon name="updown" small className="t3" />
      </button>
      {open && (
        <div className="menu left" role="menu" aria-label={s.companies}>
          {(mine.data?.memberships ?? []).map((m) => (
            <button key={m.tenant_id} type="button" role="menuitem" disabled={!m.accessible} onClick={() => void switchTo(m.tenant_id).catch((e: Error) => toast(e.message, true))}>
              <Icon name={m.tenant_id === me.tenant.tenant_id ? 'check' : 'user'} small />
              {m.name} <span className="t3">{m.role}</span>
            </button>
          ))}
          <p className="t3 fs12 pad">{me.auth_method === 'api_key' || me.auth_method === 'cookie' ? s.keyCompany : s.companyHint}</p>
          <button type="button" role="menuitem" onClick={signOut}>
            <Icon name="export" small />
            {s.signOut}
          </button>
        </div>
      )}
    </span>
  );
}

let lostAt = 0;

function useOnline(): boolean {
  const [online, set] = useState(true);
  useEffect(
    () =>
      on('online', (up) => {
        if (!up && !lostAt) lostAt = Date.now();
        if (up) lostAt = 0;
        set(up);
      }),
    [],
  );
  return online;
}

function Live() {
  const online = useOnline();
  return (
    <span className="live" role="status">
      <i className={`dot ${online ? '' : 'warn'}`} />
      <b className="t2">{online ? s.live : s.offline}</b>
    </span>
  );
}

/** One line; the page stays and shows its age. */
function Offline() {
  const online = useOnline();
  const now = useTick(online ? 0 : 1000);
  useEffect(() => {
    if (online) return;
    const timer = setInterval(() => void api.get('/health/live' as '/api/v1/me').then(() => queries.invalidateQueries(), () => undefined), 4000);
    return () => clearInterval(timer);
  }, [online]);
  if (online) return null;
  const since = lostAt || now;
  return (
    <div className="off" role="alert">
      <Icon name="s-waiting" className="warn" />
      <span className="grow">
        <b className="b">{s.noConnection(Math.max(0, Math.round((now - since) / 1000)))}</b> <span className="t2">{s.age(new Date(since))}</span>
      </span>
      <Button small icon="refresh" label={s.retryNow} onClick={() => void queries.refetchQueries({ type: 'active' })} />
    </div>
  );
}

/** What stops a page: somebody was signed out, or moved to another company in another tab. */
function Interruptions() {
  const [what, set] = useState<'' | 'signedOut' | 'switched'>('');
  useEffect(() => {
    const off = [on('signedOut', () => set('signedOut')), on('switched', () => set('switched'))];
    return () => off.forEach((o) => o());
  }, []);
  if (what === '') return null;
  return (
    <Dialog
      title={what === 'signedOut' ? s.signedOut : s.switched}
      onClose={() => set('')}
      footer={
        <>
          <span className="grow" />
          <Button kind="primary" label={what === 'signedOut' ? s.signIn : s.reload} onClick={() => (what === 'signedOut' ? location.assign(signInAddress()) : location.assign(`${prefix}/`))} />
        </>
      }
    >
      <p className="t2">{what === 'signedOut' ? s.signedOutText : s.switchedText}</p>
    </Dialog>
  );
}

function Toasts() {
  const [all, set] = useState<{ id: number; text: string; bad?: boolean }[]>([]);
  useEffect(() => {
    let id = 0;
    return on('toast', (t) => {
      const mine = ++id;
      set((a) => [...a.slice(-2), { id: mine, ...t }]);
      setTimeout(() => set((a) => a.filter((x) => x.id !== mine)), 4000);
    });
  }, []);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {all.map((t) => (
        <div key={t.id} className={`toast ${t.bad ? 'bad' : ''}`}>
          {t.text}
        </div>
      ))}
    </div>
  );
}

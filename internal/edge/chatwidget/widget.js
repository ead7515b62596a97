// A chat with a public agent, for any web page:
//
//   <script src="https://agents.example.com/widget.js" data-agent="AGENT_ID" async></script>
//
// docs/public-agents.md describes its attributes. It has no dependencies, sets no cookie
// and keeps the token of a conversation in the tab's sessionStorage.
(() => {
  'use strict';

  const script = document.currentScript;
  if (!script || !script.dataset.agent) {
    console.error('agentd widget: the script tag needs data-agent, the id of a public agent');
    return;
  }
  const set = script.dataset;
  const api = new URL('api/v1/public/', script.src).href;
  const kept = 'agentd-chat:' + set.agent;

  const words = Object.assign({
    open: 'Open the chat', close: 'Close the chat', title: '', log: 'Conversation', input: 'Your message', send: 'Send', stop: 'Stop',
    restart: 'New conversation', retry: 'Try again', you: 'You', working: 'Writing an answer', connecting: 'The connection was lost. Connecting again',
    failed: 'The message could not be sent.', off: 'The chat is not available at this time.', over: 'This conversation is over.',
    noAnswer: 'There was no answer. Please try again.', poweredBy: '',
  }, json(set.labels));

  function json(text) {
    try { return text ? JSON.parse(text) : {}; } catch { console.error('agentd widget: data-labels is not JSON'); return {}; }
  }

  // The elements. All text is set as text: nothing that an agent or a visitor writes is
  // read as HTML.
  function el(name, props, ...children) {
    const e = document.createElement(name);
    for (const [k, v] of Object.entries(props || {})) {
      if (k === 'class') e.className = v;
      else if (k in e && k !== 'role') e[k] = v;
      else e.setAttribute(k, v);
    }
    e.append(...children);
    return e;
  }

  // Text with paragraphs, lists, code, emphasis and links.
  function rich(text) {
    const out = document.createDocumentFragment();
    text.split(/```/).forEach((part, i) => {
      if (i % 2) {
        out.append(el('pre', { tabIndex: 0 }, el('code', {}, part.replace(/^[\w+-]*\n/, '').replace(/\n$/, ''))));
        return;
      }
      for (const block of part.split(/\n{2,}/)) {
        const lines = block.split('\n').filter((l) => l.trim());
        if (!lines.length) continue;
        const bullet = /^\s*([-*]|\d+[.)])\s+/;
        if (lines.every((l) => bullet.test(l))) {
          const list = el(/^\s*\d/.test(lines[0]) ? 'ol' : 'ul');
          for (const l of lines) list.append(inline(el('li'), l.replace(bullet, '')));
          out.append(list);
          continue;
        }
        const p = el('p');
        lines.forEach((l, n) => {
          if (n) p.append(el('br'));
          inline(p, l.replace(/^#{1,6}\s+/, ''));
        });
        out.append(p);
      }
    });
    return out;
  }

  const marks = /(`[^`]+`)|(\*\*[^*]+\*\*)|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"')\]]+)/g;

  function inline(into, text) {
    let at = 0;
    for (const m of text.matchAll(marks)) {
      into.append(text.slice(at, m.index));
      at = m.index + m[0].length;
      if (m[1]) into.append(el('code', {}, m[1].slice(1, -1)));
      else if (m[2]) into.append(el('strong', {}, m[2].slice(2, -2)));
      else into.append(el('a', { href: m[4] || m[5], target: '_blank', rel: 'noopener noreferrer nofollow' }, m[3] || m[5]));
    }
    into.append(text.slice(at));
    return into;
  }

  const css = `
:host { --accent: #1f5fbf; --on-accent: #fff; --surface: #fff; --text: #1b1f24; --quiet: #5b6470; --line: #d5dae0; --mine: #e8f0fc; --radius: 12px;
  --font: system-ui, sans-serif; --width: 380px; --height: 600px; --gap: 20px; --z: 2147483000; all: initial; }
@media (prefers-color-scheme: dark) { :host([theme=auto]) { --accent: #8ab4ff; --on-accent: #10182a; --surface: #1b1f24; --text: #eef1f4; --quiet: #a7b0ba;
  --line: #3a424c; --mine: #2a3a55; } }
:host([theme=dark]) { --accent: #8ab4ff; --on-accent: #10182a; --surface: #1b1f24; --text: #eef1f4; --quiet: #a7b0ba; --line: #3a424c; --mine: #2a3a55; }
* { box-sizing: border-box; font: inherit; color: inherit; }
[hidden] { display: none !important; }
.root { font: 400 15px/1.45 var(--agentd-font, var(--font)); color: var(--agentd-text, var(--text)); }
button { cursor: pointer; border: 0; background: none; padding: 8px; border-radius: 8px; }
button:disabled { opacity: .5; cursor: default; }
:focus-visible { outline: 3px solid var(--agentd-accent, var(--accent)); outline-offset: 2px; }
.launch { position: fixed; bottom: var(--gap); inset-inline-end: var(--gap); width: 56px; height: 56px; border-radius: 50%; z-index: var(--z);
  background: var(--agentd-accent, var(--accent)); color: var(--agentd-on-accent, var(--on-accent)); box-shadow: 0 4px 16px #0004; display: grid; place-items: center; }
.left .launch, .left .panel { inset-inline-end: auto; inset-inline-start: var(--gap); }
.launch svg { width: 26px; height: 26px; fill: currentColor; }
.panel { position: fixed; bottom: calc(var(--gap) + 68px); inset-inline-end: var(--gap); z-index: var(--z); display: flex; flex-direction: column;
  width: min(var(--agentd-width, var(--width)), calc(100vw - 2 * var(--gap))); height: min(var(--agentd-height, var(--height)), calc(100vh - 110px));
  background: var(--agentd-surface, var(--surface)); border: 1px solid var(--agentd-line, var(--line)); border-radius: var(--agentd-radius, var(--radius));
  box-shadow: 0 12px 40px #0003; overflow: hidden; }
.inside .panel { position: static; width: 100%; height: 100%; min-height: 320px; box-shadow: none; }
header { display: flex; align-items: center; gap: 4px; padding: 8px 8px 8px 16px; border-bottom: 1px solid var(--agentd-line, var(--line)); }
h2 { margin: 0; flex: 1; font-weight: 600; font-size: 16px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
header button { font-size: 13px; color: var(--agentd-quiet, var(--quiet)); }
.log { flex: 1; overflow-y: auto; padding: 16px; display: flex; flex-direction: column; gap: 12px; overscroll-behavior: contain; }
.said { max-width: 88%; padding: 9px 13px; border-radius: 14px; border: 1px solid var(--agentd-line, var(--line)); align-self: flex-start; overflow-wrap: anywhere; }
.said.user { align-self: flex-end; background: var(--agentd-mine, var(--mine)); border-color: transparent; white-space: pre-wrap; }
.said > :first-child { margin-top: 0 } .said > :last-child { margin-bottom: 0 }
.said p, .said ul, .said ol, .said pre { margin: .5em 0; } .said ul, .said ol { padding-inline-start: 1.4em; }
.said pre { overflow-x: auto; padding: 8px; border: 1px solid var(--agentd-line, var(--line)); border-radius: 6px; } .said code { font: 13px/1.4 ui-monospace, monospace; }
.said a { color: var(--agentd-accent, var(--accent)); text-decoration: underline; }
strong { font-weight: 600; }
.state { min-height: 1.5em; padding: 0 16px; font-size: 13px; color: var(--agentd-quiet, var(--quiet)); }
.state button { color: var(--agentd-accent, var(--accent)); text-decoration: underline; padding: 0 4px; }
form { display: flex; gap: 8px; align-items: flex-end; padding: 8px 12px 12px; }
textarea { flex: 1; resize: none; max-height: 140px; min-height: 42px; padding: 9px 12px; border: 1px solid var(--agentd-quiet, var(--quiet)); border-radius: 10px;
  background: transparent; }
form button { background: var(--agentd-accent, var(--accent)); color: var(--agentd-on-accent, var(--on-accent)); padding: 10px 14px; font-weight: 600; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@media (max-width: 480px) { .root:not(.inside) .panel { inset: 0; width: 100vw; height: 100dvh; max-height: none; border-radius: 0; } .root.opened:not(.inside) .launch { display: none; } }
@media (forced-colors: active) { .launch, form button { border: 1px solid; } }
@media (prefers-reduced-motion: no-preference) { .state.busy::after { content: "…"; animation: pulse 1.2s infinite; } @keyframes pulse { 50% { opacity: .2; } } }
`;

  const icon = (path) => {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    const p = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    svg.setAttribute('viewBox', '0 0 24 24');
    svg.setAttribute('aria-hidden', 'true');
    p.setAttribute('d', path);
    svg.append(p);
    return svg;
  };

  const host = document.createElement('agentd-chat');
  host.setAttribute('theme', set.theme || 'auto');
  const shadow = host.attachShadow({ mode: 'open' });
  if (set.accent && CSS.supports('color', set.accent)) host.style.setProperty('--agentd-accent', set.accent);
  if (set.onAccent && CSS.supports('color', set.onAccent)) host.style.setProperty('--agentd-on-accent', set.onAccent);
  const sheet = new CSSStyleSheet(); // pages whose policy forbids inline styles allow it
  sheet.replaceSync(css);
  shadow.adoptedStyleSheets = [sheet];

  let inside = null; // the element of the page that the chat is in; null: it floats above the page
  const title = el('h2', { id: 'title' }, set.title || words.title);
  const log = el('div', { class: 'log', role: 'log', 'aria-label': words.log, 'aria-live': 'off', tabIndex: 0 });
  const said = el('div', { class: 'unseen', role: 'status', 'aria-live': 'polite' }); // whole answers, for those who listen
  const state = el('div', { class: 'state', role: 'status' });
  const input = el('textarea', { id: 'message', rows: 1, maxLength: 10000, placeholder: words.input, required: true });
  const send = el('button', { type: 'submit' }, words.send);
  const stop = el('button', { type: 'button', hidden: true }, words.stop);
  const form = el('form', {}, el('label', { class: 'unseen', htmlFor: 'message' }, words.input), input, send, stop);
  const restart = el('button', { type: 'button' }, words.restart);
  const close = el('button', { type: 'button', 'aria-label': words.close }, '✕');
  const panel = el('div', { class: 'panel', id: 'panel', role: 'dialog', 'aria-labelledby': 'title', hidden: true },
    el('header', {}, title, restart, close), log, state, form, said);
  const launch = el('button', { class: 'launch', type: 'button', 'aria-label': words.open, 'aria-expanded': 'false', 'aria-controls': 'panel' },
    icon('M4 3h16a2 2 0 0 1 2 2v11a2 2 0 0 1-2 2H9l-5 4v-4a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2z'));
  const root = el('div', { class: 'root' + (set.position === 'left' ? ' left' : '') }, panel, launch);
  shadow.append(root);

  // The state of the conversation.
  let session = null; // {id, token}
  let card = null;
  let source = null; // EventSource
  let last = ''; // id of the last event
  let running = ''; // the answer that is under way
  let asking = false; // the agent waits for an answer to a question
  let bubble = null; // what is being written
  let parts = []; // of the answer that is written: one for each time that the model was asked
  let text = ''; // of the part that is being written
  let tries = 0;
  let timer = 0;
  const shown = new Set(); // answers whose text is shown

  async function call(path, options) {
    const o = options || {};
    const headers = {};
    if (session) headers['X-Public-Session-Token'] = session.token;
    if (o.body) headers['Content-Type'] = 'application/json';
    const r = await fetch(api + path, { method: o.method || 'GET', headers, body: o.body && JSON.stringify(o.body), credentials: 'omit', cache: 'no-store' });
    const body = await r.json().catch(() => ({}));
    if (r.ok) return body;
    throw Object.assign(new Error(body.detail || words.failed), { status: r.status, code: body.code });
  }

  function add(role, content) {
    const b = el('div', { class: 'said ' + role });
    b.append(el('span', { class: 'unseen' }, (role === 'user' ? words.you : title.textContent) + ': '));
    if (role === 'user') b.append(content); else b.append(rich(content));
    log.append(b);
    scroll();
    return b;
  }

  function scroll() { log.scrollTop = log.scrollHeight; }

  function say(message, action, onAction) {
    state.replaceChildren(message || '');
    state.classList.toggle('busy', message === words.working);
    if (action) {
      const b = el('button', { type: 'button' }, action);
      b.addEventListener('click', onAction);
      state.append(' ', b);
    }
  }

  function busy(id) {
    running = id;
    send.hidden = !!id && !asking;
    stop.hidden = !id || asking;
    if (id && !asking) say(words.working);
  }

  function render() {
    const all = [...parts, text].filter((p) => p.trim()).join('\n\n');
    if (!all && !bubble) return;
    if (!bubble) { bubble = add('assistant', ''); bubble.setAttribute('aria-busy', 'true'); }
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    bubble.replaceChildren(bubble.firstChild, rich(all));
    bubble.hidden = !all;
    if (atEnd) scroll();
  }

  function drop() {
    bubble = null;
    parts = [];
    text = '';
  }

  // finish ends an answer. whole is its last part as it counts: checks of the company may
  // have changed what was written.
  function finish(whole) {
    if (whole) {
      if (text || !parts.length) parts.push('');
      parts[parts.length - 1] = whole;
      text = '';
      render();
    }
    if (bubble) {
      bubble.removeAttribute('aria-busy');
      if (!bubble.hidden) said.textContent = bubble.innerText;
    }
    drop();
  }

  const on = {
    'llm.chunk'(e) { if (!shown.has(e.run_id)) { text += e.text || ''; render(); } },
    'llm.completed'(e) { if (!shown.has(e.run_id)) { parts.push(text); text = ''; } },
    'step.draft_void'() { text = ''; render(); },
    'run.started'(e) { if (!shown.has(e.run_id)) busy(e.run_id); },
    'run.resumed'(e) { if (!shown.has(e.run_id)) busy(e.run_id); },
    'input.requested'(e) { if (shown.has(e.run_id)) return; finish(); asking = true; add('assistant', e.question || ''); said.textContent = e.question || ''; busy(e.run_id); say(''); input.focus(); },
    'input.received'() { asking = false; busy(running); },
    done(e) {
      if (shown.has(e.run_id)) return;
      shown.add(e.run_id);
      finish(e.output && e.output.text);
      asking = false;
      busy('');
      say(e.status === 'failed' ? words.noAnswer : '');
    },
    session_closed() { stopListening(); say(words.over, words.restart, begin); input.disabled = send.disabled = true; },
    error(e) { if (e.code === 'GONE') { stopListening(); say(words.off); } },
  };

  function listen() {
    stopListening();
    if (!session) return;
    let url = api + 'sessions/' + session.id + '/events?token=' + encodeURIComponent(session.token);
    if (last) url += '&last_event_id=' + encodeURIComponent(last);
    const s = source = new EventSource(url);
    for (const name of Object.keys(on)) {
      s.addEventListener(name, (e) => {
        if (s !== source || !e.data) return;
        if (e.lastEventId) last = e.lastEventId;
        let data;
        try { data = JSON.parse(e.data); } catch { return; }
        on[name](data);
      });
    }
    s.addEventListener('open', () => { tries = 0; if (state.textContent === words.connecting) busy(running), running || say(''); });
    s.addEventListener('error', (e) => {
      if (s !== source || e.data) return; // an event of that name has data
      say(words.connecting);
      stopListening(); // the browser gives up on some answers, and its own waits are not ours
      timer = setTimeout(restore, Math.min(30000, 500 * 2 ** tries++) * (0.5 + Math.random()));
    });
  }

  function stopListening() {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  }

  // restore shows a conversation as it is, and follows it from there.
  async function restore() {
    try {
      show(await call('sessions/' + session.id));
      listen();
    } catch (e) {
      if (!e.status || e.status >= 500 || e.status === 429) {
        timer = setTimeout(restore, Math.min(30000, 500 * 2 ** tries++) * (0.5 + Math.random()));
      } else {
        forget();
        begin();
      }
    }
  }

  function show(view) {
    log.replaceChildren();
    shown.clear();
    drop();
    if (view.greeting) add('assistant', view.greeting);
    for (const m of view.messages) {
      add(m.role, m.content);
      if (m.run_id !== view.run_id) shown.add(m.run_id);
    }
    last = view.last_event_id || '';
    asking = !!view.question;
    if (asking) shown.delete(view.run_id);
    busy(view.run_id || '');
    if (!view.run_id) say('');
    const over = view.status !== 'active' || !view.messages_remaining && !view.run_id;
    input.disabled = send.disabled = over;
    if (over) say(words.over, words.restart, begin);
  }

  function forget() {
    session = null;
    try { sessionStorage.removeItem(kept); } catch { /* storage is switched off */ }
  }

  // begin shows an empty conversation. Its session is made with the first message.
  async function begin() {
    stopListening();
    forget();
    log.replaceChildren();
    shown.clear();
    last = '';
    drop();
    asking = false;
    input.disabled = send.disabled = false;
    busy('');
    say('');
    try {
      card = card || await call('agents/' + set.agent);
      title.textContent = set.title || words.title || card.name;
      input.maxLength = card.max_message_length;
      if (card.greeting) add('assistant', card.greeting);
    } catch (e) {
      say(e.status && e.status < 500 ? words.off : words.failed, words.retry, begin);
    }
  }

  async function open() {
    if (!panel.hidden) return;
    panel.hidden = false;
    root.classList.add('opened');
    launch.setAttribute('aria-expanded', 'true');
    launch.setAttribute('aria-label', words.close);
    if (!inside) input.focus();
    try { session = session || JSON.parse(sessionStorage.getItem(kept)); } catch { session = null; }
    if (!session) return begin();
    if (!card) {
      card = await call('agents/' + set.agent).catch(() => null);
      if (card) title.textContent = set.title || words.title || card.name;
    }
    return restore();
  }

  function shut() {
    if (panel.hidden || inside) return;
    panel.hidden = true;
    root.classList.remove('opened');
    launch.setAttribute('aria-expanded', 'false');
    launch.setAttribute('aria-label', words.open);
    stopListening();
    launch.focus();
  }

  async function ensure() {
    if (session) return;
    const body = { agent_id: set.agent, fresh: true };
    const solve = window.agentdChat && window.agentdChat.captcha;
    if (card && card.captcha_site_key && solve) body.captcha_token = await solve(card.captcha_site_key);
    const made = await call('sessions', { method: 'POST', body });
    session = { id: made.session_id, token: made.token };
    try { sessionStorage.setItem(kept, JSON.stringify(session)); } catch { /* the tab forgets it */ }
  }

  async function submit(content) {
    const mine = add('user', content);
    send.disabled = true;
    try {
      await ensure();
      const at = 'sessions/' + session.id;
      if (asking) {
        await call(at + '/respond', { method: 'POST', body: { response: content } });
        asking = false;
        busy(running);
      } else {
        const r = await call(at + '/messages', { method: 'POST', body: { content } });
        busy(r.run_id);
      }
      if (!source) listen();
    } catch (e) {
      mine.remove();
      input.value = input.value || content;
      if (e.status === 401 || e.status === 404 || e.status === 410) {
        say(words.over, words.restart, begin);
      } else {
        say(e.message || words.failed, words.retry, () => form.requestSubmit());
      }
    } finally {
      send.disabled = false;
    }
  }

  form.addEventListener('submit', (e) => {
    e.preventDefault();
    const content = input.value.trim();
    if (!content || send.disabled || (running && !asking)) return;
    input.value = '';
    grow();
    submit(content);
    input.focus();
  });
  function grow() {
    input.style.height = 'auto';
    input.style.height = Math.min(140, input.scrollHeight + 2) + 'px';
  }
  input.addEventListener('input', grow);
  input.addEventListener('keydown', (e) => {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      form.requestSubmit();
    }
  });
  stop.addEventListener('click', () => {
    if (running) call('sessions/' + session.id + '/runs/' + running + '/cancel', { method: 'POST' }).catch(() => {});
  });
  restart.addEventListener('click', () => { begin(); input.focus(); });
  close.addEventListener('click', shut);
  launch.addEventListener('click', () => (panel.hidden ? open() : shut()));
  root.addEventListener('keydown', (e) => {
    e.stopPropagation(); // the page's own shortcuts do not act on what is typed here
    if (e.key === 'Escape') shut();
  });
  window.addEventListener('pagehide', stopListening);
  window.addEventListener('pageshow', (e) => { if (e.persisted && !panel.hidden && session) restore(); });
  window.addEventListener('online', () => { if (!panel.hidden && session && !source) { tries = 0; restore(); } });

  window.agentdChat = Object.assign(window.agentdChat || {}, { open, close: shut });

  function mount() {
    inside = set.target ? document.querySelector(set.target) : null;
    if (inside) {
      root.classList.add('inside');
      panel.setAttribute('role', 'region');
      close.hidden = launch.hidden = true;
    }
    (inside || document.body).append(host);
    if (inside || set.open !== undefined) open();
  }
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', mount); else mount();
})();

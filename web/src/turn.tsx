import { lazy, Suspense, useEffect, useMemo, useRef, useState } from 'react';
import { Link } from 'wouter';
import { send } from './api';
import { toast } from './bus';
import { useCommands, type Command } from './commands';
import { coarse, span } from './format';
import { Icon } from './icons';
import type { Part, Turn } from './live/turn';
import { en } from './strings/en';
import { Button, Field, FormError, Json, Status, useAction, useTick } from './ui';

export const Markdown = lazy(() => import('./markdown'));
const s = en.turn;

export function Text({ text, live }: { text: string; live?: boolean }) {
  return (
    <Suspense fallback={<p>{text}</p>}>
      <Markdown text={text} live={live} />
    </Suspense>
  );
}

/** The two most telling arguments in a line. */
export function brief(args: unknown): string {
  const value = typeof args === 'string' ? tryParse(args) : args;
  if (value && typeof value === 'object' && !Array.isArray(value)) {
    return Object.entries(value)
      .slice(0, 2)
      .map(([, v]) => (typeof v === 'string' ? v : JSON.stringify(v)))
      .join(', ')
      .slice(0, 160);
  }
  return typeof value === 'string' ? value.slice(0, 160) : value === undefined || value === null ? '' : JSON.stringify(value).slice(0, 160);
}

export function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Parts that are rows stand together in one block; text and cards between them. */
export function Parts({ parts, runId, decide }: { parts: Part[]; runId: string; decide: boolean }) {
  const groups = useMemo(() => {
    const out: (Part | Part[])[] = [];
    for (const p of parts) {
      if (p.kind === 'text' || p.kind === 'question' || p.kind === 'auth' || p.kind === 'note' || (p.kind === 'approval' && p.status === 'pending')) out.push(p);
      else {
        const last = out[out.length - 1];
        if (Array.isArray(last)) last.push(p);
        else out.push([p]);
      }
    }
    return out;
  }, [parts]);
  return (
    <>
      {groups.map((g) => {
        if (Array.isArray(g)) {
          return (
            <div className="steps" key={g[0]!.key}>
              {g.map((p) => (
                <Row key={p.key} part={p} runId={runId} />
              ))}
            </div>
          );
        }
        switch (g.kind) {
          case 'text':
            return <Text key={g.key} text={g.text} live={!g.done} />;
          case 'approval':
            return <ApprovalCard key={g.key} runId={runId} id={g.id} tool={g.name} args={g.args} expires={g.expires} decide={decide} keys />;
          case 'question':
            return <QuestionCard key={g.key} runId={runId} text={g.text} answer={g.answer} decide={decide} />;
          case 'auth':
            return (
              <div className="note warn" key={g.key}>
                <Icon name="s-waiting" />
                <div className="grow">
                  <b className="b">{s.needsSignIn(g.name)}</b>{' '}
                  <a className="acc" href={g.url} target="_blank" rel="noopener noreferrer">
                    {s.authorize}
                  </a>
                </div>
              </div>
            );
          case 'note':
            return (
              <div className="thin l" key={g.key}>
                <Icon name={g.note === 'void' ? 'refresh' : g.note === 'memory' ? 'hist' : g.note === 'compacted' ? 'folded' : 'shield'} small />
                <span>{g.note === 'void' ? s.voided : g.note === 'memory' ? s.remembered(g.text) : g.note === 'compacted' ? s.compacted(g.text) : g.text}</span>
              </div>
            );
        }
        return null;
      })}
    </>
  );
}

function Row({ part, runId }: { part: Part; runId: string }) {
  const [open, setOpen] = useState(part.kind === 'tool' && part.status === 'error');
  if (part.kind === 'thinking') {
    const lines = part.text.trim().split('\n');
    return (
      <div>
        <button type="button" className="step" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Icon name="think" small className="t3" />
          <span className="t2">{part.done ? (part.ms ? s.thought(span(part.ms)) : s.thoughtOnly) : s.thinks}</span>
          <span className="t3 trunc grow">{part.done ? lines[0] : lines[lines.length - 1]}</span>
          <Icon name={open ? 'down' : 'right'} small className="t3" />
        </button>
        {open && (
          <div className="body t2">
            <Text text={part.text} />
          </div>
        )}
      </div>
    );
  }
  if (part.kind === 'approval') {
    return (
      <div className="step">
        <Status of={part.status} bare />
        <span className="mono">{part.name}</span>
        <span className="t3 trunc grow">{s.decided(part.status, part.edited ?? false, part.reason ?? '')}</span>
      </div>
    );
  }
  if (part.kind !== 'tool') return null;
  return (
    <div>
      <button type="button" className="step" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Status of={part.status === 'done' ? 'completed' : part.status === 'error' ? 'failed' : 'running'} bare />
        <span className="mono">{part.name}</span>
        <span className="t3 trunc grow">{brief(part.args)}</span>
        {part.ms !== undefined && <span className="t3 num">{span(part.ms)}</span>}
        <Icon name={open ? 'down' : 'right'} small className="t3" />
      </button>
      {open && (
        <div className="body">
          <Json value={typeof part.args === 'string' ? tryParse(part.args) : part.args} max={40} />
          {part.output !== undefined && part.output !== null && <Json value={typeof part.output === 'string' ? tryParse(part.output) : part.output} max={40} />}
          <div className="row fs12">
            <Link className="acc" href={`/runs/${runId}`}>
              {s.openRun}
            </Link>
          </div>
        </div>
      )}
    </div>
  );
}

/** Arguments as a table; long texts as text. */
export function Args({ value }: { value: unknown }) {
  const [json, setJson] = useState(false);
  const v = typeof value === 'string' ? tryParse(value) : value;
  const rows = v && typeof v === 'object' && !Array.isArray(v) ? Object.entries(v) : null;
  if (!rows || json || rows.length === 0) return <Json value={v} />;
  return (
    <>
      <dl className="args">
        {rows.map(([k, x]) => (
          <div key={k}>
            <dt>{k}</dt>
            <dd>{typeof x === 'string' ? x : JSON.stringify(x)}</dd>
          </div>
        ))}
      </dl>
      <Button small kind="quiet" icon="code" label={s.asJson} onClick={() => setJson(true)} />
    </>
  );
}

interface DecideProps {
  runId: string;
  id: string;
  tool: string;
  args: unknown;
  expires?: string;
  decide: boolean;
  keys?: boolean;
  onDone?: () => void;
}

export async function decideApproval(runId: string, id: string, what: 'approve' | 'reject', extra: Record<string, unknown> = {}): Promise<void> {
  await send('post', `/api/v1/runs/{runId}/${what}`, { path: { runId } }, { approval_id: id, ...extra });
}

/** A tool call that waits for a person: what it is, exactly, and the three answers. */
export function ApprovalCard({ runId, id, tool, args, expires, decide, keys, onDone }: DecideProps) {
  const [mode, setMode] = useState<'' | 'edit' | 'reject'>('');
  const now = useTick(30_000);
  const [busy, error, run] = useAction(async (what: 'approve' | 'reject', extra?: Record<string, unknown>): Promise<void> => {
    await decideApproval(runId, id, what, extra);
    toast(what === 'approve' ? s.approved(tool) : s.rejected(tool));
    onDone?.();
  });
  const commands = useMemo<Command[]>(
    () =>
      keys && decide
        ? [
            { id: `approve-${id}`, title: s.approveTool(tool), keys: 'a', icon: 'check' as const, run: () => void run('approve') },
            { id: `edit-${id}`, title: s.editTool(tool), keys: 'e', icon: 'edit' as const, run: () => setMode('edit') },
            { id: `reject-${id}`, title: s.rejectTool(tool), keys: 'r', icon: 'x' as const, run: () => setMode('reject') },
          ]
        : [],
    // eslint-disable-next-line
    [keys, decide, id, tool, busy],
  );
  useCommands(commands);
  return (
    <div className="appr" role="group" aria-label={s.needsApproval(tool)} data-approval={id}>
      <header>
        <Icon name="s-waiting" />
        <span className="grow trunc">
          <span className="mono">{tool}</span> {s.needsYou}
        </span>
        {expires && <span className="t2 fs12 num">{s.left(coarse(Date.parse(expires) - now))}</span>}
      </header>
      <div>
        <Args value={args} />
        {mode === 'edit' && <EditArgs args={args} busy={busy} onSave={(a) => void run('approve', { arguments: a })} onCancel={() => setMode('')} />}
        {mode === 'reject' && <Reject busy={busy} onReject={(reason, go) => void run('reject', { reason, continue: go })} onCancel={() => setMode('')} />}
        <FormError error={error} />
      </div>
      {mode === '' && decide && (
        <footer>
          <Button kind="primary" icon="check" label={s.approve} keys={keys ? 'a' : undefined} busy={busy} onClick={() => void run('approve')} />
          <Button icon="edit" label={s.edit} keys={keys ? 'e' : undefined} onClick={() => setMode('edit')} />
          <Button kind="danger" icon="x" label={s.reject} keys={keys ? 'r' : undefined} onClick={() => setMode('reject')} />
          <span className="grow hide-s" />
          <span className="t3 fs12 hide-s">{s.bound}</span>
        </footer>
      )}
    </div>
  );
}

export function EditArgs({ args, busy, onSave, onCancel }: { args: unknown; busy: boolean; onSave: (a: unknown) => void; onCancel: () => void }) {
  const [text, setText] = useState(() => JSON.stringify(typeof args === 'string' ? tryParse(args) : args, null, 2));
  const [bad, setBad] = useState('');
  return (
    <form
      style={{ marginTop: 12 }}
      onSubmit={(e) => {
        e.preventDefault();
        try {
          onSave(JSON.parse(text));
        } catch (cause) {
          setBad(String((cause as Error).message));
        }
      }}
    >
      <Field label={s.argumentsJson} error={bad}>
        {(p) => <textarea {...p} className="in mono" rows={Math.min(14, text.split('\n').length + 1)} value={text} autoFocus onChange={(e) => setText(e.target.value)} spellCheck={false} />}
      </Field>
      <div className="row">
        <Button kind="primary" type="submit" label={s.approveThese} busy={busy} />
        <Button kind="quiet" label={en.common.cancel} onClick={onCancel} />
      </div>
    </form>
  );
}

export function Reject({ busy, onReject, onCancel }: { busy: boolean; onReject: (reason: string, go: boolean) => void; onCancel: () => void }) {
  const [reason, setReason] = useState('');
  const [go, setGo] = useState(false);
  return (
    <form
      style={{ marginTop: 12 }}
      onSubmit={(e) => {
        e.preventDefault();
        onReject(reason, go);
      }}
    >
      <Field label={s.reason} optional help={go ? s.reasonContinue : s.reasonEnd}>
        {(p) => <input {...p} className="in" value={reason} autoFocus maxLength={1000} onChange={(e) => setReason(e.target.value)} />}
      </Field>
      <label className="check" style={{ marginBottom: 12 }}>
        <input type="checkbox" checked={go} onChange={(e) => setGo(e.target.checked)} />
        {s.letContinue}
      </label>
      <div className="row">
        <Button kind="danger" type="submit" label={go ? s.rejectContinue : s.rejectEnd} busy={busy} />
        <Button kind="quiet" label={en.common.cancel} onClick={onCancel} />
      </div>
    </form>
  );
}

export function QuestionCard({ runId, text, answer, decide, onDone }: { runId: string; text: string; answer?: string; decide: boolean; onDone?: () => void }) {
  const [value, setValue] = useState('');
  const field = useRef<HTMLTextAreaElement>(null);
  const [busy, error, run] = useAction(async (): Promise<void> => {
    await send('post', '/api/v1/runs/{runId}/respond', { path: { runId } }, { response: value });
    toast(s.answered);
    onDone?.();
  });
  useEffect(() => {
    const active = document.activeElement;
    if (answer === undefined && !(active instanceof HTMLTextAreaElement && active.value)) field.current?.focus();
    // eslint-disable-next-line
  }, []);
  if (answer !== undefined) {
    return (
      <div className="steps">
        <div className="step" style={{ height: 'auto', minHeight: 32, flexWrap: 'wrap' }}>
          <Status of="completed" bare />
          <span className="t2">{text}</span>
          <span className="b">{answer}</span>
        </div>
      </div>
    );
  }
  return (
    <form
      className="appr"
      aria-label={s.question}
      onSubmit={(e) => {
        e.preventDefault();
        if (value.trim()) void run();
      }}
    >
      <header>
        <Icon name="ask" />
        <span className="grow">{text}</span>
      </header>
      <div>
        <textarea ref={field} className="in" rows={2} aria-label={s.answer} placeholder={s.answerHint} value={value} disabled={!decide} onChange={(e) => setValue(e.target.value)} onKeyDown={(e) => {
            if (e.key !== 'Enter' || e.shiftKey || e.nativeEvent.isComposing) return;
            e.preventDefault();
            if (value.trim()) void run();
          }}
        />
        <FormError error={error} />
      </div>
      {decide && (
        <footer>
          <Button kind="primary" type="submit" icon="send" label={s.sendAnswer} busy={busy} disabled={!value.trim()} />
        </footer>
      )}
    </form>
  );
}

/** Grey, with a clock: nothing is lost and nobody has to act. */
export function Waiting({ turn }: { turn: Turn }) {
  const now = useTick(turn.waiting ? 1000 : 0);
  if (!turn.waiting) return null;
  const left = Math.max(0, Math.round((turn.waiting.until - now) / 1000));
  return (
    <div className="steps">
      <div className="step" title={turn.waiting.reason}>
        <Status of="waiting_model" bare />
        <span className="b">{s.waitingModel}</span>
        <span className="t2 grow trunc">{s.retryIn(left)}</span>
        <span className="t3 num">{s.try(turn.waiting.attempt)}</span>
      </div>
    </div>
  );
}

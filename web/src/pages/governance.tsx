import { lazy, Suspense, useMemo, useState } from 'react';
import { Link } from 'wouter';
import { curlOf, may, send, useGet, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { bodyOf, resolve, useDocument } from '../document';
import { count, shortId } from '../format';
import { Icon, type IconName } from '../icons';
import { Facts, ResourcePage, type Kind } from '../resource';
import { AgentName } from '../names';
import { SchemaFields, type Value } from '../schemaform';
import { areas } from '../strings/areas';
import { en } from '../strings/en';
import { Block, Button, Dialog, Empty, Failure, Field, FormError, Head, Loading, Status, Tabs, Time, sentence, useAction } from '../ui';

const s = en.governance;
const More = lazy(() => import('./govmore'));
const more = new Set(['goals', 'requests', 'designs', 'improvements', 'permissions']);
type Rule = Schema<'ConstitutionRule'>;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));

export default function Governance({ section, id }: { section: string; id?: string }) {
  const me = useMe();
  const state = useGet<Schema<'EmergencyState'>>('/api/v1/governance/emergency/state', {}, { retry: false, every: 15_000 });
  const constitution = useGet<Schema<'Constitution'>>('/api/v1/governance/constitution', {}, { retry: false });
  const [safe, setSafe] = useState(false);
  const on = state.data?.mode === 'safe_mode';
  const paths: Record<string, string> = { ledger: '/api/v1/governance/ledger', votes: '/api/v1/governance/voting/proposals', cases: '/api/v1/governance/arbiter/cases', violations: '/api/v1/governance/ledger?category=enforcement', goals: '/api/v1/governance/goals', requests: '/api/v1/governance/ambassador/requests', designs: '/api/v1/governance/builder/requests' };
  return (
    <>
      <Head title={s.title} after={on ? <span className="tag bad">{s.safeOn}</span> : <Verified />} curl={curlOf('GET', paths[section] ?? '/api/v1/governance/constitution')}>
        {may(me.data, 'owner') && <Button kind="danger" icon="shield" label={on ? s.endSafe : s.safeMode} onClick={() => setSafe(true)} />}
      </Head>
      {on && (
        <div className="note bad exp">
          <Icon name="shield" />
          <div className="grow">
            <b className="b">{s.safeOn}</b> <span className="t2">{state.data?.reason}</span> {state.data?.deadline && <span className="t2">{s.until} <Time at={state.data.deadline} /></span>}
          </div>
        </div>
      )}
      <Tabs
        active={section}
        tabs={[
          { id: 'rules', label: s.constitution, to: '/governance', n: constitution.data ? `v${constitution.data.version}` : undefined },
          { id: 'violations', label: s.violations, to: '/governance/violations' },
          { id: 'votes', label: s.votes, to: '/governance/votes' },
          { id: 'cases', label: s.cases, to: '/governance/cases' },
          ...(['goals', 'requests', 'designs', 'improvements', 'permissions'] as const).map((x) => ({ id: x, label: areas[x], to: `/governance/${x}` })),
          { id: 'ledger', label: s.ledger, to: '/governance/ledger' },
        ]}
      />
      {section === 'rules' && <Rules q={constitution} selected={id} />}
      {section === 'violations' && <Violations />}
      {section === 'votes' && <ResourcePage kind={votes} selected={id} base="/governance/votes" embedded />}
      {section === 'cases' && <ResourcePage kind={cases} selected={id} base="/governance/cases" embedded />}
      {section === 'ledger' && <Ledger />}
      {more.has(section) && (
        <Suspense fallback={<Loading />}>
          <More key={section} section={section} selected={id} />
        </Suspense>
      )}
      {safe && <SafeMode on={on} onClose={() => setSafe(false)} />}
    </>
  );
}

function Verified() {
  const q = useGet<Schema<'LedgerVerification'>>('/api/v1/governance/ledger/verify', {}, { retry: false, staleTime: 60_000 });
  if (!q.data) return null;
  return q.data.valid ? (
    <span className="tag ok">
      <Icon name="check" small />
      {s.verified(q.data.entries_checked)}
    </span>
  ) : (
    <span className="tag bad">{s.broken(q.data.first_invalid_seq ?? 0)}</span>
  );
}

const looks: Record<string, [IconName, string]> = { blocker: ['s-blocked', 'rule'], error: ['s-blocked', 'rule'], warning: ['s-waiting', 'warn'], info: ['folded', 't3'] };

const starters: Value[] = [
  { rule_id: 'no-large-payments', principle: s.starter1, action: 'tool:pay', condition: 'args.amount > 100', rule_type: 'prohibition', severity: 'error', penalty: 'require_approval', shadow: true },
  { rule_id: 'mail-after-the-web', principle: s.starter2, action: 'tool:send_mail', condition: 'sources.exists(s, s == "web")', rule_type: 'prohibition', severity: 'error', penalty: 'block', shadow: true },
];

function Rules({ q, selected }: { q: ReturnType<typeof useGet<Schema<'Constitution'>>>; selected?: string }) {
  const me = useMe();
  const doc = useDocument();
  const writes = may(me.data, 'admin', 'agents:write');
  const rules = useMemo(() => (q.data?.rules ?? []) as Rule[], [q.data]);
  const [id, setId] = useState(selected ?? '');
  const [draft, setDraft] = useState<Value | null>(null);
  const rule = rules.find((r) => r.rule_id === id) ?? rules[0];
  const value: Value = draft ?? (rule as unknown as Value) ?? {};
  const isNew = draft !== null && !rules.some((r) => r.rule_id === draft.rule_id);
  const [simulating, simError, simulate] = useAction(async () => {
    const others = rules.filter((r) => r.rule_id !== value.rule_id);
    setResult(await send<Schema<'ConstitutionSimulationResult'>>('post', '/api/v1/governance/constitution/simulate', {}, { rules: [...others, value] }));
  });
  const [result, setResult] = useState<Schema<'ConstitutionSimulationResult'> | null>(null);
  const [saving, saveError, save] = useAction(async () => {
    await send('post', '/api/v1/governance/constitution/amend', {}, { action: isNew ? 'add' : 'modify', rule_id: value.rule_id, rule: value, rationale: s.fromConsole });
    toast(s.saved);
    setDraft(null);
    setId(text(value.rule_id));
  });
  const [removing, removeError, remove] = useAction(async () => {
    await send('post', '/api/v1/governance/constitution/amend', {}, { action: 'remove', rule_id: rule?.rule_id });
    setDraft(null);
  });
  if (q.error && !q.data) return <Failure error={q.error} retry={() => void q.refetch()} />;
  if (!q.data) return <Loading />;
  if (rules.length === 0 && draft === null) {
    return (
      <Empty icon="gov" title={s.noRules} text={s.noRulesText} curl={curlOf('POST', '/api/v1/governance/constitution/amend', {}, { action: 'add', rule_id: starters[0]!.rule_id, rule: starters[0] })}>
        {writes && starters.map((x) => <Button key={text(x.rule_id)} icon="plus" label={text(x.principle)} onClick={() => setDraft(x)} />)}
      </Empty>
    );
  }
  const schema = doc.data ? resolve(doc.data, bodyOf(doc.data, '/api/v1/governance/constitution/amend', 'post').properties?.rule) : undefined;
  return (
    <div className="gov">
      <ul aria-label={s.rules}>
        <li className="tb">
          <span className="grow h2">{s.nRules(rules.length)}</span>
          {writes && <Button small icon="plus" label={s.newRule} onClick={() => (setDraft({ rule_id: '', principle: '', severity: 'error', shadow: true }), setResult(null))} />}
        </li>
        {rules.map((r) => {
          const [icon, tone] = looks[r.severity] ?? looks.info!;
          return (
            <li key={r.rule_id}>
              <button type="button" data-narrow="" className={`it ${draft === null && r.rule_id === rule?.rule_id ? 'sel' : ''}`} onClick={() => (setId(r.rule_id), setDraft(null), setResult(null))}>
                <span className={tone}>
                  <Icon name={icon} />
                </span>
                <span className="b trunc">{r.principle || r.rule_id}</span>
                {r.shadow && <span className="tag">{s.shadow}</span>}
                <span className="row fs12 t2 line2">
                  <span className="mono trunc grow">{r.action || s.anyAction}</span>
                  <span className="t3">{sentence(r.penalty || r.severity)}</span>
                </span>
              </button>
            </li>
          );
        })}
        {isNew && <li className="it sel" data-narrow=""><Icon name="plus" /><span className="b trunc">{s.newRule}</span></li>}
      </ul>
      <section aria-label={s.rule}>
        <div className="row" style={{ marginBottom: 14 }}>
          <h2 className="grow" data-fs16="">
            {text(value.principle) || s.newRule}
          </h2>
          {draft !== null && <span className="tag acc">{s.draft}</span>}
          {writes && draft !== null && <Button small kind="quiet" label={en.agent.discard} onClick={() => setDraft(null)} />}
          {writes && draft !== null && <Button small kind="primary" label={s.publish(q.data.version + 1)} busy={saving} disabled={!value.rule_id || !value.principle} onClick={() => void save()} />}
          {writes && draft === null && rule && !rule.immutable && <Button small kind="danger" icon="trash" label={en.common.delete} busy={removing} onClick={() => void remove()} />}
        </div>
        <FormError error={saveError ?? removeError} />
        {schema && doc.data ? (
          <fieldset disabled={!writes || (rule?.immutable && !isNew)}>
            <legend className="vh">{s.rule}</legend>
            <SchemaFields doc={doc.data} schema={schema} value={value} onChange={setDraft} error={saveError} depth={1} />
          </fieldset>
        ) : (
          <Loading rows={4} />
        )}
      </section>
      <aside aria-label={s.simulation}>
        <div className="row">
          <h2 className="h2 grow">{s.simulation}</h2>
          <Button small icon="refresh" label={result ? s.again : s.simulate} busy={simulating} onClick={() => void simulate()} />
        </div>
        <p className="fs12 t2" style={{ marginTop: 2 }}>{result ? s.replayed(result.runs_checked) : s.simulationText}</p>
        <FormError error={simError} />
        {result && (
          <>
            <div className="row" style={{ marginTop: 14, gap: 24 }}>
              <div>
                <div className="big rule">{count(result.acts_blocked)}</div>
                <div className="fs12 t2">{s.blocked}</div>
              </div>
              <div>
                <div className="big">{count(result.acts_waiting)}</div>
                <div className="fs12 t2">{s.waiting}</div>
              </div>
              <div>
                <div className="big">{count(result.acts_checked)}</div>
                <div className="fs12 t2">{s.checked}</div>
              </div>
            </div>
            {result.by_rule.map((g) => (
              <div key={`${g.rule_id}-${g.decision}`} style={{ marginTop: 12 }}>
                <div className="row fs12">
                  <b className="b mono grow trunc">{g.rule_id}</b>
                  <span className="t2">{s.group(g.acts, g.runs, g.decision)}</span>
                </div>
                <p className="row wrap fs12">
                  {g.run_ids.slice(0, 8).map((r) => (
                    <Link key={r} className="acc mono" href={`/runs/${r}`}>
                      {shortId(r)}
                    </Link>
                  ))}
                </p>
              </div>
            ))}
            {result.truncated && <p className="fs12 t3" style={{ marginTop: 10 }}>{s.truncated}</p>}
          </>
        )}
      </aside>
    </div>
  );
}

/** What the rules stopped or warned of, of all agents or of one. */
function Violations() {
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', { query: { fields: 'summary' } }, { limit: 100 });
  const [agent, setAgent] = useState('');
  const q = useGet<Schema<'GovernanceLedger'>>('/api/v1/governance/ledger', { query: { category: 'enforcement', count: 200, agent_id: agent || undefined } }, { retry: false });
  return (
    <>
      <div className="tb">
        <select className="chipsel" aria-label={en.agents.agent} value={agent} onChange={(e) => setAgent(e.target.value)}>
          <option value="">{en.runs.anyAgent}</option>
          {agents.rows.map((a) => (
            <option key={a.agent_id} value={a.agent_id}>
              {a.name}
            </option>
          ))}
        </select>
      </div>
      <Block q={q}>
        {(v) =>
          v.entries.length === 0 ? (
            <Empty icon="check" title={s.noViolations} text={agent ? s.noViolationsText : s.noViolationsAtAll} />
          ) : (
            <div className="tblw">
              <table className="tbl res">
                <thead>
                  <tr>
                    <th>{s.rule}</th>
                    <th>{en.agents.agent}</th>
                    <th>{s.decision}</th>
                    <th>{s.what}</th>
                    <th>{en.run.run}</th>
                    <th className="r">{s.at}</th>
                  </tr>
                </thead>
                <tbody>
                  {v.entries.map((x) => {
                    const d = x.details as { message?: string; action?: string; decision?: string };
                    return (
                      <tr key={x.id}>
                        <td className="b">{d.message || x.rule_id}</td>
                        <td>
                          <AgentName id={x.subject_agent_id} link />
                        </td>
                        <td>{sentence(d.decision ?? x.kind.replace('enforcement.', ''))}</td>
                        <td className="mono t2">{d.action}</td>
                        <td>
                          {x.run_id && (
                            <Link className="acc mono" href={`/runs/${x.run_id}?tab=rules`}>
                              {shortId(x.run_id)}
                            </Link>
                          )}
                        </td>
                        <td className="r t2">
                          <Time at={x.ts} />
                        </td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </div>
          )
        }
      </Block>
    </>
  );
}

const votes: Kind<Value> = {
  id: 'votes',
  title: s.votes,
  icon: 'vote',
  list: '/api/v1/governance/voting/proposals',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.title),
  create: { path: '/api/v1/governance/voting/proposals', role: 'developer', label: s.propose, start: { proposal_type: 'general' } },
  columns: [
    { label: s.proposal, cell: (r) => text(r.title) },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status) === 'closed' ? 'completed' : text(r.status)} label={sentence(text(r.status))} /> },
    { label: s.kind, cell: (r) => sentence(text(r.proposal_type)) },
    { label: s.closes, cell: (r) => <Time at={r.closes_at as string} />, right: true },
  ],
  empty: { title: s.noVotes, text: s.noVotesText },
  detail: (r) => <Vote row={r} />,
};

function Vote({ row }: { row: Value }) {
  const path = { path: { proposalId: text(row.id) } };
  const me = useMe();
  const ballots = useGet<{ ballots: Schema<'Ballot'>[] }>('/api/v1/governance/voting/proposals/{proposalId}/ballots', path, { retry: false });
  const [busy, error, cast] = useAction(async (vote: string) => {
    await send('post', '/api/v1/governance/voting/proposals/{proposalId}/ballot', path, { vote });
    toast(s.voted);
  });
  const [tallying, tallyError, tally] = useAction(async () => send('post', '/api/v1/governance/voting/proposals/{proposalId}/tally', path, {}));
  const open = row.status === 'open';
  return (
    <>
      <p style={{ marginTop: 10, whiteSpace: 'pre-wrap' }}>{text(row.description)}</p>
      {open && may(me.data, 'admin') && (
        <div className="row wrap" style={{ marginTop: 12 }}>
          {(['yes', 'no', 'abstain'] as const).map((v) => (
            <Button key={v} small kind={v === 'yes' ? 'primary' : undefined} label={s.vote[v]} busy={busy} onClick={() => void cast(v)} />
          ))}
          <Button small kind="quiet" label={s.tally} busy={tallying} onClick={() => void tally()} />
        </div>
      )}
      <FormError error={error ?? tallyError} />
      <h3 className="lbl" style={{ margin: '16px 0 6px' }}>{s.ballots}</h3>
      <ul className="tl">
        {(ballots.data?.ballots ?? []).length === 0 && <li className="t2">{s.noBallots}</li>}
        {(ballots.data?.ballots ?? []).map((b, i) => (
          <li key={i}>
            <span className="b">{s.vote[b.vote]}</span>
            <span className="t2 grow trunc">{b.reasoning}</span>
            <span className="t3 num">{b.weight}</span>
          </li>
        ))}
      </ul>
      <Facts value={row} skip={['tenant_id', 'title', 'description']} />
    </>
  );
}

const cases: Kind<Value> = {
  id: 'cases',
  title: s.cases,
  icon: 'gov',
  list: '/api/v1/governance/arbiter/cases',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.reason),
  create: { path: '/api/v1/governance/arbiter/cases', role: 'developer', label: s.file },
  columns: [
    { label: s.reason, cell: (r) => text(r.reason) },
    { label: en.agents.status, cell: (r) => <Status of={text(r.status) === 'ruled' || text(r.status) === 'closed' ? 'completed' : 'pending'} label={sentence(text(r.status))} /> },
    { label: s.against, cell: (r) => <AgentName id={text(r.against_agent_id)} /> },
    { label: s.at, cell: (r) => <Time at={r.filed_at as string} />, right: true },
  ],
  empty: { title: s.noCases, text: s.noCasesText },
};

function Ledger() {
  const q = useGet<Schema<'GovernanceLedger'>>('/api/v1/governance/ledger', { query: { count: 100 } }, { retry: false });
  const [chosen, setChosen] = useState('');
  const [busy, error, verify] = useAction(async () => {
    const v = await send0();
    toast(v.valid ? s.verified(v.entries_checked) : s.broken(v.first_invalid_seq ?? 0), !v.valid);
  });
  const verification = useGet<Schema<'LedgerVerification'>>('/api/v1/governance/ledger/verify', {}, { retry: false, staleTime: 60_000 });
  const send0 = async () => (await verification.refetch()).data!;
  const bad = verification.data?.valid === false ? verification.data.first_invalid_seq : undefined;
  return (
    <>
      <div className="tb">
        <span className="t2">{q.data ? s.entries(q.data.total) : ''}</span>
        {q.data && <span className="t3 fs12 mono trunc">{q.data.head.hash}</span>}
        <span className="grow" />
        <Button small icon="check" label={s.verify} busy={busy} onClick={() => void verify()} />
      </div>
      <FormError error={error} />
      <Block q={q}>
        {(l) => {
          if (l.entries.length === 0) return <Empty icon="gov" title={s.noLedger} text={s.noLedgerText} />;
          const sel = l.entries.find((e) => e.id === chosen);
          return (
            <div className={sel ? 'spl' : ''}>
              <div className="tblw">
                <table className="tbl compact">
                  <thead>
                    <tr>
                      <th>{s.seq}</th>
                      <th>{s.what}</th>
                      <th>{en.agents.agent}</th>
                      <th>{s.rule}</th>
                      <th>{s.hash}</th>
                      <th className="r">{s.at}</th>
                    </tr>
                  </thead>
                  <tbody>
                    {l.entries.map((e) => (
                      <tr key={e.id} className={`go ${e.seq === bad ? 'brk' : ''}`} data-selected={e.id === chosen || undefined} onClick={() => setChosen(e.id)}>
                        <td className="num">{e.seq}</td>
                        <td>
                          <button type="button" className="lnk mono b" onClick={() => setChosen(e.id)}>
                            {e.kind}
                          </button>
                        </td>
                        <td className="t2">
                          <AgentName id={e.subject_agent_id} />
                        </td>
                        <td className="mono t2">{e.rule_id}</td>
                        <td className="mono t3">{shortId(e.hash)}</td>
                        <td className="r t2">
                          <Time at={e.ts} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              {sel && (
                <aside aria-label={sel.kind}>
                  <h2 className="h2 mono">{sel.kind}</h2>
                  <Facts value={sel as unknown as Value} />
                </aside>
              )}
            </div>
          );
        }}
      </Block>
    </>
  );
}

function SafeMode({ on, onClose }: { on: boolean; onClose: () => void }) {
  const [reason, setReason] = useState('');
  const [busy, error, run] = useAction(async () => {
    await send('post', on ? '/api/v1/governance/emergency/deactivate' : '/api/v1/governance/emergency/safe-mode', {}, on ? {} : { reason });
    onClose();
  });
  return (
    <Dialog
      title={on ? s.endSafe : s.safeMode}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="danger" type="submit" form="safe" label={on ? s.endSafe : s.startSafe} busy={busy} disabled={!on && !reason.trim()} />
        </>
      }
    >
      <form
        id="safe"
        onSubmit={(e) => {
          e.preventDefault();
          void run();
        }}
      >
        <p className="t2" style={{ marginBottom: 12 }}>{on ? s.endSafeText : s.safeText}</p>
        {!on && <Field label={s.reason}>{(p) => <input {...p} className="in" value={reason} maxLength={500} onChange={(e) => setReason(e.target.value)} />}</Field>}
        <FormError error={error} />
      </form>
    </Dialog>
  );
}


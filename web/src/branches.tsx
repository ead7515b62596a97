import { send, type Schema } from './api';
import { toast } from './bus';
import { en } from './strings/en';
import { IconButton } from './ui';

const s = en.chat;
type Session = Schema<'Session'>;

/** The runs of each branch from the beginning on: what it shares with its parent, and its own. */
export function pathsOf(session: Session): Map<string, string[]> {
  const paths = new Map<string, string[]>();
  const byId = new Map(session.branches.map((b) => [b.branch_id, b]));
  const of = (id: string): string[] => {
    const known = paths.get(id);
    if (known) return known;
    const b = byId.get(id);
    if (!b) return [];
    paths.set(id, []); // a circle, which cannot be, ends here
    const parent = b.parent_branch_id ? of(b.parent_branch_id) : [];
    const path = [...parent.slice(0, parent.indexOf(b.fork_point_run_id ?? '') + 1), ...b.runs];
    paths.set(id, path);
    return path;
  };
  for (const b of session.branches) of(b.branch_id);
  return paths;
}

export interface Version {
  run: string;
  /** The newest branch that has it. */
  branch: string;
}

/** What was said at the place of a run, in all branches that are alike before it, oldest first. */
export function versionsOf(session: Session, paths: Map<string, string[]>, run: string): Version[] {
  const now = paths.get(session.active_branch) ?? [];
  const at = now.indexOf(run);
  if (at < 0) return [];
  const found = new Map<string, string>();
  for (const b of session.branches) {
    const path = paths.get(b.branch_id) ?? [];
    const other = path[at];
    if (other && now.slice(0, at).every((r, i) => path[i] === r)) found.set(other, b.branch_id);
  }
  return [...found].map(([r, branch]) => ({ run: r, branch }));
}

/** Deletes a branch: the conversation goes on in the one that it came of. */
export async function deleteBranch(session: Session, branch: string): Promise<void> {
  const parent = session.branches.find((b) => b.branch_id === branch)?.parent_branch_id;
  if (session.active_branch === branch && parent) await send('put', '/api/v1/sessions/{sessionId}/branches/{branchId}/activate', { path: { sessionId: session.session_id, branchId: parent } }, {});
  await send('delete', '/api/v1/sessions/{sessionId}/branches/{branchId}', { path: { sessionId: session.session_id, branchId: branch } });
}

/** Goes between the versions of a message. */
export function Versions({ session, versions, run }: { session: Session; versions: Version[]; run: string }) {
  const at = versions.findIndex((v) => v.run === run);
  if (at < 0 || versions.length < 2) return null;
  const show = (to: Version | undefined) => {
    if (!to) return;
    void send('put', '/api/v1/sessions/{sessionId}/branches/{branchId}/activate', { path: { sessionId: session.session_id, branchId: to.branch } }, {}).catch((e: Error) => toast(e.message, true));
  };
  return (
    <span className="row vers" role="group" aria-label={s.versions}>
      <IconButton small icon="right" label={s.versionBefore} disabled={at === 0} onClick={() => show(versions[at - 1])} />
      <span className="num fs12 t2">{s.version(at + 1, versions.length)}</span>
      <IconButton small icon="right" label={s.versionAfter} disabled={at === versions.length - 1} onClick={() => show(versions[at + 1])} />
    </span>
  );
}

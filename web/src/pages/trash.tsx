import { useQueries } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { PermissionError, curlOf, may, read, send, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { bytes } from '../format';
import { en } from '../strings/en';
import { Button, Confirm, CopyCurl, Empty, Failure, Loading, Time } from '../ui';

const s = en.library;
const trashOf = '/api/v1/workspaces/{workspaceId}/trash';
type Item = Schema<'WorkspaceTrashItem'>;
type Workspace = Schema<'Workspace'>;

/** What people deleted from workspaces, newest first, and the way back. */
export default function Trash() {
  const me = useMe();
  const writes = may(me.data, 'developer', 'files:write');
  const list = useList<Workspace>('/api/v1/workspaces', {}, { limit: 50, every: 8000 });
  const person = me.data?.auth_method !== 'api_key';
  const trashes = useQueries({
    queries: list.rows.map((w) => {
      const params = { path: { workspaceId: w.workspace_id } };
      return { queryKey: [trashOf, params], enabled: person, retry: false, queryFn: ({ signal }: { signal: AbortSignal }) => read<Schema<'WorkspaceTrash'>>(trashOf, params, signal) };
    }),
  });
  const [emptying, setEmptying] = useState('');
  const rows = list.rows.flatMap((w, i) => (trashes[i]?.data?.items ?? []).map((t: Item) => ({ ...t, workspace: w }))).sort((a, b) => b.trashed_at.localeCompare(a.trashed_at));
  const failed = list.error ?? trashes.find((t) => t.error)?.error;
  if (me.data && (!person || failed instanceof PermissionError)) return <Empty icon="trash" title={s.trashOfPeople} text={s.trashOfPeopleText} />;
  if (list.isLoading || trashes.some((t) => t.isLoading)) return <Loading />;
  if (failed && rows.length === 0) return <Failure error={failed} retry={() => void list.refetch()} />;
  if (rows.length === 0) {
    return (
      <Empty icon="trash" title={s.noTrash} text={s.noTrashText}>
        <Link className="btn" href="/library/workspaces">
          {s.toWorkspaces}
        </Link>
      </Empty>
    );
  }
  const restore = (r: Item & { workspace: Workspace }) =>
    void send('post', '/api/v1/workspaces/{workspaceId}/trash/restore', { path: { workspaceId: r.workspace.workspace_id } }, { trash_path: r.trash_path }).then(
      () => toast(s.restored(r.original_path)),
      (e: Error) => toast(e.message, true),
    );
  const full = list.rows.filter((w) => rows.some((r) => r.workspace.workspace_id === w.workspace_id));
  const chosen = list.rows.find((w) => w.workspace_id === emptying);
  return (
    <>
      <div className="tblw">
        <table className="tbl">
          <thead>
            <tr>
              <th>{s.name}</th>
              <th>{s.where}</th>
              <th className="r">{s.size}</th>
              <th className="r">{s.deletedAt}</th>
              <th>
                <span className="vh">{s.restore}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((r) => (
              <tr key={`${r.workspace.workspace_id} ${r.trash_path}`}>
                <td>
                  <span className="b">{r.original_path}</span>
                </td>
                <td>
                  <Link className="acc" href={`/library/workspaces/${r.workspace.workspace_id}`}>
                    {r.workspace.name}
                  </Link>
                </td>
                <td className="r t2">{bytes(r.size_bytes)}</td>
                <td className="r t2">
                  <Time at={r.trashed_at} />
                </td>
                <td className="r">{writes && <Button small icon="refresh" label={s.restore} onClick={() => restore(r)} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {writes && (
        <div className="row wrap pad">
          {full.map((w) => (
            <Button key={w.workspace_id} small kind="danger" icon="trash" label={full.length > 1 ? `${s.emptyTrash}: ${w.name}` : s.emptyTrash} onClick={() => setEmptying(w.workspace_id)} />
          ))}
          <CopyCurl small curl={curlOf('GET', trashOf, { path: { workspaceId: full[0]!.workspace_id } })} />
        </div>
      )}
      {chosen && (
        <Confirm
          title={s.emptyTrashOf(chosen.name)}
          text={s.emptyTrashText(rows.filter((r) => r.workspace === chosen).length)}
          action={s.emptyTrash}
          danger
          onClose={() => setEmptying('')}
          onConfirm={() => send('delete', trashOf, { path: { workspaceId: chosen.workspace_id } })}
        />
      )}
    </>
  );
}

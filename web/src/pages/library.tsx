import { useRef, useState } from 'react';
import { Link } from 'wouter';
import { api, curlOf, may, queries, send, useGet, useList, useMe, type Schema } from '../api';
import { toast } from '../bus';
import { bytes, count } from '../format';
import { Icon } from '../icons';
import { ResourcePage, type Kind } from '../resource';
import type { Value } from '../schemaform';
import { en } from '../strings/en';
import Trash from './trash';
import { Block, Button, Confirm, Empty, Failure, FormError, Head, IconButton, Loading, Tabs, Time, sentence, useAction } from '../ui';

const s = en.library;
const text = (v: unknown) => (v === null || v === undefined ? '' : String(v));

export default function Library({ section, id }: { section: string; id?: string }) {
  const base = `/library/${section}`;
  return (
    <>
      <Head title={s.title} curl={curlOf('GET', section === 'files' ? '/api/v1/files' : section === 'workspaces' || section === 'trash' ? '/api/v1/workspaces' : section === 'memory' ? '/api/v1/agents' : '/api/v1/knowledge-bases')} />
      <Tabs
        active={section}
        tabs={[
          { id: 'knowledge', label: s.knowledge, to: '/library/knowledge' },
          { id: 'memory', label: s.memory, to: '/library/memory' },
          { id: 'files', label: s.files, to: '/library/files' },
          { id: 'workspaces', label: s.workspaces, to: '/library/workspaces' },
          { id: 'trash', label: s.trash, to: '/library/trash' },
        ]}
      />
      {section === 'knowledge' && <ResourcePage kind={knowledge} selected={id} base={base} embedded />}
      {section === 'memory' && <MemoryOf />}
      {section === 'files' && <ResourcePage kind={files} selected={id} base={base} embedded />}
      {section === 'workspaces' && <ResourcePage kind={workspaces} selected={id} base={base} embedded />}
      {section === 'trash' && <Trash />}
    </>
  );
}

const knowledge: Kind<Value> = {
  id: 'knowledge',
  title: s.knowledge,
  icon: 'book',
  list: '/api/v1/knowledge-bases',
  idOf: (r) => text(r.id),
  nameOf: (r) => text(r.name),
  create: { path: '/api/v1/knowledge-bases', role: 'developer', label: s.newBase },
  one: { path: '/api/v1/knowledge-bases/{knowledgeBaseId}', param: 'knowledgeBaseId' },
  remove: { role: 'developer', text: (r) => s.removeBase(Number(r.document_count ?? 0)) },
  columns: [
    { label: s.name, cell: (r) => text(r.name) },
    { label: s.description, cell: (r) => text(r.description), wide: true },
    { label: s.documents, cell: (r) => count(r.document_count as number), right: true },
    { label: s.pieces, cell: (r) => count(r.total_chunks as number), right: true },
    { label: s.agents, cell: (r) => count(r.attached_agent_count as number), right: true },
    { label: s.changed, cell: (r) => <Time at={r.updated_at as string} />, right: true },
  ],
  empty: { title: s.noBases, text: s.noBasesText },
  detail: (r) => <Base key={text(r.id)} id={text(r.id)} />,
};

/** Documents of a base, how they are found, and adding one. */
function Base({ id }: { id: string }) {
  const path = { path: { knowledgeBaseId: id } };
  const me = useMe();
  const writes = may(me.data, 'developer', 'memory:write');
  const docs = useList<Schema<'KnowledgeDocument'>>('/api/v1/knowledge-bases/{knowledgeBaseId}/documents', path, { limit: 100, every: 6000 });
  const [query, setQuery] = useState('');
  const [found, setFound] = useState<Schema<'KnowledgeSearchResult'> | null>(null);
  const pick = useRef<HTMLInputElement>(null);
  const [searching, searchError, search] = useAction(async () => setFound(await send('post', '/api/v1/knowledge-bases/{knowledgeBaseId}/search', path, { query, limit: 5 })));
  const [adding, addError, add] = useAction(async (files: FileList | null) => {
    for (const file of files ?? []) {
      const form = new FormData();
      form.append('file', file);
      await api.post('/api/v1/knowledge-bases/{knowledgeBaseId}/documents', { params: { path: { knowledgeBaseId: id } }, body: form as never, bodySerializer: (b: unknown) => b } as never);
      toast(s.added(file.name));
    }
    void queries.invalidateQueries();
  });
  return (
    <>
      <form
        className="row"
        style={{ marginTop: 14 }}
        onSubmit={(e) => {
          e.preventDefault();
          if (query.trim()) void search();
        }}
      >
        <input className="in grow" type="search" value={query} placeholder={s.askBase} aria-label={s.askBase} onChange={(e) => setQuery(e.target.value)} />
        <Button small icon="search" type="submit" label={s.find} busy={searching} />
      </form>
      <FormError error={searchError ?? addError} />
      {found && (
        <ul className="col" style={{ gap: 8, marginTop: 10 }}>
          {found.results.length === 0 && <li className="t2">{s.nothingFound}</li>}
          {found.results.map((h) => (
            <li key={`${h.source}-${h.index}`} className="card pad">
              <div className="row fs12">
                <b className="b trunc grow">{h.source}</b>
                <span className="num t3">{h.score.toFixed(2)}</span>
              </div>
              <p className="fs12 t2" style={{ whiteSpace: 'pre-wrap', maxHeight: 130, overflow: 'auto' }}>
                {h.text}
              </p>
            </li>
          ))}
        </ul>
      )}
      <div className="row" style={{ marginTop: 16 }}>
        <h3 className="lbl grow">{s.documents}</h3>
        <input ref={pick} type="file" multiple hidden onChange={(e) => void add(e.target.files)} />
        {writes && <Button small icon="plus" label={s.addDocuments} busy={adding} onClick={() => pick.current?.click()} />}
      </div>
      {docs.error && docs.rows.length === 0 ? (
        <Failure error={docs.error} />
      ) : docs.isLoading ? (
        <Loading rows={3} />
      ) : (
        <ul className="tl" style={{ marginTop: 8 }}>
          {docs.rows.length === 0 && <li className="t2">{s.noDocuments}</li>}
          {docs.rows.map((d) => (
            <li key={d.id}>
              <Icon name="file" className="t3" />
              <span className="grow trunc">{d.name}</span>
              <span className="t3 fs12">{s.piecesOf(d.chunk_count)}</span>
              <span className="t3 fs12 num">{bytes(d.size_bytes)}</span>
              {writes && <Button small kind="quiet" icon="trash" label={<span className="vh">{en.common.delete}</span>} onClick={() => void send('delete', '/api/v1/knowledge-bases/{knowledgeBaseId}/documents/{documentId}', { path: { knowledgeBaseId: id, documentId: d.id } }).catch((e: Error) => toast(e.message, true))} />}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function MemoryOf() {
  const agents = useList<Schema<'Agent'>>('/api/v1/agents', {}, { limit: 100 });
  if (agents.isLoading) return <Loading />;
  if (agents.error && agents.rows.length === 0) return <Failure error={agents.error} />;
  if (agents.rows.length === 0) return <Empty icon="hist" title={s.noMemory} text={s.noMemoryText} />;
  return (
    <div className="tblw">
      <table className="tbl res">
      <thead>
        <tr>
          <th>{en.agents.agent}</th>
          <th>{s.description}</th>
          <th>{s.memoryOn}</th>
          <th className="r">{s.changed}</th>
        </tr>
      </thead>
      <tbody>
        {agents.rows.map((a) => (
          <tr key={a.agent_id}>
            <td>
              <Link className="b" href={`/agents/${a.agent_id}/memory`}>
                {a.name}
              </Link>
            </td>
            <td className="wide">
              <span className="trunc t2">{a.description}</span>
            </td>
            <td className="t2" data-label={s.memoryOn}>{(a.memory as { enabled?: boolean } | null)?.enabled || a.core_memory ? en.common.yes : en.common.no}</td>
            <td className="r t2">
              <Time at={a.updated_at} />
            </td>
          </tr>
        ))}
      </tbody>
      </table>
    </div>
  );
}

const files: Kind<Value> = {
  id: 'files',
  title: s.files,
  icon: 'file',
  list: '/api/v1/files',
  idOf: (r) => text(r.file_id),
  nameOf: (r) => text(r.filename),
  one: { path: '/api/v1/files/{fileId}', param: 'fileId' },
  remove: { role: 'developer' },
  columns: [
    { label: s.name, cell: (r) => text(r.filename) },
    { label: s.type, cell: (r) => <span className="t2">{text(r.mime_type)}</span> },
    { label: s.size, cell: (r) => bytes(r.size_bytes as number), right: true },
    { label: s.added1, cell: (r) => <Time at={r.created_at as string} />, right: true },
  ],
  empty: { title: s.noFiles, text: s.noFilesText },
  button: <UploadButton />,
  actions: (r) => (
    <a className="btn sm" href={api.url('/api/v1/files/{fileId}/content', { path: { fileId: text(r.file_id) } })} download={text(r.filename)}>
      <Icon name="export" small />
      {s.download}
    </a>
  ),
  detail: (r) => <FilePanel row={r} />,
};

function FilePanel({ row }: { row: Value }) {
  const url = api.url('/api/v1/files/{fileId}/content', { path: { fileId: text(row.file_id) } });
  return (
    <>
      {text(row.mime_type).startsWith('image/') && <img src={url} alt={text(row.filename)} style={{ maxWidth: '100%', marginTop: 12, borderRadius: 8 }} />}
      <dl className="kv" style={{ marginTop: 14 }}>
        <dt>{s.type}</dt>
        <dd>{text(row.mime_type)}</dd>
        <dt>{s.size}</dt>
        <dd>{bytes(row.size_bytes as number)}</dd>
        <dt>SHA-256</dt>
        <dd className="mono" style={{ overflowWrap: 'anywhere' }}>
          {text(row.sha256)}
        </dd>
      </dl>
    </>
  );
}

function UploadButton() {
  const pick = useRef<HTMLInputElement>(null);
  const me = useMe();
  const [busy, error, run] = useAction(async (list: FileList | null) => {
    for (const file of list ?? []) {
      const form = new FormData();
      form.append('file', file);
      await api.post('/api/v1/files', { body: form as never, bodySerializer: (b: unknown) => b } as never);
    }
    void queries.invalidateQueries();
    toast(s.uploaded);
  });
  if (!may(me.data, 'developer', 'files:write')) return null;
  return (
    <>
      <FormError error={error} />
      <input ref={pick} type="file" multiple hidden onChange={(e) => void run(e.target.files)} />
      <Button kind="primary" icon="plus" label={s.upload} busy={busy} onClick={() => pick.current?.click()} />
    </>
  );
}

const workspaces: Kind<Value> = {
  id: 'workspaces',
  title: s.workspaces,
  icon: 'folded',
  list: '/api/v1/workspaces',
  idOf: (r) => text(r.workspace_id),
  nameOf: (r) => text(r.name),
  create: { path: '/api/v1/workspaces', role: 'developer', label: s.newWorkspace },
  one: { path: '/api/v1/workspaces/{workspaceId}', param: 'workspaceId' },
  remove: { role: 'developer' },
  columns: [
    { label: s.name, cell: (r) => text(r.name) },
    { label: s.owner, cell: (r) => <span className="t2">{sentence(text(r.owner_type))}</span> },
    { label: s.files, cell: (r) => count(r.file_count as number), right: true },
    { label: s.size, cell: (r) => bytes(r.total_size_bytes as number), right: true },
    { label: s.changed, cell: (r) => <Time at={r.updated_at as string} />, right: true },
  ],
  empty: { title: s.noWorkspaces, text: s.noWorkspacesText },
  detail: (r) => <Workspace key={text(r.workspace_id)} id={text(r.workspace_id)} />,
};

function Workspace({ id }: { id: string }) {
  const [dir, setDir] = useState('');
  const path = { path: { workspaceId: id } };
  const me = useMe();
  const writes = may(me.data, 'developer', 'files:write');
  const person = me.data?.auth_method !== 'api_key';
  const [deleting, setDeleting] = useState('');
  const pick = useRef<HTMLInputElement>(null);
  const [adding, addError, add] = useAction(async (list: FileList | null) => {
    for (const file of list ?? []) {
      const form = new FormData();
      form.append('file', file);
      await api.put('/api/v1/workspaces/{workspaceId}/files', { params: { ...path, query: { path: dir ? `${dir}/${file.name}` : file.name } }, body: form as never, bodySerializer: (b: unknown) => b } as never);
      toast(s.added(file.name));
    }
    void queries.invalidateQueries();
    if (pick.current) pick.current.value = '';
  });
  const q = useGet<Schema<'WorkspaceFileList'>>('/api/v1/workspaces/{workspaceId}/files', { ...path, query: { path: dir || undefined } });
  return (
    <>
      <div className="row" style={{ margin: '14px 0 6px' }}>
        <h3 className="lbl grow">
          {s.files} <span className="mono t3">{dir}</span>
        </h3>
        <input ref={pick} type="file" multiple hidden aria-label={s.addFiles} onChange={(e) => void add(e.target.files)} />
        {writes && <Button small icon="plus" label={s.addFiles} busy={adding} onClick={() => pick.current?.click()} />}
      </div>
      <FormError error={addError} />
      <Block q={q} rows={3}>
        {(d) => (
          <ul className="tl">
            {dir && (
              <li>
                <button type="button" className="lnk" onClick={() => setDir(dir.split('/').slice(0, -1).join('/'))}>
                  ..
                </button>
              </li>
            )}
            {d.directories.map((x) => (
              <li key={x}>
                <Icon name="folded" className="t3" />
                <button type="button" className="lnk b" onClick={() => setDir(x)}>
                  {x}
                </button>
              </li>
            ))}
            {d.files.map((f) => (
              <li key={f.path}>
                <Icon name="file" className="t3" />
                <a className="grow trunc" href={api.url('/api/v1/workspaces/{workspaceId}/files/content', { path: { workspaceId: id }, query: { path: f.path } })} download={f.filename}>
                  {f.path}
                </a>
                <span className="t3 fs12 num">{bytes(f.size_bytes)}</span>
                {writes && <IconButton small icon="trash" label={s.deleteFile(f.path)} onClick={() => setDeleting(f.path)} />}
              </li>
            ))}
            {d.files.length + d.directories.length === 0 && <li className="t2">{s.emptyFolder}</li>}
          </ul>
        )}
      </Block>
      {deleting && (
        <Confirm
          title={`${s.deleteFile(deleting)}?`}
          text={person ? s.deleteText : s.deleteForGood}
          action={en.common.delete}
          danger
          onClose={() => setDeleting('')}
          onConfirm={async () => {
            await send('delete', '/api/v1/workspaces/{workspaceId}/files', { ...path, query: { path: deleting } });
            toast(person ? s.inTrash(deleting) : s.gone(deleting));
          }}
        />
      )}
    </>
  );
}


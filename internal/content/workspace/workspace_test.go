package workspace_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/content/workspace"
	"agentd/internal/content/workspace/workspacesql"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/blobsql"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	who   = authz.Caller{TenantID: "tenant", UserID: "user", Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard}}
	other = authz.Caller{TenantID: "other", UserID: "user", Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard}}
)

type world struct {
	*workspace.Service
	t     *testing.T
	db    *sqldb.DB
	blobs *blob.Store
	clock *clock.Fake
}

func each(t *testing.T, test func(w *world)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(newWorld(t, db)) })
}

func newWorld(t *testing.T, db *sqldb.DB) *world {
	t.Helper()
	c := clock.NewFake()
	cursors := page.NewCursors([]byte("0123456789abcdef"))
	table := workspacesql.New(db)
	blobs := &blob.Store{Table: blobsql.New(db), Writer: db, Clock: c}
	agents := agent.New(resource.Deps{Backend: resourcesql.New(db), Writer: db, Outbox: resource.NoOutbox{}, Cursors: cursors, Clock: c}, agent.Options{
		Tools: workspace.ToolNames, CheckURL: func(string) error { return nil }, Workspaces: table,
	})
	return &world{&workspace.Service{Table: table, Blobs: blobs, Writer: db, Cursors: cursors, Clock: c, Agents: agents}, t, db, blobs, c}
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) refused(err error, kind fault.Kind, code string) {
	w.t.Helper()
	if e := fault.From(err); err == nil || e.Kind != kind || e.Code != code {
		w.t.Errorf("%v, want %s", err, code)
	}
}

func (w *world) agent(who authz.Caller) string {
	w.t.Helper()
	g := w.Agents.Store().Blank()
	g.Name = "Ada"
	w.ok(w.Agents.Store().Create(w.t.Context(), who, g))
	return g.ID
}

func (w *world) made(who authz.Caller) string {
	w.t.Helper()
	s, err := w.Create(w.t.Context(), who.TenantID, "files")
	w.ok(err)
	return s.WorkspaceID
}

func (w *world) stage(text string) *blob.Staged {
	w.t.Helper()
	st, err := w.blobs.Stage(w.t.Context(), "tenant", strings.NewReader(text))
	w.ok(err)
	return st
}

func (w *world) put(id, path, text string) *workspace.File {
	w.t.Helper()
	f, _, err := w.Put(w.t.Context(), "tenant", id, path, "", w.stage(text), workspace.Conditions{})
	w.ok(err)
	return f
}

func (w *world) text(id, path string) string {
	w.t.Helper()
	_, r, err := w.Open(w.t.Context(), "tenant", id, path)
	w.ok(err)
	defer r.Close()
	b, err := io.ReadAll(r)
	w.ok(err)
	return string(b)
}

// checked compares the workspace's counts with what is in it, and the blobs
// with the names that they have.
func (w *world) checked(id string, files int, size int64) {
	w.t.Helper()
	s, err := w.Table.Get(w.t.Context(), "tenant", id)
	w.ok(err)
	if s.FileCount != int64(files) || s.TotalSizeBytes != size {
		w.t.Errorf("%d files of %d bytes, want %d of %d", s.FileCount, s.TotalSizeBytes, files, size)
	}
	var refs, rows int
	w.ok(w.db.QueryRow(w.t.Context(), `SELECT CAST(COALESCE(SUM(refs), 0) AS BIGINT) FROM blobs`).Scan(&refs))
	w.ok(w.db.QueryRow(w.t.Context(), `SELECT COUNT(*) FROM workspace_files`).Scan(&rows))
	if refs != rows {
		w.t.Errorf("%d files name blobs %d times", rows, refs)
	}
}

func (w *world) paths(id, dir string, deep bool) []string {
	w.t.Helper()
	l, err := w.Files(w.t.Context(), "tenant", id, dir, deep)
	w.ok(err)
	all := []string{}
	for _, d := range l.Directories {
		all = append(all, d+"/")
	}
	for _, f := range l.Files {
		all = append(all, f.Path)
	}
	return all
}

func TestFilesOfAWorkspace(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx, id := w.t.Context(), w.made(who)
		first := w.put(id, "docs/a.md", "one")
		w.put(id, "docs/deep/b.txt", "two!")
		w.put(id, "docs0.txt", "3")
		w.put(id, "docs-x/c.txt", "4")
		w.put(id, "top.txt", "three")
		w.checked(id, 5, 14)

		for _, c := range []struct {
			dir  string
			deep bool
			want []string
		}{
			{"", false, []string{"docs/", "docs-x/", "docs0.txt", "top.txt"}},
			{"", true, []string{"docs/", "docs-x/", "docs/deep/", "docs-x/c.txt", "docs/a.md", "docs/deep/b.txt", "docs0.txt", "top.txt"}},
			{"docs", false, []string{"docs/deep/", "docs/a.md"}},
			{"docs", true, []string{"docs/deep/", "docs/a.md", "docs/deep/b.txt"}},
			{"top.txt", true, []string{}},
			{"nothing", false, []string{}},
		} {
			if diff := cmp.Diff(c.want, w.paths(id, c.dir, c.deep)); diff != "" {
				w.t.Errorf("%q, deep %v (-want +got):\n%s", c.dir, c.deep, diff)
			}
		}

		w.clock.Advance(1e9)
		second, created, err := w.Put(ctx, "tenant", id, "docs/a.md", "text/x-own", w.stage("newer"), workspace.Conditions{})
		w.ok(err)
		if created || second.FileID == first.FileID || !second.CreatedAt.Equal(first.CreatedAt) || second.UpdatedAt.Equal(first.UpdatedAt) || second.MimeType != "text/x-own" {
			w.t.Errorf("a file in place of another: %+v", second)
		}
		if first.MimeType != "text/markdown" || first.Filename != "a.md" || len(first.ETag) != 64 {
			w.t.Errorf("%+v", first)
		}
		w.checked(id, 5, 16)
		if got := w.text(id, "docs/a.md"); got != "newer" {
			w.t.Errorf("%q", got)
		}

		moved, err := w.Move(ctx, "tenant", id, "docs/a.md", "away/z.md")
		w.ok(err)
		if moved.FileID != second.FileID || moved.Path != "away/z.md" || moved.Filename != "z.md" {
			w.t.Errorf("%+v", moved)
		}
		same, err := w.Move(ctx, "tenant", id, "away/z.md", "away/z.md")
		w.ok(err)
		if same.FileID != second.FileID {
			w.t.Errorf("%+v", same)
		}
		copied, err := w.Copy(ctx, "tenant", id, "away/z.md", "docs/copy.md")
		w.ok(err)
		if copied.FileID == second.FileID || copied.ETag != second.ETag || w.text(id, "docs/copy.md") != "newer" {
			w.t.Errorf("%+v", copied)
		}
		w.checked(id, 6, 21)

		w.ok(w.Remove(ctx, "tenant", id, "docs"))
		w.ok(w.Remove(ctx, "tenant", id, "top.txt"))
		if diff := cmp.Diff([]string{"away/", "docs-x/", "away/z.md", "docs-x/c.txt", "docs0.txt"}, w.paths(id, "", true)); diff != "" {
			w.t.Errorf("what remains (-want +got):\n%s", diff)
		}
		w.checked(id, 3, 7)
		w.ok(w.Delete(ctx, who, id))
		var left int
		w.ok(w.db.QueryRow(ctx, `SELECT (SELECT COUNT(*) FROM blobs) + (SELECT COUNT(*) FROM workspace_files) + (SELECT COUNT(*) FROM workspaces)`).Scan(&left))
		if left != 0 {
			w.t.Errorf("%d rows remain of a deleted workspace", left)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx, id := w.t.Context(), w.made(who)
		w.put(id, "a/b.txt", "x")
		put := func(path string, c workspace.Conditions) error {
			_, _, err := w.Put(ctx, "tenant", id, path, "", w.stage("y"), c)
			return err
		}
		tag := `"` + w.put(id, "tagged.txt", "x").ETag + `"`
		none := workspace.Conditions{}
		w.refused(put("a", none), fault.Conflict, "CONFLICT")
		w.refused(put("a/b.txt/c", none), fault.Conflict, "CONFLICT")
		w.refused(put("a/b.txt/c/d", none), fault.Conflict, "CONFLICT")
		for _, c := range []workspace.Conditions{{NoneMatch: "*"}, {Match: `"other"`}, {Match: "malformed"}, {NoneMatch: `"z", ` + tag}} {
			err := put("tagged.txt", c)
			w.refused(err, fault.Precondition, "PRECONDITION_FAILED")
			if got := fault.From(err).Extra["current_etag"]; got != tag {
				w.t.Errorf("%+v: current_etag %v", c, got)
			}
		}
		for _, c := range []workspace.Conditions{{Match: "*"}, {Match: tag}} {
			err := put("absent.txt", c)
			w.refused(err, fault.Precondition, "PRECONDITION_FAILED")
			if _, has := fault.From(err).Extra["current_etag"]; has {
				w.t.Errorf("%+v: a file that is not there has an ETag", c)
			}
		}
		w.ok(put("tagged.txt", workspace.Conditions{Match: `"z", ` + tag}))
		w.ok(put("fresh.txt", workspace.Conditions{NoneMatch: "*"}))
		w.ok(put("tagged.txt", workspace.Conditions{Match: "*", NoneMatch: `"z"`}))

		for name, do := range map[string]func(from, to string) error{
			"move": func(from, to string) error { _, err := w.Move(ctx, "tenant", id, from, to); return err },
			"copy": func(from, to string) error { _, err := w.Copy(ctx, "tenant", id, from, to); return err },
		} {
			w.refused(do("nothing", "x"), fault.NotFound, "NOT_FOUND")
			w.refused(do("a", "x"), fault.NotFound, "NOT_FOUND")
			w.refused(do("fresh.txt", "tagged.txt"), fault.Conflict, "ALREADY_EXISTS")
			w.refused(do("fresh.txt", "a"), fault.Conflict, "CONFLICT")
			w.refused(do("fresh.txt", "a/b.txt/c"), fault.Conflict, "CONFLICT")
			if name == "copy" {
				w.refused(do("fresh.txt", "fresh.txt"), fault.Conflict, "ALREADY_EXISTS")
			}
		}
		w.refused(w.Remove(ctx, "tenant", id, "nothing"), fault.NotFound, "NOT_FOUND")
		w.checked(id, 3, 3)

		// Another tenant's workspace is none.
		_, _, err := w.Put(ctx, "other", id, "x", "", w.stage("y"), none)
		w.refused(err, fault.NotFound, "NOT_FOUND")
		w.refused(w.Remove(ctx, "other", id, "a/b.txt"), fault.NotFound, "NOT_FOUND")
		w.refused(w.Delete(ctx, other, id), fault.NotFound, "NOT_FOUND")
		_, _, err = w.Open(ctx, "other", id, "a/b.txt")
		w.refused(err, fault.NotFound, "NOT_FOUND")
		_, err = w.Files(ctx, "other", id, "", true)
		w.refused(err, fault.NotFound, "NOT_FOUND")
		_, err = w.Search(ctx, "other", id, workspace.Query{Text: "x"})
		w.refused(err, fault.NotFound, "NOT_FOUND")
	})
}

// fill makes a workspace look as full as it may be.
func (w *world) fill(id string, files, size int64) {
	w.t.Helper()
	w.ok(w.db.Write(w.t.Context(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`UPDATE workspaces SET file_count = ?, total_size = ? WHERE workspace_id = ?`, files, size, id)
		return err
	}))
}

func TestQuota(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx, id := w.t.Context(), w.made(who)
		w.put(id, "a.txt", "12345")
		put := func(path, text string) error {
			_, _, err := w.Put(ctx, "tenant", id, path, "", w.stage(text), workspace.Conditions{})
			return err
		}
		w.fill(id, workspace.MaxFiles, 5)
		w.refused(put("b.txt", "x"), fault.Forbidden, "WORKSPACE_STORAGE_LIMIT")
		_, err := w.Copy(ctx, "tenant", id, "a.txt", "b.txt")
		w.refused(err, fault.Forbidden, "WORKSPACE_STORAGE_LIMIT")
		w.ok(put("a.txt", "other")) // in place of a file
		_, err = w.Move(ctx, "tenant", id, "a.txt", "c.txt")
		w.ok(err)
		w.fill(id, 1, workspace.MaxBytes)
		w.refused(put("b.txt", "x"), fault.Forbidden, "WORKSPACE_STORAGE_LIMIT")
		w.refused(put("c.txt", "123456"), fault.Forbidden, "WORKSPACE_STORAGE_LIMIT")
		w.ok(put("c.txt", "1234"))
		w.ok(put("b.txt", "x"))
		w.fill(id, 2, 5)
		w.checked(id, 2, 5)

		w.ok(w.db.Write(ctx, func(tx txn.Tx) error {
			for i := range workspace.MaxWorkspaces {
				_, err := sqldb.From(tx).Exec(`INSERT INTO workspaces (tenant_id, workspace_id, owner_type, owner_id, name, file_count, total_size, created_at, updated_at)
					VALUES ('tenant', ?, 'standalone', '', 'w', 0, 0, 0, 0)`, fmt.Sprint("w", i))
				if err != nil {
					return err
				}
			}
			return nil
		}))
		_, err = w.Create(ctx, "tenant", "one too many")
		w.refused(err, fault.Forbidden, "COUNT_LIMIT_REACHED")
		w.made(other)
	})
}

// Writers at the same moment lose nothing and count everything.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		id := w.made(who)
		var all sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range 8 {
			all.Go(func() {
				for j := range 4 {
					text := fmt.Sprintf("%d-%d", i, j)
					st, err := w.blobs.StageBytes(w.t.Context(), "tenant", []byte(text))
					if err == nil {
						_, _, err = w.Put(w.t.Context(), "tenant", id, "same.txt", "", st, workspace.Conditions{})
					}
					if err == nil {
						_, _, err = w.Put(w.t.Context(), "tenant", id, "own/"+text, "", st, workspace.Conditions{})
					}
					if err != nil {
						w.t.Error(err)
						return
					}
					_, _, err = w.Put(w.t.Context(), "tenant", id, fmt.Sprintf("first-%d.txt", j), "", st, workspace.Conditions{NoneMatch: "*"})
					if err == nil {
						mu.Lock()
						won++
						mu.Unlock()
					} else if !fault.Is(err, fault.Precondition) {
						w.t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if won != 4 {
			w.t.Errorf("%d writers were the first of 4 files", won)
		}
		w.checked(id, 1+32+4, 37*3)
	})
}

func TestAgentsAndWorkspaces(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.t.Context()
		ada, bob, id := w.agent(who), w.agent(who), w.made(who)

		own, err := w.OfAgent(ctx, "tenant", ada)
		w.ok(err)
		again, err := w.OfAgent(ctx, "tenant", ada)
		w.ok(err)
		if own.WorkspaceID != again.WorkspaceID || own.OwnerType != workspace.OfAgent || *own.OwnerID != ada || own.Name != "Workspace of Ada" {
			w.t.Errorf("an agent's own: %+v, %+v", own, again)
		}
		assigned, err := w.Assign(ctx, who, id, ada)
		w.ok(err)
		if diff := cmp.Diff([]string{ada}, assigned.AssignedAgents); diff != "" {
			w.t.Error(diff)
		}
		g, err := w.Agents.Get(ctx, "tenant", ada)
		w.ok(err)
		if diff := cmp.Diff(workspace.ToolNames, g.BuiltInTools); diff != "" || *g.WorkspaceID != id {
			w.t.Errorf("an assigned agent: %v\n%s", g.WorkspaceID, diff)
		}
		if at, err := w.OfAgent(ctx, "tenant", ada); err != nil || at.WorkspaceID != id {
			w.t.Errorf("it works in %v, %v", at, err)
		}
		_, err = w.Assign(ctx, who, id, bob)
		w.ok(err)
		_, err = w.Share(ctx, authz.Caller{TenantID: "tenant"}, own.WorkspaceID, bob)
		w.ok(err)
		_, err = w.Share(ctx, authz.Caller{TenantID: "tenant"}, own.WorkspaceID, bob)
		w.ok(err)
		list, err := w.Table.List(ctx, "tenant", "", 10)
		w.ok(err)
		if len(list) != 2 || len(list[0].SharedWith)+len(list[1].SharedWith) != 1 || len(list[0].AssignedAgents)+len(list[1].AssignedAgents) != 2 {
			w.t.Errorf("%+v", list)
		}

		// An agent's workspace_id says the same, and names one that there is.
		for _, bad := range []string{ident.New(), w.made(other), "x", "a\x00b"} {
			_, err = w.Agents.Store().Update(ctx, who, ada, func(_ txn.Tx, g *agent.Agent) error { g.WorkspaceID = &bad; return nil })
			w.refused(err, fault.NotFound, "NOT_FOUND")
		}
		_, err = w.Agents.Store().Update(ctx, who, ada, func(_ txn.Tx, g *agent.Agent) error { g.WorkspaceID = nil; return nil })
		w.ok(err)
		if now, err := w.Table.Get(ctx, "tenant", id); err != nil || len(now.AssignedAgents) != 1 || now.AssignedAgents[0] != bob {
			w.t.Errorf("%+v, %v", now, err)
		}

		_, err = w.Unassign(ctx, who, id, ada)
		w.refused(err, fault.NotFound, "NOT_FOUND")
		_, err = w.Assign(ctx, who, id, w.agent(other))
		w.refused(err, fault.NotFound, "NOT_FOUND")
		_, err = w.Share(ctx, authz.Caller{TenantID: "tenant"}, id, ident.New())
		w.refused(err, fault.NotFound, "NOT_FOUND")
		_, err = w.Unshare(ctx, authz.Caller{TenantID: "tenant"}, id, bob)
		w.refused(err, fault.NotFound, "NOT_FOUND")
		_, err = w.OfAgent(ctx, "tenant", ident.New())
		w.refused(err, fault.NotFound, "NOT_FOUND")
		left, err := w.Unassign(ctx, who, id, bob)
		w.ok(err)
		if len(left.AssignedAgents) != 0 {
			w.t.Errorf("%+v", left)
		}
		unshared, err := w.Unshare(ctx, authz.Caller{TenantID: "tenant"}, own.WorkspaceID, bob)
		w.ok(err)
		if len(unshared.SharedWith) != 0 {
			w.t.Errorf("%+v", unshared)
		}

		// A deleted workspace is nobody's; a deleted agent's own goes with it.
		_, err = w.Assign(ctx, who, id, bob)
		w.ok(err)
		for i := range 130 { // more than go in one transaction
			w.put(id, fmt.Sprintf("f%d.txt", i), "x")
		}
		w.ok(w.Delete(ctx, who, id))
		if g, err := w.Agents.Store().Get(ctx, "tenant", bob); err != nil || g.WorkspaceID != nil {
			w.t.Errorf("%+v, %v", g, err)
		}
		w.put(own.WorkspaceID, "a.txt", "x")
		w.ok(w.Agents.Store().Delete(ctx, who, ada))
		w.ok(w.AgentDeleted(ctx, "tenant", ada))
		w.ok(w.AgentDeleted(ctx, "tenant", ada))
		if _, err := w.Table.Get(ctx, "tenant", own.WorkspaceID); !fault.Is(err, fault.NotFound) {
			w.t.Errorf("%v", err)
		}
		// But not where others work in it.
		bobs, err := w.OfAgent(ctx, "tenant", bob)
		w.ok(err)
		eve := w.agent(who)
		_, err = w.Assign(ctx, who, bobs.WorkspaceID, eve)
		w.ok(err)
		w.ok(w.Agents.Store().Delete(ctx, who, bob))
		w.ok(w.AgentDeleted(ctx, "tenant", bob))
		if now, err := w.Table.Get(ctx, "tenant", bobs.WorkspaceID); err != nil || now.OwnerType != workspace.Standalone || now.OwnerID != nil {
			w.t.Errorf("%+v, %v", now, err)
		}
	})
}

// Many first uses at the same moment make one workspace.
func TestOwnWorkspaceIsMadeOnce(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		id := w.agent(who)
		var all sync.WaitGroup
		found := make([]string, 8)
		for i := range found {
			all.Go(func() {
				own, err := w.OfAgent(w.t.Context(), "tenant", id)
				if err != nil {
					w.t.Error(err)
					return
				}
				found[i] = own.WorkspaceID
			})
		}
		all.Wait()
		for _, id := range found {
			if id != found[0] || id == "" {
				w.t.Errorf("several workspaces: %v", found)
			}
		}
	})
}

var errNo = errors.New("no")

// A write that fails at its end leaves the workspace and the blobs as they were.
func TestFailedWriteLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		id := w.made(who)
		w.put(id, "a.txt", "kept")
		broken := *w.Service
		broken.Table = failing{w.Table}
		st := w.stage("lost")
		if _, _, err := broken.Put(w.t.Context(), "tenant", id, "a.txt", "", st, workspace.Conditions{}); !errors.Is(err, errNo) {
			w.t.Errorf("%v", err)
		}
		w.checked(id, 1, 4)
		if got := w.text(id, "a.txt"); got != "kept" {
			w.t.Errorf("%q", got)
		}
	})
}

type failing struct{ workspace.Table }

func (f failing) UpdateTx(tx txn.Tx, s *workspace.Workspace) error {
	return errors.Join(f.Table.UpdateTx(tx, s), errNo)
}

package workspace_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/content/workspace"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb/sqldbtest"
)

// hands is an agent with its tools.
type hands struct {
	*world
	agent string
	set   tool.Set
}

func (w *world) hands(agent string) *hands {
	w.t.Helper()
	r, err := tool.NewRegistry(tool.Limits{}, w.Tools()...)
	w.ok(err)
	set, unknown := r.Select(workspace.ToolNames)
	if len(unknown) > 0 {
		w.t.Fatalf("there are no tools %v", unknown)
	}
	return &hands{w, agent, set}
}

func (h *hands) call(name string, arguments map[string]any) tool.Result {
	h.t.Helper()
	text, err := json.Marshal(arguments)
	h.ok(err)
	r, err := h.set.Call(h.t.Context(), tool.Call{
		TenantID: "tenant", AgentID: h.agent, RunID: runID, ID: "call", Name: name, Arguments: string(text),
	})
	h.ok(err)
	return r
}

const runID = "0198c0de-0000-7000-8000-000000000001"

type arguments = map[string]any

func TestTools(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		h := w.hands(w.agent(who))
		wrote := h.call("write_file", arguments{"path": "/notes//today.md", "content": "Grüße"})
		want := tool.Result{
			Output: "Wrote notes/today.md (7 bytes).",
			Files:  []tool.File{{Name: "notes/today.md", MimeType: "text/markdown", Data: []byte("Grüße")}},
		}
		if diff := cmp.Diff(want, wrote); diff != "" {
			w.t.Errorf("(-want +got):\n%s", diff)
		}
		if got := h.call("read_file", arguments{"path": "notes/today.md"}); got.Output != "Grüße" || got.Failed {
			w.t.Errorf("%+v", got)
		}
		if got := h.call("write_file", arguments{"path": "notes/today.md", "content": ""}); got.Output != "Replaced notes/today.md (0 bytes)." {
			w.t.Errorf("%+v", got)
		}
		if got := h.call("read_file", arguments{"path": "notes/today.md"}); got.Output != "" || got.Failed {
			w.t.Errorf("an empty file: %+v", got)
		}
		h.call("write_file", arguments{"path": "b", "content": "x"})
		for _, c := range []struct {
			path any
			want string
		}{
			{nil, "b (1 bytes)\nnotes/today.md (0 bytes)"},
			{"notes/", "notes/today.md (0 bytes)"},
		} {
			if got := h.call("list_files", arguments{"path": c.path}); got.Output != c.want {
				w.t.Errorf("list of %v: %q", c.path, got.Output)
			}
		}
		if got := w.hands(w.agent(who)).call("list_files", nil); got.Output != "The workspace is empty." {
			w.t.Errorf("another agent sees %+v", got)
		}
		declared := map[string][2]bool{}
		for _, tool := range w.Tools() {
			declared[tool.Name] = [2]bool{tool.ReadOnly, tool.Idempotent}
		}
		if diff := cmp.Diff(map[string][2]bool{"read_file": {true, false}, "write_file": {false, true}, "list_files": {true, false}}, declared); diff != "" {
			w.t.Errorf("what is declared (-want +got):\n%s", diff)
		}
	})
}

// What a model cannot have is a sentence that says what to do.
func TestToolsThatFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.Open(t, sqldbtest.SQLite))
	h := w.hands(w.agent(who))
	h.call("write_file", arguments{"path": "a/b.txt", "content": "x"})
	own, err := w.OfAgent(t.Context(), "tenant", h.agent)
	w.ok(err)
	w.put(own.WorkspaceID, "image.png", "\x89PNG\x00")
	foreign := w.made(other)
	for _, c := range []struct {
		name, tool string
		arguments  arguments
		says       string
	}{
		{"absent", "read_file", arguments{"path": "nothing.txt"}, `There is no file "nothing.txt". list_files shows what there is.`},
		{"folder", "read_file", arguments{"path": "a"}, `There is no file "a".`},
		{"binary", "read_file", arguments{"path": "image.png"}, "The file is not text but image/png (5 bytes)."},
		{"beyond", "read_file", arguments{"path": "a/b.txt", "offset": 2}, "The file has only 1 bytes."},
		{"outside", "read_file", arguments{"path": "../../etc/passwd"}, "a path stays inside of its workspace"},
		{"outside_written", "write_file", arguments{"path": "a/../../x", "content": "x"}, "a path stays inside of its workspace"},
		{"backslash", "write_file", arguments{"path": `..\x`, "content": "x"}, "no name has a backslash"},
		{"nul", "list_files", arguments{"path": "a\x00b"}, "cannot be used"},
		{"root", "write_file", arguments{"path": "/", "content": "x"}, "it names no file"},
		{"in_a_file", "write_file", arguments{"path": "a/b.txt/c", "content": "x"}, "The file was not written. The path a/b.txt is a file"},
		{"over_a_folder", "write_file", arguments{"path": "a", "content": "x"}, "The file was not written. The path a is a folder"},
		{"no_folder", "list_files", arguments{"path": "zzz"}, `There is no folder "zzz".`},
		{"no_path", "read_file", arguments{}, "The arguments do not fit"},
		{"foreign", "read_file", arguments{"path": "x", "workspace_id": foreign}, "is shared with you"},
		{"no_workspace", "list_files", arguments{"workspace_id": "a\x00b"}, "is shared with you"},
		{"unknown_workspace", "list_files", arguments{"workspace_id": ident.New()}, "is shared with you"},
		{"written_elsewhere", "write_file", arguments{"path": "x", "content": "x", "workspace_id": own.WorkspaceID}, "The arguments do not fit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := h.call(c.tool, c.arguments); !got.Failed || !strings.Contains(got.Output, c.says) || len(got.Files) > 0 || got.Cause != nil {
				t.Errorf("%+v, want %q", got, c.says)
			}
		})
	}
	w.fill(own.WorkspaceID, workspace.MaxFiles, 1)
	if got := h.call("write_file", arguments{"path": "full.txt", "content": "x"}); !got.Failed || !strings.Contains(got.Output, "The workspace is full") {
		t.Errorf("%+v", got)
	}
	gone := w.hands(ident.New())
	if got := gone.call("list_files", nil); !got.Failed || !strings.Contains(got.Output, "no such agent") {
		t.Errorf("an agent that was deleted: %+v", got)
	}
}

// A file of any length is read in pieces that fit a result, and nothing of it
// is lost between them.
func TestReadInPieces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.Open(t, sqldbtest.SQLite))
	h := w.hands(w.agent(who))
	own, err := w.OfAgent(t.Context(), "tenant", h.agent)
	w.ok(err)
	text := strings.Repeat("aäb😀", 30_000)
	w.put(own.WorkspaceID, "long.txt", text)
	var got strings.Builder
	for offset, pieces := 0, 0; ; pieces++ {
		r := h.call("read_file", arguments{"path": "long.txt", "offset": offset})
		if r.Failed || len(r.Files) > 0 || pieces > 10 {
			t.Fatalf("piece %d: %.200s", pieces, r.Output)
		}
		at := strings.LastIndex(r.Output, "\n[bytes ")
		got.WriteString(r.Output[:at])
		var from, to, size int
		if n, _ := fmt.Sscanf(r.Output[at:], "\n[bytes %d to %d of %d", &from, &to, &size); n != 3 || from != offset || size != len(text) {
			t.Fatalf("%q", r.Output[at:])
		}
		if to == size {
			break
		}
		if !strings.HasSuffix(r.Output, fmt.Sprintf("; read on with offset %d]", to)) {
			t.Fatalf("%q", r.Output[at:])
		}
		offset = to
	}
	if got.String() != text {
		t.Errorf("%d bytes of %d were read", got.Len(), len(text))
	}
}

// TestWorkspaceOfARun: the tools of a run that has a workspace work there.
func TestWorkspaceOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.Open(t, sqldbtest.SQLite))
	h, id := w.hands(w.agent(who)), w.made(who)
	in := func(name, arguments string) tool.Result {
		t.Helper()
		r, err := h.set.Call(t.Context(), tool.Call{
			TenantID: "tenant", AgentID: h.agent, RunID: runID, WorkspaceID: id, ID: "call", Name: name, Arguments: arguments,
		})
		h.ok(err)
		return r
	}
	if got := in("write_file", `{"path":"a.txt","content":"here"}`); got.Failed {
		t.Error(got.Output)
	}
	for _, arguments := range []string{`{"path":"a.txt"}`, `{"path":"a.txt","workspace_id":"` + id + `"}`} {
		if got := in("read_file", arguments); got.Output != "here" {
			t.Errorf("%s: %q", arguments, got.Output)
		}
	}
	if got := h.call("read_file", arguments{"path": "a.txt"}); !got.Failed {
		t.Errorf("the agent's own workspace has it: %q", got.Output)
	}
	w.ok(w.Delete(t.Context(), authz.Caller{TenantID: "tenant"}, id))
	if got := in("list_files", `{}`); !got.Failed || !strings.Contains(got.Output, "was deleted") {
		t.Errorf("%q", got.Output)
	}
}

func TestSharedWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.Open(t, sqldbtest.SQLite))
	h, id := w.hands(w.agent(who)), w.made(who)
	w.put(id, "shared.txt", "for all")
	_, err := w.Share(t.Context(), authz.Caller{TenantID: "tenant"}, id, h.agent)
	w.ok(err)
	if got := h.call("list_files", nil); got.Output != "The workspace is empty.\nShared with you for reading: workspace_id "+id+" (files)" {
		t.Errorf("%q", got.Output)
	}
	if got := h.call("list_files", arguments{"workspace_id": id}); got.Output != "shared.txt (7 bytes)" {
		t.Errorf("%q", got.Output)
	}
	if got := h.call("read_file", arguments{"workspace_id": id, "path": "shared.txt"}); got.Output != "for all" {
		t.Errorf("%q", got.Output)
	}
	_, err = w.Unshare(t.Context(), authz.Caller{TenantID: "tenant"}, id, h.agent)
	w.ok(err)
	if got := h.call("read_file", arguments{"workspace_id": id, "path": "shared.txt"}); !got.Failed {
		t.Errorf("%q", got.Output)
	}
}

// What a run made, results that were cut off above all, can be read where no
// file of the workspace has that name.
func TestReadArtifacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.Open(t, sqldbtest.SQLite))
	h := w.hands(w.agent(who))
	w.Artifact = func(ctx context.Context, tenant, run, name string) (string, workspace.Content, error) {
		if tenant != "tenant" || run != runID || name != "http_fetch-call_1.txt" {
			return "", nil, fault.NewNotFound("artifact")
		}
		_, r, err := w.Open(ctx, tenant, w.keeping("the whole result"), "x")
		return "text/plain", r, err
	}
	if got := h.call("read_file", arguments{"path": "http_fetch-call_1.txt"}); got.Output != "the whole result" {
		t.Errorf("%+v", got)
	}
	if got := h.call("read_file", arguments{"path": "http_fetch-call_2.txt"}); !got.Failed {
		t.Errorf("%+v", got)
	}
	h.call("write_file", arguments{"path": "http_fetch-call_1.txt", "content": "mine"})
	if got := h.call("read_file", arguments{"path": "http_fetch-call_1.txt"}); got.Output != "mine" {
		t.Errorf("%+v", got)
	}
}

// keeping makes a workspace with one file.
func (w *world) keeping(text string) string {
	w.t.Helper()
	id := w.made(who)
	w.put(id, "x", text)
	return id
}

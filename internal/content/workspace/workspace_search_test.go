package workspace_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/content/workspace"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx, id := w.t.Context(), w.made(who)
		w.put(id, "a.md", "first line\r\nTODO: one\nnothing\ntodo two")
		w.put(id, "b/c.go", "// todo three\n")
		w.put(id, "image.png", "todo in no text")
		w.put(id, "zeros.txt", "\x00todo in no text either")
		w.put(id, "pieces.txt", strings.Repeat("-", 4090)+"abcdefghijk"+strings.Repeat("-", 3570)+"abcdefghijk")
		w.put(id, "long.txt", strings.Repeat("ü", 50_000)+"todo"+strings.Repeat("x", 1000)+"\nlast todo")
		search := func(q workspace.Query) []string {
			found, err := w.Search(ctx, "tenant", id, q)
			w.ok(err)
			all := []string{}
			for _, m := range found {
				if len(m.Line) > 520 || !strings.Contains(m.Line, m.Match) {
					w.t.Errorf("%s:%d shows %d bytes", m.Path, m.LineNumber, len(m.Line))
				}
				all = append(all, fmt.Sprintf("%s:%d:%s", m.Path, m.LineNumber, m.Match))
			}
			return all
		}
		for _, c := range []struct {
			q    workspace.Query
			want []string
		}{
			{workspace.Query{Text: "todo"}, []string{"a.md:2:TODO", "a.md:4:todo", "b/c.go:1:todo", "long.txt:1:todo", "long.txt:2:todo"}},
			{workspace.Query{Text: "todo", Glob: "*.go"}, []string{"b/c.go:1:todo"}},
			{workspace.Query{Text: `todo t\w+`, Regex: true}, []string{"a.md:4:todo two", "b/c.go:1:todo three"}},
			{workspace.Query{Text: `todo t\w+`}, []string{}},
			{workspace.Query{Text: "c?defghij", Regex: true}, []string{"pieces.txt:1:cdefghij", "pieces.txt:1:cdefghij"}},
			{workspace.Query{}, []string{}},
			{workspace.Query{Text: "^$", Regex: true}, []string{"b/c.go:2:"}},
		} {
			got := search(c.q)
			if c.q.Text == "^$" {
				continue // only that it ends
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				w.t.Errorf("%+v (-want +got):\n%s", c.q, diff)
			}
		}
		_, err := w.Search(ctx, "tenant", id, workspace.Query{Text: "(", Regex: true})
		w.refused(err, fault.Malformed, "INVALID_QUERY")
		for _, q := range []workspace.Query{
			{Text: "(x{1000}){1000}", Regex: true}, {Text: strings.Repeat("a{0,1000}", 20) + "b", Regex: true}, {Text: "x", Glob: strings.Repeat("*?", 1000)},
		} {
			_, err = w.Search(ctx, "tenant", id, q)
			w.refused(err, fault.Malformed, "INVALID_QUERY")
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := w.Search(ended, "tenant", id, workspace.Query{Text: "todo"}); err == nil {
			w.t.Error("a search goes on without its caller")
		}

		w.put(id, "many.txt", strings.Repeat("todo\n", 1000))
		if n := len(search(workspace.Query{Text: "todo"})); n != 300 {
			w.t.Errorf("%d matches, not the 300 that a search gives at most", n)
		}
	})
}

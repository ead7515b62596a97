package workspace_test

import (
	"strings"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/share"
	"agentd/internal/content/workspace"
)

// A company searches one workspace at a time; others do not wait for it.
func TestSearchesTakeTurns(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		id := w.made(who)
		w.put(id, "a.txt", "todo")
		w.Searches = share.New(4, 1, time.Millisecond)
		release, err := w.Searches.Acquire(w.t.Context(), "tenant")
		w.ok(err)
		if _, err := w.Search(w.t.Context(), "tenant", id, workspace.Query{Text: "todo"}); !fault.Is(err, fault.Unavailable) || fault.From(err).RetryAfter == 0 {
			w.t.Errorf("a second search: %v", err)
		}
		theirs, err := w.Create(w.t.Context(), "other", "files")
		w.ok(err)
		_, err = w.Search(w.t.Context(), "other", theirs.WorkspaceID, workspace.Query{Text: "todo"})
		w.ok(err)
		release()
		found, err := w.Search(w.t.Context(), "tenant", id, workspace.Query{Text: "todo"})
		if w.ok(err); len(found) != 1 {
			w.t.Errorf("afterwards: %+v", found)
		}
	})
}

// A larger expression reads less: instructions times bytes are bounded.
func TestSearchReadsWhatItsExpressionAllows(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		id := w.made(who)
		w.put(id, "a.txt", strings.Repeat("-\n", 1<<20)+"todo")
		for expression, want := range map[string]int{"todo": 1, "todo|" + strings.Repeat("x", 1900): 0} {
			found, err := w.Search(w.t.Context(), "tenant", id, workspace.Query{Text: expression, Regex: true})
			if w.ok(err); len(found) != want {
				w.t.Errorf("%.10s… finds %d lines, want %d", expression, len(found), want)
			}
		}
	})
}

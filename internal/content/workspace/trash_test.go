package workspace_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/content/workspace"
)

// What is discarded is nowhere but in the trash, and comes back as it was.
func TestTrash(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx, id := t.Context(), w.made(who)
		kept := w.put(id, "docs/a.txt", "walrus one")
		w.put(id, "b.txt", "walrus two")
		first, err := w.Discard(ctx, "tenant", id, "docs/a.txt")
		w.ok(err)
		if want := (&workspace.Trashed{Trashed: true, TrashPath: ".trash/console/" + kept.FileID + "/docs/a.txt", OriginalPath: "docs/a.txt"}); *first != *want {
			t.Errorf("%+v, want %+v", first, want)
		}
		again := w.put(id, "docs/a.txt", "newer")
		second, err := w.Discard(ctx, "tenant", id, "docs/a.txt")
		w.ok(err)

		l, err := w.Files(ctx, "tenant", id, "", true)
		w.ok(err)
		if len(l.Files) != 1 || l.Files[0].Path != "b.txt" || len(l.Directories) != 0 {
			t.Errorf("listed: %+v", l)
		}
		found, err := w.Search(ctx, "tenant", id, workspace.Query{Text: "walrus"})
		w.ok(err)
		if len(found) != 1 || found[0].Path != "b.txt" {
			t.Errorf("found: %+v", found)
		}
		trash, err := w.ListTrash(ctx, "tenant", id)
		w.ok(err)
		var paths []string
		for _, item := range trash.Items {
			paths = append(paths, item.TrashPath)
			if item.OriginalPath != "docs/a.txt" || item.Filename != "a.txt" || item.TrashedAt.IsZero() {
				t.Errorf("%+v", item)
			}
		}
		if diff := cmp.Diff([]string{first.TrashPath, second.TrashPath}, paths); diff != "" {
			t.Errorf("in the trash (-want +got):\n%s", diff)
		}

		r, err := w.Restore(ctx, who, id, first.TrashPath)
		w.ok(err)
		if !r.Restored || r.OriginalPath != "docs/a.txt" || r.WorkspaceID != id || w.text(id, "docs/a.txt") != "walrus one" {
			t.Errorf("%+v", r)
		}
		back, err := w.Table.GetFile(ctx, "tenant", id, "docs/a.txt")
		w.ok(err)
		if back.FileID != kept.FileID || !back.CreatedAt.Equal(kept.CreatedAt) || back.ETag != kept.ETag {
			t.Errorf("%+v, was %+v", back, kept)
		}
		_, err = w.Restore(ctx, who, id, second.TrashPath)
		w.refused(err, fault.Conflict, "ALREADY_EXISTS")
		for _, path := range []string{first.TrashPath, ".trash/console/x/docs/a.txt", "b.txt", "", ".trash/console/" + again.FileID + "/../b.txt"} {
			_, err = w.Restore(ctx, who, id, path)
			w.refused(err, fault.NotFound, "NOT_FOUND")
		}
		_, err = w.Restore(ctx, other, id, second.TrashPath)
		w.refused(err, fault.NotFound, "NOT_FOUND")

		gone, err := w.EmptyTrash(ctx, who, id)
		w.ok(err)
		if gone.Deleted != 1 || gone.DeletedToo != 1 {
			t.Errorf("%+v", gone)
		}
		now, err := w.Table.Get(ctx, "tenant", id)
		w.ok(err)
		if now.FileCount != 2 || now.TotalSizeBytes != int64(len("walrus one")+len("walrus two")) {
			t.Errorf("%+v", now)
		}
	})
}

// A workspace is deleted with its trash, and a trash of many files is emptied whole.
func TestTrashGoesWithItsWorkspace(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx, id := t.Context(), w.made(who)
		for i := range 105 {
			path := "f" + strings.Repeat("x", i)
			w.put(id, path, "same")
			_, err := w.Discard(ctx, "tenant", id, path)
			w.ok(err)
		}
		gone, err := w.EmptyTrash(ctx, who, id)
		w.ok(err)
		if gone.Deleted != 105 {
			t.Errorf("%+v", gone)
		}
		w.put(id, "a", "same")
		_, err = w.Discard(ctx, "tenant", id, "a")
		w.ok(err)
		w.ok(w.Delete(ctx, who, id))
		_, err = w.ListTrash(ctx, "tenant", id)
		w.refused(err, fault.NotFound, "NOT_FOUND")
	})
}

package artifact_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/content/artifact"
	"agentd/internal/content/artifact/artifactsql"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/blobsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type world struct {
	*artifact.Service
	t     *testing.T
	db    *sqldb.DB
	clock *clock.Fake
}

func each(t *testing.T, test func(w *world)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := clock.NewFake()
		test(&world{&artifact.Service{
			Table: artifactsql.New(db), Blobs: &blob.Store{Table: blobsql.New(db), Writer: db, Clock: c}, Clock: c,
		}, t, db, c})
	})
}

func (w *world) save(tenant, runID string, files ...tool.File) []run.Artifact {
	w.t.Helper()
	made, op, err := w.Save(w.t.Context(), tenant, runID, files)
	if err == nil && op != nil {
		err = w.db.Write(w.t.Context(), op)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

func text(name, content string) tool.File { return tool.File{Name: name, Data: []byte(content)} }

func TestArtifacts(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx, first, second := w.t.Context(), ident.New(), ident.New()
		big := bytes.Repeat([]byte("0123456789"), blob.PartSize/5)
		made := w.save("tenant", first, text("docs/a.md", "one"), tool.File{Name: "b", MimeType: "image/png", Data: big}, text("\x00\u202e", ""))
		if len(made) != 3 {
			w.t.Fatalf("%+v", made)
		}
		want := run.Artifact{
			ArtifactID: made[0].ArtifactID, RunID: first, TenantID: "tenant", Name: "docs/a.md", MimeType: "text/markdown", SizeBytes: 3,
			StorageRef: "/api/v1/artifacts/" + made[0].ArtifactID + "/content", CreatedAt: w.clock.Now(),
		}
		if diff := cmp.Diff(want, made[0]); diff != "" || made[1].MimeType != "image/png" || made[2].Name != "file" {
			w.t.Errorf("%+v\n%s", made, diff)
		}
		later := w.save("tenant", second, text("docs/a.md", "two"))
		newer := w.save("tenant", first, text("docs/a.md", "three"))

		got, err := w.Of(ctx, "tenant", first)
		if diff := cmp.Diff(append(made[:3:3], newer...), got); err != nil || diff != "" {
			w.t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		got, err = w.OfRuns(ctx, "tenant", []string{second, ident.New(), first, second})
		if diff := cmp.Diff(append(append(made[:3:3], newer...), later...), got); err != nil || diff != "" {
			w.t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		for _, none := range []func() ([]run.Artifact, error){
			func() ([]run.Artifact, error) { return w.Of(ctx, "other", first) },
			func() ([]run.Artifact, error) { return w.Of(ctx, "tenant", ident.New()) },
			func() ([]run.Artifact, error) { return w.OfRuns(ctx, "tenant", nil) },
		} {
			if got, err := none(); err != nil || got == nil || len(got) != 0 {
				w.t.Errorf("%v, %v", got, err)
			}
		}

		record, r, err := w.Open(ctx, "tenant", made[1].ArtifactID)
		if err != nil {
			w.t.Fatal(err)
		}
		defer r.Close()
		if data, err := io.ReadAll(r); err != nil || !bytes.Equal(data, big) || record.SizeBytes != int64(len(big)) {
			w.t.Errorf("%d bytes, %v", len(data), err)
		}
		_, named, err := w.OpenNamed(ctx, "tenant", first, "docs/a.md")
		if err != nil {
			w.t.Fatal(err)
		}
		defer named.Close()
		if data, err := io.ReadAll(named); string(data) != "three" || err != nil {
			w.t.Errorf("the newest of a name is %q, %v", data, err)
		}
		for _, err := range []error{
			second2(w.Open(ctx, "other", made[0].ArtifactID)), second2(w.Open(ctx, "tenant", ident.New())),
			second2(w.OpenNamed(ctx, "other", first, "docs/a.md")), second2(w.OpenNamed(ctx, "tenant", first, "b2")), second2(w.OpenNamed(ctx, "tenant", "", "b")),
		} {
			if !fault.Is(err, fault.NotFound) {
				w.t.Errorf("%v", err)
			}
		}
	})
}

func second2[A, B any](_ A, _ B, err error) error { return err }

// The artifacts are there with the commit, and without it nothing is.
func TestSaveBelongsToACommit(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		id := ident.New()
		if made, op, err := w.Save(w.t.Context(), "tenant", id, nil); made != nil || op != nil || err != nil {
			w.t.Errorf("no files: %v, %v", made, err)
		}
		made, op, err := w.Save(w.t.Context(), "tenant", id, []tool.File{text("a", "small"), text("b", strings.Repeat("x", blob.PartSize*2))})
		if err != nil || len(made) != 2 {
			w.t.Fatal(made, err)
		}
		no := errors.New("no")
		if err := w.db.Write(w.t.Context(), func(tx txn.Tx) error { return errors.Join(op(tx), no) }); !errors.Is(err, no) {
			w.t.Fatal(err)
		}
		if got, err := w.Of(w.t.Context(), "tenant", id); err != nil || len(got) > 0 {
			w.t.Errorf("%v, %v", got, err)
		}
		if err := w.db.Write(w.t.Context(), op); err != nil { // a commit that is made again
			w.t.Fatal(err)
		}
		if got, err := w.Of(w.t.Context(), "tenant", id); err != nil || len(got) != 2 {
			w.t.Errorf("%v, %v", got, err)
		}
		_, _, err = w.Save(w.t.Context(), "tenant", id, []tool.File{text("never", strings.Repeat("y", blob.PartSize*2))})
		if err != nil {
			w.t.Fatal(err)
		}
		w.clock.Advance(2 * time.Hour)
		if n, err := w.Blobs.Sweep(w.t.Context()); n != 1 || err != nil {
			w.t.Errorf("%d were swept, %v", n, err)
		}
	})
}

func TestRunsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		id := ident.New()
		w.save("tenant", id, text("first", "x"))
		set := func(column string, value int64) {
			w.t.Helper()
			err := w.db.Write(w.t.Context(), func(tx txn.Tx) error {
				_, err := sqldb.From(tx).Exec(`UPDATE run_artifacts SET `+column+` = ?`, value)
				return err
			})
			if err != nil {
				w.t.Fatal(err)
			}
		}
		set("size", artifact.MaxBytes-5)
		if made := w.save("tenant", id, text("six", "123456"), text("five", "12345"), text("one", "1")); len(made) != 1 || made[0].Name != "five" {
			w.t.Errorf("%+v", made)
		}
		set("size", 0)
		var many []tool.File
		for range artifact.MaxPerRun + 10 {
			many = append(many, text("n", "n"))
		}
		if made := w.save("tenant", id, many...); len(made) != artifact.MaxPerRun-2 {
			w.t.Errorf("%d more", len(made))
		}
		if made := w.save("tenant", id, text("over", "")); made != nil {
			w.t.Errorf("%+v", made)
		}
		if made := w.save("tenant", ident.New(), tool.File{Name: "huge", Data: make([]byte, blob.MaxSize+1)}); made != nil {
			w.t.Errorf("%+v", made)
		}
	})
}

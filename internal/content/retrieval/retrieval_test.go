package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/retrieval/retrievalsql"
	"agentd/internal/content/textindex"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// embedder is an embedding model that does what a test says.
type embedder struct {
	name  string
	mu    sync.Mutex
	calls [][]string
	fail  func(texts []string) error
}

func (e *embedder) Model() string { return e.name }

func (e *embedder) Embed(_ context.Context, texts []string) (model.Embedded, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, slices.Clone(texts))
	if e.fail != nil {
		if err := e.fail(texts); err != nil {
			return model.Embedded{}, err
		}
	}
	var out model.Embedded
	for _, t := range texts {
		out.Vectors = append(out.Vectors, modeltest.Vector(t))
	}
	return out, nil
}

type rig struct {
	*testing.T
	*retrieval.Service
	db    *sqldb.DB
	queue *worksql.Queue
	clock *clock.Fake
}

func newRig(t *testing.T, db *sqldb.DB, e model.Embedder) *rig {
	c := clock.NewFake()
	queue := worksql.New(db, c, nil)
	return &rig{t, retrieval.New(retrieval.Config{
		Store: retrievalsql.New(db), Writer: db, Queue: queue, Embedder: e, Clock: c, Log: slog.New(slog.DiscardHandler), Lease: time.Minute,
	}), db, queue, c}
}

func (r *rig) edit(tenant, collection string, do func(e *retrieval.Edit) error) {
	r.Helper()
	err := r.db.Write(r.Context(), func(tx txn.Tx) error {
		e, err := r.Edit(tx, tenant, collection)
		if err != nil {
			return err
		}
		return do(e)
	})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) insert(tenant, collection string, texts ...string) (ids []string) {
	r.Helper()
	r.edit(tenant, collection, func(e *retrieval.Edit) error {
		ids = nil
		var all []retrieval.Passage
		for i, text := range texts {
			p := retrieval.Passage{ID: ident.New(), Position: i, Kind: "k", Text: text, At: r.clock.Now()}
			all, ids = append(all, p), append(ids, p.ID)
		}
		return e.Insert(all...)
	})
	return ids
}

func (r *rig) find(tenant, collection, text string) (mode retrieval.Mode, ids []string) {
	r.Helper()
	found, err := r.Search(r.Context(), tenant, collection, textindex.Query{Text: text, Limit: 10})
	if err != nil {
		r.Fatal(err)
	}
	for _, h := range found.Hits {
		ids = append(ids, h.ID)
	}
	return found.Mode, ids
}

// work handles the work that is due, once, and says what its handlers said.
func (r *rig) work() (errs []error) {
	r.Helper()
	held, err := r.queue.Claim(r.Context(), retrieval.WorkKind, "node", 10, time.Minute)
	if err != nil {
		r.Fatal(err)
	}
	for _, l := range held {
		err := r.Handle(r.Context(), l)
		errs = append(errs, err)
		if err != nil {
			if err := r.queue.Release(r.Context(), []work.Lease{l}, r.clock.Now()); err != nil {
				r.Fatal(err)
			}
		}
	}
	return errs
}

func (r *rig) same(what string, want, got []string) {
	r.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		r.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestSearchFollowsChanges(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r, other := newRig(t, db, nil), newRig(t, db, nil) // two nodes
		tenant, c := ident.New(), ident.New()
		if mode, ids := r.find(tenant, c, "cat"); mode != "" || ids != nil {
			t.Errorf("an empty collection: %q %v", mode, ids)
		}
		ids := r.insert(tenant, c, "the cat sleeps", "a dog barks", "NUL-free 東京")
		for _, node := range []*rig{r, other} {
			mode, found := node.find(tenant, c, "CÂT")
			node.same("a cat", ids[:1], found)
			if mode != retrieval.Keyword {
				t.Errorf("mode %q", mode)
			}
		}
		r.edit(tenant, c, func(e *retrieval.Edit) error {
			return e.Replace(retrieval.Passage{ID: ids[0], Kind: "k", Text: "the bird sings", At: r.clock.Now()}, true)
		})
		r.edit(tenant, c, func(e *retrieval.Edit) error { return e.Delete(ids[1]) })
		more := other.insert(tenant, c, "another bird")
		for _, node := range []*rig{r, other} {
			for text, want := range map[string][]string{"cat": nil, "dog": nil, "bird": {more[0], ids[0]}, "東京": ids[2:3]} {
				_, found := node.find(tenant, c, text)
				node.same(text, want, found)
			}
		}
		if _, found := r.find(ident.New(), c, "bird"); found != nil {
			t.Error("another tenant finds it")
		}
		if err := db.Write(t.Context(), func(tx txn.Tx) error { return r.Drop(tx, tenant, c) }); err != nil {
			t.Fatal(err)
		}
		for _, node := range []*rig{r, other} {
			if mode, found := node.find(tenant, c, "bird"); mode != "" || found != nil {
				t.Errorf("dropped: %q %v", mode, found)
			}
		}
		if errs := r.work(); errs != nil {
			t.Errorf("work without an embedding model: %v", errs)
		}
	})
}

func TestSourcesAndWeights(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db, &embedder{name: "e"})
		tenant, c, a, b := ident.New(), ident.New(), ident.New(), ident.New()
		var passages []retrieval.Passage
		for i := range 2*50 + 7 { // more than one statement takes
			passages = append(passages, retrieval.Passage{ID: fmt.Sprintf("p%03d", i), SourceID: a, Position: i, Text: fmt.Sprint("alpha ", i), Boost: 0.5, At: r.clock.Now()})
		}
		passages = append(passages, retrieval.Passage{ID: "q", SourceID: b, Text: "beta", Vector: []float32{51, -127}, Model: "e", At: r.clock.Now()})
		r.edit(tenant, c, func(e *retrieval.Edit) error { return e.Insert(passages...) })
		counts, err := r.Store.CountBySource(t.Context(), tenant, c, "e")
		want := map[string]retrieval.Count{a: {Total: 107, Pending: 107}, b: {Total: 1, Embedded: 1}}
		if diff := cmp.Diff(want, counts); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		found, err := r.Store.ListByID(t.Context(), tenant, c, []string{"q", "p106", "absent"})
		wantFound := map[string]retrieval.Passage{"q": passages[107], "p106": passages[106]}
		if diff := cmp.Diff(wantFound, found, cmpopts.IgnoreFields(retrieval.Passage{}, "Vector", "Version")); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		var all []retrieval.Passage
		err = r.Store.VisitChanged(t.Context(), tenant, c, 0, func(p retrieval.Passage) { all = append(all, p) })
		slices.SortFunc(all, func(a, b retrieval.Passage) int { return strings.Compare(a.ID, b.ID) })
		if diff := cmp.Diff(passages, all, cmpopts.IgnoreFields(retrieval.Passage{}, "Version")); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		err = db.Write(t.Context(), func(tx txn.Tx) error {
			weights, err := r.Store.ListWeightsTx(tx, tenant, c)
			if len(weights) != 108 || !slices.Contains(weights, retrieval.Weight{ID: "p000", Boost: 0.5, At: r.clock.Now()}) {
				t.Errorf("%d weights", len(weights))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		r.edit(tenant, c, func(e *retrieval.Edit) error { return e.DeleteSource("") })
		r.edit(tenant, c, func(e *retrieval.Edit) error { return e.DeleteSource(a) })
		ids, err := r.Store.ListIDs(t.Context(), tenant, c)
		r.same("what remains", []string{"q"}, ids)
		if err != nil {
			t.Error(err)
		}
	})
}

func TestEmbeddingComesAfterTheCommit(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := &embedder{name: "one"}
		r := newRig(t, db, e)
		tenant, c := ident.New(), ident.New()
		texts := make([]string, 150)
		for i := range texts {
			texts[i] = fmt.Sprint("filler ", i)
		}
		texts[7] = "strawberries " + strings.Repeat("ä", 9000)
		ids := r.insert(tenant, c, texts...)
		if len(e.calls) != 0 {
			t.Fatal("the write waited for the model")
		}
		mode, found := r.find(tenant, c, "strawberries")
		r.same("before", ids[7:8], found)
		if mode != retrieval.Keyword {
			t.Errorf("mode %q before", mode)
		}
		if errs := r.work(); !slices.Equal(errs, []error{nil}) {
			t.Fatalf("work: %v", errs)
		}
		if len(e.calls) != 3 {
			t.Errorf("%d batches", len(e.calls))
		}
		for _, call := range e.calls {
			for _, text := range call {
				if n := len([]rune(text)); n > 8000 {
					t.Errorf("a text of %d characters is embedded", n)
				}
			}
		}
		if errs := r.work(); errs != nil {
			t.Errorf("more work: %v", errs)
		}
		// Not a word of it is in the collection, but its stem is.
		mode, found = r.find(tenant, c, "fillers")
		if mode != retrieval.Both || len(found) != 10 {
			t.Errorf("by vectors: %q, %d found", mode, len(found))
		}
		// Another model: the vectors of the old one are ignored and computed again.
		next := newRig(t, db, &embedder{name: "two"})
		if mode, _ = next.find(tenant, c, "filler"); mode != retrieval.Keyword {
			t.Errorf("mode %q with another model's vectors", mode)
		}
		if errs := next.work(); !slices.Equal(errs, []error{nil}) {
			t.Fatalf("work: %v", errs)
		}
		if mode, found = next.find(tenant, c, "fillers"); mode != retrieval.Both || len(found) != 10 {
			t.Errorf("by the new vectors: %q, %d found", mode, len(found))
		}
	})
}

func TestEmbeddingThatFails(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		down := &model.Error{Code: "model_error", Status: 503, Retryable: true}
		e := &embedder{name: "e", fail: func([]string) error { return down }}
		r := newRig(t, db, e)
		tenant, c := ident.New(), ident.New()
		ids := r.insert(tenant, c, "a poisoned text", "a good text")
		if errs := r.work(); len(errs) != 1 || !errors.Is(errs[0], down) {
			t.Fatalf("work: %v", errs)
		}
		counts, err := r.Store.CountBySource(t.Context(), tenant, c, "e")
		if diff := cmp.Diff(map[string]retrieval.Count{"": {Total: 2, Pending: 2}}, counts); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		// Up again, but it does not take one of the texts.
		e.fail = func(texts []string) error {
			if slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, "poison") }) {
				return &model.Error{Code: "model_error", Status: 400}
			}
			return nil
		}
		if errs := r.work(); !slices.Equal(errs, []error{nil}) {
			t.Fatalf("work: %v", errs)
		}
		counts, err = r.Store.CountBySource(t.Context(), tenant, c, "e")
		if diff := cmp.Diff(map[string]retrieval.Count{"": {Total: 2, Embedded: 1}}, counts); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		_, found := r.find(tenant, c, "poisoned")
		if !slices.Contains(found, ids[0]) {
			t.Errorf("found %v", found)
		}
		// A query that cannot be embedded is answered by words.
		e.fail = func([]string) error { return down }
		if mode, found := r.find(tenant, c, "good"); mode != retrieval.Keyword || !slices.Equal(found, ids[1:]) {
			t.Errorf("%q %v", mode, found)
		}
		if got := r.EmbedNow(t.Context(), []string{"x"}); got != nil {
			t.Errorf("embedded at once: %v", got)
		}
	})
}

// What is written while the embedding work goes on is not forgotten, and a
// vector of a text that changed meanwhile is not kept.
func TestWritesDuringEmbedding(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := &embedder{name: "e"}
		r := newRig(t, db, e)
		tenant, c := ident.New(), ident.New()
		ids := r.insert(tenant, c, "first")
		wrote := false
		e.fail = func([]string) error {
			if !wrote {
				wrote = true
				r.edit(tenant, c, func(e *retrieval.Edit) error {
					return e.Replace(retrieval.Passage{ID: ids[0], Kind: "k", Text: "changed", At: r.clock.Now()}, true)
				})
				r.insert(tenant, c, "second")
			}
			return nil
		}
		for range 3 {
			for _, err := range r.work() {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		counts, err := r.Store.CountBySource(t.Context(), tenant, c, "e")
		if diff := cmp.Diff(map[string]retrieval.Count{"": {Total: 2, Embedded: 2}}, counts); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		id, near, err := r.Nearest(t.Context(), tenant, c, modeltest.Vector("changed"))
		if id != ids[0] || near < 0.999 || err != nil {
			t.Errorf("%s, %v, %v", id, near, err)
		}
	})
}

// Searches and changes from all sides.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db, &embedder{name: "e"})
		tenant, c := ident.New(), ident.New()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 5 {
					r.insert(tenant, c, fmt.Sprintf("common writer%d round%d", i, j))
					if _, found := r.find(tenant, c, fmt.Sprintf("writer%d", i)); len(found) != j+1 {
						t.Errorf("writer %d finds %d of its %d", i, len(found), j+1)
					}
				}
			})
		}
		wg.Wait()
		if found, err := r.Search(t.Context(), tenant, c, textindex.Query{Text: "common", Limit: 100}); err != nil || len(found.Hits) != 40 || found.Total != 40 {
			t.Errorf("%d found, %v", len(found.Hits), err)
		}
	})
}

func BenchmarkSearch10k(b *testing.B) {
	db := sqldbtest.Open(b, sqldbtest.SQLite)
	c := clock.NewFake()
	s := retrieval.New(retrieval.Config{
		Store: retrievalsql.New(db), Writer: db, Queue: worksql.New(db, c, nil), Clock: c, Log: slog.New(slog.DiscardHandler),
	})
	err := db.Write(b.Context(), func(tx txn.Tx) error {
		e, err := s.Edit(tx, "t", "c")
		if err != nil {
			return err
		}
		var all []retrieval.Passage
		for i := range 10_000 {
			all = append(all, retrieval.Passage{ID: fmt.Sprint(i), Text: fmt.Sprintf("entry %d of %d about %d and %d", i, i%7, i%100, i%1000), At: c.Now()})
		}
		return e.Insert(all...)
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if found, err := s.Search(b.Context(), "t", "c", textindex.Query{Text: "entry about 42", Limit: 10}); err != nil || len(found.Hits) != 10 {
			b.Fatal(err)
		}
	}
}

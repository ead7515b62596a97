package search_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/content/search"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// What the rows of a run cost the database, 64 runs in a transaction, with and
// without the index by which ended runs are found. A run writes steps, events
// and work besides.
func BenchmarkRunRows(b *testing.B) {
	for _, engine := range sqldbtest.Engines {
		r := newRig(b, sqldbtest.Open(b, engine))
		text := `{"text":"` + strings.Repeat("all work and no play ", 20) + `"}`
		live := func(b *testing.B) {
			for b.Loop() {
				r.write(func(tx txn.Tx) error {
					for range 64 {
						now := time.Now()
						rec := &run.Record{Run: run.Run{
							RunID: ident.New(), TenantID: r.who.TenantID, AgentID: "agent", Status: run.Running, Input: []byte(`{"message":"hello there, what is up?"}`), CreatedAt: now,
						}}
						if err := r.runs.Create(rec)(tx); err != nil {
							return err
						}
						rec.Status, rec.Output, rec.CompletedAt = run.Completed, []byte(text), &now
						if err := r.runs.Update(rec.TenantID, rec.RunID, run.UpdateOf(rec))(tx); err != nil {
							return err
						}
					}
					return nil
				})
			}
		}
		for i := range 3 {
			r.exec(`DROP INDEX runs_ended`)
			b.Run(fmt.Sprintf("%s/%d/without", engine, i), live)
			r.exec(`CREATE INDEX runs_ended ON runs (completed_at, tenant_id, run_id) WHERE completed_at > 0`)
			b.Run(fmt.Sprintf("%s/%d/with", engine, i), live)
		}
	}
}

func (r *rig) exec(query string) {
	r.t.Helper()
	r.write(func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(query)
		return err
	})
}

// Finding something among what another tenant has a lot of, and among a lot of
// one's own.
func BenchmarkFind(b *testing.B) {
	const big, small = 200_000, 2_000
	for _, engine := range sqldbtest.Engines {
		r := newRig(b, sqldbtest.Open(b, engine))
		rng := rand.New(rand.NewPCG(1, 2))
		put := func(tenant string, n int) {
			for n > 0 {
				var docs []search.Doc
				for range min(n, 500) {
					seen := map[string]bool{}
					d := search.Doc{ID: ident.New(), At: r.clock.Now()}
					for range 60 { // a few words are common and most are rare
						if w := fmt.Sprintf("w%d", int(rng.ExpFloat64()*rng.ExpFloat64()*800)); !seen[w] {
							seen[w], d.Words = true, append(d.Words, w)
						}
					}
					docs = append(docs, d)
				}
				r.write(func(tx txn.Tx) error { return r.Store.PutTx(tx, tenant, search.Run, docs) })
				n -= len(docs)
			}
		}
		alone, other := ident.New(), ident.New()
		put(alone, small)
		queries := map[string][]string{"common": {"w1"}, "prefix": {"w1", "w2"}, "broad": {"w"}, "rare": {"w6003", "w7"}, "none": {"w1", "zzz"}}
		find := func(name, tenant string) {
			for _, q := range []string{"common", "prefix", "broad", "rare", "none"} {
				b.Run(fmt.Sprintf("%s/%s/%s", engine, name, q), func(b *testing.B) {
					for b.Loop() {
						if _, err := r.Store.Search(b.Context(), tenant, search.Want{Kind: search.Run, Words: queries[q], Limit: 30}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
		find("small_alone", alone)
		began := time.Now()
		put(other, big)
		b.Logf("%s: %v to make a document", engine, time.Since(began)/big)
		find("small_beside_big", alone)
		find("big", other)
	}
}

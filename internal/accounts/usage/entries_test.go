package usage_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/usage"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// entries returns how many there are of a tenant.
func (b *bench) entries() (n int) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), `SELECT COUNT(*) FROM usage_entries WHERE tenant_id = ?`, b.tenant).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// aggregate moves all entries, and returns how many transactions that took.
func (b *bench) aggregate(s *usage.Service) int {
	b.t.Helper()
	n, err := s.Aggregate(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// Reports say the same before, between and after entries move to the counters.
func TestReportsIncludeEntries(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "open")
		s := b.node()
		agents := []string{ident.New(), ident.New()}
		all := func() string {
			t.Helper()
			seen := ""
			for _, q := range []usage.Query{
				{From: "2026-09-01", To: "2026-09-30"}, {From: "2026-09-11", To: "2026-09-11", ByDay: true},
				{From: "2026-09-01", To: "2026-09-30", AgentID: agents[0]},
			} {
				rows, err := b.store.ListRows(t.Context(), b.tenant, q)
				if err != nil {
					t.Fatal(err)
				}
				seen += fmt.Sprintln(len(rows), rows)
			}
			totals, err := b.store.ListTotals(t.Context(), b.tenant, "2026-09", "2026-09-10", "2026-09-11", "2026-10")
			if err != nil {
				t.Fatal(err)
			}
			spent, err := b.store.GetSpent(t.Context(), nil, b.tenant, "2026-09-11", "2026-09-12")
			if err != nil {
				t.Fatal(err)
			}
			return seen + fmt.Sprintln(totals, spent)
		}
		b.spread(s, agents...)
		before := all()
		if b.entries() == 0 {
			t.Fatal("there are no entries")
		}
		b.aggregate(s)
		if n := b.entries(); n != 0 {
			t.Errorf("%d entries are left", n)
		}
		if diff := cmp.Diff(before, all()); diff != "" {
			t.Errorf("after the entries moved (-before +after):\n%s", diff)
		}
		b.clock.Advance(-24 * time.Hour)
		b.spread(s, agents...)
		half := all()
		b.aggregate(s)
		if diff := cmp.Diff(half, all()); diff != "" || half == before {
			t.Errorf("after more entries moved (-before +after):\n%s", diff)
		}
	})
}

// While entries are appended, two nodes move them, and nothing is lost or counted
// twice; nor is it in a report that is read meanwhile.
func TestEntriesMoveOnce(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "open")
		nodes := []*usage.Service{b.node(), b.node()}
		const writers, each = 8, 40
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for range each {
					if err := db.Write(t.Context(), nodes[i%2].Count(b.tenant, quota.Use{AgentID: "a", Source: "api", Runs: 1})); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for _, s := range nodes {
			all.Go(func() {
				last := int64(0)
				for range 10 {
					if _, err := s.Aggregate(t.Context()); err != nil {
						t.Error(err)
					}
					got, err := s.UsageOf(t.Context(), b.tenant, "")
					if err != nil || got.RunsCount < last || got.RunsCount > writers*each {
						t.Errorf("%d runs after %d, %v", got.RunsCount, last, err)
					}
					last = got.RunsCount
				}
			})
		}
		all.Wait()
		b.aggregate(nodes[0])
		if got, err := nodes[1].UsageOf(t.Context(), b.tenant, ""); err != nil || got.RunsCount != writers*each || b.entries() != 0 {
			t.Errorf("%d runs are counted, %d entries are left, %v", got.RunsCount, b.entries(), err)
		}
	})
}

// A transaction moves a bounded number of entries.
func TestEntriesMoveInBatches(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "open")
		s := b.node()
		var uses []quota.Use
		for i := range 1100 {
			uses = append(uses, quota.Use{AgentID: fmt.Sprint(i), Source: "api", Runs: 1})
		}
		b.use(s, uses...)
		if n := b.aggregate(s); n != 3 {
			t.Errorf("1,100 entries moved in %d transactions", n)
		}
		if got, err := s.UsageOf(t.Context(), b.tenant, ""); err != nil || got.RunsCount != 1100 {
			t.Errorf("%d runs, %v", got.RunsCount, err)
		}
	})
}

// A company that gets a plan with a limit has used what it used before, wherever
// that is recorded: of 40 runs at once as many are made as are left, while other
// nodes move entries.
func TestLimitsIncludeEntries(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "open")
		nodes := []*usage.Service{b.node(), b.node()}
		for range 6 {
			b.use(nodes[0], quota.Use{Runs: 1})
		}
		b.plan("free")
		for _, s := range nodes {
			s.TermsChanged(b.tenant)
			allowed(t, s.AllowRun(t.Context(), b.tenant))
		}
		var mu sync.Mutex
		made := 0
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if i == 20 {
					if _, err := nodes[0].Aggregate(t.Context()); err != nil {
						t.Error(err)
					}
				}
				err := db.Write(t.Context(), nodes[i%2].Count(b.tenant, quota.Use{AgentID: "a", Source: "api", Runs: 1}))
				if err != nil {
					refused(t, err, fault.Limited, quota.CodeExceeded)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				made++
			})
		}
		all.Wait()
		if made != 4 {
			t.Errorf("%d runs were made of the 4 that were left", made)
		}
		b.toldOnce(map[string]int{"threshold runs_per_month": 1, "exceeded runs_per_month": 1})
	})
}

package usage_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/usage"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestBuckets(t *testing.T) {
	t.Parallel()
	last := 0
	for ms := int64(0); ms < math.MaxInt64/2; ms = ms + ms/50 + 1 {
		bucket := usage.BucketOf(ms)
		if bucket < last {
			t.Fatalf("%d ms are in bucket %d, less in %d", ms, bucket, last)
		}
		last = bucket
		if p := *(usage.Histogram{bucket: 1}).Percentile(0.5); ms > 0 && ms < 1<<46 && math.Abs(p-float64(ms)) > 0.19*float64(ms) {
			t.Fatalf("%d ms are shown as %g", ms, p)
		}
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	if p := (usage.Histogram{}).Percentile(0.5); p != nil {
		t.Errorf("without runs: %g", *p)
	}
	h := usage.Histogram{}
	for ms := int64(1); ms <= 1000; ms++ {
		h[usage.BucketOf(ms)]++
	}
	for share, want := range map[float64]float64{0.5: 500, 0.95: 950, 0.99: 990} {
		if p := *h.Percentile(share); math.Abs(p-want) > 0.19*want {
			t.Errorf("percentile %g of 1 to 1,000 ms: %g", share, p)
		}
	}
	if p := *(usage.Histogram{0: 9, usage.BucketOf(math.MaxInt64): 1}).Percentile(0.95); p < 1e12 {
		t.Errorf("the longest run: %g ms", p)
	}
}

// parts reads parts, sorted.
func (b *bench) parts(q usage.PartQuery) []usage.PartRow {
	b.t.Helper()
	rows, err := b.store.ListParts(b.t.Context(), b.tenant, q)
	if err != nil {
		b.t.Fatal(err)
	}
	slices.SortFunc(rows, func(x, y usage.PartRow) int { return cmp.Or(cmp.Compare(x.Day, y.Day), cmp.Compare(x.Key, y.Key)) })
	return rows
}

// What agents used and how their runs ended is the same before and after entries move to
// the counters, and on a plan with limits, which has none.
func TestParts(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, plan := range []string{"open", "roomy"} {
			b := newBench(t, db, plan)
			s := b.node()
			b.use(s, quota.Use{AgentID: "a", Source: "api", Runs: 1})
			b.use(s, quota.Use{AgentID: "a", Source: "api", Model: "x/m", ModelCalls: 1, InputTokens: 5, Completed: 1, DurationMS: 1000})
			b.use(s, quota.Use{AgentID: "b", Source: "session", ToolCalls: 2, ToolErrors: 1})
			b.use(s, quota.Use{AgentID: "b", Source: "session", Cancelled: 1, DurationMS: 10})
			b.clock.Advance(24 * time.Hour)
			b.use(s, quota.Use{AgentID: "a", Source: "api", Model: "x/m", ModelCalls: 1, CostNano: 7, Failures: 1, DurationMS: 3000})
			other := newBench(t, db, plan)
			other.use(other.node(), quota.Use{AgentID: "a", Source: "api", Runs: 1, Completed: 1, DurationMS: 1})

			days := usage.PartQuery{From: "2026-09-01", To: "2026-09-30"}
			byAgent, byModel, daily, ofA, keyed := days, days, days, days, days
			byAgent.By, byModel.By, daily.ByDay, ofA.AgentID = usage.PartAgent, usage.PartModel, true, "a"
			keyed.By, keyed.Keys, keyed.ByDay = usage.PartAgent, []string{"a"}, true
			a := quota.Use{Runs: 1, ModelCalls: 2, InputTokens: 5, CostNano: 7, Completed: 1, Failures: 1, DurationMS: 4000}
			ofModel := a
			ofModel.Runs = 0
			first := quota.Use{Runs: 1, ModelCalls: 1, InputTokens: 5, Completed: 1, DurationMS: 1000}
			second := quota.Use{ModelCalls: 1, CostNano: 7, Failures: 1, DurationMS: 3000}
			ofB := quota.Use{ToolCalls: 2, ToolErrors: 1, Cancelled: 1, DurationMS: 10}
			from, to := b.clock.Now().Add(-24*time.Hour).UTC().Format(time.DateOnly), b.clock.Now().UTC().Format(time.DateOnly)
			both := usage.Sum(first, ofB)
			check := func(when string) {
				t.Helper()
				for _, c := range []struct {
					q    usage.PartQuery
					want []usage.PartRow
				}{
					{byAgent, []usage.PartRow{{Key: "a", Use: a}, {Key: "b", Use: ofB}}},
					{byModel, []usage.PartRow{{Key: "", Use: usage.Sum(quota.Use{Runs: 1}, ofB)}, {Key: "x/m", Use: ofModel}}},
					{daily, []usage.PartRow{{Day: from, Use: both}, {Day: to, Use: second}}},
					{ofA, []usage.PartRow{{Use: a}}},
					{keyed, []usage.PartRow{{Day: from, Key: "a", Use: first}, {Day: to, Key: "a", Use: second}}},
				} {
					if diff := gocmp.Diff(c.want, b.parts(c.q)); diff != "" {
						t.Errorf("%s, %s, %+v (-want +got):\n%s", plan, when, c.q, diff)
					}
				}
			}
			check("before")
			b.aggregate(s)
			check("after")
			uses, err := usage.AgentUses(t.Context(), b.store, b.tenant, b.clock.Now(), 2, []string{"a", "c"})
			if diff := gocmp.Diff(map[string]quota.Use{"a": a}, uses); err != nil || diff != "" {
				t.Errorf("%s: of two days: %v (-want +got):\n%s", plan, err, diff)
			}
			uses, err = usage.AgentUses(t.Context(), b.store, b.tenant, b.clock.Now(), 1, []string{"a", "b"})
			if diff := gocmp.Diff(map[string]quota.Use{"a": second}, uses); err != nil || diff != "" {
				t.Errorf("%s: of today: %v (-want +got):\n%s", plan, err, diff)
			}

			rows, err := b.store.ListDurations(t.Context(), b.tenant, keyed)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(rows, func(x, y usage.DurationRow) int { return cmp.Or(cmp.Compare(x.Day, y.Day), cmp.Compare(x.Key, y.Key)) })
			want := []usage.DurationRow{
				{Day: from, Key: "a", Bucket: usage.BucketOf(1000), Runs: 1}, {Day: from, Key: "b", Bucket: usage.BucketOf(10), Runs: 1},
				{Day: to, Key: "a", Bucket: usage.BucketOf(3000), Runs: 1},
			}
			if diff := gocmp.Diff(want, rows); diff != "" {
				t.Errorf("%s: durations (-want +got):\n%s", plan, diff)
			}
		}
	})
}

// How a run ended is counted without a lock of the counters, also of a tenant with
// limits: the transaction that ends one run may go on to end others.
func TestEndsAreAppended(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "closed")
		s := b.node()
		b.use(s, quota.Use{AgentID: "a", Source: "api", Cancelled: 1, DurationMS: 5})
		if n := b.entries(); n != 1 {
			t.Errorf("%d entries", n)
		}
		b.aggregate(s)
		want := []usage.PartRow{{Use: quota.Use{Cancelled: 1, DurationMS: 5}}}
		if diff := gocmp.Diff(want, b.parts(usage.PartQuery{From: "2026-09-01", To: "2026-09-30"})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

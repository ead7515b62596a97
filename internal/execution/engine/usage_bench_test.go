package engine_test

import (
	"log/slog"
	"syscall"
	"testing"

	"agentd/internal/accounts/usage"
	"agentd/internal/accounts/usage/usagesql"
	"agentd/internal/base/clock"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/sqldb/sqldbtest"
)

// cpuOf reports the CPU time of this process per operation, which depends less on
// the load of the machine than wall time.
func cpuOf(b *testing.B) func() {
	used := func() (t int64) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkCounting is a run of one step whose model answers at once, from its
// creation to its end, with and without quotas. Runs are sequential and parallel.
func BenchmarkCounting(b *testing.B) {
	limited, err := quota.Parse([]byte(`{"plans": [{"id": "far", "name": "Far", "limits": {"runs_per_month": 1000000000, "tokens_per_day": 1000000000000}}], "default": "far"}`))
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range sqldbtest.Engines {
		for _, how := range []struct {
			name  string
			plans *quota.Plans
		}{{"uncounted", nil}, {"counted", quota.Unlimited()}, {"limited", limited}} {
			rigged := func(b *testing.B) *node {
				db := sqldbtest.Open(b, kind)
				r := newHarness(b, db)
				r.client = inside(func(model.Request) model.Response { return model.Response{Text: "Done."} })
				if how.plans != nil {
					r.meter = usage.New(usage.Deps{
						Plans: how.plans, Store: usagesql.New(db), Writer: db, Clock: clock.System{},
						Logger: slog.New(slog.DiscardHandler), Outbox: resource.NoOutbox{},
					})
				}
				return r.start("n", 256, nil)
			}
			b.Run(string(kind)+"/"+how.name+"/alone", func(b *testing.B) {
				n := rigged(b)
				defer cpuOf(b)()
				for b.Loop() {
					n.end(n.begin(run.Request{}).RunID)
				}
			})
			b.Run(string(kind)+"/"+how.name+"/many", func(b *testing.B) {
				n := rigged(b)
				defer cpuOf(b)()
				b.SetParallelism(32)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						n.end(n.begin(run.Request{}).RunID)
					}
				})
			})
		}
	}
}

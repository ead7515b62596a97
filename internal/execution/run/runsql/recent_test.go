package runsql_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/run/runtest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// The runs of agents are counted since a time and up to a limit, failures among them, and
// the newest is found however old it is, each agent's and each tenant's by themselves.
func TestListRecent(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, activity := runsql.New(db), runsql.NewActivity(db)
		start := time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)
		add := func(tenant, agent string, hour int, status run.Status) string {
			r := runtest.Sample(tenant, agent)
			r.Status, r.CreatedAt = status, start.Add(time.Duration(hour)*time.Hour)
			if err := db.Write(t.Context(), func(tx txn.Tx) error { return s.Create(r)(tx) }); err != nil {
				t.Fatal(err)
			}
			return r.RunID
		}
		add("t", "busy", 0, run.Failed)
		for hour, status := range []run.Status{run.Failed, run.TimedOut, run.Completed, run.Cancelled, run.GuardrailBlocked, run.Rejected} {
			add("t", "busy", 10+hour, status)
		}
		newest := add("t", "busy", 20, run.Running)
		old := add("t", "old", 1, run.Completed)
		add("other", "busy", 30, run.Failed)
		for limit, want := range map[int]run.Recent{
			100: {Runs: 7, Failures: 4, LastID: newest, LastStatus: run.Running, LastAt: start.Add(20 * time.Hour)},
			3:   {Runs: 3, Failures: 3, LastID: newest, LastStatus: run.Running, LastAt: start.Add(20 * time.Hour)},
		} {
			got, err := activity.ListRecent(t.Context(), "t", []string{"busy", "old", "none"}, start.Add(10*time.Hour), limit)
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]run.Recent{"busy": want, "old": {LastID: old, LastStatus: run.Completed, LastAt: start.Add(time.Hour)}}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("up to %d (-want +got):\n%s", limit, diff)
			}
		}
		if got, err := activity.ListRecent(t.Context(), "t", nil, start, 1); err != nil || len(got) != 0 {
			t.Errorf("of no agents: %v, %v", got, err)
		}
	})
}

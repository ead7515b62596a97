package runsql_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/run/runtest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// Of the runs of an agent those that ended are compared, without those that test it.
func TestEndedRuns(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		store, outcomes, tenant, agent := runsql.New(db), runsql.NewOutcomes(db), ident.New(), ident.New()
		at := runtest.Sample(tenant, agent).CreatedAt
		states := map[string]run.Status{}
		ids := []string{ident.New()} // of no run
		for i, c := range []struct {
			status run.Status
			by     run.InitiatorType
		}{{run.Completed, run.ByKey}, {run.Failed, run.ByMember}, {run.Running, run.ByKey}, {run.Completed, run.ByEvaluation}, {run.Cancelled, run.ByRun}} {
			r := runtest.Sample(tenant, agent)
			r.AgentID, r.AgentVersion, r.CreatedAt = agent, int64(i+1), at.Add(time.Duration(i)*time.Second)
			r.SetInitiator(run.Initiator{Type: c.by, ID: ident.New()})
			u := run.UpdateOf(r)
			u.Status, u.Metrics = c.status, run.Metrics{DurationMS: float64(i)}
			if err := db.Write(t.Context(), store.Create(r)); err != nil {
				t.Fatal(err)
			}
			if err := db.Write(t.Context(), store.Update(tenant, r.RunID, u)); err != nil {
				t.Fatal(err)
			}
			states[r.RunID], ids = c.status, append(ids, r.RunID)
		}
		got, err := outcomes.ListEnded(t.Context(), tenant, agent, at.Add(time.Second), 10)
		want := []runsql.Ended{
			{Version: 5, Status: run.Cancelled, Metrics: run.Metrics{DurationMS: 4}}, {Version: 2, Status: run.Failed, Metrics: run.Metrics{DurationMS: 1}},
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if got, err := outcomes.ListEnded(t.Context(), tenant, agent, at, 1); err != nil || len(got) != 1 || got[0].Version != 5 {
			t.Errorf("the newest: %v, %v", got, err)
		}
		if got, err := outcomes.ListEnded(t.Context(), ident.New(), agent, at, 10); err != nil || len(got) != 0 {
			t.Errorf("another company's: %v, %v", got, err)
		}
		err = db.Write(t.Context(), func(tx txn.Tx) error {
			if n, err := outcomes.CountWorkingTx(tx, tenant, ids); err != nil || n != 1 {
				t.Errorf("%d work, %v", n, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		seen, err := outcomes.ListStatuses(t.Context(), tenant, ids)
		if diff := cmp.Diff(states, seen); err != nil || diff != "" {
			t.Errorf("%v, states (-want +got):\n%s", err, diff)
		}
	})
}

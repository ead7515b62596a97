package schedule_test

import (
	"testing"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/schedule"
	"agentd/internal/execution/schedule/schedulesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestRecompute has next fires that were computed by other rules of a time zone.
func TestRecompute(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db, true)
		old, err := schedule.ParseCron("0 12 1 1 *", time.FixedZone("as it was", 5*3600))
		if err != nil {
			t.Fatal(err)
		}
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		now := r.clock.Now()
		store := schedulesql.New(db)
		config := `{"cron":"0 12 1 1 *","timezone":"Europe/Berlin"}`
		due := now.Add(-time.Minute)
		states := []schedule.State{
			{TenantID: "a", AgentID: "1", Config: config, Status: schedule.Active, NextRunAt: old.Next(now)},
			{TenantID: "a", AgentID: "2", Config: config, Status: schedule.Active, NextRunAt: due},
			{TenantID: "b", AgentID: "1", Config: config, Status: schedule.Paused},
			{TenantID: "b", AgentID: "2", Config: "{", Status: schedule.Active, NextRunAt: now.Add(time.Hour)},
		}
		if err := db.Write(t.Context(), func(tx txn.Tx) error {
			for i := range states {
				if err := store.PutTx(tx, &states[i]); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := r.Recompute(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := time.Date(now.Year()+1, 1, 1, 12, 0, 0, 0, berlin)
		for i, next := range []time.Time{want, due, {}, now.Add(time.Hour)} {
			st, err := store.Get(t.Context(), states[i].TenantID, states[i].AgentID)
			if err != nil || !st.NextRunAt.Equal(next) {
				t.Errorf("state %d fires at %v, want %v (%v)", i, st.NextRunAt, next, err)
			}
		}
		if at, err := r.queue.GetNextDue(t.Context(), schedule.WorkKind); err != nil || !at.Equal(want) {
			t.Errorf("the work is due at %v, %v", at, err)
		}
	})
}

package objectivesql

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/teams/objective"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestObjectives(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, owner, at := New(db), ident.New(), ident.New(), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
		write := func(op func(txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		made := objective.Make(owner, []objective.Planned{{Title: "a"}, {Title: "b", DependsOn: []int{0}}, {Title: "c"}}, at)
		write(func(tx txn.Tx) error { return s.CreateTx(tx, tenant, owner, made) })
		write(func(tx txn.Tx) error { return s.CreateTx(tx, tenant, ident.New(), made) })
		made[0].State.Status, made[0].State.Result = objective.Completed, "done"
		write(func(tx txn.Tx) error { return s.UpdateStatesTx(tx, tenant, owner, made[:1]) })
		write(func(tx txn.Tx) error {
			return s.UpdatePlanTx(tx, tenant, owner, made[1].ID, func(o *objective.Objective) error {
				o.Plan.Description, o.State.Result = "changed", "not stored"
				return nil
			})
		})
		made[1].Plan.Description = "changed"
		write(func(tx txn.Tx) error { return s.DeleteObjectivesTx(tx, tenant, owner, []string{made[2].ID}) })
		got, err := s.List(t.Context(), tenant, owner)
		unexported := cmpopts.IgnoreUnexported(objective.Budget{})
		if diff := cmp.Diff(made[:2], got, unexported); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		for _, foreign := range []struct{ tenant, id string }{{ident.New(), made[0].ID}, {tenant, ident.New()}} {
			err := db.Write(t.Context(), func(tx txn.Tx) error { return s.UpdatePlanTx(tx, foreign.tenant, owner, foreign.id, nil) })
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%v", err)
			}
		}

		tasks := []objective.Task{
			{Seq: 1, Purpose: objective.Work, RunID: "r1", Status: run.Completed, Applied: true, At: at},
			{Seq: 2, Purpose: objective.Work, RunID: "r2", Status: run.Failed, At: at}, {Seq: 3, Purpose: objective.Judge, RunID: "r3", At: at},
		}
		write(func(tx txn.Tx) error { return s.PutTasksTx(tx, tenant, owner, tasks[2:]) })
		tasks[2].Message = "changed"
		write(func(tx txn.Tx) error { return s.PutTasksTx(tx, tenant, owner, tasks) })
		open, err := s.ListOpenTasks(t.Context(), tenant, owner)
		if diff := cmp.Diff(tasks[1:], open); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		page, err := s.ListTasks(t.Context(), tenant, owner, 3, 1)
		if diff := cmp.Diff(tasks[1:2], page); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if all, err := s.ListTasks(t.Context(), tenant, owner, 0, 10); err != nil || len(all) != 3 || all[0].Seq != 3 {
			t.Errorf("%v %v", all, err)
		}
		write(func(tx txn.Tx) error {
			left, err := s.DeleteTx(tx, tenant, owner)
			if diff := cmp.Diff(tasks[2:], left); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return err
		})
		if got, err := s.List(t.Context(), tenant, owner); err != nil || len(got) != 0 {
			t.Errorf("%v %v", got, err)
		}
	})
}

package teamrunsql

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/teams/teamrun"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTeamRuns(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, team, at := New(db), ident.New(), ident.New(), time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		write := func(op func(txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		var made []teamrun.Record
		for i := range 3 {
			r := teamrun.Record{
				TenantID: tenant, TeamRunID: ident.New(), TeamID: team, Status: teamrun.Pending, Message: "go", Metadata: schema.Object(`{"k":1}`),
				Spec: teamrun.Spec{Topology: "pipeline", Members: []teamrun.Member{{AgentID: "a"}}}, KeyID: "k", UserID: "u", CreatedAt: at,
			}
			if i == 2 {
				r.Thread = "thread"
			}
			made = append(made, r)
			write(func(tx txn.Tx) error { return s.CreateTx(tx, &r) })
		}
		r := made[0]
		r.Status, r.Output, r.Error, r.EventSeq, r.CompletedAt = teamrun.Completed, "o", "e", 7, at.Add(time.Second)
		tasks := []teamrun.Task{{Seq: 1, RunID: "r1", AgentID: "a", Status: run.Completed, At: at}, {Seq: 2, RunID: "r2", AgentID: "a", At: at}}
		write(func(tx txn.Tx) error { return s.UpdateTx(tx, &r) })
		write(func(tx txn.Tx) error { return s.PutTasksTx(tx, tenant, r.TeamRunID, tasks[1:]) })
		tasks[1].Text = "changed"
		write(func(tx txn.Tx) error { return s.PutTasksTx(tx, tenant, r.TeamRunID, tasks) })
		write(func(tx txn.Tx) error { return s.RequestCancelTx(tx, tenant, r.TeamRunID) })
		write(func(tx txn.Tx) error {
			for id, want := range map[string]bool{r.TeamRunID: true, made[1].TeamRunID: false} {
				if cancel, err := s.HasCancelRequestTx(tx, tenant, id); err != nil || cancel != want {
					t.Errorf("%v, %v", cancel, err)
				}
			}
			return nil
		})
		r.Cancel = true
		got, err := s.Get(t.Context(), tenant, r.TeamRunID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&r, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		read, err := s.ListTasks(t.Context(), tenant, r.TeamRunID)
		if diff := cmp.Diff(tasks, read); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		thread, none := "thread", ""
		for i, c := range []struct {
			f    teamrun.Filter
			w    page.Window
			want []string
		}{
			{teamrun.Filter{}, page.Window{After: r.TeamRunID, Limit: 1}, []string{made[1].TeamRunID}},
			{teamrun.Filter{Newest: true}, page.Window{Limit: 9}, []string{made[2].TeamRunID, made[1].TeamRunID, r.TeamRunID}},
			{teamrun.Filter{Newest: true}, page.Window{After: made[1].TeamRunID, Limit: 9}, []string{r.TeamRunID}},
			{teamrun.Filter{Open: true}, page.Window{Limit: 9}, []string{made[1].TeamRunID, made[2].TeamRunID}},
			{teamrun.Filter{Thread: &thread}, page.Window{Limit: 9}, []string{made[2].TeamRunID}},
			{teamrun.Filter{Thread: &none, Open: true}, page.Window{Limit: 9}, []string{made[1].TeamRunID}},
		} {
			some, err := s.List(t.Context(), tenant, team, c.f, c.w)
			var got []string
			for _, one := range some {
				got = append(got, one.TeamRunID)
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("list %d: %v (-want +got):\n%s", i, err, diff)
			}
		}
		write(func(tx txn.Tx) error {
			for id, want := range map[string]error{made[1].TeamRunID: nil, r.TeamRunID: teamrun.ErrOver, ident.New(): teamrun.ErrOver} {
				if err := s.LockTx(tx, tenant, id); !errors.Is(err, want) {
					t.Errorf("a task of a run: %v, want %v", err, want)
				}
			}
			return nil
		})
		if _, err := s.Get(t.Context(), ident.New(), r.TeamRunID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another company's: %v", err)
		}
		write(func(tx txn.Tx) error {
			unfinished, err := s.DeleteTeamTx(tx, tenant, team, 10)
			if len(unfinished) != 1 || unfinished[0] != "r2" {
				t.Errorf("%v", unfinished)
			}
			return err
		})
		if _, err := s.Get(t.Context(), tenant, r.TeamRunID); !fault.Is(err, fault.NotFound) {
			t.Errorf("after its team was deleted: %v", err)
		}
		err = db.Write(t.Context(), func(tx txn.Tx) error { return s.UpdateTx(tx, &r) })
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("an update of a run that is gone: %v", err)
		}
	})
}

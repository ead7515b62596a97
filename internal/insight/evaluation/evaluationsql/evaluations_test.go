package evaluationsql

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/insight/evaluation"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCases(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, set := New(db), ident.New(), ident.New()
		var cases []evaluation.Case
		for i := range 2*evaluation.BlockSize + 50 {
			cases = append(cases, evaluation.Case{Input: schema.Object(fmt.Sprintf(`{"message":"%d"}`, i)), ExpectedOutput: jsontext.Value(`"x"`)})
		}
		err := db.Write(t.Context(), func(tx txn.Tx) error {
			if err := s.AppendCasesTx(tx, tenant, set, 0, cases[:evaluation.BlockSize]); err != nil {
				return err
			}
			return s.AppendCasesTx(tx, tenant, set, evaluation.BlockSize, cases[evaluation.BlockSize:])
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ from, limit, want int }{{0, 1, 1}, {99, 2, 2}, {0, 1000, 250}, {150, 100, 100}, {249, 9, 1}, {250, 9, 0}, {900, 9, 0}, {5, 0, 0}} {
			got, err := s.ListCases(t.Context(), tenant, set, c.from, c.limit)
			if err != nil || len(got) != c.want {
				t.Fatalf("from %d: %d cases, %v", c.from, len(got), err)
			}
			if c.want > 0 {
				if diff := cmp.Diff(cases[c.from:c.from+c.want], got); diff != "" {
					t.Errorf("from %d (-want +got):\n%s", c.from, diff)
				}
			}
		}
		if got, err := s.ListCases(t.Context(), ident.New(), set, 0, 9); err != nil || len(got) > 0 {
			t.Errorf("another company's: %v, %v", got, err)
		}
		if err := db.Write(t.Context(), func(tx txn.Tx) error { return s.DeleteCasesTx(tx, tenant, set) }); err != nil {
			t.Fatal(err)
		}
		if got, err := s.ListCases(t.Context(), tenant, set, 0, 9); err != nil || len(got) > 0 {
			t.Errorf("after they were deleted: %v, %v", got, err)
		}
	})
}

func TestEvaluations(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, agent, at := New(db), ident.New(), ident.New(), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
		write := func(op func(txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		var made []evaluation.Record
		for i := range 3 {
			r := evaluation.Record{
				TenantID: tenant, EvalRunID: ident.New(), AgentID: agent, DatasetID: fmt.Sprint("set", i%2), Version: 3, Status: evaluation.Pending,
				Spec: evaluation.Spec{
					Scorers: []evaluation.NamedConfig{{Name: "exact", Config: evaluation.Config{Type: "exact"}}}, Concurrency: 4, MaxDrop: 0.5, UserID: "u",
				}, Total: 9, CreatedAt: at,
			}
			if i == 2 {
				r.ExperimentID = "experiment"
			}
			made = append(made, r)
			write(func(tx txn.Tx) error { return s.CreateTx(tx, &r) })
		}
		r := made[0]
		r.Status, r.Next, r.Tally = evaluation.Completed, 9, evaluation.Tally{Passed: 2, Streaks: map[string]int{"exact": 1}}
		r.Summary, r.Error, r.CompletedAt = &evaluation.Summary{Passed: 2, AvgScores: map[string]float64{"exact": 0.5}, Intervals: map[string]evaluation.Interval{"exact": {High: 1}}}, "e", at.Add(time.Second)
		results := []evaluation.Result{
			{Seq: 0, CaseID: "c0", RunID: "r0", BeganAt: at}, {Seq: 1, CaseID: "c1", RunID: "r1", BeganAt: at}, {Seq: 2, CaseID: "c2", RunID: "r2", BeganAt: at},
		}
		write(func(tx txn.Tx) error { return s.PutResultsTx(tx, tenant, r.EvalRunID, results) })
		for i := range results[:2] {
			results[i].Ended, results[i].Passed, results[i].Scores = true, true, map[string]float64{"exact": 1}
		}
		write(func(tx txn.Tx) error { return s.PutResultsTx(tx, tenant, r.EvalRunID, results[:2]) })
		write(func(tx txn.Tx) error { return s.RequestCancelTx(tx, tenant, r.EvalRunID) })
		write(func(tx txn.Tx) error {
			if n, err := s.CountOpenTx(tx, tenant); err != nil || n != 3 {
				t.Errorf("%d are open, %v", n, err)
			}
			cancel, ended, err := s.LockTx(tx, tenant, r.EvalRunID)
			if !cancel || ended {
				t.Errorf("it is to end: %v, it has: %v", cancel, ended)
			}
			return err
		})
		write(func(tx txn.Tx) error { return s.UpdateTx(tx, &r) })
		r.Cancel = true
		got, err := s.Get(t.Context(), tenant, r.EvalRunID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&r, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		open, err := s.ListUnended(t.Context(), tenant, r.EvalRunID)
		if diff := cmp.Diff(results[2:], open); err != nil || diff != "" {
			t.Errorf("%v, unended (-want +got):\n%s", err, diff)
		}
		over, err := s.ListResults(t.Context(), tenant, r.EvalRunID, 0, 9)
		if diff := cmp.Diff(results[1:2], over); err != nil || diff != "" {
			t.Errorf("%v, ended (-want +got):\n%s", err, diff)
		}
		for i, c := range []struct {
			f    evaluation.Filter
			w    page.Window
			want []string
		}{
			{evaluation.Filter{AgentID: agent}, page.Window{Limit: 2}, []string{made[2].EvalRunID, made[1].EvalRunID}},
			{evaluation.Filter{AgentID: agent}, page.Window{After: made[1].EvalRunID, Limit: 2}, []string{made[0].EvalRunID}},
			{evaluation.Filter{DatasetID: "set0"}, page.Window{After: made[2].EvalRunID, Limit: 2}, []string{made[0].EvalRunID}},
			{evaluation.Filter{ExperimentID: "experiment"}, page.Window{Limit: 2}, []string{made[2].EvalRunID}},
		} {
			some, err := s.List(t.Context(), tenant, c.f, c.w)
			var ids []string
			for _, one := range some {
				ids = append(ids, one.EvalRunID)
			}
			if diff := cmp.Diff(c.want, ids); err != nil || diff != "" {
				t.Errorf("list %d: %v (-want +got):\n%s", i, err, diff)
			}
		}
		if _, err := s.Get(t.Context(), ident.New(), r.EvalRunID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another company's: %v", err)
		}
		write(func(tx txn.Tx) error {
			unended, err := s.DeleteAgentTx(tx, tenant, agent, 10)
			if len(unended) != 1 || unended[0] != "r2" {
				t.Errorf("unended are %v", unended)
			}
			return err
		})
		for name, op := range map[string]func(tx txn.Tx) error{
			"update": func(tx txn.Tx) error { return s.UpdateTx(tx, &r) },
			"cancel": func(tx txn.Tx) error { return s.RequestCancelTx(tx, tenant, r.EvalRunID) },
			"lock": func(tx txn.Tx) error {
				_, _, err := s.LockTx(tx, tenant, r.EvalRunID)
				return err
			},
		} {
			if err := db.Write(t.Context(), op); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s of one that is gone: %v", name, err)
			}
		}
		if left, err := s.ListResults(t.Context(), tenant, r.EvalRunID, -1, 9); err != nil || len(left) > 0 {
			t.Errorf("results that are left: %v, %v", left, err)
		}
	})
}

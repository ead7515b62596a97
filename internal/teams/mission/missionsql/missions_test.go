package missionsql

import (
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/teams/mission"
	"agentd/internal/teams/objective"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMissions(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, at := New(db), ident.New(), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
		write := func(op func(txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		var made []mission.Record
		for i := range 3 {
			r := mission.Record{
				TenantID: tenant, MissionID: ident.New(), SessionID: []string{"s", "s", "other"}[i], Status: mission.Planning, KeyID: "k", UserID: "u",
				Spec: mission.Spec{Goal: "g", MaxStrikes: 3}, State: mission.State{TaskSeq: i}, CreatedAt: at, UpdatedAt: at,
			}
			made = append(made, r)
			write(func(tx txn.Tx) error { return s.CreateTx(tx, &r) })
		}
		read := func(id string) *mission.Record {
			t.Helper()
			got, err := s.Get(t.Context(), tenant, id)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		unexported := cmpopts.IgnoreUnexported(mission.Classification{}, mission.Phase{})
		if diff := cmp.Diff(&made[0], read(made[0].MissionID), unexported); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		one := made[0]
		write(func(tx txn.Tx) error {
			got, err := s.RequestTx(tx, tenant, one.MissionID, func(r *mission.Record) error {
				r.Hold, r.Abort, r.Authorized, r.Reason, r.Status = true, true, true, "why", "not stored"
				return nil
			})
			if err == nil && got.Asked != 1 {
				t.Errorf("%+v", got)
			}
			return err
		})
		one.Status, one.State.Summary, one.EventSeq, one.UpdatedAt, one.Report = mission.Failed, "s", 7, at.Add(time.Second), jsontext.Value(`{"a":1}`)
		one.Ask = mission.Ask{} // the worker does not store what callers ask
		write(func(tx txn.Tx) error { return s.LockTx(tx, tenant, one.MissionID) })
		one.CompletedAt = at.Add(time.Second)
		write(func(tx txn.Tx) error { return s.UpdateTx(tx, &one) })
		one.Ask = mission.Ask{Hold: true, Abort: true, Authorized: true, Reason: "why", Asked: 1}
		if diff := cmp.Diff(&one, read(one.MissionID), unexported); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for session, want := range map[string][]string{
			"": {made[2].MissionID, made[1].MissionID, one.MissionID}, "s": {made[1].MissionID, one.MissionID}, "none": nil,
		} {
			var got []string
			for after := ""; ; {
				page, err := s.List(t.Context(), tenant, session, page.Window{After: after, Limit: 2})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page {
					got, after = append(got, r.MissionID), r.MissionID
				}
				if len(page) < 2 {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", session, diff)
			}
		}
		foreign := ident.New()
		for name, do := range map[string]func(tx txn.Tx) error{
			"update":   func(tx txn.Tx) error { r := one; r.TenantID = foreign; return s.UpdateTx(tx, &r) },
			"request":  func(tx txn.Tx) error { _, err := s.RequestTx(tx, foreign, one.MissionID, nil); return err },
			"requests": func(tx txn.Tx) error { _, err := s.CountRequestsTx(tx, foreign, one.MissionID); return err },
			"get":      func(txn.Tx) error { _, err := s.Get(t.Context(), foreign, one.MissionID); return err },
		} {
			if err := db.Write(t.Context(), do); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, id := range []string{one.MissionID, ident.New()} {
			err := db.Write(t.Context(), func(tx txn.Tx) error { return s.LockTx(tx, tenant, id) })
			if !errors.Is(err, objective.ErrOver) {
				t.Errorf("%v", err)
			}
		}
	})
}

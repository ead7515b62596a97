package initiativesql

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/teams/initiative"
	"agentd/internal/teams/objective"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStates(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, id := New(db), ident.New(), ident.New()
		write := func(op func(txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		state := initiative.State{Status: initiative.Active, NextTick: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), Sources: []string{"web"}}
		read := func(want initiative.Record) {
			t.Helper()
			got, err := s.Get(t.Context(), tenant, id)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		write(func(tx txn.Tx) error { return s.CreateTx(tx, tenant, id, &state) })
		read(initiative.Record{State: state})
		write(func(tx txn.Tx) error { return s.RequestTx(tx, tenant, id, true) })
		write(func(tx txn.Tx) error { return s.RequestTx(tx, tenant, id, false) })
		read(initiative.Record{State: state, Asked: 2, TickNow: true})
		state.Ticks = 1
		write(func(tx txn.Tx) error { return s.UpdateTx(tx, tenant, id, &state, 7, false) })
		read(initiative.Record{State: state, Asked: 2, TickNow: true, EventSeq: 7})
		write(func(tx txn.Tx) error { return s.UpdateTx(tx, tenant, id, &state, 8, true) })
		write(func(tx txn.Tx) error {
			if asked, err := s.CountRequestsTx(tx, tenant, id); err != nil || asked != 2 {
				t.Errorf("%d %v", asked, err)
			}
			if err := s.LockTx(tx, tenant, id); err != nil {
				t.Error(err)
			}
			if seq, err := s.DeleteTx(tx, tenant, id); err != nil || seq != 8 {
				t.Errorf("%d %v", seq, err)
			}
			return nil
		})
		for name, do := range map[string]func(tx txn.Tx) error{
			"update": func(tx txn.Tx) error { return s.UpdateTx(tx, tenant, id, &state, 1, false) },
			"ask":    func(tx txn.Tx) error { return s.RequestTx(tx, tenant, id, false) },
			"asked":  func(tx txn.Tx) error { _, err := s.CountRequestsTx(tx, tenant, id); return err },
			"delete": func(tx txn.Tx) error { _, err := s.DeleteTx(tx, tenant, id); return err },
		} {
			if err := db.Write(t.Context(), do); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := db.Write(t.Context(), func(tx txn.Tx) error { return s.LockTx(tx, tenant, id) }); !errors.Is(err, objective.ErrOver) {
			t.Errorf("locking: %v", err)
		}
		if _, err := s.Get(t.Context(), tenant, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
	})
}

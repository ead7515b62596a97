package bridgesql

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/teams/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func writer(t *testing.T, db *sqldb.DB) func(func(txn.Tx) error) {
	return func(op func(txn.Tx) error) {
		t.Helper()
		if err := db.Write(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMachines(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, at := New(db), ident.New(), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
		write := writer(t, db)
		m := bridge.Machine{
			TenantID: tenant, MachineID: "m", AgentID: ident.New(), UserID: ident.New(), RegisteredAt: at, SeenAt: at,
			Facts: bridge.Facts{Version: "1", Protocol: 1, Capabilities: []string{"read_file"}, WorkingDirectory: "/w"},
		}
		for _, want := range []bool{true, false} {
			write(func(tx txn.Tx) error {
				fresh, err := s.ClaimTx(tx, &m)
				if fresh != want {
					t.Errorf("claimed: %v", fresh)
				}
				return err
			})
		}
		later := at.Add(time.Minute)
		write(func(tx txn.Tx) error {
			locked, err := s.LockMachineTx(tx, tenant, "m")
			if err != nil {
				return err
			}
			locked.Facts.OS, locked.SeenAt = "linux", later
			m = *locked
			n, err := s.CountMachinesTx(tx, tenant)
			if n != 1 || err != nil {
				t.Errorf("%d machines, %v", n, err)
			}
			return s.UpdateMachineTx(tx, locked)
		})
		got, err := s.GetMachine(t.Context(), tenant, "m")
		if diff := cmp.Diff(&m, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if _, err := s.GetMachine(t.Context(), ident.New(), "m"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another company's: %v", err)
		}
		all, err := s.ListMachinesOfAgent(t.Context(), tenant, m.AgentID)
		if diff := cmp.Diff([]bridge.Machine{m}, all); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		write(func(tx txn.Tx) error {
			there, err := s.UpdateSeenTx(tx, tenant, "m", later.Add(time.Second))
			if !there || err != nil {
				t.Errorf("seen: %v, %v", there, err)
			}
			return s.UpdateDeletedTx(tx, tenant, m.AgentID, later)
		})
		write(func(tx txn.Tx) error {
			if there, err := s.UpdateSeenTx(tx, tenant, "m", later); there || err != nil {
				t.Errorf("seen after its agent was deleted: %v, %v", there, err)
			}
			return nil
		})
		listed, err := s.ListMachines(t.Context(), tenant)
		if err != nil || len(listed) != 1 || !listed[0].DeletedAt.Equal(later) || listed[0].Status(later) != bridge.Offline {
			t.Errorf("%+v, %v", listed, err)
		}
		write(func(tx txn.Tx) error { return s.DeleteMachineTx(tx, tenant, "m") })
		if _, err := s.GetMachine(t.Context(), tenant, "m"); !fault.Is(err, fault.NotFound) {
			t.Errorf("after it was forgotten: %v", err)
		}
	})
}

func TestTasks(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, agent, at := New(db), ident.New(), ident.New(), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
		write := writer(t, db)
		id := ident.New()
		task := bridge.Task{TenantID: tenant, TaskID: id, AgentID: agent, QueuedAt: at, Body: bridge.PendingTask{
			TaskID: id, AgentID: agent, Input: bridge.TaskInput{Message: "hello"}, QueuedAt: at, ExpiresAt: at, Source: bridge.TaskSource{Type: "user"},
		}}
		for range 2 {
			write(func(tx txn.Tx) error { return s.CreateTaskTx(tx, &task) })
		}
		got, err := s.GetTask(t.Context(), tenant, id)
		if diff := cmp.Diff(&task, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		offers := func(now time.Time, want bool) {
			t.Helper()
			write(func(tx txn.Tx) error {
				offered, err := s.OfferTx(tx, tenant, id, now, now.Add(time.Minute))
				if offered != want {
					t.Errorf("offered: %v", offered)
				}
				return err
			})
		}
		offers(at, true)
		offers(at.Add(time.Second), false)
		offers(at.Add(time.Hour), true)
		for i, want := range []bool{true, false} {
			write(func(tx txn.Tx) error {
				fresh, err := s.AddEventTx(tx, tenant, id, "k")
				if fresh != want {
					t.Errorf("event %d: %v", i, fresh)
				}
				return err
			})
		}
		write(func(tx txn.Tx) error {
			now, err := s.CountTx(tx, tenant, id, 2, 30)
			if now.Events != 2 || now.Bytes != 30 {
				t.Errorf("%+v", now)
			}
			return err
		})
		offers(at.Add(5*time.Hour), false) // the machine has it
		if has, err := s.HasEvent(t.Context(), tenant, id, "k"); !has || err != nil {
			t.Errorf("the event: %v, %v", has, err)
		}
		write(func(tx txn.Tx) error { return s.OfferAllTx(tx, tenant, agent) })
		offers(at, true)
		if all, err := s.ListTasks(t.Context(), ident.New(), agent, 10); err != nil || len(all) != 0 {
			t.Errorf("another company's tasks: %v, %v", all, err)
		}
		if all, err := s.ListTasks(t.Context(), tenant, agent, 10); err != nil || len(all) != 1 {
			t.Errorf("tasks: %v, %v", all, err)
		}
		write(func(tx txn.Tx) error { return s.DeleteTaskTx(tx, tenant, id) })
		if _, err := s.GetTask(t.Context(), tenant, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("after its end: %v", err)
		}
		if has, err := s.HasEvent(t.Context(), tenant, id, "k"); has || err != nil {
			t.Errorf("its event: %v, %v", has, err)
		}
	})
}

package a2asql

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/teams/a2a"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTasks(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, at := New(db), ident.New(), time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		write := func(op func(txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		agent := ident.New()
		var made []a2a.Record
		for range 3 {
			r := a2a.Record{
				TenantID: tenant, TaskID: ident.New(), AgentID: agent, ContextID: "c", State: a2a.Submitted, Metadata: schema.Object(`{"k":1}`),
				Messages:  []a2a.Message{{Role: a2a.User, Parts: []a2a.Part{{Type: a2a.TextPart, Text: "hello"}}}},
				CreatedAt: at, UpdatedAt: at,
			}
			made = append(made, r)
			write(func(tx txn.Tx) error { return s.CreateTx(tx, &r) })
		}
		first, later := &made[0], at.Add(time.Second)
		for i, want := range []bool{true, false} {
			write(func(tx txn.Tx) error {
				changed, err := s.UpdateStateTx(tx, tenant, first.TaskID, a2a.Completed, later)
				if changed != want {
					t.Errorf("change %d: %v", i, changed)
				}
				return err
			})
		}
		first.Messages = append(first.Messages, a2a.Message{Role: a2a.Agent, Parts: []a2a.Part{}})
		write(func(tx txn.Tx) error { return s.UpdateMessagesTx(tx, tenant, first.TaskID, first.Messages) })
		first.State, first.Changes, first.UpdatedAt = a2a.Completed, 1, later
		got, err := s.Get(t.Context(), tenant, first.TaskID)
		if diff := cmp.Diff(first, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		write(func(tx txn.Tx) error {
			n, err := s.CountChangesTx(tx, tenant, first.TaskID)
			if n != 1 {
				t.Errorf("%d changes", n)
			}
			return err
		})
		page1, err := s.List(t.Context(), tenant, page.Window{Limit: 2})
		if err != nil || len(page1) != 2 || page1[0].TaskID != made[2].TaskID {
			t.Errorf("%+v, %v", page1, err)
		}
		page2, err := s.List(t.Context(), tenant, page.Window{After: page1[1].TaskID, Limit: 2})
		if err != nil || len(page2) != 1 || page2[0].TaskID != first.TaskID {
			t.Errorf("%+v, %v", page2, err)
		}
		for context, want := range map[string]string{"c": first.TaskID, "d": ""} {
			if id, err := s.GetLastCompleted(t.Context(), tenant, agent, context); id != want || err != nil {
				t.Errorf("the last of %s: %q, %v", context, id, err)
			}
		}
		stranger := ident.New()
		if _, err := s.Get(t.Context(), stranger, first.TaskID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another company's: %v", err)
		}
		if id, err := s.GetLastCompleted(t.Context(), stranger, agent, "c"); id != "" || err != nil {
			t.Errorf("another company's context: %q, %v", id, err)
		}
	})
}

func TestPushes(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, task := New(db), ident.New(), ident.New()
		p := a2a.Push{TenantID: tenant, TaskID: task, ConfigID: "a", URL: "u", Version: "1.0", Sealed: []byte("x"), CreatedAt: time.UnixMicro(7).UTC()}
		write := func(op func(txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		write(func(tx txn.Tx) error { return s.PutPushTx(tx, &p) })
		p.URL, p.Sealed = "v", []byte("y")
		write(func(tx txn.Tx) error { return s.PutPushTx(tx, &p) })
		p.Sent, p.Attempts = 3, 2
		write(func(tx txn.Tx) error { return s.UpdateSentTx(tx, &p) })
		got, err := s.GetPush(t.Context(), tenant, task, "a")
		if diff := cmp.Diff(&p, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		all, err := s.ListPushes(t.Context(), tenant, task)
		if diff := cmp.Diff([]a2a.Push{p}, all); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		write(func(tx txn.Tx) error {
			all, err := s.ListPushesTx(tx, tenant, task)
			if len(all) != 1 {
				t.Errorf("%+v", all)
			}
			return err
		})
		if _, err := s.GetPush(t.Context(), ident.New(), task, "a"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another company's: %v", err)
		}
		write(func(tx txn.Tx) error { return s.DeletePushTx(tx, tenant, task, "a") })
		if all, err := s.ListPushes(t.Context(), tenant, task); err != nil || len(all) != 0 {
			t.Errorf("after it was deleted: %+v, %v", all, err)
		}
	})
}

func TestPublished(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, tenant, agent := New(db), ident.New(), ident.New()
		for _, is := range []bool{true, true, false, false} {
			if err := db.Write(t.Context(), func(tx txn.Tx) error { return s.SetPublishedTx(tx, tenant, agent, is) }); err != nil {
				t.Fatal(err)
			}
			got, err := s.GetTenant(t.Context(), agent)
			if is && got != tenant || !is && !fault.Is(err, fault.NotFound) {
				t.Errorf("%v: %q, %v", is, got, err)
			}
		}
	})
}

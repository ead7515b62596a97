package resourcesql_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/customer"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/kernel/work"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

// TestChanges has a runner deliver the changes of resources: those that
// committed, and no others.
func TestChanges(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var runner *work.Runner
		queue := worksql.New(db, clock.System{}, func(string) { runner.Wake() })
		subscribers := resource.NewSubscribers(queue, db, clock.System{})
		delivered := make(chan resource.Change, 10)
		failed := false
		subscribers.Subscribe("test", "customer", []string{resource.Created, resource.Deleted}, func(_ context.Context, c resource.Change) error {
			if c.Action == resource.Deleted && !failed {
				failed = true
				return errors.New("not yet")
			}
			delivered <- c
			return nil
		})
		runner = work.NewRunner(work.Config{
			Kind: resource.WorkKind, Owner: "node", Queue: queue, Handler: subscribers.Deliver, Slots: 1,
			Backoff: func(int) time.Duration { return time.Millisecond },
		})
		if err := runner.Start(); err != nil {
			t.Fatal(err)
		}
		defer runner.Stop(context.Background())

		deps, _ := resourcetest.Deps(resourcesql.New(db), db)
		deps.Outbox = subscribers
		store := resource.NewStore(customer.Customers, deps)
		who := resourcetest.NewClient(nil).Who
		refused := errors.New("refused")
		err := db.Write(t.Context(), func(tx txn.Tx) error {
			if err := store.CreateTx(tx, who, &customer.Customer{Name: "nobody"}); err != nil {
				return err
			}
			return refused
		})
		if !errors.Is(err, refused) {
			t.Fatal(err)
		}
		ada := &customer.Customer{Name: "Ada"}
		if err := store.Create(t.Context(), who, ada); err != nil {
			t.Fatal(err)
		}
		want := func(action string) {
			t.Helper()
			select {
			case c := <-delivered:
				if c.Action != action || c.ID != ada.ID || c.Name != "Ada" || c.TenantID != who.TenantID || c.Actor != who.UserID {
					t.Errorf("delivered %+v, want %s", c, action)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("nothing is delivered")
			}
		}
		want(resource.Created)
		if _, err := store.Update(t.Context(), who, ada.ID, func(_ txn.Tx, c *customer.Customer) error {
			c.Note = "nobody listens to updates"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), who, ada.ID); err != nil {
			t.Fatal(err)
		}
		want(resource.Deleted)
		if _, err := store.Get(t.Context(), who.TenantID, ada.ID); !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
		for due := time.Unix(0, 0); !due.IsZero(); { // until the runner has settled the last item
			if due, err = queue.GetNextDue(t.Context(), resource.WorkKind); err != nil {
				t.Fatal(err)
			}
		}
		if len(delivered) != 0 {
			t.Errorf("delivered once more: %+v", <-delivered)
		}
	})
}

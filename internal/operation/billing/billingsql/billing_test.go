package billingsql_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/operation/billing"
	"agentd/internal/operation/billing/billingsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestAccounts(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, now := billingsql.New(db), time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)
		write := func(do func(tx txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), do); err != nil {
				t.Fatal(err)
			}
		}
		tenant := ident.New()
		write(func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`INSERT INTO tenants (tenant_id, name, slug, status, plan, settings, operator, created_at, updated_at)
				VALUES (?, 'a', ?, 'active', 'free', '{}', ?, 1, 1)`, tenant, tenant, false)
			return err
		})
		terms := func() (plan string, pastDue bool) {
			t.Helper()
			if err := db.QueryRow(t.Context(), `SELECT plan, past_due FROM tenants WHERE tenant_id = ?`, tenant).Scan(&plan, &pastDue); err != nil {
				t.Fatal(err)
			}
			return plan, pastDue
		}
		a := billing.Account{
			TenantID: tenant, CustomerID: "cus_1", SubscriptionID: "sub_1", Status: billing.PastDue, Plan: "pro",
			TrialEnds: now.Add(time.Hour), PlanAt: now, StatusAt: now.Add(time.Minute),
		}
		write(func(tx txn.Tx) error {
			for id, want := range map[string]bool{tenant: true, ident.New(): false} {
				got, found, err := s.LockTx(tx, id)
				if err != nil || found != want || got.Status != billing.None {
					t.Errorf("%s: %+v %t %v", id, got, found, err)
				}
			}
			return s.PutTx(tx, &a, "pro")
		})
		got, err := s.Get(t.Context(), tenant)
		if diff := cmp.Diff(a, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if plan, pastDue := terms(); plan != "pro" || !pastDue {
			t.Errorf("the terms: %s %t", plan, pastDue)
		}
		a.Status = billing.Active
		write(func(tx txn.Tx) error { return s.PutTx(tx, &a, "") })
		if plan, pastDue := terms(); plan != "pro" || pastDue {
			t.Errorf("the terms after the payment: %s %t", plan, pastDue)
		}
		write(func(tx txn.Tx) error {
			for customer, want := range map[string]string{"cus_1": tenant, "cus_2": ""} {
				if got, err := s.GetTenantTx(tx, customer); got != want || err != nil {
					t.Errorf("%s: %s %v", customer, got, err)
				}
			}
			return nil
		})
		if other, err := s.Get(t.Context(), ident.New()); err != nil || other.CustomerID != "" {
			t.Error(other, err)
		}
		var fresh []bool
		for _, at := range []time.Time{now, now.Add(time.Hour), now.Add(11 * 24 * time.Hour)} {
			write(func(tx txn.Tx) error {
				ok, err := s.ClaimEventTx(tx, "evt_1", at, at.Add(-10*24*time.Hour))
				fresh = append(fresh, ok)
				return err
			})
		}
		if diff := cmp.Diff([]bool{true, false, true}, fresh); diff != "" {
			t.Errorf("an event counts once within ten days: %s", diff)
		}
	})
}

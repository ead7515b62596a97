package usage_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// refusedField checks that a request is refused for a field.
func refusedField(t *testing.T, err error, field string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Invalid || len(f.Fields) != 1 || f.Fields[0].Field != field {
		t.Errorf("got %v, want one about the field %s", err, field)
	}
}

// newPaidBench is a bench whose tenant has a plan with a price.
func newPaidBench(t *testing.T, db *sqldb.DB) *bench {
	t.Helper()
	b := newBench(t, db, "pro")
	plans, err := quota.Parse([]byte(`{"plans": [
		{"id": "pro", "name": "Pro", "price_amount_cents": 1900, "limits": {"runs_per_month": 2, "tokens_per_day": 100, "tool_calls_per_month": 1}},
		{"id": "free", "name": "Free", "limits": {"runs_per_month": 100}}
	], "default": "free"}`))
	if err != nil {
		t.Fatal(err)
	}
	b.plans = plans
	return b
}

// More than the plan includes may be used where that was allowed, until the budget is used
// up.
func TestOverage(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newPaidBench(t, db)
		here, there := b.node(), b.node()
		const path, budget = "/api/v1/billing/overage", "/api/v1/billing/budget"
		put := func(method, path, body string) (map[string]any, error) {
			return b.ask(here, method, path, resourcetest.Args{"": body})
		}
		got, err := b.ask(here, "GET", path, nil)
		want := map[string]any{
			"enabled": false, "available": false, "cap_usd": nil, "over": []any{},
			"reason": "needs a budget, which bounds it: set one with PUT /api/v1/billing/budget",
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("without a budget: %v (-want +got):\n%s", err, diff)
		}
		_, err = put("PUT", path, `{"enabled": true}`)
		refusedField(t, err, "enabled")
		if _, err := put("PUT", path, `{"enabled": false}`); err != nil {
			t.Errorf("switching off what is not on: %v", err)
		}
		if _, err := put("PUT", budget, `{"limit_usd": 10, "soft_threshold": 0.8, "hard_threshold": 0.9, "period": "monthly"}`); err != nil {
			t.Fatal(err)
		}
		b.use(here, quota.Use{Runs: 2, InputTokens: 100, ToolCalls: 1})
		refused(t, here.AllowRun(t.Context(), b.tenant), fault.Limited, quota.CodeExceeded)
		if got, err = put("PUT", path, `{"enabled": true}`); err != nil || got["enabled"] != true || got["cap_usd"] != 9.0 {
			t.Fatalf("%v, %v", got, err)
		}
		allowed(t, here.AllowRun(t.Context(), b.tenant))
		allowed(t, there.AllowModelCall(t.Context(), b.tenant))
		allowed(t, here.AllowToolCalls(t.Context(), b.tenant, 3))
		b.use(here, quota.Use{Runs: 3, InputTokens: 50, ToolCalls: 2, CostNano: dollars(1)}) // not refused where it is counted either
		got, err = b.ask(there, "GET", path, nil)
		over := func(resource string, used, limit, by float64, resets string) map[string]any {
			return map[string]any{"resource": resource, "used": used, "limit": limit, "over_by": by, "resets_at": resets}
		}
		want = map[string]any{"enabled": true, "available": true, "cap_usd": 9.0, "over": []any{
			over("runs_per_month", 5, 2, 3, "2026-10-01T00:00:00Z"), over("tokens_per_day", 150, 100, 50, "2026-09-11T00:00:00Z"),
			over("tool_calls_per_month", 3, 1, 2, "2026-10-01T00:00:00Z"),
		}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		_, err = put("DELETE", budget, "")
		refused(t, err, fault.Conflict, "OVERAGE_ENABLED")
		if got, err := put("PUT", budget, `{"limit_usd": 2, "soft_threshold": 0.8, "hard_threshold": 1, "period": "monthly"}`); err != nil || got["configured"] != true {
			t.Fatalf("a new budget: %v, %v", got, err)
		}
		allowed(t, here.AllowRun(t.Context(), b.tenant)) // a new budget leaves it on
		b.use(here, quota.Use{Runs: 1, CostNano: dollars(1)})
		refused(t, here.AllowRun(t.Context(), b.tenant), fault.Forbidden, quota.CodeBudget)
		if got, err := put("PUT", path, `{"enabled": false}`); err != nil || got["enabled"] != false {
			t.Fatalf("%v, %v", got, err)
		}
		if _, err := put("DELETE", budget, ""); err != nil {
			t.Errorf("deleting the budget: %v", err)
		}
		refused(t, here.AllowRun(t.Context(), b.tenant), fault.Limited, quota.CodeExceeded)
	})
}

// A plan that costs nothing has no overage, also where it was allowed on another plan.
func TestNoOverageOfAFreePlan(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newPaidBench(t, db)
		s := b.node()
		if _, err := b.ask(s, "PUT", "/api/v1/billing/budget", resourcetest.Args{"": `{"limit_usd": 10, "soft_threshold": 0.8, "hard_threshold": 1, "period": "monthly"}`}); err != nil {
			t.Fatal(err)
		}
		const path = "/api/v1/billing/overage"
		if _, err := b.ask(s, "PUT", path, resourcetest.Args{"": `{"enabled": true}`}); err != nil {
			t.Fatal(err)
		}
		b.write(func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`UPDATE tenants SET plan = 'free' WHERE tenant_id = ?`, b.tenant)
			return err
		})
		s = b.node() // which has not read the plan before
		b.use(s, quota.Use{Runs: 100})
		refused(t, s.AllowRun(t.Context(), b.tenant), fault.Limited, quota.CodeExceeded)
		got, err := b.ask(s, "GET", path, nil)
		if err != nil || got["enabled"] != false || got["available"] != false {
			t.Errorf("%v, %v", got, err)
		}
		_, err = b.ask(s, "PUT", path, resourcetest.Args{"": `{"enabled": true}`})
		refusedField(t, err, "enabled")
		s.SellBy(func(plan string) bool { return plan == "free" }) // it is paid for at Stripe
		if got, err := b.ask(s, "GET", path, nil); err != nil || got["enabled"] != true {
			t.Errorf("a plan that is sold: %v, %v", got, err)
		}
		if _, err := b.ask(s, "DELETE", "/api/v1/billing/budget", nil); err == nil {
			t.Error("the budget was deleted")
		}
	})
}

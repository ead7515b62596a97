package protocol

import (
	"os"
	"path/filepath"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
)

// TestSmallFields looks for fields that clients of the interface read.
func TestSmallFields(t *testing.T) {
	t.Parallel()
	plans := filepath.Join(t.TempDir(), "plans.json")
	const text = `{"plans": [{"id": "pro", "name": "Pro", "limits": {"runs_per_month": 500}, "price_amount_cents": 1900, "price_currency": "eur"}], "default": "pro"}`
	if err := os.WriteFile(plans, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := apptest.Start(t, nil, func(c *config.Config) { c.Tenancy.Plans = plans })
	if got := n.Expect(200, "GET", "/api/v1/tenants/me", nil)["quotas"].(object); got["runs_per_month"] != 500.0 {
		t.Errorf("quotas: %v", got)
	}
	if got := n.Expect(200, "GET", "/api/v1/billing/plans", nil)["plans"].([]any)[0].(object); got["price_amount_cents"] != 1900.0 || got["price_currency"] != "eur" {
		t.Errorf("plan: %v", got)
	}
	if got := n.Expect(200, "GET", "/api/v1/usage", nil)["bridge_tasks"]; got != 0.0 {
		t.Errorf("bridge_tasks: %v", got)
	}
	if got := n.Expect(200, "GET", "/ready", nil)["checks"].(object)["kv"]; got != "ok" {
		t.Errorf("checks: %v", got)
	}
	if got := n.Expect(200, "GET", "/health", nil)["pending_resumes"]; got != 0.0 {
		t.Errorf("pending_resumes: %v", got)
	}
}

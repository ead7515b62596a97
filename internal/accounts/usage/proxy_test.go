package usage_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/usage"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

var targetM = &model.Target{Provider: "default", Model: "m"}

// flush has a node store what it gathered, as it does when it stops.
func flush(t *testing.T, s *usage.Service) {
	t.Helper()
	ended, end := context.WithCancel(t.Context())
	end()
	s.Serve(ended)
}

// What the model proxy used is stored within a moment, by agent, model, route
// and key, and none of it twice.
func TestProxiedIsStored(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "open")
		s := b.node()
		use := quota.Use{Model: "default/m", Source: "llm_proxy", KeyID: "k1", ModelCalls: 1, InputTokens: 10, OutputTokens: 5,
			CostNano: dollars(0.5)}
		other := use
		other.KeyID, other.Source = "k2", "messages"
		for range 3 {
			s.CountProxyCall(b.tenant, use)
		}
		s.CountProxyCall(b.tenant, other)
		if rows, err := b.store.ListRows(t.Context(), b.tenant, usage.Query{From: "2026-09-10", To: "2026-09-10"}); err != nil || len(rows) != 0 {
			t.Errorf("stored at once: %v, %v", rows, err)
		}
		flush(t, s)
		flush(t, s)
		got, err := b.ask(s, "GET", "/api/v1/usage", resourcetest.Args{"breakdown": "key,source"})
		if err != nil {
			t.Fatal(err)
		}
		if got["llm_calls_count"] != 4.0 || got["total_cost"] != 2.0 || got["non_run_cost"] != 2.0 {
			t.Errorf("%v", got)
		}
		keys := map[any]any{}
		for _, part := range got["by_key"].([]any) {
			p := part.(map[string]any)
			keys[p["key_id"]] = p["total_tokens"]
		}
		if diff := cmp.Diff(map[any]any{"k1": 45.0, "k2": 15.0}, keys); diff != "" {
			t.Errorf("by key (-want +got):\n%s", diff)
		}
		if all, err := b.ask(s, "GET", "/api/v1/llm/usage", nil); err != nil || all["usage"].(map[string]any)["tokens_used"] != 60.0 ||
			len(all["by_model"].([]any)) != 1 || all["models"] != nil {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// A plan limits the models and the requests of the proxy. What one
// node let through others know within a second, and after a restart too.
func TestAllowProxyCall(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "gated")
		one, two := b.node(), b.node()
		may := func(s *usage.Service) error { return s.AllowProxyCall(t.Context(), b.tenant, targetM) }
		allowed(t, one.AllowProxyCall(t.Context(), b.tenant, &model.Target{Provider: "acme", Model: "anything/at-all"}))
		for _, foreign := range []*model.Target{{Provider: "default", Model: "mm"}, {Provider: "acme2", Model: "m"},
			{Provider: "builtin", Model: "echo"}} {
			refused(t, one.AllowProxyCall(t.Context(), b.tenant, foreign), fault.Forbidden, "model_not_allowed")
		}
		allowed(t, one.AllowProxyCall(t.Context(), b.tenant, nil)) // what the operator chose every plan has
		for range 3 {
			allowed(t, may(one))
		}
		err := may(one)
		refused(t, err, fault.Limited, "rate_limit_exceeded")
		if f := fault.From(err); f.RetryAfter <= 0 || f.RetryAfter > time.Minute {
			t.Errorf("retry after %s", f.RetryAfter)
		}
		flush(t, one)
		b.clock.Advance(time.Minute)
		for range 3 { // of eight in the hour
			allowed(t, may(two))
		}
		refused(t, may(two), fault.Limited, "quota_exceeded")
		flush(t, two)
		b.clock.Advance(2 * time.Second)
		refused(t, may(one), fault.Limited, "quota_exceeded")
		refused(t, may(b.node()), fault.Limited, "quota_exceeded")

		b.clock.Advance(time.Hour) // ten a day, of which eight are used
		allowed(t, may(one))
		allowed(t, may(one))
		refused(t, may(one), fault.Limited, "quota_exceeded")
		got, err := b.ask(one, "GET", "/api/v1/llm/usage", nil)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"requests_this_minute": 2.0, "requests_this_hour": 2.0, "requests_today": 10.0, "tokens_used": 0.0,
			"tokens_remaining": 5000.0}
		if diff := cmp.Diff(want, got["usage"]); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]any{"default/m", "acme/*"}, got["models"]); diff != "" {
			t.Errorf("models (-want +got):\n%s", diff)
		}
		b.clock.Advance(24 * time.Hour)
		allowed(t, may(one))

		// Tokens and money hold for the proxy too.
		one.CountProxyCall(b.tenant, quota.Use{Model: "default/m", Source: "messages", ModelCalls: 1, InputTokens: 5000})
		flush(t, one)
		refused(t, may(one), fault.Limited, "quota_exceeded")
	})
}

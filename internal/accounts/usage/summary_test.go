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

// spread makes use of two agents, two models and three sources over some days.
func (b *bench) spread(s *usage.Service, agents ...string) {
	b.t.Helper()
	b.use(s, quota.Use{AgentID: agents[0], Source: "api", Runs: 1})
	b.use(s, quota.Use{AgentID: agents[0], Source: "api", Model: "default/m", ModelCalls: 1, InputTokens: 100, OutputTokens: 20,
		ThinkingTokens: 5, CachedTokens: 40, CacheWriteTokens: 7, CostNano: dollars(0.25)})
	b.clock.Advance(24 * time.Hour)
	b.use(s, quota.Use{AgentID: agents[1], Source: "schedule", Runs: 1})
	// One commit of a run can know of several.
	b.use(s,
		quota.Use{AgentID: agents[1], Source: "schedule", Model: "default/m", ModelCalls: 1, InputTokens: 10, OutputTokens: 1,
			CostNano: dollars(0.5)},
		quota.Use{AgentID: agents[1], Source: "schedule", ToolCalls: 1}, quota.Use{AgentID: agents[1], Source: "schedule", ToolCalls: 1},
		quota.Use{AgentID: agents[1], Source: "schedule", Model: "custom/n", ModelCalls: 1, InputTokens: 1000, OutputTokens: 10},
	)
	b.use(s, quota.Use{AgentID: agents[0], Source: "session", Runs: 2})
}

func TestSummary(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "open")
		s := b.node()
		agents := []string{"01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f10", "01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f11"}
		empty := map[string]any{
			"plan": "open", "period": "2026-09", "period_days": 30.0, "input_tokens": 0.0, "output_tokens": 0.0, "thinking_tokens": 0.0, "cached_tokens": 0.0, "cache_write_tokens": 0.0,
			"total_tokens": 0.0,
			"runs_count":   0.0, "llm_calls_count": 0.0, "tool_calls_count": 0.0, "total_cost": 0.0, "provider_cost": 0.0, "storage_bytes": 0.0, "bridge_tasks": 0.0,
			"non_run_cost": 0.0,
		}
		ask := func(args resourcetest.Args) map[string]any {
			t.Helper()
			got, err := b.ask(s, "GET", "/api/v1/usage", args)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if diff := cmp.Diff(empty, ask(nil)); diff != "" {
			t.Errorf("nothing is used (-want +got):\n%s", diff)
		}
		withParts := ask(resourcetest.Args{"breakdown": "model,source"})
		if !cmp.Equal(withParts["by_model"], []any{}) || !cmp.Equal(withParts["by_source"], []any{}) {
			t.Errorf("%v", withParts)
		}
		b.spread(s, agents...)
		other := newBench(t, db, "open")
		other.spread(other.node(), agents...) // another company's

		want := map[string]any{
			"plan": "open", "period": "2026-09", "period_days": 30.0, "input_tokens": 1110.0, "output_tokens": 31.0, "thinking_tokens": 5.0, "cached_tokens": 40.0, "cache_write_tokens": 7.0,
			"total_tokens": 1141.0,
			"runs_count":   4.0, "llm_calls_count": 3.0, "tool_calls_count": 2.0, "total_cost": 0.75, "provider_cost": 0.75, "storage_bytes": 0.0, "bridge_tasks": 0.0,
			"non_run_cost": 0.0,
			"by_model": []any{
				map[string]any{"model": "custom/n", "input_tokens": 1000.0, "output_tokens": 10.0, "thinking_tokens": 0.0, "cached_tokens": 0.0, "cache_write_tokens": 0.0, "total_tokens": 1010.0,
					"llm_calls_count": 1.0, "total_cost": 0.0},
				map[string]any{"model": "default/m", "input_tokens": 110.0, "output_tokens": 21.0, "thinking_tokens": 5.0, "cached_tokens": 40.0, "cache_write_tokens": 7.0, "total_tokens": 131.0,
					"llm_calls_count": 2.0, "total_cost": 0.75},
			},
			"by_source": []any{
				map[string]any{
					"source": "session", "input_tokens": 0.0, "output_tokens": 0.0, "thinking_tokens": 0.0, "cached_tokens": 0.0, "cache_write_tokens": 0.0, "total_tokens": 0.0,
					"runs_count": 2.0, "llm_calls_count": 0.0, "tool_calls_count": 0.0, "total_cost": 0.0,
				},
				map[string]any{
					"source": "api", "input_tokens": 100.0, "output_tokens": 20.0, "thinking_tokens": 5.0, "cached_tokens": 40.0, "cache_write_tokens": 7.0, "total_tokens": 120.0,
					"runs_count": 1.0, "llm_calls_count": 1.0, "tool_calls_count": 0.0, "total_cost": 0.25,
				},
				map[string]any{
					"source": "schedule", "input_tokens": 1010.0, "output_tokens": 11.0, "thinking_tokens": 0.0, "cached_tokens": 0.0, "cache_write_tokens": 0.0, "total_tokens": 1021.0,
					"runs_count": 1.0, "llm_calls_count": 2.0, "tool_calls_count": 2.0, "total_cost": 0.5,
				},
			},
		}
		if diff := cmp.Diff(want, ask(resourcetest.Args{"breakdown": " model, source"})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for _, tt := range []struct {
			args resourcetest.Args
			runs float64
			days float64
		}{
			{resourcetest.Args{"period": "2026-09"}, 4, 30},
			{resourcetest.Args{"period": "2026-08"}, 0, 31},
			{resourcetest.Args{"days": "1"}, 3, 1},
			{resourcetest.Args{"days": "2"}, 4, 2},
			{resourcetest.Args{"days": "0"}, 3, 1},
			{resourcetest.Args{"days": "1000"}, 4, 90},
			{resourcetest.Args{"days": "many"}, 4, 30},
			{resourcetest.Args{"agent_id": agents[0]}, 3, 30},
			{resourcetest.Args{"agent_id": agents[1], "days": "2"}, 1, 2},
			{resourcetest.Args{"agent_id": "01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f12"}, 0, 30},
			{resourcetest.Args{"agent_id": "nonsense"}, 0, 30},
		} {
			if got := ask(tt.args); got["runs_count"] != tt.runs || got["period_days"] != tt.days {
				t.Errorf("%v: %v runs in %v days", tt.args, got["runs_count"], got["period_days"])
			}
		}
		for _, bad := range []resourcetest.Args{{"period": "2026-13"}, {"period": "September"}, {"period": "2026-9"}, {"breakdown": "agent"}} {
			_, err := b.ask(s, "GET", "/api/v1/usage", bad)
			refused(t, err, fault.Invalid, "VALIDATION_ERROR")
		}
		_, err := s.UsageOf(t.Context(), b.tenant, "never")
		refused(t, err, fault.Invalid, "VALIDATION_ERROR")
	})
}

func TestTimeseries(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "open")
		s := b.node()
		agents := []string{"01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f10", "01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f11"}
		b.spread(s, agents...)
		for _, tt := range []struct {
			args resourcetest.Args
			days int
			last [2]float64 // of 10 and 11 September
		}{
			{nil, 14, [2]float64{1, 3}},
			{resourcetest.Args{"metric": "tokens", "days": "3"}, 3, [2]float64{120, 1021}},
			{resourcetest.Args{"metric": "cost", "days": "1000"}, 90, [2]float64{0.25, 0.5}},
			{resourcetest.Args{"metric": "runs", "agent_id": agents[1]}, 14, [2]float64{0, 1}},
			{resourcetest.Args{"metric": "runs", "agent_id": "nonsense"}, 14, [2]float64{0, 0}},
		} {
			got, err := b.ask(s, "GET", "/api/v1/usage/timeseries", tt.args)
			if err != nil {
				t.Fatal(err)
			}
			data := got["data"].([]any)
			if len(data) != tt.days || got["plan"] != "open" {
				t.Fatalf("%v: %v", tt.args, got)
			}
			want := []any{
				map[string]any{"label": "9/10", "date": "2026-09-10", "value": tt.last[0]},
				map[string]any{"label": "9/11", "date": "2026-09-11", "value": tt.last[1]},
			}
			if diff := cmp.Diff(want, data[len(data)-2:]); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tt.args, diff)
			}
		}
		for _, metric := range []string{"Runs", "euros", " "} {
			_, err := b.ask(s, "GET", "/api/v1/usage/timeseries", resourcetest.Args{"metric": metric})
			refused(t, err, fault.Malformed, "INVALID_QUERY")
		}
	})
}

func TestQuotaAndPlans(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "free")
		s := b.node()
		quotaOf := func() map[string]any {
			t.Helper()
			got, err := b.ask(s, "GET", "/api/v1/usage/quota", nil)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := quotaOf(); got["allowed"] != true || got["reason"] != nil {
			t.Errorf("%v", got)
		}
		b.use(s, quota.Use{Runs: 2, InputTokens: 300, OutputTokens: 150, ToolCalls: 1, CostNano: dollars(1)})
		const day, month = "2026-09-11T00:00:00Z", "2026-10-01T00:00:00Z"
		want := map[string]any{
			"plan": "free", "allowed": false,
			"reason":    "The company's plan allows 400 tokens in a day, and they are used up. There are more at 2026-09-11T00:00:00Z.",
			"usage":     map[string]any{"period": "2026-09", "runs_count": 2.0, "total_tokens": 450.0, "tool_calls_count": 1.0, "total_cost": 1.0},
			"daily":     map[string]any{"used": 450.0, "limit": 400.0, "remaining": 0.0, "resets_at": day},
			"resets_at": map[string]any{"day": day, "month": month},
			"limits": map[string]any{
				"runs_per_month": 10.0, "tokens_per_month": 1000.0, "tokens_per_day": 400.0, "tool_calls_per_month": 5.0,
				"agents": 3.0, "teams": nil, "knowledge_bases": 1.0, "workspaces": 2.0, "webhooks": nil, "active_sessions": 4.0, "concurrent_team_runs": nil,
				"model_requests_per_minute": nil, "model_requests_per_hour": nil, "model_requests_per_day": nil,
			},
			"counters": []any{
				map[string]any{"resource": "runs_per_month", "kind": "runs", "used": 2.0, "limit": 10.0, "period": "month", "resets_at": month},
				map[string]any{"resource": "tokens_per_month", "kind": "tokens", "used": 450.0, "limit": 1000.0, "period": "month", "resets_at": month},
				map[string]any{"resource": "tokens_per_day", "kind": "tokens", "used": 450.0, "limit": 400.0, "period": "day", "resets_at": day},
				map[string]any{"resource": "tool_calls_per_month", "kind": "tool_calls", "used": 1.0, "limit": 5.0, "period": "month",
					"resets_at": month},
			},
			"resource_usage": map[string]any{
				"agents":          map[string]any{"count": 0.0, "limit": 3.0, "over_by": 0.0},
				"knowledge_bases": map[string]any{"count": 0.0, "limit": 1.0, "over_by": 0.0},
				"workspaces":      map[string]any{"count": 0.0, "limit": 2.0, "over_by": 0.0},
				"webhooks":        map[string]any{"count": 0.0, "limit": nil, "over_by": 0.0},
				"teams":           map[string]any{"count": 0.0, "limit": nil, "over_by": 0.0},
				"active_sessions": map[string]any{"count": 0.0, "limit": 4.0, "over_by": 0.0},

				"concurrent_team_runs": map[string]any{"count": 0.0, "limit": nil, "over_by": 0.0},
				"any_over_tier":        false,
			},
		}
		if diff := cmp.Diff(want, quotaOf()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		b.plan("open")
		b.clock.Advance(time.Second)
		if got := quotaOf(); got["allowed"] != true || got["plan"] != "open" || got["daily"].(map[string]any)["remaining"] != nil {
			t.Errorf("%v", got)
		}

		plans, err := b.ask(s, "GET", "/api/v1/billing/plans", nil)
		if err != nil {
			t.Fatal(err)
		}
		var current []any
		for _, p := range plans["plans"].([]any) {
			if p := p.(map[string]any); p["current"] == true {
				current = append(current, p["id"], p["name"], p["checkout_available"], p["price_amount_cents"], p["price_currency"])
			}
		}
		if diff := cmp.Diff([]any{"open", "Open", false, 0.0, "usd"}, current); diff != "" || len(plans["plans"].([]any)) != 5 {
			t.Errorf("%v\n%s", plans, diff)
		}
	})
}

// A plan may have become too small for what there is.
func TestOverTier(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqldbtest.Open(t, sqldbtest.SQLite), "free")
	s := b.node()
	for range 5 {
		b.document("agent")
	}
	got, err := b.ask(s, "GET", "/api/v1/usage/quota", nil)
	if err != nil {
		t.Fatal(err)
	}
	held := got["resource_usage"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"count": 5.0, "limit": 3.0, "over_by": 2.0}, held["agents"]); diff != "" ||
		held["any_over_tier"] != true {
		t.Errorf("%v\n%s", held, diff)
	}
}

// Model calls outside runs count like those in runs, with their own sources.
func TestBesideRuns(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "free")
		s := b.node()
		priced := model.Target{Provider: "default", Model: "m", Price: &model.Price{Rates: model.Rates{Input: 10_000, Output: 20_000}}}
		b.use(s, quota.Use{InputTokens: 1, CostNano: dollars(1)})
		stopped, stop := context.WithCancel(t.Context())
		stop()
		s.RecordDirect(t.Context(), b.tenant, "a", quota.SourceGuardrail, priced, model.Usage{InputTokens: 100, OutputTokens: 50})
		s.RecordDirect(stopped, b.tenant, "", quota.SourceMemory, model.Target{Provider: "custom", Model: "n"}, model.Usage{InputTokens: 249})
		got, err := b.ask(s, "GET", "/api/v1/usage", resourcetest.Args{"breakdown": "source"})
		if err != nil {
			t.Fatal(err)
		}
		if got["total_cost"] != 3.0 || got["non_run_cost"] != 2.0 || got["total_tokens"] != 400.0 || got["runs_count"] != 0.0 ||
			len(got["by_source"].([]any)) != 3 {
			t.Errorf("%v", got)
		}
		refused(t, s.AllowModelCall(t.Context(), b.tenant), fault.Limited, quota.CodeExceeded)
	})
}

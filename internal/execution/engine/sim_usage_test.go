package engine_test

import (
	"context"
	"log/slog"
	"math"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/usage"
	"agentd/internal/accounts/usage/usagesql"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
)

// meter counts the use of the world's runs. In every other world the plan has
// high limits, with which totals are counted in another way.
func (w *world) meter(writer txn.Writer, logger *slog.Logger) quota.Meter {
	plans := quota.Unlimited()
	if w.seed%2 == 0 {
		var err error
		plans, err = quota.Parse([]byte(`{"plans": [{"id": "far", "name": "Far", "limits": {"runs_per_month": 1000000, "tokens_per_day": 1000000000}}], "default": "far"}`))
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return usage.New(usage.Deps{Plans: plans, Store: usagesql.New(w.db), Writer: writer, Clock: clock.System{}, Logger: logger, Outbox: resource.NoOutbox{}})
}

// metered fails unless the counted use is that of the runs' metrics, whichever
// nodes died while counting.
func (w *world) metered() {
	w.t.Helper()
	ctx := context.Background()
	var want, got usage.Amounts
	for _, id := range w.ids {
		r, err := w.api.Get(ctx, w.who.TenantID, id)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		m := r.Metrics
		want.RunsCount++
		want.InputTokens += m.InputTokens
		want.OutputTokens += m.OutputTokens
		want.ThinkingTokens += m.ThinkingTokens
		want.TotalTokens += m.InputTokens + m.OutputTokens
		want.ModelCalls += m.LLMCallsCount
		want.ToolCalls += m.ToolCallsCount
		if m.TotalCostUSD != nil {
			want.TotalCost += *m.TotalCostUSD
		}
	}
	rows, err := usagesql.New(w.db).ListRows(ctx, w.who.TenantID, usage.Query{From: "0001-01-01", To: "9999-12-31"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		got.RunsCount += r.Runs
		got.InputTokens += r.InputTokens
		got.OutputTokens += r.OutputTokens
		got.ThinkingTokens += r.ThinkingTokens
		got.TotalTokens += r.InputTokens + r.OutputTokens
		got.ModelCalls += r.ModelCalls
		got.ToolCalls += r.ToolCalls
		got.TotalCost += float64(r.CostNano) / 1e9
	}
	if math.Abs(want.TotalCost-got.TotalCost) < 1e-6 {
		got.TotalCost = want.TotalCost
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("seed %d: what is counted is not what was used (-used +counted):\n%s", w.seed, diff)
	}
}

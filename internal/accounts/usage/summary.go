package usage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/quota"
)

// reports shows tenants what they used and how much is left.
type reports struct {
	tenants *tenantCache
	meter   *meter
	proxy   *proxyMeter
	plans   *quota.Plans
	shop    *shop
	store   Store
	clock   clock.Clock
}

// Summary is a tenant's usage in a period.
type Summary struct {
	_ struct{} `json:"-" name:"UsageSummary"`

	Plan       string `json:"plan" required:"true"`
	Period     string `json:"period" required:"true" doc:"A month, YYYY-MM, UTC; with days, the current one."`
	PeriodDays int    `json:"period_days" required:"true" doc:"Number of days in the period."`
	Amounts
	BridgeTasks  int64        `json:"bridge_tasks" required:"true" doc:"Always 0: the tasks of machines are counted as runs."`
	StorageBytes int64        `json:"storage_bytes" required:"true" doc:"Current size of files, workspaces and artifacts. Equal contents are stored once."`
	ProviderCost float64      `json:"provider_cost" required:"true" doc:"Same as total_cost: no markup is added."`
	NonRunCost   float64      `json:"non_run_cost" required:"true" doc:"Part of total_cost outside runs: the model proxy, embeddings, guardrail judges, memory extraction."`
	ByModel      []ModelPart  `json:"by_model,omitzero"`
	BySource     []SourcePart `json:"by_source,omitzero"`
	ByKey        []KeyPart    `json:"by_key,omitzero"`
}

// Amounts are sums of usage. Thinking tokens are part of the output tokens. Costs
// are in US dollars and include only models with a price.
type Amounts struct {
	InputTokens      int64   `json:"input_tokens" required:"true"`
	OutputTokens     int64   `json:"output_tokens" required:"true"`
	ThinkingTokens   int64   `json:"thinking_tokens" required:"true" doc:"Part of output_tokens."`
	CachedTokens     int64   `json:"cached_tokens" required:"true" doc:"Part of input_tokens that providers had in a cache."`
	CacheWriteTokens int64   `json:"cache_write_tokens" required:"true" doc:"Part of input_tokens that providers stored in a cache."`
	TotalTokens      int64   `json:"total_tokens" required:"true" doc:"Input and output tokens."`
	RunsCount        int64   `json:"runs_count" required:"true"`
	ModelCalls       int64   `json:"llm_calls_count" required:"true"`
	ToolCalls        int64   `json:"tool_calls_count" required:"true"`
	TotalCost        float64 `json:"total_cost" required:"true" doc:"US dollars, by the catalogue's prices; models without a price count as 0."`
}

func amountsOf(u quota.Use) Amounts {
	return Amounts{
		u.InputTokens, u.OutputTokens, u.ThinkingTokens, u.CachedTokens, u.CacheWriteTokens,
		u.InputTokens + u.OutputTokens, u.Runs, u.ModelCalls, u.ToolCalls, usd(u.CostNano),
	}
}

// ModelPart is the usage of one model. Runs and tool calls belong to no model.
type ModelPart struct {
	_ struct{} `json:"-" name:"UsageOfModel"`

	Model            string  `json:"model" required:"true" doc:"PROVIDER/NAME; the provider custom is an endpoint configured on an agent."`
	InputTokens      int64   `json:"input_tokens" required:"true"`
	OutputTokens     int64   `json:"output_tokens" required:"true"`
	ThinkingTokens   int64   `json:"thinking_tokens" required:"true"`
	CachedTokens     int64   `json:"cached_tokens" required:"true"`
	CacheWriteTokens int64   `json:"cache_write_tokens" required:"true"`
	TotalTokens      int64   `json:"total_tokens" required:"true"`
	ModelCalls       int64   `json:"llm_calls_count" required:"true"`
	TotalCost        float64 `json:"total_cost" required:"true"`
}

// SourcePart is the usage of runs or calls with the same source.
type SourcePart struct {
	_ struct{} `json:"-" name:"UsageOfSource"`

	Source string `json:"source" required:"true" doc:"Source of runs, such as api, session, schedule or mcp; or of other calls: llm_proxy, messages, embeddings, guardrail, memory."`
	Amounts
}

// KeyPart is the usage of one key.
type KeyPart struct {
	_ struct{} `json:"-" name:"UsageOfKey"`

	KeyID string `json:"key_id" required:"true" doc:"Empty: usage without a key, such as schedules and browser sessions."`
	Amounts
}

// window is the range of days of a report, both included.
type window struct {
	month    string
	from, to time.Time
}

func (w window) days() int { return int(w.to.Sub(w.from)/(24*time.Hour)) + 1 }

// maxDays bounds windows of days.
const maxDays = 90

func lastDays(now time.Time, n int) window {
	y, m, d := now.UTC().Date()
	to := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	return window{monthOf(now), to.AddDate(0, 0, 1-n), to}
}

func wholeMonth(now time.Time, month string) (window, error) {
	if month == "" {
		month = monthOf(now)
	}
	from, err := time.Parse(monthForm, month)
	if err != nil || from.Year() < 1 {
		return window{}, fault.BadFields(fault.Field{Field: "period", Message: "must be a month, YYYY-MM"})
	}
	return window{month, from, from.AddDate(0, 1, -1)}, nil
}

// month implements [Service.UsageOf].
func (s reports) month(ctx context.Context, tenant, month string) (Summary, error) {
	w, err := wholeMonth(s.clock.Now(), month)
	if err != nil {
		return Summary{}, err
	}
	return s.summary(ctx, tenant, w, "", nil)
}

// Breakdowns of a summary.
const (
	byModel  = "model"
	bySource = "source"
	byKey    = "key"
)

func (s reports) summary(ctx context.Context, tenant string, w window, agent string, parts []string) (Summary, error) {
	plan, err := s.tenants.planOf(ctx, tenant)
	if err != nil {
		return Summary{}, err
	}
	rows, err := s.store.ListRows(ctx, tenant, Query{From: dayOf(w.from), To: dayOf(w.to), AgentID: agent})
	if err != nil {
		return Summary{}, err
	}
	out := Summary{Plan: plan.ID, Period: w.month, PeriodDays: w.days()}
	if out.StorageBytes, err = s.store.GetStoredBytes(ctx, tenant); err != nil {
		return out, err
	}
	var total quota.Use
	models, sources, keys := map[string]quota.Use{}, map[string]quota.Use{}, map[string]quota.Use{}
	for _, r := range rows {
		total = Sum(total, r.Use)
		sources[r.Source] = Sum(sources[r.Source], r.Use)
		keys[r.KeyID] = Sum(keys[r.KeyID], r.Use)
		if r.Model != "" {
			models[r.Model] = Sum(models[r.Model], r.Use)
		}
	}
	out.Amounts = amountsOf(total)
	out.ProviderCost = out.TotalCost
	for _, source := range quota.OtherSources {
		out.NonRunCost += usd(sources[source].CostNano)
	}
	if slices.Contains(parts, byModel) {
		out.ByModel = modelParts(models)
	}
	if slices.Contains(parts, bySource) {
		out.BySource = []SourcePart{}
		for name, u := range sources {
			out.BySource = append(out.BySource, SourcePart{Source: name, Amounts: amountsOf(u)})
		}
		slices.SortFunc(out.BySource, func(a, b SourcePart) int {
			return cmp.Or(cmp.Compare(b.RunsCount, a.RunsCount), strings.Compare(a.Source, b.Source))
		})
	}
	if slices.Contains(parts, byKey) {
		out.ByKey = []KeyPart{}
		for id, u := range keys {
			out.ByKey = append(out.ByKey, KeyPart{KeyID: id, Amounts: amountsOf(u)})
		}
		slices.SortFunc(out.ByKey, func(a, b KeyPart) int {
			return cmp.Or(cmp.Compare(b.TotalTokens, a.TotalTokens), strings.Compare(a.KeyID, b.KeyID))
		})
	}
	return out, nil
}

// Point is a day of a series.
type Point struct {
	_ struct{} `json:"-" name:"UsagePoint"`

	Label string  `json:"label" required:"true" doc:"Month and day, 9/10."`
	Date  string  `json:"date" format:"date" required:"true" doc:"The day, UTC."`
	Value float64 `json:"value" required:"true"`
}

// Series is the usage of each day, oldest first, up to today.
type Series struct {
	_ struct{} `json:"-" name:"UsageTimeseries"`

	Plan string  `json:"plan" required:"true"`
	Data []Point `json:"data" required:"true"`
}

// metrics are the metrics of a series.
var metrics = map[string]func(quota.Use) float64{
	"runs":   func(u quota.Use) float64 { return float64(u.Runs) },
	"tokens": func(u quota.Use) float64 { return float64(u.InputTokens + u.OutputTokens) },
	"cost":   func(u quota.Use) float64 { return usd(u.CostNano) },
}

func (s reports) series(ctx context.Context, tenant string, w window, agent string, value func(quota.Use) float64) (Series, error) {
	plan, err := s.tenants.planOf(ctx, tenant)
	if err != nil {
		return Series{}, err
	}
	rows, err := s.store.ListRows(ctx, tenant, Query{From: dayOf(w.from), To: dayOf(w.to), AgentID: agent, ByDay: true})
	if err != nil {
		return Series{}, err
	}
	used := map[string]quota.Use{}
	for _, r := range rows {
		used[r.Day] = Sum(used[r.Day], r.Use)
	}
	out := Series{Plan: plan.ID, Data: make([]Point, 0, w.days())}
	for day := w.from; !day.After(w.to); day = day.AddDate(0, 0, 1) {
		out.Data = append(out.Data, Point{Label: day.Format("1/2"), Date: dayOf(day), Value: value(used[dayOf(day)])})
	}
	return out, nil
}

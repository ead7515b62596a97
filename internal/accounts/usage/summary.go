package usage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/quota"
)

// Summary is what a tenant used in a period.
type Summary struct {
	_ struct{} `json:"-" name:"UsageSummary"`

	Plan       string `json:"plan" required:"true"`
	Period     string `json:"period" required:"true" doc:"A month, YYYY-MM, UTC; with days, the one that is now."`
	PeriodDays int    `json:"period_days" required:"true" doc:"How many days it has."`
	Amounts
	StorageBytes int64        `json:"storage_bytes" required:"true" doc:"What files, workspaces and artifacts take now. Equal contents are stored once."`
	ProviderCost float64      `json:"provider_cost" required:"true" doc:"The same as total_cost: nothing is put on top."`
	NonRunCost   float64      `json:"non_run_cost" required:"true" doc:"What of total_cost models did beside runs: the model proxy, embeddings, judging for guardrails, finding out what to remember."`
	ByModel      []ModelPart  `json:"by_model,omitzero"`
	BySource     []SourcePart `json:"by_source,omitzero"`
	ByKey        []KeyPart    `json:"by_key,omitzero"`
}

// Amounts are sums over what runs did. Tokens of thinking are part of those of
// output. Costs are in US dollars, of models with a price.
type Amounts struct {
	InputTokens    int64   `json:"input_tokens" required:"true"`
	OutputTokens   int64   `json:"output_tokens" required:"true"`
	ThinkingTokens int64   `json:"thinking_tokens" required:"true" doc:"Part of output_tokens."`
	TotalTokens    int64   `json:"total_tokens" required:"true" doc:"Of input and output."`
	RunsCount      int64   `json:"runs_count" required:"true"`
	ModelCalls     int64   `json:"llm_calls_count" required:"true"`
	ToolCalls      int64   `json:"tool_calls_count" required:"true"`
	TotalCost      float64 `json:"total_cost" required:"true" doc:"US dollars, by the catalogue's prices; models without a price cost nothing here."`
}

func amountsOf(u quota.Use) Amounts {
	return Amounts{
		u.InputTokens, u.OutputTokens, u.ThinkingTokens, u.InputTokens + u.OutputTokens, u.Runs, u.ModelCalls, u.ToolCalls, usd(u.CostNano),
	}
}

// ModelPart is what was used of one model. Runs and tool calls are no model's.
type ModelPart struct {
	_ struct{} `json:"-" name:"UsageOfModel"`

	Model          string  `json:"model" required:"true" doc:"PROVIDER/NAME; custom is an endpoint that an agent names."`
	InputTokens    int64   `json:"input_tokens" required:"true"`
	OutputTokens   int64   `json:"output_tokens" required:"true"`
	ThinkingTokens int64   `json:"thinking_tokens" required:"true"`
	TotalTokens    int64   `json:"total_tokens" required:"true"`
	ModelCalls     int64   `json:"llm_calls_count" required:"true"`
	TotalCost      float64 `json:"total_cost" required:"true"`
}

// SourcePart is what was used by runs that came the same way.
type SourcePart struct {
	_ struct{} `json:"-" name:"UsageOfSource"`

	Source string `json:"source" required:"true" doc:"How the runs came: api, session, schedule, chat_completions, responses, mcp, delegation and others; or what was no run: llm_proxy, messages, embeddings, guardrail, memory."`
	Amounts
}

// KeyPart is what was used with one key.
type KeyPart struct {
	_ struct{} `json:"-" name:"UsageOfKey"`

	KeyID string `json:"key_id" required:"true" doc:"Empty: whatever no key asked for, such as schedules and people in a browser."`
	Amounts
}

// window is the days that a question is about, both included.
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
		return window{}, fault.BadFields(fault.Field{Field: "period", Message: "it is no month, YYYY-MM"})
	}
	return window{month, from, from.AddDate(0, 1, -1)}, nil
}

// UsageOf is what a tenant used in a month, YYYY-MM; "": the one that is now.
// Errors: fault.Invalid for what is no month.
func (s *Service) UsageOf(ctx context.Context, tenant, month string) (Summary, error) {
	w, err := wholeMonth(s.Clock.Now(), month)
	if err != nil {
		return Summary{}, err
	}
	return s.summary(ctx, tenant, w, "", nil)
}

// What a summary can be broken down by.
const (
	byModel  = "model"
	bySource = "source"
	byKey    = "key"
)

func (s *Service) summary(ctx context.Context, tenant string, w window, agent string, parts []string) (Summary, error) {
	plan, err := s.PlanOf(ctx, tenant)
	if err != nil {
		return Summary{}, err
	}
	rows, err := s.Store.ListRows(ctx, tenant, Query{From: dayOf(w.from), To: dayOf(w.to), AgentID: agent})
	if err != nil {
		return Summary{}, err
	}
	out := Summary{Plan: plan.ID, Period: w.month, PeriodDays: w.days()}
	if out.StorageBytes, err = s.Store.GetStoredBytes(ctx, tenant); err != nil {
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

// Series is what was used day by day, oldest first, up to today.
type Series struct {
	_ struct{} `json:"-" name:"UsageTimeseries"`

	Plan string  `json:"plan" required:"true"`
	Data []Point `json:"data" required:"true"`
}

// metrics are what a series can be of.
var metrics = map[string]func(quota.Use) float64{
	"runs":   func(u quota.Use) float64 { return float64(u.Runs) },
	"tokens": func(u quota.Use) float64 { return float64(u.InputTokens + u.OutputTokens) },
	"cost":   func(u quota.Use) float64 { return usd(u.CostNano) },
}

func (s *Service) series(ctx context.Context, tenant string, w window, agent string, value func(quota.Use) float64) (Series, error) {
	plan, err := s.PlanOf(ctx, tenant)
	if err != nil {
		return Series{}, err
	}
	rows, err := s.Store.ListRows(ctx, tenant, Query{From: dayOf(w.from), To: dayOf(w.to), AgentID: agent, ByDay: true})
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

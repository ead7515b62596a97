package reconciliation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/quota"
)

// period is a day or a month, UTC.
type period struct {
	name     string
	from, to time.Time // to is excluded
}

const dayForm, monthForm = "2006-01-02", "2006-01"

func dayOf(at time.Time) string { return at.UTC().Format(dayForm) }

// yesterday is the last day that is over.
func yesterday(now time.Time) period {
	p, _ := periodOf("", now)
	return p
}

// periodOf parses a day or a month; "" is the last day that is over. Errors:
// fault.Invalid, which names the field period.
func periodOf(text string, now time.Time) (period, error) {
	if text == "" {
		text = dayOf(now.UTC().AddDate(0, 0, -1))
	}
	if from, err := time.Parse(dayForm, text); err == nil && from.Year() > 0 && !from.After(now) {
		return period{text, from, from.AddDate(0, 0, 1)}, nil
	}
	if from, err := time.Parse(monthForm, text); err == nil && from.Year() > 0 && !from.After(now) {
		return period{text, from, from.AddDate(0, 1, 0)}, nil
	}
	return period{}, fault.BadFields(fault.Field{
		Field: "period", Message: "must be a day or a month that has begun, such as 2026-09-10 or 2026-09",
	})
}

// Result is the comparison of a company's counters with its runs.
type Result struct {
	_ struct{} `json:"-" name:"Reconciliation"`

	Period     string     `json:"period" required:"true" doc:"The day or the month, UTC."`
	CheckedAt  time.Time  `json:"checked_at" required:"true"`
	Complete   bool       `json:"complete" required:"true" doc:"Whether all runs of the period were read. Of more than 200000 the oldest are, and then nothing is said to differ."`
	RunsRead   int64      `json:"runs_read" required:"true"`
	Unpriced   int64      `json:"runs_without_price" required:"true" doc:"Runs that called a model whose price is not known. Their cost is null, while the counters have what is known of it; so a cost that is counted beyond that of the runs is then not said to differ."`
	Over       int64      `json:"runs_beyond_period" required:"true" doc:"Runs that went on after the period, or still do: what they used after it is counted after it."`
	Threshold  float64    `json:"threshold_percent" required:"true"`
	Exceeded   bool       `json:"drift_exceeded" required:"true" doc:"Whether a metric differs by more than the threshold."`
	Metrics    []Drift    `json:"metrics" required:"true" doc:"All sources together."`
	Sources    []OfSource `json:"by_source" required:"true" doc:"By what started the runs."`
	unpricedOf map[string]int64
}

// OfSource is the comparison of what one source of runs used.
type OfSource struct {
	_ struct{} `json:"-" name:"ReconciliationSource"`

	Source  string  `json:"source" required:"true" doc:"As in GET /usage?breakdown=source."`
	Metrics []Drift `json:"metrics" required:"true"`
}

// Drift is the comparison of a metric.
type Drift struct {
	_ struct{} `json:"-" name:"ReconciliationDrift"`

	Metric   string  `json:"metric" enum:"runs,model_calls,input_tokens,output_tokens,tool_calls,cost_usd" required:"true"`
	Counted  float64 `json:"counted" required:"true" doc:"By the counters, which limits, budgets and invoices look at."`
	OfRuns   float64 `json:"of_runs" required:"true" doc:"The sum over the runs that were created in the period."`
	Drift    float64 `json:"drift" required:"true" doc:"counted less of_runs. Runs that were deleted since are counted only."`
	Percent  float64 `json:"drift_percent" required:"true" doc:"Of the larger value."`
	Exceeded bool    `json:"exceeded" required:"true" doc:"Whether that is more than the threshold."`
}

// Turn is the comparison of all companies.
type Turn struct {
	_ struct{} `json:"-" name:"ReconciliationTurn"`

	Period     string     `json:"period" required:"true" doc:"The day or the month, UTC."`
	StartedAt  time.Time  `json:"started_at" required:"true"`
	EndedAt    time.Time  `json:"ended_at" required:"true"`
	Complete   bool       `json:"complete" required:"true" doc:"Whether all companies were compared. A request that asks for it waits for 20 seconds at most."`
	Companies  int64      `json:"companies_checked" required:"true"`
	Incomplete int64      `json:"companies_incomplete" required:"true" doc:"Companies with too many runs to read all of them."`
	Drifts     int64      `json:"companies_drifting" required:"true" doc:"Companies of which a metric differs by more than the threshold."`
	Worst      []Drifting `json:"drifting" required:"true" doc:"Those companies, up to 100. GET /admin/reconciliation/{tenantId} has more of each."`
}

// Drifting is a company whose counters and runs differ.
type Drifting struct {
	_ struct{} `json:"-" name:"ReconciliationCompany"`

	TenantID string `json:"tenant_id" required:"true"`
	Worst    Drift  `json:"worst" required:"true" doc:"The metric that differs the most, in percent."`
}

func (t *Turn) add(tenant string, r *Result) {
	t.Companies++
	if !r.Complete {
		t.Incomplete++
	}
	if !r.Exceeded {
		return
	}
	if t.Drifts++; len(t.Worst) < maxShown {
		t.Worst = append(t.Worst, Drifting{TenantID: tenant, Worst: r.worst()})
	}
}

// worst returns the metric that differs the most of those that differ too much: of all
// sources together, or of one.
func (r *Result) worst() Drift {
	all := slices.Clone(r.Metrics)
	for i := range r.Sources {
		all = append(all, r.Sources[i].Metrics...)
	}
	return slices.MaxFunc(all, func(a, b Drift) int {
		return cmp.Or(cmp.Compare(share(a), share(b)), cmp.Compare(a.Percent, b.Percent))
	})
}

func share(d Drift) float64 {
	if !d.Exceeded {
		return 0
	}
	return d.Percent
}

// add adds what a run says to the sums of sources.
func (r *Result) add(told map[string]quota.Use, one *Run, p period) {
	u := told[one.Source]
	u.Runs++
	u.ModelCalls += one.Use.ModelCalls
	u.InputTokens += one.Use.InputTokens
	u.OutputTokens += one.Use.OutputTokens
	u.ToolCalls += one.Use.ToolCalls
	u.CostNano += one.Use.CostNano
	told[one.Source] = u
	r.RunsRead++
	if one.Unpriced {
		if r.unpricedOf == nil {
			r.unpricedOf = map[string]int64{}
		}
		r.Unpriced++
		r.unpricedOf[one.Source]++
	}
	if one.CompletedAt.IsZero() || !one.CompletedAt.Before(p.to) {
		r.Over++
	}
}

// finish compares the sums.
func (r *Result) finish(counted, told map[string]quota.Use) {
	var allCounted, allTold quota.Use
	names := maps.Clone(told)
	maps.Copy(names, counted)
	r.Sources = []OfSource{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c, u := counted[name], told[name]
		r.Sources = append(r.Sources, OfSource{Source: name, Metrics: r.compared(c, u, r.unpricedOf[name])})
		allCounted, allTold = plus(allCounted, c), plus(allTold, u)
	}
	r.Metrics = r.compared(allCounted, allTold, r.Unpriced)
}

func plus(a, b quota.Use) quota.Use {
	a.Runs += b.Runs
	a.ModelCalls += b.ModelCalls
	a.InputTokens += b.InputTokens
	a.OutputTokens += b.OutputTokens
	a.ToolCalls += b.ToolCalls
	a.CostNano += b.CostNano
	return a
}

func (r *Result) compared(counted, told quota.Use, unpriced int64) []Drift {
	values := func(u quota.Use) []float64 {
		return []float64{
			float64(u.Runs), float64(u.ModelCalls), float64(u.InputTokens), float64(u.OutputTokens), float64(u.ToolCalls),
			float64(u.CostNano) / 1e9,
		}
	}
	c, t := values(counted), values(told)
	all := make([]Drift, len(c))
	for i, name := range []string{"runs", "model_calls", "input_tokens", "output_tokens", "tool_calls", "cost_usd"} {
		d := Drift{Metric: name, Counted: c[i], OfRuns: t[i], Drift: c[i] - t[i]}
		if larger := max(c[i], t[i]); larger > 0 {
			d.Percent = math.Abs(d.Drift) / larger * 100
		}
		d.Exceeded = r.Complete && d.Percent > r.Threshold && (name != "cost_usd" || unpriced == 0 || d.Drift < 0)
		r.Exceeded = r.Exceeded || d.Exceeded
		all[i] = d
	}
	return all
}

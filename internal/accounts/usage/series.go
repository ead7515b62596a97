package usage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/kernel/quota"
)

const maxSeriesDays = 366

// counted are the metrics that are sums of uses.
var counted = map[string]func(*quota.Use) float64{
	"runs":          func(u *quota.Use) float64 { return float64(u.Runs) },
	"completed":     func(u *quota.Use) float64 { return float64(u.Completed) },
	"failures":      func(u *quota.Use) float64 { return float64(u.Failures) },
	"cancelled":     func(u *quota.Use) float64 { return float64(u.Cancelled) },
	"tokens":        func(u *quota.Use) float64 { return float64(u.InputTokens + u.OutputTokens) },
	"input_tokens":  func(u *quota.Use) float64 { return float64(u.InputTokens) },
	"output_tokens": func(u *quota.Use) float64 { return float64(u.OutputTokens) },
	"cached_tokens": func(u *quota.Use) float64 { return float64(u.CachedTokens) },
	"cost":          func(u *quota.Use) float64 { return usd(u.CostNano) },
	"model_calls":   func(u *quota.Use) float64 { return float64(u.ModelCalls) },
	"tool_calls":    func(u *quota.Use) float64 { return float64(u.ToolCalls) },
	"tool_errors":   func(u *quota.Use) float64 { return float64(u.ToolErrors) },
}

// shares are the metrics that are percentiles of durations.
var shares = map[string]float64{"p50": 0.50, "p95": 0.95, "p99": 0.99}

type analyticsSeriesIn struct {
	Metrics string `query:"metrics" default:"runs,failures" doc:"Comma-separated: runs, completed, failures, cancelled, tokens, input_tokens, output_tokens, cached_tokens, cost (US dollars), model_calls, tool_calls, tool_errors, and p50, p95, p99 (milliseconds at work of the runs that ended)."`
	GroupBy string `query:"group_by" enum:"agent,model,source" doc:"A series for each. Percentiles are known by agent only."`
	Days    int    `query:"days" minimum:"1" maximum:"366" default:"30" doc:"Number of days, including today; without from."`
	From    string `query:"from" doc:"First day, YYYY-MM-DD, UTC. Default: with to, its day."`
	To      string `query:"to" doc:"Last day. Default: today."`
	AgentID string `query:"agent_id" doc:"Only this agent's."`
	Top     int    `query:"top" minimum:"1" maximum:"50" default:"10" doc:"With group_by: how many series, those with the most of the first metric; for percentiles, with the most runs."`
}

// AnalyticsSeries answers GET /analytics/timeseries.
type AnalyticsSeries struct {
	_ struct{} `json:"-" name:"AnalyticsTimeseries"`

	Range   analyticsRange `json:"range" required:"true"`
	Bucket  string         `json:"bucket" enum:"day" required:"true"`
	Metrics []string       `json:"metrics" required:"true"`
	GroupBy string         `json:"group_by,omitzero"`
	Dates   []string       `json:"dates" required:"true" doc:"The days, oldest first. Values stand in their order."`
	Series  []seriesOf     `json:"series" required:"true"`
	Groups  int            `json:"groups_total" required:"true" doc:"How many series there are without top."`
}

type seriesOf struct {
	_ struct{} `json:"-" name:"AnalyticsSeries"`

	Key    string                `json:"key" required:"true" doc:"The agent's id, the model or the source; empty: all."`
	Name   string                `json:"name,omitzero" doc:"The agent's name, unless it was deleted."`
	Values map[string][]*float64 `json:"values" required:"true" doc:"By metric, a value for each day. Null: no run ended on that day, so that it has no percentile."`
	Totals map[string]*float64   `json:"totals" required:"true" doc:"By metric, of the whole time."`
}

// metricsOf parses a list of metrics. percentiles reports whether one of them is a
// percentile.
func metricsOf(text string) (names []string, percentiles bool, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name := strings.TrimSpace(part)
		_, share := shares[name]
		if name == "" || slices.Contains(names, name) {
			continue
		}
		if counted[name] == nil && !share {
			known := append(slices.Sorted(maps.Keys(counted)), slices.Sorted(maps.Keys(shares))...)
			message := fmt.Sprintf("has an unknown metric; known are %s", strings.Join(known, ", "))
			return nil, false, fault.BadFields(fault.Field{Field: "metrics", Message: message})
		}
		names, percentiles = append(names, name), percentiles || share
	}
	if names == nil {
		return nil, false, fault.BadFields(fault.Field{Field: "metrics", Message: "must name at least one metric"})
	}
	return names, percentiles, nil
}

func (s *Analytics) timeseries(ctx context.Context, who authz.Caller, in *analyticsSeriesIn) (out AnalyticsSeries, err error) {
	names, percentiles, err := metricsOf(in.Metrics)
	if err != nil {
		return out, err
	}
	by := Part(in.GroupBy)
	if percentiles && by != PartNone && by != PartAgent {
		return out, fault.BadFields(fault.Field{Field: "group_by", Message: "must be agent or absent with p50, p95 or p99"})
	}
	w := lastDays(s.d.Clock.Now(), in.Days)
	if in.From != "" || in.To != "" {
		if w, err = between(cmp.Or(in.From, in.To), in.To, s.d.Clock.Now()); err != nil {
			return out, err
		}
	}
	out = AnalyticsSeries{Range: rangeOf(w), Bucket: "day", Metrics: names, GroupBy: in.GroupBy, Dates: []string{}, Series: []seriesOf{}}
	place := map[string]int{}
	for day := w.from; !day.After(w.to); day = day.AddDate(0, 0, 1) {
		place[dayOf(day)] = len(out.Dates)
		out.Dates = append(out.Dates, dayOf(day))
	}
	q := PartQuery{From: dayOf(w.from), To: dayOf(w.to), AgentID: agentOf(in.AgentID), By: by}
	totals, err := s.d.Store.ListParts(ctx, who.TenantID, q)
	if err != nil {
		return out, err
	}
	if len(totals) == 0 {
		if by != PartNone {
			return out, nil
		}
		totals = []PartRow{{}}
	}
	out.Groups = len(totals)
	totals = largest(totals, names[0], in.Top)
	all := map[string]*seriesOf{}
	for i := range totals {
		key := totals[i].Key
		one := newSeries(key, names, len(out.Dates))
		one.setSums(names, total, &totals[i].Use)
		if by != PartNone {
			q.Keys = append(q.Keys, key)
		}
		if by == PartAgent {
			a, err := s.d.Agent(ctx, who.TenantID, key)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return out, err
			}
			one.Name = a.Name
		}
		out.Series = append(out.Series, one)
	}
	for i := range out.Series {
		all[out.Series[i].Key] = &out.Series[i]
	}
	return out, s.fill(ctx, who.TenantID, q, names, percentiles, place, all)
}

// fill sets the values of the days, and the percentiles.
func (s *Analytics) fill(
	ctx context.Context, tenant string, q PartQuery, names []string, percentiles bool, place map[string]int, all map[string]*seriesOf,
) error {
	q.ByDay = true
	rows, err := s.d.Store.ListParts(ctx, tenant, q)
	if err != nil {
		return err
	}
	for i := range rows {
		if one, day := all[rows[i].Key], place[rows[i].Day]; one != nil {
			one.setSums(names, day, &rows[i].Use)
		}
	}
	if !percentiles {
		return nil
	}
	durations, err := s.d.Store.ListDurations(ctx, tenant, q)
	if err != nil {
		return err
	}
	type cell struct {
		key string
		day int // or total
	}
	counts := map[cell]Histogram{}
	for _, d := range durations {
		for _, at := range []cell{{d.Key, place[d.Day]}, {d.Key, total}} {
			if counts[at] == nil {
				counts[at] = Histogram{}
			}
			counts[at][d.Bucket] += d.Runs
		}
	}
	for at, h := range counts {
		if one := all[at.key]; one != nil {
			one.setPercentiles(names, at.day, h)
		}
	}
	return nil
}

// newSeries returns a series in which the sums of all days are 0 and percentiles unknown.
func newSeries(key string, names []string, days int) seriesOf {
	one := seriesOf{Key: key, Values: map[string][]*float64{}, Totals: map[string]*float64{}}
	for _, name := range names {
		one.Values[name], one.Totals[name] = make([]*float64, days), nil
		if counted[name] == nil {
			continue
		}
		for day := range days {
			one.Values[name][day] = new(float64)
		}
	}
	return one
}

// total is the place of the whole time, where others are those of days.
const total = -1

// set sets a metric of a day, or of the whole time.
func (one *seriesOf) set(name string, day int, value *float64) {
	if day == total {
		one.Totals[name] = value
		return
	}
	one.Values[name][day] = value
}

// setSums sets the metrics that are sums.
func (one *seriesOf) setSums(names []string, day int, u *quota.Use) {
	for _, name := range names {
		if value := counted[name]; value != nil {
			n := value(u)
			one.set(name, day, &n)
		}
	}
}

// setPercentiles sets the metrics that are percentiles.
func (one *seriesOf) setPercentiles(names []string, day int, h Histogram) {
	for _, name := range names {
		if share, ok := shares[name]; ok {
			one.set(name, day, h.Percentile(share))
		}
	}
}

// largest returns the rows with the most of a metric, the most first.
func largest(rows []PartRow, metric string, top int) []PartRow {
	value := counted[metric]
	if value == nil {
		value = counted["runs"]
	}
	slices.SortFunc(rows, func(a, b PartRow) int {
		return cmp.Or(cmp.Compare(value(&b.Use), value(&a.Use)), strings.Compare(a.Key, b.Key))
	})
	return rows[:min(len(rows), top)]
}

// Routes lists the operations on analytics.
func (s *Analytics) Routes() []route.Route {
	row := func(path, id, tag, summary, doc string, scope authz.Scope, errors ...int) route.Row {
		return route.Row{
			Method: "GET", Path: "/api/v1" + path, ID: id, Tag: tag, Summary: summary, Doc: doc,
			Scopes: []authz.Scope{scope}, Role: authz.Viewer, Errors: errors,
		}
	}
	operator := func(r route.Row) route.Row {
		r.Role, r.Operator = authz.Admin, true
		return r
	}
	const ofDays = "Read from sums of days (UTC), which are at most a few seconds old."
	return []route.Route{
		route.Action(row("/analytics/agents", "getAgentAnalytics", "Analytics", "Get what agents did and used",
			ofDays, "read:analytics"), s.agents),
		route.Action(row("/analytics/timeseries", "getAnalyticsTimeseries", "Analytics", "Get metrics by day",
			ofDays+" Days without use are 0.", "read:analytics", 422), s.timeseries),
		route.Action(row("/agents/{agentId}/activity-stats", "getAgentActivityStats", "Agents",
			"Count an agent's runs by how they ended", ofDays, "agents:read", 404), s.activity),
		route.Action(operator(row("/admin/analytics/agents", "getPlatformAgentAnalytics", "Admin",
			"Get what agents of all companies did and used", ofDays, authz.SuperScope)), s.platformAgents),
		route.Action(operator(row("/admin/stats", "getPlatformStats", "Admin",
			"Count companies, agents and runs", "", authz.SuperScope)), s.stats),
	}
}

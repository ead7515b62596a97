package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/quota"
)

// Part is what uses are grouped by.
type Part string

// The parts. Under PartNone there is one key, "".
const (
	PartNone   Part = ""
	PartAgent  Part = "agent"
	PartModel  Part = "model"
	PartSource Part = "source"
)

// PartQuery selects what agents used. From and To are days, both included.
type PartQuery struct {
	From, To string
	AgentID  string   // empty: all agents
	By       Part     // PartNone: one row
	Keys     []string // of By; empty: all
	ByDay    bool     // a row for each day
}

// PartRow is the use of one part, in the whole time or on one day.
type PartRow struct {
	Day string // 2026-09-10; empty unless asked for
	Key string // of the part
	quota.Use
}

// DurationRow counts the runs of a part that ended, by how long they took.
type DurationRow struct {
	Day, Key string
	Bucket   int
	Runs     int64
}

// PlatformRow is the use of an agent of any tenant.
type PlatformRow struct {
	TenantID string
	AgentID  string
	quota.Use
}

// PlatformTotals are sums over all tenants.
type PlatformTotals struct {
	Tenants int64 // that are not deleted
	Agents  int64
	Runs    int64 // ever
}

// AgentInfo is what analytics show of an agent.
type AgentInfo struct {
	ID, Name, Mode, Status string
}

// onMachine is the mode of agents whose runs a machine carries.
const onMachine = "bridge"

// MachineInfo is how a machine is: online, stale or offline.
type MachineInfo struct{ AgentID, Status string }

// AnalyticsDeps are the dependencies of Analytics.
type AnalyticsDeps struct {
	Store Store
	Clock clock.Clock
	// EachAgent visits every agent of a tenant.
	EachAgent func(ctx context.Context, tenant string, visit func(AgentInfo)) error
	// Agent reads one. Errors: fault.NotFound.
	Agent func(ctx context.Context, tenant, id string) (AgentInfo, error)
	// Machines returns the machines of a tenant; nil: there are none.
	Machines func(ctx context.Context, tenant string) ([]MachineInfo, error)
}

// Analytics shows what agents did and used. It reads sums of days, so that what it
// costs depends on the agents and the days and not on the number of runs.
type Analytics struct{ d AnalyticsDeps }

// NewAnalytics returns analytics.
func NewAnalytics(d AnalyticsDeps) *Analytics { return &Analytics{d} }

const (
	maxTop = 10 // agents of a ranking
	// maxPlatformAgents bounds the agents of the platform's analytics.
	maxPlatformAgents = 500
)

// AgentAnalytics answers GET /analytics/agents.
type AgentAnalytics struct {
	_ struct{} `json:"-" name:"AgentAnalyticsSummary"`

	Range     analyticsRange `json:"range" required:"true"`
	Total     int64          `json:"total" required:"true" doc:"Number of agents."`
	Modes     modeCounts     `json:"by_execution_mode" required:"true"`
	Bridge    bridgeCounts   `json:"bridge" required:"true" doc:"Machines that are connected, by the age of their last sign of life. Of the platform: always 0."`
	Runs      int64          `json:"runs_total" required:"true" doc:"Runs that began, also those of agents that were deleted."`
	Cost      float64        `json:"cost_total_usd" required:"true" doc:"As runs_total; models without a price count as 0."`
	Tokens    int64          `json:"tokens_total" required:"true" doc:"As runs_total."`
	TopByRuns []agentFigures `json:"top_by_runs" required:"true" doc:"At most 10."`
	TopByCost []agentFigures `json:"top_by_cost" required:"true" doc:"At most 10."`
	Agents    []agentFigures `json:"agents" required:"true" doc:"Every agent of the company; of the platform the 500 with the most runs. The agent with the most runs comes first."`
	Deleted   deletedFigures `json:"deleted_agents" required:"true" doc:"Of the platform's agents: of those that are listed."`
}

type analyticsRange struct {
	_ struct{} `json:"-" name:"AnalyticsRange"`

	From string `json:"from" format:"date" required:"true" doc:"The first day, UTC."`
	To   string `json:"to" format:"date" required:"true" doc:"The last day, UTC."`
	Days int    `json:"days" required:"true"`
}

type modeCounts struct {
	_ struct{} `json:"-" name:"AgentsByExecutionMode"`

	Cloud  int64 `json:"cloud" required:"true" doc:"Agents whose runs agentd itself carries."`
	Bridge int64 `json:"bridge" required:"true" doc:"Agents whose runs a connected machine carries."`
}

type bridgeCounts struct {
	_ struct{} `json:"-" name:"BridgeCounts"`

	Online   int64 `json:"online" required:"true"`
	Stale    int64 `json:"stale" required:"true"`
	Offline  int64 `json:"offline" required:"true"`
	Machines int64 `json:"machines_total" required:"true"`
}

type deletedFigures struct {
	_ struct{} `json:"-" name:"DeletedAgentFigures"`

	Count  int64   `json:"count" required:"true" doc:"Agents that were used in the time and no longer exist."`
	Runs   int64   `json:"runs" required:"true"`
	Cost   float64 `json:"cost_usd" required:"true"`
	Tokens int64   `json:"tokens" required:"true"`
}

type agentFigures struct {
	_ struct{} `json:"-" name:"AgentSummary"`

	AgentID   string   `json:"agent_id" required:"true"`
	TenantID  string   `json:"tenant_id" required:"true"`
	Name      string   `json:"name" required:"true"`
	Mode      string   `json:"execution_mode" required:"true"`
	Status    string   `json:"status" required:"true"`
	Bridge    string   `json:"bridge_status,omitzero" enum:"online,stale,offline" doc:"How the machine is that carries its runs. Absent: none does."`
	Machines  int64    `json:"machine_count" required:"true" doc:"Machines that carry its runs."`
	Runs      int64    `json:"runs" required:"true" doc:"Runs that began."`
	Completed int64    `json:"completed" required:"true" doc:"Runs that completed."`
	Failures  int64    `json:"failures" required:"true" doc:"Runs that failed, timed out, were blocked or rejected."`
	Cancelled int64    `json:"cancelled" required:"true"`
	AverageMS *float64 `json:"average_ms" required:"true" doc:"How long a run that ended was at work, without its waits for people, in milliseconds. Null: none ended."`
	ToolCalls int64    `json:"tool_calls" required:"true"`
	Errors    int64    `json:"tool_errors" required:"true" doc:"Part of tool_calls."`
	Cost      float64  `json:"cost_usd" required:"true"`
	Tokens    int64    `json:"tokens" required:"true" doc:"Input and output tokens."`
}

func figuresOf(tenant string, a AgentInfo, u quota.Use) agentFigures {
	return agentFigures{
		AgentID: a.ID, TenantID: tenant, Name: a.Name, Mode: a.Mode, Status: a.Status,
		Runs: u.Runs, Completed: u.Completed, Failures: u.Failures, Cancelled: u.Cancelled, AverageMS: averageMS(u),
		ToolCalls: u.ToolCalls, Errors: u.ToolErrors, Cost: usd(u.CostNano), Tokens: u.InputTokens + u.OutputTokens,
	}
}

// averageMS returns how long a run was at work; nil if none ended.
func averageMS(u quota.Use) *float64 {
	n := u.Ended()
	if n == 0 {
		return nil
	}
	ms := float64(u.DurationMS) / float64(n)
	return &ms
}

type analyticsIn struct {
	Days int `query:"days" minimum:"1" maximum:"90" default:"30" doc:"Number of days, including today."`
}

func rangeOf(w window) analyticsRange {
	return analyticsRange{From: dayOf(w.from), To: dayOf(w.to), Days: w.days()}
}

func (s *Analytics) agents(ctx context.Context, who authz.Caller, in *analyticsIn) (AgentAnalytics, error) {
	w := lastDays(s.d.Clock.Now(), in.Days)
	rows, err := s.d.Store.ListParts(ctx, who.TenantID, PartQuery{From: dayOf(w.from), To: dayOf(w.to), By: PartAgent})
	if err != nil {
		return AgentAnalytics{}, err
	}
	used := make(map[string]quota.Use, len(rows))
	for _, r := range rows {
		used[r.Key] = r.Use
	}
	out := AgentAnalytics{Range: rangeOf(w), Agents: []agentFigures{}}
	err = s.d.EachAgent(ctx, who.TenantID, func(a AgentInfo) {
		out.Agents = append(out.Agents, figuresOf(who.TenantID, a, used[a.ID]))
		out.addTotals(used[a.ID])
		delete(used, a.ID)
	})
	if err != nil {
		return out, err
	}
	for _, u := range used {
		out.addDeleted(u)
	}
	out.Total = int64(len(out.Agents))
	if err := s.addMachines(ctx, who.TenantID, &out); err != nil {
		return out, err
	}
	out.rank()
	return out, nil
}

// addMachines counts the agents by what carries their runs, and the machines.
func (s *Analytics) addMachines(ctx context.Context, tenant string, out *AgentAnalytics) error {
	ofAgent := map[string]int{}
	for i := range out.Agents {
		if a := &out.Agents[i]; a.Mode == onMachine {
			ofAgent[a.AgentID], a.Bridge = i, "offline"
		}
	}
	out.Modes.Bridge, out.Modes.Cloud = int64(len(ofAgent)), out.Total-int64(len(ofAgent))
	if s.d.Machines == nil || len(ofAgent) == 0 {
		return nil
	}
	all, err := s.d.Machines(ctx, tenant)
	for _, m := range all {
		i, listed := ofAgent[m.AgentID]
		if !listed { // it was deleted at this moment
			continue
		}
		a := &out.Agents[i]
		a.Machines++
		out.Bridge.Machines++
		switch m.Status {
		case "online":
			out.Bridge.Online++
			a.Bridge = m.Status
		case "stale":
			out.Bridge.Stale++
			if a.Bridge != "online" {
				a.Bridge = m.Status
			}
		default:
			out.Bridge.Offline++
		}
	}
	return err
}

func (out *AgentAnalytics) addTotals(u quota.Use) {
	out.Runs += u.Runs
	out.Cost += usd(u.CostNano)
	out.Tokens += u.InputTokens + u.OutputTokens
}

func (out *AgentAnalytics) addDeleted(u quota.Use) {
	out.addTotals(u)
	out.Deleted.Count++
	out.Deleted.Runs += u.Runs
	out.Deleted.Cost += usd(u.CostNano)
	out.Deleted.Tokens += u.InputTokens + u.OutputTokens
}

// rank sorts the agents and sets the rankings, which have only agents with runs or
// costs.
func (out *AgentAnalytics) rank() {
	byName := func(a, b agentFigures) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.AgentID, b.AgentID))
	}
	byCost := func(a, b agentFigures) int { return cmp.Or(cmp.Compare(b.Cost, a.Cost), byName(a, b)) }
	top := func(some func(agentFigures) bool) []agentFigures {
		n := 0
		for n < min(maxTop, len(out.Agents)) && some(out.Agents[n]) {
			n++
		}
		return append([]agentFigures{}, out.Agents[:n]...)
	}
	slices.SortFunc(out.Agents, byCost)
	out.TopByCost = top(func(a agentFigures) bool { return a.Cost > 0 })
	slices.SortFunc(out.Agents, func(a, b agentFigures) int { return cmp.Or(cmp.Compare(b.Runs, a.Runs), byName(a, b)) })
	out.TopByRuns = top(func(a agentFigures) bool { return a.Runs > 0 })
}

// platformAgents shows agents of all companies.
func (s *Analytics) platformAgents(ctx context.Context, _ authz.Caller, in *analyticsIn) (AgentAnalytics, error) {
	w := lastDays(s.d.Clock.Now(), in.Days)
	out := AgentAnalytics{Range: rangeOf(w), Agents: []agentFigures{}}
	totals, err := s.d.Store.GetPlatformTotals(ctx)
	if err != nil {
		return out, err
	}
	all, err := s.d.Store.GetPlatformUse(ctx, dayOf(w.from), dayOf(w.to))
	if err != nil {
		return out, err
	}
	rows, err := s.d.Store.ListPlatformUses(ctx, dayOf(w.from), dayOf(w.to), maxPlatformAgents)
	if err != nil {
		return out, err
	}
	for _, r := range rows {
		a, err := s.d.Agent(ctx, r.TenantID, r.AgentID)
		switch {
		case fault.Is(err, fault.NotFound):
			out.addDeleted(r.Use)
		case err != nil:
			return out, err
		default:
			out.Agents = append(out.Agents, figuresOf(r.TenantID, a, r.Use))
		}
	}
	out.Runs, out.Cost, out.Tokens = 0, 0, 0
	out.addTotals(all)
	out.Total, out.Modes.Cloud = totals.Agents, totals.Agents
	out.rank()
	return out, nil
}

// PlatformStats answers GET /admin/stats.
type PlatformStats struct {
	_ struct{} `json:"-" name:"AdminStats"`

	Tenants int64 `json:"total_tenants" required:"true" doc:"Companies that are not deleted."`
	Agents  int64 `json:"total_agents" required:"true"`
	Runs    int64 `json:"total_runs" required:"true" doc:"Runs that ever began, also of deleted agents; not those of deleted companies."`
}

func (s *Analytics) stats(ctx context.Context, _ authz.Caller, _ *struct{}) (PlatformStats, error) {
	t, err := s.d.Store.GetPlatformTotals(ctx)
	return PlatformStats{Tenants: t.Tenants, Agents: t.Agents, Runs: t.Runs}, err
}

// ActivityStats answers GET /agents/{agentId}/activity-stats. Its names are those of the
// reference.
type ActivityStats struct {
	_ struct{} `json:"-" name:"AgentActivityStats"`

	Runs      int64    `json:"totalRuns" required:"true" doc:"Runs that began in the time."`
	Completed int64    `json:"completedRuns" required:"true" doc:"Runs that completed in the time."`
	Failed    int64    `json:"failedRuns" required:"true" doc:"Runs that failed, timed out, were blocked or rejected in the time."`
	Cancelled int64    `json:"cancelledRuns" required:"true"`
	AverageMS *float64 `json:"averageMs" required:"true" doc:"How long a run that ended was at work, in milliseconds. Null: none ended."`
}

type activityIn struct {
	AgentID string `path:"agentId"`
	Days    int    `query:"days" minimum:"1" maximum:"90" default:"30" doc:"Number of days, including today."`
}

func (s *Analytics) activity(ctx context.Context, who authz.Caller, in *activityIn) (out ActivityStats, err error) {
	if _, err := s.d.Agent(ctx, who.TenantID, in.AgentID); err != nil {
		return out, err
	}
	w := lastDays(s.d.Clock.Now(), in.Days)
	rows, err := s.d.Store.ListParts(ctx, who.TenantID, PartQuery{From: dayOf(w.from), To: dayOf(w.to), AgentID: in.AgentID})
	if err != nil || len(rows) == 0 {
		return out, err
	}
	u := rows[0].Use
	return ActivityStats{Runs: u.Runs, Completed: u.Completed, Failed: u.Failures, Cancelled: u.Cancelled, AverageMS: averageMS(u)}, nil
}

// between returns a window of days, both included. Errors: fault.Invalid, which names
// the fields from and to.
func between(from, to string, now time.Time) (w window, err error) {
	w = lastDays(now, 1)
	var invalid []fault.Field
	parse := func(name, text string, at *time.Time) {
		if t, err := time.Parse(dayForm, text); err == nil && t.Year() > 0 {
			*at = t
			return
		}
		invalid = append(invalid, fault.Field{Field: name, Message: "must be a day, YYYY-MM-DD"})
	}
	parse("from", from, &w.from)
	if to != "" {
		parse("to", to, &w.to)
	}
	switch {
	case invalid != nil:
	case w.from.After(w.to):
		invalid = []fault.Field{{Field: "from", Message: "must not be after to"}, {Field: "to", Message: "must not be before from"}}
	case w.days() > maxSeriesDays:
		invalid = []fault.Field{{Field: "from", Message: fmt.Sprintf("is too early: a series has at most %d days", maxSeriesDays)}}
	}
	if invalid != nil {
		return w, fault.BadFields(invalid...)
	}
	return w, nil
}

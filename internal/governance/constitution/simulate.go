package constitution

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/policy"
)

// Bounds of a simulation.
const (
	simulatedRuns  = 10_000
	simulatedTime  = 30 * time.Second
	simulatedDays  = 7
	maxGroups      = 1000 // by rule, by agent, by tool
	maxSampledRuns = 20   // of a group
)

// PastActs reads what runs did; see run.Past.
type PastActs func(
	ctx context.Context, tenant string, from, to time.Time, most int, yield func(policy.Run, policy.Act) bool,
) (runs int, next time.Time, err error)

// SimulationIn is rules that are tried on what runs did.
type SimulationIn struct {
	_ struct{} `json:"-" name:"ConstitutionSimulation"`

	Rules []Rule     `json:"rules" required:"true" doc:"The whole constitution that is tried, at most 2,000 rules; nothing is stored."`
	From  *time.Time `json:"from,omitzero" doc:"Only runs that were created at this date-time or later. Default: 7 days before to."`
	To    *time.Time `json:"to,omitzero" doc:"Only runs that were created before this date-time. Default: now."`
}

// SimulationGroup counts what rules would have made of acts.
type SimulationGroup struct {
	_ struct{} `json:"-" name:"ConstitutionSimulationGroup"`

	RuleID   string   `json:"rule_id,omitzero"`
	AgentID  string   `json:"agent_id,omitzero"`
	Action   string   `json:"action,omitzero" doc:"tool:<name>, delegate, spawn or model:<ref>."`
	Decision string   `json:"decision" required:"true" doc:"log, warn, require_approval, block, revoke_permissions or terminate_agent."`
	Shadow   bool     `json:"shadow,omitzero" doc:"Whether the rule would only have been recorded."`
	Acts     int      `json:"acts" required:"true"`
	Runs     int      `json:"runs" required:"true"`
	RunIDs   []string `json:"run_ids" required:"true" doc:"The first 20 of them."`

	last string // the run that was counted last
}

// SimulationResult is what the rules would have made of the acts of past runs.
type SimulationResult struct {
	_ struct{} `json:"-" name:"ConstitutionSimulationResult"`

	From        time.Time         `json:"from" required:"true"`
	To          time.Time         `json:"to" required:"true"`
	RunsChecked int               `json:"runs_checked" required:"true"`
	ActsChecked int               `json:"acts_checked" required:"true"`
	Blocked     int               `json:"acts_blocked" required:"true" doc:"Acts that would have been refused."`
	Waiting     int               `json:"acts_waiting" required:"true" doc:"Acts that would have waited for an approval."`
	ByRule      []SimulationGroup `json:"by_rule" required:"true" doc:"By rule and decision, most acts first; shadow rules too."`
	ByAgent     []SimulationGroup `json:"by_agent" required:"true" doc:"By agent and decision, most acts first."`
	ByTool      []SimulationGroup `json:"by_tool" required:"true" doc:"By action and decision, most acts first."`
	Truncated   bool              `json:"truncated,omitzero" doc:"Whether a limit ended it: 10,000 runs, 30 seconds, or 1,000 groups."`
	NextFrom    *time.Time        `json:"next_from,omitzero" doc:"Where it was truncated, the from with which another simulation goes on."`
}

type groupKey struct {
	name, decision string
	shadow         bool
}

type groups map[groupKey]*SimulationGroup

// simulation collects the result.
type simulation struct {
	set     *ruleset
	out     *SimulationResult
	rules   groups
	agents  groups
	actions groups
}

func (s *Service) simulate(ctx context.Context, who authz.Caller, in *struct{ Body SimulationIn }) (*SimulationResult, error) {
	b := &in.Body
	if err := cmp.Or(checkRules(b.Rules), checkSize(b.Rules)); err != nil {
		return nil, err
	}
	out := &SimulationResult{To: s.Clock.Now()}
	if b.To != nil {
		out.To = *b.To
	}
	out.From = out.To.AddDate(0, 0, -simulatedDays)
	if b.From != nil {
		out.From = *b.From
	}
	if out.To.Before(out.From) {
		return nil, fault.BadFields(fault.Field{Field: "from", Message: "must not be later than to."})
	}
	if _, busy := s.simulating.LoadOrStore(who.TenantID, true); busy {
		return nil, fault.New(fault.Conflict, "", "A simulation of the company is under way; wait until it has ended.")
	}
	defer s.simulating.Delete(who.TenantID)
	sim := &simulation{compile(b.Rules), out, groups{}, groups{}, groups{}}
	end := s.Clock.Now().Add(simulatedTime)
	var failed error
	runs, next, err := s.pastActs(ctx, who.TenantID, out.From, out.To, simulatedRuns, func(r policy.Run, act policy.Act) bool {
		if failed = sim.add(ctx, r, act); failed != nil {
			return false
		}
		return s.Clock.Now().Before(end) && len(sim.rules)+len(sim.agents)+len(sim.actions) < maxGroups
	})
	if err = cmp.Or(failed, err); err != nil {
		return nil, err
	}
	out.RunsChecked = runs
	if !next.IsZero() {
		out.Truncated, out.NextFrom = true, &next
	}
	out.ByRule, out.ByAgent, out.ByTool = sorted(sim.rules), sorted(sim.agents), sorted(sim.actions)
	return out, nil
}

// add judges an act and counts what was found.
func (m *simulation) add(ctx context.Context, r policy.Run, act policy.Act) error {
	ruling, err := m.set.judge(ctx, r, act)
	if err != nil {
		return err
	}
	m.out.ActsChecked++
	for _, f := range ruling.Findings {
		g := group(m.rules, groupKey{f.RuleID, f.Decision, f.Shadow}, r.RunID)
		g.RuleID = f.RuleID
	}
	switch {
	case ruling.Effect == policy.Allow:
		return nil
	case ruling.Effect > policy.Approve:
		m.out.Blocked++
	case ruling.Effect == policy.Approve:
		m.out.Waiting++
	}
	decision := ruling.Effect.String()
	group(m.agents, groupKey{name: r.AgentID, decision: decision}, r.RunID).AgentID = r.AgentID
	group(m.actions, groupKey{name: act.Actions[0], decision: decision}, r.RunID).Action = act.Actions[0]
	return nil
}

// group counts an act of a run in its group.
func group(all groups, k groupKey, run string) *SimulationGroup {
	g := all[k]
	if g == nil {
		g = &SimulationGroup{Decision: k.decision, Shadow: k.shadow}
		all[k] = g
	}
	g.Acts++
	if g.last != run { // acts come run by run
		g.last = run
		if g.Runs++; len(g.RunIDs) < maxSampledRuns {
			g.RunIDs = append(g.RunIDs, run)
		}
	}
	return g
}

func sorted(all groups) []SimulationGroup {
	out := []SimulationGroup{}
	for _, g := range slices.SortedFunc(maps.Values(all), func(a, b *SimulationGroup) int {
		return cmp.Or(cmp.Compare(b.Acts, a.Acts), cmp.Compare(a.RuleID+a.AgentID+a.Action, b.RuleID+b.AgentID+b.Action),
			cmp.Compare(a.Decision, b.Decision))
	}) {
		out = append(out, *g)
	}
	return out
}

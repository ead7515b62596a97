package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/insight/significance"
	kernelwork "agentd/internal/kernel/work"
)

type (
	agentIn struct {
		AgentID string `path:"agentId"`
	}
	setIn struct {
		AgentID string `path:"agentId"`
		Body    struct {
			_ struct{} `json:"-" name:"AgentTrafficSet"`

			Entries []agent.TrafficEntry  `json:"entries" required:"true" minItems:"1" maxItems:"20" doc:"The versions that new runs use, each once. Their weights together are 100."`
			Rollout *agent.TrafficRollout `json:"rollout,omitzero" doc:"Decides by results which of two versions stays. Left out: people decide."`
		}
	}
	trafficView struct {
		_ struct{} `json:"-" name:"AgentTrafficSplit"`

		AgentID   string                `json:"agent_id" format:"uuid" required:"true"`
		Entries   []agent.TrafficEntry  `json:"entries" required:"true" doc:"Empty: all new runs use the newest version."`
		UpdatedAt *time.Time            `json:"updated_at" required:"true" doc:"When it was set; null: never."`
		Rollout   *agent.TrafficRollout `json:"rollout,omitzero"`
	}
	interval struct {
		_ struct{} `json:"-" name:"AgentTrafficInterval"`

		Low  float64 `json:"low" required:"true"`
		High float64 `json:"high" required:"true"`
	}
	versionView struct {
		_ struct{} `json:"-" name:"AgentTrafficVersion"`

		Version      int64    `json:"version" required:"true"`
		Weight       float64  `json:"weight" required:"true" doc:"Its share of new runs now, in percent."`
		Runs         int      `json:"runs" required:"true" doc:"Runs that ended, without those that were cancelled."`
		Completed    int      `json:"completed" required:"true"`
		SuccessRate  float64  `json:"success_rate" required:"true" doc:"Share of the runs that completed."`
		SuccessRange interval `json:"success_rate_interval" required:"true" doc:"Where the success rate lies with 95 % confidence (Wilson)."`
		AvgDuration  float64  `json:"avg_duration_ms" required:"true" doc:"Of the runs that completed."`
		AvgCost      *float64 `json:"avg_cost_usd" required:"true" doc:"Of the runs that completed and whose prices are known; null: of none."`
		AvgTokens    float64  `json:"avg_tokens" required:"true"`
		P            *float64 `json:"p_value" required:"true" doc:"How probable its difference from the baseline is by chance, by the rollout's metric or the success rate; null for the baseline."`
	}
	resultsView struct {
		_ struct{} `json:"-" name:"AgentTrafficResults"`

		AgentID  string        `json:"agent_id" format:"uuid" required:"true"`
		Since    time.Time     `json:"since" required:"true" doc:"Runs that were created at this time or later are counted, up to 10,000, the newest."`
		Baseline int64         `json:"baseline_version" required:"true" doc:"The version that the others are compared with; 0: there is none."`
		Versions []versionView `json:"versions" required:"true" doc:"In the order of their numbers."`
	}
)

// Routes returns the operations.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary, doc string) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/agents/{agentId}/traffic" + path, ID: id, Tag: "Agents", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"agents:read"}, Errors: []int{404},
		}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"agents:write"}, authz.Developer
		}
		return r
	}
	return []route.Route{
		route.Action(row("GET", "", "getAgentTraffic", "Get how the runs of an agent are divided among its versions", ""), s.get),
		route.Action(row("PUT", "", "setAgentTraffic", "Divide the runs of an agent among its versions",
			"Runs that name no version use one of these: in a session always the same one, otherwise by chance. "+
				"Replaces what was set before."), s.set),
		route.Action(row("DELETE", "", "deleteAgentTraffic", "Have all runs of an agent use its newest version", ""), s.remove),
		route.Action(row("GET", "/results", "getAgentTrafficResults",
			"Compare the versions among which the runs of an agent are divided", ""), s.results),
	}
}

func viewOf(g *agent.Agent) *trafficView {
	v := &trafficView{AgentID: g.ID, Entries: []agent.TrafficEntry{}}
	if t := g.Traffic; t != nil {
		v.Entries, v.UpdatedAt, v.Rollout = t.Entries, &t.UpdatedAt, t.Rollout
	}
	return v
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *agentIn) (*trafficView, error) {
	g, err := s.Agents.Store().Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	return viewOf(g), nil
}

// check returns what is wrong with a division.
func (s *Service) check(ctx context.Context, tenant string, in *setIn) error {
	var wrong []fault.Field
	add := func(field, format string, args ...any) {
		wrong = append(wrong, fault.Field{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	for i, e := range in.Body.Entries {
		field := fmt.Sprintf("entries[%d].version", i)
		if slices.ContainsFunc(in.Body.Entries[:i], func(other agent.TrafficEntry) bool { return other.Version == e.Version }) {
			add(field, "it stands there twice; name each version once")
			continue
		}
		err := s.HasVersion(ctx, tenant, in.AgentID, e.Version)
		switch {
		case fault.Is(err, fault.NotFound):
			add(field, "the agent has no version %d", e.Version)
		case err != nil:
			return err
		}
	}
	if sum := total(in.Body.Entries); sum != 100 {
		add("entries", "the weights together are %g; they must be 100", sum)
	}
	if r := in.Body.Rollout; r != nil {
		if len(in.Body.Entries) != 2 {
			add("rollout", "it decides between two versions; name two in entries")
		}
		if !slices.ContainsFunc(in.Body.Entries, func(e agent.TrafficEntry) bool { return e.Version == r.Candidate }) {
			add("rollout.candidate_version", "it is not the version of one of the entries")
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

func (s *Service) set(ctx context.Context, who authz.Caller, in *setIn) (*trafficView, error) {
	if _, err := s.Agents.Store().Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	if err := s.check(ctx, who.TenantID, in); err != nil {
		return nil, err
	}
	t := &agent.Traffic{Entries: in.Body.Entries, Rollout: in.Body.Rollout}
	if r := t.Rollout; r != nil {
		r.Metric, r.Promote, r.MinRuns = cmp.Or(r.Metric, successRate), cmp.Or(r.Promote, "not_worse"), cmp.Or(r.MinRuns, 100)
		r.Looks, r.Outcome, r.Reason = 0, "", ""
	}
	return s.store(ctx, who, in.AgentID, t)
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *agentIn) (*trafficView, error) {
	return s.store(ctx, who, in.AgentID, nil)
}

func (s *Service) store(ctx context.Context, who authz.Caller, id string, t *agent.Traffic) (answer *trafficView, err error) {
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		if going(t) { // work is locked before rows, as Handle does
			item := kernelwork.Item{Kind: WorkKind, Key: id, TenantID: who.TenantID, Due: s.Now().Add(Every)}
			if err := s.Queue.EnqueueTx(tx, item); err != nil {
				return err
			}
		}
		g, err := s.Agents.SetTrafficTx(tx, who, id, func(g *agent.Agent) error {
			g.Traffic = nil
			if t != nil {
				set := *t
				set.UpdatedAt = s.Now().Truncate(time.Microsecond)
				g.Traffic = &set
			}
			return nil
		})
		if err != nil {
			return err
		}
		answer = viewOf(g)
		return txn.Answer(tx, answer)
	})
	return answer, err
}

func (s *Service) results(ctx context.Context, who authz.Caller, in *agentIn) (*resultsView, error) {
	g, err := s.Agents.Store().Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	out := &resultsView{AgentID: g.ID, Since: g.CreatedAt, Versions: []versionView{}}
	metric := successRate
	weights := map[int64]float64{}
	if t := g.Traffic; t != nil {
		out.Since = t.UpdatedAt
		for _, e := range t.Entries {
			weights[e.Version] = e.Weight
		}
		if t.Rollout != nil {
			metric, out.Baseline = t.Rollout.Metric, baselineOf(t)
			if t.Rollout.Outcome == promoted || t.Rollout.Outcome == rolledBack {
				out.Since = g.CreatedAt // what led to the decision was before it
			}
		} else {
			out.Baseline = slices.MaxFunc(t.Entries, func(a, b agent.TrafficEntry) int { return cmp.Compare(a.Weight, b.Weight) }).Version
		}
	}
	all, err := s.Samples(ctx, who.TenantID, g.ID, out.Since, maxSample)
	if err != nil {
		return nil, err
	}
	by := measure(all)
	for version := range weights {
		if by[version] == nil {
			by[version] = &measured{}
		}
	}
	for version, m := range by {
		v := view(version, m)
		v.Weight = weights[version]
		if base := by[out.Baseline]; base != nil && version != out.Baseline {
			_, p := difference(metric, m, base)
			v.P = &p
		}
		out.Versions = append(out.Versions, v)
	}
	slices.SortFunc(out.Versions, func(a, b versionView) int { return cmp.Compare(a.Version, b.Version) })
	return out, nil
}

func view(version int64, m *measured) versionView {
	in := significance.Share(m.completed, m.runs)
	v := versionView{
		Version: version, Runs: m.runs, Completed: m.completed, SuccessRate: rate(m), SuccessRange: interval{Low: in.Low, High: in.High},
		AvgDuration: mean(m.durations),
	}
	if len(m.costs) > 0 {
		usd := mean(m.costs)
		v.AvgCost = &usd
	}
	if m.runs > 0 {
		v.AvgTokens = float64(m.tokens) / float64(m.runs)
	}
	return v
}

package team

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/kernel/resource"
)

// Members returns the workers of the team, those of a swarm that are named by their
// ids alone included, in order.
func (t *Team) Members() []Worker {
	all := slices.Clone(t.Workers)
	for _, id := range t.AgentIDs {
		if !slices.ContainsFunc(all, func(w Worker) bool { return w.AgentID == id }) {
			all = append(all, Worker{AgentID: id, Role: "worker"})
		}
	}
	return all
}

// agents returns the ids of all agents of the team with their places in its body.
func (t *Team) agents() (ids, fields []string) {
	add := func(id, field string) { ids, fields = append(ids, id), append(fields, field) }
	if t.SupervisorAgentID != "" {
		add(t.SupervisorAgentID, "supervisor_agent_id")
	}
	for i, w := range t.Workers {
		add(w.AgentID, fmt.Sprintf("workers[%d].agent_id", i))
	}
	for i, id := range t.AgentIDs {
		add(id, fmt.Sprintf("agent_ids[%d]", i))
	}
	return ids, fields
}

func validate(t *Team) (wrong []fault.Field) {
	add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
	if strings.TrimSpace(t.Name) == "" {
		add("name", "it is blank")
	}
	seen := map[string]bool{}
	ids, fields := t.agents()
	for i, id := range ids {
		if seen[id] {
			add(fields[i], "this agent is in the team already")
		}
		seen[id] = true
	}
	wrong = append(append(wrong, t.validateModes()...), t.validateExternal()...)
	if t.Topology == Swarm {
		return append(wrong, t.validateSwarm()...)
	}
	if len(t.AgentIDs) > 0 {
		add("agent_ids", "only a swarm has members by their ids alone; name them as workers")
	}
	if t.SupervisorAgentID == "" {
		add("supervisor_agent_id", "a team of this topology needs a supervisor")
	}
	if len(t.Workers) == 0 {
		add("workers", "a team of this topology needs at least one worker")
	}
	return wrong
}

// validateModes refuses modes that the topology does not have, and a validation that
// cannot be made.
func (t *Team) validateModes() (wrong []fault.Field) {
	add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
	joins := t.Topology == Supervisor || t.Topology == RoundRobin || t.Topology == GoalDriven
	toolDriven := t.SupervisorMode == ToolDriven
	if mode := t.OrchestrationMode; (mode == PeerCollab || mode == VoteBased) && (!joins || toolDriven) {
		add("orchestration_mode",
			"this mode needs results that are merged: the topology supervisor with auto_dispatch, round_robin or goal_driven")
	}
	if toolDriven && t.Topology != Supervisor {
		add("supervisor_mode", "only a supervisor delegates by its own tool calls; set the topology to supervisor")
	}
	v := t.Policies.Validation
	if v == nil {
		return wrong
	}
	seen, weight := map[string]bool{}, 0.0
	for i, c := range v.Criteria {
		if seen[c.Name] {
			add(fmt.Sprintf("policies.validation.criteria[%d].name", i), "there is a criterion of this name already")
		}
		seen[c.Name] = true
		weight += c.weight()
	}
	if weight <= 0 && len(v.Criteria) > 0 {
		add("policies.validation.criteria", "no criterion has a weight above 0")
	}
	if v.ValidatorID == "" && t.Topology == Swarm {
		add("policies.validation.validator_agent_id", "a swarm has no supervisor that could score its answer; name an agent")
	}
	return wrong
}

func (c *Criterion) weight() float64 {
	if c.Weight == nil {
		return 1
	}
	return *c.Weight
}

// Score returns the weighted mean of scores by the names of the criteria. A score
// outside of 0 to 1 counts as the nearer end, and a missing one as 0.
func (v *Validation) Score(scores map[string]float64) float64 {
	var sum, weights float64
	for i := range v.Criteria {
		c := &v.Criteria[i]
		sum += c.weight() * min(max(scores[c.Name], 0), 1)
		weights += c.weight()
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}

func (t *Team) validateSwarm() []fault.Field {
	if t.SwarmConfig == nil {
		return []fault.Field{{Field: "swarm_config", Message: "a swarm needs it, with the initial_agent_id of the member that begins"}}
	}
	first := t.SwarmConfig.InitialAgentID
	if members := t.Members(); len(members) > 0 && !slices.ContainsFunc(members, func(w Worker) bool { return w.AgentID == first }) {
		return []fault.Field{{Field: "swarm_config.initial_agent_id", Message: "it is no member of the swarm; name it in workers or agent_ids"}}
	}
	return nil
}

// before completes a write, and looks up what it newly refers to.
func (o Options) before(e *resource.Edit[Team]) error {
	t := e.New
	old := e.Old
	if old == nil {
		old = &Team{}
	}
	if t.Topology == Swarm && len(t.Members()) == 0 && t.SwarmConfig != nil {
		t.AgentIDs = []string{t.SwarmConfig.InitialAgentID}
	}
	for i := range t.Workers {
		t.Workers[i].complete(old)
	}
	t.Policies.complete()
	known, _ := old.agents()
	named := []string{t.SupervisorAgentID}
	for _, w := range t.Workers {
		named = append(named, w.AgentID)
	}
	if err := o.checkCredentials(e.Tx, e.Who.TenantID, old, t); err != nil {
		return err
	}
	if t.SwarmConfig != nil && (old.SwarmConfig == nil || old.SwarmConfig.InitialAgentID != t.SwarmConfig.InitialAgentID) {
		named = append(named, t.SwarmConfig.InitialAgentID)
	}
	if id := t.judge(); id != old.judge() {
		named = append(named, id)
	}
	if id := t.validator(); id != old.validator() {
		named = append(named, id)
	}
	exists := func(id string) error { return o.Agent(e.Tx, e.Who.TenantID, id) }
	for _, id := range named {
		if id == "" || slices.Contains(known, id) || t.external(id) {
			continue
		}
		if err := exists(id); err != nil {
			return err
		}
	}
	if err := resource.CheckReferences("agent_ids", "agent", t.AgentIDs, known, exists); err != nil {
		return err
	}
	if id := ptr.Value(t.WorkspaceID); id != "" && id != ptr.Value(old.WorkspaceID) {
		return o.Workspace(e.Tx, e.Who.TenantID, id)
	}
	return nil
}

func (t *Team) judge() string {
	if t.GoalConfig == nil {
		return ""
	}
	return t.GoalConfig.JudgeID
}

func (t *Team) validator() string {
	if t.Policies.Validation == nil {
		return ""
	}
	return t.Policies.Validation.ValidatorID
}

// complete sets what a body leaves out of a worker: as it was before, or the default.
func (w *Worker) complete(old *Team) {
	if i := slices.IndexFunc(old.Workers, func(was Worker) bool { return was.AgentID == w.AgentID }); i >= 0 {
		w.Role = cmp.Or(w.Role, old.Workers[i].Role)
		w.Permissions = cmp.Or(w.Permissions, old.Workers[i].Permissions)
		w.External = cmp.Or(w.External, old.Workers[i].External)
	}
	w.Role = cmp.Or(w.Role, "worker")
	if w.Permissions == nil {
		w.Permissions = &Permissions{}
	}
	if w.Permissions.ReadOthers == nil {
		w.Permissions.ReadOthers = new(true)
	}
}

// complete sets what a body leaves out.
func (p *Policies) complete() {
	p.MaxRounds, p.MaxGraphNodes, p.MaxConcurrency = cmp.Or(p.MaxRounds, 10), cmp.Or(p.MaxGraphNodes, 50), cmp.Or(p.MaxConcurrency, 8)
	p.OnWorkerFailure = cmp.Or(p.OnWorkerFailure, Retry)
	if p.EarlyTermination == nil {
		p.EarlyTermination = new(true)
	}
	if p.MaxWorkerRetries == nil {
		p.MaxWorkerRetries = new(1)
	}
	if p.TimeoutMS > 0 {
		p.TimeoutMS = max(p.TimeoutMS, MinTimeoutMS)
	}
	if v := p.Validation; v != nil {
		v.complete()
	}
}

// complete sets what a body leaves out.
func (v *Validation) complete() {
	if len(v.Criteria) == 0 {
		v.Criteria = []Criterion{{Name: "complete", Description: "The answer does what the message asks."}}
	}
	if v.Enabled == nil {
		v.Enabled = new(true)
	}
	if v.MinScore == nil {
		v.MinScore = new(0.7)
	}
	if v.MaxRounds == nil {
		v.MaxRounds = new(1)
	}
	if v.AutoRevise == nil {
		v.AutoRevise = new(true)
	}
}

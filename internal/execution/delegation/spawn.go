package delegation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
)

// childSpec describes an agent to be spawned.
type childSpec struct {
	id      string // empty: a new id
	name    string
	role    string
	prompts agent.Prompts
	model   *agent.ModelConfig // nil: the parent's
	tools   []string           // nil: the parent's but spawn_agent
	asked   policy.Permissions // what it may do at most
	lineage agent.Lineage      // SpawnedBy or SpawnedByRun
}

// spawn creates a child of an agent, which can do nothing that its parent
// cannot. An agent with the spec's id that exists already is returned as it is:
// the call is repeated. Errors: fault.NotFound for the parent; fault.Forbidden,
// SPAWN_DENIED, with a check result in details; fault.Invalid.
func (s *Service) spawn(ctx context.Context, who authz.Caller, parentID string, w childSpec) (*agent.Agent, error) {
	store := s.agents.Store()
	if w.model != nil {
		if err := store.CheckAddresses(ctx, who.TenantID, nil, &agent.Agent{Config: agent.Config{Model: *w.model}}); err != nil {
			return nil, err
		}
	}
	var child *agent.Agent
	err := s.writer.Write(ctx, func(tx txn.Tx) error {
		parent, err := store.GetTx(tx, who.TenantID, parentID) // locked: children are counted one after the other
		if err != nil {
			return err
		}
		if w.id != "" {
			if child, err = store.GetTx(tx, who.TenantID, w.id); !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		tools, lineage, err := s.check(tx, who, parent, &w)
		if err != nil {
			return err
		}
		if child, err = childOf(parent, store.Blank(), w, tools, lineage); err != nil {
			return err
		}
		return store.CreateTx(tx, who, child)
	})
	return child, err
}

// check returns the tools and the lineage of a child, and stores its permissions, or
// refuses it. It sets the child's id.
func (s *Service) check(tx txn.Tx, who authz.Caller, parent *agent.Agent, w *childSpec) ([]string, agent.Lineage, error) {
	limits := policy.SpawnLimits{MaxDepth: MaxSpawn, MaxChildren: MaxChildren}
	if s.spawns != nil {
		var err error
		if limits, err = s.spawns.SpawnLimitsTx(tx, parent.TenantID); err != nil {
			return nil, agent.Lineage{}, err
		}
	}
	lineage := w.lineage
	lineage.ParentID, lineage.Role, lineage.Depth = parent.ID, w.role, min(parent.Lineage().Depth, limits.MaxDepth)+1
	if parent.Status != agent.Active {
		return nil, lineage, fault.WrongState("agent", parent.Status, "spawning")
	}
	if lineage.Depth > limits.MaxDepth {
		return nil, lineage, denied([]string{"max_spawn_depth"}, "Agents may be made by agents %d deep, and this one is at that depth.",
			limits.MaxDepth)
	}
	if err := s.checkChildren(tx, parent, limits.MaxChildren); err != nil {
		return nil, lineage, err
	}
	tools, err := toolsOf(parent, w)
	if err != nil || s.spawns == nil {
		return tools, lineage, err
	}
	if w.id == "" {
		w.id = ident.New()
	}
	refused, err := s.spawns.SpawnTx(tx, who, policy.Spawn{
		ParentID: parent.ID, ChildID: w.id, Role: w.role, Depth: lineage.Depth, RunID: lineage.SpawnedByRun, Tools: w.tools, Asked: w.asked,
	})
	if refused != nil {
		err = denied(refused.Denied, "%s", refused.Reason)
	}
	return tools, lineage, err
}

// checkChildren refuses a child more than a parent may have.
func (s *Service) checkChildren(tx txn.Tx, parent *agent.Agent, most int) error {
	siblings, err := s.agents.Store().ListTx(tx, parent.TenantID, resource.Find{
		Where: map[string]string{"parent_agent_id": parent.ID}, Limit: max(1, most),
	})
	if err == nil && len(siblings) >= most {
		err = denied([]string{"max_children_per_agent"}, "An agent may have %d agents of its own, and this one has.", most)
	}
	return err
}

// toolsOf returns the tools of a child, or refuses those that its parent does not have.
func toolsOf(parent *agent.Agent, w *childSpec) ([]string, error) {
	if w.tools == nil {
		return slices.DeleteFunc(slices.Clone(parent.BuiltInTools), func(t string) bool { return t == "spawn_agent" }), nil
	}
	var tools, foreign []string
	for _, t := range w.tools {
		switch {
		case !slices.Contains(parent.BuiltInTools, t):
			foreign = append(foreign, "tool:"+t)
		case !slices.Contains(tools, t):
			tools = append(tools, t)
		}
	}
	if foreign != nil {
		return nil, denied(foreign, "An agent can only pass on tools that it has itself: %s.", orNone(parent.BuiltInTools))
	}
	return tools, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "this one has none"
	}
	return strings.Join(names, ", ")
}

// checkResult is the result of a permission check, in the details of a refusal.
type checkResult struct {
	Allowed bool     `json:"allowed"`
	Reason  string   `json:"reason"`
	Denied  []string `json:"denied_permissions"`
}

func denied(permissions []string, format string, args ...any) error {
	f := fault.New(fault.Forbidden, "SPAWN_DENIED", format, args...)
	f.Extra = map[string]any{"details": checkResult{Reason: f.Detail, Denied: permissions}}
	return f
}

// childOf fills a blank agent. The child has its parent's limits, guardrails,
// policies and approvals. MCP servers and schedules are not passed on.
func childOf(parent, child *agent.Agent, w childSpec, tools []string, lineage agent.Lineage) (*agent.Agent, error) {
	metadata, err := json.Marshal(lineage)
	if err != nil {
		return nil, err
	}
	child.ID = w.id
	c, p := &child.Config, &parent.Config
	c.Name, c.Description, c.Prompts, c.BuiltInTools = w.name, w.role, w.prompts, tools
	c.Model, c.Fallback = p.Model, p.Fallback
	if w.model != nil {
		c.Model, c.Fallback = *w.model, nil
	}
	c.Thinking, c.EffortPolicy, c.ContextStrategy, c.ContextWindowSize = p.Thinking, p.EffortPolicy, p.ContextStrategy, p.ContextWindowSize
	c.Limits, c.Policies, c.Guardrails, c.ApprovalRequiredTools = p.Limits, p.Policies, p.Guardrails, p.ApprovalRequiredTools
	c.AutoApproveTools, c.ToolOverrides, c.Autonomy = p.AutoApproveTools, p.ToolOverrides, p.Autonomy
	c.RiskClassification, c.AccessControl = p.RiskClassification, p.AccessControl
	c.Metadata = schema.Object(metadata)
	return child, nil
}

func (s *Service) spawnTool(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct {
		Name   string   `json:"name"`
		Prompt string   `json:"prompt"`
		Role   string   `json:"role"`
		Tools  []string `json:"tools"`
		Task   string   `json:"task"`
		Budget *float64 `json:"budget_usd"`
	}
	if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
		return tool.Result{}, err
	}
	child, err := s.spawnFor(ctx, call, childSpec{
		id:   deriveID(call, "agent"),
		name: args.Name, role: args.Role, prompts: agent.Prompts{System: args.Prompt}, tools: args.Tools,
		asked: policy.Permissions{MaxBudgetPerRunUSD: args.Budget}, lineage: agent.Lineage{SpawnedByRun: call.RunID},
	}, args.Task != "")
	if err != nil {
		return refusal(ctx, withFields(err))
	}
	answer := spawned{AgentID: child.ID, Name: child.Name, Tools: child.BuiltInTools, Depth: child.Lineage().Depth}
	result := tool.Result{}
	if args.Task != "" {
		a, err := s.runTask(ctx, call, Task{AgentID: child.ID, Message: args.Task})
		if err != nil {
			return refusal(ctx, err)
		}
		if a.awaits != nil {
			return tool.Result{Await: a.awaits}, nil
		}
		answer.Answer, result.Failed, result.Sources = a.text, a.failed, a.sources
	}
	out, err := json.Marshal(answer)
	result.Output = string(out)
	return result, err
}

// spawnFor returns the agent of a call: a new one, or the one that an earlier try
// of the call spawned, which may be deleted by now.
func (s *Service) spawnFor(ctx context.Context, call tool.Call, w childSpec, task bool) (*agent.Agent, error) {
	if call.Awaits != nil {
		child, err := s.agents.Get(ctx, call.TenantID, w.id)
		if fault.Is(err, fault.NotFound) {
			child = agent.Agent{Config: agent.Config{Name: w.name, BuiltInTools: w.tools}}
			child.ID, err = w.id, nil
		}
		return &child, err
	}
	if task { // a task that would be refused needs no agent
		if _, err := s.depth(ctx, call); err != nil {
			return nil, err
		}
	}
	return s.spawn(ctx, authz.Caller{TenantID: call.TenantID}, call.AgentID, w)
}

// spawned is the result of spawn_agent.
type spawned struct {
	AgentID string   `json:"agent_id"`
	Name    string   `json:"name"`
	Tools   []string `json:"tools"`
	Depth   int      `json:"spawn_depth"`
	Answer  string   `json:"answer,omitzero"` // to its task
}

// withFields moves the invalid fields of an error into its sentence: a model
// reads nothing else.
func withFields(err error) error {
	f := fault.From(err)
	if len(f.Fields) < 2 {
		return err
	}
	var all []string
	for _, w := range f.Fields {
		all = append(all, fmt.Sprintf("%s: %s", w.Field, w.Message))
	}
	return fault.New(f.Kind, f.Code, "The agent is invalid: %s.", strings.Join(all, "; "))
}

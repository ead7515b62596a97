package delegation

import (
	"context"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
)

type spawnIn struct {
	AgentID string `path:"agentId"`
	Body    spawnBody
}

type spawnBody struct {
	_ struct{} `json:"-" name:"AgentSpawn"`

	Name        string             `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the new agent."`
	Role        string             `json:"role" maxLength:"200" doc:"Purpose of the new agent."`
	Model       *agent.ModelConfig `json:"model,omitzero" doc:"Default: the parent's."`
	Prompts     agent.Prompts      `json:"prompts" doc:"What the new agent's model is told before the conversation."`
	Tools       []string           `json:"tools,omitzero" doc:"Built-in tools, of the parent's. Default: all but spawn_agent."`
	Permissions policy.Permissions `json:"permissions,omitzero" doc:"What the new agent may do at most. It gets no more than its parent may and the company's spawn policy allows; what is left out is its parent's."`
	BudgetUSD   *float64           `json:"budget_usd,omitzero" nullable:"true" minimum:"0" maximum:"1000000000" doc:"US dollars for the model calls of each of its runs; the same as permissions.max_budget_per_run_usd, before which it goes."`
	Task        string             `json:"task" maxLength:"200000" doc:"Message of a first run. Needs the scope runs:create too."`
}

// lineage is the chain of agents that spawned an agent.
type lineage struct {
	_ struct{} `json:"-" name:"AgentLineage"`

	AgentID   string    `json:"agent_id" required:"true" format:"uuid"`
	Chain     []string  `json:"chain" required:"true" doc:"From the agent that a person created to this one."`
	Depth     int       `json:"depth" required:"true"`
	ParentID  *string   `json:"parent_id" format:"uuid"`
	SpawnedBy string    `json:"spawned_by" required:"true" doc:"User id."`
	SpawnedAt time.Time `json:"spawned_at"`
}

// Routes returns the operations of spawning.
func (s *Service) Routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/agents/{agentId}/spawn", ID: "spawnAgent", Tag: "Agents",
			Summary: "Spawn an agent", Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer,
			Status: 201, Errors: []int{409}, AnswerOf: s.answerType(),
			Doc: "Creates an agent as the child of another, with some of its parent's built-in tools, and its parent's limits, policies, " +
				"guardrails and approvals. If the parent may not have it, the answer is 403 with the result of the check in details.",
		}, s.spawnRoute),
	}
}

// answerType is the type of an agent with its lineage and task.
func (s *Service) answerType() reflect.Type {
	wire := s.agents.Store().AnswerType()
	fields := []reflect.StructField{{
		Name: "_", PkgPath: reflect.TypeFor[Service]().PkgPath(), Type: reflect.TypeFor[struct{}](), Tag: `json:"-" name:"SpawnedAgent"`,
	}}
	for f := range wire.Fields() {
		if f.IsExported() {
			fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
		}
	}
	return reflect.StructOf(append(fields,
		reflect.StructField{Name: "WireLineage", Type: reflect.TypeFor[lineage](), Tag: `json:"lineage" required:"true"`},
		reflect.StructField{
			Name: "WireTaskRunID", Type: reflect.TypeFor[string](),
			Tag: `json:"task_run_id,omitzero" format:"uuid" doc:"Run of the task, if there is one."`,
		}))
}

func (s *Service) spawnRoute(ctx context.Context, who authz.Caller, in *spawnIn) (*route.Reply, error) {
	b := &in.Body
	if b.Task != "" {
		if err := who.Check(authz.Developer, "runs:create"); err != nil {
			return nil, err
		}
	}
	asked := b.Permissions
	if b.BudgetUSD != nil {
		asked.MaxBudgetPerRunUSD = b.BudgetUSD
	}
	if s.spawns == nil && !reflect.ValueOf(asked).IsZero() {
		return nil, fault.New(fault.Unsupported, "governance_not_enabled",
			"Permissions need governance, which is switched off on this service (AGENTD_GOVERNANCE=off).")
	}
	child, err := s.spawn(ctx, who, in.AgentID, childSpec{
		name: b.Name, role: b.Role, prompts: b.Prompts, model: b.Model, tools: b.Tools, asked: asked,
		lineage: agent.Lineage{SpawnedBy: who.UserID},
	})
	if err != nil {
		return nil, err
	}
	taskRun := ""
	if b.Task != "" {
		if taskRun, err = s.startTask(ctx, who, child, b.Task); err != nil {
			// The caller gets an error, so the child must not stay.
			if undo := s.agents.Store().Delete(context.WithoutCancel(ctx), who, child.ID); undo != nil && !fault.Is(undo, fault.NotFound) {
				s.log.Warn("a spawned agent whose task did not start could not be deleted", "agent", child.ID, "tenant", who.TenantID, "err", undo)
			}
			return nil, err
		}
	}
	return s.reply(ctx, child, who.UserID, taskRun)
}

func (s *Service) startTask(ctx context.Context, who authz.Caller, child *agent.Agent, task string) (string, error) {
	input, err := json.Marshal(struct {
		Message string `json:"message"`
	}{task})
	if err != nil {
		return "", err
	}
	r, err := s.runs.Create(ctx, who, run.Request{
		AgentID: child.ID, Input: schema.Object(input), Metadata: schema.Object(`{"source":"spawn"}`),
	})
	if err != nil {
		return "", err
	}
	return r.RunID, nil
}

// maxShown bounds the chain of a lineage: as deep as a spawn policy may allow.
const maxShown = 30

// reply returns the agent as it is shown elsewhere, with its lineage.
func (s *Service) reply(ctx context.Context, child *agent.Agent, by, taskRun string) (*route.Reply, error) {
	stored := child.Lineage()
	l := lineage{
		AgentID: child.ID, Chain: []string{child.ID}, Depth: stored.Depth, ParentID: &stored.ParentID,
		SpawnedBy: by, SpawnedAt: child.CreatedAt,
	}
	for next := stored.ParentID; next != "" && len(l.Chain) <= maxShown; {
		l.Chain = append([]string{next}, l.Chain...)
		up, err := s.agents.Get(ctx, child.TenantID, next)
		if fault.Is(err, fault.NotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		next = up.Lineage().ParentID
	}
	reply, err := s.agents.Store().Reply(child)
	if err != nil {
		return nil, err
	}
	more, err := json.Marshal(struct {
		Lineage   lineage `json:"lineage"`
		TaskRunID string  `json:"task_run_id,omitzero"`
	}{l, taskRun})
	if err != nil {
		return nil, err
	}
	reply.JSON = append(append(reply.JSON[:len(reply.JSON)-1:len(reply.JSON)-1], ','), more[1:]...)
	return reply, nil
}

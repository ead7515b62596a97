// Package delegation has the tools by which agents delegate tasks to other
// agents, and by which they spawn agents.
//
// A task is a run of its own. Its id, and that of a spawned agent, is derived
// from the parent's run and the call, so that a call that is repeated after a
// crash finds what the first one created. The parent's run waits for the task as
// a row, without a worker, and the end of the task wakes it. If the parent ends
// first (cancelled, out of time) the task is cancelled; see run.Service.OnRunState.
package delegation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/tool"
)

// Limits of delegation.
const (
	Timeout     = 10 * time.Minute // of a task, its approvals included
	MaxDepth    = 5                // of runs that wait for runs
	MaxSpawn    = 3                // of agents that spawned agents, where governance is off
	MaxChildren = 20               // of one agent, without deleted ones, where governance is off

)

// Runs is the port to runs; *run.Service implements it.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
}

// Signer returns claims that an agent signed as a compact JSON Web Signature; "" for an
// agent without an identity.
type Signer func(ctx context.Context, tenant, agent string, claims any) (string, error)

// Service implements the tools and the routes of delegation. Create it with New,
// and Connect it before the first call.
type Service struct {
	runs   Runs
	agents *agent.Agents
	writer txn.Writer
	clock  clock.Clock
	spawns policy.Spawns // nil: governance is off
	sign   Signer
	log    *slog.Logger
}

// New returns a service whose tools can be registered.
func New(c clock.Clock, log *slog.Logger) *Service { return &Service{clock: c, log: log} }

// Connect sets the runs and agents, which are built after the service because
// they need its tools, what signs for agents, and what decides about agents to be spawned:
// nil if governance is off. It is called once, before the first run.
func (s *Service) Connect(runs Runs, agents *agent.Agents, writer txn.Writer, sign Signer, spawns policy.Spawns) {
	s.runs, s.agents, s.writer, s.sign, s.spawns = runs, agents, writer, sign, spawns
}

// Tools returns delegate_to_agent and spawn_agent.
func (s *Service) Tools() []tool.Tool {
	return []tool.Tool{
		{
			Name: "delegate_to_agent",
			Description: "Delegates a task to another agent, waits until it is done, and returns the agent's answer. " +
				"The other agent does not know this conversation: the message must say everything that it needs.",
			Parameters: jsontext.Value(`{"type":"object","properties":{` +
				`"agent_id":{"type":"string","minLength":1,"maxLength":64,"description":"The id of the agent"},` +
				`"message":{"type":"string","minLength":1,"maxLength":200000,"description":"The task"}},` +
				`"required":["agent_id","message"],"additionalProperties":false}`),
			Idempotent: true, Timeout: Timeout,
			Run: s.delegate,
		},
		{
			Name: "spawn_agent",
			Description: "Creates a new agent with your model, within your limits, and with some of your tools. " +
				"With a task it does the task at once, and its answer is returned; without one, use delegate_to_agent to give it tasks.",
			Parameters: jsontext.Value(`{"type":"object","properties":{` +
				`"name":{"type":"string","minLength":1,"maxLength":200,"description":"Its name"},` +
				`"prompt":{"type":"string","minLength":1,"maxLength":200000,"description":"Its instructions"},` +
				`"role":{"type":"string","maxLength":200,"description":"What it is for, in a few words"},` +
				`"tools":{"type":"array","maxItems":64,"items":{"type":"string","maxLength":64},` +
				`"description":"Names of its tools, of yours; all but spawn_agent if omitted"},` +
				`"budget_usd":{"type":"number","minimum":0,"description":"US dollars that each of its runs may spend; within your own budget"},` +
				`"task":{"type":"string","minLength":1,"maxLength":200000,"description":"A task to do at once"}},` +
				`"required":["name","prompt"],"additionalProperties":false}`),
			Idempotent: true, Timeout: Timeout,
			Run: s.spawnTool,
		},
	}
}

func (s *Service) delegate(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct {
		AgentID string `json:"agent_id"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
		return tool.Result{}, err
	}
	switch {
	case call.Awaits != nil:
	case !ident.Valid(args.AgentID):
		return tool.Failure("The agent_id is not the id of an agent."), nil
	case args.AgentID == call.AgentID:
		return tool.Failure("An agent cannot delegate to itself. Do the task, or delegate to another agent."), nil
	}
	return s.Delegate(ctx, call, Task{AgentID: args.AgentID, Message: args.Message})
}

// Task is what an agent is to do for another one.
type Task struct {
	AgentID string
	Message string
	// TeamRunID, WorkspaceID and Limits are of a task in a team; their zero values: of no
	// team, in the agent's workspace, with its limits.
	TeamRunID, WorkspaceID string
	Limits                 run.Limits
	Admit                  run.Admission // nil: it may begin
}

// Delegate does a task for a tool call: it starts a run of the agent, and its result
// awaits the end of that run.
func (s *Service) Delegate(ctx context.Context, call tool.Call, t Task) (tool.Result, error) {
	a, err := s.runTask(ctx, call, t)
	if err != nil {
		return refusal(ctx, err)
	}
	return tool.Result{Output: a.text, Failed: a.failed, Sources: a.sources, Await: a.awaits}, nil
}

// refusal returns an error as a result that the model reads, unless it is a
// failure of the platform.
func refusal(ctx context.Context, err error) (tool.Result, error) {
	if f := fault.From(err); ctx.Err() == nil && f.Kind != fault.Internal && f.Kind != fault.Unavailable {
		return tool.Failure(f.Detail), nil
	}
	return tool.Result{}, err
}

// origin is the metadata of a task's run.
type origin struct {
	Source      string `json:"source"`
	ParentRunID string `json:"parent_run_id"`
	Depth       int    `json:"depth"`
	Signature   string `json:"signature,omitzero"` // of a mandate; without one where the agent has no identity
}

// mandate is what an agent signs when it delegates a task: a record, verifiable without
// this platform, of who asked whom for what.
type mandate struct {
	Issuer   string `json:"iss"` // the agent that delegates
	Subject  string `json:"sub"` // the agent that is to do it
	ID       string `json:"jti"` // the task's run
	IssuedAt int64  `json:"iat"` // seconds since 1970
	Tenant   string `json:"tenant_id"`
	Parent   string `json:"parent_run_id"`
	Task     string `json:"task_sha256"` // of the message, in hexadecimal digits
}

const source = "delegation"

// depth returns the depth that a task of this call would have. Errors:
// fault.Forbidden where that is too deep. Callers can write metadata too, so a
// stored depth can only increase it.
func (s *Service) depth(ctx context.Context, call tool.Call) (int, error) {
	parent, err := s.runs.Get(ctx, call.TenantID, call.RunID)
	if err != nil {
		return 0, err
	}
	var members map[string]jsontext.Value
	var from origin
	if json.Unmarshal(parent.Metadata, &members) == nil && members["depth"] != nil && string(members["source"]) == `"`+source+`"` {
		_ = json.Unmarshal(members["depth"], &from.Depth) // anything else than a number is depth 0
	}
	depth := min(max(from.Depth, 0), MaxDepth) + 1
	if depth > MaxDepth {
		return 0, fault.New(fault.Forbidden, "", "Tasks may be handed on %d times, and this one was. Do it yourself.", MaxDepth)
	}
	return depth, nil
}

// answer is how a task ended, or what to await before it has.
type answer struct {
	awaits *tool.Await // nil: it has ended
	text   string      // the agent's answer, or a sentence on why there is none
	failed bool
	// sources are the untrusted sources that the text has content of.
	sources []string
}

// runTask has an agent do a task: the first try of a call starts it, and later
// ones return its answer when it has ended.
func (s *Service) runTask(ctx context.Context, call tool.Call, t Task) (answer, error) {
	awaits := call.Awaits
	if awaits == nil {
		depth, err := s.depth(ctx, call)
		if err != nil {
			return answer{}, err
		}
		awaits = &tool.Await{RunID: deriveID(call, "task"), Until: s.clock.Now().Add(Timeout)}
		if err := s.startRun(ctx, call, awaits.RunID, t, depth); err != nil {
			return answer{}, err
		}
	}
	r, err := s.runs.Get(ctx, call.TenantID, awaits.RunID)
	switch {
	case call.Awaits != nil && fault.Is(err, fault.NotFound):
		return answer{text: "The agent's run was deleted before its answer was read.", failed: true}, nil
	case err != nil:
		return answer{}, err
	case !r.Status.Final() && s.clock.Now().Before(awaits.Until):
		return answer{awaits: awaits}, nil
	}
	return s.answerOf(ctx, r)
}

// deriveID returns the id of what a call creates.
func deriveID(call tool.Call, what string) string {
	if call.StepID != "" {
		return ident.Derive(call.RunID, what, call.StepID)
	}
	return ident.Derive(call.RunID, what, call.Name, call.ID, call.Arguments)
}

// startRun starts the run of a task, unless an earlier try of the call has.
func (s *Service) startRun(ctx context.Context, call tool.Call, id string, t Task, depth int) error {
	if _, err := s.runs.Get(ctx, call.TenantID, id); !fault.Is(err, fault.NotFound) {
		return err
	}
	input, err := json.Marshal(struct {
		Message string `json:"message"`
	}{t.Message})
	if err != nil {
		return err
	}
	signature, err := s.sign(ctx, call.TenantID, call.AgentID, mandate{
		Issuer: call.AgentID, Subject: t.AgentID, ID: id, IssuedAt: s.clock.Now().Unix(),
		Tenant: call.TenantID, Parent: call.RunID, Task: fmt.Sprintf("%x", sha256.Sum256([]byte(t.Message))),
	})
	if err != nil {
		return err
	}
	metadata, err := json.Marshal(origin{source, call.RunID, depth, signature})
	if err != nil {
		return err
	}
	_, err = s.runs.Create(ctx, authz.Caller{TenantID: call.TenantID}, run.Request{
		RunID: id, AgentID: t.AgentID, Input: schema.Object(input), Metadata: schema.Object(metadata),
		Parent: call.RunID, ParentStep: call.StepID, Options: run.Options{Sources: call.Sources, WorkspaceID: t.WorkspaceID},
		TeamRunID: t.TeamRunID, Limits: t.Limits, Admit: t.Admit,
	})
	if f := fault.From(err); f != nil && f.Kind == fault.Conflict && f.Code == "ALREADY_EXISTS" {
		return nil // another worker that held the parent was faster
	}
	return err
}

// answerOf returns the answer of a task whose run has ended. It cancels a task
// whose time is up.
func (s *Service) answerOf(ctx context.Context, r *run.Run) (answer, error) {
	a := answer{failed: true}
	switch {
	case !r.Status.Final():
		if _, err := s.runs.Cancel(ctx, r.TenantID, r.RunID); err != nil {
			return a, err
		}
		a.text = fmt.Sprintf("The agent had not done the task in time: its run was %s. It was cancelled.", r.Status)
	case r.Status != run.Completed:
		a.text = fmt.Sprintf("The agent did not do the task: its run ended as %s.", r.Status)
		if r.Error != nil && *r.Error != "" {
			a.text += " " + *r.Error
		}
	default:
		var out run.Output
		if err := json.Unmarshal(r.Output, &out); err != nil {
			return a, err
		}
		a.text, a.failed = out.Text, false
		a.sources = model.JoinSources(out.Sources, []string{model.SourceMessage(r.AgentID)})
		if a.text == "" {
			a.text = "The agent ended without a text."
		}
		if out.Truncated || out.OutputTruncated {
			a.text += "\n[A limit cut the agent's answer off.]"
		}
	}
	return a, nil
}

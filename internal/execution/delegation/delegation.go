// Package delegation has the tools by which agents delegate tasks to other
// agents, and by which they spawn agents.
//
// A task is a run of its own. Its id, and that of a spawned agent, is derived
// from the parent's run and the call, so that a call that is repeated after a
// crash finds what the first one created. The parent's run waits for the task.
// If the parent ends first (cancelled, out of time) the task is cancelled. If
// only the node stops, the task continues, and the node that takes the parent
// over waits for it again.
package delegation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/tool"
	"agentd/internal/kernel/work"
)

// Limits of delegation.
const (
	Timeout     = 10 * time.Minute // of a task, its approvals included
	MaxDepth    = 5                // of runs that wait for runs
	MaxSpawn    = 3                // of agents that spawned agents
	MaxChildren = 20               // of one agent, without deleted ones

	// leeway is the part of a call's time that is kept to cancel the task and
	// report it.
	leeway = 5 * time.Second
	// maxEnding is how long a parent may take to end once its call was stopped.
	maxEnding = 15 * time.Second
)

// Runs is the port to runs; *run.Service implements it.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Wait(ctx context.Context, tenant, id string, timeout time.Duration) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
}

// Service implements the tools and the routes of delegation. Create it with New,
// and Connect it before the first call; Stop it after the runs.
type Service struct {
	runs   Runs
	agents *agent.Agents
	writer txn.Writer
	log    *slog.Logger

	ctx     context.Context
	stop    context.CancelFunc
	orphans sync.WaitGroup // being cancelled
}

// New returns a service whose tools can be registered.
func New(log *slog.Logger) *Service {
	ctx, stop := context.WithCancel(context.Background())
	return &Service{log: log, ctx: ctx, stop: stop}
}

// Connect sets the runs and agents, which are built after the service because
// they need its tools. It is called once, before the first run.
func (s *Service) Connect(runs Runs, agents *agent.Agents, writer txn.Writer) {
	s.runs, s.agents, s.writer = runs, agents, writer
}

// Stop stops cancelling the tasks of parents that have ended.
func (s *Service) Stop() {
	s.stop()
	s.orphans.Wait()
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
	case !ident.Valid(args.AgentID):
		return tool.Failure("The agent_id is not the id of an agent."), nil
	case args.AgentID == call.AgentID:
		return tool.Failure("An agent cannot delegate to itself. Do the task, or delegate to another agent."), nil
	}
	depth, err := s.depth(ctx, call)
	if err != nil {
		return refusal(ctx, err)
	}
	a, err := s.runTask(ctx, call, args.AgentID, args.Message, depth)
	if err != nil {
		return refusal(ctx, err)
	}
	return tool.Result{Output: a.text, Failed: a.failed}, nil
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

// answer is how a task ended.
type answer struct {
	runID  string
	status run.Status
	text   string // the agent's answer, or a sentence on why there is none
	failed bool
}

// runTask has an agent do a task and waits until the task has ended.
func (s *Service) runTask(ctx context.Context, call tool.Call, agentID, message string, depth int) (answer, error) {
	id := deriveID(call, "task")
	err := s.startRun(ctx, call, id, agentID, message, depth)
	if err == nil {
		var r *run.Run
		if r, err = s.runs.Wait(ctx, call.TenantID, id, maxWait(ctx)); err == nil && ctx.Err() == nil {
			return s.answerOf(ctx, r)
		}
	}
	if ctx.Err() != nil {
		s.cancelOrphan(ctx, call, id)
		return answer{}, ctx.Err()
	}
	return answer{}, err
}

// deriveID returns the id of what a call creates.
func deriveID(call tool.Call, what string) string {
	if call.StepID != "" {
		return ident.Derive(call.RunID, what, call.StepID)
	}
	return ident.Derive(call.RunID, what, call.Name, call.ID, call.Arguments)
}

// startRun starts the run of a task, unless an earlier try of the call has.
func (s *Service) startRun(ctx context.Context, call tool.Call, id, agentID, message string, depth int) error {
	if _, err := s.runs.Get(ctx, call.TenantID, id); !fault.Is(err, fault.NotFound) {
		return err
	}
	input, err := json.Marshal(struct {
		Message string `json:"message"`
	}{message})
	if err != nil {
		return err
	}
	metadata, err := json.Marshal(origin{source, call.RunID, depth})
	if err != nil {
		return err
	}
	_, err = s.runs.Create(ctx, authz.Caller{TenantID: call.TenantID}, run.Request{
		RunID: id, AgentID: agentID, Input: schema.Object(input), Metadata: schema.Object(metadata),
		Parent: call.RunID, ParentStep: call.StepID,
	})
	if f := fault.From(err); f != nil && f.Kind == fault.Conflict && f.Code == "ALREADY_EXISTS" {
		return nil // another worker that held the parent was faster
	}
	return err
}

// maxWait returns how long to wait for a task.
func maxWait(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return Timeout
	}
	return time.Until(end) - leeway
}

// answerOf returns the answer of a task whose run has ended. It cancels a task
// whose time is up.
func (s *Service) answerOf(ctx context.Context, r *run.Run) (answer, error) {
	a := answer{runID: r.RunID, status: r.Status, failed: true}
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
		if a.text == "" {
			a.text = "The agent ended without a text."
		}
		if out.Truncated || out.OutputTruncated {
			a.text += "\n[A limit cut the agent's answer off.]"
		}
	}
	return a, nil
}

// cancelOrphan cancels a task whose call was stopped, if the parent has ended or
// ends now. A node that stops does nothing, and neither does one that lost the
// parent to another node.
func (s *Service) cancelOrphan(ctx context.Context, call tool.Call, id string) {
	if errors.Is(context.Cause(ctx), work.ErrStopping) || s.ctx.Err() != nil {
		return
	}
	s.orphans.Go(func() {
		parent, err := s.runs.Wait(s.ctx, call.TenantID, call.RunID, maxEnding)
		if err == nil && !parent.Status.Final() || err != nil && !fault.Is(err, fault.NotFound) {
			return
		}
		if _, err := s.runs.Cancel(s.ctx, call.TenantID, id); err != nil && !fault.Is(err, fault.NotFound) && s.ctx.Err() == nil {
			s.log.Warn("a task whose parent has ended could not be cancelled", "run", id, "parent", call.RunID, "tenant", call.TenantID, "err", err)
		}
	})
}

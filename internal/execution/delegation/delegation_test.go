package delegation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runs are runs in memory, which tests end.
type runs struct {
	mu      sync.Mutex
	all     map[string]*run.Run
	made    int
	refuse  error
	sources []string // of the last one that was created
	taken   bool     // another worker created the run meanwhile
}

func newRuns() *runs { return &runs{all: map[string]*run.Run{}} }

func (r *runs) Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	made := &run.Run{RunID: req.RunID, TenantID: who.TenantID, AgentID: req.AgentID, Status: run.Running, Input: req.Input, Metadata: req.Metadata}
	if made.RunID == "" {
		made.RunID = ident.New()
	}
	r.all[made.RunID], r.sources = made, req.Options.Sources
	if r.taken {
		return nil, fault.New(fault.Conflict, "ALREADY_EXISTS", "There is one.")
	}
	r.made++
	return made, nil
}

func (r *runs) Get(_ context.Context, tenant, id string) (*run.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.all[id]
	if found == nil || found.TenantID != tenant {
		return nil, fault.NewNotFound("run")
	}
	c := *found
	return &c, nil
}

func (r *runs) Cancel(_ context.Context, _, id string) (run.CancelAnswer, error) {
	r.end(id, run.Cancelled, "", "The run was cancelled.")
	return run.CancelAnswer{Cancelled: true, RunID: id}, nil
}

// end ends a run.
func (r *runs) end(id string, status run.Status, output, sentence string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := r.all[id]; got != nil && !got.Status.Final() {
		got.Status, got.Output = status, schema.Nullable(output)
		if sentence != "" {
			got.Error = &sentence
		}
	}
}

func (r *runs) status(id string) run.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id].Status
}

// children are the runs of tasks.
func (r *runs) children() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, one := range r.all {
		if strings.Contains(string(one.Metadata), `"delegation"`) {
			ids = append(ids, id)
		}
	}
	return ids
}

// rig is a service over memory with one agent, which has a run.
type rig struct {
	*Service
	t      *testing.T
	runs   *runs
	who    authz.Caller
	parent *agent.Agent
	runID  string
	tools  tool.Set
}

var names = []string{"calculator", "current_time", "spawn_agent", "delegate_to_agent", "http_fetch"}

func newRig(t *testing.T) *rig {
	t.Helper()
	mem := memstore.New()
	agents := agent.New(resource.Deps{
		Backend: mem, Writer: mem, Outbox: resource.NoOutbox{}, Cursors: page.NewCursors([]byte("0123456789abcdef")), Clock: clock.System{},
	}, agent.Options{Tools: names, CheckURL: func(string) error { return nil }})
	r := &rig{Service: New(clock.System{}, slog.New(slog.DiscardHandler)), t: t, runs: newRuns(), who: authz.Caller{
		TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard},
	}}
	r.Connect(r.runs, agents, mem, func(context.Context, string, string, any) (string, error) { return "", nil }, nil)
	limit := int64(7)
	r.parent = r.agent(func(g *agent.Agent) {
		g.Name, g.BuiltInTools = "parent", []string{"calculator", "spawn_agent", "delegate_to_agent", "http_fetch"}
		g.Model = agent.ModelConfig{Provider: "openai_compat", ModelRef: "m", EndpointURL: "https://example.com/v1", APIKeyRef: "ref"}
		g.Fallback = &agent.ModelConfig{Provider: "custom", ModelRef: "builtin/echo"}
		g.Limits = &agent.Limits{MaxSteps: &limit}
		g.Guardrails, g.Policies = []byte(`{"input":["x"]}`), []byte(`{"tool_approvals":[]}`)
		g.ApprovalRequiredTools = []string{"http_fetch"}
		g.MCP, g.Schedule = []byte(`{"servers":["s"]}`), []byte(`{"cron":"* * * * *"}`)
	})
	r.runID = ident.New()
	r.runs.all[r.runID] = &run.Run{RunID: r.runID, TenantID: r.who.TenantID, AgentID: r.parent.ID, Status: run.Running, Metadata: schema.Object(`{}`)}
	registry, err := tool.NewRegistry(tool.Limits{}, r.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	r.tools, _ = registry.Select(registry.Names())
	return r
}

func (r *rig) agent(fill func(*agent.Agent)) *agent.Agent {
	r.t.Helper()
	g := r.agents.Store().Blank()
	fill(g)
	if err := r.agents.Store().Create(r.t.Context(), r.who, g); err != nil {
		r.t.Fatal(err)
	}
	return g
}

func (r *rig) other() *agent.Agent {
	return r.agent(func(g *agent.Agent) { g.Name = "other" })
}

func (r *rig) call(name, id string, arguments map[string]any) tool.Call {
	r.t.Helper()
	enc, err := json.Marshal(arguments, json.Deterministic(true))
	if err != nil {
		r.t.Fatal(err)
	}
	return tool.Call{TenantID: r.who.TenantID, AgentID: r.parent.ID, RunID: r.runID, ID: id, Name: name, Arguments: string(enc)}
}

func (r *rig) do(ctx context.Context, call tool.Call) tool.Result {
	r.t.Helper()
	got, err := r.tools.Call(ctx, call)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// await makes a call again, as the engine does, until it waits for no run.
func (r *rig) await(ctx context.Context, call tool.Call) tool.Result {
	r.t.Helper()
	for {
		got := r.do(ctx, call)
		if got.Await == nil {
			return got
		}
		call.Awaits = got.Await
		time.Sleep(time.Second)
	}
}

func TestDelegate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status           run.Status
		output, sentence string
		want             tool.Result
	}{
		"done":      {run.Completed, `{"text":"42"}`, "", tool.Result{Output: "42"}},
		"silent":    {run.Completed, `{"text":""}`, "", tool.Result{Output: "The agent ended without a text."}},
		"cut-off":   {run.Completed, `{"text":"4","truncated":true}`, "", tool.Result{Output: "4\n[A limit cut the agent's answer off.]"}},
		"failed":    {run.Failed, "", "The model is gone.", tool.Result{Output: "The agent did not do the task: its run ended as failed. The model is gone.", Failed: true}},
		"cancelled": {run.Cancelled, "", "", tool.Result{Output: "The agent did not do the task: its run ended as cancelled.", Failed: true}},
		"rejected":  {run.Rejected, "", "No.", tool.Result{Output: "The agent did not do the task: its run ended as rejected. No.", Failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				other := r.other()
				call := r.call("delegate_to_agent", "c1", map[string]any{"agent_id": other.ID, "message": "6*7 \"now\""})
				done := make(chan tool.Result)
				go func() { done <- r.await(t.Context(), call) }()
				time.Sleep(time.Minute) // however long it takes
				synctest.Wait()
				ids := r.runs.children()
				if len(ids) != 1 {
					t.Fatalf("%d tasks", len(ids))
				}
				task, _ := r.runs.Get(t.Context(), r.who.TenantID, ids[0])
				if want := fmt.Sprintf(`{"source":"delegation","parent_run_id":"%s","depth":1}`, r.runID); string(task.Metadata) != want || task.AgentID != other.ID || string(task.Input) != `{"message":"6*7 \"now\""}` {
					t.Errorf("the task is %+v", task)
				}
				if !test.want.Failed {
					test.want.Sources = []string{model.SourceMessage(other.ID)}
				}
				r.runs.end(ids[0], test.status, test.output, test.sentence)
				if diff := cmp.Diff(test.want, <-done); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				// A repeat finds what was done, and another call is another task.
				if diff := cmp.Diff(test.want, r.do(t.Context(), call)); diff != "" || r.runs.made != 1 {
					t.Errorf("repeated: %d tasks (-want +got):\n%s", r.runs.made, diff)
				}
			})
		})
	}
}

func TestDelegateRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := r.other()
	suspended := fault.WrongState("agent", "suspended", "starting a run")
	for name, test := range map[string]struct {
		arguments map[string]any
		refuse    error
		metadata  string
		want      string
	}{
		"itself":     {map[string]any{"agent_id": r.parent.ID, "message": "x"}, nil, `{}`, "cannot delegate to itself"},
		"no_id":      {map[string]any{"agent_id": "the other one", "message": "x"}, nil, `{}`, "not the id of an agent"},
		"no_message": {map[string]any{"agent_id": other.ID}, nil, `{}`, "missing property 'message'"},
		"absent":     {map[string]any{"agent_id": ident.New(), "message": "x"}, fault.NewNotFound("agent"), `{}`, "no such agent"},
		"suspended":  {map[string]any{"agent_id": other.ID, "message": "x"}, suspended, `{}`, "suspended"},
		"too_deep":   {map[string]any{"agent_id": other.ID, "message": "x"}, nil, `{"source":"delegation","depth":5}`, "may be handed on 5 times"},
		"broken":     {map[string]any{"agent_id": other.ID, "message": "x"}, errors.New("sql: secret"), `{}`, "The tool failed."},
	} {
		r.runs.refuse = test.refuse
		r.runs.all[r.runID].Metadata = schema.Object(test.metadata)
		got := r.do(t.Context(), r.call("delegate_to_agent", "c-"+name, test.arguments))
		if !got.Failed || !strings.Contains(got.Output, test.want) || strings.Contains(got.Output, "secret") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if r.runs.made != 0 {
		t.Errorf("%d tasks were made", r.runs.made)
	}
}

// Metadata are the caller's: whatever they claim, a depth only goes up.
func TestDepth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for metadata, want := range map[string]int{
		`{}`: 1, `{"source":"delegation","depth":1}`: 2, `{"source":"delegation","depth":4}`: 5, `{"source":"delegation","depth":5}`: 0,
		`{"source":"delegation","depth":-100}`: 1, `{"source":"delegation","depth":"x"}`: 1, `{"source":"delegation","depth":1e99}`: 1,
		`{"source":"chat","depth":5}`: 1, `{"depth":5}`: 1, `{"source":["delegation"],"depth":5}`: 1, `{"source":"delegation","depth":9223372036854775807}`: 0,
	} {
		r.runs.all[r.runID].Metadata = schema.Object(metadata)
		got, err := r.depth(t.Context(), r.call("delegate_to_agent", "c", nil))
		if got != want || fault.Is(err, fault.Forbidden) != (want == 0) {
			t.Errorf("%s: %d, %v; want %d", metadata, got, err, want)
		}
	}
}

// Another worker may make the same task at the same moment.
// Who delegates signs whom it asks for what.
func TestMandate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	child := r.other()
	call := r.call("delegate_to_agent", "1", map[string]any{"agent_id": child.ID, "message": "count"})
	r.sign = func(context.Context, string, string, any) (string, error) { return "", errors.New("no keys now") }
	if got := r.do(t.Context(), call); !got.Failed || r.runs.made != 0 {
		t.Errorf("%d runs began without a signature: %v", r.runs.made, got)
	}
	r.sign = func(_ context.Context, tenant, agent string, claims any) (string, error) {
		text, err := json.Marshal(claims)
		return tenant + " " + agent + " signed " + string(text), err
	}
	if got := r.do(t.Context(), call); got.Await == nil {
		t.Fatal(got)
	}
	id := deriveID(call, "task")
	var made struct{ Signature string }
	if err := json.Unmarshal(r.runs.all[id].Metadata, &made, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	text, signed := strings.CutPrefix(made.Signature, r.who.TenantID+" "+r.parent.ID+" signed ")
	var got mandate
	if err := json.Unmarshal([]byte(text), &got); err != nil || !signed {
		t.Fatal(made.Signature, err)
	}
	if time.Since(time.Unix(got.IssuedAt, 0)) > time.Minute {
		t.Errorf("signed at %d", got.IssuedAt)
	}
	got.IssuedAt = 0
	want := mandate{
		Issuer: r.parent.ID, Subject: child.ID, ID: id, Tenant: r.who.TenantID, Parent: r.runID,
		Task: "6c35493a2b937829c9815c39e23af964bc84e5430a7dc104c700bbc0de2b59e3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDelegateTwiceAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runs.taken = true
		call := r.call("delegate_to_agent", "c", map[string]any{"agent_id": r.other().ID, "message": "x"})
		time.AfterFunc(time.Second, func() { r.runs.end(r.runs.children()[0], run.Completed, `{"text":"ok"}`, "") })
		if got := r.await(t.Context(), call); got.Output != "ok" {
			t.Errorf("%+v", got)
		}
	})
}

// What is repeated is recognised by its step, where the caller names one, and
// else by everything that is known of the call.
func TestDerived(t *testing.T) {
	t.Parallel()
	call := tool.Call{RunID: ident.New(), ID: "call_1", Name: "x", Arguments: "{}"}
	same := deriveID(call, "task")
	other := call
	other.Arguments = `{"a":1}`
	if deriveID(call, "task") != same || deriveID(other, "task") == same || deriveID(call, "agent") == same {
		t.Error("calls are not distinguished")
	}
	call.StepID, other.StepID = "s1", "s2"
	if deriveID(call, "task") == deriveID(other, "task") || deriveID(call, "task") == same {
		t.Error("steps are not distinguished")
	}
	other.StepID = "s1"
	if deriveID(call, "task") != deriveID(other, "task") {
		t.Error("a step is not recognised")
	}
}

// A task that takes too long, or waits for a person in vain, is cancelled, and the
// model gets a result that says so.
func TestTaskOutOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		call := r.call("delegate_to_agent", "c", map[string]any{"agent_id": r.other().ID, "message": "x"})
		time.AfterFunc(time.Minute, func() { r.runs.end(r.runs.children()[0], run.AwaitingApproval, "", "") })
		began := time.Now()
		got := r.await(t.Context(), call)
		if !got.Failed || !strings.Contains(got.Output, "its run was awaiting_approval. It was cancelled") || time.Since(began) != Timeout {
			t.Errorf("%+v after %v", got, time.Since(began))
		}
		if got := r.runs.status(r.runs.children()[0]); got != run.Cancelled {
			t.Errorf("the task is %s", got)
		}
	})
}

// The answer of a run that was deleted before it was read is a failure that the
// model reads.
func TestTaskIsDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	call := r.call("delegate_to_agent", "c", map[string]any{"agent_id": r.other().ID, "message": "x"})
	call.Awaits = r.do(t.Context(), call).Await
	delete(r.runs.all, call.Awaits.RunID)
	if got := r.do(t.Context(), call); !got.Failed || !strings.Contains(got.Output, "was deleted") {
		t.Errorf("%+v", got)
	}
	if r.runs.made != 1 {
		t.Errorf("%d tasks were made", r.runs.made)
	}
}

// A task inherits what the parent's run has read, and the parent has then read what
// the task's run has, and a message of the other agent.
func TestSourcesOfTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := r.other()
	call := r.call("delegate_to_agent", "c1", map[string]any{"agent_id": other.ID, "message": "Look."})
	call.Sources = []string{model.SourceWeb}
	call.Awaits = r.do(t.Context(), call).Await
	if diff := cmp.Diff([]string{"web"}, r.runs.sources); diff != "" {
		t.Error(diff)
	}
	r.runs.end(call.Awaits.RunID, run.Completed, `{"text":"So.","sources":["mcp:crm","web"]}`, "")
	if diff := cmp.Diff([]string{"mcp:crm", model.SourceMessage(other.ID), "web"}, r.do(t.Context(), call).Sources); diff != "" {
		t.Error(diff)
	}
}

package engine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/engine"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/tool"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/worksql"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/openaiclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a database, a simulated model and an agent; nodes drive its runs.
type harness struct {
	t       testing.TB
	db      *sqldb.DB
	runs    *runsql.Store
	log     *runsql.Events
	sim     *modeltest.Server
	who     authz.Caller
	agents  *agents
	gate    policy.Gate
	rules   policy.Governor // nil: there is no governance
	tools   []tool.Tool
	window  int           // the model's context in tokens; 0: not known
	client  model.Client  // nil: one that asks sim over HTTP
	model   *fakeModel    // client, where it is one
	counter model.Counter // nil: tokens are estimated
	meter   quota.Meter   // nil: nothing is counted
	limits  model.Limits  // of the provider
	rests   bool          // there is a circuit breaker
	share   model.Share   // of the next node
	hub     *event.Hub    // of all nodes; nil: each has its own
	logs    io.Writer     // nil: those of the test
	redacts run.Redaction // nil: all is stored
}

// bubbleClock is the time of a synctest bubble. A queue takes it for a clock that a
// test moves, which the database's clock cannot follow.
type bubbleClock struct{ clock.System }

// Advance marks the clock.
func (bubbleClock) Advance(time.Duration) {}

// agents is a run.Agents with one agent.
type agents struct {
	mu   sync.Mutex
	spec run.AgentSpec
	gone bool
}

func (a *agents) Spec(_ context.Context, _, id string, _ int64) (*run.AgentSpec, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone || id != a.spec.ID {
		return nil, fault.NewNotFound("agent")
	}
	spec := a.spec
	return &spec, nil
}

// Patched knows only one patch: of the text of the system.
func (a *agents) Patched(ctx context.Context, tenant, id string, version int64, patch jsontext.Value) (*run.AgentSpec, error) {
	spec, err := a.Spec(ctx, tenant, id, version)
	if err == nil {
		err = json.Unmarshal(patch, &struct{ System *string }{&spec.System}, json.MatchCaseInsensitiveNames(true))
	}
	return spec, err
}

func (a *agents) delete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
}

// chats is a client of chat completions, which is asked for nothing else.
type chats struct {
	model.Client
	model.Forwarder
	model.AudioClient
	model.ImageClient
}

func newHarness(t testing.TB, db *sqldb.DB, opts ...modeltest.Option) *harness {
	return &harness{
		t: t, db: db, runs: runsql.New(db), log: runsql.NewEvents(db), sim: modeltest.New(t, opts...),
		who:  authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard}},
		gate: policy.AllowAll{}, tools: tool.Builtins(clock.System{}),
		agents: &agents{spec: run.AgentSpec{ID: ident.New(), Version: 1, System: "Be brief.", Tools: []string{"calculator"}}},
	}
}

// node is one process that drives runs.
type node struct {
	*run.Service
	h      *harness
	engine *engine.Engine
	runner *work.Runner
	stop   func()
}

// start starts a node. Its writes go through writer, if it is not nil.
func (r *harness) start(name string, slots int, writer txn.Writer) *node {
	r.t.Helper()
	if writer == nil {
		writer = r.db
	}
	hub := r.hub
	if hub == nil {
		hub = event.NewHub()
	}
	var runner *work.Runner
	queue := worksql.New(r.db, bubbleClock{}, func(string) { runner.Wake() })
	if _, err := queue.Reclaim(r.t.Context(), name); err != nil {
		r.t.Fatal(err)
	}
	in, out := 1.0, 2.0
	catalogue, err := model.NewCatalogue([]model.Provider{{
		Name: model.DefaultProvider, BaseURL: r.sim.URL, Limits: r.limits,
		Models: []model.Offer{
			{ID: "sim-model", ContextWindow: r.window, PriceFields: model.PriceFields{Input: &in, Output: &out}},
			{ID: "other-model", PriceFields: model.PriceFields{Input: &in, Output: &out}},
		},
	}}, "sim-model")
	if err != nil {
		r.t.Fatal(err)
	}
	tools, err := tool.NewRegistry(tool.Limits{}, r.tools...)
	if err != nil {
		r.t.Fatal(err)
	}
	logs := r.logs
	if logs == nil {
		logs = r.t.Output()
	}
	logger := slog.New(slog.NewTextHandler(logs, nil))
	transport := modelcall.NewTransport()
	client := r.client
	if client == nil {
		client = model.Router{Wire: openaiclient.New(openaiclient.Config{Operator: transport, MaxAttempts: 1})}
	}
	limiter := &model.Limiter{Next: chats{Client: client}, Clock: clock.System{}}
	if r.rests {
		limiter.Next = &model.Breaker{Next: limiter.Next, Clock: clock.System{}}
	}
	limiter.SetShare(r.share)
	eng := engine.New(engine.Config{
		Writer: writer, Runs: r.redacts.Store(r.runs), Log: r.redacts.Log(r.log), Queue: queue, Hub: hub, Agents: r.agents,
		Redaction: r.redacts, Models: model.Resolver{Catalogue: catalogue},
		Client: model.Router{Wire: limiter}, Limits: limiter, Counter: r.counter,
		Tools: tools, Gate: r.gate, Governor: r.rules, Watchers: &run.Watchers{}, Clock: clock.System{}, Logger: logger, Node: name, Lease: 5 * time.Second, Meter: r.meter,
	})
	runner = work.NewRunner(work.Config{
		Kind: engine.WorkKind, Owner: name, Queue: queue, Handler: eng.Handle, Slots: slots, Lease: 5 * time.Second,
		Backoff: func(int) time.Duration { return 10 * time.Millisecond }, Logger: logger,
	})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { defer close(served); eng.Serve(ctx) }()
	n := &node{h: r, engine: eng, runner: runner, Service: &run.Service{
		Runs: r.redacts.Store(r.runs), Writer: writer, Queue: queue, Log: r.redacts.Log(r.log), Hub: hub, Agents: r.agents, Starter: eng,
		Redaction: r.redacts,
		Cursors:   page.NewCursors([]byte("0123456789abcdef")), Clock: clock.System{}, WorkKind: engine.WorkKind,
		Meter: r.meter,
	}}
	eng.Connect(runner, run.Carried{Service: n.Service})
	n.Watchers = eng.Watchers
	eng.Watchers.Add(n.OnRunState)
	if slots > 0 {
		if err := runner.Start(); err != nil {
			r.t.Fatal(err)
		}
	}
	n.stop = sync.OnceFunc(func() {
		ctx, cancelStop := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancelStop()
		if err := runner.Stop(ctx); err != nil {
			r.t.Error(err)
		}
		cancel()
		<-served
		transport.CloseIdleConnections()
	})
	r.t.Cleanup(n.stop)
	return n
}

// begin starts a run with a message.
func (n *node) begin(req run.Request) *run.Run {
	n.h.t.Helper()
	req.AgentID = n.h.agents.spec.ID
	if req.Input == nil {
		req.Input = schema.Object(`{"message":"What is 6 times 7?"}`)
	}
	r, err := n.Create(n.h.t.Context(), n.h.who, req)
	if err != nil {
		n.h.t.Fatal(err)
	}
	return r
}

// end waits until a run has ended, and returns it.
func (n *node) end(id string) *run.Run {
	n.h.t.Helper()
	r, err := n.Wait(n.h.t.Context(), n.h.who.TenantID, id, 30*time.Second)
	if err != nil {
		n.h.t.Fatal(err)
	}
	if !r.Status.Final() {
		n.h.t.Fatalf("the run is still %s", r.Status)
	}
	return r
}

// events reads the whole log of a run.
func (r *harness) events(id string) []event.Event {
	r.t.Helper()
	all, err := r.log.Read(r.t.Context(), r.who.TenantID, id, 0, 100_000)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func (r *harness) steps(id string) []run.Step {
	r.t.Helper()
	all, err := r.runs.ListSteps(r.t.Context(), r.who.TenantID, id, 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func (r *harness) output(got *run.Run) (out run.Output) {
	r.t.Helper()
	if len(got.Output) == 0 {
		return out
	}
	if err := json.Unmarshal(got.Output, &out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// names returns the names of events; equal neighbours count as one.
func names(events []event.Event) (out []string) {
	for _, e := range events {
		if len(out) == 0 || out[len(out)-1] != e.Name {
			out = append(out, e.Name)
		}
	}
	return out
}

// checkEnded checks the invariants of a run that ended.
func (r *harness) checkEnded(got *run.Run) {
	r.t.Helper()
	events, steps := r.events(got.RunID), r.steps(got.RunID)
	last, finals := int64(0), 0
	for _, e := range events {
		if e.Seq <= last {
			r.t.Errorf("seq %d follows %d", e.Seq, last)
		}
		last = e.Seq
		if run.FinalEvent(e.Name) {
			finals++
		}
	}
	if finals != 1 || !run.FinalEvent(events[len(events)-1].Name) {
		r.t.Errorf("%d final events, the last event is %s", finals, events[len(events)-1].Name)
	}
	ids := map[string]bool{}
	var tokens, calls int64
	for i, s := range steps {
		if s.Seq != int64(i)+1 || ids[s.StepID] || s.CompletedAt == nil {
			r.t.Errorf("step %d is %+v", i, s)
		}
		ids[s.StepID] = true
		var m run.StepMetrics
		if err := json.Unmarshal(s.Metrics, &m); err != nil {
			r.t.Fatal(err)
		}
		tokens += m.InputTokens + m.OutputTokens
		calls += m.LLMCalls
	}
	if m := got.Metrics; m.InputTokens+m.OutputTokens != tokens || m.LLMCallsCount != calls || m.StepsCount != int64(len(steps)) {
		r.t.Errorf("metrics %+v do not sum up to %d tokens, %d calls, %d steps", m, tokens, calls, len(steps))
	}
}

// dying is a writer whose process dies with its nth write: that one and all later
// ones fail.
type dying struct {
	txn.Writer
	mu   sync.Mutex
	left int
}

func dieAtWrite(w txn.Writer, n int) *dying { return &dying{Writer: w, left: n} }

func (d *dying) died() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left <= 0
}

var errDead = errors.New("the process died")

func (d *dying) Write(ctx context.Context, do func(txn.Tx) error) error {
	d.mu.Lock()
	d.left--
	left := d.left
	d.mu.Unlock()
	if left <= 0 {
		return errDead
	}
	return d.Writer.Write(ctx, do)
}

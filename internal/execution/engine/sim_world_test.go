package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/engine"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/governance/constitution"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/tool"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

const simLease = 3 * time.Second

// world is the state of one simulation.
type world struct {
	t      *testing.T
	kind   sqldbtest.Engine
	seed   uint64
	rng    *rand.Rand // of the play's own goroutine
	tally  *tally
	db     *sqldb.DB
	runs   *runsql.Store
	log    *runsql.Events
	who    authz.Caller
	agents *agents
	limits model.Limits // of the provider
	cap    float64      // US dollars that the agent's permissions let a run spend; 0: no cap
	hub    *event.Hub   // nil: nodes hear nothing of each other
	nodes  []*simNode
	names  int
	api    *simNode // takes calls, and drives nothing

	mu         sync.Mutex
	healthy    chan struct{} // closed at the end: nothing fails any more
	authorized bool
	asked      map[string]int  // model calls, by conversation and model
	effects    map[string]int  // of tools, by run and call
	paid       map[string]int  // answers that arrived, by run, conversation and model
	lasting    map[string]bool // runs that a model refused for good
	downUntil  time.Time       // the provider is down
	awayUntil  time.Time       // the database takes no writes
	quiet      time.Time       // the provider asks to be left alone
	history    []string
	ids        []string                 // of the runs that were accepted, or may have been
	accepted   map[string]bool          // of these, the former
	decided    map[string]int           // decisions that counted, by approval
	seen       map[string]*journal      // by run
	spent      map[string]float64       // US dollars of all runs that spend from a budget, by its id
	rules      map[string]policy.Effect // by action
	rulings    map[string]verdict       // the newest, by run, action and arguments
	laws       laws
	judges     []*constitution.Service // of all nodes
}

// play simulates one world.
func play(t *testing.T, cfg sqldb.Config, kind sqldbtest.Engine, seed uint64, tally *tally, loud bool) {
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, kind: kind, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), tally: tally, db: db,
		runs: runsql.New(db), log: runsql.NewEvents(db),
		who:     authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard}},
		healthy: make(chan struct{}), asked: map[string]int{}, effects: map[string]int{}, paid: map[string]int{}, lasting: map[string]bool{}, accepted: map[string]bool{},
		decided: map[string]int{}, seen: map[string]*journal{}, spent: map[string]float64{},
		rules: map[string]policy.Effect{}, rulings: map[string]verdict{}, laws: laws{counted: map[string]int{}},
	}
	w.agents = &agents{spec: w.agent()}
	if luck := seeded(seed, "limits"); luck.IntN(2) == 0 {
		w.limits = model.Limits{MaxConcurrency: 1 + luck.IntN(3)}
		if luck.IntN(3) == 0 {
			w.limits.TokensPerMinute = 2000 + luck.IntN(5000)
		}
		w.happened("provider has limits", fmt.Sprint(w.limits))
	}
	if luck := seeded(seed, "permissions"); luck.IntN(2) == 0 {
		w.cap = float64(5+luck.IntN(60)) / 1000
	}
	if w.chance(50) {
		w.hub = event.NewHub()
	}
	defer func() {
		w.api.die()
		for _, n := range w.nodes {
			n.die()
		}
		for _, n := range append(w.nodes, w.api) {
			<-n.gone
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() || loud {
			t.Logf("seed %d; again: AGENTD_SIM_SEED=%d go test ./internal/execution/engine -run TestSimulation/%s -v\n%s",
				seed, seed, kind, strings.Join(w.history, "\n"))
		}
	}()
	w.api = w.open("api", 0)
	w.join()
	w.live()
	w.heal()
}

// agent is the world's only agent.
func (w *world) agent() run.AgentSpec {
	spec := run.AgentSpec{
		ID: ident.New(), Version: 1, System: "Be brief.", Tools: []string{"act", "safe", "pay", "mail", "ask_user"},
		ApprovalTimeout: time.Duration(20+w.rng.IntN(60)) * time.Second,
	}
	if w.chance(50) {
		spec.ApprovalTools = []string{"pay"}
	} else {
		spec.ApprovalRules = []run.ApprovalRule{{Tool: "pay", Approval: run.ApprovalWhen, Condition: "arguments.n > 9"}}
	}
	if w.chance(85) {
		spec.ModelRetry = run.DefaultModelRetry
	}
	if w.chance(40) {
		spec.Fallback = &model.Spec{ModelRef: "spare-model"}
	}
	limit := func(percent, least, more int) *int64 {
		if !w.chance(percent) {
			return nil
		}
		n := int64(least + w.rng.IntN(more))
		return &n
	}
	spec.Limits.MaxDurationMS = limit(20, 1000, 8000)
	spec.Limits.MaxToolCalls = limit(15, 0, 5)
	spec.Limits.MaxSteps = limit(10, 1, 8)
	spec.Limits.MaxTokensPerRun = limit(10, 50, 500)
	if n := limit(25, 1, 30); n != nil {
		usd := float64(*n) / 1000
		spec.Limits.MaxCostUSD = &usd
	}
	return spec
}

// costCap is what the permissions of the agent allow, which an admin reduces with every
// third run. It implements run.CostCap.
func (w *world) costCap(context.Context, string, string) (usd float64, bounded, lenient bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cap / float64(1+len(w.ids)/3), w.cap > 0, false, nil
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// tell logs what happened, with the bubble's time.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, time.Now().Format("15:04:05.000000 ")+fmt.Sprintf(format, args...))
}

// happened counts and logs something.
func (w *world) happened(what, who string) {
	w.tally.count(what)
	w.tell("%s (%s)", what, who)
}

func (w *world) isHealthy() bool {
	select {
	case <-w.healthy:
		return true
	default:
		return false
	}
}

// simNode is a process. It dies without a trace: from then on nothing that it does
// reaches the world.
type simNode struct {
	*run.Service
	w        *world
	republic republic
	name     string
	runner   *work.Runner
	limiter  *model.Limiter
	dead     atomic.Bool
	gone     chan struct{} // closed when what ran in it has ended
	quit     func()
	once     sync.Once

	mu      sync.Mutex
	rng     *rand.Rand
	after   int    // writes until the fault; 0: there is none
	fault   string // one of the faults
	stalled bool
}

// What happens to a write.
const (
	crashBefore = "crash before a write"
	crashAfter  = "crash after a write"
	refusal     = "write refused"
	unsure      = "write made and reported as failed"
)

func (w *world) open(name string, slots int) *simNode {
	w.names++
	n := &simNode{w: w, name: name, gone: make(chan struct{}), rng: rand.New(rand.NewPCG(w.seed, uint64(100+w.names)))}
	n.republic = n.found()
	w.mu.Lock()
	w.judges = append(w.judges, n.republic.laws)
	w.mu.Unlock()
	hub := w.hub
	if hub == nil {
		hub = event.NewHub()
	}
	queue := simQueue{worksql.New(w.db, bubbleClock{}, func(string) { n.runner.Wake() }), n}
	if _, err := queue.Reclaim(context.Background(), name); err != nil {
		w.t.Fatal(err)
	}
	in, out := 1.0, 2.0
	catalogue, err := model.NewCatalogue([]model.Provider{{
		Name: model.DefaultProvider, BaseURL: "http://127.0.0.1:1/v1", Limits: w.limits, Models: []model.Offer{
			{ID: "sim-model", PriceFields: model.PriceFields{Input: &in, Output: &out}},
			{ID: "spare-model", PriceFields: model.PriceFields{Input: &in, Output: &out}},
		},
	}}, "sim-model")
	if err != nil {
		w.t.Fatal(err)
	}
	all := append(tool.Builtins(clock.System{}), n.tool("act", false), n.tool("safe", true), n.tool("pay", false), n.tool("mail", false))
	tools, err := tool.NewRegistry(tool.Limits{}, all...)
	if err != nil {
		w.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(historyWriter{n}, nil))
	writer := simWriter{n}
	meter := w.meter(writer, logger)
	n.limiter = &model.Limiter{Next: chats{Client: network{n}}, Clock: clock.System{}}
	eng := engine.New(engine.Config{
		Writer: writer, Runs: w.runs, Log: w.log, Queue: queue, Hub: hub, Agents: w.agents,
		Models: model.Resolver{Catalogue: catalogue}, Client: n.limiter, Limits: n.limiter, Tools: tools, Gate: policy.AllowAll{}, Governor: simGovernor{n},
		Clock: clock.System{}, Logger: logger, Node: name, Lease: simLease, Meter: meter,
	})
	n.runner = work.NewRunner(work.Config{
		Kind: engine.WorkKind, Owner: name, Queue: queue, Handler: eng.Handle, Slots: max(slots, 1), Lease: simLease,
		Poll: 700 * time.Millisecond, Backoff: func(int) time.Duration { return 20 * time.Millisecond }, Logger: logger,
	})
	n.Service = &run.Service{
		Runs: w.runs, Writer: writer, Queue: queue, Log: w.log, Hub: hub, Agents: w.agents, Starter: eng,
		Cursors: page.NewCursors([]byte("0123456789abcdef")), Clock: clock.System{}, WorkKind: engine.WorkKind, Meter: meter,
		CostCap: w.costCap,
	}
	eng.Connect(n.runner, run.Carried{Service: n.Service})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { defer close(served); eng.Serve(ctx) }()
	n.quit = func() {
		defer close(n.gone)
		stop, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := n.runner.Stop(stop); err != nil {
			w.t.Errorf("seed %d: %s: %v", w.seed, name, err)
		}
		cancel()
		<-served
	}
	if slots > 0 {
		if err := n.runner.Start(); err != nil {
			w.t.Fatal(err)
		}
	}
	return n
}

// die ends the process.
func (n *simNode) die() {
	n.dead.Store(true)
	n.once.Do(func() { go n.quit() })
}

// moment returns a random duration of up to some milliseconds.
func (n *simNode) moment(ms int) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(1+n.rng.IntN(ms*1000)) * time.Microsecond
}

// due returns the fault of the current write, if there is one.
func (n *simNode) due() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.after == 0 {
		return ""
	}
	if n.after--; n.after > 0 || n.w.isHealthy() {
		return ""
	}
	return n.fault
}

func (n *simNode) plan(fault string, after int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault, n.after = fault, after
}

func (n *simNode) stall(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stalled = on
}

// hears returns an error if the process does not reach its queue.
func (n *simNode) hears() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.dead.Load():
		return errDead
	case n.w.isAway():
		return fault.New(fault.Unavailable, "UNAVAILABLE", "The database is away.")
	case n.stalled:
		return fault.New(fault.Unavailable, "UNAVAILABLE", "The process stalls.")
	}
	return nil
}

// simWriter is a node's connection to the database: it is slow, and fails as
// planned.
type simWriter struct{ n *simNode }

func (s simWriter) Write(ctx context.Context, do func(txn.Tx) error) error {
	n := s.n
	rest(n.moment(3))
	if n.dead.Load() {
		return errDead
	}
	if n.w.isAway() {
		n.w.tally.count("database: written to while it is away")
		return fault.New(fault.Unavailable, "UNAVAILABLE", "The database is away.")
	}
	planned := n.due()
	switch planned {
	case crashBefore:
		n.w.happened(planned, n.name)
		n.die()
		return errDead
	case refusal:
		n.w.happened(planned, n.name)
		return fault.New(fault.Unavailable, "UNAVAILABLE", "The database is busy.")
	}
	err := n.w.db.Write(ctx, do)
	if err == nil && planned != "" {
		n.w.happened(planned, n.name)
		if planned == crashAfter {
			n.die()
			return errDead
		}
		return fault.New(fault.Unavailable, "UNAVAILABLE", "The connection broke.")
	}
	rest(n.moment(3))
	return err
}

// simQueue is a node's queue while the node is alive.
type simQueue struct {
	*worksql.Queue
	n *simNode
}

func (q simQueue) Claim(ctx context.Context, kind, owner string, n int, lease time.Duration) ([]work.Lease, error) {
	if err := q.n.hears(); err != nil {
		return nil, err
	}
	got, err := q.Queue.Claim(ctx, kind, owner, n, lease)
	for _, l := range got {
		q.n.w.tell("%s claims %s, attempt %d", owner, q.n.w.short(l.Key), l.Attempt)
	}
	return got, err
}

func (q simQueue) Renew(ctx context.Context, held []work.Lease, lease time.Duration) ([]work.Lease, error) {
	if err := q.n.hears(); err != nil {
		return nil, err
	}
	lost, err := q.Queue.Renew(ctx, held, lease)
	for range lost {
		q.n.w.happened("lease ran out", q.n.name)
	}
	return lost, err
}

func (q simQueue) Release(ctx context.Context, held []work.Lease, due time.Time) error {
	if err := q.n.hears(); err != nil {
		return err
	}
	return q.Queue.Release(ctx, held, due)
}

// tool acts on the world, unless its process is dead by then.
func (n *simNode) tool(name string, repeatable bool) tool.Tool {
	return tool.Tool{
		Name: name, Parameters: jsontext.Value(`{"type":"object"}`), Idempotent: repeatable,
		Run: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			w := n.w
			w.obey(ctx, c)
			took := n.moment(200)
			if n.moment(100) < 5*time.Millisecond { // longer than a lease
				took *= 40
			}
			rest(took / 2)
			if n.dead.Load() {
				w.tally.count("tool: died under way")
				return tool.Result{}, errDead
			}
			w.mu.Lock()
			needs := name == "mail" && !w.authorized
			if !needs {
				w.effects[c.RunID+"/"+c.ID]++
				if times := w.effects[c.RunID+"/"+c.ID]; times > 1 {
					w.tally.count("tool: repeated")
					if !repeatable {
						w.t.Errorf("seed %d: the call %s of %s was made %d times", w.seed, c.ID, name, times)
					}
				}
			}
			w.mu.Unlock()
			if needs {
				w.happened("tool: needs authorization", n.name)
				return tool.Result{Authorize: &tool.Authorization{ServerID: "srv-" + w.who.TenantID, Name: "Mail", URL: "https://example.com/a"}}, nil
			}
			w.tell("%s does %s %s of %s", n.name, name, c.ID, w.short(c.RunID))
			rest(took / 2)
			return tool.Result{Output: "did " + name + " " + c.Arguments}, nil
		},
	}
}

// historyWriter adds a node's log to the history of the world.
type historyWriter struct{ n *simNode }

func (s historyWriter) Write(b []byte) (int, error) {
	s.n.w.tell("%s: %s", s.n.name, strings.TrimSpace(string(b)))
	return len(b), nil
}

// short abbreviates a run's id in the history.
func (w *world) short(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("run %d", 1+slices.Index(w.ids, id))
}

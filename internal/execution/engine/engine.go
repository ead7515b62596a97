// Package engine drives runs. A run is a journal: every step's result is
// committed before the next step begins, under a lease that fences off workers
// that lost it. After a crash any node continues from the last committed step.
//
// One goroutine drives one run, from the commit that starts it to the commit
// that ends or suspends it. A run that waits holds no goroutine. The goroutine's
// state is an attempt, which has three parts: the journal stores, the
// conversation is what the model reads, the turn is what the model asked for.
package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/agents/agent"
	"agentd/internal/base/clock"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/tool"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the engine's items in the table of work; the key is
// the run's id.
const WorkKind = "run"

// maxAttempts bounds how often a run is taken over without reaching its end:
// what fails so often fails because of the run itself.
const maxAttempts = 1000

// Models resolves an agent's model to an endpoint.
type Models interface {
	Resolve(ctx context.Context, tenant string, spec model.Spec) (model.Target, error)
}

// Runner is the service that claims items and holds leases; work.Runner.
type Runner interface {
	// Reserve takes one of the node's slots for a run that is about to be
	// enqueued with a lease; not ok means that the node is full.
	Reserve() (work.Slot, bool)
	Wake()
}

// Service is what the engine needs of runs; run.Carried implements it.
type Service interface {
	// Continuation is the token by which a truncated run is continued.
	Continuation(tenant, id string, step int64) string
	// Expire ends a run that has waited too long, and reports whether it did.
	Expire(tx txn.Tx, tenant, id string, now time.Time) (ended bool, err error)
	// AwaitMachine ends a run whose machine has been silent for too long. It returns when
	// to look again; zero: the run's item is deleted.
	AwaitMachine(tx txn.Tx, tenant, id string, now time.Time) (next time.Time, err error)
}

// Artifacts stores the files that runs produce.
type Artifacts interface {
	// Save stores the bytes. The files are the run's artifacts once the op has
	// committed.
	Save(ctx context.Context, tenant, runID string, files []tool.File) ([]run.Artifact, txn.Op, error)
	// Written returns the files of a run as a judge sees them, the newest of each name.
	Written(ctx context.Context, tenant, runID string) ([]judge.File, error)
}

// RemoteTools are the tools of MCP servers.
type RemoteTools interface {
	// Any reports quickly whether an agent has remote tools, from its mcp field
	// and from servers that are assigned to it.
	Any(ctx context.Context, tenant, agent string, mcp schema.Object) (bool, error)
	// Tools returns them, with names and limits that the registry accepts. A
	// server that cannot be reached adds none and is logged.
	Tools(ctx context.Context, tenant, agent string, mcp schema.Object) (tool.Set, error)
}

// ImageTools returns the tools that generate images for an agent with these
// image_generation settings.
type ImageTools interface {
	Set(settings jsontext.Value) tool.Set
}

// SkillTools returns the tools that skills bring to their agent.
type SkillTools interface {
	Set(skills []agent.Skill) tool.Set
}

// Observer receives what happened, for metrics. Nil fields are skipped.
type Observer struct {
	RunEnded func(status run.Status, took time.Duration)
	Recover  func()
	ToolDone func(name string, failed bool, took time.Duration)
	// StepKilled is called for each step that is given up because the process died
	// during it.
	StepKilled func(kind run.StepType)
}

// Config has an engine's dependencies and settings. Observer and Tracer may be
// left out.
type Config struct {
	Writer txn.Writer
	Runs   run.Store
	Log    run.DraftLog
	Queue  work.Queue
	Hub    *event.Hub
	Agents run.Agents
	Models Models
	Client model.Client
	Limits *model.Limiter // that Client keeps to; nil: there are no limits
	// Counter has models count requests that may be too long; nil: they are estimated.
	Counter model.Counter
	Tools   *tool.Registry
	Gate    policy.Gate
	// Governor judges acts by the rules of companies; nil: there is no governance.
	Governor policy.Governor
	Clock    clock.Clock
	Logger   *slog.Logger

	Memory        run.MemorySource  // nil: agents have no memory
	Conversations run.Conversations // of sessions; nil: there are none
	Responses     run.Conversations // of runs with Options.Follows; nil: there are none
	Remote        RemoteTools       // nil: there are no MCP servers
	Images        ImageTools        // nil: agents cannot generate images
	Skills        SkillTools        // nil: skills have no effect
	Machines      Machines          // nil: no agent is bound to a machine
	Artifacts     Artifacts         // nil: files of tools are not stored
	Watchers      *run.Watchers
	// Violated, if set, is called for each guardrail violation, in the commit
	// that records it.
	Violated func(tx txn.Tx, r *run.Record, v policy.Violation) error
	// Suspended reports whether an item belongs to a suspended tenant; if so its
	// lease has been released until the tenant is reactivated. It is called before
	// each model call. Nil: tenants are never suspended.
	Suspended func(ctx context.Context, held work.Lease) (bool, error)
	Meter     quota.Meter // nil: nothing is counted or limited

	// Redaction returns what replaces data that tenants do not store; nil: all of it is
	// stored. What Runs and Log write has passed it already.
	Redaction run.Redaction

	// Caps returns limits that no run exceeds, whatever its own are; nil: there are none.
	Caps func() run.Limits
	// MaxSteps returns the steps of runs that do not limit them, and FlushEvery after how
	// long text of a running step is stored; nil: the first defaults.
	MaxSteps   func() int64
	FlushEvery func() time.Duration

	Node     string        // owner of this node's leases
	Lease    time.Duration // how long the runs of a dead node wait
	Observer Observer
	Tracer   trace.Tracer // nil: no spans
}

// Engine drives runs on one node.
type Engine struct {
	Config
	runner    Runner
	service   Service
	drafts    *flusher
	waking    *waking
	limits    *limitQueue
	backlog   backlog
	suspects  *suspects
	gauge     *contextwindow.Gauge
	uncounted uncounted
	attempts  *registry
}

// New returns an engine. Bind it to its runner before use.
func New(c Config) *Engine {
	e := &Engine{Config: c, gauge: contextwindow.NewGauge(), attempts: newRegistry()}
	e.drafts, e.waking, e.limits, e.suspects = newFlusher(e), newWaking(e), newLimitQueue(e), newSuspects()
	return e
}

// Connect sets the runner, which calls Handle, and the service of runs, which are
// built after the engine because they need it.
func (e *Engine) Connect(r Runner, s Service) { e.runner, e.service = r, s }

// Serve handles cancellations from any node, stores drafts of text and wakes runs
// that wait for a model, or for a limit of its provider, until ctx ends. It must end after the runner.
func (e *Engine) Serve(ctx context.Context) {
	defer e.attempts.dropPrepared()
	defer e.Hub.OnSignal(run.SignalCancelled, e.attempts.abort)()
	for _, why := range run.Endings() {
		defer e.Hub.OnSignal(why.Signal, func(id string) { e.attempts.end(id, why) })()
	}
	var wakes sync.WaitGroup
	wakes.Go(func() { e.waking.serve(ctx) })
	wakes.Go(func() { e.limits.serve(ctx) })
	defer wakes.Wait()
	e.drafts.serve(ctx)
}

// Active returns the number of runs that this node drives, for metrics.
func (e *Engine) Active() int { return e.attempts.countActive() }

// write commits ops together.
func (e *Engine) write(ctx context.Context, ops ...txn.Op) error {
	return e.Writer.Write(ctx, func(tx txn.Tx) error {
		for _, op := range ops {
			if err := op(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// ofStep returns the run of a check with the step that is checked.
func ofStep(r policy.Run, step run.StepRef) policy.Run {
	r.StepID = step.StepID
	return r
}

func subject(r *run.Record, spec *run.AgentSpec) policy.Run {
	return policy.Run{TenantID: r.TenantID, RunID: r.RunID, AgentID: r.AgentID, Guardrails: []byte(spec.Guardrails)}
}

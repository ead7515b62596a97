// Package engine drives runs. A run is a journal: every step's result is
// committed before the next step begins, under a lease that fences off workers
// that lost it. After a crash any node goes on from the last committed step.
//
// One goroutine holds one run, from the commit that starts it to the commit
// that ends it or puts it to sleep. A run that waits holds none.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/tool"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the engine's items in the table of work; the key is
// the run's id.
const WorkKind = "run"

// maxAttempts bounds how often a run is taken up without getting to its end:
// what fails so often fails because of the run itself.
const maxAttempts = 1000

// Log is what the engine needs of the event log beyond appending.
type Log interface {
	event.Log
	// DeleteDraftsTx deletes the text chunks that were stored before their step
	// committed, for every step up to one.
	DeleteDraftsTx(tx txn.Tx, tenant, stream string, step int64) error
}

// Models resolves what an agent asks for to an endpoint.
type Models interface {
	Resolve(ctx context.Context, tenant string, spec model.Spec) (model.Target, error)
}

// Runner is the service that claims items and holds leases; work.Runner.
type Runner interface {
	// Reserve takes one of the node's places for a run that is about to be
	// enqueued held; not ok means that the node is full.
	Reserve() (work.Slot, bool)
	Wake()
}

// Service is what the engine needs of run.Service.
type Service interface {
	// Continuation is the token by which a truncated run is continued.
	Continuation(tenant, id string, step int64) string
	// Expire says whether the run's time was up, and ends it then.
	Expire(tx txn.Tx, tenant, id string, now time.Time) (ended bool, err error)
}

// Artifacts keeps the files that runs make.
type Artifacts interface {
	// Save stores the bytes. The files are the run's artifacts once the op has
	// committed.
	Save(ctx context.Context, tenant, runID string, files []tool.File) ([]run.Artifact, txn.Op, error)
}

// RemoteTools gives the tools that agents have from outside, from MCP servers.
type RemoteTools interface {
	// Any says quickly whether an agent has any, from its mcp field and from
	// servers that are assigned to it.
	Any(ctx context.Context, tenant, agent string, mcp schema.Object) (bool, error)
	// Tools gives them; limits and names as the registry demands. A server that
	// cannot be reached adds none, and says so in the log.
	Tools(ctx context.Context, tenant, agent string, mcp schema.Object) (tool.Set, error)
}

// ImageTools gives the tool that makes pictures to agents with such an
// image_generation.
type ImageTools interface {
	Set(settings jsontext.Value) tool.Set
}

// Observer is told what happened, for metrics. Nil fields are skipped.
type Observer struct {
	RunEnded func(status run.Status, took time.Duration)
	Recover  func()
}

// Config is what an engine is made of. Observer and Tracer may be left out.
type Config struct {
	Writer txn.Writer
	Runs   run.Store
	Log    Log
	Queue  work.Queue
	Hub    *event.Hub
	Agents run.Agents
	Models Models
	Client model.Client
	Tools  *tool.Registry
	Gate   policy.Gate
	Clock  clock.Clock
	Logger *slog.Logger

	Memory        run.MemorySource  // nil: nobody remembers anything
	Conversations run.Conversations // nil: there are no sessions
	Responses     run.Conversations // of runs whose Options.Follows says so; nil: there are none
	Remote        RemoteTools       // nil: there are no tools from outside
	Images        ImageTools        // nil: no agent makes pictures
	Artifacts     Artifacts         // nil: files of tools are not kept
	Watchers      *run.Watchers
	// Violated is told of a guardrail that a run ran into, in the commit that says
	// so; nil: nobody is.
	Violated func(tx txn.Tx, r *run.Record, v policy.Violation) error
	// Suspended says whether an item is of a tenant that is suspended; it was let
	// go of then, until the tenant is let in again. It is asked before each model
	// call. Nil: no tenant ever is.
	Suspended func(ctx context.Context, held work.Lease) (bool, error)
	Meter     quota.Meter // nil: nothing is counted or limited

	Node     string        // owner of this node's leases
	Lease    time.Duration // how long a dead node's runs wait
	Observer Observer
	Tracer   trace.Tracer // nil: no spans
}

// Engine drives runs on one node.
type Engine struct {
	Config
	runner  Runner
	service Service
	drafts  *flusher
	gauge   *contextwindow.Gauge

	mu       sync.Mutex
	prepared map[string]*attempt // committed, and about to be handled; by run id
	active   map[string]*attempt // being driven; by run id
}

// New makes an engine. Bind it to its runner before use.
func New(c Config) *Engine {
	e := &Engine{Config: c, gauge: contextwindow.NewGauge(), prepared: map[string]*attempt{}, active: map[string]*attempt{}}
	e.drafts = newFlusher(e)
	return e
}

// Connect sets the runner that calls Handle and the service of runs, which are
// built after the engine because they need it. It is called once, before the
// first run.
func (e *Engine) Connect(r Runner, s Service) { e.runner, e.service = r, s }

// Serve listens for cancellations from any node and stores drafts of text
// until ctx ends. It ends after the runner.
func (e *Engine) Serve(ctx context.Context) {
	defer e.giveUp()
	stop := e.Hub.OnSignal(run.SignalCancelled, e.abort)
	defer stop()
	e.drafts.serve(ctx)
}

// abort ends the work on a run that was cancelled. The run's row has moved
// already; this only stops the tool or model call that is under way.
func (e *Engine) abort(runID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a := e.active[runID]; a != nil {
		work.Abandon(a.lost)
	}
}

// Active counts the runs that this node drives, for metrics.
func (e *Engine) Active() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.active)
}

// Start implements run.Starter. With a place free on this node the run is
// stored as running already and goes on at once, which costs one commit
// before the model is called; otherwise it is queued for any node.
func (e *Engine) Start(ctx context.Context, r *run.Record, spec *run.AgentSpec) error {
	if e.Meter != nil {
		if err := e.Meter.MayStart(ctx, r.TenantID); err != nil {
			return err
		}
	}
	verdict, err := e.Gate.BeforeRun(ctx, subject(r, spec))
	if err != nil {
		return err
	}
	if verdict.Refused {
		return e.startRejected(ctx, r, verdict)
	}
	around, err := e.look(ctx, r, spec)
	if err != nil {
		return err
	}
	slot, ok := e.runner.Reserve()
	if !ok {
		return e.startQueued(ctx, r)
	}
	a := e.newAttempt(r, spec)
	a.around = around
	a.rec.Status, a.rec.StartedAt = run.Running, &a.began
	a.emit("run.queued", statusData{Status: run.Queued})
	a.emit("run.started", startedData{Status: run.Running, Attempt: 1})
	if a.atOnce(ctx) {
		a.beginStep(run.StepLLM, nil)
		if !txn.Guarded(ctx) { // one that was done before would call the model for nothing
			a.callEarly()
		}
	}
	err = a.insert(ctx, func(tx txn.Tx) (err error) {
		if now, err := admitted(tx, a.rec); err != nil || !now {
			return cmp.Or(err, errNotYet)
		}
		a.lease, err = e.Queue.EnqueueHeldTx(tx, e.item(a.rec, a.began), e.Node, e.Lease)
		return err
	})
	if err != nil {
		a.early.giveUp(err)
		slot.Free()
		if errors.Is(err, errNotYet) {
			return e.startQueued(ctx, r)
		}
		return err
	}
	e.prepare(a)
	slot.Adopt(a.lease)
	return nil
}

// errNotYet says that a run's turn has not come; see run.Admission.
var errNotYet = errors.New("engine: the run's turn has not come")

func admitted(tx txn.Tx, r *run.Record) (now bool, err error) {
	if r.Admit == nil {
		return true, nil
	}
	return r.Admit(tx, r)
}

// startQueued stores a run for any node to drive, or, before its turn, for
// whoever admits it to release.
func (e *Engine) startQueued(ctx context.Context, r *run.Record) error {
	a := e.newAttempt(r, nil)
	a.emit("run.queued", statusData{Status: run.Queued})
	return a.insert(ctx, func(tx txn.Tx) error {
		now, err := admitted(tx, a.rec)
		if err != nil || !now {
			return err
		}
		return e.Queue.EnqueueTx(tx, e.item(a.rec, a.began))
	})
}

func (e *Engine) startRejected(ctx context.Context, r *run.Record, v policy.Verdict) error {
	a := e.newAttempt(r, nil)
	a.rec.Status, a.rec.CompletedAt = run.Rejected, &a.began
	a.rec.Error, a.rec.ErrorCode = &v.Reason, v.Code
	a.emit("run.queued", statusData{Status: run.Queued})
	a.emit(run.Rejected.EventName(), endData{Status: run.Rejected, Error: &v.Reason, ErrorCode: v.Code})
	err := a.insert(ctx, func(tx txn.Tx) error {
		if _, err := admitted(tx, a.rec); err != nil {
			return err
		}
		return e.Watchers.OnRunState(tx, a.rec)
	})
	if err == nil {
		r.Run = a.rec.Run
	}
	return err
}

func (e *Engine) item(r *run.Record, due time.Time) work.Item {
	return work.Item{Kind: WorkKind, Key: r.RunID, TenantID: r.TenantID, Due: due}
}

// Handle is the work handler for claimed runs: those that were queued, and
// those whose worker died. It finishes or reschedules the item itself.
func (e *Engine) Handle(ctx context.Context, lease work.Lease) error {
	if a := e.takePrepared(lease.Key); a != nil && a.lease.Epoch == lease.Epoch {
		return a.drive(ctx)
	}
	if held, err := e.suspended(ctx, lease); held || err != nil {
		return err
	}
	rec, err := e.Runs.Get(ctx, lease.TenantID, lease.Key)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			return e.forget(ctx, lease)
		}
		return err
	}
	if rec.Status.Final() {
		return e.forget(ctx, lease)
	}
	if rec.Status.Waits() {
		if woken, err := e.lapse(ctx, lease); err != nil || !woken {
			return err
		}
		if rec, err = e.Runs.Get(ctx, lease.TenantID, lease.Key); err != nil {
			return err
		}
	}
	spec, err := e.Agents.Spec(ctx, rec.TenantID, rec.AgentID, rec.AgentVersion)
	gone := fault.Is(err, fault.NotFound)
	if err != nil && !gone {
		return err
	}
	a := e.newAttempt(rec, spec)
	a.ctx, a.lease = ctx, lease
	if !gone {
		if a.around, err = e.look(ctx, rec, spec); err != nil {
			return err
		}
	}
	if err := a.takeOver(ctx); err != nil {
		return err
	}
	if lease.Attempt > maxAttempts {
		return a.fail(run.CodeInternalError, fmt.Sprintf("The run was taken up %d times and could not go on.", lease.Attempt-1))
	}
	if gone {
		return a.fail(run.CodeAgentDeleted, "The agent was deleted before the run could end.")
	}
	return a.drive(ctx)
}

// suspended is HoldBack where there is one.
func (e *Engine) suspended(ctx context.Context, lease work.Lease) (bool, error) {
	if e.Suspended == nil {
		return false, nil
	}
	return e.Suspended(ctx, lease)
}

func (e *Engine) prepare(a *attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.prepared[a.rec.RunID] = a
}

// giveUp ends the calls of runs that were prepared and that nobody handles
// any more: the runner stopped.
func (e *Engine) giveUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.prepared {
		a.early.giveUp(work.ErrStopping)
	}
	clear(e.prepared)
}

func (e *Engine) takePrepared(runID string) *attempt {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.prepared[runID]
	delete(e.prepared, runID)
	return a
}

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

func (e *Engine) forget(ctx context.Context, lease work.Lease) error {
	return e.write(ctx, func(tx txn.Tx) error { return e.Queue.FinishTx(tx, lease) })
}

// lapse looks after a waiting run whose work is due: it waited too long, or
// somebody woke it just now.
func (e *Engine) lapse(ctx context.Context, lease work.Lease) (woken bool, err error) {
	err = e.Writer.Write(ctx, func(tx txn.Tx) error {
		woken = false
		if err := e.Queue.HoldTx(tx, lease, e.Lease); err != nil {
			return err
		}
		if ended, err := e.service.Expire(tx, lease.TenantID, lease.Key, e.Clock.Now()); err != nil || ended {
			return err
		}
		r, err := e.Runs.LockTx(tx, lease.TenantID, lease.Key)
		switch {
		case err != nil:
			return err
		case !r.Status.Waits():
			woken = true
			return nil
		case r.Wait.Until.IsZero():
			return e.Queue.FinishTx(tx, lease)
		}
		return e.Queue.RescheduleTx(tx, lease, r.Wait.Until, nil)
	})
	return woken, err
}

func subject(r *run.Record, spec *run.AgentSpec) policy.Run {
	return policy.Run{TenantID: r.TenantID, RunID: r.RunID, AgentID: r.AgentID, Guardrails: []byte(spec.Guardrails)}
}

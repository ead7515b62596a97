package session

import (
	"context"
	"slices"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// Runs is the port to runs; run.Service implements it.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
	Release(tx txn.Tx, tenant, id string) error
}

// Agents is the port to agents; agent.Agents implements it.
type Agents interface {
	Get(ctx context.Context, tenant, id string) (agent.Agent, error)
}

// ChangeHook runs in the transaction that changes a session other than by a run:
// it sets the metadata or closes the session.
type ChangeHook func(tx txn.Tx, tenant, id string) error

// Deps are the dependencies of a Service that exist before runs do.
type Deps struct {
	Store       Store
	Todos       TodoStore
	Shares      ShareStore
	Clients     ClientStore // what front ends hold of conversations
	Annotations *resource.Store[Annotation]
	Agents      Agents
	Writer      txn.Writer
	Queue       work.Queue
	Log         event.Log
	Hub         *event.Hub
	Cursors     *page.Cursors
	Clock       clock.Clock
	CheckURL    egress.CheckFunc // returns why an endpoint cannot be called
	// ProviderOf returns the operator's provider of a model that an override names
	// without an endpoint; nil: none is remembered.
	ProviderOf func(ref string) string

	Audit     audit.Recorder // nil: shares and closes are not recorded
	Quota     quota.Gate     // nil: the number of active sessions is unlimited
	Box       *secret.Box    // seals the secrets of share links
	PublicURL func() string  // the address under which clients reach the server
	OnChange  ChangeHook     // called for changes that no run makes; optional
}

// Ports connect a Service to packages that themselves need sessions.
type Ports struct {
	Runs      Runs
	Files     run.Files // nil: messages cannot have attachments
	Artifacts Artifacts // nil: sessions have no artifacts
	Cron      CronFunc  // nil: todos cannot recur
	// CheckWorkspace returns fault.NotFound for a workspace that the tenant has not.
	CheckWorkspace func(ctx context.Context, tenant, id string) error
}

// Service serves the sessions area. It also implements what runs need of it:
// run.Sessions, run.Conversations, and the run.Watcher OnRunState.
type Service struct {
	Deps

	reader      *reader
	lifecycle   *lifecycle
	turns       *turnQueue
	messages    *messageService
	branches    *branchService
	streams     *streamer
	todos       *todoService
	annotations *annotationService
	shares      *shareService
	exports     *exporter
}

// New returns a Service that reads the histories of sessions. Call Connect
// before any other use.
func New(d Deps) *Service {
	return &Service{Deps: d, reader: &reader{store: d.Store, agents: d.Agents}}
}

// Connect completes the service. Runs and sessions need each other, so it comes
// after both are made.
func (s *Service) Connect(p Ports) {
	d := &s.Deps
	notify := hints{hub: d.Hub, clock: d.Clock}
	s.turns = &turnQueue{store: d.Store, runs: p.Runs, clock: d.Clock, hints: notify}
	s.lifecycle = &lifecycle{
		store: d.Store, reader: s.reader, agents: d.Agents, runs: p.Runs, writer: d.Writer, queue: d.Queue, cursors: d.Cursors,
		clock: d.Clock, checkURL: d.CheckURL, providerOf: d.ProviderOf, audit: d.Audit, quota: d.Quota, hints: notify, onChange: s.changed,
	}
	s.messages = &messageService{
		reader: s.reader, turns: s.turns, runs: p.Runs, log: d.Log, cursors: d.Cursors, files: p.Files,
		checkWorkspace: p.CheckWorkspace,
	}
	s.branches = &branchService{store: d.Store, reader: s.reader, writer: d.Writer, clock: d.Clock}
	s.streams = &streamer{store: d.Store, runs: p.Runs, log: d.Log, hub: d.Hub, clock: d.Clock}
	s.todos = &todoService{
		store: d.Todos, reader: s.reader, sessions: s.lifecycle, turns: s.turns, agents: d.Agents, runs: p.Runs,
		writer: d.Writer, queue: d.Queue, clock: d.Clock, cron: p.Cron,
	}
	s.annotations = &annotationService{sessions: d.Store, store: d.Annotations, writer: d.Writer}
	s.shares = &shareService{
		store: d.Shares, sessions: d.Store, todos: d.Todos, reader: s.reader, runs: p.Runs, artifacts: p.Artifacts,
		writer: d.Writer, clock: d.Clock, box: d.Box, audit: d.Audit, publicURL: d.PublicURL,
	}
	s.exports = &exporter{reader: s.reader, clock: d.Clock}
}

func (s *Service) changed(tx txn.Tx, tenant, id string) error {
	if s.OnChange == nil {
		return nil
	}
	return s.OnChange(tx, tenant, id)
}

// Routes returns the operations of the area Sessions.
func (s *Service) Routes() []route.Route {
	return slices.Concat(
		s.lifecycle.routes(), s.messages.routes(), s.streams.routes(), s.branches.routes(), s.exports.routes(),
		s.shares.routes(), s.annotations.routes(), s.todos.routes(),
	)
}

// Join implements run.Sessions; see turnQueue.join.
func (s *Service) Join(ctx context.Context, tenant string, req *run.Request) error {
	return s.turns.join(ctx, tenant, req)
}

// Replace implements run.Sessions; see turnQueue.replace.
func (s *Service) Replace(ctx context.Context, tenant string, req *run.Request, failed string) error {
	return s.turns.replace(ctx, tenant, req, failed)
}

// Before implements run.Conversations: it returns what the model reads of the
// turns before the run's own, as far as reach asks for.
func (s *Service) Before(ctx context.Context, r *run.Record, reach run.Reach) ([]model.Message, error) {
	return s.reader.before(ctx, r, reach)
}

// OnRunState is the run.Watcher of sessions: the end of a run starts the next
// turn and settles the todo that started the run.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if !r.Status.Final() {
		return nil
	}
	if err := s.turns.finish(tx, r); err != nil {
		return err
	}
	return s.todos.onRunEnd(tx, r)
}

// Handle is the work handler of WorkKind.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	return s.lifecycle.handle(ctx, held)
}

// HandleTodo is the work handler of TodoWorkKind.
func (s *Service) HandleTodo(ctx context.Context, held work.Lease) error {
	return s.todos.handle(ctx, held)
}

// hints make the readers of session streams look for changes. Hints are live
// only, published on a stream named after the session.
type hints struct {
	hub   *event.Hub
	clock clock.Clock
}

// The names of hints.
const (
	hintRunAdded  = "run_added"
	hintTurnEnded = "turn_ended"
	hintClosed    = "session_closed"
)

// publish sends a hint once tx has committed.
func (h hints) publish(tx txn.Tx, id, name string) {
	tx.AfterCommit(func() {
		h.hub.Publish(event.Batch{Stream: id, Events: []event.Event{{Name: name, At: h.clock.Now(), Data: emptyObject}}})
	})
}

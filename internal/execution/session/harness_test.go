package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/session"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/worksql"
)

// fakeRuns is a run.Service that records what it creates.
type fakeRuns struct {
	created []run.Request
	fail    error // returned by the next Create
}

func (r *fakeRuns) Create(_ context.Context, _ authz.Caller, req run.Request) (*run.Run, error) {
	if err := r.fail; err != nil {
		r.fail = nil
		return nil, err
	}
	r.created = append(r.created, req)
	return &run.Run{RunID: req.RunID}, nil
}

func (r *fakeRuns) Get(_ context.Context, _, id string) (*run.Run, error) {
	if slices.ContainsFunc(r.created, func(q run.Request) bool { return q.RunID == id }) {
		return &run.Run{RunID: id, Status: run.Running}, nil
	}
	return nil, fault.NewNotFound("run")
}

func (r *fakeRuns) Cancel(context.Context, string, string) (run.CancelAnswer, error) {
	return run.CancelAnswer{}, nil
}

func (r *fakeRuns) Release(txn.Tx, string, string) error { return nil }

// fakeAgents is an agent.Agents in which every agent exists.
type fakeAgents struct{}

func (fakeAgents) Get(_ context.Context, tenant, id string) (agent.Agent, error) {
	g := agent.Agent{Config: agent.Config{Name: "tester"}}
	g.ID, g.TenantID = id, tenant
	return g, nil
}

type harness struct {
	*session.Service
	t     testing.TB
	runs  *fakeRuns
	clock *clock.Fake
	queue work.Queue
	who   authz.Caller
}

func newHarness(t testing.TB, db *sqldb.DB) *harness {
	t.Helper()
	h := &harness{t: t, runs: &fakeRuns{}, clock: clock.NewFake(), who: authz.Caller{TenantID: ident.New(), UserID: "u"}}
	store := sessionsql.New(db)
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	h.queue = worksql.New(db, h.clock, nil)
	h.Service = session.New(session.Deps{
		Store: store, Todos: store, Shares: store, Clients: sessionsql.NewClients(db), Agents: fakeAgents{}, Writer: db, Queue: h.queue,
		Log: runsql.NewEvents(db), Hub: event.NewHub(), Cursors: page.NewCursors(make([]byte, 32)), Clock: h.clock,
		CheckURL: func(context.Context, string, string) error { return nil },
		Box:      box, PublicURL: func() string { return "http://localhost" },
	})
	h.Connect(session.Ports{Runs: h.runs, Cron: every})
	return h
}

// reconnected returns the service with the harness' present dependencies.
func (h *harness) reconnected() *session.Service {
	s := session.New(h.Deps)
	s.Connect(session.Ports{Runs: h.runs, Cron: every})
	return s
}

// every is a session.CronFunc for expressions such as "every 5m".
func every(cron, _ string) (func(time.Time) time.Time, error) {
	interval, err := time.ParseDuration(strings.TrimPrefix(cron, "every "))
	return func(at time.Time) time.Time { return at.Truncate(interval).Add(interval) }, err
}

// session stores an active session.
func (h *harness) session() *session.Record {
	h.t.Helper()
	rec := &session.Record{
		TenantID: h.who.TenantID, SessionID: ident.New(), AgentID: ident.New(), Status: session.Active,
		QueueMode: session.Allow, ActiveBranch: session.Root, CreatedAt: h.clock.Now(), UpdatedAt: h.clock.Now(),
	}
	if err := h.Writer.Write(h.t.Context(), func(tx txn.Tx) error { return h.Store.CreateTx(tx, rec) }); err != nil {
		h.t.Fatal(err)
	}
	return rec
}

// handleDueTodos handles the todos that are due and returns the errors.
func (h *harness) handleDueTodos() (failed []error) {
	h.t.Helper()
	held, err := h.queue.Claim(h.t.Context(), session.TodoWorkKind, "node", 100, time.Second)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, l := range held {
		if err := h.HandleTodo(h.t.Context(), l); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// onlyTodo returns a session's only item of work.
func (h *harness) onlyTodo(rec *session.Record) session.Todo {
	h.t.Helper()
	all, _, err := h.Todos.ListTodos(h.t.Context(), rec.TenantID, session.TodoFilter{ListedTodos: session.ListedTodos{SessionID: rec.SessionID}}, 2)
	if err != nil || len(all) != 1 {
		h.t.Fatalf("%d todos, %v", len(all), err)
	}
	return all[0]
}

func (h *harness) createTodo(rec *session.Record, body string) *session.Todo {
	h.t.Helper()
	t, err := h.CreateTodo(h.t.Context(), h.who, rec.SessionID, jsontext.Value(body))
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

// endRun ends the last run with a status.
func (h *harness) endRun(status run.Status) {
	h.t.Helper()
	req := h.runs.created[len(h.runs.created)-1]
	rec := &run.Record{Run: run.Run{RunID: req.RunID, TenantID: h.who.TenantID, Metadata: req.Metadata, Status: status}}
	if err := h.Writer.Write(h.t.Context(), func(tx txn.Tx) error { return h.OnRunState(tx, rec) }); err != nil {
		h.t.Fatal(err)
	}
}

package app

import (
	"strings"

	"agentd/internal/agent"
	"agentd/internal/outbound"
	"agentd/internal/resource"
	"agentd/internal/run"
	"agentd/internal/session"
	"agentd/internal/sqlstore"
	"agentd/internal/work"
)

// buildSessions makes the service of sessions. Runs need it, and it needs runs:
// bindSessions completes it.
func (a *App) buildSessions(kernel resource.Deps, agents *agent.Agents, queue work.Queue, watchers *run.Watchers) *session.Service {
	store := sqlstore.NewSessions(a.db)
	s := &session.Service{
		Store: store, Todos: store, Shares: store, Notes: resource.NewStore(session.Annotations, kernel), Box: a.box, Public: a.public,
		Agents: agents, Writer: a.db, Queue: queue, Log: sqlstore.NewEvents(a.db), Hub: a.hub,
		Cursors: kernel.Cursors, Clock: a.clock, Logger: a.log, CheckURL: outbound.CheckURL,
	}
	watchers.Add(s.Moved)
	return s
}

// bindSessions connects sessions and runs, and adds the runners of sessions.
func (a *App) bindSessions(s *session.Service, runs *run.Service, runners map[string]*work.Runner) {
	s.Runs, runs.Sessions = runs, s
	runners[session.WorkKind] = work.NewRunner(work.Config{
		Kind: session.WorkKind, Owner: a.node, Queue: s.Queue, Handler: s.Handle, Slots: 4, Lease: lease, Clock: a.clock, Logger: a.log,
	})
	runners[session.TodoWorkKind] = work.NewRunner(work.Config{
		Kind: session.TodoWorkKind, Owner: a.node, Queue: s.Queue, Handler: s.HandleTodo, Slots: 8, Lease: lease, Clock: a.clock, Logger: a.log,
	})
}

// public is the address under which clients reach the service.
func (a *App) public() string {
	if url := a.cfg.Server.PublicURL; url != "" {
		return strings.TrimRight(url, "/")
	}
	return "http://" + a.Address()
}

package app

import (
	"agentd/internal/agent"
	"agentd/internal/outbound"
	"agentd/internal/page"
	"agentd/internal/run"
	"agentd/internal/session"
	"agentd/internal/sqlstore"
	"agentd/internal/work"
)

// buildSessions makes the service of sessions. Runs need it, and it needs runs:
// bindSessions completes it.
func (a *App) buildSessions(agents *agent.Agents, queue work.Queue, watchers *run.Watchers, cursors *page.Cursors) *session.Service {
	s := &session.Service{
		Store: sqlstore.NewSessions(a.db), Agents: agents, Writer: a.db, Queue: queue, Log: sqlstore.NewEvents(a.db), Hub: a.hub,
		Cursors: cursors, Clock: a.clock, Logger: a.log, CheckURL: outbound.CheckURL,
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
}

package app

import (
	"agentd/internal/agents/agent"
	"agentd/internal/content/search"
	"agentd/internal/content/search/searchsql"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// buildSearch makes the search over agents, sessions and runs, which follows
// their changes.
func (a *App) buildSearch(agents *agent.Agents, runs *run.Service, sessions *session.Service, watchers *run.Watchers,
	subscribers *resource.Subscribers, runners map[string]*work.Runner,
) *search.Service {
	s := search.New(search.Deps{
		Store: searchsql.New(a.db), Runs: runs.Runs, Agents: agents.Store(), Sessions: sessions.Store,
		Writer: a.db, Queue: runs.Queue, Clock: a.clock, Logger: a.log, Lease: lease,
	})
	watchers.Add(s.OnRunState)
	sessions.OnChange = s.SessionChanged
	subscribers.Subscribe("search-follows-agents", "agent", nil, s.AgentChanged)
	a.addRunner(runners, runs.Queue, search.WorkKind, 4, s.Handle)
	a.serve(s.Serve)
	return s
}

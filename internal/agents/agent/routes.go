package agent

import (
	"agentd/internal/base/route"
	"agentd/internal/kernel/resource"
)

// Routes lists the operations on agents and their versions.
func (a *Agents) Routes() []route.Route {
	return append(append(resource.Routes(a.store.Store), a.terminateRoute()), resource.VersionRoutes(a.store)...)
}

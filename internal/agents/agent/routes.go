package agent

import (
	"agentd/internal/base/route"
	"agentd/internal/kernel/resource"
)

// Routes lists the operations on agents and their versions.
func (a *Agents) Routes() []route.Route {
	routes := resource.Routes(a.store.Store)
	for i := range routes {
		if routes[i].ID == "createAgent" {
			routes[i].Errors = append(routes[i].Errors, 404) // its workspace or knowledge base
		}
	}
	return append(routes, resource.VersionRoutes(a.store)...)
}

package app

import (
	"fmt"
	"slices"

	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// part is what one area adds to the program. Builders return it as a value;
// nothing of it is active before the program is assembled.
type part struct {
	name        string
	routes      []route.Route
	endpoints   []httpapi.Raw
	workers     []worker
	watchers    []watcher
	subscribers []subscriber
	services    []service // started in this order, before the workers
}

// worker is the runner of one kind of work.
type worker struct {
	kind   string
	runner *work.Runner
}

// subscriber is called after changes of a kind of resource; no actions means
// all. The name is stored with changes that are not delivered yet and must not
// change.
type subscriber struct {
	name    string
	kind    string
	actions []string
	handle  resource.HandlerFunc
}

// onAgentDeleted is the subscriber that is called with deleted agents.
func onAgentDeleted(name string, handle resource.HandlerFunc) subscriber {
	return subscriber{name, "agent", []string{resource.Deleted}, handle}
}

// watcher is called in the transaction of each change of a run's state.
type watcher struct {
	name       string // in watcherOrder
	onRunState run.Watcher
}

// watcherOrder is the order in which watchers are called, and in which they lock
// rows. The work of a run's parent comes first, as it does in the parent's own
// transactions. Notifications come after schedules and webhooks: a schedule's alert
// locks the same row as a notification of the run, and all transactions must
// lock rows in one order.
var watcherOrder = []string{
	"families", "evaluations", "sessions", "schedules", "memory", "webhooks", "notifications", "search", "a2a", "machines", "live",
	"marketplace",
}

// orderWatchers returns the watchers of all parts in watcherOrder. It fails for
// a watcher that is not listed there, or is listed and missing.
func orderWatchers(parts []part) ([]run.Watcher, error) {
	byName := map[string]run.Watcher{}
	for _, p := range parts {
		for _, w := range p.watchers {
			if !slices.Contains(watcherOrder, w.name) {
				return nil, fmt.Errorf("part %s: the watcher %s is not in watcherOrder", p.name, w.name)
			}
			if byName[w.name] != nil {
				return nil, fmt.Errorf("part %s: there are two watchers called %s", p.name, w.name)
			}
			byName[w.name] = w.onRunState
		}
	}
	ordered := make([]run.Watcher, len(watcherOrder))
	for i, name := range watcherOrder {
		if ordered[i] = byName[name]; ordered[i] == nil {
			return nil, fmt.Errorf("no part has the watcher %s", name)
		}
	}
	return ordered, nil
}

// routesOf returns what all parts serve, in the order of the parts.
func routesOf(parts []part) (routes []route.Route, endpoints []httpapi.Raw) {
	for _, p := range parts {
		routes, endpoints = append(routes, p.routes...), append(endpoints, p.endpoints...)
	}
	return routes, endpoints
}

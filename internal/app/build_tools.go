package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/agents/agent"
	"agentd/internal/base/route"
	"agentd/internal/content/webtool"
	"agentd/internal/execution/delegation"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/tool"
	"agentd/internal/wire/webhttp"
)

// toolbox is the built-in tools and what they stand on.
type toolbox struct {
	*tool.Registry
	web        *webtool.Service
	delegation *delegation.Service
}

// buildTools makes the registry of built-in tools, with those of other parts.
// What delegation needs of runs and agents, which are made of the registry,
// comes with bind.
func (a *App) buildTools(more ...tool.Tool) (*toolbox, error) {
	b := &toolbox{
		web: &webtool.Service{
			Fetcher: webhttp.NewFetcher(webhttp.FetchConfig{Guarded: a.guarded}),
		},
		delegation: delegation.New(a.log),
	}
	a.onStop(stopper(b.delegation.Stop))
	if c := a.cfg.Search; c.Provider != "" {
		search := webhttp.NewSearch(webhttp.SearchConfig{Provider: c.Provider, URL: c.URL, APIKey: c.APIKey.Reveal()})
		a.onStop(stopper(search.Close))
		b.web.Searcher = search
	}
	all := append(tool.Builtins(a.clock), b.web.Tools()...)
	all = append(all, b.delegation.Tools()...)
	var err error
	if b.Registry, err = tool.NewRegistry(tool.Limits{}, append(all, more...)...); err != nil {
		return nil, err
	}
	a.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentd_tool_calls_left_behind", Help: "Tool calls that go on although nobody waits for them any more.",
	}, func() float64 { return float64(b.LeftBehind()) }))
	return b, nil
}

// bind completes the tools, and gives the routes of their area.
func (b *toolbox) bind(a *App, runs *run.Service, agents *agent.Agents) []route.Route {
	b.delegation.Connect(runs, agents, a.db)
	routes := append(b.web.Routes(), b.delegation.Routes()...)
	return append(routes, b.Registry.Routes()...)
}

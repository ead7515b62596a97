package app

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/content/webtool"
	"agentd/internal/execution/delegation"
	"agentd/internal/execution/run"
	"agentd/internal/execution/sensor"
	"agentd/internal/execution/sensor/sensorsql"
	"agentd/internal/execution/session"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/kernel/tool"
	"agentd/internal/teams/a2a"
	"agentd/internal/teams/teamrun"
	"agentd/internal/wire/a2aclient"
	"agentd/internal/wire/webhttp"
)

// tools is the registry of built-in tools, and the services whose tools need
// runs and agents, which are built after the registry; connect completes them.
type tools struct {
	registry   *tool.Registry
	web        *webtool.Service
	delegation *delegation.Service
	sensors    *sensor.Service
	team       *teamrun.Delegate
	peers      a2a.Peers
	keys       *a2a.Credentials // for peers
}

func newTools(p *platform, out *egress, delivery *delivery, content *content) (*tools, error) {
	t := &tools{
		web:        &webtool.Service{Fetcher: webhttp.NewFetcher(webhttp.FetchConfig{Guarded: out.guarded, Places: content.reading})},
		delegation: delegation.New(p.clock, p.log), team: &teamrun.Delegate{},
		sensors: sensor.New(sensor.Deps{
			Store: sensorsql.New(p.db), Writer: p.db, Clock: p.clock, Cursors: p.cursors, Box: p.box, Audit: p.audit,
			Public: p.webhookURL, Suspended: suspended(p),
		}),
	}
	t.peers, t.keys = a2aclient.Client{Guarded: out.guarded}, a2a.NewCredentials(p.kernel)
	if c := p.cfg.Search; c.Provider != "" {
		search := webhttp.NewSearch(webhttp.SearchConfig{Provider: c.Provider, URL: c.URL, APIKey: c.APIKey.Reveal()})
		p.onStop(search.Close)
		t.web.Searcher = search
	}
	var err error
	t.registry, err = tool.NewRegistry(tool.Limits{Disabled: p.config.ToolDisabled}, slices.Concat(
		tool.Builtins(p.clock), t.web.Tools(), t.delegation.Tools(), t.team.Tools(), content.tools(),
		[]tool.Tool{delivery.notifications.Tool(), t.sensors.Tool(), a2a.Tool(t.peers, t.keys),
			session.StateTool(sessionsql.NewClients(p.db), p.db)},
	)...)
	if err != nil {
		return nil, err
	}
	p.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentd_tool_calls_left_behind", Help: "Tool calls that still run after their run stopped waiting for them.",
	}, func() float64 { return float64(t.registry.LeftBehind()) }))
	return t, nil
}

// connect lets tools start runs of agents.
func (t *tools) connect(p *platform, runs *run.Service, of *agents, permitted *permissions, grouped *teams) {
	t.delegation.Connect(runs, of.agents, p.db, of.keys.SignJWS, permitted.spawns())
	t.sensors.Connect(runs, of.agents.Store())
	t.team.Connect(grouped.runs, t.delegation)
}

func (t *tools) part() part {
	return part{
		name:   "tools",
		routes: slices.Concat(t.web.Routes(), t.delegation.Routes(), t.registry.Routes(), t.sensors.Routes(), t.keys.Routes()),
		subscribers: []subscriber{
			onAgentDeleted("end-sensors-of-deleted-agents", func(ctx context.Context, c agentChange) error {
				return t.sensors.AgentDeleted(ctx, c.TenantID, c.ID)
			}),
		},
	}
}

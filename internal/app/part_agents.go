package app

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/accounts/usage"
	"agentd/internal/agents/agent"
	"agentd/internal/agents/agentkey"
	"agentd/internal/agents/capability"
	"agentd/internal/agents/guardrail"
	"agentd/internal/agents/headagent"
	"agentd/internal/agents/mcp"
	"agentd/internal/agents/mcp/mcpsql"
	"agentd/internal/agents/modelcheck"
	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/schedule"
	"agentd/internal/governance/assurance"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	"agentd/internal/teams/a2a/a2asql"
	"agentd/internal/wire/mcpclient"
	"agentd/internal/wire/outbound"
)

// contractVersion is the version that MCP servers and clients see: that of this
// program's contract.
const contractVersion = "0.2.0"

// agentChange is a change of an agent.
type agentChange = resource.Change

// agents is the agents and what they are configured with.
type agents struct {
	agents     *agent.Agents
	source     run.AgentSource
	guardrails *guardrail.Guardrails
	proxy      *modelproxy.Proxy
	remote     *mcpclient.Manager
	servers    *mcp.Service
	keys       *agentkey.Keys
	manifests  *capability.Capabilities
	analytics  *usage.Analytics
	first      *headagent.Service // proposals for first agents
}

func newAgents(
	p *platform, out *egress, models *models, accounts *accounts, content *content, tools *tools, governing *governance,
) (*agents, error) {
	a := &agents{guardrails: newGuardrails(p, out, models, accounts)}
	config := out.config()
	config.IdleTimeout = mcpclient.IdleTimeout
	guarded := outbound.New(config)
	p.onStop(guarded.Close)
	commands, err := newCommands(p)
	if err != nil {
		return nil, err
	}
	a.remote = mcpclient.New(mcpclient.Config{
		Transport: guarded.Transport(), Logger: p.log, Version: contractVersion, Sandbox: commands.sandbox, Commands: commands.run,
		Bounds: p.mcpBounds,
	})
	a.servers = mcp.New(mcp.Config{
		Kernel: p.kernel, Remote: a.remote, OAuth: mcpclient.NewOAuth(guarded.Transport()), Grants: mcpsql.New(p.db),
		Registry: tools.registry, Clock: p.clock, Logger: p.log,
		CheckURL: outbound.CheckURL, Commands: commands.rules, Base: p.publicURL, Names: accounts.identity.NamesOf,
	})
	a.agents = agent.New(p.kernel, agent.Options{
		DefaultModel: models.defaultModel, Tools: tools.registry.Names(), CheckURL: outbound.CheckURL, Workspaces: content.placement,
		CheckGuardrails: guardrail.CheckSettings, CheckSchedule: schedule.Check, CheckMCP: a.servers.CheckField,
		MCPAddresses:  a.servers.Addresses,
		ProviderOf:    models.catalogue.ProviderOf,
		KnowledgeBase: content.knowledge.CheckTx, Quota: accounts.usage, VersionInUse: runsql.New(p.db).HasUnfinishedTx,
		Classified: assurance.Classified(governing.ledger), Published: a2asql.New(p.db).SetPublishedTx,
		Stats: agentStats{p.clock, runsql.NewActivity(p.db), accounts.usageStore}.of,
	})
	a.keys = agentkey.New(p.kernel, agentkey.Options{AgentTx: a.lockTx})
	a.manifests = capability.New(p.kernel, capability.Options{Agents: a.agents, KnowledgeBaseTx: content.knowledge.CheckTx})
	a.source = run.AgentSource{Agents: a.agents, Defaults: p.config.RunDefaults}
	a.first = &headagent.Service{Tools: tools.registry.Names(), Plan: func(ctx context.Context, tenant string) (string, error) {
		plan, err := accounts.usage.PlanOf(ctx, tenant)
		return plan.ID, err
	}}
	a.analytics = usage.NewAnalytics(usage.AnalyticsDeps{
		Store: accounts.usageStore, Clock: p.clock, EachAgent: a.eachInfo, Agent: a.info,
		Machines: machineStates(p),
	})
	a.proxy = &modelproxy.Proxy{
		Models: models.resolver, Client: models.client, Plans: accounts.usage, Fallback: models.catalogue.Fallback,
		CheckAgent: agentCheck{a.agents}.Check,
	}
	return a, nil
}

// connect lets MCP servers look up agents, and continue runs that wait for an
// authorization.
func (a *agents) connect(runs *run.Service) { a.servers.Connect(agentCheck{a.agents}, runs) }

// info returns what analytics show of an agent. Errors: fault.NotFound.
func (a *agents) info(ctx context.Context, tenant, id string) (usage.AgentInfo, error) {
	g, err := a.agents.Get(ctx, tenant, id)
	return infoOf(&g), err
}

// eachInfo visits every agent of a tenant.
func (a *agents) eachInfo(ctx context.Context, tenant string, visit func(usage.AgentInfo)) error {
	return agentDirectory{a.agents}.each(ctx, tenant, func(g *agent.Agent) { visit(infoOf(g)) })
}

func infoOf(g *agent.Agent) usage.AgentInfo {
	return usage.AgentInfo{ID: g.ID, Name: g.Name, Mode: g.ExecutionMode, Status: g.Status}
}

// lockTx locks an agent. Errors: fault.NotFound.
func (a *agents) lockTx(tx txn.Tx, tenant, id string) error {
	_, err := a.agents.Store().GetTx(tx, tenant, id)
	return err
}

func (a *agents) part() part {
	return part{
		name: "agents",
		routes: slices.Concat(a.agents.Routes(), a.guardrails.Routes(), a.servers.Routes(), a.keys.Routes(), a.manifests.Routes(),
			(&modelcheck.Service{Models: a.proxy}).Routes(), a.analytics.Routes(), a.first.Routes()),
		subscribers: []subscriber{
			onAgentDeleted("take-deleted-agents-from-mcp-servers", func(ctx context.Context, c agentChange) error {
				return a.servers.AgentDeleted(ctx, c.TenantID, c.ID)
			}),
			onAgentDeleted("remove-keys-of-deleted-agents", func(ctx context.Context, c agentChange) error {
				return a.keys.AgentDeleted(ctx, c.TenantID, c.ID)
			}),
			onAgentDeleted("remove-capabilities-of-deleted-agents", func(ctx context.Context, c agentChange) error {
				return a.manifests.AgentDeleted(ctx, c.TenantID, c.ID)
			}),
		},
		services: []service{background(a.remote.Serve)},
	}
}

// newGuardrails makes the guardrails. Their judges use the operator's models,
// their webhooks the guarded client.
func newGuardrails(p *platform, out *egress, models *models, accounts *accounts) *guardrail.Guardrails {
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_guardrail_judge_tokens_total", Help: "Tokens of the models that judge texts for guardrails.",
	}, []string{"direction"})
	p.metrics.MustRegister(tokens)
	return guardrail.New(p.kernel, guardrail.Options{
		CheckURL: outbound.CheckURL, Models: models.resolver, Client: models.client,
		Hooks: out.caller(p), Logger: p.log,
		OnUsage: func(r policy.Run, target model.Target, u model.Usage) {
			accounts.usage.RecordDirect(context.Background(), r.TenantID, r.AgentID, quota.SourceGuardrail, target, u)
			tokens.WithLabelValues("input").Add(float64(u.InputTokens))
			tokens.WithLabelValues("output").Add(float64(u.OutputTokens))
		},
	})
}

// agentCheck implements mcp.Agents.
type agentCheck struct{ agents *agent.Agents }

// Check implements mcp.Agents.
func (c agentCheck) Check(ctx context.Context, tenant, id string) error {
	_, err := c.agents.Get(ctx, tenant, id)
	return err
}

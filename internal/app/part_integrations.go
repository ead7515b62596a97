package app

import (
	"context"

	"agentd/internal/agents/mcp"
	"agentd/internal/agents/mcp/mcpsql"
	"agentd/internal/base/schema"
	"agentd/internal/delivery/integration"
	"agentd/internal/delivery/integration/integrationsql"
	"agentd/internal/edge/integrationpage"
	"agentd/internal/execution/engine"
	"agentd/internal/kernel/tool"
	"agentd/internal/operation/integrationadmin"
	"agentd/internal/wire/connectorclient"
	"agentd/internal/wire/mcpclient"
	"agentd/internal/wire/outbound"
)

// signalIntegrations has every node read the integrations of a tenant again.
const signalIntegrations = "integrations"

// integrations is the services that agents are connected with.
type integrations struct {
	service *integration.Service
	admin   *integrationadmin.Service
}

func newIntegrations(p *platform, out *egress, tools *tools, agents *agents) *integrations {
	x := &integrations{admin: integrationadmin.New(p.settings, knownConnectors())}
	x.service = integration.New(integration.Deps{
		Kernel: p.kernel, HTTP: connectorclient.HTTP{Guarded: out.guarded}, Databases: connectorclient.Databases{Guarded: out.guarded},
		Mailer: connectorclient.Mailer{Guarded: out.guarded}, Documents: integrationsql.New(p.db),
		OAuth: mcpclient.NewOAuth(out.guarded.Transport()), Grants: mcpsql.New(p.db), Operator: oauthClients{x.admin},
		Registry: tools.registry, Clock: p.clock, Logger: p.log, Audit: p.audit, CheckURL: outbound.CheckURL, Base: p.publicURL,
		OnChange: func(tenant string) { p.hub.Signal(signalIntegrations, tenant) },
	})
	x.service.Connect(agentCheck{agents.agents})
	return x
}

func knownConnectors() []integrationadmin.Connector {
	var all []integrationadmin.Connector
	for _, c := range integration.Connectors() {
		all = append(all, integrationadmin.Connector{ID: c.ID, Name: c.Name, Icon: c.Icon, AuthType: c.AuthType, Provider: c.Provider})
	}
	return all
}

func (x *integrations) part(p *platform) part {
	pages := &integrationpage.Pages{Integrations: x.service, PublicURL: p.publicURL}
	return part{
		name: "integrations", routes: append(x.service.Routes(), x.admin.Routes()...), endpoints: pages.Routes(),
		subscribers: []subscriber{
			onAgentDeleted("unlink-deleted-agents-from-integrations", func(ctx context.Context, c agentChange) error {
				return x.service.AgentDeleted(ctx, c.TenantID, c.ID)
			}),
		},
		services: []service{p.onSignal(signalIntegrations, x.service.Forget)},
	}
}

// oauthClients implements integration.Operator.
type oauthClients struct{ *integrationadmin.Service }

// Client implements integration.Operator.
func (o oauthClients) Client(provider string) (integration.Client, bool) {
	c, ok := o.Service.Client(provider)
	return integration.Client{ID: c.ClientID, Secret: c.ClientSecret.Reveal(), AuthorizeURL: c.AuthorizeURL, TokenURL: c.TokenURL}, ok
}

// remoteTools implements engine.RemoteTools: the tools of an agent's MCP servers and
// those of its integrations.
type remoteTools struct {
	servers      *mcp.Service
	integrations *integration.Service
}

var _ engine.RemoteTools = remoteTools{}

// Any implements engine.RemoteTools.
func (r remoteTools) Any(ctx context.Context, tenant, agent string, field schema.Object) (bool, error) {
	found, err := r.servers.Any(ctx, tenant, agent, field)
	if err != nil || found {
		return found, err
	}
	return r.integrations.Any(ctx, tenant, agent)
}

// Tools implements engine.RemoteTools.
func (r remoteTools) Tools(ctx context.Context, tenant, agent string, field schema.Object) (tool.Set, error) {
	ofServers, err := r.servers.Tools(ctx, tenant, agent, field)
	if err != nil {
		return tool.Set{}, err
	}
	ofIntegrations, err := r.integrations.Tools(ctx, tenant, agent)
	return ofServers.Join(ofIntegrations), err
}

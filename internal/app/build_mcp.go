package app

import (
	"context"
	"strings"

	"agentd/internal/agents/agent"
	"agentd/internal/agents/mcp"
	"agentd/internal/agents/mcp/mcpsql"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/mcpserver"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
	"agentd/internal/wire/mcpclient"
	"agentd/internal/wire/outbound"
)

// buildMCP makes what agents reach over MCP. Servers that tenants name are
// reached through a guarded client only; processes are those that the operator
// allowed.
func (a *App) buildMCP(kernel resource.Deps, agents func() *agent.Agents, tools *tool.Registry) (*mcp.Service, error) {
	allow, err := outbound.ParseAllow(a.cfg.Security.EgressAllow)
	if err != nil {
		return nil, err
	}
	guarded := outbound.New(outbound.Config{Allow: allow})
	a.onStop(stopper(guarded.Close))
	remote := mcpclient.New(mcpclient.Config{Transport: guarded.Transport(), Logger: a.log, Version: agentVersion})
	a.serve(remote.Serve)
	if commands := a.cfg.Security.Commands(); len(commands) > 0 {
		a.log.Warn("tenants may run these commands as MCP servers, with any arguments", "commands", strings.Join(commands, ","))
	}
	return mcp.New(mcp.Config{
		Kernel: kernel, Remote: remote, OAuth: mcpclient.NewOAuth(guarded.Transport()), Grants: mcpsql.New(a.db),
		Agents: agentCheck{agents}, Registry: tools, Clock: a.clock, Logger: a.log,
		CheckURL: outbound.CheckURL, Commands: a.cfg.Security.Commands(), Base: a.base,
	}), nil
}

// connectMCP connects servers with what was built after them.
func connectMCP(servers *mcp.Service, runs *run.Service, subscribers *resource.Subscribers) {
	servers.Connect(runs)
	subscribers.Subscribe("take-deleted-agents-from-mcp-servers", "agent", []string{resource.Deleted}, func(ctx context.Context, c resource.Change) error {
		return servers.AgentDeleted(ctx, c.TenantID, c.ID)
	})
}

// mcpEndpoint is the platform as an MCP server, and the pages for people who
// authorize servers.
func (a *App) mcpEndpoint(servers *mcp.Service, runs *run.Service, agents agentTools, source run.Agents, log event.Log) []httpapi.Raw {
	runner := &runstream.Runner{Runs: runs, Agents: source, Log: log, Hub: a.hub}
	endpoint := &mcpserver.Server{Runner: runner, Agents: agents, Version: agentVersion, Authorizations: servers}
	return endpoint.Routes()
}

// agentVersion is what MCP servers and clients are told of this program: the
// version of its contract (interface.md section 9).
const agentVersion = "0.2.0"

// base is where people and authorization servers reach this deployment.
func (a *App) base() string {
	if url := a.cfg.Server.PublicURL; url != "" {
		return strings.TrimRight(url, "/")
	}
	if address := a.bound.Load(); address != nil {
		return "http://" + *address
	}
	return "http://" + a.cfg.Server.Listen
}

// agentCheck implements mcp.Agents.
type agentCheck struct{ agents func() *agent.Agents }

// Check implements mcp.Agents.
func (c agentCheck) Check(ctx context.Context, tenant, id string) error {
	_, err := c.agents().Get(ctx, tenant, id)
	return err
}

// agentTools lists agents as tools of the platform's own MCP server.
type agentTools struct{ catalogue }

var _ mcpserver.Agents = agentTools{}

// List implements mcpserver.Agents.
func (l agentTools) List(ctx context.Context, tenant string) (out []mcpserver.Agent, err error) {
	err = l.each(ctx, tenant, func(g *agent.Agent) {
		if g.Status == agent.Active {
			out = append(out, mcpserver.Agent{ID: g.ID, Name: g.Name, Description: g.Description})
		}
	})
	return out, err
}

// Get implements mcpserver.Agents.
func (l agentTools) Get(ctx context.Context, tenant, id string) (mcpserver.Agent, error) {
	g, err := l.agents.Get(ctx, tenant, id)
	return mcpserver.Agent{ID: g.ID, Name: g.Name, Description: g.Description}, err
}

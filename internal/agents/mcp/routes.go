package mcp

import (
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

const collection = "/api/v1/mcp/servers"

// Routes lists the operations on servers and on what agents have of them.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary string) route.Row {
		r := route.Row{Method: method, Path: path, ID: id, Tag: "MCP", Summary: summary, Scopes: []authz.Scope{"agents:read"}}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"agents:write"}, authz.Developer
		}
		return r
	}
	item, mine := collection+"/{serverId}", "/api/v1/agents/{agentId}/mcp-servers"

	create := row("POST", collection, "createMcpServer", "Register an MCP server.")
	create.Status, create.Outside = 201, true
	create.Doc = "It is connected to at once. Where that fails it is registered all the same, and connect_error says why; " +
		"a URL that leads to no public address is refused."
	change := row("PATCH", item, "patchMcpServer", "Change the fields of an MCP server that are sent.")
	change.Errors, change.Outside = []int{409}, true
	change.Doc = "id, tenant_id and transport stay. A url of another origin, another command or other args are refused with " +
		"secret_would_move while a secret is stored, unless the secret is sent along."
	test := row("POST", item+"/test", "testMcpServer", "Connect to an MCP server and list its tools.")
	test.Outside = true
	test.Doc = "Always 200: ok says whether it worked."
	authorize := row("POST", item+"/authorize", "authorizeMcpServer", "Make the address where a person authorizes an MCP server.")
	authorize.Errors, authorize.Outside = []int{409}, true
	return []route.Route{
		route.Action(create, s.create),
		route.Action(row("GET", collection, "listMcpServers", "List MCP servers, newest first."), s.list),
		route.Action(row("GET", item, "getMcpServer", "Read an MCP server."), s.get),
		route.Action(change, s.change),
		route.Action(row("DELETE", item, "deleteMcpServer", "Delete an MCP server and what is stored of its authorization."), s.remove),
		route.Action(test, s.test),
		route.Action(authorize, s.authorize),
		route.Action(row("GET", mine, "listAgentMcpServers", "List the MCP servers that are assigned to an agent."), s.listOf),
		route.Action(row("PUT", mine, "setAgentMcpServers", "Set which MCP servers are assigned to an agent."), s.assign),
	}
}

package mcp

import (
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

const collection = "/api/v1/mcp/servers"

// Routes returns the operations on servers and their assignment to agents.
func (s *Servers) Routes() []route.Route {
	row := func(method, path, id, summary string) route.Row {
		r := route.Row{Method: method, Path: path, ID: id, Tag: "MCP", Summary: summary, Scopes: []authz.Scope{"agents:read"}}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"agents:write"}, authz.Developer
		}
		return r
	}
	item, mine := collection+"/{serverId}", "/api/v1/agents/{agentId}/mcp-servers"

	create := row("POST", collection, "createMcpServer", "Register an MCP server")
	create.Status, create.Outside, create.Fresh = 201, true, true
	create.Doc = "Connects to the server at once. If that fails the server is registered anyway and connect_error has the reason; " +
		"a URL without a public address is refused."
	change := row("PATCH", item, "patchMcpServer", "Update an MCP server")
	change.Errors, change.Outside, change.Fresh = []int{409}, true, true
	change.Doc = "Fields that are absent keep their value; id, tenant_id and transport cannot change. " +
		"While a secret is stored, a url of another " +
		"origin, another command or other args are refused with secret_would_move unless the secret is sent too."
	test := row("POST", item+"/test", "testMcpServer", "Test an MCP server")
	test.Outside = true
	test.Doc = "Connects to the server and lists its tools. The status is always 200; ok has the result."
	authorize := row("POST", item+"/authorize", "authorizeMcpServer", "Create a link to authorize an MCP server")
	authorize.Errors, authorize.Outside, authorize.Fresh = []int{409}, true, true
	remove := row("DELETE", item, "deleteMcpServer", "Delete an MCP server and its authorization")
	remove.Fresh = true
	get := row("GET", item, "getMcpServer", "Get an MCP server")
	get.Conditional, change.Conditional, remove.Conditional = true, true, true
	return []route.Route{
		route.Action(create, s.create),
		route.Action(row("GET", collection, "listMcpServers", "List MCP servers, newest first"), s.listAll),
		route.Action(get, s.get),
		route.Action(change, s.change),
		route.Action(remove, s.remove),
		route.Action(test, s.test),
		route.Action(authorize, s.authorize),
		route.Action(row("GET", mine, "listAgentMcpServers", "List an agent's MCP servers"), s.listAssigned),
		route.Action(row("PUT", mine, "setAgentMcpServers", "Set an agent's MCP servers"), s.assign),
	}
}

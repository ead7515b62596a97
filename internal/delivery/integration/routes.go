package integration

import (
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

const collection = "/api/v1/integrations"

// Routes returns the operations on integrations and on their links to agents.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary string) route.Row {
		r := route.Row{Method: method, Path: path, ID: id, Tag: "Integrations", Summary: summary, Scopes: []authz.Scope{"agents:read"}}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"agents:write"}, authz.Admin
		}
		return r
	}
	item, mine, oauth := collection+"/{integrationId}", "/api/v1/agents/{agentId}/integrations", collection+"/{provider}/oauth"
	one := mine + "/{integrationId}"
	const saved = "Connects with the service at once. If that fails the integration is saved anyway and connect_error has the reason."

	create := row("POST", collection, "createIntegration", "Create an integration")
	create.Status, create.Outside, create.Fresh, create.Errors, create.Doc = 201, true, true, []int{404}, saved
	change := row("PATCH", item, "patchIntegration", "Update an integration")
	change.Errors, change.Outside, change.Fresh = []int{409}, true, true
	change.Doc = saved + " While a credential is stored, another address of the service is refused with secret_would_move " +
		"unless the secrets are sent too."
	remove := row("DELETE", item, "deleteIntegration", "Delete an integration and its credential")
	remove.Status, remove.Fresh = 204, true
	get := row("GET", item, "getIntegration", "Get an integration")
	get.Conditional, change.Conditional, remove.Conditional = true, true, true
	test := row("POST", item+"/test", "testIntegration", "Test an integration")
	test.Outside, test.Doc = true, "Connects with the service. The status is always 200; success has the verdict. Nothing is changed."
	sync := row("POST", item+"/sync", "syncIntegration", "Connect an integration again and read its OpenAPI document again")
	sync.Outside, sync.Errors = true, []int{409}

	add := row("POST", mine, "addAgentIntegration", "Add an integration to an agent")
	add.Status, add.Outside, add.Fresh = 201, true, true
	add.Doc = "Links the integration that integration_id names, or makes a new one. " + saved
	changeOne := row("PATCH", one, "patchAgentIntegration", "Update an integration of an agent")
	changeOne.Errors, changeOne.Outside, changeOne.Fresh = []int{409}, true, true
	testOne := row("POST", one+"/test", "testAgentIntegration", "Test an integration of an agent")
	testOne.Outside = true
	removeOne := row("DELETE", one, "removeAgentIntegration", "Remove an integration from an agent")
	removeOne.Fresh = true
	removeOne.Doc = "An integration that no other agent has is deleted with its credential."

	start := row("POST", oauth+"/start", "startIntegrationOAuth", "Start the authorization of an integration")
	start.Fresh = true
	start.Doc = "Returns where a person authorizes it. The provider sends them back to the callback, whose state and code complete it."
	complete := row("POST", oauth+"/complete", "completeIntegrationOAuth", "Complete the authorization of an integration")
	complete.Outside, complete.Fresh, complete.Errors = true, true, []int{400, 409, 503}
	complete.Doc = "Only the person who began it can complete it, once. A state that was used or has expired is 400, another person's 403."
	return []route.Route{
		route.Action(row("GET", collection+"/catalog", "listConnectors", "List the connectors"), s.listCatalogue),
		route.Action(row("GET", collection, "listIntegrations", "List integrations, newest first"), s.list),
		route.Action(create, s.create),
		route.Action(get, s.get),
		route.Action(change, s.change),
		route.Action(remove, s.remove),
		route.Action(test, s.test),
		route.Action(sync, s.sync),
		route.Action(row("GET", item+"/tools", "listIntegrationTools", "List the tools of an integration"), s.listTools),
		route.Action(row("GET", mine, "listAgentIntegrations", "List an agent's integrations"), s.listOfAgent),
		route.Action(add, s.addToAgent),
		route.Action(row("PUT", mine, "setAgentIntegrations", "Set an agent's integrations"), s.set),
		route.Action(changeOne, s.changeOfAgent),
		route.Action(removeOne, s.removeFromAgent),
		route.Action(testOne, s.testOfAgent),
		route.Action(start, s.start),
		route.Action(complete, s.complete),
	}
}

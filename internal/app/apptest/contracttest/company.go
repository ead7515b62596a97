// Package contracttest lets tests call every operation of a running agentd: it
// reads the route table and the OpenAPI document (Operations), fills a tenant
// with two of everything that a path can name (NewCompany) and knows a call of
// each operation that succeeds (OwnCall, Recipes). A new operation is tested by
// being registered; where a test cannot guess a body or an id, its message says
// what to add to this package.
package contracttest

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
)

// startWaitingRun makes a run that waits, for approval of a call of calculator or for
// the answer to a call of ask_user.
func (c *Company) startWaitingRun(tool string) string {
	c.T.Helper()
	id := c.StartRun(c.IDs["agentId"][3], tool+" "+c.Mark, nil)
	c.WaitStatus(id, map[string]string{"calculator": "awaiting_approval", "ask_user": "paused"}[tool])
	return id
}

// startPausedRun makes a run that was paused by hand, with its answer held.
func (c *Company) startPausedRun() string {
	c.T.Helper()
	for range 20 { // on a busy machine the run may end first
		id := c.StartRun(c.IDs["agentId"][3], "slowly "+c.Mark, nil)
		if c.Do("POST", "/api/v1/runs/"+id+"/pause", nil).StatusCode != http.StatusOK {
			continue
		}
		if r := c.WaitStatus(id, "paused"); r["status"] == "paused" {
			return id
		}
	}
	c.T.Fatal("no run could be paused before it ended")
	return ""
}

// Company is a tenant that has some of everything that routes name.
type Company struct {
	*apptest.Server
	Mark  string // part of every name and text that is the company's own
	Grant identity.Grant

	// ids are what the parameters of paths may be. The first is in the usual
	// state; the others are in further ones that a caller could meddle with.
	IDs map[string][]string
}

// NewCompany fills a tenant with two of everything, so that every list has a
// second page. What a new slice keeps is added here.
func NewCompany(n *apptest.Server, mark string, id identity.Grant) *Company {
	n.T.Helper()
	c := &Company{Server: n.WithKey(string(id.RawKey)), Mark: mark, Grant: id, IDs: map[string][]string{}}
	add := func(parameter, id string) { c.IDs[parameter] = append(c.IDs[parameter], id) }

	agent := c.CreateAgent(apptest.Object{
		"name": mark + " agent", "description": mark, "prompts": apptest.Object{"system": mark}, "metadata": apptest.Object{"note": mark},
		"model": apptest.Object{"provider": "custom", "model_ref": "builtin/echo"}, "built_in_tools": []string{"calculator"},
	})
	c.Expect(200, "PATCH", "/api/v1/agents/"+agent, apptest.Object{"description": mark + " again"})
	suspended := c.CreateAgent(apptest.Object{"name": mark + " suspended"})
	c.Expect(200, "POST", "/api/v1/agents/"+suspended+"/suspend", apptest.Object{"reason": mark})
	waiting := c.CreateAgent(apptest.Object{"name": mark + " waiting", "a2a": apptest.Object{"enabled": true, "public": true}})
	careful := c.CreateAgent(apptest.Object{"name": mark + " careful", "built_in_tools": []string{"calculator", "ask_user"},
		"approval_required_tools": []string{"calculator"}})
	for _, id := range []string{agent, suspended, waiting, careful} {
		add("agentId", id)
		add("model", id)
	}
	add("versionNum", "2")
	add("subordinate", c.subordinate())

	ended := c.StartRun(agent, "calculate 6*7 "+mark, apptest.Object{"metadata": apptest.Object{"note": mark}})
	if r := c.WaitRun(ended); r["status"] != "completed" {
		c.T.Fatalf("a run that was to complete: %v", r)
	}
	add("runId", ended)
	for _, s := range c.Expect(200, "GET", "/api/v1/runs/"+ended+"/steps", nil)["steps"].([]any)[:2] {
		add("stepId", s.(apptest.Object)["step_id"].(string))
	}
	add("runId", c.StartRun(waiting, mark, nil))

	for range 2 {
		id := c.startWaitingRun("calculator")
		add("runId", id)
		pending := c.Expect(200, "GET", "/api/v1/runs/"+id, nil)["pending_approvals"].([]any)
		add("approvalId", pending[0].(apptest.Object)["approval_id"].(string))
	}

	for range 2 {
		add("responseId", c.Expect(200, "POST", apptest.ResponsesPath,
			apptest.Object{"model": agent, "instructions": mark, "input": mark})["id"].(string))
	}
	c.createPeople(add)
	c.createSessions(agent, add)
	createKeys(c, add)
	add("keyId", id.KeyID)

	for _, id := range []string{agent, waiting} {
		c.Expect(200, "PUT", "/api/v1/agents/"+id+"/schedule", apptest.Object{"cron": "0 0 1 1 *", "input": apptest.Object{"message": mark}})
	}
	for _, id := range c.Admin().Notify(c.TenantID(), mark+" first", mark+" second") {
		add("notificationId", id)
	}
	for _, name := range []string{" first", " second"} {
		made := c.Expect(201, "POST", "/api/v1/notifications/targets", apptest.Object{
			"label": mark + name, "config": apptest.Object{"kind": "webhook", "url": "https://example.com/" + mark},
		})
		add("targetId", made["id"].(string))
	}
	c.createFiles(add)
	c.createWebhooks(agent, add)
	c.createMemories(agent, add)
	c.createMCPServers(add)
	c.createStrangers(agent, add)
	c.createCommerce(add)
	c.createExamples(add)
	c.createRules()
	c.Expect(200, "PUT", "/api/v1/llm-credentials/mine",
		apptest.Object{"api_key": "sk-" + mark + "-0123456789", "endpoint_url": "https://" + mark + ".invalid/" + mark})
	c.settle()
	return c
}

// createCommerce has two customers take part in two courses, an agent two goals, the
// members two votes, and two teams.
func (c *Company) createCommerce(add func(parameter, id string)) {
	c.createMachines(add)
	c.T.Helper()
	const all = "/api/v1/commerce/"
	for _, name := range []string{" first", " second"} {
		add("customerId", c.Expect(201, "POST", all+"customers", apptest.Object{"name": c.Mark + name})["id"].(string))
		add("productId", c.Expect(201, "POST", all+"products", apptest.Object{
			"name": c.Mark + name, "type": "course", "price_cents": 4900, "currency": "EUR"})["id"].(string))
		add("goalId", c.Expect(201, "POST", "/api/v1/governance/goals", aim(c))["id"].(string))
		add("enrollmentId", c.Expect(201, "POST", all+"enrollments", enrolling(c))["id"].(string))
	}
	c.createVotes(add)
	c.createPursuits(add)
	c.createEvaluations(add)
	for range 2 {
		task := apptest.Object{"agent_id": c.IDs["agentId"][0], "messages": []apptest.Object{
			{"role": "user", "parts": []apptest.Object{{"type": "text", "text": c.Mark}}}}}
		taskID := c.Expect(202, "POST", "/api/v1/a2a/tasks", task)["id"].(string)
		add("taskId", taskID)
		c.WaitRun(taskID)
		c.Expect(200, "POST", "/api/v1/a2a", apptest.Object{"jsonrpc": "2.0", "id": 1, "method": "CreateTaskPushNotificationConfig",
			"params": apptest.Object{"taskId": taskID, "url": "https://example.com/" + c.Mark}})
		id := c.Expect(201, "POST", "/api/v1/teams", teamed(c))["team_id"].(string)
		add("teamId", id)
		edge := c.Expect(200, "GET", "/api/v1/teams/"+id+"/graph/edges", nil)["edges"].([]any)[0]
		add("teamRunId", c.runTeam(id))
		c.runTeam(id)
		add("edgeId", edge.(apptest.Object)["edge_id"].(string))
	}
}

// createPursuits makes two initiatives, a mission that waits for authorization and one
// that has ended.
func (c *Company) createPursuits(add func(parameter, id string)) {
	c.T.Helper()
	for range 2 {
		add("initiativeId", c.Expect(201, "POST", "/api/v1/initiatives", pursuing(c))["initiative_id"].(string))
		made := c.Expect(201, "POST", "/api/v1/missions", planned(c))
		add("missionId", made["mission_id"].(string))
		add("objectiveId", made["objective_ids"].([]any)[0].(string))
	}
	ended := "/api/v1/missions/" + c.IDs["missionId"][len(c.IDs["missionId"])-1]
	c.Expect(200, "POST", ended+"/abort", nil)
	apptest.Eventually(c.T, func() bool { return c.Expect(200, "GET", ended, nil)["completed_at"] != nil })
}

// createVotes makes two proposals, of which the first has a ballot, and two each of cases and
// requests.
func (c *Company) createVotes(add func(parameter, id string)) {
	c.T.Helper()
	const all = "/api/v1/governance/voting/proposals"
	for _, name := range []string{" first", " second"} {
		add("proposalId", c.Expect(201, "POST", all, apptest.Object{"title": c.Mark + name, "proposal_type": "general"})["id"].(string))
	}
	for range 2 {
		add("requestId", c.Expect(201, "POST", "/api/v1/governance/ambassador/requests", asking(c))["id"].(string))
		add("designRequestId", c.Expect(201, "POST", "/api/v1/governance/builder/requests", apptest.Object{"title": c.Mark})["id"].(string))
		add("caseId", c.Expect(201, "POST", "/api/v1/governance/arbiter/cases", complaint(c))["id"].(string))
	}
	for range 2 {
		add("version", c.Expect(201, "POST", "/api/v1/governance/improvement/"+c.IDs["agentId"][0],
			apptest.Object{"type": "prompt_change", "title": c.Mark})["version"].(string))
	}
	c.veto()
	for _, agent := range c.IDs["agentId"] {
		c.assess(agent)
	}
	c.Expect(201, "POST", all+"/"+c.IDs["proposalId"][0]+"/ballot", apptest.Object{"vote": "yes", "reasoning": c.Mark})
}

// veto registers an ambassador, who vetoes something.
func (c *Company) veto() {
	c.T.Helper()
	add := func(parameter, id string) { c.IDs[parameter] = append(c.IDs[parameter], id) }
	add("ambassadorId", c.Expect(201, "POST", "/api/v1/governance/ambassador/ambassadors/bootstrap",
		apptest.Object{"name": c.Mark})["ambassador_id"].(string))
	c.Expect(201, "POST", "/api/v1/governance/ambassador/ambassadors", apptest.Object{"ambassador_id": c.Mark})
	add("ambassadorId", c.Mark)
	for range 2 {
		made := c.Expect(201, "POST", "/api/v1/governance/arbiter/cases", complaint(c))["id"]
		c.Expect(201, "POST", "/api/v1/governance/ambassador/veto", apptest.Object{"target_type": "case", "target_id": made, "reason": c.Mark})
	}
}

// settle waits until what the company's runs used is counted, which takes seconds,
// and has the entries of its ledger sealed.
func (c *Company) settle() {
	c.T.Helper()
	c.Expect(200, "GET", "/api/v1/governance/ledger", nil)
	beside := c.Admin()
	apptest.Eventually(c.T, func() bool {
		return len(beside.Query(`SELECT entry_id FROM usage_entries WHERE tenant_id = ?`, c.Grant.TenantID)) == 0
	})
}

// createRules makes a constitution, and two violations that the ledger has.
func (c *Company) createRules() {
	c.T.Helper()
	for _, id := range c.IDs["agentId"] {
		c.Expect(200, "PUT", "/api/v1/governance/permissions/"+id, apptest.Object{
			"allowed_tools": []string{"*", c.Mark}, "max_budget_per_run_usd": nil, "can_spawn": true,
		})
	}
	c.IDs["traceId"] = c.IDs["runId"][:2]
	c.Expect(200, "PUT", "/api/v1/governance/constitution", apptest.Object{
		"rules": []apptest.Object{{
			"rule_id": c.Mark, "principle": c.Mark, "action": "tool:calculator", "severity": "info",
			"scope": "agent", "scope_targets": []string{c.IDs["agentId"][0]},
		}}, "rationale": c.Mark,
	})
	c.Expect(200, "PUT", "/api/v1/governance/emergency/root-attestation", attestation(c))
	for range 2 {
		c.WaitRun(c.StartRun(c.IDs["agentId"][0], "calculate 6*7 "+c.Mark, nil))
	}
}

// createFiles fills a company with files, workspaces and artifacts.
func (c *Company) createFiles(add func(parameter, id string)) {
	c.T.Helper()
	for _, name := range []string{"first", "second"} {
		text := c.Mark + " " + name
		file := c.Expect(201, "POST", "/api/v1/files", apptest.Object{"data": base64.StdEncoding.EncodeToString([]byte(text)),
			"mime_type": "text/plain", "filename": text + ".txt"})
		add("fileId", file["file_id"].(string))
		workspace := c.Expect(201, "POST", "/api/v1/workspaces", apptest.Object{"name": text})["workspace_id"].(string)
		add("workspaceId", workspace)
		for _, path := range []string{"docs/a.txt", "docs/b.txt", "move.txt", c.Mark + ".txt"} {
			c.Expect(201, "PUT", "/api/v1/workspaces/"+workspace+"/files?path="+path, text, "Content-Type", "text/plain")
		}
		add("artifactId", c.Admin().SaveArtifact(c.Grant.TenantID, c.IDs["runId"][0], text+".txt"))
	}
	for _, relation := range []string{"assign", "share"} {
		c.Expect(200, "POST", "/api/v1/workspaces/"+c.IDs["workspaceId"][0]+"/"+relation, apptest.Object{"agent_id": c.IDs["agentId"][1]})
	}
}

// createWebhooks makes subscriptions and has an event be delivered to them, in vain.
func (c *Company) createWebhooks(agent string, add func(parameter, id string)) {
	c.T.Helper()
	for _, name := range []string{"/first", "/second"} {
		made := c.Expect(201, "POST", "/api/v1/webhooks",
			apptest.Object{"url": "https://" + c.Mark + ".invalid" + name, "events": []string{"agent.updated"}})
		add("webhookId", made["webhook_id"].(string))
	}
	c.Expect(200, "PATCH", "/api/v1/agents/"+agent, apptest.Object{"description": c.Mark + " told"})
	for _, id := range c.IDs["webhookId"] {
		apptest.Eventually(c.T, func() bool {
			log := c.Expect(200, "GET", "/api/v1/webhooks/"+id+"/deliveries?limit=1", nil)["deliveries"].([]any)
			return log[0].(apptest.Object)["status"] == "pending" && log[0].(apptest.Object)["attempt_number"] == 2.0
		})
		for _, d := range c.Expect(200, "GET", "/api/v1/webhooks/"+id+"/deliveries", nil)["deliveries"].([]any) {
			add("deliveryId", d.(apptest.Object)["delivery_id"].(string))
			add("eventId", d.(apptest.Object)["event_id"].(string))
		}
	}
}

// createMemories has an agent remember and know things, and waits until they are
// embedded and can be searched, so that nothing changes any more by itself.
func (c *Company) createMemories(agent string, add func(parameter, id string)) {
	c.T.Helper()
	memory, bases := "/api/v1/agents/"+agent+"/memory", "/api/v1/knowledge-bases"
	for _, name := range []string{" first", " second"} {
		entry := c.Expect(201, "POST", memory, apptest.Object{"content": c.Mark + name, "entity_name": "somebody", "tags": []string{c.Mark}})
		add("entryId", entry["entry_id"].(string))
		base := c.Expect(201, "POST", bases, apptest.Object{"name": c.Mark + name})
		add("knowledgeBaseId", base["id"].(string))
		document := c.Expect(201, "POST", bases+"/"+c.IDs["knowledgeBaseId"][0]+"/documents", apptest.Object{"content": c.Mark + name})
		add("documentId", document["document_id"].(string))
		add("vectorStoreId", base["id"].(string))
		c.Expect(200, "POST", "/v1/vector_stores/"+base["id"].(string)+"/files", apptest.Object{"file_id": c.IDs["fileId"][0]})
	}
	c.Expect(200, "PUT", memory+"/core/human", apptest.Object{"content": c.Mark})
	add("label", "human")
	add("provider", apptest.Corp)
	add("entity", "somebody")
	add("planId", "self_hosted")
	beside := c.Admin()
	apptest.Eventually(c.T, func() bool {
		return len(beside.Query(`SELECT work_key FROM work WHERE kind IN ('embed', 'change') OR kind = 'search' AND work_key <> 'runs'`)) == 0
	})
}

// IsOperator reports whether the company is the operator's.
func (c *Company) IsOperator() bool { return c.Key == apptest.OwnerKey }

// subordinate makes a company that the operator can do things with.
func (c *Company) subordinate() string {
	c.T.Helper()
	made, err := c.Admin().Tenants.Create(c.T.Context(), "Subordinate", "")
	if err != nil {
		c.T.Fatal(err)
	}
	return made.TenantID
}

// WithT is the same company in a subtest.
func (c *Company) WithT(t testing.TB) *Company {
	inside := *c
	inside.Server = c.WithKey(c.Key)
	inside.T = t
	return &inside
}

// createSessions makes sessions: one in use, one that is shared, one that is closed.
func (c *Company) createSessions(agent string, add func(parameter, id string)) {
	c.createChats(agent, add)
	c.T.Helper()
	var ids []string
	for _, message := range []string{"calculate 6*7 ", "calculate 6*7 ", "say "} {
		id := c.CreateSession(agent, apptest.Object{"metadata": apptest.Object{"note": c.Mark}})
		run := c.SendMessage(id, message+c.Mark)
		c.WaitRun(run)
		c.Expect(200, "PUT", "/api/v1/runs/"+run+"/feedback", apptest.Object{"message_id": run, "reaction": "up", "reason": c.Mark})
		ids = append(ids, id)
		add("sessionId", id)
	}
	c.talkAsPage(agent)
	path := "/api/v1/sessions/" + ids[0]
	for _, name := range []string{" first", " second"} {
		add("branchId", c.Expect(201, "POST", path+"/branch", apptest.Object{"name": c.Mark + name})["branch_id"].(string))
		add("annotationId", c.Expect(201, "POST", path+"/annotations",
			apptest.Object{"message_id": c.Mark, "content": c.Mark + name})["id"].(string))
	}
	for _, status := range []string{"pending", "pending_confirmation"} {
		todo := apptest.Object{"title": c.Mark, "status": status, "assign_agent_id": agent, "due_at": nil}
		add("todoId", c.Expect(201, "POST", path+"/todos", todo)["todo_id"].(string))
	}
	url := c.Expect(200, "POST", "/api/v1/sessions/"+ids[1]+"/share", apptest.Object{"role": "viewer"})["share_url"].(string)
	add("shareId", url[strings.LastIndexByte(url, '/')+1:])
	c.Expect(200, "DELETE", "/api/v1/sessions/"+ids[2], nil)
}

// createMCPServers are of a company, for the tests of all operations. Nobody connects
// to them.
func (c *Company) createMCPServers(add func(parameter, id string)) {
	c.T.Helper()
	for _, name := range []string{" first", " second"} {
		server := c.CreateMCPServer(apptest.Object{
			"name": c.Mark + name, "url": "https://" + c.Mark + ".invalid/" + c.Mark, "enabled": false, "assigned_agent_ids": c.IDs["agentId"][:1],
		})
		add("serverId", server["id"].(string))
	}
	c.createIntegrations(add)
	c.createListings(add)
}

// createIntegrations are of a company, for the tests of all operations. Nobody connects
// to their services.
func (c *Company) createIntegrations(add func(parameter, id string)) {
	c.T.Helper()
	for _, name := range []string{" first", " second"} {
		add("integrationId", c.addIntegration(c.Mark+name))
	}
}

// addIntegration creates an integration of the first agent that is switched off.
func (c *Company) addIntegration(name string) string {
	c.T.Helper()
	at := "https://" + c.Mark + ".invalid/" + c.Mark
	return c.Expect(201, "POST", "/api/v1/integrations", apptest.Object{
		"connector_id": "http", "name": name, "enabled": false, "assigned_agent_ids": c.IDs["agentId"][:1],
		"config": apptest.Object{"spec_url": at + "/openapi.json", "base_url": at},
	})["id"].(string)
}

// MarketPath is the path of the marketplace.
const MarketPath = "/api/v1/marketplace"

// createListings are two drafts of a company, a subscription to what another company
// offers, and two invocations of that.
func (c *Company) createListings(add func(parameter, id string)) {
	c.T.Helper()
	for _, name := range []string{" first", " second"} {
		add("listingId", c.addListing(c.Mark+name))
	}
	_, seller := c.WithKey(apptest.OwnerKey).CreateTenant(apptest.Object{"name": "a seller"})
	offered := seller.Expect(201, "POST", MarketPath+"/listings", apptest.Object{
		"agent_id": seller.CreateAgent(apptest.Object{"name": "offered", "model": apptest.EchoModel}), "name": "offered", "category": "other",
		"pricing": apptest.Object{"model": "subscription", "price_per_month_usd": 1}, "publish": true,
	})["listing_id"].(string)
	add("offered", offered)
	c.Expect(201, "POST", MarketPath+"/listings/"+offered+"/subscribe", apptest.Object{"stripe_subscription_id": c.Mark})
	c.Expect(201, "POST", MarketPath+"/listings/"+offered+"/rate", apptest.Object{"rating": 5, "comment": c.Mark})
	for range 2 {
		add("invocationId", c.Expect(202, "POST", MarketPath+"/listings/"+offered+"/invoke",
			apptest.Object{"input": apptest.Object{"message": c.Mark}})["invocation_id"].(string))
	}
}

// addListing makes a draft of a listing of the first agent.
func (c *Company) addListing(name string) string {
	c.T.Helper()
	return c.Expect(201, "POST", MarketPath+"/listings", apptest.Object{
		"agent_id": c.IDs["agentId"][0], "name": name, "description": c.Mark, "category": "other",
	})["listing_id"].(string)
}

// NewOwnCompany is the first company of a node, with some of everything in it.
func NewOwnCompany(t testing.TB, n *apptest.Server) *Company {
	t.Helper()
	keys := n.Expect(200, "GET", "/api/v1/tenants/me/keys", nil)["keys"].([]any)
	return NewCompany(n, "mine", identity.Grant{KeyID: keys[0].(apptest.Object)["key_id"].(string), RawKey: apptest.OwnerKey})
}

// SensorsPath is the path of the sensors of a company.
const SensorsPath = "/api/v1/webhooks/sensors"

// createSensors creates a sensor whose calls are signed and one that accepts any.
// createStrangers makes what strangers reach: sensors, and an agent for visitors.
func (c *Company) createStrangers(agent string, add func(parameter, id string)) {
	c.T.Helper()
	c.createSensors(agent, add)
	c.createVisitors(add)
}

func (c *Company) createSensors(agent string, add func(parameter, id string)) {
	c.T.Helper()
	for _, more := range []apptest.Object{{}, {"unsigned": true, "max_triggers": 1000}} {
		more["agent_id"], more["instructions"] = agent, c.Mark
		add("sensorId", c.Expect(201, "POST", SensorsPath, more)["webhook_id"].(string))
	}
}

// createPublished creates an agent for visitors.
func (c *Company) createPublished() string {
	c.T.Helper()
	return c.CreateAgent(apptest.Object{"name": c.Mark + " public", "visibility": "public", "public_config": apptest.Object{"enabled": true}})
}

// createVisitors makes the company's profile public, and has a visitor report twice.
func (c *Company) createVisitors(add func(parameter, id string)) {
	c.T.Helper()
	add("slug", c.Expect(200, "PATCH", "/api/v1/tenants/me", apptest.Object{"public": true})["slug"].(string))
	stranger := c.WithKey("")
	made := stranger.Expect(201, "POST", "/api/v1/public/sessions", apptest.Object{"agent_id": c.createPublished(), "fresh": true})
	id, token := made["session_id"].(string), made["token"].(string)
	for range 2 {
		report := apptest.Object{"target_type": "session", "target_id": id, "reason": "other", "details": c.Mark}
		add("visitorReportId", stranger.Expect(202, "POST", "/api/v1/public/sessions/"+id+"/reports", report,
			"X-Public-Session-Token", token)["report_id"].(string))
	}
}

// runTeam has a team do something, and waits until it has.
func (c *Company) runTeam(id string) (teamRun string) {
	c.T.Helper()
	teamRun = c.Expect(202, "POST", "/api/v1/teams/"+id+"/runs", apptest.Object{"message": c.Mark})["team_run_id"].(string)
	apptest.Eventually(c.T, func() bool {
		return c.Expect(200, "GET", "/api/v1/teams/"+id+"/runs/"+teamRun, nil)["completed_at"] != nil
	})
	return teamRun
}

// createChats makes conversations that front ends hold.
func (c *Company) createChats(agent string, add func(parameter, id string)) {
	for _, chat := range []string{c.Mark + "-chat", c.Mark + "-other-chat"} {
		c.CreateSession(agent, apptest.Object{"external_id": chat})
		add("chatId", chat)
	}
}

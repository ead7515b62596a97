package contracttest

import (
	"strings"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
)

// recipe is how to call an operation so that it succeeds.
type recipe struct {
	body apptest.Object                  // nil: none
	with func(c *Company) apptest.Object // a body that names things of the company
	ids  func(c *Company, call *Call)    // path parameters other than the first of their kind
}

// Recipes are for the operations with a body whose rows have no example, and for
// those that need more than the first of everything in their path. By operation id.
var Recipes = map[string]recipe{
	"createAgent": {body: apptest.Object{"name": "made by a test"}},
	"updateAgent": {body: apptest.Object{"description": "changed by a test"}},
	"patchAgent":  {body: apptest.Object{"description": "changed by a test"}},
	"suspendAgent": {
		body: apptest.Object{"reason": "a test"},
		ids:  func(c *Company, call *Call) { call.Path["agentId"] = c.IDs["agentId"][2] },
	},
	"activateAgent": {ids: func(c *Company, call *Call) { call.Path["agentId"] = c.IDs["agentId"][1] }},

	"createRun": {with: func(c *Company) apptest.Object {
		return apptest.Object{"agent_id": c.IDs["agentId"][0], "input": apptest.Object{"message": "hello"}}
	}},

	"removeSchedule": {ids: func(c *Company, call *Call) { call.Path["agentId"] = c.IDs["agentId"][2] }}, // the first is deleted
	"setSchedule":    {body: apptest.Object{"cron": "0 0 1 1 *", "input": apptest.Object{"message": "a test"}}},
	"approveRun":     {body: apptest.Object{}, ids: func(c *Company, call *Call) { call.Path["runId"] = c.startWaitingRun("calculator") }},
	"rejectRun":      {body: apptest.Object{}, ids: func(c *Company, call *Call) { call.Path["runId"] = c.startWaitingRun("calculator") }},
	"pauseRun": {ids: func(c *Company, call *Call) {
		call.Path["runId"] = c.StartRun(c.IDs["agentId"][3], c.Mark, nil)
		c.WaitStatus(call.Path["runId"], "running")
	}},
	"resumeRun": {body: apptest.Object{}, ids: func(c *Company, call *Call) { call.Path["runId"] = c.startPausedRun() }},
	"continueRun": {
		body: apptest.Object{"continuation_token": "none"},
		ids: func(c *Company, call *Call) {
			id := c.StartRun(c.IDs["agentId"][3], c.Mark, apptest.Object{"resource_limits": apptest.Object{"max_steps": 0}})
			call.Path["runId"] = id
			call.Body = apptest.Object{"continuation_token": c.WaitRun(id)["output"].(apptest.Object)["continuation_token"]}
		},
	},
	"respondToRun": {
		body: apptest.Object{"response": "an answer"},
		ids:  func(c *Company, call *Call) { call.Path["runId"] = c.startWaitingRun("ask_user") },
	},

	"requestOtpCode":       {body: apptest.Object{"email": "ann@example.com"}},
	"verifyOtpCode":        {body: apptest.Object{"email": "ann@example.com", "code": "123456"}},
	"register":             {body: apptest.Object{"email": "ann@example.com", "accept_terms": true, "accept_privacy": true}},
	"exchangeOAuthAppCode": {body: apptest.Object{"code": "a code", "code_verifier": strings.Repeat("v", 43)}},
	"verifyMfa":            {body: apptest.Object{"code": "123456"}},
	"verifyMfaRecovery":    {body: apptest.Object{"code": "ABCD-EFGH-IJKL-MNOP"}},
	"disableMfa":           {body: apptest.Object{"code": "123456"}},
	"enrolMfa": {body: apptest.Object{"label": "a test"},
		ids: func(c *Company, _ *Call) { c.Admin().Exec(`DELETE FROM signin_factors`) }},

	"createMcpServer": {body: apptest.Object{"name": "made by a test", "transport": "http", "url": "https://mcp.example.com/",
		"enabled": false}},
	"patchMcpServer": {body: apptest.Object{"name": "changed by a test"}},
	"setAgentMcpServers": {with: func(c *Company) apptest.Object {
		return apptest.Object{"server_ids": []string{c.IDs["serverId"][1]}}
	}},
	"callMcp":             {body: apptest.Object{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}},
	"createSession":       {with: func(c *Company) apptest.Object { return apptest.Object{"agent_id": c.IDs["agentId"][0]} }},
	"updateSession":       {body: apptest.Object{"metadata": apptest.Object{"note": "changed by a test"}}},
	"sendSessionMessage":  {body: apptest.Object{"content": "hello"}},
	"bulkDeleteSessions":  {with: func(c *Company) apptest.Object { return apptest.Object{"session_ids": []string{c.IDs["sessionId"][1]}} }},
	"streamSessionEvents": {ids: func(c *Company, call *Call) { call.Path["sessionId"] = c.IDs["sessionId"][2] }}, // it ends
	"exportSession":       {ids: func(_ *Company, call *Call) { call.Query.Set("format", "json") }},               // the other is no JSON
	"createSessionBranch": {body: apptest.Object{}},
	"deleteSessionBranch": {ids: func(c *Company, call *Call) { call.Path["branchId"] = c.IDs["branchId"][1] }},
	"createSessionShare":  {body: apptest.Object{"role": "viewer"}},

	"createSessionAnnotation": {body: apptest.Object{"message_id": "a message", "content": "made by a test"}},
	"updateSessionAnnotation": {body: apptest.Object{"resolved": true}},
	"createSessionTodo":       {body: apptest.Object{"title": "made by a test"}},
	"updateSessionTodo":       {body: apptest.Object{"description": "changed by a test"}},
	"confirmSessionTodo": {
		body: apptest.Object{"execute": false},
		ids:  func(c *Company, call *Call) { call.Path["todoId"] = c.IDs["todoId"][1] },
	},
	"createTask": {with: func(c *Company) apptest.Object {
		return apptest.Object{"title": "made by a test", "agent_id": c.IDs["agentId"][0]}
	}},
	"searchWeb": {body: apptest.Object{"query": "ducks"}},
	// Over at once: what other tests do in the company is to succeed.
	"activateSafeMode": {body: apptest.Object{"reason": "made by a test", "deadline_hours": 1e-9}},
	"amendConstitution": {with: func(*Company) apptest.Object { // each time another rule
		return apptest.Object{"rule_id": ident.New(), "action": "add", "rule": apptest.Object{"rule_id": "any", "principle": "made by a test"}}
	}},
	"spawnAgent": {body: apptest.Object{"name": "made by a test", "tools": []string{"calculator"}}},

	"createWebhook": {body: apptest.Object{"url": "https://example.com/made-by-a-test", "events": []string{"run.failed"}}},
	"testWebhook": {ids: func(c *Company, call *Call) {
		c.Expect(200, "POST", "/api/v1/webhooks/"+c.IDs["webhookId"][0]+"/enable", nil)
	}},
	"replayDeadLetter": {ids: func(c *Company, call *Call) {
		c.Admin().Exec(`UPDATE webhook_deliveries SET dead = TRUE WHERE event_id = ? AND webhook_id = ? AND attempt = 1`,
			call.Path["eventId"], c.IDs["webhookId"][0])
	}},

	"setNotificationPrefs": {body: apptest.Object{"muted_types": []string{"made.by.a.test"}}},
	"createSensor": {with: func(c *Company) apptest.Object {
		return apptest.Object{"agent_id": c.IDs["agentId"][0], "instructions": "made by a test"}
	}},
	// The other one takes signed calls only.
	"sensorWebhook": {ids: func(c *Company, call *Call) { call.Path["webhookId"] = c.IDs["sensorId"][1] }},

	"createNotificationTarget": {body: apptest.Object{"label": "made by a test",
		"config": apptest.Object{"kind": "webhook", "url": "https://example.com/hook"}}},

	"createApiKey": {body: apptest.Object{"name": "made by a test"}},

	"setUserRole":             {body: apptest.Object{"role": "developer"}},
	"transferTenantOwnership": {ids: func(c *Company, call *Call) { call.Path["userId"] = c.IDs["userId"][1] }}, // the first is deleted
	"inviteUser": {with: func(*Company) apptest.Object {
		return apptest.Object{"email": ident.New() + "@example.com", "role": "viewer"}
	}},
	"resendInvite":    {ids: (*Company).storeInvite},
	"acceptInvite":    {body: apptest.Object{"token": ""}, ids: (*Company).storeInviteWithToken},
	"acceptMyInvite":  {body: apptest.Object{"name": "made by a test"}, ids: (*Company).inviteOwner},
	"declineMyInvite": {ids: (*Company).inviteOwner},
	"leaveTenant":     {ids: (*Company).joinTenant},
	"switchTenant":    {with: func(c *Company) apptest.Object { return apptest.Object{"tenant_id": c.IDs["tenantId"][0]} }},
	"createMyTenant":  {body: apptest.Object{"name": "made by a test"}},
	"patchMe":         {body: apptest.Object{"avatar_url": "https://example.com/a.png"}},
	"updateTenant":    {body: apptest.Object{"description": "changed by a test"}},
	"patchTenant":     {body: apptest.Object{"settings": apptest.Object{"note": "changed by a test"}}},

	"uploadFile":            {body: apptest.Object{"data": "aGVsbG8=", "mime_type": "text/plain", "filename": "made by a test.txt"}},
	"createWorkspace":       {body: apptest.Object{"name": "made by a test"}},
	"updateWorkspace":       {body: apptest.Object{"name": "named by a test"}},
	"deleteWorkspace":       {ids: func(c *Company, call *Call) { call.Path["workspaceId"] = c.IDs["workspaceId"][1] }},
	"assignWorkspace":       {with: func(c *Company) apptest.Object { return apptest.Object{"agent_id": c.IDs["agentId"][1]} }},
	"unassignWorkspace":     {with: func(c *Company) apptest.Object { return apptest.Object{"agent_id": c.IDs["agentId"][1]} }},
	"shareWorkspace":        {with: func(c *Company) apptest.Object { return apptest.Object{"agent_id": c.IDs["agentId"][1]} }},
	"revokeWorkspaceShare":  {ids: func(c *Company, call *Call) { call.Path["agentId"] = c.IDs["agentId"][1] }},
	"uploadWorkspaceFile":   {ids: atPath("empty.txt")},
	"downloadWorkspaceFile": {ids: atPath("docs/a.txt")},
	"deleteWorkspaceFile":   {ids: atPath("docs/b.txt")},
	"moveWorkspaceFile":     {body: apptest.Object{"from_path": "move.txt", "to_path": "moved/away.txt"}},
	"copyWorkspaceFile":     {body: apptest.Object{"source_path": "docs/a.txt", "dest_path": "copied/a.txt"}},
	"createGuardrail": {body: apptest.Object{"name": "made by a test", "kind": "keyword", "stage": "input",
		"config": apptest.Object{"keywords": []string{"x"}}}},
	"updateGuardrail": {body: apptest.Object{"name": "changed by a test"}},
	"patchGuardrail":  {body: apptest.Object{"action": "flag"}},

	"createMemory":           {body: apptest.Object{"content": "made by a test"}},
	"searchMemory":           {body: apptest.Object{"text": "made"}},
	"ingestMemory":           {with: uploaded},
	"importMemory":           {body: apptest.Object{"entries": []apptest.Object{{"content": "imported by a test"}}}},
	"updateAgentMemoryEntry": {body: apptest.Object{"content": "changed by a test"}},
	"updateCoreMemoryBlock":  {body: apptest.Object{"content": "changed by a test"}},
	"createKnowledgeBase":    {body: apptest.Object{"name": "made by a test"}},
	"updateKnowledgeBase":    {body: apptest.Object{"description": "changed by a test"}},
	"ingestKbDocument":       {with: uploaded},
	"searchKnowledgeBase":    {body: apptest.Object{"query": "made"}},

	"createGoal":       {with: aim},
	"updateGoalStatus": {body: apptest.Object{"status": "active"}},
	"castBallot":       {body: apptest.Object{"vote": "yes", "reasoning": "made by a test"}, ids: proposed},
	"tallyVotes":       {ids: proposed},
	"vetoProposal":     {body: apptest.Object{"reason": "made by a test"}, ids: proposed},

	"createCommerceEnrollment":   {with: enrolling},
	"payCommerceOrder":           {body: apptest.Object{"payment_intent_id": "made by a test"}, ids: ordered("")},
	"failCommerceOrder":          {ids: ordered("")},
	"refundCommerceOrder":        {ids: ordered("pay")},
	"pauseCommerceEnrollment":    {ids: enrolled("")},
	"resumeCommerceEnrollment":   {ids: enrolled("pause")},
	"completeCommerceEnrollment": {ids: enrolled("")},
	"cancelCommerceEnrollment":   {ids: enrolled("")},

	"setLlmCredential":    {body: apptest.Object{"api_key": "sk-made-by-a-test"}, ids: ofProvider("openai")},
	"testLlmCredential":   {ids: ofProvider("mine")},
	"listProviderModels":  {ids: ofProvider("default")},
	"createSpeech":        {body: apptest.Object{"input": "made by a test"}},
	"createTranscription": {ids: spoken},
	"deleteLlmCredential": {ids: func(c *Company, call *Call) {
		c.Expect(200, "PUT", "/api/v1/llm-credentials/groq", apptest.Object{"api_key": "sk-made-by-a-test"})
		call.Path["provider"] = "groq"
	}},

	"createTenant":         {body: apptest.Object{"name": "made by a test"}},
	"updateAdminTenant":    {body: apptest.Object{"name": "named by a test"}},
	"suspendTenant":        {body: apptest.Object{"reason": "a test"}},
	"updateTenantSettings": {body: apptest.Object{"purge_protection": false}},
	"purgeTenant": {body: apptest.Object{}, ids: func(_ *Company, call *Call) {
		call.Body = apptest.Object{"confirm": call.Path["tenantId"]}
	}},
	"setBillingBudget": {body: apptest.Object{"limit_usd": 1000}},

	"llmChatCompletion": {body: apptest.Object{"model": "builtin/echo", "messages": []apptest.Object{{"role": "user", "content": "hello"}}}},

	"createMessage": {body: apptest.Object{"model": "builtin/echo", "max_tokens": 16,
		"messages": []apptest.Object{{"role": "user", "content": "hello"}}}},
	"countMessageTokens": {body: apptest.Object{"model": "claude-x", "messages": []apptest.Object{{"role": "user", "content": "hello"}}}},
	"createChatCompletion": {with: func(c *Company) apptest.Object {
		return apptest.Object{"model": c.IDs["agentId"][0], "messages": []apptest.Object{{"role": "user", "content": "hello"}}}
	}},
	"createResponse": {with: func(c *Company) apptest.Object {
		return apptest.Object{"model": c.IDs["agentId"][0], "input": "hello", "previous_response_id": c.IDs["responseId"][0]}
	}},
	"createEmbedding": {body: apptest.Object{"input": "hello"}},
}

// aim is a goal of the company's first agent.
func aim(c *Company) apptest.Object {
	return apptest.Object{"agent_id": c.IDs["agentId"][0], "title": "made by a test", "description": c.Mark}
}

// proposed names a proposal that is voted on.
func proposed(c *Company, call *Call) {
	call.Path["proposalId"] = c.Expect(201, "POST", "/api/v1/governance/voting/proposals",
		apptest.Object{"title": "made by a test", "proposal_type": "general"})["id"].(string)
}

// enrolling is a body that names a customer and a product.
func enrolling(c *Company) apptest.Object {
	return apptest.Object{"customer_id": c.IDs["customerId"][0], "product_id": c.IDs["productId"][0], "metadata": apptest.Object{"note": c.Mark}}
}

// ordered names an order after a move of it.
func ordered(move string) func(*Company, *Call) {
	return made("orderId", "/api/v1/commerce/orders", move, func(*Company) apptest.Object {
		return apptest.Object{"amount_cents": 1, "currency": "EUR"}
	})
}

// enrolled names an enrollment after a move of it.
func enrolled(move string) func(*Company, *Call) {
	return made("enrollmentId", "/api/v1/commerce/enrollments", move, enrolling)
}

// made creates what a path names, and moves it to the state that the call needs.
func made(parameter, path, move string, body func(*Company) apptest.Object) func(*Company, *Call) {
	return func(c *Company, call *Call) {
		id := c.Expect(201, "POST", path, body(c))["id"].(string)
		if move != "" {
			c.Expect(200, "POST", path+"/"+id+"/"+move, nil)
		}
		call.Path[parameter] = id
	}
}

// atPath names a file of a workspace in the query.
func atPath(path string) func(*Company, *Call) {
	return func(_ *Company, call *Call) { call.Query.Set("path", path) }
}

// ofProvider names a model provider in the path.
func ofProvider(name string) func(*Company, *Call) {
	return func(_ *Company, call *Call) { call.Path["provider"] = name }
}

// spoken is a form with a sound.
func spoken(_ *Company, call *Call) {
	call.Body = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\nsound\r\n--b--\r\n"
	call.Headers = append(call.Headers, "Content-Type", "multipart/form-data; boundary=b")
}

// uploaded is a body that names a file.
func uploaded(c *Company) apptest.Object { return apptest.Object{"file_id": c.IDs["fileId"][0]} }

// References maps the fields of bodies and queries to the path parameter whose IDs
// they take, or to "" where the value is stored without being looked up.
var References = map[string]string{
	"agent_id":  "agentId",
	"tenant_id": "tenantId", // one of the person's

	"session_id":        "sessionId",
	"assign_agent_id":   "agentId",
	"fork_point_run_id": "runId",
	"parent_branch_id":  "branchId",
	"message_id":        "", // any message id that an annotation names
	"agent_ids":         "agentId",
	"session_ids":       "sessionId",

	"run_id":        "runId",
	"parent_run_id": "runId",
	"root_run_id":   "runId",
	"started_by":    "", // a type and an id, which is compared and not looked up
	// Approvals are looked for among those of the run.
	"approval_id":           "approvalId",
	"model":                 "model", // of the chat routes: an agent
	"createEmbedding model": "",      // whatever it says

	"previous_response_id": "responseId",

	"assigned_agent_ids": "agentId",
	"server_ids":         "serverId",
	"client_id":          "", // of an authorization server
	// Of Microsoft's directory, not of ours.
	"access.entra.tenant_id": "", "access.entra.client_id": "",
	"workspace_id":       "workspaceId",
	"knowledge_base_id":  "knowledgeBaseId",
	"knowledge_base_ids": "knowledgeBaseId",
	"mcp.servers[].id":   "", // callers choose it
	"skills[].id":        "", // callers choose it
	"spec_id":            "", // of no table yet
	// Guardrails are looked up when runs need them, among the company's.
	"guardrail_id": "",

	"actor_id": "keyId",

	"proposer_agent_id": "agentId",

	"customer_id":           "customerId",
	"product_id":            "productId",
	"storefront_product_id": "", // of systems outside, as are the next two
	"payment_price_id":      "",
	"payment_intent_id":     "",
	// Rules and checks only compare these.
	"rule_id": "", "rules[].rule_id": "", "rule.rule_id": "",
	"checkGovernance agent_id": "", "checkGovernance run_id": "",
	"proposal_id": "", // kept beside a goal or an amendment

	// What will name things once there are any.
	"team_id":        "",
	"assign_team_id": "",
	"company_id":     "",
	"file_ids":       "fileId",
	"file_id":        "fileId",

	"honours_idempotency_keys": "", // a setting

	// A limit of tokens, not a token.
	"max_tokens": "", "max_completion_tokens": "", "max_output_tokens": "",
	// Names of secrets and variables that the company keeps beside: it has no
	// way to name another's.
	"api_key_ref": "", "auth.env_key": "",
	"setLlmCredential api_key": "", // a secret, not its name
	"model_ref":                "", // a name that an endpoint knows
	"continuation_token":       "", // of the run in the path alone: TestContinuationsOfOthers

	"token": "", // of the invite in the path, or of a mail

	// Ids that callers choose themselves.
	"callMcp id":                 "",
	"createSpeech model":         "", // of the catalogue
	"messages[].tool_call_id":    "",
	"messages[].tool_calls[].id": "",
}

// PlainParameters are parameters of paths that are no ids: they only mean
// something beside one.
var PlainParameters = map[string]bool{
	"versionNum": true, "label": true, "entity": true, "provider": true,
	"shareId": true, // the link authorizes its reader
}

// Unconditional lists the parameters of operations that answer the same whether
// or not the resource exists, with their status.
var Unconditional = map[string]int{
	"unassignWorkspace agent_id":  404, // a query parameter that is no filter
	"getAgentObligations agentId": 200, "getAgentViolations agentId": 200,
	"listAuditEntriesOfTarget targetId": 200, "deleteWebhook webhookId": 200, "deleteSensor sensorId": 200,
	"deleteMemoryEntry entryId": 204, "markNotificationRead notificationId": 200, "deleteNotification notificationId": 200,
}

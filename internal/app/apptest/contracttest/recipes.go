package contracttest

import (
	"crypto/ed25519"
	"encoding/base64"
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

// recipes are those of Recipes that have no file of their own.
var recipes = map[string]recipe{
	"createAgent": {body: apptest.Object{"name": "made by a test"}},
	"updateAgent": {body: apptest.Object{"description": "changed by a test"}},
	"patchAgent":  {body: apptest.Object{"description": "changed by a test"}},
	"suspendAgent": {
		body: apptest.Object{"reason": "a test"},
		ids:  func(c *Company, call *Call) { call.Path["agentId"] = c.IDs["agentId"][2] },
	},
	"deleteAgentIdentity": {ids: func(c *Company, call *Call) {
		call.Path["agentId"] = c.CreateAgent(apptest.Object{"name": "without an identity"})
		c.Expect(200, "GET", "/api/v1/agents/"+call.Path["agentId"]+"/identity", nil)
	}},
	"deleteAgent": {ids: func(c *Company, call *Call) { // none that others have to forget, which takes a moment
		call.Path["agentId"] = c.CreateAgent(apptest.Object{"name": "deleted by a test"})
	}},
	"terminateAgent": {ids: func(c *Company, call *Call) {
		call.Path["agentId"] = c.CreateAgent(apptest.Object{"name": "terminated by a test"})
	}},
	"activateAgent": {ids: func(c *Company, call *Call) { call.Path["agentId"] = c.IDs["agentId"][1] }},

	"createPublicSession": {with: func(c *Company) apptest.Object {
		return apptest.Object{"agent_id": c.createPublished(), "fresh": true}
	}},

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
	"forkRun": {
		body: apptest.Object{"step_seq": 1},
		ids: func(c *Company, call *Call) {
			call.Path["runId"] = c.StartRun(c.IDs["agentId"][3], c.Mark, apptest.Object{"resource_limits": apptest.Object{"max_steps": 0}})
			c.WaitRun(call.Path["runId"])
		},
	},
	"replayRun": {
		body: apptest.Object{"mode": "execute"},
		ids: func(c *Company, call *Call) {
			call.Path["runId"] = c.StartRun(c.IDs["agentId"][3], c.Mark, apptest.Object{"resource_limits": apptest.Object{"max_steps": 0}})
			c.WaitRun(call.Path["runId"])
		},
	},
	"compareRuns":         {ids: func(c *Company, call *Call) { call.Query.Set("with", c.IDs["runId"][0]) }},
	"deleteRunFeedback":   {ids: func(c *Company, call *Call) { call.Query.Set("message_id", c.Mark) }},
	"createRunCheckpoint": {ids: func(c *Company, call *Call) { call.Path["runId"] = c.startPausedRun() }},
	"respondToRun": {
		body: apptest.Object{"response": "an answer"},
		ids:  func(c *Company, call *Call) { call.Path["runId"] = c.startWaitingRun("ask_user") },
	},

	"requestOtpCode":       {body: apptest.Object{"email": "ann@example.com"}},
	"signInWithLink":       {body: apptest.Object{"token": strings.Repeat("t", 43)}},
	"verifyOtpCode":        {body: apptest.Object{"email": "ann@example.com", "code": "123456"}},
	"register":             {body: apptest.Object{"email": "ann@example.com", "accept_terms": true, "accept_privacy": true}},
	"exchangeOAuthAppCode": {body: apptest.Object{"code": "a code", "code_verifier": strings.Repeat("v", 43)}},
	"googleOneTapAuth":     {body: apptest.Object{"credential": "a token"}}, "verifyMfa": {body: apptest.Object{"code": "123456"}},
	"verifyMfaRecovery": {body: apptest.Object{"code": "ABCD-EFGH-IJKL-MNOP"}},
	"disableMfa":        {body: apptest.Object{"code": "123456"}},
	"enrolMfa": {body: apptest.Object{"label": "a test"},
		ids: func(c *Company, _ *Call) { c.Admin().Exec(`DELETE FROM signin_factors`) }},

	"createMarketplaceListing": {with: func(c *Company) apptest.Object {
		return apptest.Object{"agent_id": c.IDs["agentId"][0], "name": "made by a test", "category": "other"}
	}},
	"patchMarketplaceListing":   {body: apptest.Object{"name": "changed by a test"}},
	"publishMarketplaceListing": {ids: addedListing},
	"deprecateMarketplaceListing": {ids: func(c *Company, call *Call) {
		addedListing(c, call)
		c.Expect(200, "POST", MarketPath+"/listings/"+call.Path["listingId"]+"/publish", nil)
	}},
	"deleteMarketplaceListing":          {ids: addedListing},
	"rateMarketplaceListing":            {body: apptest.Object{"rating": 4}, ids: offeredListing},
	"listMarketplaceReviews":            {ids: offeredListing},
	"addMarketplaceFavourite":           {ids: offeredListing},
	"removeMarketplaceFavourite":        {ids: offeredListing},
	"subscribeToMarketplaceListing":     {body: apptest.Object{}, ids: offeredListing},
	"unsubscribeFromMarketplaceListing": {ids: offeredListing},
	"invokeMarketplaceListing":          {body: apptest.Object{"input": apptest.Object{"message": "a test"}}, ids: offeredListing},

	"createIntegration": {body: apptest.Object{"connector_id": "github", "name": "made by a test", "config": apptest.Object{"token": "a"}, "enabled": false}},
	"patchIntegration":  {body: apptest.Object{"name": "changed by a test"}},
	"deleteIntegration": {ids: addedIntegration},
	"addAgentIntegration": {with: func(c *Company) apptest.Object {
		return apptest.Object{"integration_id": c.IDs["integrationId"][1]}
	}},
	"setAgentIntegrations": {with: func(c *Company) apptest.Object {
		c.addIntegration("unlinked by a test")
		return apptest.Object{"integration_ids": c.IDs["integrationId"][:2]}
	}},
	"patchAgentIntegration":   {body: apptest.Object{"name": "changed by a test"}},
	"removeAgentIntegration":  {ids: addedIntegration},
	"updateAdminIntegrations": {body: apptest.Object{"disabled": []string{}}},
	"startIntegrationOAuth": {body: apptest.Object{"name": "begun by a test"}, ids: func(c *Company, call *Call) {
		call.Path["provider"] = "github"
		c.WithKey(apptest.OwnerKey).Expect(200, "PUT", "/api/v1/admin/config/integrations",
			apptest.Object{"providers": apptest.Object{"github": apptest.Object{"client_id": "a client", "client_secret": "a secret"}}})
	}},
	"completeIntegrationOAuth": {body: apptest.Object{"state": "a state", "code": "a code"}, ids: ofProvider("github")},

	"createMcpServer": {body: apptest.Object{"name": "made by a test", "transport": "http", "url": "https://mcp.example.com/",
		"enabled": false}},
	"patchMcpServer": {body: apptest.Object{"name": "changed by a test"}},
	"setAgentMcpServers": {with: func(c *Company) apptest.Object {
		return apptest.Object{"server_ids": []string{c.IDs["serverId"][1]}}
	}},
	"callMcp":            {body: apptest.Object{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}},
	"createSession":      {with: func(c *Company) apptest.Object { return apptest.Object{"agent_id": c.IDs["agentId"][0]} }},
	"updateSession":      {body: apptest.Object{"metadata": apptest.Object{"note": "changed by a test"}}},
	"sendSessionMessage": {body: apptest.Object{"content": "hello"}},
	"decideInbox": {
		body: apptest.Object{"decisions": []apptest.Object{{"kind": "paused", "decision": "cancel"}}},
		ids: func(c *Company, call *Call) {
			call.Body.(apptest.Object)["decisions"].([]apptest.Object)[0]["id"] = c.startWaitingRun("ask_user")
		},
	},
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
	"bridgeHeartbeat":  {with: func(c *Company) apptest.Object { return apptest.Object{"machine_id": c.IDs["machineName"][0]} }},
	"bridgeDeregister": {with: leavingMachine},
	"bridgePoll": {ids: func(c *Company, call *Call) {
		call.Query.Set("machine_id", c.IDs["machineName"][1])
		call.Query.Set("timeout", "10")
	}},
	"bridgeDelegate": {with: func(c *Company) apptest.Object {
		return apptest.Object{"agent_id": c.IDs["machineAgentId"][0], "message": "made by a test"}
	}},
	"pushBridgeTaskEvents":  {body: apptest.Object{"type": "status", "message": "made by a test", "timestamp": "2026-11-27T12:00:00Z"}},
	"getBridgeTaskApproval": {ids: approvedTask},
	"getBridgeAgentSpecs":   {ids: func(c *Company, call *Call) { call.Query.Set("agent_id", c.IDs["machineAgentId"][0]) }},
	"createTask": {with: func(c *Company) apptest.Object {
		return apptest.Object{"title": "made by a test", "agent_id": c.IDs["agentId"][0]}
	}},
	"searchWeb": {body: apptest.Object{"query": "ducks"}},
	// Over at once: what other tests do in the company is to succeed.
	"activateSafeMode": {body: apptest.Object{"reason": "made by a test", "deadline_hours": 1e-9}},
	"amendConstitution": {with: func(*Company) apptest.Object { // each time another rule
		return apptest.Object{"rule_id": ident.New(), "action": "add", "rule": apptest.Object{"principle": "made by a test"}}
	}},
	"setRootAgent":       {with: func(c *Company) apptest.Object { return apptest.Object{"agent_id": c.IDs["agentId"][0]} }},
	"setRootAttestation": {with: attestation},
	"checkSpawnPermission": {with: func(c *Company) apptest.Object {
		return apptest.Object{"parent_agent_id": c.IDs["agentId"][0], "child_permissions": apptest.Object{"allowed_tools": []string{"calculator"}}}
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

	"importAgentSkill":      {body: apptest.Object{"data": skillArchive}},
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

	"setArbiterRegistry": {with: func(c *Company) apptest.Object {
		return apptest.Object{"arbiter_agent_ids": c.IDs["agentId"][2:], "panel_size": 1, "ruling_deadline_hours": 24, "max_appeals": 1}
	}},
	"fileArbiterCase":            {with: complaint},
	"createAgentFria":            {with: impact, ids: assessed},
	"getAgentFria":               {ids: assessed},
	"getAgentRiskClassification": {ids: assessed},
	"registerAmbassador":         {body: apptest.Object{"ambassador_id": "made by a test"}},
	"resolveAmbassadorRequest":   {body: apptest.Object{"response": "made by a test"}},
	"updateBuilderRequestStatus": {body: apptest.Object{"status": "approved"}},
	"getAmbassador":              {ids: func(c *Company, call *Call) { call.Path["ambassadorId"] = c.IDs["ambassadorId"][1] }},
	"createAmbassadorRequest":    {with: asking},
	"ambassadorVeto": {with: func(c *Company) apptest.Object {
		c.Expect(201, "POST", "/api/v1/governance/ambassador/ambassadors/bootstrap", nil)
		return apptest.Object{"target_type": "agent", "target_id": c.CreateAgent(apptest.Object{"name": "rude"}), "reason": "made by a test"}
	}},
	"createBuilderRequest":      {body: apptest.Object{"title": "made by a test"}},
	"createImprovementProposal": {body: apptest.Object{"type": "prompt_change", "diff": apptest.Object{"description": "made by a test"}}},
	"updateImprovementStatus":   {body: apptest.Object{"status": "arbiter_review"}, ids: improved},
	"issueArbiterRuling":        {body: apptest.Object{"decision": "upheld", "reason": "made by a test"}, ids: complained},
	"fileArbiterAppeal":         {body: apptest.Object{"reason": "made by a test"}, ids: condemned},

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
	"testLlmModel":        {body: apptest.Object{"model": "builtin/echo"}},
	"createSpeech":        {body: apptest.Object{"input": "made by a test"}},
	"createTranscription": {ids: spoken},
	"deleteLlmCredential": {ids: func(c *Company, call *Call) {
		c.Expect(200, "PUT", "/api/v1/llm-credentials/groq", apptest.Object{"api_key": "sk-made-by-a-test"})
		call.Path["provider"] = "groq"
	}},

	"createAdminProvider": {with: addedProvider},
	"getAdminProvider":    {ids: addProvider},
	"updateAdminProvider": {body: apptest.Object{"name": "named by a test"}, ids: addProvider},
	"deleteAdminProvider": {ids: addProvider},
	"setAdminLlmDefault":  {body: apptest.Object{"api_key": "sk-made-by-a-test"}, ids: addProvider},
	"deleteAdminLlmDefault": {ids: func(c *Company, call *Call) {
		addProvider(c, call)
		if !c.IsOperator() {
			return
		}
		path := "/api/v1/admin/llm-defaults/" + call.Path["provider"]
		c.WithKey(apptest.OwnerKey).Expect(200, "PUT", path, apptest.Object{"api_key": "sk-made-by-a-test"})
	}},
	"setAdminModelConfig":         {body: apptest.Object{"default_model": ""}},
	"updateAdminConfigRateLimits": {body: apptest.Object{"tenant": "1000000/m"}},
	"deleteCompany":               {ids: freshInitiative},

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
	"runAguiAgent": {with: func(*Company) apptest.Object {
		return apptest.Object{"threadId": ident.New(), "runId": "r", "messages": []apptest.Object{{"id": "m", "role": "user", "content": "hello"}}}
	}},
	"sendUIMessages": {with: func(*Company) apptest.Object {
		return apptest.Object{"id": ident.New(), "messages": []apptest.Object{
			{"id": "m", "role": "user", "parts": []apptest.Object{{"type": "text", "text": "hello"}}},
		}}
	}},
	"createEmbedding": {body: apptest.Object{"input": "hello"}},

	"createTeam":             {with: teamed},
	"createInitiative":       {with: pursuing},
	"createCompany":          {with: pursuing},
	"pauseInitiative":        {ids: freshInitiative},
	"pauseCompany":           {ids: freshInitiative},
	"resumeInitiative":       {ids: pausedInitiative},
	"resumeCompany":          {ids: pausedInitiative},
	"tickInitiative":         {ids: freshInitiative},
	"startMission":           {with: planned},
	"abortMission":           {body: apptest.Object{"reason": "made by a test"}, ids: freshMission},
	"authorizeMission":       {ids: freshMission},
	"runMission":             {ids: runningMission},
	"pauseMission":           {ids: runningMission},
	"resumeMission":          {ids: pausedMission},
	"getMissionReport":       {ids: endedMission},
	"streamMissionEvents":    {ids: endedMission},
	"updateMissionObjective": {body: apptest.Object{"description": "changed by a test"}},
	"createA2ATask": {with: func(c *Company) apptest.Object {
		return apptest.Object{"agent_id": c.IDs["agentId"][0], "metadata": apptest.Object{"mark": c.Mark}, "messages": []apptest.Object{
			{"role": "user", "message_id": c.Mark, "parts": []apptest.Object{{"type": "text", "text": c.Mark}}}}}
	}},
	"cancelA2ATask": {ids: func(c *Company, call *Call) {
		call.Path["taskId"] = c.Expect(202, "POST", "/api/v1/a2a/tasks", apptest.Object{"agent_id": c.IDs["agentId"][3], "messages": []apptest.Object{
			{"role": "user", "parts": []apptest.Object{{"type": "text", "text": c.Mark}}}}})["id"].(string)
	}},
	"getAgentCard":          {ids: func(c *Company, call *Call) { call.Query.Set("agent_id", c.createPublicAgent()) }},
	"getAgentCardByNewPath": {ids: func(c *Company, call *Call) { call.Query.Set("agent_id", c.createPublicAgent()) }},
	"getAgentCardOfAgent":   {ids: func(c *Company, call *Call) { call.Path["agentId"] = c.createPublicAgent() }},
	"a2aJsonRpc":            {body: apptest.Object{"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}},
	"startTeamRun":          {body: apptest.Object{"message": "hello"}},
	// Of a thread where nothing is said: the stream of the others lasts as long as their runs.
	"streamTeamChatEvents": {ids: func(_ *Company, call *Call) { call.Query.Set("thread_id", ident.New()) }},
	"updateTeam":           {body: apptest.Object{"description": "changed by a test"}},
	"patchTeam":            {body: apptest.Object{"description": "changed by a test"}},
	"getTeamGraphNode":     {ids: teamNode},
	"updateTeamGraphNode":  {body: apptest.Object{"goal_summary": "changed by a test"}, ids: teamNode},
	"deleteTeamGraphNode":  {ids: teamNode},
	"deleteTeamGraphEdge":  {ids: teamEdge},
	"addTeamGraphNode":     {with: func(c *Company) apptest.Object { return apptest.Object{"agent_id": c.IDs["agentId"][3]} }},
	"addTeamGraphEdge": {with: func(c *Company) apptest.Object {
		return apptest.Object{"from": c.IDs["agentId"][0], "to": c.IDs["agentId"][1], "type": "peer"}
	}},
}

// teamed is a pipeline of two of the company's agents.
func teamed(c *Company) apptest.Object {
	return apptest.Object{
		"name": "made by a test", "description": c.Mark, "topology": "pipeline", "supervisor_agent_id": c.IDs["agentId"][0],
		"workers": []apptest.Object{{"agent_id": c.IDs["agentId"][1], "role": c.Mark}},
	}
}

// teamNode names a node of the team in the path.
func teamNode(c *Company, call *Call) { call.Path["agentId"] = c.IDs["agentId"][1] }

// aim is a goal of the company's first agent.
func aim(c *Company) apptest.Object {
	return apptest.Object{"agent_id": c.IDs["agentId"][0], "title": "made by a test", "description": c.Mark}
}

// attestation is a body with the founder's signature about the company's first agent.
func attestation(c *Company) apptest.Object {
	const emergency = "/api/v1/governance/emergency"
	tenant, user := c.Me()
	agent := c.IDs["agentId"][0]
	c.Expect(200, "PUT", emergency+"/root-agent", apptest.Object{"agent_id": agent})
	hash := c.Expect(200, "GET", "/api/v1/governance/constitution", nil)["hash"].(string)
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	text := "agentd root attestation\n" + tenant + "\n" + agent + "\n" + user + "\n" + hash
	return apptest.Object{
		"root_agent_id": agent, "founder_id": user, "constitution_hash": hash,
		"founder_public_key": base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)),
		"founder_signature":  base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(text))),
	}
}

// proposed names a proposal that is voted on.
func proposed(c *Company, call *Call) {
	call.Path["proposalId"] = c.Expect(201, "POST", "/api/v1/governance/voting/proposals",
		apptest.Object{"title": "made by a test", "proposal_type": "general"})["id"].(string)
}

// asking is a request of the company's first agent.
func asking(c *Company) apptest.Object {
	return apptest.Object{"from_agent_id": c.IDs["agentId"][0], "type": "report", "subject": c.Mark, "body": "made by a test"}
}

// improved names a proposal about the company's first agent, which is new.
func improved(c *Company, call *Call) {
	call.Path["version"] = c.Expect(201, "POST", "/api/v1/governance/improvement/"+c.IDs["agentId"][0],
		apptest.Object{"type": "prompt_change", "title": c.Mark})["version"].(string)
}

// complained names a case that waits for its ruling, which an arbiter makes if there
// are any.
func complained(c *Company, call *Call) {
	accused := c.CreateAgent(apptest.Object{"name": "accused"})
	filed := c.Expect(201, "POST", "/api/v1/governance/arbiter/cases", apptest.Object{"against_agent_id": accused})
	call.Path["caseId"] = filed["id"].(string)
	if arbiter, ok := filed["assigned_arbiter_id"].(string); ok {
		call.Body = apptest.Object{"decision": "upheld", "reason": "made by a test", "arbiter_id": arbiter}
	}
}

// condemned names a case that is ruled, and that a panel can look at again.
func condemned(c *Company, call *Call) {
	c.Expect(200, "PUT", "/api/v1/governance/arbiter/registry", apptest.Object{
		"arbiter_agent_ids": []string{c.CreateAgent(apptest.Object{"name": "one"}), c.CreateAgent(apptest.Object{"name": "another"})},
		"panel_size":        1, "ruling_deadline_hours": 24, "max_appeals": 1,
	})
	ruling := &Call{Path: map[string]string{}}
	complained(c, ruling)
	c.Expect(200, "POST", "/api/v1/governance/arbiter/cases/"+ruling.Path["caseId"]+"/ruling", ruling.Body)
	call.Path["caseId"] = ruling.Path["caseId"]
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

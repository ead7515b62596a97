package isolation

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/kernel/model/modeltest"
)

// unaudited are the writes that leave no entry in the audit log, with the
// reason.
var unaudited = map[string]string{
	"createRun": aRun, "startTeamRun": aRun, "cancelTeamRun": aRun, "cancelRun": aRun, "decideInbox": aRun, "pauseRun": aRun, "resumeRun": aRun, "continueRun": aRun, "forkRun": aRun, "respondToRun": aRun, "createChatCompletion": aRun, "runAguiAgent": aRun, "sendUIMessages": aRun, "createResponse": aRun, "cancelResponse": aRun, "sensorWebhook": aRun, "callMcp": aRun, "createA2ATask": aRun, "cancelA2ATask": aRun, "a2aJsonRpc": aRun,
	"startMission": aMission, "authorizeMission": aMission, "runMission": aMission, "pauseMission": aMission, "resumeMission": aMission,
	"abortMission": aMission, "updateMissionObjective": aMission, "tickInitiative": aMission,
	"dataSubjectErasure": "asked here what it would do; TestDataSubjects sees the entry",
	"replayRun":          aRun, "createRunCheckpoint": aRun, "bridgeDelegate": aRun,
	"bridgeHeartbeat": aMachine, "pushBridgeTaskEvents": aMachine, "updateBridgeAgentCapability": aMachine,
	"putRunFeedback": "it is an opinion, with its author and time", "putSessionRunFeedback": "as putRunFeedback", "deleteRunFeedback": "as putRunFeedback",
	"createMessage": "it changes nothing", "countMessageTokens": "it changes nothing",
	"testWebhook": "it changes nothing", "redeliverWebhook": "it is in the delivery log",

	"createPublicSession": talk, "publicTrackEvent": "a count of pages, without a name",
	"createSession": talk, "updateSession": talk, "sendSessionMessage": talk,
	"createSessionBranch": talk, "activateSessionBranch": talk, "deleteSessionBranch": talk,
	"createSessionTodo": talk, "updateSessionTodo": talk, "deleteSessionTodo": talk, "confirmSessionTodo": talk, "runSessionTodoNow": talk, "createTask": talk,

	"createMemory": remembered, "importMemory": remembered, "ingestMemory": remembered, "updateAgentMemoryEntry": remembered,
	"deleteMemoryEntry":    remembered,
	"reindexKnowledgeBase": "it changes nothing that anybody put there",

	"uploadFile": content, "createOpenAIFile": content, "uploadWorkspaceFile": content, "copyWorkspaceFile": content, "moveWorkspaceFile": content, "deleteWorkspaceFile": content,
	"createWorkspace": content, "updateWorkspace": content,

	"llmChatCompletion": "nothing is kept of it but what it used",

	"markNotificationRead": ownInbox, "markAllNotificationsRead": ownInbox, "deleteNotification": ownInbox, "bulkDeleteNotifications": ownInbox, "setNotificationPrefs": ownInbox,
	"testNotificationTarget": ownInbox,

	"invokeMarketplaceListing": aRun, "addMarketplaceFavourite": "what a person likes", "removeMarketplaceFavourite": "what a person likes",
	"startIntegrationOAuth": "it only gives a link to a provider", "testIntegration": "it changes nothing", "testAgentIntegration": "it changes nothing",
	"authorizeMcpServer": "it only gives a link to an authorization server",
	"searchWeb":          "it changes nothing", "searchMemory": "it changes nothing", "checkGovernance": "it changes nothing", "checkDeadlock": "it changes nothing", "simulateConstitution": "it changes nothing", "checkSpawnPermission": "it changes nothing", "searchKnowledgeBase": "it changes nothing", "searchVectorStore": "it changes nothing", "createEmbedding": "it changes nothing",
	"mintSseToken": "it lasts a minute and carries less than what it is made with",
	"patchMe":      "one's own profile",
	"testLlmModel": "it changes nothing", "testLlmCredential": "it changes nothing", "createSpeech": "it changes nothing", "createTranscription": "it changes nothing",
	"enrolMfa":                 "it counts from the first code on, which has an entry",
	"unlinkAuthProvider":       "nobody is linked here, so that nothing is done; where somebody is, signin records it",
	contracttest.NeverSucceeds: "it never succeeds",
}

const (
	aRun = "a run is its own record: its journal says who started it and what was done"
	// Machines send these by themselves, many times an hour, and no person decides about any of
	// them: entries would hide those about what people do.
	aMachine   = "a program reports it of itself; the list of machines and the runs' events show it"
	aMission   = "a mission is its own record: its events and its report say what was done, and its runs who started it"
	talk       = "what is said and planned in a session stands there with its times"
	remembered = "what an agent remembers is its working state, which it changes itself all the time"
	content    = "content that is added and moved stands there with its times; what opens it to others or deletes a whole is in the log"
	ownInbox   = "nobody else sees it"
)

// Every write that succeeds leaves an entry in the audit log, or stands above
// with the reason why not.
func TestWritesAreAudited(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.Embedding, apptest.WebSearch(t), apptest.CorpProvider(t))
	c := contracttest.NewOwnCompany(t, n)
	c.Grant.TenantID, c.Grant.UserID = c.TenantID(), c.Expect(200, "GET", "/api/v1/me", nil)["user"].(object)["user_id"].(string)
	beside := n.Admin()
	entries := func(request string) []map[string]any {
		return beside.Query(`SELECT tenant_id, action, actor_key_id, actor_user_id, method, ip_address
			FROM audit_log WHERE request_id = ? ORDER BY at, entry_id`, request)
	}
	operations := contracttest.Operations(c.Server)
	slices.SortStableFunc(operations, contracttest.DeletionsLast)
	seen := map[string]bool{}
	for _, op := range operations {
		if op.Method == http.MethodGet || op.NeedsPerson || contracttest.BrowserOnly[op.ID] {
			continue
		}
		seen[op.ID] = true
		t.Run(op.TestName(), func(t *testing.T) {
			c := c.WithT(t)
			call := c.OwnCall(op)        // which may write something itself
			if op.ID == "revokeApiKey" { // the first was a session of the person's, which is ended by now
				call.Path["keyId"] = c.IDs["keyId"][1]
			}
			got := call.Send(c.Server)
			if op.ID != contracttest.NeverSucceeds && !op.Succeeds(got.StatusCode) {
				t.Fatalf("%s: %d %s", op, got.StatusCode, got.Body)
			}
			fresh := entries(got.Header.Get("X-Request-Id"))
			reason, excused := unaudited[op.ID]
			switch {
			case excused && len(fresh) > 0:
				t.Errorf("%s leaves %v, though it is said that it need not: %s", op, fresh, reason)
			case !excused && len(fresh) == 0:
				t.Errorf("%s leaves no entry in the audit log: have its slice call audit.Write in its transaction, or say in unaudited why not", op)
			}
			for _, e := range fresh {
				own := e["method"] == "api_key" && e["actor_key_id"] == c.Grant.KeyID && e["actor_user_id"] == c.Grant.UserID
				// In another company's log the person is its member, and nobody of ours.
				if !own && (e["tenant_id"] == c.Grant.TenantID && !op.Public) || e["ip_address"] != "127.0.0.1" {
					t.Errorf("%s: an entry that does not say who and from where: %v", op, e)
				}
			}
		})
	}
	for id := range unaudited {
		if !seen[id] {
			t.Errorf("unaudited has %s, which is no write", id)
		}
	}
}

// Entries hold no secret.
func TestAuditHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	made := n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "k"})
	tenant := n.Expect(201, "POST", apptest.TenantsPath, object{"name": "Acme"})
	all := fmt.Sprint(n.Admin().Query(`SELECT * FROM audit_log`))
	for _, raw := range []any{made["raw_key"], tenant["raw_key"]} {
		if secret := raw.(string)[13:]; len(secret) != 32 || strings.Contains(all, secret) {
			t.Errorf("the log has a key's secret: %s", all)
		}
	}
}

package isolation

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
)

var allRoles = []authz.Role{authz.Viewer, authz.Developer, authz.Admin, authz.Owner}

// callWithout calls an operation for things that are not there, without a body: who
// is not let in learns nothing of either.
func callWithout(g *apptest.RoleKeys, t *testing.T, op *contracttest.Operation, key string, headers ...string) apptest.Reply {
	t.Helper()
	k := callOfUnknown(g, op)
	n := g.WithKey(key)
	n.T = t
	if key == "" {
		return n.SendHeaders(op.Method, k.Target(), "", headers...)
	}
	return k.Send(n, headers...)
}

// callOfUnknown is an operation's, for things that are not there.
func callOfUnknown(g *apptest.RoleKeys, op *contracttest.Operation) *contracttest.Call {
	k := &contracttest.Call{Operation: op, Path: map[string]string{}, Query: url.Values{}}
	for _, p := range op.PathParams {
		k.Path[p] = ident.New()
	}
	return k
}

// without is the catalogue of scopes but some; the superscope is never in it.
func without(some []authz.Scope) []authz.Scope {
	return slices.DeleteFunc(slices.Clone(authz.Catalogue), func(s authz.Scope) bool {
		return s == authz.SuperScope || slices.Contains(some, s)
	})
}

// Every operation asks who calls before it looks at anything else: a key of
// this tenant that is good now, with the scope, of a member with the role.
func TestGate(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	g := apptest.StartWithRoles(t)
	revoked := g.Admin.CreateKey(g.Tenant, authz.Owner, authz.Wildcard)
	g.WithKey(string(revoked.RawKey)).Expect(200, "DELETE", "/api/v1/tenants/me/keys/"+revoked.KeyID, nil)
	away := g.Admin.CreateKey(g.Tenant, authz.Owner, authz.Wildcard)
	g.Admin.Exec(`UPDATE users SET status = 'suspended' WHERE user_id = ?`, away.UserID)
	closed := apptest.SuspendedTenant(t, g.Admin)

	for _, op := range contracttest.Operations(g.Server) {
		t.Run(op.TestName(), func(t *testing.T) {
			if op.Public && op.Refused == "visitor.refused" && op.NeedsPerson {
				return // the token of a session takes the place of a key
			}
			if op.Public {
				if got := callWithout(g, t, op, "", "Authorization", "Bearer wrong"); got.StatusCode == 401 || got.StatusCode == 403 {
					t.Errorf("a public operation asks for a key: %d", got.StatusCode)
				}
				return
			}
			refused := func(r apptest.Reply, status int, code string, says ...string) {
				t.Helper()
				op.CheckRefusal(t, r, status, code)
				for _, text := range says {
					if !strings.Contains(string(r.Body), text) {
						t.Errorf("%s does not say %q: %s", op, text, r.Body)
					}
				}
			}
			refused(callWithout(g, t, op, ""), 401, "AUTH_ERROR", "svc_session")
			refused(callWithout(g, t, op, "svc_aaaaaaaa_"+strings.Repeat("b", 32)), 401, "AUTH_ERROR")
			refused(callWithout(g, t, op, apptest.OwnerKey[:len(apptest.OwnerKey)-1]+"X"), 401, "AUTH_ERROR")
			refused(callWithout(g, t, op, string(revoked.RawKey)), 401, "AUTH_ERROR")
			refused(callWithout(g, t, op, string(away.RawKey)), 403, "MEMBER_SUSPENDED")
			refused(callWithout(g, t, op, closed), 403, "TENANT_SUSPENDED")

			refused(callWithout(g, t, op, g.KeyFor(authz.Owner, authz.Wildcard), "X-Tenant-Id", ident.New()), 409, "TENANT_SWITCHED", "Gate")
			if len(op.Scopes) > 0 {
				refused(callWithout(g, t, op, g.KeyFor(authz.Owner)), 403, "MISSING_SCOPE", string(op.Scopes[0]))
				refused(callWithout(g, t, op, g.KeyFor(authz.Owner, without(op.Scopes)...)), 403, "MISSING_SCOPE", string(op.Scopes[0]))
			}
			least := op.Role
			if least == "" {
				least = authz.Viewer
			}
			for _, role := range allRoles {
				if role.AtLeast(least) {
					break
				}
				refused(callWithout(g, t, op, g.KeyFor(role, authz.Wildcard)), 403, "FORBIDDEN", "role "+string(least), "role "+string(role))
			}

			enough := enoughFor(op)
			if op.Person {
				refused(callWithout(g, t, op, g.KeyFor(authz.Owner, authz.Catalogue...)), 403, "MISSING_SCOPE", "scope *")
				enough = []authz.Scope{authz.Wildcard}
			}
			if op.Operator {
				refused(callWithout(g, t, op, g.KeyFor(least, authz.Wildcard)), 403, "FORBIDDEN", "company that operates")
				if got := callWithout(g, t, op, apptest.OwnerKey); got.StatusCode == 401 || got.StatusCode == 403 || got.StatusCode >= 500 && got.StatusCode != 501 {
					t.Errorf("%s with the operator's key: %d %s", op, got.StatusCode, got.Body)
				}
				return
			}
			for _, scope := range op.And {
				refused(callWithout(g, t, op, g.KeyFor(authz.Owner, without([]authz.Scope{scope})...)), 403, "MISSING_SCOPE", string(scope))
			}
			for _, scope := range enough {
				got := callWithout(g, t, op, g.KeyFor(least, append([]authz.Scope{scope}, op.And...)...))
				if got.StatusCode == 401 || got.StatusCode == 403 || got.StatusCode >= 500 && got.StatusCode != 501 {
					t.Errorf("%s with %s and the role %s: %d %s", op, scope, least, got.StatusCode, got.Body)
				}
			}
			if op.ID == "logout" { // which revoked them
				clear(g.Keys)
			}
			if len(op.Scopes) == 0 && !op.Person {
				if got := callWithout(g, t, op, g.KeyFor(least)); got.StatusCode == 403 {
					t.Errorf("%s needs no scope, but a key without any gets %s", op, got.Body)
				}
			}
		})
	}
}

// mayCall says what an operation's row says of a caller.
func mayCall(who authz.Caller, op *contracttest.Operation) error {
	for _, scope := range op.And {
		if err := who.Check("", scope); err != nil {
			return err
		}
	}
	return who.Check(op.Role, op.Scopes...)
}

// anyKey lists the reads that need no scope: every authenticated key may do
// them.
var anyKey = []string{"getMe", "getMyHeadAgentTemplate", "listMeSessions", "getMfaStatus", "listAuthProviders", "getCurrentTenant", "listCompatModels", "getCompatModel", "countMessageTokens",
	"streamChanges",   // each kind that it shows needs the scope of its list
	"getClientConfig", // what is on, for clients: nothing of the company's
}

// rightReader reports whether a read needs the role that reads need.
func rightReader(op *contracttest.Operation) bool {
	if slices.Contains(adminReads, op.ID) {
		return op.Role == authz.Admin && len(op.Scopes) > 0
	}
	return op.Role == "" || op.Role == authz.Viewer
}

// adminReads are reads that need the role admin: they hand out what is kept of others.
var adminReads = []string{"dataSubjectAccess"}

// providerReads lists the reads of the area Providers: any key may see which
// providers exist.
var providerReads = []string{"listProviders", "listProviderModels", "listImageProviders", "listVideoProviders", "listVoiceProviders"}

// public lists the operations without a key. The link authorizes the reader of
// a shared conversation, the invite link an invited person. Bootstrap always
// answers 409. A sensor's caller signs the request,
// or knows the sensor's secret address. What companies think of published listings
// is for everybody.
var public = []string{"listMarketplaceReviews", "sensorWebhook", "getSharedSession", "acceptInvite", "listOAuthLoginProviders", "listSignInMethods", "bootstrap", "getPlatformLlmDefaults",
	"getAgentCard", "getAgentCardByNewPath", "getAgentCardOfAgent", // cards are for those who look for an agent
	// Visitors have no key: the token of their session opens it, and nothing else.
	"getPublicAgentCard", "createPublicSession", "getPublicSession", "sendPublicMessage", "streamPublicSessionEvents", "respondToPublicHitl",
	"cancelPublicRun", "uploadPublicImage", "reportPublicSession", "getPublicFileContent",
	"listPublicPlans", "listPublicTenants", "getPublicTenantProfile", "getPublicTenantStylesheet", "publicTrackEvent", // what companies publish
	"handleStripeWebhook"} // signed by Stripe

// searches are reads that are a POST because what they look for is long.
var searches = []string{"searchMemory", "searchKnowledgeBase", "searchVectorStore", "countMessageTokens", "checkGovernance", "checkSpawnPermission", "checkDeadlock"}

// ownThings are writes that anybody may do: they touch nothing but what the
// caller came with, or signed in with.
var ownThings = []string{
	"logout", "openSession", "mintSseToken", "revokeMeSession", "enrolMfa", "verifyMfa", "verifyMfaRecovery", "disableMfa", "unlinkAuthProvider",
	"patchMe", "createMyTenant", "leaveTenant", "switchTenant", "acceptMyInvite", "declineMyInvite",
}

// dangerous are the paths of what an intruder with a stolen session would change to
// stay, to be let in again or to carry data away.
var dangerous = regexp.MustCompile(`/users|/invites|/memberships|/keys|/llm-credentials|/webhooks|/mcp/servers|/notifications/targets|egress|` +
	`/tenants/me$|/admin/tenants`)

// harmless are writes below those paths that give nobody anything: they repeat what
// is set up already, take what others gave, or tidy up one's own.
var harmless = []string{
	"testLlmCredential", "testMcpServer", "testWebhook", "enableWebhook", "redeliverWebhook", "replayDeadLetter",
	"acceptMyInvite", "declineMyInvite", "testNotificationTarget", "deleteNotificationTarget",
}

// Whatever an intruder would do first asks a person for their second factor again.
func TestDangerousWritesAskForTheFactorAgain(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, op := range contracttest.Operations(apptest.Start(t, nil)) {
		if op.Method == http.MethodGet || op.Public || !dangerous.MatchString(op.Path) {
			continue
		}
		found[op.ID] = true
		if op.Fresh == slices.Contains(harmless, op.ID) {
			t.Errorf("%s asks for a second factor again: %t; set Fresh, or name it in harmless with a reason", op, op.Fresh)
		}
	}
	for _, id := range append(harmless, "leaveTenant", "inviteUser", "setUserRole", "suspendUser", "transferTenantOwnership",
		"setLlmCredential", "createWebhook", "createSensor", "createMcpServer", "patchMcpServer", "createApiKey", "createNotificationTarget") {
		if !found[id] {
			t.Errorf("%s was not looked at", id)
		}
	}
}

// protocols are mostly reads; their handlers ask for more where a message runs an agent.
var protocols = []string{"callMcp", "a2aJsonRpc"}

// A row that forgets whom it lets in would pass TestGate.
func TestEveryRowSaysWhoMayCall(t *testing.T) {
	t.Parallel()
	operations := contracttest.Operations(apptest.Start(t, nil))
	for _, op := range operations {
		read := op.Method == http.MethodGet || slices.Contains(searches, op.ID)
		switch {
		case op.NeedsPerson: // the person has no key; a sealed state says for which server of which company they come
		case op.Public && !slices.Contains(public, op.ID):
			t.Errorf("%s is public: say here why", op)
		case op.Public:
		case slices.Contains(protocols, op.ID):
		case strings.HasPrefix(op.Path, "/api/v1/admin/"):
			if op.Role != authz.Admin || !slices.Equal(op.Scopes, []authz.Scope{authz.SuperScope}) {
				t.Errorf("%s: what stands under /admin needs the scope admin and the role admin", op)
			}
		case read && !rightReader(op):
			t.Errorf("%s: reads need the role viewer, not %s", op, op.Role)
		case read && op.Person:
		case read && len(op.Scopes) == 0 && !slices.Contains(anyKey, op.ID) && !slices.Contains(providerReads, op.ID):
			t.Errorf("%s takes any key: give it a scope, or add it to anyKey with a reason", op)
		case slices.Contains(ownThings, op.ID):
		case !read && strings.HasPrefix(op.Path, "/api/v1/tenants/") && !op.Role.AtLeast(authz.Admin):
			t.Errorf("%s: writes of a tenant's own settings need the role admin or owner", op)
		case !read && !op.Role.AtLeast(authz.Developer):
			t.Errorf("%s: writes need at least the role developer", op)
		case !read && len(op.Scopes) == 0 && op.Role != authz.Admin && op.Role != authz.Owner:
			t.Errorf("%s: a write without a scope needs the role admin", op)
		}
	}
}

// enoughFor returns the scopes of which each opens an operation; none where no key does.
func enoughFor(op *contracttest.Operation) []authz.Scope {
	if contracttest.BrowserOnly[op.ID] {
		return nil
	}
	return append([]authz.Scope{authz.SuperScope, authz.Wildcard}, op.Scopes...)
}

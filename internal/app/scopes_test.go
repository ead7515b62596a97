package app_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
)

var allRoles = []authz.Role{authz.Viewer, authz.Developer, authz.Admin, authz.Owner}

// gate is a node with a tenant whose members have every role, and keys with
// whatever scopes.
type gate struct {
	*node
	admin  *admin
	tenant string
	keys   map[string]string
}

func newGate(t *testing.T) *gate {
	t.Helper()
	n := start(t, nil)
	g := &gate{node: n, admin: n.admin(), keys: map[string]string{}}
	made, err := g.admin.CreateTenant(t.Context(), "Gate", "")
	if err != nil {
		t.Fatal(err)
	}
	g.tenant = made.TenantID
	return g
}

// holding is the key of a member with a role, and scopes.
func (g *gate) holding(role authz.Role, scopes ...authz.Scope) string {
	name := fmt.Sprint(role, scopes)
	if g.keys[name] == "" {
		g.keys[name] = string(g.admin.key(g.tenant, role, scopes...).RawKey)
	}
	return g.keys[name]
}

// keyed makes a key with these scopes for the owner.
func (n *node) keyed(scopes ...string) *node {
	n.t.Helper()
	return n.as(n.want(201, "POST", "/api/v1/tenants/me/keys", object{"name": "k", "scopes": scopes})["raw_key"].(string))
}

// knock calls an operation for things that are not there, without a body: who
// is not let in learns nothing of either.
func (g *gate) knock(t *testing.T, op *operation, key string, headers ...string) reply {
	t.Helper()
	k := g.call(op)
	n := g.as(key)
	n.t = t
	if key == "" {
		return n.send(op.Method, k.target(), "", headers...)
	}
	return k.send(n, headers...)
}

// call is an operation's, for things that are not there.
func (g *gate) call(op *operation) *call {
	k := &call{op: op, path: map[string]string{}, query: url.Values{}}
	for _, p := range op.params {
		k.path[p] = ident.New()
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
	heavy(t)
	g := newGate(t)
	revoked := g.admin.key(g.tenant, authz.Owner, authz.Wildcard)
	g.as(string(revoked.RawKey)).want(200, "DELETE", "/api/v1/tenants/me/keys/"+revoked.KeyID, nil)
	away := g.admin.key(g.tenant, authz.Owner, authz.Wildcard)
	g.admin.exec(`UPDATE users SET status = 'suspended' WHERE user_id = ?`, away.UserID)
	closed := suspendedTenant(t, g.admin)

	for _, op := range g.operations() {
		t.Run(op.name(), func(t *testing.T) {
			if op.Public {
				if got := g.knock(t, op, "", "Authorization", "Bearer wrong"); got.StatusCode == 401 || got.StatusCode == 403 {
					t.Errorf("a public operation asks for a key: %d", got.StatusCode)
				}
				return
			}
			refused := func(r reply, status int, code string, says ...string) {
				t.Helper()
				op.isRefused(t, r, status, code)
				for _, text := range says {
					if !strings.Contains(string(r.raw), text) {
						t.Errorf("%s does not say %q: %s", op, text, r.raw)
					}
				}
			}
			refused(g.knock(t, op, ""), 401, "AUTH_ERROR", "svc_session")
			refused(g.knock(t, op, "svc_aaaaaaaa_"+strings.Repeat("b", 32)), 401, "AUTH_ERROR")
			refused(g.knock(t, op, ownerKey[:len(ownerKey)-1]+"X"), 401, "AUTH_ERROR")
			refused(g.knock(t, op, string(revoked.RawKey)), 401, "AUTH_ERROR")
			refused(g.knock(t, op, string(away.RawKey)), 403, "MEMBER_SUSPENDED")
			refused(g.knock(t, op, closed), 403, "TENANT_SUSPENDED")

			if len(op.Scopes) > 0 {
				refused(g.knock(t, op, g.holding(authz.Owner)), 403, "MISSING_SCOPE", string(op.Scopes[0]))
				refused(g.knock(t, op, g.holding(authz.Owner, without(op.Scopes)...)), 403, "MISSING_SCOPE", string(op.Scopes[0]))
			}
			least := op.Role
			if least == "" {
				least = authz.Viewer
			}
			for _, role := range allRoles {
				if role.AtLeast(least) {
					break
				}
				refused(g.knock(t, op, g.holding(role, authz.Wildcard)), 403, "FORBIDDEN", "role "+string(least), "role "+string(role))
			}

			enough := append([]authz.Scope{authz.SuperScope, authz.Wildcard}, op.Scopes...)
			if op.Operator {
				refused(g.knock(t, op, g.holding(least, authz.Wildcard)), 403, "FORBIDDEN", "operator")
				if got := g.knock(t, op, ownerKey); got.StatusCode == 401 || got.StatusCode == 403 || got.StatusCode >= 500 {
					t.Errorf("%s with the operator's key: %d %s", op, got.StatusCode, got.raw)
				}
				return
			}
			for _, scope := range op.And {
				refused(g.knock(t, op, g.holding(authz.Owner, without([]authz.Scope{scope})...)), 403, "MISSING_SCOPE", string(scope))
			}
			for _, scope := range enough {
				got := g.knock(t, op, g.holding(least, append([]authz.Scope{scope}, op.And...)...))
				if got.StatusCode == 401 || got.StatusCode == 403 || got.StatusCode >= 500 {
					t.Errorf("%s with %s and the role %s: %d %s", op, scope, least, got.StatusCode, got.raw)
				}
			}
			if op.ID == "logout" { // which revoked them
				clear(g.keys)
			}
			if len(op.Scopes) == 0 && !wholeKeys[op.ID] {
				if got := g.knock(t, op, g.holding(least)); got.StatusCode == 403 {
					t.Errorf("%s needs no scope, but a key without any gets %s", op, got.raw)
				}
			}
		})
	}
}

// mayCall says what an operation's row says of a caller.
func mayCall(who authz.Caller, op *operation) error {
	for _, scope := range op.And {
		if err := who.Check("", scope); err != nil {
			return err
		}
	}
	return who.Check(op.Role, op.Scopes...)
}

func suspendedTenant(t *testing.T, a *admin) string {
	t.Helper()
	g, err := a.CreateTenant(t.Context(), "Closed", "")
	if err != nil {
		t.Fatal(err)
	}
	a.exec(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, g.TenantID)
	return string(g.RawKey)
}

// anyKey are the reads that every authenticated key may do: who am I, and
// what the interface specification lists without a scope.
var anyKey = []string{"getMe", "listMyTenants", "locateMyAgent", "listMeSessions", "getMfaStatus", "listAuthProviders", "getCurrentTenant", "listCompatModels", "getCompatModel", "countMessageTokens", ""}

// tells are the reads of the area Providers: any key may know which there are
// (behaviours.md section 31).
var tells = []string{"listProviders", "listProviderModels", "listImageProviders", "listVideoProviders", "listVoiceProviders"}

// public are the operations without a key: who reads a shared conversation
// shows by the link that somebody gave it to them.
// Who was invited shows the same, and has no key yet. The first start of the
// server is told to whoever asks.
// Who calls a sensor signs, or has an address that was given to them.
var public = []string{"sensorWebhook", "getSharedSession", "acceptInvite", "listOAuthLoginProviders", "bootstrap", "getPlatformLlmDefaults"}

// searches are reads that are a POST because what they look for is long.
var searches = []string{"searchMemory", "searchKnowledgeBase", "countMessageTokens"}

// ownThings are writes that anybody may do: they touch nothing but what the
// caller came with, or signed in with.
var ownThings = []string{
	"logout", "mintSseToken", "revokeMeSession", "enrolMfa", "verifyMfa", "verifyMfaRecovery", "disableMfa", "unlinkAuthProvider",
	"patchMe", "createMyTenant", "leaveTenant", "switchTenant", "acceptMyInvite", "declineMyInvite",
}

// A row that forgets whom it lets in would pass TestGate.
func TestEveryRowSaysWhoMayCall(t *testing.T) {
	t.Parallel()
	operations := start(t, nil).operations()
	for _, op := range operations {
		read := op.Method == http.MethodGet || slices.Contains(searches, op.ID)
		switch {
		case op.page: // the person has no key; a sealed state says for which server of which company they come
		case op.Public && !slices.Contains(public, op.ID):
			t.Errorf("%s is public: say here why", op)
		case op.Public:
		case op.ID == "callMcp": // mostly a read; its handler asks for more where a message runs an agent
		case strings.HasPrefix(op.Path, "/api/v1/admin/"):
			if op.Role != authz.Admin || !slices.Equal(op.Scopes, []authz.Scope{authz.SuperScope}) {
				t.Errorf("%s: what stands under /admin takes the scope admin and an admin (interface.md section 5.9)", op)
			}
		case read && op.Role != "" && op.Role != authz.Viewer:
			t.Errorf("%s: reads take a viewer (decisions.md D3), not a %s", op, op.Role)
		case read && len(op.Scopes) == 0 && !slices.Contains(anyKey, op.ID) && !slices.Contains(tells, op.ID):
			t.Errorf("%s takes any key: give it a scope, or add it to anyKey with a reason", op)
		case slices.Contains(ownThings, op.ID):
		case !read && strings.HasPrefix(op.Path, "/api/v1/tenants/") && !op.Role.AtLeast(authz.Admin):
			t.Errorf("%s: writes of a tenant's own settings take an admin at least (decisions.md D3)", op)
		case !read && !op.Role.AtLeast(authz.Developer):
			t.Errorf("%s: writes take a developer at least (decisions.md D3)", op)
		case !read && len(op.Scopes) == 0 && op.Role != authz.Admin && op.Role != authz.Owner:
			t.Errorf("%s: a write without a scope takes an admin (decisions.md D3)", op)
		}
	}
}

// What the table and the recipes name is there.
func TestEveryScopeCanBeGranted(t *testing.T) {
	t.Parallel()
	operations := start(t, nil).operations()
	for id := range recipes {
		if !slices.ContainsFunc(operations, func(op *operation) bool { return op.ID == id }) {
			t.Errorf("recipes in operation_test.go has %s, which is no operation", id)
		}
	}
	for _, op := range operations {
		for _, scope := range slices.Concat(op.Scopes, op.And) {
			if !slices.Contains(authz.Catalogue, scope) {
				t.Errorf("%s asks for %s, which nobody can grant", op, scope)
			}
		}
	}
}

// Whoever is locked out while keys of theirs are in use stays in for a second
// at most, and a revoked key not even that.
func TestLockout(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	for _, c := range []struct {
		name string
		lock func(identity.Grant)
		code string
	}{
		{"revoked", func(k identity.Grant) {
			g.as(string(k.RawKey)).want(200, "DELETE", "/api/v1/tenants/me/keys/"+k.KeyID, nil)
		}, "AUTH_ERROR"},
		{"suspended_member", func(k identity.Grant) {
			g.admin.exec(`UPDATE users SET status = 'suspended' WHERE user_id = ?`, k.UserID)
		}, "MEMBER_SUSPENDED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := g.admin.key(g.tenant, authz.Admin, authz.Wildcard)
			n := g.as(string(key.RawKey))
			n.want(200, "GET", "/api/v1/me", nil)
			c.lock(key)
			if c.code == "AUTH_ERROR" { // at once, however often it was used
				checkCode(t, n.do("GET", "/api/v1/me", nil), 401, c.code)
				return
			}
			eventually(t, func() bool { return n.do("GET", "/api/v1/me", nil).json["code"] == c.code })
		})
	}
}

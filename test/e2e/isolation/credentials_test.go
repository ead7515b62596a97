package isolation

import (
	"slices"
	"strings"
	"testing"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/authz"
)

// Whatever is registered refuses what only opens streams, and who still owes a
// second factor; a role's session has a scope for whatever the role may do.
func TestEveryOperationKnowsItsCredentials(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	n := apptest.Start(t, nil)
	g := &apptest.RoleKeys{Server: n}
	tenant, user := n.Me()
	_, half := n.Admin().OpenBrowserSession(tenant, user, identity.Device{NeedsFactor: true})
	_, whole := n.Admin().OpenBrowserSession(tenant, user, identity.Device{})
	token := n.Expect(200, "POST", "/api/v1/auth/sse-tokens", nil)["token"].(string)
	for _, op := range contracttest.Operations(n) {
		if op.Public {
			continue
		}
		t.Run(op.TestName(), func(t *testing.T) {
			if got := callWithout(g, t, op, token); takesStreamTokens(op) {
				if got.StatusCode != 404 && got.StatusCode != 400 {
					t.Errorf("%s by a stream token: %d %s", op, got.StatusCode, got.Body)
				}
			} else if !op.Streams || op.Endless {
				op.CheckRefusal(t, got, 403, "STREAM_TOKEN_ONLY")
			} else if got.StatusCode != 404 && got.StatusCode != 200 {
				t.Errorf("%s by a stream token: %d %s", op, got.StatusCode, got.Body)
			}
			if !op.HalfOpen {
				got := callWithout(g, t, op, "", half...)
				op.CheckRefusal(t, got, 401, "mfa_required")
				if !op.ChatErrors && !op.MessagesErrors && !op.RPCErrors && (got.JSON["mfa_required"] != true || got.JSON["reason"] != "stale") {
					t.Errorf("%s: %s", op, got.Body)
				}
			}
			op.CheckRefusal(t, callWithout(g, t, op, strings.TrimPrefix(whole[1], "svc_session=")), 401, "AUTH_ERROR")
			for _, role := range allRoles {
				if slices.Contains(op.Scopes, authz.SuperScope) && !role.AtLeast(authz.Admin) {
					continue // only admins and owners may hold the scope
				}
				who := authz.Caller{Role: role, Scopes: authz.ScopesOf(role)}
				if err := mayCall(who, op); err != nil && (op.Role == "" || role.AtLeast(op.Role)) {
					t.Errorf("%s: a %s who is signed in lacks its scope: %v", op, role, err)
				}
			}
		})
	}
	if got := n.SendHeaders("GET", "/api/v1/me", "", half...); got.StatusCode != 200 {
		t.Errorf("who owes a factor may not even know who they are: %d %s", got.StatusCode, got.Body)
	}
	if got := n.SendHeaders("POST", "/api/v1/auth/logout", "", half...); got.StatusCode != 200 {
		t.Errorf("who owes a factor cannot sign out: %d %s", got.StatusCode, got.Body)
	}
}

package apptest

import (
	"fmt"
	"testing"

	"agentd/internal/base/authz"
)

// RoleKeys is a server with a tenant that has members of every role, and keys
// with any scopes.
type RoleKeys struct {
	*Server
	Admin  *Admin
	Tenant string
	Keys   map[string]string
}

// StartWithRoles starts a server and creates the tenant.
func StartWithRoles(t *testing.T) *RoleKeys {
	t.Helper()
	n := Start(t, nil)
	g := &RoleKeys{Server: n, Admin: n.Admin(), Keys: map[string]string{}}
	made, err := g.Admin.Tenants.Create(t.Context(), "Gate", "")
	if err != nil {
		t.Fatal(err)
	}
	g.Tenant = made.TenantID
	return g
}

// KeyFor returns a key with these scopes of a member with a role.
func (g *RoleKeys) KeyFor(role authz.Role, scopes ...authz.Scope) string {
	name := fmt.Sprint(role, scopes)
	if g.Keys[name] == "" {
		g.Keys[name] = string(g.Admin.CreateKey(g.Tenant, role, scopes...).RawKey)
	}
	return g.Keys[name]
}

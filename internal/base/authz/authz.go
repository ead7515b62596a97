// Package authz says who calls and what that lets them do: scopes carried by a
// key, roles held by a member (interface.md section 5; decisions.md D3).
package authz

import (
	"slices"
	"strings"
	"time"

	"agentd/internal/base/fault"
)

// Role of a member, in ascending order.
type Role string

// The roles.
const (
	Viewer    Role = "viewer"
	Developer Role = "developer"
	Admin     Role = "admin"
	Owner     Role = "owner"
)

var roles = []Role{Viewer, Developer, Admin, Owner}

// Valid says whether r is one of the four.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// AtLeast says whether r includes what least may do. An unknown role includes
// nothing.
func (r Role) AtLeast(least Role) bool {
	return r.Valid() && slices.Index(roles, r) >= slices.Index(roles, least)
}

// Scope is a permission that a key carries.
type Scope string

// Wildcard and SuperScope cover every other scope.
const (
	Wildcard   Scope = "*"
	SuperScope Scope = "admin"
)

// Catalogue lists every scope that can be granted (interface.md section 5.8),
// the wildcard apart.
var Catalogue = []Scope{
	"admin", "agents:read", "agents:write", "api_keys:read", "api_keys:write", "billing:read",
	"evaluations:read", "evaluations:write", "events:read", "files:read", "files:write",
	"guardrails:read", "guardrails:write", "marketplace:invoke", "marketplace:read", "marketplace:write",
	"memory:read", "memory:write", "notifications:read", "notifications:write", "read:analytics",
	"runs:create", "runs:read", "search:read", "sessions:read", "sessions:write", "tenants:write",
	"users:read", "users:write", "webhooks:read", "webhooks:write",
}

// Defaults are granted to a key whose scopes are not given (section 5.6).
var Defaults = []Scope{
	"agents:read", "agents:write", "runs:create", "runs:read", "sessions:read", "sessions:write",
	"notifications:read", "notifications:write", "memory:read", "memory:write", "files:read", "files:write",
	"read:analytics",
}

// ScopesOf lists every scope that a role can use: what a signed-in browser may
// do (decisions.md D3). The list is shared; it is not to be changed.
func ScopesOf(r Role) []Scope { return scopesOf[r] }

var scopesOf = func() map[Role][]Scope {
	viewer := slices.DeleteFunc(slices.Clone(Catalogue), func(s Scope) bool { return !strings.Contains(string(s), "read") })
	developer := append(slices.Clone(viewer),
		"agents:write", "evaluations:write", "files:write", "marketplace:invoke", "marketplace:write",
		"memory:write", "notifications:write", "runs:create", "sessions:write")
	return map[Role][]Scope{Viewer: viewer, Developer: developer, Admin: Catalogue, Owner: {Wildcard}}
}()

// Caller is who makes a request: one person, in one tenant, by one key or one
// browser session. Of an anonymous call only Address and RequestID are known.
type Caller struct {
	TenantID  string
	UserID    string
	KeyID     string // "" where a browser session calls
	SessionID string // "" where a key calls
	Role      Role
	Scopes    []Scope
	Method    string // api_key | cookie | jwt, as GET /me answers
	// VerifiedAt is when a second factor was last shown in this browser
	// session; zero: never.
	VerifiedAt time.Time
	// HalfOpen: a browser session that still owes its second factor.
	HalfOpen bool
	// StreamOnly: by a stream token, which opens event streams and nothing else.
	StreamOnly bool
	Operator   bool   // the credential belongs to the first tenant, which runs the platform
	Address    string // the client's network address, without its port
	RequestID  string // of the request, as X-Request-Id answers it
}

// Has says whether the caller's key covers the scope.
func (c Caller) Has(s Scope) bool {
	return slices.Contains(c.Scopes, s) || slices.Contains(c.Scopes, Wildcard) || slices.Contains(c.Scopes, SuperScope)
}

// Check refuses a caller who carries none of anyOf (empty: any key will do)
// with MISSING_SCOPE, or whose role is below least with FORBIDDEN.
func (c Caller) Check(least Role, anyOf ...Scope) error {
	if len(anyOf) > 0 && !slices.ContainsFunc(anyOf, c.Has) {
		return fault.New(fault.Forbidden, "MISSING_SCOPE", "This operation needs a key with the scope %s.", anyOf[0])
	}
	if least != "" && !c.Role.AtLeast(least) {
		return fault.New(fault.Forbidden, "", "This operation needs the role %s or higher; the key's owner has the role %s.", least, c.Role)
	}
	return nil
}

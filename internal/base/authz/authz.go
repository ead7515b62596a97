// Package authz describes the caller of an operation and what it may do: the
// scopes that a key carries and the roles that a member holds.
package authz

import (
	"cmp"
	"slices"
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

// Valid reports whether r is one of the four roles.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// AtLeast reports whether r includes everything that the role least may do. An
// unknown role includes nothing.
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

// scopes is the one table of scopes: a new one is a row here.
var scopes = []struct {
	scope     Scope
	role      Role // the lowest whose members can use it in a browser session
	byDefault bool // granted to a key whose scopes are not stated
}{
	{"admin", Admin, false},
	{"agents:read", Viewer, true},
	{"agents:write", Developer, true},
	{"api_keys:read", Viewer, false},
	{"api_keys:write", Admin, false},
	{"billing:read", Viewer, false},
	{"evaluations:read", Viewer, false},
	{"evaluations:write", Developer, false},
	{"events:read", Viewer, false},
	{"files:read", Viewer, true},
	{"files:write", Developer, true},
	{"guardrails:read", Viewer, false},
	{"guardrails:write", Admin, false},
	{"marketplace:invoke", Developer, false},
	{"marketplace:read", Viewer, false},
	{"marketplace:write", Developer, false},
	{"memory:read", Viewer, true},
	{"memory:write", Developer, true},
	{"notifications:read", Viewer, true},
	{"notifications:write", Developer, true},
	{"read:analytics", Viewer, true},
	{"runs:create", Developer, true},
	{"runs:read", Viewer, true},
	{"search:read", Viewer, false},
	{"sessions:read", Viewer, true},
	{"sessions:write", Developer, true},
	{"tenants:write", Admin, false},
	{"users:read", Viewer, false},
	{"users:write", Admin, false},
	{"webhooks:read", Viewer, false},
	{"webhooks:write", Admin, false},
}

func scopesWhere(matches func(i int) bool) (list []Scope) {
	for i := range scopes {
		if matches(i) {
			list = append(list, scopes[i].scope)
		}
	}
	return list
}

// Catalogue lists every scope that can be granted, the wildcard apart.
var Catalogue = scopesWhere(func(int) bool { return true })

// Defaults are granted to a key whose scopes are not stated.
var Defaults = scopesWhere(func(i int) bool { return scopes[i].byDefault })

// ScopesOf returns every scope that a role can use, which is what a signed-in
// browser may do. The slice is shared; callers must not change it.
func ScopesOf(r Role) []Scope { return scopesOf[r] }

var scopesOf = map[Role][]Scope{
	Viewer:    scopesWhere(func(i int) bool { return scopes[i].role == Viewer }),
	Developer: scopesWhere(func(i int) bool { return scopes[i].role == Viewer || scopes[i].role == Developer }),
	Admin:     Catalogue,
	Owner:     {Wildcard},
}

// Caller identifies who makes a request: one person, in one tenant, by one key
// or one browser session. An anonymous call has only Address and RequestID.
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
	// HalfOpen marks a browser session that has not passed its second factor yet.
	HalfOpen bool
	// OfKey marks a browser session that was opened with a key: it has the scopes of
	// that key, and ends with it.
	OfKey bool
	// StreamOnly marks a stream token, which opens event streams and nothing else.
	StreamOnly bool
	Operator   bool   // the credential belongs to the first tenant, which runs the platform
	Address    string // the client's network address, without its port
	RequestID  string // of the request, as X-Request-Id answers it
}

// Credential returns the id of the key or the browser session that calls.
func (c Caller) Credential() string { return cmp.Or(c.SessionID, c.KeyID) }

// SignedIn reports whether a browser session calls in which a person signed in as
// themselves, rather than with a key.
func (c Caller) SignedIn() bool { return c.SessionID != "" && !c.OfKey }

// Has reports whether the caller's key covers the scope.
func (c Caller) Has(s Scope) bool {
	return slices.Contains(c.Scopes, s) || slices.Contains(c.Scopes, Wildcard) || slices.Contains(c.Scopes, SuperScope)
}

// Covers reports whether the caller's credential may do everything that a role may:
// only then can the caller give the role to someone. The superscope does not
// cover the role owner.
func (c Caller) Covers(r Role) bool {
	for _, s := range ScopesOf(r) {
		if s == Wildcard && !slices.Contains(c.Scopes, Wildcard) || !c.Has(s) {
			return false
		}
	}
	return r.Valid()
}

// CheckPerson returns MISSING_SCOPE for a caller who may not act for their person
// beyond the company of the credential: only a browser session and a key with the
// scope * may. The superscope does not suffice, because it covers one company.
func (c Caller) CheckPerson() error {
	if c.SignedIn() || slices.Contains(c.Scopes, Wildcard) {
		return nil
	}
	return fault.New(fault.Forbidden, "MISSING_SCOPE",
		"This operation reaches beyond the company of your key: sign in with a browser, or use a key with the scope *.")
}

// Check returns MISSING_SCOPE for a caller who has none of the scopes anyOf (if
// empty, any key will do), and FORBIDDEN for one whose role is below least.
func (c Caller) Check(least Role, anyOf ...Scope) error {
	if len(anyOf) > 0 && !slices.ContainsFunc(anyOf, c.Has) {
		return fault.New(fault.Forbidden, "MISSING_SCOPE", "This operation needs a key with the scope %s.", anyOf[0])
	}
	if least != "" && !c.Role.AtLeast(least) {
		return fault.New(fault.Forbidden, "", "This operation needs the role %s or higher; the key's owner has the role %s.", least, c.Role)
	}
	return nil
}

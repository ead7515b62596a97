package identity

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// Routes lists the slice's operations.
func (s *Service) Routes() []route.Route {
	const keys = "/api/v1/tenants/me/keys"
	return append(s.deviceRoutes(), []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/me", ID: "getMe", Tag: "Auth",
			Summary:  "Who is calling",
			Doc:      "The member and tenant behind the credential of this request, and what the credential allows.",
			HalfOpen: true,
		}, s.me),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/tenants/me", ID: "getCurrentTenant", Tag: "Tenants",
			Summary: "The caller's tenant",
		}, s.currentTenant),
		route.Action(route.Row{
			Method: "POST", Path: keys, ID: "createApiKey", Tag: "Tenants",
			Summary: "Make a key",
			Doc: "The key belongs to the caller and never carries more than the caller's own. It does not expire. " +
				"Without scopes it gets the usual ones, as far as the caller holds them. The answer is the only place that shows raw_key.",
			Scopes: []authz.Scope{"api_keys:write"}, Role: authz.Admin, Status: 201, Fresh: true,
		}, s.createKey),
		route.Action(route.Row{
			Method: "GET", Path: keys, ID: "listApiKeys", Tag: "Tenants",
			Summary: "List the caller's keys",
			Doc:     "Newest first; revoked keys stay in the list.",
			Scopes:  []authz.Scope{"api_keys:read"},
		}, s.listKeys),
		route.Action(route.Row{
			Method: "DELETE", Path: keys + "/{keyId}", ID: "revokeApiKey", Tag: "Tenants",
			Summary: "Revoke a key",
			Doc:     "Takes effect at once and cannot be taken back. Revoking again is no error.",
			Scopes:  []authz.Scope{"api_keys:write"}, Role: authz.Admin, Errors: []int{404},
		}, s.revokeKey),
	}...)
}

type nothing struct{}

// Me answers GET /me.
type Me struct {
	User        *User         `json:"user"`
	Tenant      MyTenant      `json:"tenant"`
	Role        authz.Role    `json:"role"`
	Scopes      []authz.Scope `json:"scopes"`
	AuthMethod  string        `json:"auth_method" enum:"api_key,cookie,jwt"`
	Memberships []Membership  `json:"memberships"`
}

// User is the person behind a credential.
type User struct {
	UserID      string     `json:"user_id"`
	Email       string     `json:"email,omitzero"`
	Name        string     `json:"name,omitzero"`
	Role        authz.Role `json:"role"`
	Status      Status     `json:"status"`
	AvatarURL   *string    `json:"avatar_url"`
	LastLoginAt *time.Time `json:"last_login_at"`
	CreatedAt   time.Time  `json:"created_at"`
}

func shownMe(m Member) User {
	return User{
		UserID: m.UserID, Email: m.Email, Name: m.Name, Role: m.Role, Status: m.Status,
		AvatarURL: textOrNull(m.AvatarURL), LastLoginAt: timeOrNull(m.LastLogin), CreatedAt: m.CreatedAt,
	}
}

// MyTenant is a tenant in short.
type MyTenant struct {
	TenantID string `json:"tenant_id"`
	Name     string `json:"name"`
	Slug     string `json:"slug"`
	Plan     string `json:"plan"`
}

// Membership says that a person is a member of a tenant.
type Membership struct {
	TenantID string `json:"tenant_id"`
	UserID   string `json:"user_id"`
}

func (s *Service) me(ctx context.Context, who authz.Caller, _ *nothing) (Me, error) {
	t, err := s.store.GetTenant(ctx, who.TenantID)
	if err != nil {
		return Me{}, gone(err, "tenant")
	}
	m, err := s.store.GetMember(ctx, who.TenantID, who.UserID)
	if err != nil {
		return Me{}, gone(err, "member")
	}
	memberships := []Membership{{TenantID: m.TenantID, UserID: m.UserID}}
	if m.Verified {
		all, err := s.store.ListMembersByEmail(ctx, m.Email)
		if err != nil {
			return Me{}, err
		}
		for _, other := range all {
			if other.TenantID != m.TenantID {
				memberships = append(memberships, Membership{TenantID: other.TenantID, UserID: other.UserID})
			}
		}
	}
	user := shownMe(m)
	return Me{
		User:   &user,
		Tenant: MyTenant{TenantID: t.TenantID, Name: t.Name, Slug: t.Slug, Plan: t.Plan},
		Role:   who.Role, Scopes: who.Scopes, AuthMethod: who.Method,
		Memberships: memberships,
	}, nil
}

func (s *Service) currentTenant(ctx context.Context, who authz.Caller, _ *nothing) (Tenant, error) {
	t, err := s.store.GetTenant(ctx, who.TenantID)
	return t, gone(err, "tenant")
}

// APIKey is the record of a key as the API shows it.
type APIKey struct {
	KeyID      string        `json:"key_id"`
	Name       string        `json:"name"`
	Prefix     string        `json:"prefix"`
	Kind       string        `json:"kind" enum:"session,api_key" doc:"Always api_key: a signed-in browser is no key, see /me/sessions."`
	Scopes     []authz.Scope `json:"scopes"`
	Status     Status        `json:"status" enum:"active,revoked"`
	CreatedAt  time.Time     `json:"created_at"`
	LastUsedAt *time.Time    `json:"last_used_at"`
	ExpiresAt  *time.Time    `json:"expires_at"`
	CreatedBy  string        `json:"created_by"`
}

func shown(k Key) APIKey {
	return APIKey{
		KeyID: k.KeyID, Name: k.Name, Prefix: k.Prefix, Kind: "api_key", Scopes: k.Scopes, Status: k.Status, CreatedAt: k.CreatedAt,
		LastUsedAt: timeOrNull(k.LastUsedAt), ExpiresAt: timeOrNull(k.ExpiresAt), CreatedBy: k.UserID,
	}
}

// CreatedKey is a new key with its secret, which is shown this once.
type CreatedKey struct {
	APIKey
	RawKey  RawKey `json:"raw_key"`
	Warning string `json:"warning"`
}

// LogValue implements slog.LogValuer: some log formats would print RawKey as
// what it is on the wire.
func (k CreatedKey) LogValue() slog.Value { return slog.StringValue(k.KeyID) }

type createKeyIn struct {
	Body struct {
		Name   string        `json:"name" required:"true" maxLength:"200" doc:"Not empty."`
		Scopes []authz.Scope `json:"scopes,omitzero" nullable:"true" maxItems:"100" doc:"Absent: the usual scopes, as far as the caller holds them."`
	}
}

func (s *Service) createKey(ctx context.Context, who authz.Caller, in *createKeyIn) (CreatedKey, error) {
	key, raw, err := s.CreateKey(ctx, who, in.Body.Name, in.Body.Scopes)
	if err != nil {
		return CreatedKey{}, err
	}
	return created(key, raw), nil
}

func created(key Key, raw RawKey) CreatedKey {
	return CreatedKey{APIKey: shown(key), RawKey: raw, Warning: "Store raw_key now: it is not kept and cannot be shown again."}
}

// KeyList answers GET /tenants/me/keys.
type KeyList struct {
	Keys  []APIKey `json:"keys"`
	Total int      `json:"total"`
}

func (s *Service) listKeys(ctx context.Context, who authz.Caller, _ *nothing) (KeyList, error) {
	keys, err := s.Keys(ctx, who)
	list := KeyList{Keys: make([]APIKey, len(keys)), Total: len(keys)}
	for i, k := range keys {
		list.Keys[i] = shown(k)
	}
	return list, err
}

type revokeKeyIn struct {
	KeyID string `path:"keyId"`
}

// RevokedKey answers DELETE /tenants/me/keys/{keyId}.
type RevokedKey struct {
	Revoked bool   `json:"revoked"`
	KeyID   string `json:"key_id"`
}

func (s *Service) revokeKey(ctx context.Context, who authz.Caller, in *revokeKeyIn) (RevokedKey, error) {
	err := s.RevokeKey(ctx, who, in.KeyID)
	return RevokedKey{Revoked: err == nil, KeyID: in.KeyID}, err
}

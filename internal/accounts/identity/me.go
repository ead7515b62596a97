package identity

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/kernel/quota"
)

// self shows callers who they are.
type self struct {
	store Store
	plans *quota.Plans
}

func (s self) routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/me", ID: "getMe", Tag: "Auth",
			Summary:  "Get the caller",
			Doc:      "The member and the tenant behind the credential of this request, and what the credential allows.",
			HalfOpen: true, Conditional: true,
		}, s.me),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/tenants/me", ID: "getCurrentTenant", Tag: "Tenants",
			Summary: "Get the caller's tenant", Conditional: true,
		}, s.currentTenant),
	}
}

// nothing is the input of operations without parameters.
type nothing struct{}

// Me answers GET /me.
type Me struct {
	User        *User         `json:"user"`
	Tenant      MyTenant      `json:"tenant"`
	Role        authz.Role    `json:"role"`
	Scopes      []authz.Scope `json:"scopes"`
	AuthMethod  string        `json:"auth_method" enum:"api_key,cookie,session_key,jwt"`
	Memberships []Membership  `json:"memberships" doc:"In all companies of the person; for a key without the scope *, only in its own."`
}

// Editable implements route.Editable.
func (m Me) Editable() any { return m.User.Editable() }

// User is the member behind a credential.
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

// Editable implements route.Editable: what people change of themselves.
func (u User) Editable() any {
	return struct{ UserID, Name, AvatarURL string }{u.UserID, u.Name, orEmpty(u.AvatarURL)}
}

func shownMe(m Member) User {
	return User{
		UserID: m.UserID, Email: m.Email, Name: m.Name, Role: m.Role, Status: m.Status,
		AvatarURL: textOrNull(m.AvatarURL), LastLoginAt: timeOrNull(m.LastLogin), CreatedAt: m.CreatedAt,
	}
}

// MyTenant is the short form of a tenant.
type MyTenant struct {
	TenantID string `json:"tenant_id"`
	Name     string `json:"name"`
	Slug     string `json:"slug"`
	Plan     string `json:"plan"`
}

// Membership identifies a person's member record in a tenant.
type Membership struct {
	TenantID string `json:"tenant_id"`
	UserID   string `json:"user_id"`
}

func (s self) me(ctx context.Context, who authz.Caller, _ *nothing) (Me, error) {
	t, err := s.store.GetTenant(ctx, who.TenantID)
	if err != nil {
		return Me{}, notFound(err, "tenant")
	}
	m, err := s.store.GetMember(ctx, who.TenantID, who.UserID)
	if err != nil {
		return Me{}, notFound(err, "member")
	}
	memberships := []Membership{{TenantID: m.TenantID, UserID: m.UserID}}
	if m.Verified && who.CheckPerson() == nil {
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

// CurrentTenant answers GET /tenants/me.
type CurrentTenant struct {
	_ struct{} `json:"-" name:"CurrentTenant"`

	Tenant
	Quotas quota.Limits `json:"quotas" doc:"The limits of its plan. Null: no limit."`
}

func (s self) currentTenant(ctx context.Context, who authz.Caller, _ *nothing) (CurrentTenant, error) {
	t, err := s.store.GetTenant(ctx, who.TenantID)
	if err != nil {
		return CurrentTenant{}, notFound(err, "tenant")
	}
	plan, _ := s.plans.Of(t.Plan)
	return CurrentTenant{Tenant: t, Quotas: plan.Limits}, nil
}

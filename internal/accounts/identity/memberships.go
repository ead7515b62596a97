package identity

import (
	"context"
	"errors"
	"fmt"

	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
)

// maxOwned bounds the tenants that one person owns, because everyone who can
// sign in can create them.
const maxOwned = 20

// memberships shows people the tenants they are members of, and lets them
// create, leave and switch between them.
type memberships struct {
	*roster
	db       txn.Writer
	plans    *quota.Plans
	hasAgent func(ctx context.Context, tenantID, agentID string) (bool, error)
}

// MyTenants answers GET /me/tenants.
type MyTenants struct {
	_ struct{} `json:"-" name:"MyTenants"`

	UserID      string     `json:"user_id" format:"uuid" required:"true"`
	Email       string     `json:"email" required:"true" doc:"Empty if unknown."`
	Memberships []MyMember `json:"memberships" required:"true"`
	Invites     []MyInvite `json:"pending_invites" required:"true"`
}

// MyMember is a membership of the caller's person.
type MyMember struct {
	_ struct{} `json:"-" name:"MyMembership"`

	TenantID    string     `json:"tenant_id" required:"true"`
	UserID      string     `json:"user_id" format:"uuid" required:"true" doc:"ID of the caller's member record there."`
	Name        string     `json:"name" required:"true"`
	Slug        string     `json:"slug" required:"true"`
	Plan        string     `json:"plan" required:"true"`
	LogoURL     *string    `json:"logo_url"`
	Role        authz.Role `json:"role" enum:"viewer,developer,admin,owner" required:"true"`
	SoleOwner   bool       `json:"is_sole_owner" required:"true"`
	MemberCount int        `json:"member_count" required:"true"`
	JoinedAt    time.Time  `json:"joined_at" required:"true"`
	Accessible  bool       `json:"accessible" required:"true" doc:"False if the company, or the caller in it, is suspended."`
}

// MyInvite is a pending invite for the caller's person.
type MyInvite struct {
	_ struct{} `json:"-" name:"MyInvite"`

	InviteID   string     `json:"invite_id" format:"uuid" required:"true"`
	TenantID   string     `json:"tenant_id" required:"true"`
	TenantName string     `json:"tenant_name" required:"true"`
	Role       authz.Role `json:"role" enum:"viewer,developer,admin" required:"true"`
	ExpiresAt  time.Time  `json:"expires_at" required:"true"`
	InvitedBy  string     `json:"invited_by_name,omitzero"`
}

func (p memberships) myTenants(ctx context.Context, who authz.Caller, _ *nothing) (*MyTenants, error) {
	me, email, err := p.person(ctx, who)
	if err != nil {
		return nil, err
	}
	all, err := p.store.ListMemberships(ctx, me.TenantID, me.UserID, email)
	if err != nil {
		return nil, err
	}
	out := &MyTenants{UserID: me.UserID, Email: me.Email, Memberships: make([]MyMember, len(all)), Invites: []MyInvite{}}
	for i, m := range all {
		out.Memberships[i] = MyMember{
			TenantID: m.Tenant.TenantID, UserID: m.Member.UserID, Name: m.Tenant.Name, Slug: m.Tenant.Slug, Plan: m.Tenant.Plan,
			LogoURL: textOrNull(m.Tenant.LogoURL), Role: m.Member.Role, SoleOwner: m.Member.Role == authz.Owner && m.Owners == 1,
			MemberCount: m.Members, JoinedAt: m.Member.CreatedAt, Accessible: m.accessible(),
		}
	}
	if email == "" {
		return out, nil
	}
	invites, err := p.store.ListInvitesByEmail(ctx, email, p.clock.Now())
	for _, i := range invites {
		out.Invites = append(out.Invites, MyInvite{
			InviteID: i.Invite.InviteID, TenantID: i.Invite.TenantID, TenantName: i.Tenant, Role: i.Invite.Role,
			ExpiresAt: i.Invite.ExpiresAt, InvitedBy: i.Inviter,
		})
	}
	return out, err
}

func (m *MembershipOf) accessible() bool {
	return m.Member.Status == Active && m.Tenant.Status == Active
}

type createTenantIn struct {
	Body struct {
		Name string `json:"name" required:"true" maxLength:"100" doc:"Name of the new company, as people see it."`
		Slug string `json:"slug,omitzero" maxLength:"64" doc:"Lower-case letters and digits joined by single hyphens. Default: derived from the name."`
	}
}

// MadeTenant answers POST /me/tenants/create.
type MadeTenant struct {
	Created  bool       `json:"created"`
	TenantID string     `json:"tenant_id"`
	Name     string     `json:"name"`
	Slug     string     `json:"slug"`
	Role     authz.Role `json:"role"`
	UserID   string     `json:"user_id" doc:"ID of the caller's member record in the new company."`
}

// createTenant creates a tenant owned by the caller's person.
func (p memberships) createTenant(ctx context.Context, who authz.Caller, in *createTenantIn) (MadeTenant, error) {
	name, chosen := strings.TrimSpace(in.Body.Name), in.Body.Slug
	var invalid []fault.Field
	if message := badName(name); message != "" {
		invalid = append(invalid, fault.Field{Field: "name", Message: message})
	}
	if message := badSlug(chosen); chosen != "" && message != "" {
		invalid = append(invalid, fault.Field{Field: "slug", Message: message})
	}
	if invalid != nil {
		return MadeTenant{}, fault.BadFields(invalid...)
	}
	short := chosen
	for attempt := range 4 {
		if chosen == "" {
			if short = slug(name); attempt > 0 {
				short += "-" + strings.ToLower(randomText(6))
			}
		}
		out, err := withAnswer(ctx, p.db, func(tx txn.Tx) (MadeTenant, error) { return p.addTenant(tx, who, name, short) })
		switch {
		case !errors.Is(err, ErrTaken):
			return out, err
		case chosen != "":
			return out, slugTaken(chosen)
		}
	}
	return MadeTenant{}, fmt.Errorf("no unique short name found for the tenant: %w", ErrTaken)
}

// addTenant stores a new tenant and its owner.
func (p memberships) addTenant(tx txn.Tx, who authz.Caller, name, slug string) (MadeTenant, error) {
	_, me, err := p.acting(tx, who, authz.Viewer)
	if err != nil {
		return MadeTenant{}, err
	}
	if !me.Verified {
		return MadeTenant{}, fault.New(fault.Forbidden, "USER_REQUIRED",
			"You need a verified email address to create a company: its owner could not sign in otherwise.")
	}
	n, err := p.store.CountOwnedTx(tx, me.Email)
	if err != nil {
		return MadeTenant{}, err
	}
	if n >= maxOwned {
		return MadeTenant{}, fault.New(fault.Invalid, "limit_reached", "One person can own at most %d companies.", maxOwned)
	}
	now := p.clock.Now()
	t := Tenant{
		TenantID: ident.New(), Name: name, Slug: slug, Status: Active, Plan: p.plans.Default(),
		Settings: jsontext.Value(`{}`), CreatedAt: now, UpdatedAt: now,
	}
	if err := p.members.CreateTenantTx(tx, t); err != nil {
		return MadeTenant{}, err
	}
	m := newMember(t.TenantID, me.Email, authz.Owner, p.clock)
	m.Name, m.AvatarURL = me.Name, me.AvatarURL
	if err := p.members.CreateMemberTx(tx, m); err != nil {
		return MadeTenant{}, err
	}
	who.TenantID, who.UserID, who.KeyID, who.SessionID = t.TenantID, m.UserID, "", ""
	return MadeTenant{Created: true, TenantID: t.TenantID, Name: t.Name, Slug: t.Slug, Role: m.Role, UserID: m.UserID},
		p.note(tx, who, "tenant.created", "tenant", t.TenantID, details{"name": t.Name, "slug": t.Slug, "plan": t.Plan})
}

type leaveIn struct {
	TenantID string `path:"tenantId"`
}

// Left answers DELETE /me/memberships/{tenantId}.
type Left struct {
	Left     bool   `json:"left"`
	TenantID string `json:"tenant_id"`
}

// leave removes the caller's person from one of their tenants.
func (p memberships) leave(ctx context.Context, who authz.Caller, in *leaveIn) (Left, error) {
	return withAnswer(ctx, p.db, func(tx txn.Tx) (Left, error) {
		if _, err := p.store.LockTenantTx(tx, in.TenantID); err != nil {
			return Left{}, notFound(err, "membership")
		}
		m, err := p.membership(tx, who, in.TenantID)
		if err != nil {
			return Left{}, err
		}
		if m.Role == authz.Owner {
			n, err := p.store.CountOwnersTx(tx, in.TenantID)
			if err != nil {
				return Left{}, err
			}
			if n < 2 {
				return Left{}, fault.New(fault.Conflict, "WOULD_ORPHAN", "You are the only owner of this company; transfer its ownership first.")
			}
		}
		d := details{"email": m.Email, "role": m.Role}
		if err := p.remove(tx, m); err != nil {
			return Left{}, err
		}
		if who.TenantID != in.TenantID {
			who.TenantID, who.UserID, who.KeyID, who.SessionID = in.TenantID, m.UserID, "", ""
		}
		return Left{Left: true, TenantID: in.TenantID}, p.note(tx, who, "user.left", "user", m.UserID, d)
	})
}

// membership returns the member record of the caller's person in a tenant.
func (p memberships) membership(tx txn.Tx, who authz.Caller, tenantID string) (Member, error) {
	me, err := p.store.GetMemberTx(tx, who.TenantID, who.UserID)
	if err != nil || tenantID == who.TenantID {
		return me, notFound(err, "membership")
	}
	if !me.Verified {
		return Member{}, fault.NewNotFound("membership")
	}
	m, err := p.members.GetMemberByEmailTx(tx, tenantID, me.Email)
	if err == nil && !m.Verified {
		err = ErrNotFound
	}
	return m, notFound(err, "membership")
}

type switchIn struct {
	Body struct {
		TenantID string `json:"tenant_id" required:"true" doc:"The company to switch to; you are a member of it."`
	}
}

// Switched answers POST /me/tenants/switch.
type Switched struct {
	Switched bool       `json:"switched"`
	TenantID string     `json:"tenant_id"`
	UserID   string     `json:"user_id" doc:"ID of the caller's member record there."`
	Role     authz.Role `json:"role"`
}

// switchTenant moves the caller's browser session to another of their tenants.
// A key stays in the tenant it was created in.
func (p memberships) switchTenant(ctx context.Context, who authz.Caller, in *switchIn) (Switched, error) {
	return withAnswer(ctx, p.db, func(tx txn.Tx) (Switched, error) {
		to := in.Body.TenantID
		if !ident.Valid(to) {
			return Switched{}, fault.NewNotFound("membership")
		}
		t, err := p.store.LockTenantTx(tx, to)
		if err != nil {
			return Switched{}, notFound(err, "membership")
		}
		m, err := p.membership(tx, who, to)
		switch {
		case err != nil:
			return Switched{}, err
		case !who.SignedIn():
			return Switched{}, fault.New(fault.Forbidden, "",
				"Only a signed-in browser can switch companies; a key belongs to the company it was created in.")
		case t.Status != Active:
			return Switched{}, fault.New(fault.Forbidden, "TENANT_SUSPENDED", "That company is suspended; its operator can reactivate it.")
		case m.Status != Active:
			return Switched{}, fault.New(fault.Forbidden, "MEMBER_SUSPENDED",
				"You are suspended in that company; one of its admins can unsuspend you.")
		}
		if to != who.TenantID {
			if err := p.sessions.Switch(tx, who.SessionID, m); err != nil {
				return Switched{}, err
			}
		}
		return Switched{Switched: true, TenantID: to, UserID: m.UserID, Role: m.Role}, nil
	})
}

type locateIn struct {
	AgentID string `path:"agentId"`
}

// Located answers GET /me/agents/{agentId}/locate.
type Located struct {
	TenantID string `json:"tenant_id"`
}

// locate finds the tenant of an agent among the accessible tenants of the
// caller's person.
func (p memberships) locate(ctx context.Context, who authz.Caller, in *locateIn) (Located, error) {
	me, email, err := p.person(ctx, who)
	if err != nil {
		return Located{}, err
	}
	all, err := p.store.ListMemberships(ctx, me.TenantID, me.UserID, email)
	if err != nil {
		return Located{}, err
	}
	for _, m := range all {
		if !m.accessible() {
			continue
		}
		has, err := p.hasAgent(ctx, m.Tenant.TenantID, in.AgentID)
		if has || err != nil {
			return Located{m.Tenant.TenantID}, err
		}
	}
	return Located{}, fault.New(fault.NotFound, "", "There is no such agent in your companies.")
}

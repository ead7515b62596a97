package identity

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

// mostOwned bounds the tenants that one person owns, since anybody who can sign
// in can make some.
const mostOwned = 20

// MyTenants answers GET /me/tenants.
type MyTenants struct {
	_ struct{} `json:"-" name:"MyTenants"`

	UserID      string     `json:"user_id" format:"uuid" required:"true"`
	Email       string     `json:"email" required:"true" doc:"Empty where none is known."`
	Memberships []MyMember `json:"memberships" required:"true"`
	Invites     []MyInvite `json:"pending_invites" required:"true"`
}

// MyMember is a membership of the caller's person.
type MyMember struct {
	_ struct{} `json:"-" name:"MyMembership"`

	TenantID    string     `json:"tenant_id" required:"true"`
	UserID      string     `json:"user_id" format:"uuid" required:"true" doc:"Who the person is there."`
	Name        string     `json:"name" required:"true"`
	Slug        string     `json:"slug" required:"true"`
	Plan        string     `json:"plan" required:"true"`
	LogoURL     *string    `json:"logo_url"`
	Role        authz.Role `json:"role" enum:"viewer,developer,admin,owner" required:"true"`
	SoleOwner   bool       `json:"is_sole_owner" required:"true"`
	MemberCount int        `json:"member_count" required:"true"`
	JoinedAt    time.Time  `json:"joined_at" required:"true"`
	Accessible  bool       `json:"accessible" required:"true" doc:"False where the company or the person in it is suspended."`
}

// MyInvite is an invite that waits for the caller's person.
type MyInvite struct {
	_ struct{} `json:"-" name:"MyInvite"`

	InviteID   string     `json:"invite_id" format:"uuid" required:"true"`
	TenantID   string     `json:"tenant_id" required:"true"`
	TenantName string     `json:"tenant_name" required:"true"`
	Role       authz.Role `json:"role" enum:"viewer,developer,admin" required:"true"`
	ExpiresAt  time.Time  `json:"expires_at" required:"true"`
	InvitedBy  string     `json:"invited_by_name,omitzero"`
}

// person gives the caller as a member, and the email that they have shown to
// be theirs: "" where they have not.
func (p *People) person(ctx context.Context, who authz.Caller) (m Member, email string, err error) {
	m, err = p.store.GetMember(ctx, who.TenantID, who.UserID)
	if m.Verified {
		email = m.Email
	}
	return m, email, gone(err, "member")
}

func (p *People) myTenants(ctx context.Context, who authz.Caller, _ *nothing) (*MyTenants, error) {
	me, email, err := p.person(ctx, who)
	if err != nil {
		return nil, err
	}
	all, err := p.Store.ListMemberships(ctx, me.TenantID, me.UserID, email)
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
	invites, err := p.Store.ListInvitesByEmail(ctx, email, p.clock.Now())
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
		Name string `json:"name" required:"true" maxLength:"100"`
		Slug string `json:"slug,omitzero" maxLength:"64" doc:"Lower-case letters and digits, joined by single hyphens; left out: made of the name."`
	}
}

// MadeTenant answers POST /me/tenants/create.
type MadeTenant struct {
	Created  bool       `json:"created"`
	TenantID string     `json:"tenant_id"`
	Name     string     `json:"name"`
	Slug     string     `json:"slug"`
	Role     authz.Role `json:"role"`
	UserID   string     `json:"user_id" doc:"Who the caller's person is there."`
}

var slugForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

const mostSlug = 64

// badSlug says what is wrong with a slug that somebody chose.
func badSlug(s string) string {
	switch {
	case len(s) > mostSlug:
		return fmt.Sprintf("is longer than %d characters", mostSlug)
	case !slugForm.MatchString(s):
		return "is not lower-case letters and digits joined by single hyphens"
	}
	return ""
}

func slugTaken(s string) error {
	return fault.New(fault.Conflict, "ALREADY_EXISTS", "Another company has the short name %s.", s)
}

// createTenant makes a tenant whose owner is the caller's person.
func (p *People) createTenant(ctx context.Context, who authz.Caller, in *createTenantIn) (MadeTenant, error) {
	name, chosen := strings.TrimSpace(in.Body.Name), in.Body.Slug
	var wrong []fault.Field
	if message := badName(name); message != "" {
		wrong = append(wrong, fault.Field{Field: "name", Message: message})
	}
	if message := badSlug(chosen); chosen != "" && message != "" {
		wrong = append(wrong, fault.Field{Field: "slug", Message: message})
	}
	if wrong != nil {
		return MadeTenant{}, fault.BadFields(wrong...)
	}
	short := chosen
	for attempt := range 4 {
		if chosen == "" {
			if short = slug(name); attempt > 0 {
				short += "-" + strings.ToLower(randomText(6))
			}
		}
		out, err := answering(ctx, p.db, func(tx txn.Tx) (MadeTenant, error) { return p.found(tx, who, name, short) })
		switch {
		case !errors.Is(err, ErrTaken):
			return out, err
		case chosen != "":
			return out, slugTaken(chosen)
		}
	}
	return MadeTenant{}, fmt.Errorf("no unique short name could be found for the tenant: %w", ErrTaken)
}

// found writes a new tenant and its owner.
func (p *People) found(tx txn.Tx, who authz.Caller, name, slug string) (MadeTenant, error) {
	_, me, err := p.acting(tx, who, authz.Viewer)
	if err != nil {
		return MadeTenant{}, err
	}
	if !me.Verified {
		return MadeTenant{}, fault.New(fault.Forbidden, "USER_REQUIRED",
			"This needs a member with a verified email address: by it alone could the new company's owner sign in there.")
	}
	n, err := p.Store.CountOwnedTx(tx, me.Email)
	if err != nil {
		return MadeTenant{}, err
	}
	if n >= mostOwned {
		return MadeTenant{}, fault.New(fault.Invalid, "limit_reached", "One person owns at most %d companies.", mostOwned)
	}
	now := p.clock.Now()
	t := Tenant{
		TenantID: ident.New(), Name: name, Slug: slug, Status: Active, Plan: p.plans.Default(),
		Settings: jsontext.Value(`{}`), CreatedAt: now, UpdatedAt: now,
	}
	if err := p.store.CreateTenantTx(tx, t); err != nil {
		return MadeTenant{}, err
	}
	m := p.newMember(t.TenantID, me.Email, authz.Owner)
	m.Name, m.AvatarURL = me.Name, me.AvatarURL
	if err := p.store.CreateMemberTx(tx, m); err != nil {
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

// leave takes the caller's person out of one of their tenants.
func (p *People) leave(ctx context.Context, who authz.Caller, in *leaveIn) (Left, error) {
	return answering(ctx, p.db, func(tx txn.Tx) (Left, error) {
		if _, err := p.Store.LockTenantTx(tx, in.TenantID); err != nil {
			return Left{}, gone(err, "membership")
		}
		m, err := p.membership(tx, who, in.TenantID)
		if err != nil {
			return Left{}, err
		}
		if m.Role == authz.Owner {
			n, err := p.Store.CountOwnersTx(tx, in.TenantID)
			if err != nil {
				return Left{}, err
			}
			if n < 2 {
				return Left{}, fault.New(fault.Conflict, "WOULD_ORPHAN", "You are the only owner of this company; transfer the ownership first.")
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

// membership gives who the caller's person is in a tenant.
func (p *People) membership(tx txn.Tx, who authz.Caller, tenantID string) (Member, error) {
	me, err := p.Store.GetMemberTx(tx, who.TenantID, who.UserID)
	if err != nil || tenantID == who.TenantID {
		return me, gone(err, "membership")
	}
	if !me.Verified {
		return Member{}, fault.NoSuch("membership")
	}
	m, err := p.store.GetMemberByEmailTx(tx, tenantID, me.Email)
	if err == nil && !m.Verified {
		err = ErrNotFound
	}
	return m, gone(err, "membership")
}

type switchIn struct {
	Body struct {
		TenantID string `json:"tenant_id" required:"true"`
	}
}

// Switched answers POST /me/tenants/switch.
type Switched struct {
	Switched bool       `json:"switched"`
	TenantID string     `json:"tenant_id"`
	UserID   string     `json:"user_id" doc:"Who the person is there."`
	Role     authz.Role `json:"role"`
}

// switchTenant moves the caller's browser session to another of their tenants.
// A key stays where it was made.
func (p *People) switchTenant(ctx context.Context, who authz.Caller, in *switchIn) (Switched, error) {
	return answering(ctx, p.db, func(tx txn.Tx) (Switched, error) {
		to := in.Body.TenantID
		if !ident.Valid(to) {
			return Switched{}, fault.NoSuch("membership")
		}
		t, err := p.Store.LockTenantTx(tx, to)
		if err != nil {
			return Switched{}, gone(err, "membership")
		}
		m, err := p.membership(tx, who, to)
		switch {
		case err != nil:
			return Switched{}, err
		case who.SessionID == "":
			return Switched{}, fault.New(fault.Forbidden, "", "Only a signed-in browser changes companies; a key belongs to the one that it was made in.")
		case t.Status != Active:
			return Switched{}, fault.New(fault.Forbidden, "TENANT_SUSPENDED", "That company is suspended; its operator can lift that.")
		case m.Status != Active:
			return Switched{}, fault.New(fault.Forbidden, "MEMBER_SUSPENDED", "You are suspended in that company; an admin of it can lift that.")
		}
		if to != who.TenantID {
			if err := p.SwitchSession(tx, who.SessionID, m); err != nil {
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

// locate finds the tenant of an agent among those that the person may enter.
func (p *People) locate(ctx context.Context, who authz.Caller, in *locateIn) (Located, error) {
	me, email, err := p.person(ctx, who)
	if err != nil {
		return Located{}, err
	}
	all, err := p.Store.ListMemberships(ctx, me.TenantID, me.UserID, email)
	if err != nil {
		return Located{}, err
	}
	for _, m := range all {
		if !m.accessible() {
			continue
		}
		has, err := p.HasAgent(ctx, m.Tenant.TenantID, in.AgentID)
		if has || err != nil {
			return Located{m.Tenant.TenantID}, err
		}
	}
	return Located{}, fault.New(fault.NotFound, "", "None of your companies has such an agent.")
}

type patchMeIn struct {
	Body jsontext.Value
}

// meChange is the body of PATCH /me. What is left out stays.
type meChange struct {
	_ struct{} `json:"-" name:"MeUpdate"`

	Name      string  `json:"name,omitzero" maxLength:"200"`
	AvatarURL *string `json:"avatar_url" maxLength:"2048" doc:"Address of a picture, http or https; null takes it away."`
}

// patchMe changes how the caller is called and looks in this tenant. Nobody
// changes their email: it is what makes them who they are elsewhere.
func (p *People) patchMe(ctx context.Context, who authz.Caller, in *patchMeIn) (User, error) {
	var change meChange
	said, err := readChange(in.Body, &change)
	if err != nil {
		return User{}, err
	}
	var wrong []fault.Field
	if message := badName(change.Name); said["name"] && message != "" {
		wrong = append(wrong, fault.Field{Field: "name", Message: message})
	}
	if change.AvatarURL != nil && !webAddress(*change.AvatarURL) {
		wrong = append(wrong, fault.Field{Field: "avatar_url", Message: notAnAddress})
	}
	if wrong != nil {
		return User{}, fault.BadFields(wrong...)
	}
	return answering(ctx, p.db, func(tx txn.Tx) (User, error) {
		_, me, err := p.acting(tx, who, authz.Viewer)
		if err != nil {
			return User{}, err
		}
		if said["name"] {
			me.Name = strings.TrimSpace(change.Name)
		}
		if said["avatar_url"] {
			me.AvatarURL = orNothing(change.AvatarURL)
		}
		me.UpdatedAt = p.clock.Now()
		return shownMe(me), p.Store.UpdateMemberTx(tx, me)
	})
}

const notAnAddress = "is not an address that begins with http:// or https://"

// webAddress says whether a browser may load a picture from there. We never do.
func webAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil
}

func orNothing(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

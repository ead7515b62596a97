package identity

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
)

// PeopleStore is the port to members and invites. Methods return ErrNotFound for
// a missing record, and also for a member who was removed from the tenant.
type PeopleStore interface {
	// LockTenantTx reads a tenant and makes others who lock it wait until the
	// transaction ends. Every change of who may do what in a tenant locks it.
	LockTenantTx(tx txn.Tx, tenantID string) (Tenant, error)
	// UpdateTenantTx writes the fields that the owner can change. ErrTaken: the
	// slug.
	UpdateTenantTx(tx txn.Tx, t Tenant) error

	GetMemberTx(tx txn.Tx, tenantID, userID string) (Member, error)
	// UpdateMemberTx writes everything except the IDs and the creation time.
	UpdateMemberTx(tx txn.Tx, m Member) error
	// ListMembers lists the members of a tenant after one of them, oldest first.
	ListMembers(ctx context.Context, tenantID, after string, limit int) ([]Member, error)
	CountMembers(ctx context.Context, tenantID string) (int, error)
	// CountOwnersTx counts the owners of a tenant.
	CountOwnersTx(tx txn.Tx, tenantID string) (int, error)
	// CountOwnedTx counts the tenants that the person with an email owns.
	CountOwnedTx(tx txn.Tx, email string) (int, error)
	// ListKeyIDsTx lists the IDs of a member's keys that are not revoked.
	ListKeyIDsTx(tx txn.Tx, tenantID, userID string) (keyIDs []string, err error)
	// LockUnverifiedTx lists the members with an email that is not verified.
	LockUnverifiedTx(tx txn.Tx, email string) ([]Member, error)
	// ListMemberships lists the memberships of a person, oldest first: those with
	// the verified email, and in any case the one of that tenant and user.
	ListMemberships(ctx context.Context, tenantID, userID, email string) ([]MembershipOf, error)

	// CreateInviteTx stores an invite. ErrTaken: one for the same email is pending.
	CreateInviteTx(tx txn.Tx, i Invite) error
	UpdateInviteTx(tx txn.Tx, i Invite) error
	LockInviteTx(tx txn.Tx, tenantID, inviteID string) (Invite, error)
	// GetInviteTenantTx returns the tenant of an invite, for a caller who knows only
	// the invite.
	GetInviteTenantTx(tx txn.Tx, inviteID string) (tenantID string, err error)
	// GetPendingInviteTx returns the pending invite for an email, even an expired
	// one.
	GetPendingInviteTx(tx txn.Tx, tenantID, email string) (Invite, error)
	// CountInvitesTx counts the invites that are pending and not expired.
	CountInvitesTx(tx txn.Tx, tenantID string, now time.Time) (int, error)
	// ListInvites lists the invites after one of them that are pending and not
	// expired, newest first, and returns how many there are in all.
	ListInvites(ctx context.Context, tenantID string, now time.Time, after string, limit int) ([]Invite, int, error)
	// ListInvitesByEmail lists the live invites of all tenants for an email.
	ListInvitesByEmail(ctx context.Context, email string, now time.Time) ([]InviteTo, error)
}

// MembershipOf is a membership with facts about its tenant.
type MembershipOf struct {
	Member  Member
	Tenant  Tenant
	Members int // number of members
	Owners  int // number of owners
}

// InviteTo is an invite as the invited person sees it.
type InviteTo struct {
	Invite  Invite
	Tenant  string // its name
	Inviter string // name of the inviter; empty if it is not known any more
}

// Joined notifies an inviter that their invite was accepted.
type Joined struct {
	TenantID string
	Inviter  string // the user to notify
	UserID   string
	Name     string
	Email    string
	Role     authz.Role
}

// PeopleDeps are the dependencies of People besides the Service.
type PeopleDeps struct {
	Store   PeopleStore
	Mail    mail.Outbox // nil: none
	Cursors *page.Cursors
	// PublicURL returns the URL under which people reach this service.
	PublicURL func() string
	// Notify notifies an inviter; nil: no notification.
	Notify func(tx txn.Tx, j Joined) error
	// HasAgent reports whether a tenant has an agent.
	HasAgent func(ctx context.Context, tenantID, agentID string) (bool, error)
	// OnRemove is called when a member is removed from a tenant, in that
	// transaction. Each function deletes what belonged to that member alone.
	OnRemove []func(tx txn.Tx, tenantID, userID string) error
	// OnSettings is called after the settings of a tenant were changed. Nil: not called.
	OnSettings func()
}

// People manages who is a member of which tenant: users, invites, and the
// tenants of a person. All members with the same verified email are one person,
// in all tenants (docs/adr/0021).
type People struct {
	store       PeopleStore
	clock       clock.Clock
	roster      *roster
	users       users
	invites     invites
	memberships memberships
	profile     tenantProfile
}

// NewPeople returns a People that changes the credentials of a service.
func NewPeople(s *Service, d PeopleDeps) *People {
	r := &roster{
		members: s.Tenants.store, store: d.Store, clock: s.Tenants.clock, audit: s.Keys.audit, auth: s.Authenticator,
		sessions: s.Sessions, onRemove: d.OnRemove,
	}
	db, clk := s.Tenants.db, s.Tenants.clock
	return &People{
		store: d.Store, clock: clk, roster: r,
		users: users{roster: r, db: db, cursors: d.Cursors},
		invites: invites{
			roster: r, db: db, cursors: d.Cursors, mail: d.Mail, publicURL: d.PublicURL, notify: d.Notify,
		},
		memberships: memberships{roster: r, db: db, plans: s.Tenants.plans, hasAgent: d.HasAgent},
		profile:     tenantProfile{roster: r, db: db, hasAgent: d.HasAgent, onSettings: d.OnSettings},
	}
}

// OnRemove adds a function like those of PeopleDeps. It is called before use.
func (p *People) OnRemove(f func(tx txn.Tx, tenantID, userID string) error) {
	p.roster.onRemove = append(p.roster.onRemove, f)
}

// Prove marks the memberships with an email as verified; see roster.prove.
func (p *People) Prove(tx txn.Tx, email string) error { return p.roster.prove(tx, email) }

// HasInvite reports whether there is a live invite for an email.
func (p *People) HasInvite(ctx context.Context, email string) (bool, error) {
	all, err := p.store.ListInvitesByEmail(ctx, email, p.clock.Now())
	return len(all) > 0, err
}

// Routes lists the operations on people and their tenants.
func (p *People) Routes() []route.Route {
	all := append(p.users.routes(), p.invites.routes()...)
	all = append(all, p.profile.routes()...)
	return append(all, p.memberships.routes()...)
}

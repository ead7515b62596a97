package identity

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/mail"
)

// PeopleStore is the port to members and invites. What is absent is
// ErrNotFound, and so is whoever was taken out of a tenant.
type PeopleStore interface {
	// LockTenantTx gives a tenant and makes everybody else who locks it wait until the
	// transaction ends. Whatever changes who may do what in a tenant locks it.
	LockTenantTx(tx txn.Tx, tenantID string) (Tenant, error)
	// UpdateTenantTx writes what its owner can change. ErrTaken: the slug.
	UpdateTenantTx(tx txn.Tx, t Tenant) error

	GetMemberTx(tx txn.Tx, tenantID, userID string) (Member, error)
	// UpdateMemberTx writes everything but the ids and the time of creation.
	UpdateMemberTx(tx txn.Tx, m Member) error
	// ListMembers lists the members of a tenant behind one of them, the oldest
	// first.
	ListMembers(ctx context.Context, tenantID, after string, limit int) ([]Member, error)
	CountMembers(ctx context.Context, tenantID string) (int, error)
	// CountOwnersTx counts the owners of a tenant.
	CountOwnersTx(tx txn.Tx, tenantID string) (int, error)
	// CountOwnedTx counts the tenants whose owner the person with an email is.
	CountOwnedTx(tx txn.Tx, email string) (int, error)
	// ListKeyIDsTx lists the ids of a member's keys that are not revoked.
	ListKeyIDsTx(tx txn.Tx, tenantID, userID string) (keyIDs []string, err error)
	// LockUnverifiedTx lists the members whose email nobody has shown to be theirs.
	LockUnverifiedTx(tx txn.Tx, email string) ([]Member, error)
	// ListMemberships lists the memberships of a person: those of a verified email,
	// and in any case that one member. The oldest come first.
	ListMemberships(ctx context.Context, tenantID, userID, email string) ([]MembershipOf, error)

	// CreateInviteTx stores an invite. ErrTaken: one of the same email is pending.
	CreateInviteTx(tx txn.Tx, i Invite) error
	UpdateInviteTx(tx txn.Tx, i Invite) error
	LockInviteTx(tx txn.Tx, tenantID, inviteID string) (Invite, error)
	// GetInviteTenantTx gives the tenant of an invite, for somebody who has nothing
	// but the invite.
	GetInviteTenantTx(tx txn.Tx, inviteID string) (tenantID string, err error)
	// GetPendingInviteTx gives the pending invite to an email, also one that has
	// expired.
	GetPendingInviteTx(tx txn.Tx, tenantID, email string) (Invite, error)
	// CountInvitesTx counts those that are pending and have not expired.
	CountInvitesTx(tx txn.Tx, tenantID string, now time.Time) (int, error)
	// ListInvites lists those behind one of them that are pending and have not
	// expired, the newest first, and says how many there are in all.
	ListInvites(ctx context.Context, tenantID string, now time.Time, after string, limit int) ([]Invite, int, error)
	// ListInvitesByEmail lists those of all tenants to an email.
	ListInvitesByEmail(ctx context.Context, email string, now time.Time) ([]InviteTo, error)
}

// MembershipOf is a membership with what a person wants to know of its tenant.
type MembershipOf struct {
	Member  Member
	Tenant  Tenant
	Members int // how many there are
	Owners  int // how many of them are owners
}

// InviteTo is an invite with what the invited wants to know.
type InviteTo struct {
	Invite  Invite
	Tenant  string // its name
	Inviter string // name of whoever sent it; "" where that is not known any more
}

// Joined tells an inviter that somebody accepted.
type Joined struct {
	TenantID string
	Inviter  string // the user to be told
	UserID   string
	Name     string
	Email    string
	Role     authz.Role
}

// PeopleDeps is what People is made of beside the Service.
type PeopleDeps struct {
	Store   PeopleStore
	Mail    mail.Outbox // nil: none
	Cursors *page.Cursors
	// PublicURL is the address under which people reach this service.
	PublicURL func() string
	// Notify tells an inviter; nil: nobody is told.
	Notify func(tx txn.Tx, j Joined) error
	// HasAgent says whether a tenant has an agent.
	HasAgent func(ctx context.Context, tenantID, agentID string) (bool, error)
	// Gone are told that a member was taken out of a tenant, in the transaction
	// of it, and delete what was that person's alone.
	Gone []func(tx txn.Tx, tenantID, userID string) error
}

// People manages who is a member of what: users, invites, and the tenants of a
// person (behaviours.md sections 28 and 29). A person is whoever has a verified
// email, in all tenants together (docs/adr/0021).
type People struct {
	*Service
	PeopleDeps
}

// NewPeople makes it over the service whose credentials it changes.
func NewPeople(s *Service, d PeopleDeps) *People { return &People{s, d} }

// Connect sets what is built after the service because it needs it: the port to
// second factors, and a function that deletes what belonged to a removed member
// alone. It is called once, before the first request.
func (p *People) Connect(f Factors, onRemoval func(tx txn.Tx, tenantID, userID string) error) {
	p.Service.Connect(f)
	p.Gone = append(p.Gone, onRemoval)
}

// acting locks the caller's tenant and gives both as they are now, which may
// be other than when the caller was authenticated. Errors: 403 for whoever may
// not do this any more.
func (p *People) acting(tx txn.Tx, who authz.Caller, least authz.Role) (Tenant, Member, error) {
	t, err := p.Store.LockTenantTx(tx, who.TenantID)
	if err != nil {
		return t, Member{}, gone(err, "tenant")
	}
	m, err := p.Store.GetMemberTx(tx, who.TenantID, who.UserID)
	if errors.Is(err, ErrNotFound) {
		return t, m, Unauthenticated()
	}
	if err != nil {
		return t, m, err
	}
	if m.Status != Active {
		return t, m, fault.New(fault.Forbidden, "MEMBER_SUSPENDED", "You are suspended in this company.")
	}
	now := who
	now.Role = m.Role
	return t, m, now.Check(least)
}

// user gives the member that an operation is about.
func (p *People) user(tx txn.Tx, tenantID, userID string) (Member, error) {
	if !ident.Valid(userID) {
		return Member{}, fault.NoSuch("user")
	}
	m, err := p.Store.GetMemberTx(tx, tenantID, userID)
	return m, gone(err, "user")
}

// remove takes a member out: every key is revoked, what is theirs alone is
// deleted. The record stays under its id, without name and email, because
// what they did refers to it.
func (p *People) remove(tx txn.Tx, m Member) error {
	if err := p.lockOut(tx, m); err != nil {
		return err
	}
	for _, clean := range p.Gone {
		if err := clean(tx, m.TenantID, m.UserID); err != nil {
			return err
		}
	}
	m.Email, m.Verified, m.Name, m.AvatarURL = "", false, "", ""
	m.Status, m.UpdatedAt = Deleted, p.clock.Now()
	return p.Store.UpdateMemberTx(tx, m)
}

// lockOut ends every key and browser session of a member for good.
func (p *People) lockOut(tx txn.Tx, m Member) error {
	p.Forget(tx)
	keys, err := p.Store.ListKeyIDsTx(tx, m.TenantID, m.UserID)
	if err != nil {
		return err
	}
	for _, id := range keys {
		if _, err := p.store.RevokeKeyTx(tx, m.TenantID, m.UserID, id, p.clock.Now()); err != nil {
			return err
		}
	}
	return p.EndSessions(tx, m.TenantID, m.UserID, "")
}

// Prove marks the memberships with an email as those of one person, who has
// just shown in this transaction that it is theirs. Who used such a membership
// until now, after an invite whose link was shown to the inviter, may be
// anybody: every credential of it ends.
func (p *People) Prove(tx txn.Tx, email string) error {
	if email == "" {
		return nil
	}
	unproved, err := p.Store.LockUnverifiedTx(tx, email)
	if err != nil {
		return err
	}
	for _, m := range unproved {
		if err := p.lockOut(tx, m); err != nil {
			return err
		}
		m.Verified, m.UpdatedAt = true, p.clock.Now()
		if err := p.Store.UpdateMemberTx(tx, m); err != nil {
			return err
		}
	}
	return nil
}

// details are the members of an audit entry.
type details map[string]any

// note records an administrative write.
func (p *People) note(tx txn.Tx, who authz.Caller, action, target, id string, d details) error {
	e := audit.Entry{Action: action, TargetType: target, TargetID: id}
	if d != nil {
		text, err := json.Marshal(d, json.Deterministic(true))
		if err != nil {
			return err
		}
		e.Details = text
	}
	return p.record(tx, who, e)
}

// answering runs a change and keeps its answer in the same commit.
func answering[T any](ctx context.Context, db txn.Writer, do func(tx txn.Tx) (T, error)) (T, error) {
	var out T
	err := db.Write(ctx, func(tx txn.Tx) (err error) {
		if out, err = do(tx); err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

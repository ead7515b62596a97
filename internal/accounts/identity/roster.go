package identity

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// roster reads and changes the members of tenants inside transactions, for all
// parts of People.
type roster struct {
	members  Store
	store    PeopleStore
	clock    clock.Clock
	audit    audit.Recorder // nil: not recorded
	auth     *Authenticator
	sessions *Sessions
	onRemove []func(tx txn.Tx, tenantID, userID string) error
}

// acting locks the caller's tenant and returns tenant and caller as they are
// now: both may have changed since the caller was authenticated. Errors: 403 for
// a caller who may not do this any more.
func (r *roster) acting(tx txn.Tx, who authz.Caller, least authz.Role) (Tenant, Member, error) {
	t, err := r.store.LockTenantTx(tx, who.TenantID)
	if err != nil {
		return t, Member{}, notFound(err, "tenant")
	}
	m, err := r.store.GetMemberTx(tx, who.TenantID, who.UserID)
	if errors.Is(err, ErrNotFound) {
		return t, m, Unauthenticated()
	}
	if err != nil {
		return t, m, err
	}
	if m.Status != Active {
		return t, m, fault.New(fault.Forbidden, "MEMBER_SUSPENDED", "You are suspended in this company.")
	}
	current := who
	current.Role = m.Role
	return t, m, current.Check(least)
}

// member returns the member that an operation is about.
func (r *roster) member(tx txn.Tx, tenantID, userID string) (Member, error) {
	if !ident.Valid(userID) {
		return Member{}, fault.NewNotFound("user")
	}
	m, err := r.store.GetMemberTx(tx, tenantID, userID)
	return m, notFound(err, "user")
}

// update stores a member whose rights have changed.
func (r *roster) update(tx txn.Tx, m *Member) error {
	m.UpdatedAt = r.clock.Now()
	r.auth.InvalidateAll(tx)
	return r.store.UpdateMemberTx(tx, *m)
}

// remove takes a member out of a tenant: it revokes every key and deletes what
// belongs to that member alone. The record stays under its ID, without name and
// email, because the member's work refers to it.
func (r *roster) remove(tx txn.Tx, m Member) error {
	if err := r.revokeAll(tx, m); err != nil {
		return err
	}
	for _, onRemove := range r.onRemove {
		if err := onRemove(tx, m.TenantID, m.UserID); err != nil {
			return err
		}
	}
	m.Email, m.Verified, m.Name, m.AvatarURL = "", false, "", ""
	m.Status, m.UpdatedAt = Deleted, r.clock.Now()
	return r.store.UpdateMemberTx(tx, m)
}

// revokeAll permanently ends every key and browser session of a member.
func (r *roster) revokeAll(tx txn.Tx, m Member) error {
	r.auth.InvalidateAll(tx)
	keys, err := r.store.ListKeyIDsTx(tx, m.TenantID, m.UserID)
	if err != nil {
		return err
	}
	for _, id := range keys {
		if _, err := r.members.RevokeKeyTx(tx, m.TenantID, m.UserID, id, r.clock.Now()); err != nil {
			return err
		}
	}
	return r.sessions.EndAll(tx, m.TenantID, m.UserID, "")
}

// prove marks the memberships with an email as verified, because their person
// has just proved in this transaction that the email is theirs. An unverified
// membership may have been used by anyone until now (its invite link was shown
// to the inviter), so every credential of it ends.
func (r *roster) prove(tx txn.Tx, email string) error {
	if email == "" {
		return nil
	}
	unproved, err := r.store.LockUnverifiedTx(tx, email)
	if err != nil {
		return err
	}
	for _, m := range unproved {
		if err := r.revokeAll(tx, m); err != nil {
			return err
		}
		m.Verified, m.UpdatedAt = true, r.clock.Now()
		if err := r.store.UpdateMemberTx(tx, m); err != nil {
			return err
		}
	}
	return nil
}

// person returns the caller as a member, and the caller's email if it is
// verified.
func (r *roster) person(ctx context.Context, who authz.Caller) (m Member, email string, err error) {
	m, err = r.members.GetMember(ctx, who.TenantID, who.UserID)
	if m.Verified {
		email = m.Email
	}
	return m, email, notFound(err, "member")
}

// details are the members of an audit entry.
type details map[string]any

// note records an administrative write in the audit log.
func (r *roster) note(tx txn.Tx, who authz.Caller, action, target, id string, d details) error {
	e := audit.Entry{Action: action, TargetType: target, TargetID: id}
	if d != nil {
		text, err := json.Marshal(d, json.Deterministic(true))
		if err != nil {
			return err
		}
		e.Details = text
	}
	return audit.Write(r.audit, tx, who, e)
}

// withAnswer runs a change and stores its answer in the same commit.
func withAnswer[T any](ctx context.Context, db txn.Writer, do func(tx txn.Tx) (T, error)) (T, error) {
	var out T
	err := db.Write(ctx, func(tx txn.Tx) (err error) {
		if out, err = do(tx); err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return out, nil
}

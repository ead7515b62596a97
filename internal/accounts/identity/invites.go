package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
)

const (
	// InvitePath is the path of the page that accepts an invite.
	InvitePath = "/invite"

	inviteTime   = 7 * 24 * time.Hour
	resendPause  = time.Minute
	inviteSecret = 43 // letters and digits, 256 bits
	// maxInvites bounds the live invites of a tenant, because agentd sends an
	// unsolicited email for each.
	maxInvites = 200
)

// Further statuses, of invites. An invite that expires stays pending in the
// store; its expiry time decides.
const (
	Pending  Status = "pending"
	Accepted Status = "accepted"
	Declined Status = "declined"
	Expired  Status = "expired"
)

// invites creates, sends and answers invites.
type invites struct {
	*roster
	db        txn.Writer
	cursors   *page.Cursors
	mail      mail.Outbox // nil: none
	publicURL func() string
	notify    func(tx txn.Tx, j Joined) error // nil: no notification
}

// Invite invites a person to become a member of a tenant.
type Invite struct {
	TenantID  string
	InviteID  string
	Email     string // lower case
	Role      authz.Role
	Status    Status
	Secret    Hash // hash of the token in the link
	Mailed    bool // the link was sent to the address and shown to no one
	InvitedBy string
	CreatedAt time.Time
	SentAt    time.Time
	ExpiresAt time.Time
}

// live reports whether the invite can be accepted.
func (i *Invite) live(now time.Time) bool { return i.Status == Pending && now.Before(i.ExpiresAt) }

// status returns the status that the API shows.
func (i *Invite) status(now time.Time) Status {
	if i.Status == Pending && !i.live(now) {
		return Expired
	}
	return i.Status
}

// matches reports whether a text is the token of the link.
func (i *Invite) matches(secret string) bool {
	hash := Hash(sha256.Sum256([]byte(secret)))
	return subtle.ConstantTimeCompare(hash[:], i.Secret[:]) == 1
}

// ShownInvite is an invite as the API shows it to the inviting company.
type ShownInvite struct {
	_ struct{} `json:"-" name:"Invite"`

	ID        string     `json:"id" format:"uuid" required:"true"`
	TenantID  string     `json:"tenant_id" required:"true"`
	Email     string     `json:"email" required:"true"`
	Role      authz.Role `json:"role" enum:"viewer,developer,admin" required:"true"`
	Status    Status     `json:"status" enum:"pending,accepted,declined,expired,revoked" required:"true"`
	InvitedBy string     `json:"invited_by" required:"true" doc:"ID of the inviting user."`
	ExpiresAt time.Time  `json:"expires_at" required:"true"`
	CreatedAt time.Time  `json:"created_at" required:"true"`
}

func shownInvite(i *Invite, now time.Time) ShownInvite {
	return ShownInvite{
		ID: i.InviteID, TenantID: i.TenantID, Email: i.Email, Role: i.Role, Status: i.status(now), InvitedBy: i.InvitedBy,
		ExpiresAt: i.ExpiresAt, CreatedAt: i.CreatedAt,
	}
}

// NewInvite answers POST /users/invites.
type NewInvite struct {
	_ struct{} `json:"-" name:"CreatedInvite"`
	ShownInvite
	route.Repetition

	EmailSent bool   `json:"email_sent"`
	InviteURL string `json:"invite_url,omitzero" doc:"The link to pass on, if no email was sent. Shown only once."`
}

// LogValue implements slog.LogValuer: the link is a secret.
func (i NewInvite) LogValue() slog.Value { return slog.StringValue(i.ID) }

// WithoutSecret implements route.ShownOnce.
func (i NewInvite) WithoutSecret() any {
	if i.InviteURL != "" {
		i.InviteURL, i.Repetition = "", route.Repeated
	}
	return i
}

type inviteIn struct {
	Body struct {
		Email string     `json:"email" format:"email" required:"true" maxLength:"200" doc:"Address that the invitation is sent to."`
		Role  authz.Role `json:"role" enum:"viewer,developer,admin,owner" required:"true" doc:"Not owner, and not above the inviter's own role."`
	}
}

func (v invites) createInvite(ctx context.Context, who authz.Caller, in *inviteIn) (NewInvite, error) {
	email, message := readEmail(in.Body.Email)
	if message != "" || email == "" {
		return NewInvite{}, fault.BadFields(fault.Field{Field: "email", Message: "is not an email address"})
	}
	return withAnswer(ctx, v.db, func(tx txn.Tx) (NewInvite, error) {
		t, actor, err := v.acting(tx, who, authz.Admin)
		if err != nil {
			return NewInvite{}, err
		}
		if err := mayInvite(who, actor, in.Body.Role); err != nil {
			return NewInvite{}, err
		}
		now := v.clock.Now()
		if err := v.vacant(tx, t.TenantID, email, now); err != nil {
			return NewInvite{}, err
		}
		i := Invite{
			TenantID: t.TenantID, InviteID: ident.New(), Email: email, Role: in.Body.Role, Status: Pending,
			InvitedBy: actor.UserID, CreatedAt: now,
		}
		link, err := v.send(tx, t, actor, &i)
		if err != nil {
			return NewInvite{}, err
		}
		if err := v.store.CreateInviteTx(tx, i); err != nil {
			return NewInvite{}, err
		}
		return NewInvite{ShownInvite: shownInvite(&i, now), EmailSent: i.Mailed, InviteURL: link},
			v.note(tx, who, "invite.created", "invite", i.InviteID, details{"email": email, "role": i.Role})
	})
}

// mayInvite returns an error for a role that the inviter cannot grant.
func mayInvite(who authz.Caller, actor Member, role authz.Role) error {
	if role == authz.Owner {
		return transferInstead("You cannot invite an owner")
	}
	if !actor.Role.AtLeast(role) {
		return fault.New(fault.Forbidden, "", "You cannot invite to a role above your own, which is %s.", actor.Role)
	}
	return mayGrant(who, role)
}

// mayGrant returns an error for a role that may do what the caller's credential may
// not: a key with the scope users:write alone would otherwise do everything by a
// member that it made.
func mayGrant(who authz.Caller, role authz.Role) error {
	if who.Covers(role) {
		return nil
	}
	return fault.New(fault.Invalid, "SCOPE_NOT_HELD", "Your key lacks scopes that the role %s has, so it cannot give that role to anyone; "+
		"use a key with all scopes of the role, or sign in with a browser.", role)
}

// vacant prepares for a new invite. It returns an error if the email already has
// a member or a live invite, or if the tenant has too many invites, and marks an
// expired invite for the email as such.
func (v invites) vacant(tx txn.Tx, tenantID, email string, now time.Time) error {
	_, err := v.members.GetMemberByEmailTx(tx, tenantID, email)
	if err == nil {
		return fault.New(fault.Conflict, "ALREADY_EXISTS", "The company already has a member with the address %s.", email)
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	before, err := v.store.GetPendingInviteTx(tx, tenantID, email)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case before.live(now):
		return fault.New(fault.Conflict, "ALREADY_EXISTS", "There is already a pending invite for %s; resend it or revoke it.", email)
	default:
		before.Status = Expired
		if err := v.store.UpdateInviteTx(tx, before); err != nil {
			return err
		}
	}
	n, err := v.store.CountInvitesTx(tx, tenantID, now)
	if err == nil && n >= maxInvites {
		return fault.New(fault.Invalid, "limit_reached", "A company can have at most %d pending invites; revoke some first.", maxInvites)
	}
	return err
}

// send sets a new secret on an invite and a new expiry, and mails the link. Where
// no mail is configured it returns the link instead.
func (v invites) send(tx txn.Tx, t Tenant, inviter Member, i *Invite) (link string, err error) {
	token := randomText(inviteSecret)
	now := v.clock.Now()
	i.Secret, i.SentAt, i.ExpiresAt = sha256.Sum256([]byte(token)), now, now.Add(inviteTime)
	i.Mailed = v.mail != nil && v.mail.Configured()
	q := url.Values{"tenant": {i.TenantID}, "invite": {i.InviteID}, "token": {token}}
	link = v.publicURL() + InvitePath + "?" + q.Encode()
	if !i.Mailed {
		return link, nil
	}
	name := inviter.Name
	if name == "" {
		name = "A colleague"
	}
	return "", v.mail.Send(tx, t.TenantID, mail.Message{
		To:      i.Email,
		Subject: "You are invited to " + t.Name,
		Text: fmt.Sprintf("Hello,\n\n%s invites you to join %s as %s.\n\nOpen this link before %s to accept:\n\n%s\n\n"+
			"If you did not expect this invitation, you can ignore this email.\n",
			name, t.Name, i.Role, i.ExpiresAt.UTC().Format("2 January 2006, 15:04 MST"), link),
	})
}

// InviteList answers GET /users/invites.
type InviteList struct {
	_ struct{} `json:"-" name:"InviteList"`

	Items   []ShownInvite `json:"items" required:"true"`
	Invites []ShownInvite `json:"invites" required:"true" deprecated:"true" doc:"Same as items."`
	Total   int           `json:"total" required:"true" doc:"Number of pending invites on all pages."`
	HasMore *bool         `json:"has_more,omitzero"`
	Cursor  *string       `json:"cursor,omitzero"`
}

func (v invites) listInvites(ctx context.Context, who authz.Caller, in *pageIn) (*InviteList, error) {
	now, total := v.clock.Now(), 0
	pending, more, cursor, err := windowed(v.cursors, page.ScopeOf(who.TenantID, "invites", in), in,
		func(i Invite) string { return i.InviteID },
		func(after string, limit int) (batch []Invite, err error) {
			batch, total, err = v.store.ListInvites(ctx, who.TenantID, now, after, limit)
			return batch, err
		})
	if err != nil {
		return nil, err
	}
	items := make([]ShownInvite, len(pending))
	for n := range pending {
		items[n] = shownInvite(&pending[n], now)
	}
	return &InviteList{Items: items, Invites: items, Total: total, HasMore: more, Cursor: cursor}, nil
}

type inviteIDIn struct {
	InviteID string `path:"inviteId"`
}

// invite returns an invite of the caller's tenant for an admin to change, with
// the tenant and the caller.
func (v invites) invite(tx txn.Tx, who authz.Caller, inviteID string) (Tenant, Member, Invite, error) {
	t, actor, err := v.acting(tx, who, authz.Admin)
	if err != nil {
		return t, actor, Invite{}, err
	}
	i, err := v.store.LockInviteTx(tx, who.TenantID, inviteID)
	return t, actor, i, notFound(err, "invite")
}

type noBody struct{}

// revokeInvite ends an invite. Revoking it again changes nothing.
func (v invites) revokeInvite(ctx context.Context, who authz.Caller, in *inviteIDIn) (noBody, error) {
	return withAnswer(ctx, v.db, func(tx txn.Tx) (noBody, error) {
		_, _, i, err := v.invite(tx, who, in.InviteID)
		switch {
		case err != nil || i.Status == Revoked:
			return noBody{}, err
		case i.Status != Pending:
			return noBody{}, fault.WrongState("invite", string(i.Status), "revoking it")
		}
		i.Status = Revoked
		if err := v.store.UpdateInviteTx(tx, i); err != nil {
			return noBody{}, err
		}
		return noBody{}, v.note(tx, who, "invite.revoked", "invite", i.InviteID, details{"email": i.Email})
	})
}

// Resent answers POST /users/invites/{inviteId}/resend.
type Resent struct {
	OK        bool        `json:"ok"`
	Resent    bool        `json:"resent"`
	EmailSent bool        `json:"email_sent"`
	Invite    ShownInvite `json:"invite"`
	route.Repetition
	InviteURL string `json:"invite_url,omitzero" doc:"The link to pass on, if no email was sent. Shown only once."`
}

// WithoutSecret implements route.ShownOnce.
func (r Resent) WithoutSecret() any {
	if r.InviteURL != "" {
		r.InviteURL, r.Repetition = "", route.Repeated
	}
	return r
}

// LogValue implements slog.LogValuer: the link is a secret.
func (r Resent) LogValue() slog.Value { return slog.StringValue(r.Invite.ID) }

// resendInvite sends an invite with a new secret and a new expiry; the link that
// was sent before becomes invalid.
func (v invites) resendInvite(ctx context.Context, who authz.Caller, in *inviteIDIn) (Resent, error) {
	return withAnswer(ctx, v.db, func(tx txn.Tx) (Resent, error) {
		t, actor, i, err := v.invite(tx, who, in.InviteID)
		if err != nil {
			return Resent{}, err
		}
		now := v.clock.Now()
		if i.Status != Pending {
			return Resent{}, fault.WrongState("invite", string(i.Status), "sending it again")
		}
		if err := mayInvite(who, actor, i.Role); err != nil {
			return Resent{}, err
		}
		if wait := i.SentAt.Add(resendPause).Sub(now); wait > 0 {
			f := fault.New(fault.Limited, "", "This invite was sent less than a minute ago; wait before you resend it.")
			f.RetryAfter = wait
			return Resent{}, f
		}
		link, err := v.send(tx, t, actor, &i)
		if err != nil {
			return Resent{}, err
		}
		if err := v.store.UpdateInviteTx(tx, i); err != nil {
			return Resent{}, err
		}
		return Resent{OK: true, Resent: true, EmailSent: i.Mailed, Invite: shownInvite(&i, now), InviteURL: link},
			v.note(tx, who, "invite.resent", "invite", i.InviteID, details{"email": i.Email})
	})
}

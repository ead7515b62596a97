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
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
)

const (
	inviteTime   = 7 * 24 * time.Hour
	resendPause  = time.Minute
	inviteSecret = 43 // letters and digits, 256 bits
	// mostInvites bounds the live invites of a tenant: agentd sends a letter for
	// each to somebody who did not ask for it.
	mostInvites = 200
)

// Further statuses, of invites. Of one that is pending it shows by its time
// whether it has expired.
const (
	Pending  Status = "pending"
	Accepted Status = "accepted"
	Declined Status = "declined"
	Expired  Status = "expired"
)

// Invite asks somebody to become a member of a tenant.
type Invite struct {
	TenantID  string
	InviteID  string
	Email     string // lower case
	Role      authz.Role
	Status    Status
	Secret    Hash // of what the link holds
	Mailed    bool // the link went to the address and nowhere else
	InvitedBy string
	CreatedAt time.Time
	SentAt    time.Time
	ExpiresAt time.Time
}

// live says whether it can be accepted.
func (i *Invite) live(now time.Time) bool { return i.Status == Pending && now.Before(i.ExpiresAt) }

// status is what people see as its status.
func (i *Invite) status(now time.Time) Status {
	if i.Status == Pending && !i.live(now) {
		return Expired
	}
	return i.Status
}

// opens says whether a text is the secret of the link.
func (i *Invite) opens(secret string) bool {
	hash := Hash(sha256.Sum256([]byte(secret)))
	return subtle.ConstantTimeCompare(hash[:], i.Secret[:]) == 1
}

// ShownInvite is an invite as the inviting company sees it.
type ShownInvite struct {
	_ struct{} `json:"-" name:"Invite"`

	ID        string     `json:"id" format:"uuid" required:"true"`
	TenantID  string     `json:"tenant_id" required:"true"`
	Email     string     `json:"email" required:"true"`
	Role      authz.Role `json:"role" enum:"viewer,developer,admin" required:"true"`
	Status    Status     `json:"status" enum:"pending,accepted,declined,expired,revoked" required:"true"`
	InvitedBy string     `json:"invited_by" required:"true" doc:"Id of the user who invited."`
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

	EmailSent bool   `json:"email_sent"`
	InviteURL string `json:"invite_url,omitzero" doc:"Where no mail is sent: the link to hand over, shown this once."`
}

// LogValue implements slog.LogValuer: the link is a secret.
func (i NewInvite) LogValue() slog.Value { return slog.StringValue(i.ID) }

type inviteIn struct {
	Body struct {
		Email string     `json:"email" format:"email" required:"true" maxLength:"200"`
		Role  authz.Role `json:"role" enum:"viewer,developer,admin,owner" required:"true" doc:"Not owner, and not above the inviter's own."`
	}
}

func (p *People) createInvite(ctx context.Context, who authz.Caller, in *inviteIn) (NewInvite, error) {
	email, wrong := readEmail(in.Body.Email)
	if wrong != "" || email == "" {
		return NewInvite{}, fault.BadFields(fault.Field{Field: "email", Message: "is not an email address"})
	}
	return answering(ctx, p.db, func(tx txn.Tx) (NewInvite, error) {
		t, actor, err := p.acting(tx, who, authz.Admin)
		if err != nil {
			return NewInvite{}, err
		}
		if err := mayInvite(actor, in.Body.Role); err != nil {
			return NewInvite{}, err
		}
		now := p.clock.Now()
		if err := p.vacant(tx, t.TenantID, email, now); err != nil {
			return NewInvite{}, err
		}
		i := Invite{
			TenantID: t.TenantID, InviteID: ident.New(), Email: email, Role: in.Body.Role, Status: Pending,
			InvitedBy: actor.UserID, CreatedAt: now,
		}
		link, err := p.send(tx, t, actor, &i)
		if err != nil {
			return NewInvite{}, err
		}
		if err := p.Store.CreateInviteTx(tx, i); err != nil {
			return NewInvite{}, err
		}
		return NewInvite{ShownInvite: shownInvite(&i, now), EmailSent: i.Mailed, InviteURL: link},
			p.note(tx, who, "invite.created", "invite", i.InviteID, details{"email": email, "role": i.Role})
	})
}

// mayInvite refuses roles that the inviter cannot give.
func mayInvite(actor Member, role authz.Role) error {
	if role == authz.Owner {
		return transferInstead("Nobody is invited as owner")
	}
	if !actor.Role.AtLeast(role) {
		return fault.New(fault.Forbidden, "", "Nobody can invite to a role above their own, which is %s.", actor.Role)
	}
	return nil
}

// vacant makes room for an invite: whoever is a member or has a live invite is
// not invited again.
func (p *People) vacant(tx txn.Tx, tenantID, email string, now time.Time) error {
	_, err := p.store.GetMemberByEmailTx(tx, tenantID, email)
	if err == nil {
		return fault.New(fault.Conflict, "ALREADY_EXISTS", "The company has a member with the address %s already.", email)
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	before, err := p.Store.GetPendingInviteTx(tx, tenantID, email)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case before.live(now):
		return fault.New(fault.Conflict, "ALREADY_EXISTS", "An invite to %s waits for an answer already; send it again or revoke it.", email)
	default:
		before.Status = Expired
		if err := p.Store.UpdateInviteTx(tx, before); err != nil {
			return err
		}
	}
	n, err := p.Store.CountInvitesTx(tx, tenantID, now)
	if err == nil && n >= mostInvites {
		return fault.New(fault.Invalid, "limit_reached", "A company has at most %d invites that nobody has answered; revoke some first.", mostInvites)
	}
	return err
}

// send gives an invite a new secret and a new time to live, and mails the link;
// where no mail is configured it gives the link instead.
func (p *People) send(tx txn.Tx, t Tenant, inviter Member, i *Invite) (link string, err error) {
	token := randomText(inviteSecret)
	now := p.clock.Now()
	i.Secret, i.SentAt, i.ExpiresAt = sha256.Sum256([]byte(token)), now, now.Add(inviteTime)
	i.Mailed = p.Mail != nil && p.Mail.Configured()
	q := url.Values{"tenant": {i.TenantID}, "invite": {i.InviteID}, "token": {token}}
	link = p.PublicURL() + "/invite?" + q.Encode()
	if !i.Mailed {
		return link, nil
	}
	name := inviter.Name
	if name == "" {
		name = "Somebody"
	}
	return "", p.Mail.Send(tx, t.TenantID, mail.Message{
		To:      i.Email,
		Subject: "You are invited to " + t.Name,
		Text: fmt.Sprintf("Hello,\n\n%s invites you to join %s as %s.\n\nOpen this link to answer, before %s:\n\n%s\n\n"+
			"If you do not know what this is about, ignore this letter: without you nothing happens.\n",
			name, t.Name, i.Role, i.ExpiresAt.UTC().Format("2 January 2006, 15:04 MST"), link),
	})
}

// InviteList answers GET /users/invites.
type InviteList struct {
	_ struct{} `json:"-" name:"InviteList"`

	Items   []ShownInvite `json:"items" required:"true"`
	Invites []ShownInvite `json:"invites" required:"true" deprecated:"true" doc:"The items once more, under their older name."`
	Total   int           `json:"total" required:"true" doc:"How many wait for an answer, on all pages."`
	HasMore *bool         `json:"has_more,omitzero"`
	Cursor  *string       `json:"cursor,omitzero"`
}

func (p *People) listInvites(ctx context.Context, who authz.Caller, in *pageIn) (*InviteList, error) {
	now, total := p.clock.Now(), 0
	invites, more, cursor, err := windowed(p.Cursors, page.Scope{Tenant: who.TenantID, List: "invites"}, in,
		func(i Invite) string { return i.InviteID },
		func(after string, limit int) (some []Invite, err error) {
			some, total, err = p.Store.ListInvites(ctx, who.TenantID, now, after, limit)
			return some, err
		})
	if err != nil {
		return nil, err
	}
	items := make([]ShownInvite, len(invites))
	for n := range invites {
		items[n] = shownInvite(&invites[n], now)
	}
	return &InviteList{Items: items, Invites: items, Total: total, HasMore: more, Cursor: cursor}, nil
}

type inviteIDIn struct {
	InviteID string `path:"inviteId"`
}

// invite gives an invite of the caller's tenant to be changed by an admin.
func (p *People) invite(tx txn.Tx, who authz.Caller, inviteID string) (Tenant, Member, Invite, error) {
	t, actor, err := p.acting(tx, who, authz.Admin)
	if err != nil {
		return t, actor, Invite{}, err
	}
	i, err := p.Store.LockInviteTx(tx, who.TenantID, inviteID)
	return t, actor, i, gone(err, "invite")
}

type nothingAtAll struct{}

// revokeInvite ends an invite. Revoking again changes nothing.
func (p *People) revokeInvite(ctx context.Context, who authz.Caller, in *inviteIDIn) (nothingAtAll, error) {
	return answering(ctx, p.db, func(tx txn.Tx) (none nothingAtAll, err error) {
		_, _, i, err := p.invite(tx, who, in.InviteID)
		switch {
		case err != nil || i.Status == Revoked:
			return none, err
		case i.Status != Pending:
			return none, fault.WrongState("invite", string(i.Status), "revoking it")
		}
		i.Status = Revoked
		if err := p.Store.UpdateInviteTx(tx, i); err != nil {
			return none, err
		}
		return none, p.note(tx, who, "invite.revoked", "invite", i.InviteID, details{"email": i.Email})
	})
}

// Resent answers POST /users/invites/{inviteId}/resend.
type Resent struct {
	OK        bool        `json:"ok"`
	Resent    bool        `json:"resent"`
	EmailSent bool        `json:"email_sent"`
	Invite    ShownInvite `json:"invite"`
	InviteURL string      `json:"invite_url,omitzero" doc:"Where no mail is sent: the link to hand over, shown this once."`
}

// LogValue implements slog.LogValuer: the link is a secret.
func (r Resent) LogValue() slog.Value { return slog.StringValue(r.Invite.ID) }

// resendInvite sends an invite with a new secret and a new week; the link that
// was sent before opens nothing any more.
func (p *People) resendInvite(ctx context.Context, who authz.Caller, in *inviteIDIn) (Resent, error) {
	return answering(ctx, p.db, func(tx txn.Tx) (Resent, error) {
		t, actor, i, err := p.invite(tx, who, in.InviteID)
		if err != nil {
			return Resent{}, err
		}
		now := p.clock.Now()
		if i.Status != Pending {
			return Resent{}, fault.WrongState("invite", string(i.Status), "sending it again")
		}
		if err := mayInvite(actor, i.Role); err != nil {
			return Resent{}, err
		}
		if wait := i.SentAt.Add(resendPause).Sub(now); wait > 0 {
			f := fault.New(fault.Limited, "", "This invite was sent a moment ago; it can be sent again a minute later.")
			f.RetryAfter = wait
			return Resent{}, f
		}
		link, err := p.send(tx, t, actor, &i)
		if err != nil {
			return Resent{}, err
		}
		if err := p.Store.UpdateInviteTx(tx, i); err != nil {
			return Resent{}, err
		}
		return Resent{OK: true, Resent: true, EmailSent: i.Mailed, Invite: shownInvite(&i, now), InviteURL: link},
			p.note(tx, who, "invite.resent", "invite", i.InviteID, details{"email": i.Email})
	})
}

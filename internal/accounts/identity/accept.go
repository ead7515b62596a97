package identity

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

type acceptIn struct {
	InviteID string `path:"inviteId"`
	Body     struct {
		Token string `json:"token" required:"true" maxLength:"200" doc:"From the link."`
		Name  string `json:"name,omitzero" maxLength:"200" doc:"The new member's name."`
	}
}

// LogValue implements slog.LogValuer: the token is a secret.
func (in *acceptIn) LogValue() slog.Value { return slog.StringValue(in.InviteID) }

// Joining answers the operations that accept an invite.
type Joining struct {
	_ struct{} `json:"-" name:"AcceptedInvite"`

	Accepted bool       `json:"accepted" required:"true"`
	UserID   string     `json:"user_id" format:"uuid" required:"true"`
	TenantID string     `json:"tenant_id" required:"true"`
	Role     authz.Role `json:"role" enum:"viewer,developer,admin" required:"true"`
}

// acceptByLink makes the holder of an invite's link a member with the invite's
// email. The email counts as verified only if the link was mailed to it: a link
// that was shown to the inviter proves nothing, so the new membership is not
// connected with other companies of the person with that email.
//
// A link is shown only where no mail is sent. The new member could not receive a
// sign-in code there, so this browser is signed in immediately.
func (v invites) acceptByLink(ctx context.Context, who authz.Caller, in *acceptIn) (*route.Reply, error) {
	if message := badName(in.Body.Name); in.Body.Name != "" && message != "" {
		return nil, fault.BadFields(fault.Field{Field: "name", Message: message})
	}
	return withAnswer(ctx, v.db, func(tx txn.Tx) (*route.Reply, error) {
		t, i, err := v.byLink(tx, in.InviteID, in.Body.Token)
		if err != nil {
			return nil, err
		}
		m := newMember(t.TenantID, i.Email, i.Role, v.clock)
		m.Verified = i.Mailed
		if name := strings.TrimSpace(in.Body.Name); name != "" {
			m.Name = name
		}
		joined, err := v.join(tx, who, t, i, m)
		if err != nil {
			return nil, err
		}
		return v.welcome(tx, who, i, m, joined)
	})
}

// byLink returns the invite of a link, with its locked tenant.
func (v invites) byLink(tx txn.Tx, inviteID, token string) (Tenant, Invite, error) {
	tenantID, err := v.store.GetInviteTenantTx(tx, inviteID)
	if err != nil {
		return Tenant{}, Invite{}, notFound(err, "invite")
	}
	t, i, err := v.locked(tx, tenantID, inviteID)
	if err == nil && !i.matches(token) {
		err = fault.New(fault.Forbidden, "", "This link is not valid for the invite; a newer link may have been sent.")
	}
	return t, i, err
}

// Invitation is an invite as the page of its link shows it.
type Invitation struct {
	Company   string
	Inviter   string // "" if they are not a member any more
	Email     string
	Role      authz.Role
	ExpiresAt time.Time
}

// Invitation returns the invite of a link. Errors: those of accepting it.
func (p *People) Invitation(ctx context.Context, inviteID, token string) (out Invitation, err error) {
	v := p.invites
	err = v.db.Write(ctx, func(tx txn.Tx) error {
		t, i, err := v.byLink(tx, inviteID, token)
		if err != nil {
			return err
		}
		out = Invitation{Company: t.Name, Email: i.Email, Role: i.Role, ExpiresAt: i.ExpiresAt}
		if inviter, err := v.store.GetMemberTx(tx, i.TenantID, i.InvitedBy); err == nil {
			out.Inviter = inviter.Name
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		return v.answerable(t, i)
	})
	return out, err
}

// Accept is POST /users/invites/{inviteId}/accept for a page. It returns the cookie of a
// session, nil where the new member signs in with their address.
func (p *People) Accept(ctx context.Context, who authz.Caller, inviteID, token, name string) (*route.Cookie, error) {
	in := &acceptIn{InviteID: inviteID}
	in.Body.Token, in.Body.Name = token, name
	reply, err := p.invites.acceptByLink(ctx, who, in)
	if err != nil {
		return nil, err
	}
	return reply.Cookie, nil
}

func (v invites) welcome(tx txn.Tx, who authz.Caller, i Invite, m Member, joined Joining) (*route.Reply, error) {
	text, err := json.Marshal(joined)
	if err != nil {
		return nil, err
	}
	reply := &route.Reply{JSON: text}
	if i.Mailed {
		return reply, nil
	}
	_, raw, err := v.sessions.Open(tx, m, Device{Address: who.Address, Method: "invite"})
	reply.Cookie = SessionCookie(raw)
	return reply, err
}

// locked locks the tenant of an invite and returns both.
func (v invites) locked(tx txn.Tx, tenantID, inviteID string) (Tenant, Invite, error) {
	t, err := v.store.LockTenantTx(tx, tenantID)
	if err != nil {
		return t, Invite{}, notFound(err, "invite")
	}
	i, err := v.store.LockInviteTx(tx, tenantID, inviteID)
	return t, i, notFound(err, "invite")
}

// join adds the member that an invite is for.
func (v invites) join(tx txn.Tx, who authz.Caller, t Tenant, i Invite, m Member) (Joining, error) {
	if err := v.answerable(t, i); err != nil {
		return Joining{}, err
	}
	_, err := v.members.GetMemberByEmailTx(tx, t.TenantID, i.Email)
	if err == nil {
		return Joining{}, fault.New(fault.Conflict, "ALREADY_EXISTS", "The company already has a member with the address %s.", i.Email)
	}
	if !errors.Is(err, ErrNotFound) {
		return Joining{}, err
	}
	if err := v.members.CreateMemberTx(tx, m); err != nil {
		return Joining{}, err
	}
	i.Status = Accepted
	if err := v.store.UpdateInviteTx(tx, i); err != nil {
		return Joining{}, err
	}
	if err := v.notifyInviter(tx, i, m); err != nil {
		return Joining{}, err
	}
	// The audit entry names the new member as its actor, because the key of the
	// request belongs to another company.
	who.TenantID, who.UserID, who.KeyID, who.SessionID = t.TenantID, m.UserID, "", ""
	return Joining{Accepted: true, UserID: m.UserID, TenantID: t.TenantID, Role: m.Role},
		v.note(tx, who, "invite.accepted", "invite", i.InviteID, details{"email": i.Email, "role": m.Role, "email_verified": m.Verified})
}

// answerable returns an error for an invite that is answered or expired, and for
// a suspended tenant.
func (v invites) answerable(t Tenant, i Invite) error {
	switch {
	case i.Status != Pending:
		return fault.WrongState("invite", string(i.Status), "answering it")
	case !i.live(v.clock.Now()):
		return fault.New(fault.Gone, "", "This invite has expired; ask for a new one.")
	case t.Status != Active:
		return fault.New(fault.Forbidden, "TENANT_SUSPENDED", "The company of this invite is suspended.")
	}
	return nil
}

// notifyInviter notifies the inviter, if they are still a member.
func (v invites) notifyInviter(tx txn.Tx, i Invite, m Member) error {
	if v.notify == nil {
		return nil
	}
	_, err := v.store.GetMemberTx(tx, i.TenantID, i.InvitedBy)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return v.notify(tx, Joined{TenantID: i.TenantID, Inviter: i.InvitedBy, UserID: m.UserID, Name: m.Name, Email: m.Email, Role: m.Role})
}

type myInviteIn struct {
	TenantID string `path:"tenantId"`
	InviteID string `path:"inviteId"`
}

type acceptMineIn struct {
	TenantID string `path:"tenantId"`
	InviteID string `path:"inviteId"`
	Body     struct {
		Name string `json:"name,omitzero" maxLength:"200" doc:"The member's name in that company. Default: the same as here."`
	}
}

// acceptMine makes the caller's person a member; the invite must be for their
// verified email.
func (v invites) acceptMine(ctx context.Context, who authz.Caller, in *acceptMineIn) (Joining, error) {
	if message := badName(in.Body.Name); in.Body.Name != "" && message != "" {
		return Joining{}, fault.BadFields(fault.Field{Field: "name", Message: message})
	}
	return withAnswer(ctx, v.db, func(tx txn.Tx) (Joining, error) {
		t, i, me, err := v.mine(tx, who, in.TenantID, in.InviteID)
		if err != nil {
			return Joining{}, err
		}
		m := newMember(t.TenantID, i.Email, i.Role, v.clock)
		m.Name, m.AvatarURL = me.Name, me.AvatarURL
		if name := strings.TrimSpace(in.Body.Name); name != "" {
			m.Name = name
		}
		return v.join(tx, who, t, i, m)
	})
}

// mine returns an invite for the caller's person, with its locked tenant and the
// caller.
func (v invites) mine(tx txn.Tx, who authz.Caller, tenantID, inviteID string) (Tenant, Invite, Member, error) {
	t, i, err := v.locked(tx, tenantID, inviteID)
	if err != nil {
		return t, i, Member{}, err
	}
	me, err := v.store.GetMemberTx(tx, who.TenantID, who.UserID)
	if err != nil {
		return t, i, me, notFound(err, "member")
	}
	if !me.Verified || me.Email != i.Email {
		return t, i, me, fault.New(fault.Forbidden, "", "This invite is for a different email address than the one you signed in with.")
	}
	return t, i, me, nil
}

// DeclinedInvite answers POST /me/invites/{tenantId}/{inviteId}/decline.
type DeclinedInvite struct {
	Declined bool   `json:"declined"`
	TenantID string `json:"tenant_id"`
	InviteID string `json:"invite_id"`
}

func (v invites) declineMine(ctx context.Context, who authz.Caller, in *myInviteIn) (DeclinedInvite, error) {
	return withAnswer(ctx, v.db, func(tx txn.Tx) (DeclinedInvite, error) {
		t, i, _, err := v.mine(tx, who, in.TenantID, in.InviteID)
		if err != nil {
			return DeclinedInvite{}, err
		}
		if err := v.answerable(t, i); err != nil {
			return DeclinedInvite{}, err
		}
		i.Status = Declined
		if err := v.store.UpdateInviteTx(tx, i); err != nil {
			return DeclinedInvite{}, err
		}
		who.TenantID, who.UserID, who.KeyID, who.SessionID = t.TenantID, "", "", ""
		return DeclinedInvite{Declined: true, TenantID: i.TenantID, InviteID: i.InviteID},
			v.note(tx, who, "invite.declined", "invite", i.InviteID, details{"email": i.Email})
	})
}

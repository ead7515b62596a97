package identity

import (
	"context"
	"errors"
	"log/slog"
	"strings"

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
		Name  string `json:"name,omitzero" maxLength:"200" doc:"What to be called."`
	}
}

// LogValue implements slog.LogValuer: the token is a secret.
func (in *acceptIn) LogValue() slog.Value { return slog.StringValue(in.InviteID) }

// Joining answers whoever accepted an invite.
type Joining struct {
	_ struct{} `json:"-" name:"AcceptedInvite"`

	Accepted bool       `json:"accepted" required:"true"`
	UserID   string     `json:"user_id" format:"uuid" required:"true"`
	TenantID string     `json:"tenant_id" required:"true"`
	Role     authz.Role `json:"role" enum:"viewer,developer,admin" required:"true"`
}

// acceptByLink makes a member of whoever holds an invite's link. Such a member
// has the invite's email. It is proved to be theirs only if the link went
// there: one that was shown to the inviter proves nothing, and neither opens
// the person's other companies nor is opened by them.
//
// With a link that was shown nobody could be sent a code to sign in with, so
// its browser is signed in right away.
func (p *People) acceptByLink(ctx context.Context, who authz.Caller, in *acceptIn) (*route.Reply, error) {
	if message := badName(in.Body.Name); in.Body.Name != "" && message != "" {
		return nil, fault.BadFields(fault.Field{Field: "name", Message: message})
	}
	return answering(ctx, p.db, func(tx txn.Tx) (*route.Reply, error) {
		tenantID, err := p.Store.GetInviteTenantTx(tx, in.InviteID)
		if err != nil {
			return nil, gone(err, "invite")
		}
		t, i, err := p.locked(tx, tenantID, in.InviteID)
		if err != nil {
			return nil, err
		}
		if !i.opens(in.Body.Token) {
			return nil, fault.New(fault.Forbidden, "", "This link does not open the invite; perhaps a newer one was sent.")
		}
		m := p.newMember(t.TenantID, i.Email, i.Role)
		m.Verified = i.Mailed
		if name := strings.TrimSpace(in.Body.Name); name != "" {
			m.Name = name
		}
		joined, err := p.join(tx, who, t, i, m)
		if err != nil {
			return nil, err
		}
		return p.welcome(tx, who, i, m, joined)
	})
}

func (p *People) welcome(tx txn.Tx, who authz.Caller, i Invite, m Member, joined Joining) (*route.Reply, error) {
	text, err := json.Marshal(joined)
	if err != nil {
		return nil, err
	}
	reply := &route.Reply{JSON: text}
	if i.Mailed {
		return reply, nil
	}
	_, raw, err := p.OpenSession(tx, m, Device{Address: who.Address, Method: "invite"})
	reply.Cookie = SessionCookie(raw)
	return reply, err
}

// locked gives an invite and its tenant, locked.
func (p *People) locked(tx txn.Tx, tenantID, inviteID string) (Tenant, Invite, error) {
	t, err := p.Store.LockTenantTx(tx, tenantID)
	if err != nil {
		return t, Invite{}, gone(err, "invite")
	}
	i, err := p.Store.LockInviteTx(tx, tenantID, inviteID)
	return t, i, gone(err, "invite")
}

// join makes the member that an invite asks for.
func (p *People) join(tx txn.Tx, who authz.Caller, t Tenant, i Invite, m Member) (Joining, error) {
	if err := p.answerable(t, i); err != nil {
		return Joining{}, err
	}
	_, err := p.store.GetMemberByEmailTx(tx, t.TenantID, i.Email)
	if err == nil {
		return Joining{}, fault.New(fault.Conflict, "ALREADY_EXISTS", "The company has a member with the address %s already.", i.Email)
	}
	if !errors.Is(err, ErrNotFound) {
		return Joining{}, err
	}
	if err := p.store.CreateMemberTx(tx, m); err != nil {
		return Joining{}, err
	}
	i.Status = Accepted
	if err := p.Store.UpdateInviteTx(tx, i); err != nil {
		return Joining{}, err
	}
	if err := p.tellInviter(tx, i, m); err != nil {
		return Joining{}, err
	}
	// They did it as who they became; the key they called with is another
	// company's.
	who.TenantID, who.UserID, who.KeyID, who.SessionID = t.TenantID, m.UserID, "", ""
	return Joining{Accepted: true, UserID: m.UserID, TenantID: t.TenantID, Role: m.Role},
		p.note(tx, who, "invite.accepted", "invite", i.InviteID, details{"email": i.Email, "role": m.Role, "email_verified": m.Verified})
}

// answerable refuses invites that are answered already, and suspended tenants.
func (p *People) answerable(t Tenant, i Invite) error {
	switch {
	case i.Status != Pending:
		return fault.WrongState("invite", string(i.Status), "answering it")
	case !i.live(p.clock.Now()):
		return fault.New(fault.Gone, "", "This invite has expired; ask for a new one.")
	case t.Status != Active:
		return fault.New(fault.Forbidden, "TENANT_SUSPENDED", "The company of this invite is suspended.")
	}
	return nil
}

// tellInviter notifies whoever invited, while they are a member.
func (p *People) tellInviter(tx txn.Tx, i Invite, m Member) error {
	if p.Notify == nil {
		return nil
	}
	_, err := p.Store.GetMemberTx(tx, i.TenantID, i.InvitedBy)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.Notify(tx, Joined{TenantID: i.TenantID, Inviter: i.InvitedBy, UserID: m.UserID, Name: m.Name, Email: m.Email, Role: m.Role})
}

type myInviteIn struct {
	TenantID string `path:"tenantId"`
	InviteID string `path:"inviteId"`
}

type acceptMineIn struct {
	TenantID string `path:"tenantId"`
	InviteID string `path:"inviteId"`
	Body     struct {
		Name string `json:"name,omitzero" maxLength:"200" doc:"What to be called there; left out: as here."`
	}
}

// acceptMine makes the caller's person a member, whose verified email the
// invite names.
func (p *People) acceptMine(ctx context.Context, who authz.Caller, in *acceptMineIn) (Joining, error) {
	if message := badName(in.Body.Name); in.Body.Name != "" && message != "" {
		return Joining{}, fault.BadFields(fault.Field{Field: "name", Message: message})
	}
	return answering(ctx, p.db, func(tx txn.Tx) (Joining, error) {
		t, i, me, err := p.mine(tx, who, in.TenantID, in.InviteID)
		if err != nil {
			return Joining{}, err
		}
		m := p.newMember(t.TenantID, i.Email, i.Role)
		m.Name, m.AvatarURL = me.Name, me.AvatarURL
		if name := strings.TrimSpace(in.Body.Name); name != "" {
			m.Name = name
		}
		return p.join(tx, who, t, i, m)
	})
}

// mine gives an invite to the caller's person, locked, and the caller.
func (p *People) mine(tx txn.Tx, who authz.Caller, tenantID, inviteID string) (Tenant, Invite, Member, error) {
	t, i, err := p.locked(tx, tenantID, inviteID)
	if err != nil {
		return t, i, Member{}, err
	}
	me, err := p.Store.GetMemberTx(tx, who.TenantID, who.UserID)
	if err != nil {
		return t, i, me, gone(err, "member")
	}
	if !me.Verified || me.Email != i.Email {
		return t, i, me, fault.New(fault.Forbidden, "", "This invite is for another email address than the one that you signed in with.")
	}
	return t, i, me, nil
}

// DeclinedInvite answers POST /me/invites/{tenantId}/{inviteId}/decline.
type DeclinedInvite struct {
	Declined bool   `json:"declined"`
	TenantID string `json:"tenant_id"`
	InviteID string `json:"invite_id"`
}

func (p *People) declineMine(ctx context.Context, who authz.Caller, in *myInviteIn) (DeclinedInvite, error) {
	return answering(ctx, p.db, func(tx txn.Tx) (DeclinedInvite, error) {
		t, i, _, err := p.mine(tx, who, in.TenantID, in.InviteID)
		if err != nil {
			return DeclinedInvite{}, err
		}
		if err := p.answerable(t, i); err != nil {
			return DeclinedInvite{}, err
		}
		i.Status = Declined
		if err := p.Store.UpdateInviteTx(tx, i); err != nil {
			return DeclinedInvite{}, err
		}
		who.TenantID, who.UserID, who.KeyID, who.SessionID = t.TenantID, "", "", ""
		return DeclinedInvite{Declined: true, TenantID: i.TenantID, InviteID: i.InviteID},
			p.note(tx, who, "invite.declined", "invite", i.InviteID, details{"email": i.Email})
	})
}

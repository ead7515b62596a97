package signin

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/mail"
)

// links shows people the ways in which they can sign in, and unlinks providers.
type links struct {
	writer    txn.Writer
	store     Store
	members   Members
	outbox    mail.Outbox
	audit     audit.Recorder // nil: not recorded
	providers providers
}

// AuthProvider is a way of signing in.
type AuthProvider struct {
	_ struct{} `json:"-" name:"AuthProvider"`

	ID       string     `json:"id" required:"true" doc:"otp for the code sent by email, otherwise the provider."`
	Linked   bool       `json:"linked" required:"true" doc:"Whether the caller can sign in this way."`
	Subject  string     `json:"sub,omitzero" doc:"The account's ID at the provider."`
	Email    *string    `json:"email" required:"true" doc:"The address that is used, or that the provider reported. Null where there is none."`
	LinkedAt *time.Time `json:"linked_at,omitzero"`
}

// AuthProviders answers GET /me/auth-providers.
type AuthProviders struct {
	_ struct{} `json:"-" name:"AuthProviders"`

	Items     []AuthProvider `json:"items" required:"true"`
	Providers []AuthProvider `json:"providers" required:"true" deprecated:"true" doc:"Same as items."`
}

func (l links) list(ctx context.Context, who authz.Caller, _ *nothing) (AuthProviders, error) {
	m, err := l.members.GetMember(ctx, who.TenantID, who.UserID)
	if err != nil {
		return AuthProviders{}, memberNotFound(err)
	}
	email := ""
	var linked []Link
	if m.Verified {
		email = m.Email
		if linked, err = l.store.ListLinks(ctx, email); err != nil {
			return AuthProviders{}, err
		}
	}
	items := []AuthProvider{{ID: OTP, Linked: l.canMail(email), Email: orNull(email)}}
	for _, p := range l.providers() {
		if !slices.ContainsFunc(linked, func(l Link) bool { return l.Provider == p.ID }) {
			items = append(items, AuthProvider{ID: p.ID})
		}
	}
	for _, l := range linked {
		items = append(items, AuthProvider{
			ID: l.Provider, Linked: true, Subject: l.Subject, Email: orNull(l.ProviderEmail), LinkedAt: &l.LinkedAt,
		})
	}
	return AuthProviders{Items: items, Providers: items}, nil
}

func orNull(email string) *string {
	if email == "" {
		return nil
	}
	return &email
}

// canMail reports whether a code can be sent to an address.
func (l links) canMail(email string) bool { return email != "" && l.outbox.Configured() }

type unlinkIn struct {
	Provider string `path:"provider"`
}

// Unlinked answers DELETE /me/auth-providers/{provider}.
type Unlinked struct {
	_ struct{} `json:"-" name:"Unlinked"`

	OK               bool   `json:"ok" required:"true"`
	Provider         string `json:"provider" required:"true"`
	RemainingFactors int    `json:"remaining_factors" required:"true" doc:"Remaining ways of signing in."`
	AlreadyUnlinked  bool   `json:"already_unlinked,omitzero"`
}

// unlink removes a way of signing in, but never the last one.
func (l links) unlink(ctx context.Context, who authz.Caller, in *unlinkIn) (Unlinked, error) {
	var out Unlinked
	err := l.writer.Write(ctx, func(tx txn.Tx) error {
		email, linked, remaining, err := l.waysWithout(tx, who, in.Provider)
		if err != nil {
			return err
		}
		out = Unlinked{OK: true, Provider: in.Provider, RemainingFactors: remaining, AlreadyUnlinked: !linked}
		_, unknown := l.providers.find(in.Provider)
		switch {
		case in.Provider == OTP:
			return fault.New(fault.Conflict, "", "Codes by email belong to a verified address and cannot be unlinked; a provider can.")
		case !linked && unknown != nil:
			return fault.New(fault.NotFound, "", "There is no sign-in provider of that name.")
		case !linked:
			return txn.Answer(tx, out)
		case remaining == 0:
			return fault.New(fault.Conflict, "", "This is your only way of signing in; link another one first.")
		}
		if err := l.deleteLink(tx, who, email, in.Provider); err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
	if err != nil {
		return Unlinked{}, err
	}
	return out, nil
}

// waysWithout returns the caller's verified email, whether the caller is linked
// to a provider, and how many ways of signing in there are without it.
func (l links) waysWithout(tx txn.Tx, who authz.Caller, provider string) (email string, linked bool, remaining int, err error) {
	m, err := l.store.GetMembershipTx(tx, who.TenantID, who.UserID)
	if err != nil {
		return "", false, 0, memberNotFound(err)
	}
	var all []Link
	if m.Member.Verified {
		email = m.Member.Email
		if all, err = l.store.LockLinksTx(tx, email); err != nil {
			return "", false, 0, err
		}
	}
	if l.canMail(email) {
		remaining++
	}
	for _, link := range all {
		_, notConfigured := l.providers.find(link.Provider)
		switch {
		case link.Provider == provider:
			linked = true
		case notConfigured == nil:
			remaining++
		}
	}
	return email, linked, remaining, nil
}

// deleteLink deletes the caller's link to a provider and records that.
func (l links) deleteLink(tx txn.Tx, who authz.Caller, email, provider string) error {
	if err := l.store.DeleteLinkTx(tx, email, provider); err != nil {
		return err
	}
	details, err := json.Marshal(map[string]any{"provider": provider}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return audit.Write(l.audit, tx, who, audit.Entry{
		Action: "auth.provider_unlinked", TargetType: "user", TargetID: who.UserID, Details: details,
	})
}

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
)

// AuthProvider is a way in, as its person sees it.
type AuthProvider struct {
	_ struct{} `json:"-" name:"AuthProvider"`

	ID       string     `json:"id" required:"true" doc:"otp for the mailed code, otherwise the provider."`
	Linked   bool       `json:"linked" required:"true" doc:"Whether this person can sign in so."`
	Subject  string     `json:"sub,omitzero" doc:"Who that is at the provider."`
	Email    string     `json:"email,omitzero"`
	LinkedAt *time.Time `json:"linked_at,omitzero"`
}

// AuthProviders answers GET /me/auth-providers.
type AuthProviders struct {
	_ struct{} `json:"-" name:"AuthProviders"`

	Items     []AuthProvider `json:"items" required:"true"`
	Providers []AuthProvider `json:"providers" required:"true" deprecated:"true" doc:"The items once more, under their older name."`
}

func (s *Service) authProviders(ctx context.Context, who authz.Caller, _ *nothing) (AuthProviders, error) {
	m, err := s.Members.GetMember(ctx, who.TenantID, who.UserID)
	if err != nil {
		return AuthProviders{}, missing(err)
	}
	email := ""
	var links []Link
	if m.Verified {
		email = m.Email
		if links, err = s.Store.ListLinks(ctx, email); err != nil {
			return AuthProviders{}, err
		}
	}
	items := []AuthProvider{{ID: OTP, Linked: s.mailed(email), Email: email}}
	for _, p := range s.Providers {
		if !slices.ContainsFunc(links, func(l Link) bool { return l.Provider == p.ID }) {
			items = append(items, AuthProvider{ID: p.ID})
		}
	}
	for _, l := range links {
		items = append(items, AuthProvider{ID: l.Provider, Linked: true, Subject: l.Subject, Email: l.ProviderEmail, LinkedAt: &l.LinkedAt})
	}
	return AuthProviders{Items: items, Providers: items}, nil
}

// mailed says whether a code can be mailed there.
func (s *Service) mailed(email string) bool { return email != "" && s.Outbox.Configured() }

type unlinkIn struct {
	Provider string `path:"provider"`
}

// Unlinked answers DELETE /me/auth-providers/{provider}.
type Unlinked struct {
	_ struct{} `json:"-" name:"Unlinked"`

	OK               bool   `json:"ok" required:"true"`
	Provider         string `json:"provider" required:"true"`
	RemainingFactors int    `json:"remaining_factors" required:"true" doc:"Ways of signing in that are left."`
	AlreadyUnlinked  bool   `json:"already_unlinked,omitzero"`
}

// unlink takes a way in away, but never the last one.
func (s *Service) unlink(ctx context.Context, who authz.Caller, in *unlinkIn) (out Unlinked, err error) {
	if err := ownHands(who); err != nil {
		return out, err
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		m, err := s.Store.GetMembershipTx(tx, who.TenantID, who.UserID)
		if err != nil {
			return missing(err)
		}
		var links []Link
		email := ""
		if m.Member.Verified {
			email = m.Member.Email
			if links, err = s.Store.LockLinksTx(tx, email); err != nil {
				return err
			}
		}
		out = Unlinked{OK: true, Provider: in.Provider}
		if s.mailed(email) {
			out.RemainingFactors++
		}
		here := false
		for _, l := range links {
			_, notConfigured := s.provider(l.Provider)
			switch {
			case l.Provider == in.Provider:
				here = true
			case notConfigured == nil:
				out.RemainingFactors++
			}
		}
		if !here {
			if _, err := s.provider(in.Provider); err != nil {
				return fault.New(fault.NotFound, "", "There is no sign-in provider of that name.")
			}
			out.AlreadyUnlinked = true
			return txn.Answer(tx, out)
		}
		if out.RemainingFactors == 0 {
			return fault.New(fault.Conflict, "", "This is the only way in which you can sign in; link another one first.")
		}
		if err := s.Store.DeleteLinkTx(tx, email, in.Provider); err != nil {
			return err
		}
		details, err := json.Marshal(map[string]any{"provider": in.Provider}, json.Deterministic(true))
		if err != nil {
			return err
		}
		err = s.record(tx, who, audit.Entry{Action: "auth.provider_unlinked", TargetType: "user", TargetID: who.UserID, Details: details})
		if err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
	if err != nil {
		return Unlinked{}, err
	}
	return out, nil
}

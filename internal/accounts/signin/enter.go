package signin

import (
	"errors"
	"net/mail"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// arrival is somebody who has shown who they are.
type arrival struct {
	who     authz.Caller // of the request: address and id
	email   string
	name    string // "" where it is not known
	method  string // as identity.Device.Method
	label   string
	terms   bool // accepted
	invited bool // an invite waits for them
	linked  bool // known by a link from earlier; otherwise they have shown just now that the email is theirs
}

// entered is what an arrival gets.
type entered struct {
	member  identity.Member
	tenant  identity.Tenant
	session identity.Session
	raw     identity.RawSession
	caller  authz.Caller
}

// SignedIn answers every way of signing in. The session itself is in the cookie
// svc_session.
type SignedIn struct {
	_ struct{} `json:"-" name:"SignedIn"`

	OK          bool          `json:"ok" required:"true"`
	User        SignedUser    `json:"user" required:"true"`
	Tenant      SignedTenant  `json:"tenant" required:"true"`
	Session     SignedSession `json:"session" required:"true"`
	MFARequired bool          `json:"mfa_required" required:"true" doc:"The session counts for nothing until POST /api/v1/auth/mfa/verify."`
}

// SignedUser is who signed in.
type SignedUser struct {
	_ struct{} `json:"-" name:"SignedUser"`

	UserID string     `json:"user_id"`
	Email  string     `json:"email"`
	Name   string     `json:"name"`
	Role   authz.Role `json:"role"`
}

// SignedTenant is where to.
type SignedTenant struct {
	_ struct{} `json:"-" name:"SignedTenant"`

	TenantID string `json:"tenant_id"`
	Name     string `json:"name"`
	Slug     string `json:"slug"`
	Plan     string `json:"plan"`
}

// SignedSession is the browser session.
type SignedSession struct {
	_ struct{} `json:"-" name:"SignedSession"`

	SessionID string    `json:"session_id"`
	ExpiresAt time.Time `json:"expires_at" doc:"Unless it is used before, which moves it."`
}

func (e entered) answer() SignedIn {
	return SignedIn{
		OK:          true,
		User:        SignedUser{UserID: e.member.UserID, Email: e.member.Email, Name: e.member.Name, Role: e.member.Role},
		Tenant:      SignedTenant{TenantID: e.tenant.TenantID, Name: e.tenant.Name, Slug: e.tenant.Slug, Plan: e.tenant.Plan},
		Session:     SignedSession{SessionID: e.session.SessionID, ExpiresAt: e.session.ExpiresAt()},
		MFARequired: e.session.NeedsFactor,
	}
}

func (e entered) reply() (*route.Reply, error) {
	text, err := json.Marshal(e.answer())
	return &route.Reply{JSON: text, Cookie: identity.SessionCookie(e.raw)}, err
}

// enter opens a session for a person in the tenant that they were in last, or
// in a new one of their own. Errors: 403 where there is none for them;
// TERMS_NOT_ACCEPTED.
func (s *Service) enter(tx txn.Tx, a arrival) (entered, error) {
	m, err := s.place(tx, a)
	if err != nil {
		return entered{}, err
	}
	return s.open(tx, a, m)
}

// place finds where an arrival belongs.
func (s *Service) place(tx txn.Tx, a arrival) (Membership, error) {
	if !a.linked && s.Prove != nil {
		if err := s.Prove(tx, a.email); err != nil {
			return Membership{}, err
		}
	}
	all, err := s.verified(tx, a.email)
	if err != nil {
		return Membership{}, err
	}
	var locked error
	for _, m := range all {
		why := lockedOut(m)
		if why == nil {
			return m, nil
		}
		if locked == nil {
			locked = why // of the one that they would be in
		}
	}
	if locked != nil {
		return Membership{}, locked
	}
	return s.signUp(tx, a)
}

// lockedOut refuses a suspended member, and every member of a suspended tenant.
func lockedOut(m Membership) error {
	switch {
	case m.Tenant.Status != identity.Active:
		return fault.New(fault.Forbidden, "TENANT_SUSPENDED", "This company is suspended; its operator can lift that.")
	case m.Member.Status != identity.Active:
		return fault.New(fault.Forbidden, "MEMBER_SUSPENDED", "You are suspended in this company; an admin of it can lift that.")
	}
	return nil
}

// signUp makes a tenant for somebody who is in none.
func (s *Service) signUp(tx txn.Tx, a arrival) (Membership, error) {
	switch {
	case !s.Signup && a.method == OTP:
		return Membership{}, wrongCode() // such a code was never sent
	case a.invited:
		return Membership{}, fault.New(fault.Forbidden, "", "An invite waits for you: accept it by the link in its letter, and sign in again.")
	case !s.Signup:
		return Membership{}, fault.New(fault.Forbidden, "", "Nobody with this address is a member of a company here, and signing up is switched off; ask an admin of yours for an invite.")
	case !a.terms:
		return Membership{}, noTerms()
	}
	name := a.name
	if name == "" {
		name, _, _ = strings.Cut(a.email, "@")
	}
	t, m, err := s.Found(tx, name, a.email)
	if err != nil {
		return Membership{}, err
	}
	details, err := json.Marshal(map[string]any{"name": t.Name, "slug": t.Slug, "plan": t.Plan}, json.Deterministic(true))
	if err != nil {
		return Membership{}, err
	}
	who := authz.Caller{TenantID: t.TenantID, UserID: m.UserID, Role: m.Role, Address: a.who.Address, RequestID: a.who.RequestID}
	return Membership{Member: m, Tenant: t}, s.record(tx, who, audit.Entry{Action: "tenant.created", TargetType: "tenant", TargetID: t.TenantID, Details: details})
}

func noTerms() error {
	return fault.New(fault.Invalid, "TERMS_NOT_ACCEPTED", "To sign up, accept the terms and the privacy notice: send accept_terms and accept_privacy as true.")
}

// open opens the session.
func (s *Service) open(tx txn.Tx, a arrival, m Membership) (e entered, err error) {
	owes, err := s.Enrolled(tx, m.Member.TenantID, m.Member.UserID)
	if err != nil {
		return e, err
	}
	e.member, e.tenant = m.Member, m.Tenant
	e.session, e.raw, err = s.Sessions.OpenSession(tx, m.Member, identity.Device{
		Label: a.label, Address: a.who.Address, Method: a.method, NeedsFactor: owes,
	})
	if err != nil {
		return e, err
	}
	if err := s.Store.UpdateLastLoginTx(tx, m.Member.TenantID, m.Member.UserID, s.Clock.Now()); err != nil {
		return e, err
	}
	e.caller = authz.Caller{
		TenantID: m.Member.TenantID, UserID: m.Member.UserID, SessionID: e.session.SessionID, Role: m.Member.Role, Method: "cookie",
		Address: a.who.Address, RequestID: a.who.RequestID,
	}
	details, err := json.Marshal(map[string]any{"method": a.method, "mfa_required": owes}, json.Deterministic(true))
	if err != nil {
		return e, err
	}
	return e, s.record(tx, e.caller, audit.Entry{
		Action: "auth.signed_in", TargetType: "session", TargetID: e.session.SessionID, Details: details,
	})
}

// emailIn reads an address of a body as it is stored.
func emailIn(text string) (string, error) {
	email := strings.ToLower(strings.TrimSpace(text))
	if err := checkEmail(email); err != nil {
		return "", fault.BadFields(fault.Field{Field: "email", Message: "is not an email address"})
	}
	return email, nil
}

func checkEmail(email string) error {
	at, err := mail.ParseAddress(email)
	switch {
	case err != nil:
		return err
	case at.Address != email || len(email) > 200:
		return errors.New("no plain address")
	}
	return nil
}

package signin

import (
	"errors"
	"net/mail"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// logins opens sessions for people who have proved who they are, whichever way.
type logins struct {
	store        Store
	sessions     Sessions
	factors      *factors
	clock        clock.Clock
	audit        audit.Recorder // nil: not recorded
	signupOn     func() bool
	createTenant func(tx txn.Tx, name, email string) (identity.Tenant, identity.Member, error)
	prove        func(tx txn.Tx, email string) error // nil: not called
}

// authenticated is a person who has proved who they are.
type authenticated struct {
	who     authz.Caller // of the request: address and ID
	email   string
	name    string // empty if unknown
	method  string // as identity.Device.Method
	label   string
	terms   bool   // accepted
	key     bool   // the session gets a key, for a client that keeps no cookies
	invited bool   // there is a pending invite for them
	ofKey   string // ID of the key with which the session is opened; "": none
	linked  bool   // known by an existing link; otherwise they have just proved that the email is theirs
}

// login is the result of signing in.
type login struct {
	member  identity.Member
	tenant  identity.Tenant
	session identity.Session
	raw     identity.RawSession
	key     identity.RawKey // "": none was created
	caller  authz.Caller
}

// SignedIn answers every way of signing in. The session's token is in the cookie
// svc_session, and nowhere else.
type SignedIn struct {
	_ struct{} `json:"-" name:"SignedIn"`

	OK          bool          `json:"ok" required:"true"`
	APIKey      string        `json:"api_key,omitzero" doc:"A bearer that acts as the session and ends with it, for programs; shown once. Absent with cookie_only."`
	Email       string        `json:"email" required:"true"`
	User        SignedUser    `json:"user" required:"true"`
	Tenant      SignedTenant  `json:"tenant" required:"true"`
	Session     SignedSession `json:"session" required:"true"`
	MFARequired bool          `json:"mfa_required" required:"true" doc:"If true, the session is not usable until POST /api/v1/auth/mfa/verify succeeds."`
}

// SignedUser is the member who signed in.
type SignedUser struct {
	_ struct{} `json:"-" name:"SignedUser"`

	UserID string     `json:"user_id"`
	Email  string     `json:"email"`
	Name   string     `json:"name"`
	Role   authz.Role `json:"role"`
}

// SignedTenant is the tenant they signed in to.
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
	ExpiresAt time.Time `json:"expires_at" doc:"Each use of the session moves it."`
}

func (e login) answer() SignedIn {
	return SignedIn{
		OK:          true,
		APIKey:      string(e.key),
		Email:       e.member.Email,
		User:        SignedUser{UserID: e.member.UserID, Email: e.member.Email, Name: e.member.Name, Role: e.member.Role},
		Tenant:      SignedTenant{TenantID: e.tenant.TenantID, Name: e.tenant.Name, Slug: e.tenant.Slug, Plan: e.tenant.Plan},
		Session:     SignedSession{SessionID: e.session.SessionID, ExpiresAt: e.session.ExpiresAt()},
		MFARequired: e.session.NeedsFactor,
	}
}

func (e login) reply() (*route.Reply, error) {
	text, err := json.Marshal(e.answer())
	return &route.Reply{JSON: text, Cookie: identity.SessionCookie(e.raw)}, err
}

// signIn opens a session for a person in the tenant they used last, or in a new
// tenant of their own. Errors: 403 where there is neither; TERMS_NOT_ACCEPTED.
func (l *logins) signIn(tx txn.Tx, a authenticated) (login, error) {
	m, err := l.membershipOf(tx, a)
	if err != nil {
		return login{}, err
	}
	return l.openSession(tx, a, m)
}

// membershipOf returns the membership to which a person signs in. It creates a
// tenant for a person who has none.
func (l *logins) membershipOf(tx txn.Tx, a authenticated) (Membership, error) {
	if !a.linked && l.prove != nil {
		if err := l.prove(tx, a.email); err != nil {
			return Membership{}, err
		}
	}
	all, err := verifiedMemberships(tx, l.store, a.email)
	if err != nil {
		return Membership{}, err
	}
	var first error
	for _, m := range all {
		err := suspended(m)
		if err == nil {
			return m, nil
		}
		if first == nil {
			first = err // of the membership that would be used
		}
	}
	if first != nil {
		return Membership{}, first
	}
	return l.signUp(tx, a)
}

// suspended returns an error for a suspended member, and for every member of a
// suspended tenant.
func suspended(m Membership) error {
	switch {
	case m.Tenant.Status != identity.Active:
		return fault.New(fault.Forbidden, "TENANT_SUSPENDED", "This company is suspended; its operator can reactivate it.")
	case m.Member.Status != identity.Active:
		return fault.New(fault.Forbidden, "MEMBER_SUSPENDED", "You are suspended in this company; one of its admins can unsuspend you.")
	}
	return nil
}

// signUp creates a tenant for a person who has no membership.
func (l *logins) signUp(tx txn.Tx, a authenticated) (Membership, error) {
	switch {
	case !l.signupOn() && a.method == OTP:
		return Membership{}, wrongCode() // such a code was never sent
	case a.invited:
		return Membership{}, fault.New(fault.Forbidden, "",
			"You have a pending invite: accept it by the link in its email, then sign in again.")
	case !l.signupOn():
		return Membership{}, fault.New(fault.Forbidden, "",
			"No member of a company here has this address, and signing up is disabled; ask an admin of your company for an invite.")
	case !a.terms:
		return Membership{}, noTerms()
	}
	name := a.name
	if name == "" {
		name, _, _ = strings.Cut(a.email, "@")
	}
	t, m, err := l.createTenant(tx, name, a.email)
	if err != nil {
		return Membership{}, err
	}
	details, err := json.Marshal(map[string]any{"name": t.Name, "slug": t.Slug, "plan": t.Plan}, json.Deterministic(true))
	if err != nil {
		return Membership{}, err
	}
	who := authz.Caller{TenantID: t.TenantID, UserID: m.UserID, Role: m.Role, Address: a.who.Address, RequestID: a.who.RequestID}
	return Membership{Member: m, Tenant: t}, audit.Write(l.audit, tx, who, audit.Entry{
		Action: "tenant.created", TargetType: "tenant", TargetID: t.TenantID, Details: details,
	})
}

func noTerms() error {
	return fault.New(fault.Invalid, "TERMS_NOT_ACCEPTED",
		"To sign up, accept the terms and the privacy policy: send accept_terms and accept_privacy as true.")
}

// openSession opens a session of a membership.
func (l *logins) openSession(tx txn.Tx, a authenticated, m Membership) (e login, err error) {
	needsFactor := false
	if a.ofKey == "" { // whoever made a key decided what it may do without a second factor
		if needsFactor, err = l.factors.enrolled(tx, m.Member.TenantID, m.Member.UserID); err != nil {
			return e, err
		}
	}
	e.member, e.tenant = m.Member, m.Tenant
	e.session, e.raw, err = l.sessions.Open(tx, m.Member, identity.Device{
		Label: a.label, Address: a.who.Address, Method: a.method, NeedsFactor: needsFactor, KeyID: a.ofKey,
	})
	if err != nil {
		return e, err
	}
	if a.key {
		if e.key, err = l.sessions.CreateKey(tx, e.session.SessionID); err != nil {
			return e, err
		}
	}
	if err := l.store.UpdateLastLoginTx(tx, m.Member.TenantID, m.Member.UserID, l.clock.Now()); err != nil {
		return e, err
	}
	e.caller = authz.Caller{
		TenantID: m.Member.TenantID, UserID: m.Member.UserID, SessionID: e.session.SessionID, Role: m.Member.Role, Method: "cookie",
		Address: a.who.Address, RequestID: a.who.RequestID,
	}
	by := e.caller
	if a.ofKey != "" {
		by = a.who
	}
	details, err := json.Marshal(map[string]any{"method": a.method, "mfa_required": needsFactor}, json.Deterministic(true))
	if err != nil {
		return e, err
	}
	return e, audit.Write(l.audit, tx, by, audit.Entry{
		Action: "auth.signed_in", TargetType: "session", TargetID: e.session.SessionID, Details: details,
	})
}

// emailIn returns the address in a body in the form in which it is stored.
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
		return errors.New("not a plain address")
	}
	return nil
}

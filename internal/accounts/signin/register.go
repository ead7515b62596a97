package signin

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
)

const (
	registerLife   = 24 * time.Hour
	registerCookie = "svc_register"
	// VerifyPath is the path of the operation that completes a registration.
	VerifyPath = "/api/v1/verify-email"
	// ConfirmPath is the path of the page that does so, to which the link in the email
	// leads. Programs send its token to VerifyPath.
	ConfirmPath = "/verify-email"
)

// registrations signs people up with a link that is sent by email.
type registrations struct {
	writer   txn.Writer
	store    Store
	outbox   mail.Outbox
	clock    clock.Clock
	public   func() string
	signupOn func() bool
	tokens   tokens
	logins   *logins
}

// registration is pending until the link in its email is opened.
type registration struct {
	Email   string `json:"email"`
	Name    string `json:"name"`
	Browser []byte `json:"browser"` // hash of the cookie of the browser that registered
}

type registerIn struct {
	Body struct {
		Email         string `json:"email" required:"true" format:"email" maxLength:"200" doc:"Address that the code is sent to, and with which you sign in."`
		Name          string `json:"name,omitzero" maxLength:"200" doc:"Name of the new company. Default: the part of the address before the @."`
		AcceptTerms   bool   `json:"accept_terms" required:"true" doc:"Must be true."`
		AcceptPrivacy bool   `json:"accept_privacy" required:"true" doc:"Must be true."`
	}
}

// Registered answers POST /register, always with the same text.
type Registered struct {
	_ struct{} `json:"-" name:"Registered"`

	Message string `json:"message" required:"true"`
}

// register emails a link to a person who wants to sign up. An address that has
// an account gets an email that says so. The response is the same, because it
// would reveal to others who has an account.
func (r registrations) register(ctx context.Context, _ authz.Caller, in *registerIn) (*route.Reply, error) {
	switch {
	case !r.signupOn():
		return nil, noSignup()
	case !r.outbox.Configured():
		return nil, noMail()
	}
	email, err := emailIn(in.Body.Email)
	if err != nil {
		return nil, err
	}
	if !in.Body.AcceptTerms || !in.Body.AcceptPrivacy {
		return nil, noTerms()
	}
	if in.Body.Name != "" {
		if err := identity.CheckName(in.Body.Name); err != nil {
			return nil, err
		}
	}
	token, browser := newToken(), newToken()
	pending := registration{Email: email, Name: in.Body.Name, Browser: hashToken(browser)}
	err = r.writer.Write(ctx, func(tx txn.Tx) error {
		if err := r.store.DeleteExpiredTx(tx, r.clock.Now(), 50); err != nil {
			return err
		}
		if err := r.tokens.put(tx, registerToken, token, pending, registerLife); err != nil {
			return err
		}
		members, err := r.store.ListMembershipsTx(tx, email)
		if err != nil {
			return err
		}
		return r.outbox.Send(tx, "", r.message(email, token, len(members) > 0))
	})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(Registered{Message: "We sent an email to this address; its link completes the registration within 24 hours."})
	return &route.Reply{JSON: text, Cookie: &route.Cookie{Name: registerCookie, Value: browser, Lasts: registerLife}}, err
}

func noSignup() error {
	return fault.New(fault.Unsupported, "",
		"Signing up is disabled on this deployment; its operator can set AGENTD_SIGNUP=on, or signup_enabled in the settings auth.")
}

func (r registrations) message(email, token string, known bool) mail.Message {
	m := mail.Message{To: email, Until: r.clock.Now().Add(registerLife)}
	if known {
		m.Subject = "You already have an account"
		m.Text = "Someone, perhaps you, tried to register this address at " + r.public() + ".\n" +
			"It already has an account there. Sign in with it:\n\n" + r.public() + SignInPath + "\n\n" +
			"If it was not you, you can ignore this email.\n"
		return m
	}
	m.Subject = "Confirm your address"
	m.Text = "To complete your registration at " + r.public() +
		", open this link within 24 hours, in the browser that you registered with:\n\n" +
		r.public() + ConfirmPath + "?token=" + token + "\n\n" +
		"If you did not register, you can ignore this email.\n"
	return m
}

type verifyEmailIn struct {
	Token      string `query:"token" required:"true" doc:"The token in the link."`
	CookieOnly bool   `query:"cookie_only" doc:"true, from a page: the answer has no api_key."`
	Browser    string `cookie:"svc_register"`
}

// EmailVerified answers GET /verify-email.
type EmailVerified struct {
	_ struct{} `json:"-" name:"EmailVerified"`

	OK          bool           `json:"ok" required:"true"`
	APIKey      string         `json:"api_key,omitzero" doc:"A bearer that acts as the session and ends with it, for programs; shown once. Absent without a session, and with cookie_only."`
	Email       string         `json:"email" required:"true"`
	TenantID    string         `json:"tenant_id" required:"true"`
	Message     string         `json:"message" required:"true"`
	User        SignedUser     `json:"user" required:"true"`
	Tenant      SignedTenant   `json:"tenant" required:"true"`
	Session     *SignedSession `json:"session" doc:"Null if another browser registered; sign in with a code then."`
	MFARequired bool           `json:"mfa_required" required:"true"`
}

// verifyEmail completes a registration. It signs in only the browser that
// registered: a person who opens a stranger's link, or whose mail program opens
// it, must not be signed in to the stranger's account. Opening the link again in
// another browser has no further effect.
func (r registrations) verifyEmail(ctx context.Context, who authz.Caller, in *verifyEmailIn) (*route.Reply, error) {
	var result login
	var sameBrowser bool
	err := r.writer.Write(ctx, func(tx txn.Tx) error {
		var pending registration
		if err := r.tokens.peek(tx, registerToken, in.Token, &pending); err != nil {
			return err
		}
		sameBrowser = subtle.ConstantTimeCompare(hashToken(in.Browser), pending.Browser) == 1
		a := authenticated{
			who: who, email: pending.Email, name: pending.Name, method: OTP, label: "registration", terms: true, key: !in.CookieOnly,
		}
		m, err := r.logins.membershipOf(tx, a)
		if err != nil {
			return err
		}
		result = login{member: m.Member, tenant: m.Tenant}
		if !sameBrowser {
			return nil
		}
		// The link opens only one session, because others may read it later.
		if err := r.tokens.take(tx, registerToken, in.Token, &pending); err != nil {
			return err
		}
		result, err = r.logins.openSession(tx, a, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	a := result.answer()
	out := EmailVerified{
		OK: true, APIKey: a.APIKey, Email: a.Email, TenantID: a.Tenant.TenantID,
		Message: "The address is confirmed; request a sign-in code to sign in.",
		User:    a.User, Tenant: a.Tenant, MFARequired: a.MFARequired,
	}
	reply := &route.Reply{}
	if sameBrowser {
		out.Session, out.Message = &a.Session, "The address is confirmed, and this browser is signed in."
		reply.Cookie = identity.SessionCookie(result.raw)
	}
	reply.JSON, err = json.Marshal(out)
	return reply, err
}

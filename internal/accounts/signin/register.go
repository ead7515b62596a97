package signin

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
)

const (
	registerLife   = 24 * time.Hour
	registerCookie = "svc_register"
	// VerifyPath is where the link of a letter leads.
	VerifyPath = "/api/v1/verify-email"
)

// registration waits for the link in its letter.
type registration struct {
	Email   string `json:"email"`
	Name    string `json:"name"`
	Browser []byte `json:"browser"` // hash of the cookie of the browser that registered
}

type registerIn struct {
	Body struct {
		Email         string `json:"email" required:"true" format:"email" maxLength:"200"`
		Name          string `json:"name,omitzero" maxLength:"200" doc:"Of the company that is made; the part of the address before the @ otherwise."`
		AcceptTerms   bool   `json:"accept_terms" required:"true" doc:"Must be true."`
		AcceptPrivacy bool   `json:"accept_privacy" required:"true" doc:"Must be true."`
	}
}

// Registered answers POST /register: always alike.
type Registered struct {
	_ struct{} `json:"-" name:"Registered"`

	Message string `json:"message" required:"true"`
}

// register sends a letter with a link to somebody who wants to sign up. An
// address that has an account gets a letter that says so: the answer is the
// same, for it would tell strangers who has one.
func (s *Service) register(ctx context.Context, _ authz.Caller, in *registerIn) (*route.Reply, error) {
	switch {
	case !s.Signup:
		return nil, noSignup()
	case !s.Outbox.Configured():
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
	ticket, browser := newTicket(), newTicket()
	left := registration{Email: email, Name: in.Body.Name, Browser: hashTicket(browser)}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Store.DeleteExpiredTx(tx, s.Clock.Now(), 50); err != nil {
			return err
		}
		if err := s.leave(tx, registerTicket, ticket, left, registerLife); err != nil {
			return err
		}
		members, err := s.Store.ListMembershipsTx(tx, email)
		if err != nil {
			return err
		}
		return s.Outbox.Send(tx, "", s.welcome(email, ticket, len(members) > 0))
	})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(Registered{Message: "A letter is on its way to this address; its link finishes the registration within 24 hours."})
	return &route.Reply{JSON: text, Cookie: &route.Cookie{Name: registerCookie, Value: browser, Lasts: registerLife}}, err
}

func noSignup() error {
	return fault.New(fault.Unsupported, "", "Signing up is switched off on this deployment; its operator can set AGENTD_SIGNUP=on.")
}

func (s *Service) welcome(email, ticket string, known bool) mail.Message {
	m := mail.Message{To: email, Until: s.Clock.Now().Add(registerLife)}
	if known {
		m.Subject = "You have an account already"
		m.Text = "Somebody, perhaps you, wanted to register this address at " + s.Public() + ".\n" +
			"It has an account there already: sign in with a code that is mailed to you.\n" +
			"If it was not you, there is nothing to do.\n"
		return m
	}
	m.Subject = "Confirm your address"
	m.Text = "To finish your registration at " + s.Public() + ", open this link within 24 hours, in the browser that you registered with:\n\n" +
		s.Public() + VerifyPath + "?token=" + ticket + "\n\n" +
		"If you did not register, there is nothing to do.\n"
	return m
}

type verifyEmailIn struct {
	Token   string `query:"token" required:"true" doc:"As in the letter."`
	Browser string `cookie:"svc_register"`
}

// EmailVerified answers GET /verify-email.
type EmailVerified struct {
	_ struct{} `json:"-" name:"EmailVerified"`

	OK          bool           `json:"ok" required:"true"`
	TenantID    string         `json:"tenant_id" required:"true"`
	Message     string         `json:"message" required:"true"`
	User        SignedUser     `json:"user" required:"true"`
	Tenant      SignedTenant   `json:"tenant" required:"true"`
	Session     *SignedSession `json:"session" doc:"Null where another browser registered: sign in there with a code."`
	MFARequired bool           `json:"mfa_required" required:"true"`
}

// verifyEmail makes what was registered. It signs nobody in but the browser that
// registered: whoever opens a link that a stranger sent them, or whose mail
// program opens it for them, must not find themselves in the stranger's account.
// Opened again in another browser the link does nothing more.
func (s *Service) verifyEmail(ctx context.Context, who authz.Caller, in *verifyEmailIn) (*route.Reply, error) {
	var got entered
	var here bool
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		var left registration
		if err := s.peek(tx, registerTicket, in.Token, &left); err != nil {
			return err
		}
		here = subtle.ConstantTimeCompare(hashTicket(in.Browser), left.Browser) == 1
		a := arrival{who: who, email: left.Email, name: left.Name, method: OTP, label: "registration", terms: true}
		m, err := s.place(tx, a)
		if err != nil {
			return err
		}
		got = entered{member: m.Member, tenant: m.Tenant}
		if !here {
			return nil
		}
		// One session only, for the link may be read by others later.
		if err := s.take(tx, registerTicket, in.Token, &left); err != nil {
			return err
		}
		got, err = s.open(tx, a, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	a := got.answer()
	out := EmailVerified{
		OK: true, TenantID: a.Tenant.TenantID, Message: "The address is confirmed; sign in with a code that is mailed to it.",
		User: a.User, Tenant: a.Tenant, MFARequired: a.MFARequired,
	}
	reply := &route.Reply{}
	if here {
		out.Session, out.Message = &a.Session, "The address is confirmed, and this browser is signed in."
		reply.Cookie = identity.SessionCookie(got.raw)
	}
	reply.JSON, err = json.Marshal(out)
	return reply, err
}

package signin

import (
	"context"
	"errors"
	"reflect"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// LinkPath is the path of the page on which a person uses a one-time link.
const LinkPath = SignInPath + "/link"

// LinkLife is how long a one-time link can be used.
const LinkLife = 15 * time.Minute

// OneTimeLinks makes links with which one member signs in once, without an email: for
// the owner of a fresh server, and for whoever has lost every other way.
type OneTimeLinks struct {
	Store Store
	Box   *secret.Box
	Clock clock.Clock
	Audit audit.Recorder // nil: not recorded
}

// linkFor is the member whom a link signs in.
type linkFor struct {
	TenantID string `json:"tenant_id"`
	UserID   string `json:"user_id"`
}

// Create returns the token of a new link for a member, which is shown once. Nothing is
// stored of it but a hash. who is recorded as its maker.
func (l OneTimeLinks) Create(tx txn.Tx, who authz.Caller, m identity.Member) (token string, expires time.Time, err error) {
	token = newToken()
	t := tokens{store: l.Store, box: l.Box, clock: l.Clock}
	if err := t.put(tx, linkToken, token, linkFor{m.TenantID, m.UserID}, LinkLife); err != nil {
		return "", time.Time{}, err
	}
	who.TenantID = m.TenantID
	return token, l.Clock.Now().Add(LinkLife), audit.Write(l.Audit, tx, who, audit.Entry{
		Action: "auth.link_created", TargetType: "user", TargetID: m.UserID,
	})
}

// NewLink returns the token of a link for a member, as the start of a server prints it.
func (s *Service) NewLink(ctx context.Context, tenantID, userID string) (token string, err error) {
	t := s.onetime.tokens
	links := OneTimeLinks{Store: t.store, Box: t.box, Clock: t.clock, Audit: s.onetime.logins.audit}
	err = s.onetime.writer.Write(ctx, func(tx txn.Tx) (err error) {
		who := authz.Caller{UserID: userID, Method: audit.CommandLine}
		token, _, err = links.Create(tx, who, identity.Member{TenantID: tenantID, UserID: userID})
		return err
	})
	return token, err
}

// OpenLink is POST /auth/link for a page. needsFactor reports whether the session still
// needs a second factor.
func (s *Service) OpenLink(
	ctx context.Context, who authz.Caller, token, label string,
) (cookie *route.Cookie, needsFactor bool, err error) {
	result, err := s.onetime.enter(ctx, who, token, label)
	if err != nil {
		return nil, false, err
	}
	return identity.SessionCookie(result.raw), result.session.NeedsFactor, nil
}

// onetime signs people in with one-time links.
type onetime struct {
	writer txn.Writer
	tokens tokens
	logins *logins
}

func (o onetime) routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/link", ID: "signInWithLink", Tag: tag, Public: true, SignIn: true, Limits: guessLimits,
			AnswerOf: signedIn,
			Summary:  "Sign in with a one-time link",
			Doc: "The first start of a server prints such a link for its owner, and agentd admin sign-in-link makes another one for any member. " +
				"A link can be used once, within 15 minutes. Sets the cookie svc_session, and returns no key.",
			Errors: []int{403},
		}, o.signIn),
	}
}

type linkIn struct {
	Body struct {
		Token       string `json:"token" required:"true" minLength:"20" maxLength:"100" doc:"What follows token= in the link."`
		DeviceLabel string `json:"device_label,omitzero" maxLength:"80" doc:"A name for the list of signed-in devices."`
	}
}

func (o onetime) signIn(ctx context.Context, who authz.Caller, in *linkIn) (*route.Reply, error) {
	result, err := o.enter(ctx, who, in.Body.Token, in.Body.DeviceLabel)
	if err != nil {
		return nil, err
	}
	return result.reply()
}

// enter uses a link up and signs its member in. A link of a suspended member stays.
func (o onetime) enter(ctx context.Context, who authz.Caller, token, label string) (result login, err error) {
	err = o.writer.Write(ctx, func(tx txn.Tx) error {
		var to linkFor
		if err := o.tokens.take(tx, linkToken, token, &to); err != nil {
			return err
		}
		result, err = o.logins.signInAs(tx, to, authenticated{who: who, method: "link", label: label})
		return err
	})
	return result, err
}

// signInAs opens a session of a member who has been named by a credential.
func (l *logins) signInAs(tx txn.Tx, to linkFor, a authenticated) (login, error) {
	m, err := l.store.GetMembershipTx(tx, to.TenantID, to.UserID)
	if errors.Is(err, ErrNotFound) {
		return login{}, fault.New(fault.Forbidden, "", "The member to whom this belongs was removed from the company.")
	}
	if err != nil {
		return login{}, err
	}
	if err := suspended(m); err != nil {
		return login{}, err
	}
	return l.openSession(tx, a, m)
}

// byKey turns a key into a browser session.
type byKey struct {
	writer txn.Writer
	store  Store
	logins *logins
}

func (b byKey) routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/session", ID: "openSession", Tag: tag, Optional: true, AnswerOf: signedIn,
			Summary: "Open a browser session with a key",
			Doc: "For a page that a person pasted a key into: send the key in the header Authorization. Sets the cookie svc_session. The " +
				"session acts for the key's member with the scopes of the key, and ends with the key; signing out leaves the key as it is. " +
				"A second factor is not asked for, as a key needs none. To an answer that repeats an earlier one, by its Idempotency-Key, " +
				"no cookie belongs.",
			Errors: []int{409},
		}, b.open),
	}
}

type openIn struct {
	Body struct {
		DeviceLabel string `json:"device_label,omitzero" maxLength:"80" doc:"A name for the list of signed-in devices."`
	}
}

func (b byKey) open(ctx context.Context, who authz.Caller, in *openIn) (reply *route.Reply, err error) {
	if who.KeyID == "" {
		return nil, fault.New(fault.Conflict, "ALREADY_SIGNED_IN",
			"This request is made in a browser session already, or with the key of one; "+
				"to open one with an API key, send that in the header Authorization.")
	}
	err = b.writer.Write(ctx, func(tx txn.Tx) error {
		result, err := b.logins.signInAs(tx, linkFor{who.TenantID, who.UserID}, authenticated{
			who: who, method: "key", label: in.Body.DeviceLabel, ofKey: who.KeyID,
		})
		if err != nil {
			return err
		}
		if reply, err = result.reply(); err != nil {
			return err
		}
		return txn.Answer(tx, reply)
	})
	return reply, err
}

// methods shows how people can sign in.
type methods struct {
	outbox    interface{ Configured() bool }
	providers providers
	signupOn  func() bool
}

func (m methods) routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/auth/methods", ID: "listSignInMethods", Tag: tag, Public: true,
			AnswerOf: reflect.TypeFor[MethodList](),
			Summary:  "List the ways of signing in",
			Doc:      "What a page for signing in offers. Needs no credential.",
		}, m.list),
	}
}

// MethodList answers GET /auth/methods.
type MethodList struct {
	_ struct{} `json:"-" name:"SignInMethods"`

	Link      bool            `json:"link" doc:"Whether one-time links work here: POST /auth/link."`
	Key       bool            `json:"key" doc:"Whether an API key opens a session: POST /auth/session."`
	EmailCode bool            `json:"email_code" doc:"Whether codes are sent by email: POST /auth/request-code."`
	Signup    bool            `json:"signup" doc:"Whether people without a company can create one."`
	Terms     bool            `json:"terms" doc:"Whether who signs up accepts terms: send accept_terms and accept_privacy as true then."`
	MFA       bool            `json:"mfa" doc:"Whether members can have a second factor, which signing in then asks for."`
	Providers []OAuthProvider `json:"providers" doc:"Providers with which people sign in: GET /auth/oauth/{provider}/start."`
}

func (m methods) list(context.Context, authz.Caller, *nothing) (MethodList, error) {
	return MethodList{
		Link: true, Key: true, EmailCode: m.outbox.Configured(), Signup: m.signupOn(), Terms: m.signupOn(), MFA: true,
		Providers: m.providers.shown(),
	}, nil
}

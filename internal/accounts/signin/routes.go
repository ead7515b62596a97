package signin

import (
	"reflect"
	"time"

	"agentd/internal/base/route"
)

const tag = "Auth"

// Limits by client address of operations that check a guessable code or send
// email.
var (
	guessLimits    = []route.Limit{{N: 20, Per: time.Minute}}
	codeLimits     = []route.Limit{{N: 20, Per: time.Minute}, {N: 10, Per: 10 * time.Minute}}
	registerLimits = []route.Limit{{N: 5, Per: time.Minute}, {N: 10, Per: time.Hour}}
)

var signedIn = reflect.TypeFor[SignedIn]()

// Routes lists the slice's operations.
func (s *Service) Routes() []route.Route {
	var all []route.Route
	for _, part := range [][]route.Route{
		s.methods.routes(), s.codes.routes(), s.onetime.routes(), s.byKey.routes(), s.registrations.routes(), s.oauth.routes(),
		s.factors.routes(), s.links.routes(),
	} {
		all = append(all, part...)
	}
	return all
}

func (s codes) routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/request-code", ID: "requestOtpCode", Tag: tag, Public: true, Limits: codeLimits,
			AnswerOf: reflect.TypeFor[Requested](),
			Summary:  "Request a sign-in code by email",
			Doc: "The response is the same whether or not the address is known. The code can be used once within ten minutes. " +
				"Sets the cookie svc_signin, which binds the six digits to this browser.",
			Errors: []int{501},
		}, s.requestCode),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/verify-code", ID: "verifyOtpCode", Tag: tag, Public: true, SignIn: true,
			Limits: codeLimits, AnswerOf: signedIn,
			Summary: "Sign in with a code",
			Doc: "Sets the cookie svc_session, and returns a key that acts as that session, unless cookie_only is true. " +
				"A browser has five attempts at the six digits of the " +
				"code that it requested, and all others together have five; the long code of the email counts from anywhere.",
			Errors: []int{403},
		}, s.verifyCode),
	}
}

func (r registrations) routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/register", ID: "register", Tag: tag, Public: true, Limits: registerLimits, Status: 201,
			AnswerOf: reflect.TypeFor[Registered](),
			Summary:  "Sign up with a link by email",
			Doc: "Available where signing up is enabled. The response is the same for an address that has an account, " +
				"which gets an email that says so.",
			Errors: []int{501},
		}, r.register),
		route.Action(route.Row{
			Method: "GET", Path: VerifyPath, ID: "verifyEmail", Tag: tag, Public: true, SignIn: true, Limits: guessLimits,
			AnswerOf: reflect.TypeFor[EmailVerified](),
			Summary:  "Complete a registration",
			Doc:      "Creates the company and its owner. Sets the cookie svc_session only in the browser that registered.",
			Errors:   []int{403},
		}, r.verifyEmail),
	}
}

func (o oauth) routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: oauthPath + "/providers", ID: "listOAuthLoginProviders", Tag: tag, Public: true,
			Summary: "List sign-in providers",
		}, o.list),
		route.Action(route.Row{
			Method: "GET", Path: oauthPath + "/{provider}/start", ID: "startOAuthLogin", Tag: tag, Public: true, Limits: guessLimits, Status: 302,
			Summary: "Start a sign-in with a provider",
			Doc:     "Redirects the browser to the provider. The sign-in must be completed within ten minutes, in the same browser.",
			Errors:  []int{502, 504},
		}, o.start),
		route.Action(route.Row{
			Method: "GET", Path: oauthPath + "/{provider}/callback", ID: "completeOAuthLogin", Tag: tag, Public: true, SignIn: true,
			Limits: guessLimits, Also: []int{302}, AnswerOf: signedIn,
			Summary: "Complete a sign-in with a provider",
			Doc: "The provider redirects the browser here. Sets the cookie svc_session and redirects to return_to, if it was given. " +
				"For an app, the browser gets a code in the URL fragment and no cookie.",
			Errors: []int{403, 422, 502, 504},
		}, o.callback),
		route.Action(route.Row{
			Method: "POST", Path: oauthPath + "/exchange", ID: "exchangeOAuthAppCode", Tag: tag, Public: true, SignIn: true, Limits: guessLimits,
			AnswerOf: signedIn,
			Summary:  "Exchange an app's code for a session",
			Doc:      "Sets the cookie svc_session for the app. The first attempt uses the code up.",
			Errors:   []int{403},
		}, o.exchange),
		route.Action(route.Row{
			Method: "POST", Path: oauthPath + "/google/onetap", ID: "googleOneTapAuth", Tag: tag, Public: true, SignIn: true, Limits: guessLimits,
			AnswerOf: signedIn,
			Summary:  "Sign in with Google One Tap",
			Doc: "Takes the ID token that Google's script hands to a page, whose signature, issuer, audience and expiry are checked. " +
				"Sets the cookie svc_session. Where google is not configured it is 501.",
			Errors: []int{401, 403, 501, 502, 504},
		}, o.oneTap),
	}
}

func (s *factors) routes() []route.Route {
	const mfa = "/api/v1/auth/mfa"
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: mfa + "/status", ID: "getMfaStatus", Tag: tag, HalfOpen: true,
			Summary: "Get the caller's MFA status",
		}, s.status),
		route.Action(route.Row{
			Method: "POST", Path: mfa + "/enrol", ID: "enrolMfa", Tag: tag, Status: 201, Optional: true, Person: true,
			Summary: "Enrol in MFA",
			Doc: "Creates a second factor with time-based codes (RFC 6238). It takes effect when POST /auth/mfa/verify accepts its first code; " +
				"until then you can enrol again. Only this response shows the secret and the recovery codes.",
			Errors: []int{409},
		}, s.enrol),
		route.Action(route.Row{
			Method: "POST", Path: mfa + "/verify", ID: "verifyMfa", Tag: tag, HalfOpen: true, Person: true, Limits: guessLimits,
			Summary: "Verify an MFA code",
			Doc:     "Completes a half-open session, or confirms an enrolment. Each code is accepted once.",
			Errors:  []int{404},
		}, s.verify),
		route.Action(route.Row{
			Method: "POST", Path: mfa + "/recovery", ID: "verifyMfaRecovery", Tag: tag, HalfOpen: true, Person: true, Limits: guessLimits,
			Summary: "Verify a recovery code instead of an MFA code",
			Errors:  []int{404},
		}, s.recover),
		route.Action(route.Row{
			Method: "POST", Path: mfa + "/disable", ID: "disableMfa", Tag: tag, Optional: true, Person: true, Limits: guessLimits,
			Summary: "Disable MFA",
			Doc:     "Needs an MFA code or a recovery code.",
			Errors:  []int{404},
		}, s.disable),
	}
}

func (l links) routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/me/auth-providers", ID: "listAuthProviders", Tag: tag,
			Summary: "List the caller's ways of signing in",
		}, l.list),
		route.Action(route.Row{
			Method: "DELETE", Path: "/api/v1/me/auth-providers/{provider}", ID: "unlinkAuthProvider", Tag: tag, Person: true,
			Summary: "Unlink a provider",
			Doc:     "The last way of signing in cannot be removed.",
			Errors:  []int{409},
		}, l.unlink),
	}
}

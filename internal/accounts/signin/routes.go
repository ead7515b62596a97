package signin

import (
	"reflect"
	"time"

	"agentd/internal/base/route"
)

// Routes lists the slice's operations.
func (s *Service) Routes() []route.Route {
	return append(s.publicRoutes(), s.ownRoutes()...)
}

// often are the limits of what is guessed or sends mail, by client address.
var (
	often    = []route.Limit{{N: 20, Per: time.Minute}}
	seldom   = []route.Limit{{N: 20, Per: time.Minute}, {N: 10, Per: 10 * time.Minute}}
	rarely   = []route.Limit{{N: 5, Per: time.Minute}, {N: 10, Per: time.Hour}}
	signedIn = reflect.TypeFor[SignedIn]()
)

func (s *Service) publicRoutes() []route.Route {
	const tag = "Auth"
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/request-code", ID: "requestOtpCode", Tag: tag, Public: true, Limits: seldom,
			Summary: "Ask for a sign-in code by mail",
			Doc:     "The answer is the same whether the address is known or not. The code is good once and for ten minutes; a newer one replaces it.",
			Errors:  []int{501},
		}, s.requestCode),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/auth/verify-code", ID: "verifyOtpCode", Tag: tag, Public: true, Limits: seldom, AnswerOf: signedIn,
			Summary: "Sign in with a mailed code",
			Doc:     "Sets the cookie svc_session. The answer holds no key. After five wrong tries a code is spent.",
			Errors:  []int{403},
		}, s.verifyCode),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/register", ID: "register", Tag: tag, Public: true, Limits: rarely, Status: 201, AnswerOf: reflect.TypeFor[Registered](),
			Summary: "Sign up with a link by mail",
			Doc:     "Where signing up is switched on. The answer is the same for an address that has an account, which gets a letter that says so.",
			Errors:  []int{501},
		}, s.register),
		route.Action(route.Row{
			Method: "GET", Path: VerifyPath, ID: "verifyEmail", Tag: tag, Public: true, Limits: often, AnswerOf: reflect.TypeFor[EmailVerified](),
			Summary: "Finish a registration",
			Doc:     "Makes the company and its owner. Sets the cookie svc_session in the browser that registered, and in no other.",
			Errors:  []int{403},
		}, s.verifyEmail),
		route.Action(route.Row{
			Method: "GET", Path: oauthPath + "/providers", ID: "listOAuthLoginProviders", Tag: tag, Public: true,
			Summary: "List the providers to sign in with",
		}, s.oauthProviders),
		route.Action(route.Row{
			Method: "GET", Path: oauthPath + "/{provider}/start", ID: "startOAuthLogin", Tag: tag, Public: true, Limits: often, Status: 302,
			Summary: "Begin to sign in with a provider",
			Doc:     "Sends the browser to the provider. The sign-in has to be finished within ten minutes, in the same browser.",
			Errors:  []int{502, 504},
		}, s.oauthStart),
		route.Action(route.Row{
			Method: "GET", Path: oauthPath + "/{provider}/callback", ID: "completeOAuthLogin", Tag: tag, Public: true, Limits: often, Also: []int{302}, AnswerOf: signedIn,
			Summary: "Finish to sign in with a provider",
			Doc:     "Where the provider sends the browser back to. Sets the cookie svc_session and goes on to return_to, if there was one. For an app the browser gets a code in the fragment and no cookie.",
			Errors:  []int{403, 422, 502, 504},
		}, s.oauthCallback),
		route.Action(route.Row{
			Method: "POST", Path: oauthPath + "/exchange", ID: "exchangeOAuthAppCode", Tag: tag, Public: true, Limits: often, AnswerOf: signedIn,
			Summary: "Trade an app's code for a session",
			Doc:     "Sets the cookie svc_session for the app. The code is spent by the first try.",
			Errors:  []int{403},
		}, s.oauthExchange),
	}
}

func (s *Service) ownRoutes() []route.Route {
	const tag, mfa = "Auth", "/api/v1/auth/mfa"
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: mfa + "/status", ID: "getMfaStatus", Tag: tag, HalfOpen: true,
			Summary: "Whether the caller has a second factor",
		}, s.mfaStatus),
		route.Action(route.Row{
			Method: "POST", Path: mfa + "/enrol", ID: "enrolMfa", Tag: tag, Status: 201, Optional: true,
			Summary: "Get a second factor",
			Doc: "A time-based code (RFC 6238). It counts from the first code on that POST /auth/mfa/verify accepts; until then it can be made anew. " +
				"Secret and recovery codes are shown this once. Of keys, only one with the scope * may do this.",
			Errors: []int{409},
		}, s.enrol),
		route.Action(route.Row{
			Method: "POST", Path: mfa + "/verify", ID: "verifyMfa", Tag: tag, HalfOpen: true, Limits: often,
			Summary: "Show the second factor",
			Doc:     "Makes a half-open session whole, and an enrolment count. Each code is accepted once.",
			Errors:  []int{404},
		}, s.mfaVerify),
		route.Action(route.Row{
			Method: "POST", Path: mfa + "/recovery", ID: "verifyMfaRecovery", Tag: tag, HalfOpen: true, Limits: often,
			Summary: "Show a recovery code in place of the second factor",
			Errors:  []int{404},
		}, s.mfaRecovery),
		route.Action(route.Row{
			Method: "POST", Path: mfa + "/disable", ID: "disableMfa", Tag: tag, Optional: true, Limits: often,
			Summary: "Give the second factor up",
			Doc:     "Takes a code of it, or a recovery code.",
			Errors:  []int{404},
		}, s.mfaDisable),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/me/auth-providers", ID: "listAuthProviders", Tag: tag,
			Summary: "List the ways in which the caller can sign in",
		}, s.authProviders),
		route.Action(route.Row{
			Method: "DELETE", Path: "/api/v1/me/auth-providers/{provider}", ID: "unlinkAuthProvider", Tag: tag,
			Summary: "Unlink a provider",
			Doc:     "The last way in stays. Of keys, only one with the scope * may do this.",
			Errors:  []int{409},
		}, s.unlink),
	}
}

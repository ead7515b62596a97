package webpage

import (
	"net/http"
	"strings"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/signin"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
)

const (
	keyPath  = signInPath + "/key"
	linkPath = signin.LinkPath
	// keyCookieName is the cookie in which a browser keeps a key.
	keyCookieName = "svc_auth_token"
	// keyCookieLife is how long it keeps it. The key itself decides whether it is valid.
	keyCookieLife = 30 * 24 * time.Hour
)

var keyPage = NewPage(`<form method="post" action="{{.Prefix}}` + keyPath + `">` + returnField + `
<p><label for="key">API key</label>
<input id="key" name="key" type="password" required maxlength="200" autocomplete="off" autofocus aria-describedby="hint"></p>
<p id="hint">The first start of the server printed the owner's key. On its machine, <code>agentd admin key create</code> makes another.
This browser keeps the key in a cookie that no script can read, and acts with its scopes until you sign out.</p>
<p><button>Sign in</button></p>
</form>
<p><a href="{{.Prefix}}` + signInPath + `{{.Data.Query}}">Other ways to sign in</a></p>
`)

// linkPage asks before it uses a link up: programs that look at links open them too.
var linkPage = NewPage(`<form method="post" action="{{.Prefix}}` + linkPath + `">
<input type="hidden" name="token" value="{{.Data.Token}}">
<p>The button signs this browser in. The link works once.</p>
<p><button autofocus>Open the console</button></p>
</form>
<p>Has it been used? <a href="{{.Prefix}}` + keyPath + `">Use an API key</a></p>
`)

// directRoutes are the pages of those who have no address yet: a key, and the link that
// the first start prints.
func (s SignIn) directRoutes(
	public func(method, path string, serve serveFunc, fail failFunc, limits ...route.Limit) httpapi.Raw,
) []httpapi.Raw {
	return []httpapi.Raw{
		public(http.MethodGet, keyPath, s.askKey, s.failWith(keyPage, "Use an API key")),
		public(http.MethodPost, keyPath, s.enterKey, s.failWith(keyPage, "Use an API key"), signin.GuessLimits...),
		public(http.MethodGet, linkPath, s.askLink, s.failWith(linkPage, "Open the console")),
		public(http.MethodPost, linkPath, s.openLink, s.failWith(linkPage, "Open the console"), signin.GuessLimits...),
	}
}

func (s SignIn) askKey(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	return s.show(w, keyPage, "Use an API key", s.entered(r))
}

func (s SignIn) enterKey(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	key := strings.TrimSpace(r.PostForm.Get("key"))
	if err := s.CheckKey(r.Context(), key); err != nil {
		if fault.Is(err, fault.Unauthenticated) {
			return fault.New(fault.Malformed, "", "This is not a valid key, or it was revoked.").Because(err)
		}
		return err
	}
	httpapi.SetCookie(r.Context(), &route.Cookie{Name: identity.SessionCookieName}) // the key would not count beside a session
	httpapi.SetCookie(r.Context(), &route.Cookie{Name: keyCookieName, Value: key, Lasts: keyCookieLife})
	return s.goBack(w, s.entered(r).ReturnTo)
}

func (s SignIn) askLink(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	return s.show(w, linkPage, "Open the console", s.entered(r))
}

func (s SignIn) openLink(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	cookie, needsFactor, err := s.Service.OpenLink(r.Context(), who, r.PostForm.Get("token"), deviceOf(r))
	if err != nil {
		return err
	}
	httpapi.SetCookie(r.Context(), cookie)
	if needsFactor {
		return s.redirect(w, factorPath)
	}
	return s.goBack(w, "")
}

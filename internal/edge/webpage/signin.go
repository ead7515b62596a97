package webpage

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agentd/internal/accounts/signin"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
)

// Paths of the pages, below the public URL.
const (
	signInPath   = signin.SignInPath
	codePath     = signInPath + "/code"
	factorPath   = signin.FactorPath
	continuePath = signInPath + "/continue"
	signUpPath   = "/signup"
	confirmPath  = signin.ConfirmPath
	accountPath  = "/account"
	signOutPath  = "/signout"
)

// maxForm bounds a form in bytes.
const maxForm = 16 << 10

// SignInService signs people in; *signin.Service implements it.
type SignInService interface {
	Ways() signin.Ways
	RequestCode(ctx context.Context, email string, terms bool) (*route.Cookie, error)
	EnterCode(ctx context.Context, who authz.Caller, c signin.CodeEntry) (cookie *route.Cookie, needsFactor bool, err error)
	EnterFactor(ctx context.Context, who authz.Caller, code string) error
	OpenLink(ctx context.Context, who authz.Caller, token, label string) (cookie *route.Cookie, needsFactor bool, err error)
	Register(ctx context.Context, r signin.Registration) (*route.Cookie, error)
	CompleteRegistration(ctx context.Context, who authz.Caller, token, browser string) (*route.Cookie, error)
}

// SignIn are the pages on which people sign in, sign up and sign out. They work
// without scripts, and no address that they redirect to holds a key.
type SignIn struct {
	Service SignInService
	// NamesOf returns the names of a company and of a member of it.
	NamesOf func(ctx context.Context, tenantID, userID string) (company, person string)
	// SignOut ends the session of a caller and returns the cookie that takes it away.
	SignOut func(ctx context.Context, who authz.Caller) (*route.Cookie, error)
	// CheckKey reports why a key cannot be used; nil: it can.
	CheckKey func(ctx context.Context, key string) error
	// Home is the path to which people return who came from nowhere; "": the page
	// that shows who is signed in.
	Home      string
	PublicURL func() string
}

// form is what the pages of this file show.
type form struct {
	Ways     signin.Ways
	Email    string
	Name     string
	Token    string // of a link
	ReturnTo string // a path of this server
	Company  string
	Person   string
	OwnKey   bool // signed in by a key instead of a session
	AskTerms bool // the person is new
}

// Query returns the part of a link that hands the way back on.
func (f form) Query() string {
	if f.ReturnTo == "" {
		return ""
	}
	return "?" + url.Values{"return_to": {f.ReturnTo}}.Encode()
}

const returnField = `<input type="hidden" name="return_to" value="{{.Data.ReturnTo}}">`

var signInPage = NewPage(`{{if .Data.Ways.Mail}}<form method="post" action="{{.Prefix}}` + signInPath + `">` + returnField + `
<p><label for="email">Email address</label>
<input id="email" name="email" type="email" required maxlength="200" autocomplete="username" autofocus value="{{.Data.Email}}"></p>
<p><button>Email me a code</button></p>
</form>
{{if .Data.Ways.Signup}}<p>New here? <a href="{{.Prefix}}` + signUpPath + `">Create an account</a></p>
{{end}}{{end}}{{range .Data.Ways.Providers}}<p>
<a class="button" href="{{$.Data.StartURL $.Prefix .}}">Sign in with {{.Name}}</a></p>
{{end}}{{if and .Data.Ways.Signup .Data.Ways.Providers}}<p>
Who is new here accepts the terms and the privacy policy of this service by signing in with one of these.</p>
{{end}}{{if not .Data.Ways.Any}}<p>This deployment sends no email and knows no sign-in provider.
Its operator can set <code>AGENTD_SMTP_URL</code> or <code>AGENTD_OIDC_PROVIDERS</code>; until then an API key opens the console.</p>
{{end}}<p><a href="{{.Prefix}}` + keyPath + `{{.Data.Query}}">Use an API key</a></p>
`)

var codePage = NewPage(`<p>If <strong>{{.Data.Email}}</strong> can sign in here, an email with a code is on its way.
It is valid for ten minutes.</p>
<form method="post" action="{{.Prefix}}` + codePath + `">` + returnField + `<input type="hidden" name="email" value="{{.Data.Email}}">
<p><label for="code">Code</label>
<input id="code" name="code" required maxlength="40" autocomplete="one-time-code" autofocus></p>
{{if .Data.AskTerms}}<p><label class="check"><input type="checkbox" name="terms" value="yes" required>
I am new here, and accept the terms and the privacy policy of this service</label></p>
{{end}}<p><button>Sign in</button></p>
</form>
<p>No email? <a href="{{.Prefix}}` + signInPath + `{{.Data.Query}}">Request another code</a>, a minute after the last one.</p>
`)

var factorPage = NewPage(`<form method="post" action="{{.Prefix}}` + factorPath + `">` + returnField + `
<p><label for="code">Code of your authenticator app</label>
<input id="code" name="code" required maxlength="100" autocomplete="one-time-code" autofocus aria-describedby="hint"></p>
<p id="hint">Without the app, enter one of your recovery codes.</p>
<p><button>Continue</button></p>
</form>
<form method="post" action="{{.Prefix}}` + signOutPath + `"><p><button class="quiet">Sign out</button></p></form>
`)

var signUpPage = NewPage(`<form method="post" action="{{.Prefix}}` + signUpPath + `">
<p><label for="email">Email address</label>
<input id="email" name="email" type="email" required maxlength="200" autocomplete="username" autofocus value="{{.Data.Email}}"></p>
<p><label for="name">Name of your company (optional)</label>
<input id="name" name="name" maxlength="200" autocomplete="organization" value="{{.Data.Name}}"></p>
<p><label class="check"><input type="checkbox" name="terms" value="yes" required>
I accept the terms and the privacy policy of this service</label></p>
<p><button>Email me a link</button></p>
</form>
<p>You have an account? <a href="{{.Prefix}}` + signInPath + `">Sign in</a></p>
`)

var confirmPage = NewPage(`<form method="post" action="{{.Prefix}}` + confirmPath + `">
<input type="hidden" name="token" value="{{.Data.Token}}">
<p>The button confirms that this email address is yours, and creates your account.</p>
<p><button>Confirm</button></p>
</form>
`)

var accountPage = NewPage(`<p>{{if .Data.OwnKey}}You use a key{{else}}You are signed in{{end}}
{{- with .Data.Person}} as <strong>{{.}}</strong>{{end}} to <strong>{{.Data.Company}}</strong>.</p>
<ul><li><a href="{{.Prefix}}/docs">API reference</a></li></ul>
<form method="post" action="{{.Prefix}}` + signOutPath + `"><p><button class="quiet">Sign out</button></p></form>
`)

var messagePage = NewPage(`<p>{{.Data.Text}}</p>
{{with .Data.Link}}<p><a class="button" href="{{$.Prefix}}{{.}}">{{$.Data.Label}}</a></p>
{{end}}`)

// message is a page that only says something, with a way on.
type message struct{ Text, Link, Label string }

// StartURL returns the link to a provider, which returns the browser to the page that
// continues.
func (f form) StartURL(prefix string, p signin.OAuthProvider) string {
	q := url.Values{"cookie_only": {"true"}, "return_to": {prefix + continuePath + f.Query()}}
	if f.Ways.Signup {
		q["accept_terms"], q["accept_privacy"] = []string{"true"}, []string{"true"} // as the page says
	}
	return prefix + p.StartPath() + "?" + q.Encode()
}

// Routes returns the pages. They are not part of the OpenAPI document.
func (s SignIn) Routes() []httpapi.Raw {
	public := func(method, path string, serve serveFunc, fail failFunc, limits ...route.Limit) httpapi.Raw {
		write := method == http.MethodPost
		return httpapi.Raw{
			Row: route.Row{
				Method: method, Path: path, Public: true, Limits: limits, SignIn: write && path != signInPath && path != signUpPath,
			},
			OwnPages: write, Serve: serve, Fail: fail,
		}
	}
	signedIn := func(method, path string, serve serveFunc, fail failFunc, limits ...route.Limit) httpapi.Raw {
		return httpapi.Raw{Row: route.Row{Method: method, Path: path, HalfOpen: true, Limits: limits}, Serve: serve, Fail: fail}
	}
	return append(s.directRoutes(public), []httpapi.Raw{
		public("GET", signInPath, s.askEmail, s.failWith(signInPage, "Sign in")),
		public("POST", signInPath, s.sendCode, s.failSending, signin.CodeLimits...),
		public("POST", codePath, s.enterCode, s.failWith(codePage, "Enter the code"), signin.CodeLimits...),
		signedIn("GET", continuePath, s.continueSignIn, s.toSignIn),
		signedIn("GET", factorPath, s.askFactor, s.toSignIn),
		signedIn("POST", factorPath, s.enterFactor, s.failFactor, signin.GuessLimits...),
		public("GET", signUpPath, s.askRegistration, s.failWith(signUpPage, "Create an account")),
		public("POST", signUpPath, s.register, s.failWith(signUpPage, "Create an account"), signin.RegisterLimits...),
		public("GET", confirmPath, s.askConfirmation, s.failWith(confirmPage, "Confirm your address")),
		public("POST", confirmPath, s.confirm, s.failWith(confirmPage, "Confirm your address"), signin.GuessLimits...),
		signedIn("GET", accountPath, s.account, s.toSignIn),
		signedIn("POST", signOutPath, s.signOut, s.toSignIn),
	}...)
}

type (
	serveFunc = func(http.ResponseWriter, *http.Request, authz.Caller) error
	failFunc  = func(http.ResponseWriter, *http.Request, int, *fault.Error)
)

func (s SignIn) prefix() string { return PathPrefix(s.PublicURL()) }

// show shows a page of this file.
func (s SignIn) show(w http.ResponseWriter, p *Page, title string, f form) error {
	f.Ways = s.Service.Ways()
	return p.Show(w, View{Title: title, Prefix: s.prefix(), Forms: "'self'", Data: f})
}

// failWith returns the Fail of a page: the page again, with what was entered, and why it
// was refused.
func (s SignIn) failWith(p *Page, title string) failFunc {
	return func(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
		httpapi.RefusalHeaders(w, status, e)
		f := s.entered(r)
		f.Ways, f.AskTerms = s.Service.Ways(), e.Code == "TERMS_NOT_ACCEPTED"
		_ = p.Show(w, View{ // the browser left
			Title: title, Prefix: s.prefix(), Forms: "'self'", Data: f, Status: status, Problem: sayProblem(e),
		})
	}
}

// sayProblem returns a refusal as a person who filled in a form can use it.
func sayProblem(e *fault.Error) string {
	switch {
	case len(e.Fields) == 1 && e.Fields[0].Field == "email":
		return "This is not an email address."
	case len(e.Fields) == 1:
		return "The " + e.Fields[0].Field + " cannot be accepted: " + e.Fields[0].Message + "."
	case e.Code == "TERMS_NOT_ACCEPTED":
		return "To create an account, accept the terms and the privacy policy."
	}
	return e.Detail
}

// entered returns what a person entered in a form, without codes.
func (s SignIn) entered(r *http.Request) form {
	get := r.PostForm.Get
	if r.Method == http.MethodGet {
		get = r.URL.Query().Get
	}
	return form{Email: get("email"), Name: get("name"), Token: get("token"), ReturnTo: ownPath(get("return_to"))}
}

// readForm reads the form of a request.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return fault.New(fault.Malformed, "", "The form cannot be read; open the page again and fill it in once more.").Because(err)
	}
	return nil
}

// ownPath returns a path of this server to which a page may lead, and "" for anything
// else, because a link to sign in must not lead to another site.
func ownPath(to string) string {
	invalid := func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || len(to) > 2000 || strings.ContainsFunc(to, invalid) {
		return ""
	}
	u, err := url.Parse(to)
	if err != nil || u.Host != "" || u.Scheme != "" {
		return ""
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String()
}

// redirect leads a browser on, to a path below the prefix, after what it sent.
func (s SignIn) redirect(w http.ResponseWriter, path string) error {
	h := w.Header()
	h.Set("Location", s.prefix()+path)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// goBack leads a person who is signed in to where they came from.
func (s SignIn) goBack(w http.ResponseWriter, returnTo string) error {
	for _, to := range []string{returnTo, s.Home, accountPath} {
		if to != "" {
			return s.redirect(w, to)
		}
	}
	return nil
}

// toSignIn leads a person who is not signed in to the page for that.
func (s SignIn) toSignIn(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	if status == http.StatusUnauthorized {
		_ = s.redirect(w, signInPath+s.entered(r).Query())
		return
	}
	httpapi.RefusalHeaders(w, status, e)
	_ = failure.Show(w, View{Title: http.StatusText(status), Prefix: s.prefix(), Data: e.Detail, Status: status}) // the browser left
}

func (s SignIn) askEmail(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	return s.show(w, signInPage, "Sign in", s.entered(r))
}

func (s SignIn) sendCode(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	f := s.entered(r)
	cookie, err := s.Service.RequestCode(r.Context(), f.Email, false)
	if err != nil {
		return err
	}
	httpapi.SetCookie(r.Context(), cookie)
	return s.show(w, codePage, "Enter the code", f)
}

// failSending shows the form for the code also to a person who requests another one too
// soon: the one that they have is still valid.
func (s SignIn) failSending(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	if status == http.StatusTooManyRequests && r.PostForm != nil {
		s.failWith(codePage, "Enter the code")(w, r, status, e)
		return
	}
	s.failWith(signInPage, "Sign in")(w, r, status, e)
}

func (s SignIn) enterCode(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	f := s.entered(r)
	cookie, needsFactor, err := s.Service.EnterCode(r.Context(), who, signin.CodeEntry{
		Email: f.Email, Code: r.PostForm.Get("code"), Attempt: cookieOf(r, signin.AttemptCookie), Label: deviceOf(r),
		Terms: r.PostForm.Get("terms") == "yes",
	})
	if err != nil {
		return err
	}
	httpapi.SetCookie(r.Context(), cookie)
	if needsFactor {
		return s.redirect(w, factorPath+f.Query())
	}
	return s.goBack(w, f.ReturnTo)
}

// continueSignIn receives a browser from a provider.
func (s SignIn) continueSignIn(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	f := s.entered(r)
	if who.HalfOpen {
		return s.redirect(w, factorPath+f.Query())
	}
	return s.goBack(w, f.ReturnTo)
}

func (s SignIn) askFactor(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	return s.show(w, factorPage, "Second factor", s.entered(r))
}

func (s SignIn) enterFactor(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	if err := s.Service.EnterFactor(r.Context(), who, r.PostForm.Get("code")); err != nil {
		return err
	}
	return s.goBack(w, s.entered(r).ReturnTo)
}

// failFactor shows the form again after a wrong code. Without a session there is
// nothing to verify.
func (s SignIn) failFactor(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	if status == http.StatusUnauthorized && e.Code != "VERIFICATION_FAILED" {
		s.toSignIn(w, r, status, e)
		return
	}
	s.failWith(factorPage, "Second factor")(w, r, status, e)
}

func (s SignIn) askRegistration(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	ways := s.Service.Ways()
	if !ways.Signup || !ways.Mail {
		return messagePage.Show(w, View{Title: "Create an account", Prefix: s.prefix(), Data: message{
			"People cannot create accounts here by themselves; ask an admin of your company for an invite.", signInPath, "Sign in",
		}})
	}
	return s.show(w, signUpPage, "Create an account", s.entered(r))
}

func (s SignIn) register(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	cookie, err := s.Service.Register(r.Context(), signin.Registration{
		Email: r.PostForm.Get("email"), Name: r.PostForm.Get("name"), Terms: r.PostForm.Get("terms") == "yes",
	})
	if err != nil {
		return err
	}
	httpapi.SetCookie(r.Context(), cookie)
	return messagePage.Show(w, View{Title: "Check your email", Prefix: s.prefix(), Data: message{
		Text: "We sent an email to this address. Open its link within 24 hours, in this browser.",
	}})
}

func (s SignIn) askConfirmation(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	return s.show(w, confirmPage, "Confirm your address", s.entered(r))
}

func (s SignIn) confirm(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	cookie, err := s.Service.CompleteRegistration(r.Context(), who, r.PostForm.Get("token"), cookieOf(r, signin.RegisterCookie))
	if err != nil {
		return err
	}
	if cookie == nil {
		return messagePage.Show(w, View{Title: "Your address is confirmed", Prefix: s.prefix(), Data: message{
			"You registered with another browser. Sign in to use your account with this one.", signInPath, "Sign in",
		}})
	}
	httpapi.SetCookie(r.Context(), cookie)
	return s.redirect(w, continuePath)
}

func (s SignIn) account(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if who.HalfOpen {
		return s.redirect(w, factorPath)
	}
	company, person := s.NamesOf(r.Context(), who.TenantID, who.UserID)
	return s.show(w, accountPage, "Your account", form{Company: company, Person: person, OwnKey: who.SessionID == ""})
}

// signOut ends a session. A key that a browser keeps in a cookie stays valid, as a
// button must not revoke what programs use: only its cookie is taken away.
func (s SignIn) signOut(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	cookie := &route.Cookie{Name: keyCookieName}
	if who.SessionID != "" {
		var err error
		if cookie, err = s.SignOut(r.Context(), who); err != nil {
			return err
		}
	}
	httpapi.SetCookie(r.Context(), cookie)
	return s.redirect(w, signInPath)
}

// cookieOf returns the value of a cookie, "" if there is none or more than one.
func cookieOf(r *http.Request, name string) string {
	if all := r.CookiesNamed(name); len(all) == 1 {
		return all[0].Value
	}
	return ""
}

// deviceOf names the browser of a request in the list of signed-in devices.
func deviceOf(r *http.Request) string {
	agent := r.UserAgent()
	browsers := []string{"Edg/", "Edge", "OPR/", "Opera", "Firefox/", "Firefox", "Chrome/", "Chrome", "Safari/", "Safari"}
	systems := []string{"Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "Windows", "Windows", "Mac OS X", "macOS", "Linux", "Linux"}
	named := func(pairs []string) string {
		for pair := range slices.Chunk(pairs, 2) {
			if strings.Contains(agent, pair[0]) {
				return pair[1]
			}
		}
		return ""
	}
	browser, system := named(browsers), named(systems)
	switch {
	case browser == "":
		return "Browser"
	case system == "":
		return browser
	}
	return browser + " on " + system
}

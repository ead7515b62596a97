package accounts

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/oidcclient/oidctest"
	"agentd/internal/wire/smtpmail/smtptest"
)

// fields are the hidden fields of a form, and action is where it is sent.
var (
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)
	formAction  = regexp.MustCompile(`<form method="post" action="([^"]+)">`)
	pageHeading = regexp.MustCompile(`<h1>([^<]*)</h1>`)
)

// open opens a page, as a person who clicks on a link.
func (b *browser) open(path string) apptest.Reply {
	b.n.T.Helper()
	return b.page(b.send("GET", path, ""))
}

// submit fills in the first form of a page, presses its button, and follows to the next page.
func (b *browser) submit(page apptest.Reply, values ...string) apptest.Reply {
	b.n.T.Helper()
	return b.page(b.press(page, values...))
}

// press fills in the first form of a page and presses its button.
func (b *browser) press(page apptest.Reply, values ...string) apptest.Reply {
	b.n.T.Helper()
	action := formAction.FindSubmatch(page.Body)
	if action == nil {
		b.n.T.Fatalf("no form in %s", page.Body)
	}
	form := url.Values{}
	for _, m := range hiddenField.FindAllSubmatch(page.Body, -1) {
		form.Set(string(m[1]), html.UnescapeString(string(m[2])))
	}
	for i := 0; i+1 < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return b.sendForm(string(action[1]), form)
}

func (b *browser) sendForm(path string, form url.Values, headers ...string) apptest.Reply {
	return b.send("POST", path, form.Encode(), append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
}

// page follows redirects of this server up to a page, and checks what every page keeps
// to. No address may hold a credential.
func (b *browser) page(r apptest.Reply) apptest.Reply {
	b.n.T.Helper()
	for range 5 {
		at := r.Header.Get("Location")
		if at == "" {
			break
		}
		if strings.Contains(at, "svc_") || strings.Contains(at, "svs_") {
			b.n.T.Errorf("a redirect has a credential: %s", at)
		}
		r = b.send("GET", strings.TrimPrefix(at, b.n.URL), "")
	}
	if policy := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'self'; form-action ") ||
		r.Header.Get("Cache-Control") != "no-store" || strings.Contains(string(r.Body), "<script") {
		b.n.T.Errorf("%d %v\n%s", r.StatusCode, r.Header, r.Body)
	}
	return r
}

// shows checks the heading of a page, and what stands in it.
func shows(t *testing.T, page apptest.Reply, status int, heading, text string) {
	t.Helper()
	found := pageHeading.FindSubmatch(page.Body)
	if page.StatusCode != status || found == nil || string(found[1]) != heading || !strings.Contains(string(page.Body), text) {
		t.Fatalf("%d, want %d, %q and %q:\n%s", page.StatusCode, status, heading, text, page.Body)
	}
}

// codeIn returns the six digits in an email.
func codeIn(t *testing.T, text string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ +([0-9]{3} [0-9]{3})$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no code in %s", text)
	}
	return found[1]
}

// A person signs up, signs in with a code and a second factor, and out, with pages
// alone.
func TestSignInPages(t *testing.T) {
	t.Parallel()
	box := smtptest.New(t, smtptest.Config{User: "agentd", Password: "mail-secret"})
	op := oidctest.New(t)
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel), func(c *config.Config) {
		c.Mail.SMTPURL = config.NewURL("smtp://agentd:mail-secret@" + box.Addr)
		c.Mail.From = "agentd <agentd@example.org>"
		c.SignIn.Signup = "on"
	}, apptest.Providers(t, `[{"id": "corp", "name": "Corp", "issuer": "`+op.URL+`", "client_id": "`+oidctest.ClientID+`", "client_secret": "`+oidctest.ClientSecret+`"}]`))
	t.Run("SignUp", func(t *testing.T) { signUpWithPages(t, n, box) })
	n.Admin().Exec(`DELETE FROM signin_addresses`)
	t.Run("Code", func(t *testing.T) { signInWithCodePages(t, n, box) })
	t.Run("Provider", func(t *testing.T) { signInWithProviderPages(t, n, op) })
	t.Run("Links", func(t *testing.T) { signInLinks(t, n) })
}

func signUpWithPages(t *testing.T, n *apptest.Server, box *smtptest.Server) {
	b := newBrowser(n)
	form := b.open("/signup")
	shows(t, form, 200, "Create an account", "terms")
	shows(t, b.submit(form, "email", "ann@example.com"), 422, "Create an account", "accept the terms")
	shows(t, b.submit(form, "email", "ann", "terms", "yes"), 422, "Create an account", "not an email address")
	shows(t, b.submit(form, "email", "ann@example.com", "name", "Ann & Co", "terms", "yes"), 200, "Check your email", "24 hours")
	_, link, found := strings.Cut(box.Next(t, "ann@example.com").Text, n.URL+"/verify-email?")
	if !found {
		t.Fatal("the link of the email does not lead to the page")
	}
	confirm := b.open("/verify-email?" + strings.Fields(link)[0])
	shows(t, confirm, 200, "Confirm your address", "Confirm")
	shows(t, newBrowser(n).submit(confirm), 200, "Your address is confirmed", "another browser")
	b.press(confirm)
	if r := b.send("GET", "/signin/continue", ""); r.StatusCode != 303 || r.Header.Get("Location") != "/" {
		t.Errorf("who came from nowhere is led to %d %s", r.StatusCode, r.Header.Get("Location"))
	}
	shows(t, b.open("/account"), 200, "Your account", "Ann &amp; Co")
	shows(t, b.submit(confirm), 400, "Confirm your address", `role="alert"`) // the link opens one session
}

func signInWithCodePages(t *testing.T, n *apptest.Server, box *smtptest.Server) {
	b := newBrowser(n)
	form := b.open("/account?x=1") // leads to the page to sign in
	shows(t, form, 200, "Sign in", "Sign in with Corp")
	form = b.open("/signin?return_to=%2Faccount%3Fx%3D1")
	shows(t, b.submit(form, "email", "nobody at all"), 422, "Sign in", "not an email address")
	entry := b.submit(form, "email", "ann@example.com")
	shows(t, entry, 200, "Enter the code", "ann@example.com")
	letter := box.Next(t, "ann@example.com").Text
	if !strings.Contains(letter, n.URL+"/signin") {
		t.Errorf("the email does not name the page: %s", letter)
	}
	if again := `href="/signin?return_to=%2Faccount%3Fx%3D1"`; !strings.Contains(string(entry.Body), again) {
		t.Errorf("no %s in %s", again, entry.Body)
	}
	shows(t, b.submit(form, "email", "ann@example.com"), 429, "Enter the code", "recently")
	shows(t, b.submit(entry, "code", "ABCD"), 400, "Enter the code", "This code is wrong")
	code := codeIn(t, letter)
	foreign := b.sendForm("/signin/code", url.Values{"email": {"ann@example.com"}, "code": {code}}, "Origin", "https://evil.example")
	if foreign.StatusCode != 403 || b.cookies["svc_session"] != "" {
		t.Errorf("the form of another site: %d %v", foreign.StatusCode, b.cookies)
	}
	r := b.sendForm("/signin/code", url.Values{"email": {"ann@example.com"}, "code": {code}, "return_to": {"/account?x=1"}})
	if r.StatusCode != 303 || r.Header.Get("Location") != "/account?x=1" || strings.Contains(string(r.Body), "svc_") {
		t.Fatalf("%d %v %s", r.StatusCode, r.Header, r.Body)
	}
	account := b.page(r)
	shows(t, account, 200, "Your account", "Ann &amp; Co")
	if devices := b.want(200, "GET", "/api/v1/me/sessions", "")["items"].([]any); len(devices) != 2 {
		t.Errorf("a page made a key: %v", devices)
	}

	secret := b.want(201, "POST", "/api/v1/auth/mfa/enrol", "{}")["secret"].(string)
	b.want(200, "POST", "/api/v1/auth/mfa/verify", `{"code":"`+totp(t, secret, 0)+`"}`)
	n.Admin().Exec(`DELETE FROM signin_addresses`)
	b.submit(account) // signs out
	b.want(401, "GET", "/api/v1/me", "")
	entry = b.submit(b.open("/signin?return_to=/account"), "email", "ann@example.com")
	factor := b.submit(entry, "code", codeIn(t, box.Next(t, "ann@example.com").Text))
	shows(t, factor, 200, "Second factor", "recovery codes")
	b.want(401, "GET", "/api/v1/agents", "") // half open
	shows(t, b.open("/account"), 200, "Second factor", "recovery codes")
	shows(t, b.submit(factor, "code", "AAAA-BBBB"), 401, "Second factor", "This code is wrong")
	shows(t, b.submit(factor, "code", totp(t, secret, 1)), 200, "Your account", "Ann &amp; Co")
	b.want(200, "GET", "/api/v1/agents", "")
}

func signInWithProviderPages(t *testing.T, n *apptest.Server, op *oidctest.Provider) {
	op.User = oidctest.Claims{"email": "bea@example.com", "email_verified": true, "name": "Bea"}
	b := newBrowser(n)
	page := b.open("/signin?return_to=/account?from=corp")
	link := regexp.MustCompile(`href="(/api/v1/auth/oauth/corp/start[^"]*)"`).FindSubmatch(page.Body)
	if link == nil {
		t.Fatalf("no link to the provider in %s", page.Body)
	}
	at, err := url.Parse(b.send("GET", html.UnescapeString(string(link[1])), "").Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	back, failure := op.Authorize(at.Query())
	if failure != "" {
		t.Fatal(failure)
	}
	r := b.send("GET", strings.TrimPrefix(back, n.URL), "")
	shows(t, b.page(r), 200, "Your account", "Bea")
}

// Links to sign in lead back to this server only.
func signInLinks(t *testing.T, n *apptest.Server) {
	for _, to := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "/\t/evil.example", "javascript:alert(1)", "evil"} {
		page := newBrowser(n).open("/signin?" + url.Values{"return_to": {to}}.Encode())
		if strings.Contains(string(page.Body), "evil") || strings.Contains(string(page.Body), "alert") {
			t.Errorf("%s: %s", to, page.Body)
		}
	}
}

// An invite is accepted on the page of its link. Opening the page accepts nothing.
func TestInvitePage(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	made := n.Expect(201, "POST", "/api/v1/users/invites", object{"email": "cy@example.com", "role": "developer"})
	link := strings.TrimPrefix(made["invite_url"].(string), n.URL)
	b := newBrowser(n)
	for range 2 {
		shows(t, b.open(link), 200, "Join "+n.Expect(200, "GET", "/api/v1/tenants/me", nil)["name"].(string), "cy@example.com")
	}
	page := b.open(link)
	shows(t, b.open(link+"x"), 403, "This invite cannot be accepted", "not valid")
	shows(t, b.open("/invite"), 404, "This invite cannot be accepted", "not complete")
	form := url.Values{}
	for _, m := range hiddenField.FindAllSubmatch(page.Body, -1) {
		form.Set(string(m[1]), string(m[2]))
	}
	if r := b.sendForm("/invite", form, "Origin", "https://evil.example"); r.StatusCode != 403 {
		t.Errorf("the form of another site: %d", r.StatusCode)
	}
	refused := b.submit(page, "name", strings.Repeat("C", 300))
	if refused.StatusCode != 422 || !strings.Contains(string(refused.Body), `role="alert"`) {
		t.Errorf("an invalid name: %d %s", refused.StatusCode, refused.Body)
	}
	shows(t, b.submit(page, "name", "Cy"), 200, "You are a member now", "signed in")
	if me := b.want(200, "GET", "/api/v1/me", ""); me["user"].(object)["name"] != "Cy" || me["role"] != "developer" {
		t.Errorf("%v", me)
	}
	shows(t, newBrowser(n).open(link), 409, "This invite cannot be accepted", "accepted")
}

package webpage_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/signin"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/webpage"
	"agentd/internal/execution/session"
)

// people are the services of the pages, for one person whose code is 123456.
type people struct{}

func (people) Ways() signin.Ways {
	return signin.Ways{Mail: true, Signup: true, Providers: []signin.OAuthProvider{{ID: "corp", Name: "Corp"}}}
}

func (people) RequestCode(context.Context, string, bool) (*route.Cookie, error) {
	return &route.Cookie{Name: signin.AttemptCookie, Value: "attempt", Lasts: time.Minute}, nil
}

func (people) EnterCode(_ context.Context, _ authz.Caller, c signin.CodeEntry) (*route.Cookie, bool, error) {
	if c.Code != "123456" || c.Attempt != "attempt" || c.Label != "Firefox on Linux" {
		return nil, false, fault.New(fault.Malformed, "TERMS_NOT_ACCEPTED", "No: %+v.", c)
	}
	return identity.SessionCookie("svs_raw"), false, nil
}

func (people) EnterFactor(context.Context, authz.Caller, string) error { return nil }

func (people) OpenLink(_ context.Context, _ authz.Caller, token, _ string) (*route.Cookie, bool, error) {
	if token != "fresh" {
		return nil, false, fault.New(fault.Malformed, signin.Failed, "This link was used already.")
	}
	return identity.SessionCookie("svs_raw"), false, nil
}

func (people) Register(context.Context, signin.Registration) (*route.Cookie, error) {
	return &route.Cookie{Name: signin.RegisterCookie, Value: "browser", Lasts: time.Minute}, nil
}

func (people) CompleteRegistration(context.Context, authz.Caller, string, string) (*route.Cookie, error) {
	return nil, nil
}

func (people) Invitation(context.Context, string, string) (identity.Invitation, error) {
	return identity.Invitation{Company: "<i>Acme", Inviter: "Ann", Email: "bob@example.com", Role: authz.Viewer}, nil
}

func (people) Accept(context.Context, authz.Caller, string, string, string) (*route.Cookie, error) {
	return nil, nil
}

// sessions authenticates one browser session.
type sessions struct{}

func (sessions) Authenticate(context.Context, string) (authz.Caller, error) {
	return authz.Caller{}, fault.New(fault.Unauthenticated, "", "No.")
}

func (sessions) AuthenticateSession(_ context.Context, raw string) (authz.Caller, time.Duration, error) {
	if raw != "svs_raw" {
		return authz.Caller{}, 0, fault.New(fault.Unauthenticated, "", "No.")
	}
	return authz.Caller{TenantID: "t", UserID: "u", SessionID: "s", Role: authz.Viewer}, 0, nil
}

func (sessions) Valid(context.Context, authz.Caller) error { return nil }

const publicURL = "https://agents.example.com/team"

// serve serves all pages as behind a proxy that serves them below /team.
func serve(t *testing.T) http.Handler {
	t.Helper()
	public := func() string { return publicURL }
	rows := slices.Concat(
		webpage.Pages{PublicURL: public}.Routes(),
		webpage.Shared{PublicURL: public, Read: func(context.Context, string) (*session.Shared, error) {
			return &session.Shared{AgentName: "<b>Chef"}, nil
		}}.Routes(),
		webpage.SignIn{
			Service: people{}, PublicURL: public,
			NamesOf: func(context.Context, string, string) (string, string) { return "Acme", "Bob" },
			CheckKey: func(_ context.Context, key string) error {
				if key != "svc_key" {
					return fault.New(fault.Unauthenticated, "", "No.")
				}
				return nil
			},
			Home:    "/",
			SignOut: func(context.Context, authz.Caller) (*route.Cookie, error) { return identity.NoSessionCookie(), nil },
		}.Routes(),
		webpage.Invite{Invitations: people{}, PublicURL: public}.Routes(),
	)
	api, err := httpapi.New(httpapi.Config{Auth: sessions{}, Raw: rows, PublicURL: publicURL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func send(t *testing.T, api http.Handler, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Accept", "text/html")
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, req)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(text)
}

var (
	reference = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	inline    = regexp.MustCompile(`<script>|<style|\son[a-z]+=|style=`)
	shown     = regexp.MustCompile(`<input id="([^"]+)"`)
)

// Every page is below the path of the public URL, refers to nothing elsewhere, has no
// inline script or style, labels its fields, and allows nothing else by its policy.
func TestPages(t *testing.T) {
	t.Parallel()
	api := serve(t)
	const signedIn = "__Host-svc_session=svs_raw"
	for _, tt := range []struct{ method, path, body, cookie, says string }{
		{"GET", "/docs", "", "", "swagger-ui"},
		{"GET", "/shared/link", "", "", "Conversation with &lt;b&gt;Chef"},
		{"GET", "/signin", "", "", "Sign in with Corp"},
		{"POST", "/signin", "email=bob%40example.com", "", "bob@example.com"},
		{"POST", "/signin/code", "email=bob%40example.com&code=1", "", "I am new here"},
		{"GET", "/signin/mfa", "", signedIn, "authenticator"},
		{"GET", "/signin/key", "", "", "API key"},
		{"POST", "/signin/key", "key=svc_no", "", "not a valid key"},
		{"GET", "/signin/link?token=x", "", "", `value="x"`},
		{"POST", "/signin/link", "token=x", "", "used already"},
		{"GET", "/signup", "", "", "terms"},
		{"POST", "/signup", "email=bob%40example.com", "", "24 hours"},
		{"GET", "/verify-email?token=x", "", "", `value="x"`},
		{"POST", "/verify-email", "token=x", "", "another browser"},
		{"GET", "/account", "", signedIn, "<strong>Bob</strong>"},
		{"GET", "/invite?invite=a&token=b", "", "", "&lt;i&gt;Acme"},
		{"POST", "/invite", "invite=a&token=b", "", "Sign in"},
	} {
		res, page := send(t, api, tt.method, tt.path, tt.body, "Cookie", tt.cookie)
		if res.StatusCode >= 500 || !strings.Contains(page, tt.says) || !strings.Contains(page, `<html lang="en">`) {
			t.Errorf("%s %s: %d, and not %q:\n%s", tt.method, tt.path, res.StatusCode, tt.says, page)
		}
		policy := res.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("%s has the policy %q", tt.path, policy)
		}
		if found := inline.FindString(page); found != "" {
			t.Errorf("%s has %s, which its policy forbids", tt.path, found)
		}
		for _, m := range reference.FindAllStringSubmatch(page, -1) {
			if !strings.HasPrefix(m[1], "/team/") {
				t.Errorf("%s refers to %s, which is not below the public URL", tt.path, m[1])
			}
		}
		for _, m := range shown.FindAllStringSubmatch(page, -1) {
			if !strings.Contains(page, `<label for="`+m[1]+`">`) {
				t.Errorf("%s: the field %s has no label", tt.path, m[1])
			}
		}
	}
}

// The cookie of a session is for this host alone, and the redirect to where the person
// came from is below the public URL.
func TestSignInSetsTheCookieOfTheHost(t *testing.T) {
	t.Parallel()
	res, page := send(t, serve(t), "POST", "/signin/code", "email=bob%40example.com&code=123456&return_to=%2Faccount",
		"Cookie", "svc_signin=attempt", "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/team/account" {
		t.Fatalf("%d to %q\n%s", res.StatusCode, res.Header.Get("Location"), page)
	}
	if c := res.Cookies(); len(c) != 1 || c[0].Name != "__Host-svc_session" || !c[0].Secure || !c[0].HttpOnly || c[0].Path != "/" {
		t.Errorf("the cookies are %v", c)
	}
}

// Forms are taken from pages of this service only.
func TestFormsOfOtherSites(t *testing.T) {
	t.Parallel()
	api := serve(t)
	for _, path := range []string{"/signin", "/signin/code", "/signin/key", "/signin/link", "/signin/mfa", "/signup", "/verify-email", "/signout", "/invite"} {
		for _, header := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
			res, page := send(t, api, "POST", path, "email=bob%40example.com", "Cookie", "__Host-svc_session=svs_raw", header[0], header[1])
			if res.StatusCode != http.StatusForbidden || len(res.Cookies()) > 0 {
				t.Errorf("%s with %s: %d %s", path, header, res.StatusCode, page)
			}
		}
		res, page := send(t, api, "POST", path, "email=bob%40example.com&code=1", "Cookie", "__Host-svc_session=svs_raw", "Origin", "https://agents.example.com")
		if res.StatusCode == http.StatusForbidden {
			t.Errorf("%s from our own page: %s", path, page)
		}
	}
}

// A key and a one-time link sign a browser in, with a cookie that no script reads, and
// lead on: to where the person came from, or to the console.
func TestKeysAndLinksSignIn(t *testing.T) {
	t.Parallel()
	api := serve(t)
	for _, tt := range []struct{ path, body, location, cookie, value string }{
		{"/signin/key", "key=+svc_key+&return_to=%2Fruns%2Fx%3Ftab%3Devents", "/team/runs/x?tab=events", "svc_auth_token", "svc_key"},
		{"/signin/key", "key=svc_key&return_to=%2F%2Fevil.example", "/team/", "svc_auth_token", "svc_key"},
		{"/signin/link", "token=fresh", "/team/", "__Host-svc_session", "svs_raw"},
	} {
		res, page := send(t, api, "POST", tt.path, tt.body)
		if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != tt.location {
			t.Errorf("%s: %d to %q\n%s", tt.path, res.StatusCode, res.Header.Get("Location"), page)
		}
		i := slices.IndexFunc(res.Cookies(), func(c *http.Cookie) bool { return c.Name == tt.cookie })
		if i < 0 {
			t.Errorf("%s sets %v", tt.path, res.Cookies())
		} else if c := res.Cookies()[i]; c.Value != tt.value || !c.HttpOnly || !c.Secure || c.MaxAge <= 0 {
			t.Errorf("%s sets %v", tt.path, c)
		}
	}
}

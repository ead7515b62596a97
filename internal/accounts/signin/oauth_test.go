package signin_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/signin"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/wire/oidcclient/oidctest"
)

const (
	startPath    = "/api/v1/auth/oauth/{provider}/start"
	callbackPath = "/api/v1/auth/oauth/{provider}/callback"
	exchangePath = "/api/v1/auth/oauth/exchange"
	unlinkPath   = "/api/v1/me/auth-providers/{provider}"
)

// begin starts a flow, goes through the provider, and returns what the browser
// comes back with.
func (b *bench) begin(id string, more object) object {
	b.t.Helper()
	in := object{"provider": id}
	maps.Copy(in, more)
	got := b.must(anybody, "GET", startPath, in)
	if got.status != 302 || got.cookie == nil || got.cookie.Name != "svc_oauth" || got.cookie.Lasts != 10*time.Minute {
		b.t.Fatalf("%+v", got)
	}
	back, failure := b.op.Authorize(query(b.t, got.location))
	if failure != "" {
		b.t.Fatal(failure)
	}
	if !strings.HasPrefix(back, public+"/api/v1/auth/oauth/"+id+"/callback?") {
		b.t.Fatalf("it comes back to %s", back)
	}
	q := query(b.t, back)
	return object{"provider": id, "code": q.Get("code"), "state": q.Get("state"), "iss": q.Get("iss"), "svc_oauth": got.cookie.Value}
}

// flow signs in with a provider.
func (b *bench) flow(id string, more object) answer {
	b.t.Helper()
	return b.must(anybody, "GET", callbackPath, b.begin(id, more))
}

func TestOAuthSignIn(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ann := b.member("Acme", "ann@example.com")
		got := b.flow("corp", object{"device_label": "Ann's phone"})
		who := b.caller(got)
		if who.UserID != ann.UserID || got.status != 0 || got.json["ok"] != true {
			b.t.Errorf("%+v, %v", who, got.json)
		}
		b.keyOf(got, who)
		if b.log.has("auth.provider_linked "+ann.UserID+` {"provider":"corp"}`) != 1 || b.log.has("auth.signed_in "+ann.UserID) != 1 {
			b.t.Errorf("audited %v", b.log.entries)
		}
		var label, method string
		if err := b.db.QueryRow(b.t.Context(), `SELECT label, method FROM browser_sessions`).Scan(&label, &method); err != nil ||
			label != "Ann's phone" || method != "corp" {
			b.t.Errorf("%q by %q, %v", label, method, err)
		}
		// The link decides from then on, whatever address the provider reports.
		b.op.User = oidctest.Claims{"email": "moved@example.com", "email_verified": false}
		if who := b.caller(b.flow("corp", nil)); who.UserID != ann.UserID || b.log.has("auth.provider_linked") != 1 {
			b.t.Errorf("%+v, audited %v", who, b.log.entries)
		}
	}, provider)
}

func TestOAuthProviders(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		want := object{"providers": []any{
			object{"id": "corp", "name": "Corp", "enabled": true}, object{"id": "other", "name": "Corp", "enabled": true},
		}}
		if diff := cmp.Diff(want, b.must(anybody, "GET", "/api/v1/auth/oauth/providers", nil).json); diff != "" {
			b.t.Error(diff)
		}
		b.refused(fault.NotFound, "NOT_FOUND", anybody, "GET", startPath, object{"provider": "none"})
		b.refused(fault.NotFound, "NOT_FOUND", anybody, "GET", callbackPath, object{"provider": "none"})
	}, provider)
	each(t, func(b *bench) {
		if diff := cmp.Diff(object{"providers": []any{}}, b.must(anybody, "GET", "/api/v1/auth/oauth/providers", nil).json); diff != "" {
			b.t.Error(diff)
		}
	})
}

func TestStatesThatDoNotCount(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		bad := func(in object) {
			b.t.Helper()
			b.refused(fault.Malformed, signin.Failed, anybody, "GET", callbackPath, in)
		}
		for name, spoil := range map[string]func(in object){
			"no state":         func(in object) { in["state"] = "" },
			"another state":    func(in object) { in["state"] = strings.Repeat("A", 43) },
			"no cookie":        func(in object) { delete(in, "svc_oauth") },
			"another browser":  func(in object) { in["svc_oauth"] = strings.Repeat("A", 43) },
			"another provider": func(in object) { in["provider"] = "other" },
			"another issuer":   func(in object) { in["iss"] = "https://evil.example.com" },
			"no code":          func(in object) { in["code"] = "" },
			"another code":     func(in object) { in["code"] = "guessed" },
		} {
			in := b.begin("corp", nil)
			right := in["svc_oauth"]
			spoil(in)
			bad(in)
			if name == "another browser" { // the state is spent by the first try
				in["svc_oauth"] = right
				bad(in)
			}
			if b.count("browser_sessions") > 0 {
				b.t.Errorf("%s: signed in", name)
			}
		}
		in := b.begin("corp", nil)
		b.clock.Advance(10 * time.Minute)
		bad(in) // too late

		in = b.begin("corp", nil)
		var good atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := b.call(anybody, "GET", callbackPath, in); err == nil {
					good.Add(1)
				}
			})
		}
		wg.Wait()
		bad(in) // again
		if good.Load() != 1 {
			b.t.Errorf("one state counted %d times", good.Load())
		}
		b.clock.Advance(time.Hour)
		b.begin("corp", nil)
		if n := b.count("signin_tickets"); n != 1 {
			b.t.Errorf("%d tickets are kept", n)
		}
	}, provider)
}

func TestProviderThatCannotBeTrusted(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		for name, twist := range map[string]func(c oidctest.Claims){
			"nonce":    func(c oidctest.Claims) { c["nonce"] = "another" },
			"audience": func(c oidctest.Claims) { c["aud"] = "another" },
			"expired":  func(c oidctest.Claims) { c["exp"] = b.clock.Now().Unix() - 1 },
		} {
			b.op.Twist = twist
			b.refused(fault.Upstream, signin.Failed, anybody, "GET", callbackPath, b.begin("corp", nil))
			if b.count("browser_sessions")+b.count("signin_links") > 0 {
				b.t.Errorf("%s: signed in", name)
			}
		}
		b.op.Twist = nil
		b.op.Broken["/token"] = true
		b.refused(fault.Upstream, signin.Failed, anybody, "GET", callbackPath, b.begin("corp", nil))
	}, provider)
}

func TestAddressesThatDoNotCount(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		b.member("Kelvin", "kelvin@example.com")
		for _, user := range []oidctest.Claims{
			{},
			{"email": "", "email_verified": true},
			{"email": "ann@example.com"},
			{"email": "ann@example.com", "email_verified": false},
			{"email": "ann@example.com", "email_verified": "no"},
			{"email": "Ann <ann@example.com>", "email_verified": true},
			{"email": "\u212Aelvin@example.com", "email_verified": true}, // a Kelvin sign
		} {
			b.op.User = user
			b.refused(fault.Forbidden, signin.Failed, anybody, "GET", callbackPath, b.begin("corp", nil))
		}
		b.op.User = oidctest.Claims{"email": "ANN@example.com", "email_verified": true}
		b.flow("corp", nil)
		// The address was reassigned to another person.
		b.op.User = oidctest.Claims{"sub": "another-ann", "email": "ann@example.com", "email_verified": true}
		b.refused(fault.Forbidden, signin.Failed, anybody, "GET", callbackPath, b.begin("corp", nil))
		if b.count("browser_sessions") != 1 || b.count("signin_links") != 1 {
			b.t.Error("signed in")
		}
	}, provider)
}

func TestReturnTo(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		for to, want := range map[string]string{
			"/app?tab=1":                        public + "/app?tab=1",
			public + "/app#x":                   public + "/app",
			"https://AGENTD.example.com/app":    public + "/app",
			"/":                                 public + "/",
			"":                                  "",
			"app":                               "",
			"//evil.example.com/app":            "",
			`/\evil.example.com`:                "",
			`\\evil.example.com`:                "",
			"https://evil.example.com/":         "",
			public + ".evil.example.com/":       "",
			public + "@evil.example.com/":       "",
			"http://agentd.example.com/":        "",
			"https://agentd.example.com:8443/":  "",
			"https:agentd.example.com":          "",
			"javascript:alert(1)":               "",
			"/app\r\nSet-Cookie: svc_session=x": "",
			"/%zz":                              "",
			"\t//evil.example.com":              "",
		} {
			got := b.flow("corp", object{"return_to": to})
			if got.location != want || (got.status == 302) != (want != "") || (got.json == nil) != (want != "") {
				b.t.Errorf("%q leads to %q with status %d, want %q", to, got.location, got.status, want)
			}
			b.caller(got)
		}
	}, provider)
}

func TestProviderSaysNo(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		no := func(to, why string) object {
			in := b.begin("corp", object{"return_to": to})
			in["code"], in["error"] = "", why
			return in
		}
		if got := b.must(anybody, "GET", callbackPath, no("/app", "access_denied")); got.location != public+"/app#error=access_denied" ||
			got.cookie != nil {
			b.t.Errorf("%+v", got)
		}
		if got := b.must(anybody, "GET", callbackPath, no("/app", "<b>&code=x")); got.location != public+"/app#error=server_error" {
			b.t.Errorf("%+v", got)
		}
		f := b.refused(fault.Malformed, signin.Failed, anybody, "GET", callbackPath, no("", "access_denied"))
		if !strings.Contains(f.Detail, "access_denied") {
			b.t.Error(f.Detail)
		}
		if b.count("browser_sessions") > 0 {
			b.t.Error("signed in")
		}
	}, provider)
}

func TestOAuthWithSecondFactor(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.enrol(b.member("Acme", "ann@example.com"))
		got := b.flow("corp", object{"return_to": "/app"})
		if got.location != public+"/app#mfa_required=true" || !b.caller(got).HalfOpen {
			b.t.Errorf("%+v", got)
		}
		if got := b.flow("corp", nil); got.json["mfa_required"] != true {
			b.t.Errorf("%+v", got)
		}
	}, provider)
}

func TestOAuthOfStrangers(t *testing.T) {
	t.Parallel()
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		each(t, func(b *bench) {
			f := b.refused(fault.Forbidden, "FORBIDDEN", anybody, "GET", callbackPath,
				b.begin("corp", object{"accept_terms": true, "accept_privacy": true}))
			if strings.Contains(f.Detail, "waits for you") {
				b.t.Error(f.Detail)
			}
		}, provider)
	})
	t.Run("invited", func(t *testing.T) {
		t.Parallel()
		fails := errors.New("out of order")
		each(t, func(b *bench) {
			f := b.refused(fault.Forbidden, "FORBIDDEN", anybody, "GET", callbackPath, b.begin("corp", nil))
			if !strings.Contains(f.Detail, "pending invite") {
				b.t.Error(f.Detail)
			}
			b.op.User["email"] = "bob@example.com"
			if _, err := b.call(anybody, "GET", callbackPath, b.begin("corp", nil)); !errors.Is(err, fails) {
				b.t.Error(err)
			}
		}, provider, func(_ *bench, c *signin.Config) {
			c.Invited = func(_ context.Context, email string) (bool, error) {
				if email != "ann@example.com" {
					return false, fails
				}
				return true, nil
			}
		})
	})
	t.Run("on", func(t *testing.T) {
		t.Parallel()
		each(t, func(b *bench) {
			b.refused(fault.Invalid, "TERMS_NOT_ACCEPTED", anybody, "GET", callbackPath, b.begin("corp", object{"accept_terms": true}))
			got := b.flow("corp", object{"accept_terms": true, "accept_privacy": true})
			who := b.caller(got)
			if who.Role != authz.Owner || got.json["tenant"].(object)["name"] != "Ann" || b.count("tenants") != 1 || b.count("signin_links") != 1 {
				b.t.Errorf("%+v, %v", who, got.json)
			}
			if again := b.caller(b.flow("corp", nil)); again.TenantID != who.TenantID {
				b.t.Errorf("the second time in %s", again.TenantID)
			}
			// All members left: the link has no target, and is created again.
			b.sql(`DELETE FROM browser_sessions`)
			b.sql(`UPDATE users SET email = '', email_verified = FALSE, status = 'deleted'`)
			if again := b.caller(b.flow("corp", object{"accept_terms": true, "accept_privacy": true})); again.TenantID == who.TenantID ||
				b.count("signin_links") != 1 {
				b.t.Errorf("the third time in %s, %d links", again.TenantID, b.count("signin_links"))
			}
		}, provider, signup)
	})
}

func TestAppCode(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ann := b.member("Acme", "ann@example.com")
		verifier := strings.Repeat("v", 43)
		sum := sha256.Sum256([]byte(verifier))
		challenge := base64.RawURLEncoding.EncodeToString(sum[:])
		code := func() string {
			b.t.Helper()
			got := b.flow("corp", object{"app_code_challenge": challenge, "return_to": "/app"})
			code, found := strings.CutPrefix(got.location, public+"/app#code=")
			if got.status != 302 || got.cookie != nil || !found || len(code) != 43 {
				b.t.Fatalf("%+v", got)
			}
			return code
		}
		trade := func(code, verifier string) object {
			return object{"body": object{"code": code, "code_verifier": verifier}}
		}
		bad := func(code, verifier string) {
			b.t.Helper()
			b.refused(fault.Malformed, signin.Failed, anybody, "POST", exchangePath, trade(code, verifier))
		}
		one := code()
		if b.count("browser_sessions") != 0 {
			b.t.Error("the browser is signed in too")
		}
		got := b.must(anybody, "POST", exchangePath, trade(one, verifier))
		who := b.caller(got)
		if who.UserID != ann.UserID || got.json["ok"] != true || got.json["email"] != "ann@example.com" {
			b.t.Errorf("%+v, %v", who, got.json)
		}
		b.keyOf(got, who)
		bad(one, verifier) // traded
		two := code()
		bad(two, strings.Repeat("w", 43))
		bad(two, verifier) // spent by the first try
		bad("guessed", verifier)
		three := code()
		b.clock.Advance(time.Minute)
		bad(three, verifier) // too old
		four := code()
		var good atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := b.call(anybody, "POST", exchangePath, trade(four, verifier)); err == nil {
					good.Add(1)
				}
			})
		}
		wg.Wait()
		if good.Load() != 1 {
			b.t.Errorf("one code was traded %d times", good.Load())
		}
		five := code()
		b.sql(`UPDATE users SET status = 'suspended'`)
		b.refused(fault.Forbidden, "MEMBER_SUSPENDED", anybody, "POST", exchangePath, trade(five, verifier))
		b.sql(`UPDATE users SET status = 'active'`)
		six := code()
		b.sql(`UPDATE users SET status = 'deleted'`)
		bad(six, verifier)
		b.sql(`UPDATE users SET status = 'active'`)

		plain := b.flow("corp", object{"app_code_challenge": challenge})
		if code, _ := plain.json["code"].(string); plain.status == 302 || len(code) != 43 {
			b.t.Errorf("%+v", plain)
		}
		for _, malformed := range []string{"short", challenge + "=", strings.Repeat("+", 43)} {
			b.refused(fault.Malformed, "INVALID_QUERY", anybody, "GET", startPath, object{"provider": "corp", "app_code_challenge": malformed})
		}
	}, provider)
}

func TestAuthProviders(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ann := b.member("Acme", "ann@example.com")
		items := func() []any {
			b.t.Helper()
			got := b.must(ann, "GET", "/api/v1/me/auth-providers", nil).json
			if diff := cmp.Diff(got["items"], got["providers"]); diff != "" {
				b.t.Error(diff)
			}
			return got["items"].([]any)
		}
		otp := object{"id": "otp", "linked": true, "email": "ann@example.com"}
		want := []any{otp, object{"id": "corp", "linked": false, "email": nil}, object{"id": "other", "linked": false, "email": nil}}
		if diff := cmp.Diff(want, items()); diff != "" {
			b.t.Error(diff)
		}
		unlink := func(id string) object {
			b.t.Helper()
			return b.must(ann, "DELETE", unlinkPath, object{"provider": id}).json
		}
		if diff := cmp.Diff(object{"ok": true, "provider": "corp", "remaining_factors": 1.0, "already_unlinked": true},
			unlink("corp")); diff != "" {
			b.t.Error(diff)
		}
		b.flow("corp", nil)
		want = []any{otp, object{"id": "other", "linked": false, "email": nil}, object{
			"id": "corp", "linked": true, "sub": "ann-at-the-provider", "email": "ann@example.com", "linked_at": b.clock.Now().Format(time.RFC3339),
		}}
		if diff := cmp.Diff(want, items()); diff != "" {
			b.t.Error(diff)
		}
		b.post.none = true // no code can be mailed any more
		b.refused(fault.Conflict, "CONFLICT", ann, "DELETE", unlinkPath, object{"provider": "corp"})
		b.op.User["sub"] = "ann-2"
		b.flow("other", nil)
		if diff := cmp.Diff(object{"ok": true, "provider": "corp", "remaining_factors": 1.0}, unlink("corp")); diff != "" {
			b.t.Error(diff)
		}
		b.refused(fault.Conflict, "CONFLICT", ann, "DELETE", unlinkPath, object{"provider": "other"})
		b.refused(fault.NotFound, "NOT_FOUND", ann, "DELETE", unlinkPath, object{"provider": "none"})
		b.refused(fault.Conflict, "CONFLICT", ann, "DELETE", unlinkPath, object{"provider": "otp"})
		if b.log.has("auth.provider_unlinked "+ann.UserID+` {"provider":"corp"}`) != 1 || b.log.has("auth.provider_unlinked") != 1 {
			b.t.Errorf("audited %v", b.log.entries)
		}
		b.post.none = false
		b.flow("corp", object{}) // ann-2 is linked, so this is her
		unlink("other")
		b.op.User = oidctest.Claims{"sub": "ann-3", "email": "ann@example.com", "email_verified": true}
		b.flow("corp", nil)
		// Two at once do not leave her without a way in.
		b.op.User["sub"] = "ann-4"
		b.flow("other", nil)
		b.post.none = true
		var good atomic.Int64
		var wg sync.WaitGroup
		for _, id := range []string{"corp", "other"} {
			wg.Go(func() {
				if _, err := b.call(ann, "DELETE", unlinkPath, object{"provider": id}); err == nil {
					good.Add(1)
				}
			})
		}
		wg.Wait()
		if good.Load() != 1 || b.count("signin_links") != 1 {
			b.t.Errorf("%d were unlinked, %d are left", good.Load(), b.count("signin_links"))
		}
		unverified := b.member("Nameless", "")
		if got := b.must(unverified, "GET", "/api/v1/me/auth-providers", nil).json["items"].([]any)[0]; !cmp.Equal(got,
			object{"id": "otp", "linked": false, "email": nil}) {
			b.t.Errorf("%v", got)
		}
		b.must(unverified, "DELETE", unlinkPath, object{"provider": "corp"})
		b.refused(fault.Conflict, "CONFLICT", unverified, "DELETE", unlinkPath, object{"provider": "otp"})
	}, provider)
}

func TestStatesTellNothing(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		in := b.begin("corp", object{"return_to": "/secret-place"})
		var hash, sealed []byte
		if err := b.db.QueryRow(b.t.Context(), `SELECT hash, sealed FROM signin_tickets`).Scan(&hash, &sealed); err != nil {
			b.t.Fatal(err)
		}
		last := b.op.Last()
		for _, tell := range []string{in["state"].(string), in["svc_oauth"].(string), last.Get("nonce"), "secret-place"} {
			if strings.Contains(string(hash)+string(sealed), tell) {
				b.t.Errorf("%q is kept as it is", tell)
			}
		}
		if strings.Contains(last.Encode(), in["svc_oauth"].(string)) {
			b.t.Error("the provider receives the browser's cookie")
		}
	}, provider)
}

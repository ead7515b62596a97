package accounts

import (
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/wire/oidcclient/oidctest"
)

// The operator adds a provider while the program runs; people sign in with it, by its page
// and by One Tap, until it is switched off or removed.
func TestLoginProvidersOfTheOperator(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	op.User = oidctest.Claims{"email": "ann@example.com", "email_verified": true, "name": "Ann"}
	n := apptest.Start(t, nil, func(c *config.Config) {
		c.Security.EgressAllow, c.SignIn.Signup = strings.TrimPrefix(op.URL, "http://"), "on"
	})
	const path, oneTap = "/api/v1/admin/oauth-login-providers/google", "/api/v1/auth/oauth/google/onetap"
	stranger := n.WithKey("")
	stranger.Do("POST", oneTap, object{"credential": "x"}).IsProblem(t, 501, "FEATURE_DISABLED")
	if got := n.Expect(200, "GET", path, nil); got["configured"] != false || got["enabled"] != false || got["provider"] != "google" {
		t.Errorf("%v", got)
	}
	n.Expect(404, "GET", "/api/v1/admin/oauth-login-providers/No_such", nil)
	if p := n.Expect(422, "PUT", path, object{"client_id": oidctest.ClientID}); len(p["errors"].([]any)) != 1 {
		t.Errorf("%v", p)
	}
	n.Expect(422, "PUT", path, object{"issuer": "ftp://x"})
	n.Expect(422, "PUT", path, object{"scopes": []string{""}})
	_, company := n.CreateTenant(object{"name": "Acme"})
	company.Expect(403, "GET", path, nil)
	company.Expect(403, "PUT", path, object{})

	set := n.Expect(200, "PUT", path, object{
		"client_id": oidctest.ClientID, "client_secret": oidctest.ClientSecret + "-of-another-kind", "issuer": op.URL, "name": "Corp",
		"scopes": []string{"openid", "email"},
	})
	if set["configured"] != true || set["enabled"] != true {
		t.Errorf("%v", set)
	}
	// The secret is replaced alone, and shown never.
	n.Expect(200, "PUT", path, object{"client_secret": oidctest.ClientSecret})
	got := n.Do("GET", path, nil)
	if got.JSON["client_id"] != oidctest.ClientID || got.JSON["issuer"] != op.URL || got.JSON["client_secret_hint"] != "••••" ||
		strings.Contains(string(got.Body), oidctest.ClientSecret) {
		t.Errorf("%s", got.Body)
	}
	listed := func() object { return stranger.Expect(200, "GET", "/api/v1/auth/oauth/providers", nil) }
	if all := listed(); all["google_one_tap_client_id"] != oidctest.ClientID || len(all["providers"].([]any)) != 1 {
		t.Errorf("%v", all)
	}

	b := newBrowser(n)
	r := b.send("GET", "/api/v1/auth/oauth/google/start?accept_terms=true&accept_privacy=true", "")
	at, err := url.Parse(r.Header.Get("Location"))
	if err != nil || r.StatusCode != 302 {
		t.Fatal(r.StatusCode, err)
	}
	back, failure := op.Authorize(at.Query())
	if failure != "" {
		t.Fatal(failure)
	}
	if in := b.want(200, "GET", strings.TrimPrefix(back, n.URL), ""); in["email"] != "ann@example.com" {
		t.Errorf("%v", in)
	}

	token := func(more object) string {
		now := time.Now()
		claims := object{
			"iss": op.URL, "aud": oidctest.ClientID, "sub": "bob-at-the-provider", "email": "bob@example.com", "email_verified": true,
			"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		}
		maps.Copy(claims, more)
		return op.Sign(claims)
	}
	credential := token(nil)
	stranger.Expect(422, "POST", oneTap, object{"credential": token(object{"iat": 1})}) // terms are not accepted
	in := stranger.Expect(200, "POST", oneTap, object{
		"credential": credential, "accept_terms": true, "accept_privacy": true, "device_label": "Bob's phone",
	})
	if in["email"] != "bob@example.com" || in["api_key"] == nil {
		t.Errorf("%v", in)
	}
	me := n.WithKey(in["api_key"].(string))
	if got := me.Expect(200, "GET", "/api/v1/me", nil); got["user"].(object)["email"] != "bob@example.com" {
		t.Errorf("%v", got)
	}
	if labels := me.Do("GET", "/api/v1/me/sessions", nil); !strings.Contains(string(labels.Body), "Bob's phone") {
		t.Errorf("%s", labels.Body)
	}
	stranger.Do("POST", oneTap, object{"credential": credential}).IsProblem(t, 401, "OAUTH_FAILED") // it counts once
	stranger.Do("POST", oneTap, object{"credential": token(object{"aud": "another"})}).IsProblem(t, 401, "OAUTH_FAILED")
	stranger.Do("POST", oneTap, object{"credential": token(object{"email_verified": false, "sub": "eve"})}).IsProblem(t, 403, "OAUTH_FAILED")
	if quiet := stranger.Expect(200, "POST", oneTap, object{"credential": token(object{"iat": 2}), "cookie_only": true}); quiet["api_key"] != nil {
		t.Errorf("%v", quiet)
	}

	n.Expect(200, "PUT", path, object{"enabled": false})
	if all := listed(); len(all["providers"].([]any)) != 0 || all["google_one_tap_client_id"] != nil {
		t.Errorf("%v", all)
	}
	n.Expect(200, "PUT", path, object{"enabled": true})
	if removed := n.Expect(200, "DELETE", path, nil); removed["configured"] != false {
		t.Errorf("%v", removed)
	}
	stranger.Expect(404, "GET", "/api/v1/auth/oauth/google/start", nil)
}

// A provider that the operator names must not be inside of the network.
func TestLoginProvidersStayOutside(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	n := apptest.Start(t, nil)
	n.Expect(200, "PUT", "/api/v1/admin/oauth-login-providers/corp", object{"client_id": "a", "client_secret": "b", "issuer": op.URL})
	n.WithKey("").Expect(502, "GET", "/api/v1/auth/oauth/corp/start", nil)
	if op.Last() != nil {
		t.Error("the provider was called")
	}
}

package oidcclient_test

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/accounts/signin"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/wire/oidcclient"
	"agentd/internal/wire/oidcclient/oidctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var grant = signin.Grant{Redirect: "https://agentd.example.com/callback", State: "the-state", Nonce: "the-nonce",
	Verifier: strings.Repeat("v", 43)}

var ann = oidctest.Claims{"email": "Ann@Example.com", "email_verified": true, "name": "Ann"}

func port(t *testing.T, issuer string) signin.Provider {
	t.Helper()
	client := oidcclient.New(clock.System{})
	t.Cleanup(client.Close)
	return client.Provider(signin.ProviderConfig{
		ID: "test", Name: "Test", Issuer: issuer, ClientID: oidctest.ClientID, ClientSecret: secret.New(oidctest.ClientSecret),
		Scopes: []string{"openid", "email"},
	})
}

// signIn goes through the flow as a browser would.
func signIn(t *testing.T, op *oidctest.Provider, p signin.Provider, g signin.Grant) (signin.Claims, error) {
	t.Helper()
	to, err := p.Start(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, op.URL+"/authorize?") {
		t.Fatalf("it sends to %s", to)
	}
	back, failure := op.Authorize(at.Query())
	if failure != "" {
		t.Fatal(failure)
	}
	at, err = url.Parse(back)
	if err != nil || !strings.HasPrefix(back, g.Redirect) || at.Query().Get("state") != g.State {
		t.Fatalf("it comes back to %s", back)
	}
	return p.Finish(t.Context(), g, at.Query().Get("code"))
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	op.User = ann
	p := port(t, op.URL)
	want := signin.Claims{Issuer: op.URL, Subject: "ann-at-the-provider", Email: "Ann@Example.com", EmailVerified: true, Name: "Ann"}
	for range 2 { // the second time what was discovered is known
		got, err := signIn(t, op, p, grant)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	op.Rotate(t)
	if _, err := signIn(t, op, p, grant); err != nil {
		t.Errorf("after a new key: %v", err)
	}
}

func TestUserInfo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		info  oidctest.Claims
		email string
		ok    bool
		fails bool
	}{
		"verified": {oidctest.Claims{"sub": "ann-at-the-provider", "email": "ann@example.com", "email_verified": true}, "ann@example.com",
			true, false},
		"as text": {oidctest.Claims{"sub": "ann-at-the-provider", "email": "ann@example.com", "email_verified": "true"}, "ann@example.com",
			true, false},
		"not verified": {oidctest.Claims{"sub": "ann-at-the-provider", "email": "ann@example.com", "email_verified": false}, "ann@example.com",
			false, false},
		"not said":      {oidctest.Claims{"sub": "ann-at-the-provider", "email": "ann@example.com"}, "ann@example.com", false, false},
		"of another":    {oidctest.Claims{"sub": "eve", "email": "ann@example.com", "email_verified": true}, "", false, true},
		"nothing known": {nil, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := oidctest.New(t)
			op.UserInfo = tt.info
			got, err := signIn(t, op, port(t, op.URL), grant)
			if tt.fails {
				wantFailed(t, err, fault.Upstream)
				return
			}
			if err != nil || got.Email != tt.email || got.EmailVerified != tt.ok {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	t.Run("out of order", func(t *testing.T) {
		t.Parallel()
		op := oidctest.New(t)
		op.UserInfo = oidctest.Claims{}
		op.Broken["/userinfo"] = true
		_, err := signIn(t, op, port(t, op.URL), grant)
		wantFailed(t, err, fault.Upstream)
	})
}

func wantFailed(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	f := fault.From(err)
	if f == nil || f.Kind != kind || f.Code != signin.Failed {
		t.Errorf("error %v", err)
		return
	}
	for _, leak := range []string{"127.0.0.1", oidctest.ClientSecret, "oidc:", "oauth2"} {
		if strings.Contains(f.Detail, leak) {
			t.Errorf("the sentence tells too much: %s", f.Detail)
		}
	}
}

func TestTokensThatCannotBeTrusted(t *testing.T) {
	t.Parallel()
	set := func(name string, value any) func(*oidctest.Provider) {
		return func(op *oidctest.Provider) { op.Twist = func(c oidctest.Claims) { c[name] = value } }
	}
	for name, spoil := range map[string]func(op *oidctest.Provider){
		"wrong nonce":      set("nonce", "another"),
		"no nonce":         func(op *oidctest.Provider) { op.Twist = func(c oidctest.Claims) { delete(c, "nonce") } },
		"wrong audience":   set("aud", "somebody-else"),
		"more audiences":   set("aud", []string{oidctest.ClientID, "somebody-else"}),
		"another party":    set("azp", "somebody-else"),
		"wrong issuer":     set("iss", "https://evil.example.com"),
		"expired":          set("exp", time.Now().Add(-time.Minute).Unix()),
		"never expires":    func(op *oidctest.Provider) { op.Twist = func(c oidctest.Claims) { delete(c, "exp") } },
		"nobody":           set("sub", ""),
		"wrong token hash": set("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"),
		"altered": func(op *oidctest.Provider) {
			op.TwistToken = func(token string) string {
				parts := strings.Split(token, ".")
				claims, err := base64.RawURLEncoding.DecodeString(parts[1])
				if err != nil {
					panic(err)
				}
				parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(claims), "Ann@", "Eve@", 1)))
				return strings.Join(parts, ".")
			}
		},
		"not signed": func(op *oidctest.Provider) {
			op.TwistToken = func(token string) string {
				return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(token, ".")[1] + "."
			}
		},
		"no token": func(op *oidctest.Provider) { op.TwistToken = func(string) string { return "" } },
		"nonsense": func(op *oidctest.Provider) { op.TwistToken = func(string) string { return "a.b.c" } },
		"another's key": func(op *oidctest.Provider) {
			op.TwistToken = func(token string) string {
				return token[:strings.LastIndexByte(token, '.')+1] + strings.Repeat("A", 342)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := oidctest.New(t)
			op.User = ann
			spoil(op)
			_, err := signIn(t, op, port(t, op.URL), grant)
			wantFailed(t, err, fault.Upstream)
		})
	}
}

func TestPartyThatIsUs(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	op.User = ann
	op.Twist = func(c oidctest.Claims) { c["aud"], c["azp"] = []string{"other", oidctest.ClientID}, oidctest.ClientID }
	if _, err := signIn(t, op, port(t, op.URL), grant); err != nil {
		t.Error(err)
	}
}

func TestPKCE(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	op.User = ann
	p := port(t, op.URL)
	to, err := p.Start(t.Context(), grant)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(to, grant.Verifier) {
		t.Error("the verifier is told to the browser")
	}
	at, _ := url.Parse(to)
	finish := func(g signin.Grant, code string) error {
		_, err := p.Finish(t.Context(), g, code)
		return err
	}
	code := func() string {
		back, failure := op.Authorize(at.Query())
		if failure != "" {
			t.Fatal(failure)
		}
		parsed, _ := url.Parse(back)
		return parsed.Query().Get("code")
	}
	altered := grant
	altered.Verifier = strings.Repeat("w", 43)
	wantFailed(t, finish(altered, code()), fault.Malformed)
	moved := grant
	moved.Redirect = "https://evil.example.com/callback"
	wantFailed(t, finish(moved, code()), fault.Malformed)
	good := code()
	if err := finish(grant, good); err != nil {
		t.Fatal(err)
	}
	wantFailed(t, finish(grant, good), fault.Malformed)
	wantFailed(t, finish(grant, "guessed"), fault.Malformed)
}

func TestProviderThatFails(t *testing.T) {
	t.Parallel()
	t.Run("discovery", func(t *testing.T) {
		t.Parallel()
		op := oidctest.New(t)
		op.User = ann
		op.Broken["/.well-known/openid-configuration"] = true
		p := port(t, op.URL)
		_, err := p.Start(t.Context(), grant)
		wantFailed(t, err, fault.Upstream)
		op.Broken = nil // it recovers, and agentd is not restarted
		if _, err := signIn(t, op, p, grant); err != nil {
			t.Error(err)
		}
	})
	t.Run("discovery of another", func(t *testing.T) {
		t.Parallel()
		op := oidctest.New(t)
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			resp, err := http.Get(op.URL + r.URL.Path)
			if err != nil {
				return
			}
			defer resp.Body.Close()
			_ = resp.Write(w)
		}))
		defer proxy.Close()
		_, err := port(t, proxy.URL).Start(t.Context(), grant)
		wantFailed(t, err, fault.Upstream)
	})
	for _, path := range []string{"/token", "/keys"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			op := oidctest.New(t)
			op.User = ann
			op.Broken[path] = true
			_, err := signIn(t, op, port(t, op.URL), grant)
			wantFailed(t, err, fault.Upstream)
		})
	}
	t.Run("redirect with the secret", func(t *testing.T) {
		t.Parallel()
		op := oidctest.New(t)
		op.User = ann
		op.Redirect["/token"] = true
		_, err := signIn(t, op, port(t, op.URL), grant)
		wantFailed(t, err, fault.Upstream)
	})
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		op := oidctest.New(t)
		p := port(t, op.URL)
		op.Close()
		_, err := p.Start(t.Context(), grant)
		wantFailed(t, err, fault.Upstream)
	})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		defer server.Close()
		defer close(release)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := port(t, server.URL).Start(ctx, grant)
		wantFailed(t, err, fault.UpstreamTimeout)
	})
	t.Run("endless", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}))
		defer server.Close()
		_, err := port(t, server.URL).Start(t.Context(), grant)
		wantFailed(t, err, fault.Upstream)
	})
}

// A token that a page hands over counts if it is the provider's, for us, and still valid;
// whatever strangers send has the keys read once in ten seconds at most.
func TestVerify(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	clk := clock.NewFake()
	op.Now = clk.Now
	var asked atomic.Int64
	client := oidcclient.NewOver(clk, counting{http.DefaultTransport.(*http.Transport).Clone(), &asked})
	t.Cleanup(client.Close)
	p := client.Provider(signin.ProviderConfig{ID: "google", Name: "Google", Issuer: op.URL, ClientID: oidctest.ClientID})
	claims := func(more oidctest.Claims) oidctest.Claims {
		all := oidctest.Claims{
			"iss": op.URL, "aud": oidctest.ClientID, "azp": oidctest.ClientID, "sub": "ann", "email": "ann@example.com", "email_verified": true,
			"iat": clk.Now().Unix(), "exp": clk.Now().Add(time.Hour).Unix(),
		}
		maps.Copy(all, more)
		return all
	}
	want := signin.Claims{Issuer: op.URL, Subject: "ann", Email: "ann@example.com", EmailVerified: true}
	got, err := p.Verify(t.Context(), op.Sign(claims(nil)))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for name, token := range map[string]string{
		"another client": op.Sign(claims(oidctest.Claims{"aud": "another"})), "another party": op.Sign(claims(oidctest.Claims{"azp": "another"})),
		"another issuer": op.Sign(claims(oidctest.Claims{"iss": "https://accounts.google.com"})),
		"expired":        op.Sign(claims(oidctest.Claims{"exp": clk.Now().Add(-time.Minute).Unix()})),
		"nobody":         op.Sign(claims(oidctest.Claims{"sub": ""})), "no token": "x", "empty parts": "..",
		"no signature": strings.Join(strings.Split(op.Sign(claims(nil)), ".")[:2], ".") + ".",
	} {
		if _, err := p.Verify(t.Context(), token); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := oidctest.New(t)
	before := asked.Load()
	for range 20 {
		if _, err := p.Verify(t.Context(), other.Sign(claims(nil))); !fault.Is(err, fault.Unauthenticated) {
			t.Error(err)
		}
	}
	if n := asked.Load() - before; n > 1 {
		t.Errorf("tokens of strangers had the keys read %d times", n)
	}
	op.Rotate(t)
	clk.Advance(11 * time.Second)
	if _, err := p.Verify(t.Context(), op.Sign(claims(nil))); err != nil {
		t.Errorf("after a new key: %v", err)
	}
}

// counting counts what a transport sends.
type counting struct {
	*http.Transport
	n *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.Transport.RoundTrip(r)
}

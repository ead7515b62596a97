package connectorclient_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/delivery/integration"
)

// provider is a simulated OAuth provider that checks the protocol: the client, the
// redirect URI, PKCE, codes and refresh tokens that work once. It is the API too.
type provider struct {
	mu        sync.Mutex
	n         int
	codes     map[string]string // challenge by code
	access    map[string]bool
	refresh   map[string]bool
	refreshes int
	hang      chan struct{} // not nil: it never answers
}

func newProvider() *provider {
	return &provider{codes: map[string]string{}, access: map[string]bool{}, refresh: map[string]bool{}}
}

const callback = "https://agentd.example/api/v1/integrations/github/oauth/callback"

// authorize is a person who follows the link and agrees.
func (p *provider) authorize(t *testing.T, link string) (code, state string) {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if q.Get("client_id") != "our-client" || q.Get("redirect_uri") != callback || q.Get("response_type") != "code" ||
		q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("scope") != "repo read:user" {
		t.Fatalf("the link is %s", link)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	code = "code-" + strconv.Itoa(p.n)
	p.codes[code] = q.Get("code_challenge")
	return code, q.Get("state")
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Path == "/user" {
		if !p.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
			answer(w, 401, object{"message": "Bad credentials"})
			return
		}
		answer(w, 200, object{"login": "ada"})
		return
	}
	if p.hang != nil {
		<-p.hang
		return
	}
	good := r.PostFormValue("client_id") == "our-client" && r.PostFormValue("client_secret") == "our-secret"
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		code := r.PostFormValue("code")
		good = good && p.codes[code] == base64.RawURLEncoding.EncodeToString(sum[:]) && r.PostFormValue("redirect_uri") == callback
		delete(p.codes, code)
	case "refresh_token":
		p.refreshes++
		good = good && p.refresh[r.PostFormValue("refresh_token")]
		delete(p.refresh, r.PostFormValue("refresh_token"))
	default:
		good = false
	}
	if !good {
		answer(w, 400, object{"error": "invalid_grant"})
		return
	}
	p.n++
	access, refresh := "access-"+strconv.Itoa(p.n), "refresh-"+strconv.Itoa(p.n)
	p.access[access], p.refresh[refresh] = true, true
	answer(w, 200, object{"access_token": access, "refresh_token": refresh, "token_type": "bot", "expires_in": 3600})
}

// withProvider sets the operator's client at the provider.
func withProvider(f *fixture) (*provider, string) {
	p := newProvider()
	address := serve(f.t, p)
	f.operator.clients["github"] = integration.Client{
		ID: "our-client", Secret: "our-secret", AuthorizeURL: address + "/authorize", TokenURL: address + "/token",
	}
	return p, address
}

// A person authorizes an integration; its token is renewed by itself; when it counts no
// more, the integration says so and can be authorized again.
func TestOAuth(t *testing.T) {
	t.Parallel()
	eachDB(t, func(f *fixture) {
		t := f.t
		p, address := withProvider(f)
		begun := f.must("startIntegrationOAuth", object{"agent_id": f.agent, "name": "Ours", "extra": object{"base_url": address}}, "github")
		code, state := p.authorize(t, begun["auth_url"].(string))
		if state != begun["state"] {
			t.Errorf("the state is %q in the link", state)
		}
		if err := f.CheckCallback("github", state, code, ""); err != nil {
			t.Errorf("the callback: %v", err)
		}
		made := f.must("completeIntegrationOAuth", object{"state": state, "code": code}, "github")
		if made["status"] != "active" || made["name"] != "Ours" || made["agent_id"] != f.agent || made["connect_error"] != nil {
			t.Fatalf("the integration is %v", made)
		}
		if res := f.call("github_get_user", object{}); !strings.Contains(res.Output, "ada") {
			t.Errorf("a call: %+v", res)
		}
		// The provider forgets the token; the refresh token still counts, once.
		p.mu.Lock()
		clear(p.access)
		p.mu.Unlock()
		if res := f.call("github_get_user", object{}); !strings.Contains(res.Output, "ada") || p.refreshes != 1 {
			t.Errorf("after the token was refused: %+v, %d refreshes", res, p.refreshes)
		}
		f.clock.Advance(time.Until(f.clock.Now()).Abs() + 2*time.Hour) // tokens expire by the clock of the wall
		if res := f.call("github_get_user", object{}); !strings.Contains(res.Output, "ada") || p.refreshes != 2 {
			t.Errorf("after the token ran out: %+v, %d refreshes", res, p.refreshes)
		}
		p.mu.Lock()
		clear(p.access)
		clear(p.refresh)
		p.mu.Unlock()
		if res := f.call("github_get_user", object{}); !res.Failed || !strings.Contains(res.Output, "must authorize the integration again") {
			t.Errorf("after the authorization was revoked: %+v", res)
		}
		if got := f.must("getIntegration", nil, id(f)); got["status"] != "error" {
			t.Errorf("the integration is %v", got)
		}
		again := f.must("startIntegrationOAuth", object{"integration_id": id(f)}, "github")
		code, state = p.authorize(t, again["auth_url"].(string))
		if got := f.must("completeIntegrationOAuth", object{"state": state, "code": code, "agent_id": f.agent}, "github"); got["status"] != "active" || got["id"] != id(f) {
			t.Errorf("authorized again: %v", got)
		}
		_, err := f.do("patchIntegration", object{"config": object{"base_url": "https://evil.example"}}, id(f))
		if fault.From(err).Code != "secret_would_move" {
			t.Errorf("moving a token: %v", err)
		}
	})
}

// A state works once, in time, for the person who began, at the provider that was
// asked.
func TestOAuthStates(t *testing.T) {
	t.Parallel()
	f := onSQLite(t)
	p, address := withProvider(f)
	start := func() (code, state string) {
		begun := f.must("startIntegrationOAuth", object{"agent_id": f.agent, "extra": object{"base_url": address}}, "github")
		return p.authorize(t, begun["auth_url"].(string))
	}
	complete := func(who authz.Caller, provider, state, code string) error {
		_, err := f.doAs(who, "completeIntegrationOAuth", object{"state": state, "code": code, "agent_id": f.agent}, provider)
		return err
	}
	is := func(what string, err error, kind fault.Kind) {
		t.Helper()
		if !fault.Is(err, kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
	code, state := start()
	is("another company", complete(authz.Caller{TenantID: ident.New(), UserID: f.who.UserID}, "github", state, code), fault.Forbidden)
	is("another person", complete(authz.Caller{TenantID: f.who.TenantID, UserID: ident.New()}, "github", state, code), fault.Forbidden)
	is("no state of ours", complete(f.who, "github", "made-up", code), fault.Malformed)
	if err := complete(f.who, "github", state, code); err != nil {
		t.Errorf("the person who began: %v", err)
	}
	is("a second time", complete(f.who, "github", state, code), fault.Malformed)
	code, state = start()
	is("another provider", complete(f.who, "google", state, code), fault.Malformed)
	_, state = start()
	is("a code that was made up", complete(f.who, "github", state, "code-0"), fault.Malformed)
	code, state = start()
	f.clock.Advance(11 * time.Minute)
	is("too late", complete(f.who, "github", state, code), fault.Malformed)
	is("a callback too late", f.CheckCallback("github", state, code, ""), fault.Malformed)
	_, state = start()
	is("a refusal", f.CheckCallback("github", state, "", "access_denied"), fault.Malformed)
	is("a callback of no provider", f.CheckCallback("nothing", state, "c", ""), fault.Malformed)

	code, state = start()
	p.hang = make(chan struct{})
	defer close(p.hang)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _, err := f.Complete(ctx, f.who, "github", &integration.CompleteBody{State: state, Code: code})
	if err == nil || !fault.Is(err, fault.Unavailable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a provider that hangs: %v", err)
	}
}

func TestOAuthStartsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := onSQLite(t)
	_, err := f.do("startIntegrationOAuth", object{"agent_id": f.agent}, "github")
	if fault.From(err).Code != "PREREQUISITE_MISSING" {
		t.Errorf("without a client of the operator: %v", err)
	}
	withProvider(f)
	for name, test := range map[string]struct {
		provider string
		body     object
		kind     fault.Kind
	}{
		"unknown provider":  {"facebook", object{}, fault.Invalid},
		"other connector":   {"github", object{"connector_id": "slack"}, fault.Invalid},
		"unknown agent":     {"github", object{"agent_id": nobody}, fault.NotFound},
		"bad scope":         {"github", object{"scopes": []string{"a b"}}, fault.Invalid},
		"bad extra":         {"github", object{"extra": object{"color": "red"}}, fault.Invalid},
		"other integration": {"github", object{"integration_id": ident.New()}, fault.NotFound},
	} {
		if _, err := f.do("startIntegrationOAuth", test.body, test.provider); !fault.Is(err, test.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	waits := f.must("createIntegration", object{"connector_id": "github", "name": "later"})
	if waits["status"] != "inactive" || waits["connect_error"] != nil {
		t.Errorf("before a person authorized it: %v", waits)
	}
	if test := f.must("testIntegration", nil, waits["id"].(string)); test["success"] != false || !strings.Contains(test["message"].(string), "/github/oauth/start") {
		t.Errorf("its test: %v", test)
	}
}

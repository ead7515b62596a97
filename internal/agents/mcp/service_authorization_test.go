package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/agents/mcp"
	"agentd/internal/agents/mcp/mcpsql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// provider is an authorization server whose refresh tokens count once.
type provider struct {
	mu        sync.Mutex
	number    int
	refreshes int
	reused    bool
	down      bool
}

func (p *provider) Discover(context.Context, string) (mcp.Provider, error) {
	return mcp.Provider{Issuer: "https://as.example", Authorize: "https://as.example/authorize", Token: "https://as.example/token", Registration: "https://as.example/register"}, nil
}

func (p *provider) Register(context.Context, mcp.Provider, string, string) (mcp.Client, error) {
	return mcp.Client{ID: "c"}, nil
}

func (p *provider) AuthorizeURL(_ mcp.Provider, _ mcp.Client, redirect, state, _ string) string {
	return redirect + "|" + state
}

func (p *provider) Exchange(context.Context, mcp.Provider, mcp.Client, string, string, string) (mcp.Token, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.token(), nil
}

func (p *provider) token() mcp.Token {
	p.number++
	return mcp.Token{Access: fmt.Sprint("access-", p.number), Refresh: fmt.Sprint("refresh-", p.number), Expiry: clock.NewFake().Now().Add(time.Hour)}
}

func (p *provider) Refresh(_ context.Context, _ mcp.Provider, _ mcp.Client, refresh string) (mcp.Token, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return mcp.Token{}, fault.New(fault.Unavailable, "OAUTH_FAILED", "It is down.")
	}
	p.refreshes++
	if refresh != fmt.Sprint("refresh-", p.number) {
		p.reused = true
		return mcp.Token{}, mcp.ErrInvalidGrant
	}
	return p.token(), nil
}

// begin consents to what a link asks for, in a browser.
func (f *fixture) begin(state string) (location string, err error) {
	f.t.Helper()
	asked, err := f.Ask(f.t.Context(), f.who, state)
	if err != nil {
		return "", err
	}
	return f.Begin(f.t.Context(), f.who, asked.Token, "browser")
}

// authorized has a server that a person has authorized, and its tokens.
func (f *fixture) authorized() (id string, tokens mcp.Tokens) {
	f.t.Helper()
	caught := &catching{remote: f.remote}
	f.port.Remote = caught
	id = f.add(`{"name":"A","transport":"http","url":"https://a.example","assigned_agent_ids":["me"]}`)
	out, err := f.do("authorizeMcpServer", id, "")
	if err != nil {
		f.t.Fatal(err)
	}
	_, state, _ := strings.Cut(member(f.t, out, "authorization_url"), "?state=")
	location, err := f.begin(state)
	if err != nil {
		f.t.Fatal(err)
	}
	redirect, back, _ := strings.Cut(location, "|")
	if redirect != "https://agentd.example/api/v1/mcp/oauth/callback" {
		f.t.Errorf("the person is sent back to %s", redirect)
	}
	if _, err := f.Finish(f.t.Context(), mcp.CallbackParams{State: back, Code: "code", Issuer: "https://as.example", Browser: "browser"}); err != nil {
		f.t.Fatal(err)
	}
	return id, caught.target.Tokens
}

// catching keeps the target that it is asked about.
type catching struct {
	*remote
	target *mcp.Target
	token  string
}

func (c *catching) Probe(ctx context.Context, t *mcp.Target) (*mcp.Listing, error) {
	c.target = t
	c.token, _ = t.Tokens.Token(ctx, "") // "" where there is none
	return c.remote.Probe(ctx, t)
}

// However many calls find the token expired, it is refreshed once.
func TestTokensAreRefreshedOnce(t *testing.T) {
	t.Parallel()
	eachDB(t, func(f *fixture) {
		t := f.t
		_, tokens := f.authorized()
		if got, err := tokens.Token(t.Context(), ""); err != nil || got != "access-1" {
			t.Fatalf("token = %q, %v", got, err)
		}
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				if got, err := tokens.Token(t.Context(), "access-1"); err != nil || got != "access-2" {
					t.Errorf("token = %q, %v", got, err)
				}
			})
		}
		callers.Wait()
		if f.oauth.refreshes != 1 || f.oauth.reused {
			t.Errorf("%d refreshes, reused %t", f.oauth.refreshes, f.oauth.reused)
		}
		f.clock.Advance(59*time.Minute + 40*time.Second) // it would expire on the way
		if got, err := tokens.Token(t.Context(), ""); err != nil || got != "access-3" {
			t.Errorf("an old token = %q, %v", got, err)
		}
		f.oauth.down = true
		if _, err := tokens.Token(t.Context(), "access-3"); fault.From(err).Code != "OAUTH_FAILED" {
			t.Errorf("a provider that is down: %v", err)
		}
		f.oauth.down = false
		f.oauth.number = 9 // the refresh token does not count any more
		if _, err := tokens.Token(t.Context(), "access-3"); !errors.Is(err, mcp.ErrUnauthorized) {
			t.Errorf("a grant that is over: %v", err)
		}
		if got, err := tokens.Token(t.Context(), ""); err != nil || got != "" {
			t.Errorf("after that: %q, %v", got, err)
		}
	})
}

// What was authorized for one place counts for no other.
func TestAuthorizationStaysWhereItWasGiven(t *testing.T) {
	t.Parallel()
	eachDB(t, func(f *fixture) {
		t := f.t
		id, tokens := f.authorized()
		moved := &catching{remote: f.remote}
		f.port.Remote = moved
		if _, err := f.do("patchMcpServer", id, `{"url":"https://elsewhere.example"}`); err != nil {
			t.Fatal(err)
		}
		if got, err := tokens.Token(t.Context(), ""); err != nil || got != "" {
			t.Errorf("after a move: %q, %v", got, err)
		}
		if moved.token != "" {
			t.Errorf("the place that it moves to is tried with %q", moved.token)
		}
	})
}

// A link works for a week, and for a minute of it after ten there is no way
// back.
func TestLinksExpire(t *testing.T) {
	t.Parallel()
	f := newFixture(t, sqldbtest.Open(t, sqldbtest.SQLite))
	id := f.add(`{"name":"A","transport":"http","url":"https://a.example"}`)
	out, err := f.do("authorizeMcpServer", id, "")
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(member(t, out, "authorization_url"), "?state=")
	f.clock.Advance(6 * 24 * time.Hour)
	location, err := f.begin(state)
	if err != nil {
		t.Fatal(err)
	}
	_, back, _ := strings.Cut(location, "|")
	f.clock.Advance(11 * time.Minute)
	if _, err := f.Finish(t.Context(), mcp.CallbackParams{State: back, Code: "c", Browser: "browser"}); !fault.Is(err, fault.Malformed) {
		t.Errorf("after eleven minutes: %v", err)
	}
	f.clock.Advance(24 * time.Hour)
	if _, err := f.begin(state); !fault.Is(err, fault.Malformed) {
		t.Errorf("after a week: %v", err)
	}
}

// A link authorizes nothing by itself: only a member of its company can consent, only
// the credential that saw the page can send the consent, and only the browser that
// began can complete it.
func TestConsent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, sqldbtest.Open(t, sqldbtest.SQLite))
	id := f.add(`{"name":"A","transport":"http","url":"https://a.example"}`)
	out, err := f.do("authorizeMcpServer", id, "")
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(member(t, out, "authorization_url"), "?state=")
	colleague, stranger, key := f.who, f.who, f.who
	colleague.SessionID, colleague.UserID = ident.New(), ident.New()
	stranger.TenantID = ident.New()
	key.Method = "api_key"
	for name, who := range map[string]authz.Caller{"another company": stranger, "a key": key} {
		if _, err := f.Ask(t.Context(), who, state); !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	asked, err := f.Ask(t.Context(), f.who, state)
	if err != nil || asked.Company != "Acme" || asked.Server != "A" || asked.URL != "https://a.example" || asked.AskedBy != "Ann" {
		t.Fatalf("%+v, %v", asked, err)
	}
	for name, who := range map[string]authz.Caller{"a colleague": colleague, "another company": stranger} {
		if _, err := f.Begin(t.Context(), who, asked.Token, "theirs"); err == nil {
			t.Errorf("%s sends the consent of another", name)
		}
	}
	if _, err := f.Begin(t.Context(), f.who, state, "browser"); !fault.Is(err, fault.Malformed) {
		t.Errorf("the link in place of a consent: %v", err)
	}
	location, err := f.Begin(t.Context(), f.who, asked.Token, "browser")
	if err != nil {
		t.Fatal(err)
	}
	_, back, _ := strings.Cut(location, "|")
	answer := mcp.CallbackParams{State: back, Code: "code", Issuer: "https://as.example"}
	for _, browser := range []string{"", "theirs"} {
		answer.Browser = browser
		if _, err := f.Finish(t.Context(), answer); !fault.Is(err, fault.Malformed) {
			t.Errorf("the browser %q completes it: %v", browser, err)
		}
	}
	answer.Browser = "browser"
	if server, err := f.Finish(t.Context(), answer); err != nil || server != "A" {
		t.Errorf("%s, %v", server, err)
	}
	asked, _ = f.Ask(t.Context(), f.who, state)
	f.clock.Advance(11 * time.Minute)
	if _, err := f.Begin(t.Context(), f.who, asked.Token, "browser"); !fault.Is(err, fault.Malformed) {
		t.Errorf("a consent of eleven minutes ago: %v", err)
	}
}

// The rows of one tenant are nothing to another.
func TestGrants(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		store, now := mcpsql.New(db), clock.NewFake().Now()
		write := func(do func(tx txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), do); err != nil {
				t.Fatal(err)
			}
		}
		write(func(tx txn.Tx) error {
			if err := store.CreatePendingTx(tx, mcp.Pending{TenantID: "a", ID: "p", ServerID: "s", Expires: now, Sealed: []byte{0, 1}}, now.Add(-time.Hour)); err != nil {
				return err
			}
			return store.PutTx(tx, "a", "s", []byte{0, 255})
		})
		if g, err := store.Get(t.Context(), "b", "s"); err != nil || g != nil {
			t.Errorf("another tenant's grant: %v, %v", g, err)
		}
		g, err := store.Get(t.Context(), "a", "s")
		if err != nil || g.Version != 1 || string(g.Sealed) != "\x00\xff" {
			t.Fatalf("grant = %+v, %v", g, err)
		}
		write(func(tx txn.Tx) error {
			first, err := store.ClaimTx(tx, g, now, now.Add(time.Minute))
			if err != nil {
				return err
			}
			second, err := store.ClaimTx(tx, g, now, now.Add(time.Minute))
			if err != nil {
				return err
			}
			late, err := store.ClaimTx(tx, g, now.Add(2*time.Minute), now.Add(3*time.Minute))
			if !first || second || !late {
				t.Errorf("claims: %t, %t, and %t after its time", first, second, late)
			}
			return err
		})
		write(func(tx txn.Tx) error { return store.UpdateTx(tx, g, []byte("new")) })
		write(func(tx txn.Tx) error { return store.UpdateTx(tx, g, []byte("from an older version")) })
		write(func(tx txn.Tx) error { return store.DeleteVersionTx(tx, g) })
		if g, err = store.Get(t.Context(), "a", "s"); err != nil || g == nil || g.Version != 2 || string(g.Sealed) != "new" {
			t.Errorf("renewed = %+v, %v", g, err)
		}
		write(func(tx txn.Tx) error {
			for _, c := range []struct {
				tenant string
				found  bool
			}{{"b", false}, {"a", true}, {"a", false}} {
				p, err := store.ConsumePendingTx(tx, c.tenant, "p")
				if err != nil || (p != nil) != c.found {
					t.Errorf("pending of %s: %+v, %v", c.tenant, p, err)
				}
			}
			return store.DeleteTx(tx, "a", "s")
		})
		if g, err := store.Get(t.Context(), "a", "s"); err != nil || g != nil {
			t.Errorf("deleted = %+v, %v", g, err)
		}
	})
}

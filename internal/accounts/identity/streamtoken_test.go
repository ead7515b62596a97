package identity_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

const tokensPath = "/api/v1/auth/sse-tokens"

func (n node) token(t *testing.T, who authz.Caller) string {
	t.Helper()
	token, expires, err := n.StreamToken(who)
	if err != nil {
		t.Fatal(err)
	}
	if left := expires.Sub(n.clock.Now()); left <= 59*time.Second || left > time.Minute {
		t.Errorf("the token lasts %v", left)
	}
	return token
}

func TestStreamTokens(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		n, there := newNode(db, clk), newNode(db, clk)
		g := n.tenant(t, "acme")
		owner := n.authenticated(t, g.RawKey)
		for _, tt := range []struct{ has, carries []authz.Scope }{
			{[]authz.Scope{"*"}, []authz.Scope{"sessions:read", "runs:read", "agents:read", "notifications:read", "runs:create"}},
			{[]authz.Scope{"admin"}, []authz.Scope{"sessions:read", "runs:read", "agents:read", "notifications:read", "runs:create"}},
			{[]authz.Scope{"runs:read", "events:read", "runs:create"}, []authz.Scope{"runs:read", "runs:create"}},
			{[]authz.Scope{"notifications:read", "sessions:read"}, []authz.Scope{"sessions:read", "notifications:read"}},
			{[]authz.Scope{"events:read", "memory:read"}, nil},
			{nil, nil},
		} {
			key, raw, err := n.Keys.Create(t.Context(), owner, "k", append([]authz.Scope{}, tt.has...))
			if err != nil {
				t.Fatal(err)
			}
			who := n.authenticated(t, raw)
			if tt.carries == nil {
				_, _, err := n.StreamToken(who)
				wantFault(t, err, fault.Forbidden, "MISSING_SCOPE")
				_, err = call(t, n, who, "POST", tokensPath, "", "")
				wantFault(t, err, fault.Forbidden, "MISSING_SCOPE")
				continue
			}
			made, err := call(t, n, who, "POST", tokensPath, "", "")
			if err != nil || made["expires_at"] != "2026-09-10T12:01:00Z" || len(made) != 2 {
				t.Errorf("made %v, %v", made, err)
			}
			token := made["token"].(string)
			if len(token) > 300 || strings.ContainsAny(token, "+/=&? ") {
				t.Errorf("a token that suits no address: %s", token)
			}
			want := authz.Caller{
				TenantID: g.TenantID, UserID: g.UserID, KeyID: key.KeyID, Role: authz.Owner, Scopes: tt.carries, Method: "api_key", StreamOnly: true,
			}
			for _, node := range []node{n, there} { // every node accepts it
				got, err := node.Authenticate(t.Context(), token)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Error(err, diff)
				}
				if err := node.Valid(t.Context(), got); err != nil {
					t.Error(err)
				}
			}
			_, _, err = n.StreamToken(want) // none makes another
			wantFault(t, err, fault.Forbidden, "STREAM_TOKEN_ONLY")
			_, _, err = n.AuthenticateSession(t.Context(), token)
			wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		}
	})
}

func TestStreamTokensAreRefused(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		n := newNode(db, clk)
		g := n.tenant(t, "acme")
		owner := n.authenticated(t, g.RawKey)
		good := n.token(t, owner)
		alone := identity.New(identity.Config{DB: db, Store: identitysql.New(db), Clock: clk}) // another deployment's
		forged, _, err := alone.StreamToken(owner)
		if err != nil {
			t.Fatal(err)
		}
		bad := []string{
			forged, "svt_", "svt_x", good + "A", good[:len(good)-1], good[:len(good)-4], strings.ToUpper(good), good[:20] + "\n" + good[20:], good +
				"=",
			strings.Replace(good, "svt_", "svc_", 1), strings.Replace(good, "svt_", "SVT_", 1), "svt_" + strings.Repeat("A", 10_000),
			"svt_" + base64.RawURLEncoding.EncodeToString(make([]byte, 60)),
		}
		for i := len("svt_"); i < len(good); i++ { // each character counts
			c := byte('A')
			if good[i] == c {
				c = 'B'
			}
			bad = append(bad, good[:i]+string(c)+good[i+1:])
		}
		for _, token := range bad {
			if _, err := n.Authenticate(t.Context(), token); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("%q: %v", token, err)
			}
		}
		n.pass(time.Minute - time.Microsecond)
		who, err := n.Authenticate(t.Context(), good)
		if err != nil {
			t.Error(err)
		}
		n.pass(time.Microsecond)
		_, err = n.Authenticate(t.Context(), good)
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		n.pass(time.Hour)
		if err := n.Valid(t.Context(), who); err != nil { // the stream goes on
			t.Error(err)
		}
	})
}

// A token is worth what made it: it dies and shrinks with it, at once.
func TestStreamTokensDieWithWhatMadeThem(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		g := n.tenant(t, "acme")
		owner := n.authenticated(t, g.RawKey)
		die := func(what string, token string, kind fault.Kind, code string, kill func(tx txn.Tx) error) {
			t.Helper()
			who, err := n.Authenticate(t.Context(), token)
			if err != nil {
				t.Fatal(what, err)
			}
			n.write(t, kill)
			_, err = n.Authenticate(t.Context(), token)
			wantFault(t, err, kind, code)
			wantFault(t, n.Valid(t.Context(), who), kind, code) // and so do its streams
		}
		key, raw, err := n.Keys.Create(t.Context(), owner, "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		token := n.token(t, n.authenticated(t, raw))
		if _, err := n.Authenticate(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		if err := n.Keys.Revoke(t.Context(), owner, key.KeyID); err != nil {
			t.Fatal(err)
		}
		_, err = n.Authenticate(t.Context(), token)
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")

		_, session := n.signIn(t, g.TenantID, g.UserID, identity.Device{})
		die("session", n.token(t, n.inside(t, session)), fault.Unauthenticated, "AUTH_ERROR", func(tx txn.Tx) error {
			return n.Sessions.EndAll(tx, g.TenantID, g.UserID, "")
		})
		one, session := n.signIn(t, g.TenantID, g.UserID, identity.Device{})
		elsewhere := n.tenant(t, "elsewhere")
		die("session that moved", n.token(t, n.inside(t, session)), fault.Unauthenticated, "AUTH_ERROR", func(tx txn.Tx) error {
			return n.Sessions.Switch(tx, one.SessionID, identity.Member{TenantID: elsewhere.TenantID, UserID: elsewhere.UserID})
		})

		token = n.token(t, owner)
		change := func(statement string) func(tx txn.Tx) error {
			return func(tx txn.Tx) error {
				n.InvalidateAll(tx)
				_, err := sqldb.From(tx).Exec(statement)
				return err
			}
		}
		n.write(t, change(`UPDATE api_keys SET scopes = 'runs:read'`))
		if who, err := n.Authenticate(t.Context(), token); err != nil || !slices.Equal(who.Scopes, []authz.Scope{"runs:read"}) {
			t.Errorf("a token has more than what made it: %v, %v", who.Scopes, err)
		}
		die("member", token, fault.Forbidden, "MEMBER_SUSPENDED", change(`UPDATE users SET status = 'suspended'`))
	})
}

func BenchmarkAuthenticateSession(b *testing.B) {
	db := sqldbtest.Open(b, sqldbtest.SQLite)
	s, g := warm(b, db)
	var raw identity.RawSession
	err := db.Write(b.Context(), func(tx txn.Tx) (err error) {
		_, raw, err = s.Sessions.Open(tx, identity.Member{TenantID: g.TenantID, UserID: g.UserID}, identity.Device{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := s.AuthenticateSession(b.Context(), string(raw)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAuthenticateStreamToken(b *testing.B) {
	s, g := warm(b, sqldbtest.Open(b, sqldbtest.SQLite))
	who, err := s.Authenticate(b.Context(), string(g.RawKey))
	if err != nil {
		b.Fatal(err)
	}
	token, _, err := s.StreamToken(who)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Authenticate(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

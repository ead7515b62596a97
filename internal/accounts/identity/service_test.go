package identity_test

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// node is a process of a deployment: several share a database and the time.
type node struct {
	*identity.Service
	db      *sqldb.DB
	clock   *clock.Fake
	elapsed *atomic.Int64
}

func newNode(db *sqldb.DB, clk *clock.Fake, hint ...func(string)) node {
	n := node{db: db, clock: clk, elapsed: new(atomic.Int64)}
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	c := identity.Config{
		DB: db, Store: identitysql.New(db), Clock: clk, Log: slog.New(slog.DiscardHandler), Box: box,
		Elapsed: func() time.Duration { return time.Duration(n.elapsed.Load()) },
	}
	if len(hint) > 0 {
		c.Hint = hint[0]
	}
	n.Service = identity.New(c)
	return n
}

// pass lets time go by.
func (n node) pass(d time.Duration) {
	n.clock.Advance(d)
	n.elapsed.Add(int64(d))
}

// authenticated fails the test unless the key authenticates.
func (n node) authenticated(t *testing.T, key identity.RawKey) authz.Caller {
	t.Helper()
	who, err := n.Authenticate(t.Context(), string(key))
	if err != nil {
		t.Fatalf("the key is refused: %v", err)
	}
	return who
}

func wantFault(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	if f := fault.From(err); f == nil || f.Kind != kind || f.Code != code {
		t.Errorf("error %v, want %s", err, code)
	}
}

func bootstrap(t *testing.T, n node) identity.RawKey {
	t.Helper()
	g, made, err := n.Tenants.Bootstrap(t.Context(), secret.String{})
	if err != nil || !made {
		t.Fatalf("bootstrap: %v, %v", made, err)
	}
	return g.RawKey
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		var made atomic.Int64
		var key atomic.Value
		var wg sync.WaitGroup
		for range 8 { // processes that start at once
			wg.Go(func() {
				g, here, err := newNode(db, clk).Tenants.Bootstrap(t.Context(), secret.String{})
				if err != nil {
					t.Error(err)
				}
				if here {
					made.Add(1)
					key.Store(g.RawKey)
				} else if g.RawKey != "" {
					t.Error("a key is shown that was not made")
				}
			})
		}
		wg.Wait()
		if made.Load() != 1 {
			t.Fatalf("made %d times", made.Load())
		}
		n := newNode(db, clk)
		who := n.authenticated(t, key.Load().(identity.RawKey))
		if who.Role != authz.Owner || !who.Operator || !who.Has(authz.Wildcard) || who.Method != "api_key" || who.TenantID == "" ||
			who.UserID == "" || who.KeyID == "" {
			t.Errorf("caller %+v", who)
		}
		if _, again, err := n.Tenants.Bootstrap(t.Context(), secret.New("nonsense")); again || err != nil {
			t.Errorf("the owner's key matters on the first start only: %v, %v", again, err)
		}
	})
}

func TestBootstrapWithAGivenKey(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		if _, _, err := n.Tenants.Bootstrap(t.Context(), secret.New("svc_short_key")); err == nil ||
			!strings.Contains(err.Error(), "AGENTD_OWNER_KEY") || strings.Contains(err.Error(), "short") {
			t.Errorf("a key of a wrong form: %v", err)
		}
		// A tenant made before the first start may have the operator's short name.
		if _, err := n.Tenants.Create(t.Context(), "Operator", ""); err != nil {
			t.Fatal(err)
		}
		key := identity.NewRawKey()
		if _, made, err := n.Tenants.Bootstrap(t.Context(), secret.New(string(key))); !made || err != nil {
			t.Fatal(made, err)
		}
		if !n.authenticated(t, key).Operator {
			t.Error("the key is not the operator's")
		}
	})
}

func TestAuthenticateRefuses(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		key := bootstrap(t, n)
		var want string
		for _, raw := range []string{
			"", "nonsense", string(identity.NewRawKey()), // unknown
			string(key[:13]) + string(identity.NewRawKey()[13:]), // known, but another secret
			strings.ToUpper(string(key)),
		} {
			_, err := n.Authenticate(t.Context(), raw)
			wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
			if want == "" {
				want = err.Error()
			}
			if err.Error() != want {
				t.Errorf("the refusals differ: %v, %s", err, want)
			}
		}
		if !strings.Contains(want, "svc_session") {
			t.Errorf("the cookie is not named: %s", want)
		}
		n.authenticated(t, key) // also after all of that
	})
}

// sql changes the database behind the nodes' backs, as another version would.
func sql(t *testing.T, db *sqldb.DB, statement string, args ...any) {
	t.Helper()
	err := db.Write(t.Context(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(statement, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestChangesElsewhereTakeEffectWithinASecond(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		key := bootstrap(t, n)
		who := n.authenticated(t, key)
		check := func(step string, kind fault.Kind, code string) {
			t.Helper()
			n.pass(time.Second)
			_, err := n.Authenticate(t.Context(), string(key))
			again := n.Valid(t.Context(), who)
			if code == "" {
				if err != nil || again != nil {
					t.Errorf("%s: %v, %v", step, err, again)
				}
				return
			}
			wantFault(t, err, kind, code)
			wantFault(t, again, kind, code)
		}
		check("nothing", 0, "")
		sql(t, db, `UPDATE users SET role = 'viewer', status = 'suspended'`)
		n.authenticated(t, key) // what is warm is believed for a moment
		check("member", fault.Forbidden, "MEMBER_SUSPENDED")
		sql(t, db, `UPDATE tenants SET status = 'suspended'`)
		check("tenant", fault.Forbidden, "TENANT_SUSPENDED")
		if _, err := n.Authenticate(t.Context(), string(key[:13])+string(identity.NewRawKey()[13:])); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("without the secret nothing may be learnt: %v", err)
		}
		sql(t, db, `UPDATE tenants SET status = 'active'`)
		sql(t, db, `UPDATE users SET status = 'active'`)
		check("back", 0, "")
		if role := n.authenticated(t, key).Role; role != authz.Viewer {
			t.Errorf("role %s", role)
		}
		sql(t, db, `UPDATE api_keys SET expires_at = ?`, sqldb.Micros(n.clock.Now().Add(2*time.Second)))
		check("not yet expired", 0, "")
		check("expired", fault.Unauthenticated, "AUTH_ERROR")
		sql(t, db, `UPDATE api_keys SET expires_at = 0, status = 'revoked'`)
		check("revoked", fault.Unauthenticated, "AUTH_ERROR")
		sql(t, db, `DELETE FROM api_keys`)
		check("gone", fault.Unauthenticated, "AUTH_ERROR")
	})
}

func TestValidIsBoundToTheTenant(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		who := n.authenticated(t, bootstrap(t, n))
		if err := n.Valid(t.Context(), who); err != nil {
			t.Error(err)
		}
		who.TenantID = "another"
		wantFault(t, n.Valid(t.Context(), who), fault.Unauthenticated, "AUTH_ERROR")
	})
}

func TestUseIsRecorded(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		key := bootstrap(t, n)
		lastUse := func() time.Time {
			keys, err := n.Keys.List(t.Context(), n.authenticated(t, key))
			if err != nil {
				t.Fatal(err)
			}
			return keys[0].LastUsedAt
		}
		if at := lastUse(); !at.IsZero() {
			t.Errorf("used at %v before anything was recorded", at)
		}
		n.pass(time.Second)
		n.Start()
		first := n.clock.Now()
		n.authenticated(t, key)
		n.pass(10 * time.Second)
		n.authenticated(t, key)
		n.Stop() // writes what is pending
		if at := lastUse(); !at.Equal(first) {
			t.Errorf("used at %v, want %v", at, first)
		}
	})
}

func TestUnavailableIsNotUnauthenticated(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	n := newNode(db, clock.NewFake())
	key := bootstrap(t, n)
	sql(t, db, `ALTER TABLE users RENAME TO unavailable`) // a failing database
	if _, err := n.Authenticate(t.Context(), string(key)); err == nil || fault.Is(err, fault.Unauthenticated) {
		t.Errorf("error %v", err)
	}
	sql(t, db, `ALTER TABLE unavailable RENAME TO users`)
	n.authenticated(t, key) // a failure is not remembered
}

func TestCachedConcurrently(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		owner := n.authenticated(t, bootstrap(t, n))
		// Revoke while others authenticate: the key must be refused afterwards.
		for range 20 {
			key, raw, err := n.Keys.Create(t.Context(), owner, "k", nil)
			if err != nil {
				t.Fatal(err)
			}
			var revoked atomic.Bool
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for {
						before := revoked.Load()
						_, err := n.Authenticate(t.Context(), string(raw))
						if err == nil && before {
							t.Error("a revoked key got in")
							return
						}
						if err != nil {
							return
						}
					}
				})
			}
			if err := n.Keys.Revoke(t.Context(), owner, key.KeyID); err != nil {
				t.Error(err)
			}
			revoked.Store(true)
			wg.Wait()
		}
	})
}

// warm is a service that works, with its first tenant.
func warm(b *testing.B, db *sqldb.DB) (*identity.Service, identity.Grant) {
	s := identity.New(identity.Config{DB: db, Store: identitysql.New(db), Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)})
	s.Start()
	b.Cleanup(s.Stop)
	g, _, err := s.Tenants.Bootstrap(b.Context(), secret.String{})
	if err != nil {
		b.Fatal(err)
	}
	return s, g
}

func BenchmarkAuthenticate(b *testing.B) {
	s, g := warm(b, sqldbtest.Open(b, sqldbtest.SQLite))
	raw := string(g.RawKey)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Authenticate(b.Context(), raw); err != nil {
			b.Fatal(err)
		}
	}
}

func has(scopes []authz.Scope, s authz.Scope) bool { return slices.Contains(scopes, s) }

package identity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// write commits what a slice would.
func (n node) write(t *testing.T, do func(txn.Tx) error) {
	t.Helper()
	if err := n.db.Write(t.Context(), do); err != nil {
		t.Fatal(err)
	}
}

// signIn opens a session of a member.
func (n node) signIn(t *testing.T, tenantID, userID string, d identity.Device) (one identity.Session, raw identity.RawSession) {
	t.Helper()
	n.write(t, func(tx txn.Tx) (err error) {
		one, raw, err = n.Sessions.Open(tx, identity.Member{TenantID: tenantID, UserID: userID}, d)
		return err
	})
	return one, raw
}

// inside fails the test unless the session authenticates.
func (n node) inside(t *testing.T, raw identity.RawSession) authz.Caller {
	t.Helper()
	who, _, err := n.AuthenticateSession(t.Context(), string(raw))
	if err != nil {
		t.Fatalf("the session is refused: %v", err)
	}
	return who
}

func (n node) outside(t *testing.T, raw identity.RawSession, kind fault.Kind, code string) {
	t.Helper()
	_, _, err := n.AuthenticateSession(t.Context(), string(raw))
	wantFault(t, err, kind, code)
}

func (n node) tenant(t *testing.T, name string) identity.Grant {
	t.Helper()
	g, err := n.Tenants.Create(t.Context(), name, name+"@example.com")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSessionAuthenticates(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		g := n.tenant(t, "acme")
		one, raw := n.signIn(t, g.TenantID, g.UserID, identity.Device{
			Label: " Firefox\x00 on\nLinux\u200b " + strings.Repeat("ä", 200), Address: "192.0.2.1", Method: "otp",
		})
		if one.Label != "Firefox onLinux "+strings.Repeat("ä", 104) {
			t.Errorf("label %q", one.Label)
		}
		want := authz.Caller{
			TenantID: g.TenantID, UserID: g.UserID, SessionID: one.SessionID, Role: authz.Owner,
			Scopes: []authz.Scope{authz.Wildcard}, Method: "cookie",
		}
		if diff := cmp.Diff(want, n.inside(t, raw)); diff != "" {
			t.Error(diff)
		}
		if err := n.Valid(t.Context(), want); err != nil {
			t.Error(err)
		}
		for what, change := range map[string]func(*authz.Caller){
			"tenant":  func(c *authz.Caller) { c.TenantID = "another" },
			"user":    func(c *authz.Caller) { c.UserID = "another" },
			"session": func(c *authz.Caller) { c.SessionID = "another" },
			"as key":  func(c *authz.Caller) { c.KeyID, c.SessionID = c.SessionID, "" },
		} {
			who := want
			change(&who)
			if err := n.Valid(t.Context(), who); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("another %s: %v", what, err)
			}
		}

		other := identity.NewRawSession()
		for _, token := range []string{
			"", "svs_", string(other), string(raw[:17]) + string(other[17:]), string(raw) + "a", string(raw[:len(raw)-1]), string(g.RawKey),
			strings.Replace(string(raw), "svs_", "svc_", 1), `"` + string(raw) + `"`,
		} {
			n.outside(t, identity.RawSession(token), fault.Unauthenticated, "AUTH_ERROR")
		}
		_, err := n.Authenticate(t.Context(), string(raw)) // a session is no key
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")

		cookie := identity.SessionCookie(raw)
		if cookie.Name != "svc_session" || cookie.Value != string(raw) || cookie.Lasts != 90*24*time.Hour {
			t.Errorf("cookie %+v", cookie)
		}
		if gone := identity.NoSessionCookie(); gone.Name != cookie.Name || gone.Value != "" || gone.Lasts != 0 {
			t.Errorf("no cookie %+v", gone)
		}
	})
}

func TestRawSessionIsNotSeen(t *testing.T) {
	t.Parallel()
	raw := identity.NewRawSession()
	if seen := fmt.Sprintf("%s %v %q %x %#v %v", raw, raw, raw, raw, raw, raw.LogValue()); strings.Contains(seen, string(raw[17:])) {
		t.Errorf("the token is seen in %s", seen)
	}
}

// A session carries what its member's role can use at the moment.
func TestSessionFollowsItsMember(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		here, there := newNode(db, clk), newNode(db, clk)
		g := here.tenant(t, "acme")
		_, raw := here.signIn(t, g.TenantID, g.UserID, identity.Device{})
		change := func(statement string, args ...any) {
			here.write(t, func(tx txn.Tx) error {
				here.InvalidateAll(tx)
				_, err := sqldb.From(tx).Exec(statement, args...)
				return err
			})
		}
		for _, tt := range []struct {
			role       authz.Role
			has, lacks []authz.Scope
		}{
			{authz.Viewer, []authz.Scope{"runs:read", "read:analytics", "users:read", "billing:read"},
				[]authz.Scope{"runs:create", "agents:write", "notifications:write", "api_keys:write", "*"}},
			{authz.Developer, []authz.Scope{"runs:read", "runs:create", "marketplace:invoke", "agents:write"},
				[]authz.Scope{"webhooks:write", "users:write", "tenants:write", "api_keys:write"}},
			{authz.Admin, []authz.Scope{"webhooks:write", "api_keys:write", "tenants:write", "admin"}, nil},
			{authz.Owner, []authz.Scope{"*"}, nil},
		} {
			here.inside(t, raw) // warm
			there.inside(t, raw)
			change(`UPDATE users SET role = ?`, string(tt.role))
			for _, n := range []node{here, there} {
				who := n.inside(t, raw) // here at once
				if who.Role != tt.role {
					t.Errorf("role %s, want %s", who.Role, tt.role)
				}
				for _, s := range tt.has {
					if !who.Has(s) {
						t.Errorf("%s lacks %s", tt.role, s)
					}
				}
				for _, s := range tt.lacks {
					if who.Has(s) {
						t.Errorf("%s has %s", tt.role, s)
					}
				}
				there.pass(time.Second) // there within a second
			}
		}
		change(`UPDATE users SET status = 'suspended'`)
		here.outside(t, raw, fault.Forbidden, "MEMBER_SUSPENDED")
		there.pass(time.Second)
		there.outside(t, raw, fault.Forbidden, "MEMBER_SUSPENDED")
		change(`UPDATE tenants SET status = 'suspended'`)
		here.outside(t, raw, fault.Forbidden, "TENANT_SUSPENDED")
		_, err := here.Authenticate(t.Context(), string(g.RawKey))
		wantFault(t, err, fault.Forbidden, "TENANT_SUSPENDED")
		there.pass(time.Second)
		there.outside(t, raw, fault.Forbidden, "TENANT_SUSPENDED")
		change(`DELETE FROM api_keys`)
		change(`DELETE FROM users`)
		here.outside(t, raw, fault.Unauthenticated, "AUTH_ERROR")
	})
}

// Nodes tell each other what to forget. The hint may be lost or garbled.
func TestHints(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		there := newNode(db, clk)
		here := newNode(db, clk, there.Invalidate)
		g := here.tenant(t, "acme")
		owner := there.authenticated(t, g.RawKey)

		_, key, err := here.Keys.Create(t.Context(), owner, "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		who := there.authenticated(t, key)
		if err := there.Valid(t.Context(), who); err != nil {
			t.Fatal(err)
		}
		if err := here.Keys.Revoke(t.Context(), owner, who.KeyID); err != nil {
			t.Fatal(err)
		}
		_, err = there.Authenticate(t.Context(), string(key))
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		wantFault(t, there.Valid(t.Context(), who), fault.Unauthenticated, "AUTH_ERROR")

		one, raw := here.signIn(t, g.TenantID, g.UserID, identity.Device{})
		there.inside(t, raw)
		here.write(t, func(tx txn.Tx) error { return here.Sessions.EndAll(tx, one.TenantID, one.UserID, "") })
		there.outside(t, raw, fault.Unauthenticated, "AUTH_ERROR")

		there.authenticated(t, g.RawKey)
		here.write(t, func(tx txn.Tx) error {
			here.InvalidateAll(tx)
			_, err := sqldb.From(tx).Exec(`UPDATE users SET status = 'suspended'`)
			return err
		})
		_, err = there.Authenticate(t.Context(), string(g.RawKey))
		wantFault(t, err, fault.Forbidden, "MEMBER_SUSPENDED")
		for _, garbled := range []string{"", "/", "key/x/y", "session//", "key/12345678", "all/", strings.Repeat("/", 100)} {
			there.Invalidate(garbled)
		}
	})
}

// Each use extends the window, and the cookie is renewed once a day.
func TestSessionWindow(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		n := newNode(db, clk)
		g := n.tenant(t, "acme")
		one, raw := n.signIn(t, g.TenantID, g.UserID, identity.Device{})
		// visit uses the session as a process that then stops does.
		visit := func() time.Duration {
			t.Helper()
			n = newNode(db, clk)
			n.Start()
			defer n.Stop()
			_, renew, err := n.AuthenticateSession(t.Context(), string(raw))
			if err != nil {
				t.Fatal(err)
			}
			if _, again, _ := n.AuthenticateSession(t.Context(), string(raw)); again != 0 {
				t.Error("the cookie is sent with every answer")
			}
			return renew
		}
		for _, step := range []struct {
			pass  time.Duration
			renew bool
		}{
			{time.Minute, false}, {23 * time.Hour, false}, {time.Hour, true}, {time.Hour, false},
			{89 * 24 * time.Hour, true}, {89 * 24 * time.Hour, true},
		} {
			n.pass(step.pass)
			want := time.Duration(0)
			if step.renew {
				want = identity.SessionWindow
			}
			if got := visit(); got != want {
				t.Errorf("%v later the cookie is renewed for %v, want %v", step.pass, got, want)
			}
		}
		used := n.clock.Now()
		n.pass(90*24*time.Hour - time.Second)
		n.inside(t, raw)
		n.pass(time.Second)
		n.outside(t, raw, fault.Unauthenticated, "AUTH_ERROR")
		who := authz.Caller{TenantID: g.TenantID, UserID: g.UserID, SessionID: one.SessionID}
		wantFault(t, n.Valid(t.Context(), who), fault.Unauthenticated, "AUTH_ERROR")

		err := n.db.Write(t.Context(), func(tx txn.Tx) error { return n.Sessions.MarkVerified(tx, one.SessionID, used) })
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		// The next one that opens clears it away.
		n.signIn(t, g.TenantID, g.UserID, identity.Device{})
		if got := count(t, db, `SELECT COUNT(*) FROM browser_sessions`); got != 1 {
			t.Errorf("%d sessions are kept", got)
		}
	})
}

func count(t *testing.T, db *sqldb.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A member's hundred and first session ends the one that was used the longest
// ago; other members' stay.
func TestSessionsAreCapped(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		g, other := n.tenant(t, "acme"), n.tenant(t, "other")
		_, apart := n.signIn(t, other.TenantID, other.UserID, identity.Device{})
		var raws []identity.RawSession
		for range 103 {
			_, raw := n.signIn(t, g.TenantID, g.UserID, identity.Device{})
			raws = append(raws, raw)
			n.pass(time.Second)
		}
		for i, raw := range raws {
			if i < 3 {
				n.outside(t, raw, fault.Unauthenticated, "AUTH_ERROR")
			} else {
				n.inside(t, raw)
			}
		}
		n.inside(t, apart)
		n.pass(31 * 24 * time.Hour)
		n.signIn(t, g.TenantID, g.UserID, identity.Device{})
		if got := count(t, db, `SELECT COUNT(*) FROM browser_sessions WHERE ended_at <> 0`); got != 1 {
			t.Errorf("%d ended sessions are remembered", got)
		}
	})
}

func TestEndSessions(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		g, other := n.tenant(t, "acme"), n.tenant(t, "other")
		kept, keptRaw := n.signIn(t, g.TenantID, g.UserID, identity.Device{})
		_, ended := n.signIn(t, g.TenantID, g.UserID, identity.Device{})
		_, apart := n.signIn(t, other.TenantID, other.UserID, identity.Device{})
		n.inside(t, ended)
		n.write(t, func(tx txn.Tx) error { return n.Sessions.EndAll(tx, g.TenantID, g.UserID, kept.SessionID) })
		n.outside(t, ended, fault.Unauthenticated, "AUTH_ERROR")
		n.inside(t, keptRaw)
		n.inside(t, apart)
		n.write(t, func(tx txn.Tx) error { return n.Sessions.EndAll(tx, g.TenantID, g.UserID, "") })
		n.outside(t, keptRaw, fault.Unauthenticated, "AUTH_ERROR")
		n.inside(t, apart)
		n.authenticated(t, g.RawKey)
	})
}

// factors holds the users with a second factor.
type factors map[string]bool

func (f factors) Enrolled(_ txn.Tx, _, userID string) (bool, error) { return f[userID], nil }

func TestSecondFactorAndSwitch(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		first, second, third := n.tenant(t, "first"), n.tenant(t, "second"), n.tenant(t, "third")
		n.Sessions.SetFactors(factors{second.UserID: true})
		one, raw := n.signIn(t, first.TenantID, first.UserID, identity.Device{NeedsFactor: true})
		if who := n.inside(t, raw); !who.HalfOpen || !who.VerifiedAt.IsZero() {
			t.Errorf("caller %+v", who)
		}
		at := n.clock.Now().Add(time.Second)
		n.write(t, func(tx txn.Tx) error { return n.Sessions.MarkVerified(tx, one.SessionID, at) })
		before := n.inside(t, raw)
		if before.HalfOpen || !before.VerifiedAt.Equal(at) {
			t.Errorf("caller %+v", before)
		}

		move := func(to identity.Grant) authz.Caller {
			t.Helper()
			n.write(t, func(tx txn.Tx) error {
				return n.Sessions.Switch(tx, one.SessionID, identity.Member{TenantID: to.TenantID, UserID: to.UserID})
			})
			who := n.inside(t, raw)
			if who.TenantID != to.TenantID || who.UserID != to.UserID || !who.VerifiedAt.IsZero() {
				t.Errorf("caller %+v", who)
			}
			return who
		}
		if !move(second).HalfOpen {
			t.Error("the second tenant's factor was not asked for")
		}
		// What the session opened where it was before, ends.
		wantFault(t, n.Valid(t.Context(), before), fault.Unauthenticated, "AUTH_ERROR")
		if move(third).HalfOpen {
			t.Error("a factor is required without enrolment")
		}

		n.write(t, func(tx txn.Tx) error { return n.Sessions.EndAll(tx, third.TenantID, third.UserID, "") })
		for what, do := range map[string]func(txn.Tx) error{
			"switch": func(tx txn.Tx) error { return n.Sessions.Switch(tx, one.SessionID, identity.Member{}) },
			"verify": func(tx txn.Tx) error { return n.Sessions.MarkVerified(tx, one.SessionID, at) },
			"no one": func(tx txn.Tx) error { return n.Sessions.MarkVerified(tx, "unknown", at) },
		} {
			if err := n.db.Write(t.Context(), do); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("%s of a session that ended: %v", what, err)
			}
		}
	})
}

func TestEveryRoleHasScopes(t *testing.T) {
	t.Parallel()
	var before []authz.Scope
	for _, role := range []authz.Role{authz.Viewer, authz.Developer, authz.Admin} {
		scopes := authz.ScopesOf(role)
		for _, s := range scopes {
			if !slices.Contains(authz.Catalogue, s) {
				t.Errorf("%s has %s, which is no scope", role, s)
			}
		}
		for _, s := range before {
			if !slices.Contains(scopes, s) {
				t.Errorf("%s lacks %s of the role below", role, s)
			}
		}
		before = scopes
	}
	if len(authz.ScopesOf("king")) != 0 {
		t.Error("a role that is none has scopes")
	}
}

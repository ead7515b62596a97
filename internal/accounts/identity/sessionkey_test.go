package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestSessionKeys uses the key of a session: it acts as the session does, moves with
// it, keeps it alive, and ends with it.
func TestSessionKeys(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ticks := clock.NewFake()
		n := newNode(db, ticks)
		g := n.tenant(t, "acme")
		other := n.tenant(t, "other")
		one, raw := n.signIn(t, g.TenantID, g.UserID, identity.Device{Method: "otp", NeedsFactor: true})
		var key identity.RawKey
		n.write(t, func(tx txn.Tx) (err error) {
			key, err = n.Sessions.CreateKey(tx, one.SessionID)
			return err
		})
		as := func() authz.Caller {
			t.Helper()
			who, err := n.Authenticate(t.Context(), string(key))
			if err != nil {
				t.Fatal(err)
			}
			return who
		}
		want := n.inside(t, raw)
		want.Method = "session_key"
		if diff := cmp.Diff(want, as()); diff != "" || !want.HalfOpen || want.KeyID != "" {
			t.Error(diff)
		}
		if err := n.Valid(t.Context(), want); err != nil {
			t.Error(err)
		}
		n.write(t, func(tx txn.Tx) error { return n.Sessions.MarkVerified(tx, one.SessionID, ticks.Now()) })
		if as().HalfOpen {
			t.Error("the key does not follow the second factor")
		}
		n.write(t, func(tx txn.Tx) error {
			return n.Sessions.Switch(tx, one.SessionID, identity.Member{TenantID: other.TenantID, UserID: other.UserID})
		})
		if who := as(); who.TenantID != other.TenantID {
			t.Error("the key does not follow its session to another company")
		}
		for _, wrong := range []string{string(key) + "a", string(identity.NewRawKey()), string(key[:13]) + string(g.RawKey[13:])} {
			_, err := n.Authenticate(t.Context(), wrong)
			wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		}
		n.write(t, func(tx txn.Tx) error { return n.Sessions.EndAll(tx, other.TenantID, other.UserID, "") })
		_, err := n.Authenticate(t.Context(), string(key))
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")

		two, _ := n.signIn(t, g.TenantID, g.UserID, identity.Device{Method: "otp"})
		n.write(t, func(tx txn.Tx) (err error) {
			key, err = n.Sessions.CreateKey(tx, two.SessionID)
			return err
		})
		ticks.Advance(identity.SessionWindow)
		_, err = n.Authenticate(t.Context(), string(key))
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
	})
}

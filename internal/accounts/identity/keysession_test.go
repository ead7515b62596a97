package identity_test

import (
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

// TestSessionsOfKeys opens browser sessions with keys: each has the scopes of its key,
// ends with it, and leaves it as it is.
func TestSessionsOfKeys(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ticks := clock.NewFake()
		n := newNode(db, ticks)
		g := n.tenant(t, "acme")
		owner, err := n.Authenticate(t.Context(), string(g.RawKey))
		if err != nil {
			t.Fatal(err)
		}
		key, rawKey, err := n.Keys.Create(t.Context(), owner, "narrow", []authz.Scope{"runs:read"})
		if err != nil {
			t.Fatal(err)
		}
		one, raw := n.signIn(t, g.TenantID, g.UserID, identity.Device{Method: "key", KeyID: key.KeyID})
		who := n.inside(t, raw)
		want := authz.Caller{
			TenantID: g.TenantID, UserID: g.UserID, SessionID: one.SessionID, Role: authz.Owner,
			Scopes: []authz.Scope{"runs:read"}, Method: "cookie", OfKey: true,
		}
		if diff := cmp.Diff(want, who); diff != "" {
			t.Error(diff)
		}
		if err := n.Valid(t.Context(), who); err != nil {
			t.Error(err)
		}
		if err := who.CheckPerson(); !fault.Is(err, fault.Forbidden) {
			t.Errorf("the session of a narrow key acts for its person in other companies: %v", err)
		}

		// Ending the session leaves the key.
		two, rawTwo := n.signIn(t, g.TenantID, g.UserID, identity.Device{Method: "key", KeyID: key.KeyID})
		if _, err := n.SignOut(t.Context(), n.inside(t, rawTwo)); err != nil {
			t.Fatal(err)
		}
		n.outside(t, rawTwo, fault.Unauthenticated, "AUTH_ERROR")
		if _, err := n.Authenticate(t.Context(), string(rawKey)); err != nil || two.SessionID == one.SessionID {
			t.Errorf("signing out revoked the key: %v", err)
		}

		// Ending the key ends the session.
		if err := n.Keys.Revoke(t.Context(), owner, key.KeyID); err != nil {
			t.Fatal(err)
		}
		later := newNode(db, ticks) // nothing is cached there
		later.outside(t, raw, fault.Unauthenticated, "AUTH_ERROR")
		if err := later.Valid(t.Context(), who); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("an open stream stays open: %v", err)
		}

		// So does its expiry, and a session never outlives a key that is gone.
		_, gone := n.signIn(t, g.TenantID, g.UserID, identity.Device{Method: "key", KeyID: "no-such-key"})
		later.outside(t, gone, fault.Unauthenticated, "AUTH_ERROR")
		brief, _, err := n.Keys.Create(t.Context(), owner, "brief", []authz.Scope{"*"})
		if err != nil {
			t.Fatal(err)
		}
		n.write(t, func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`UPDATE api_keys SET expires_at = ? WHERE tenant_id = ? AND key_id = ?`,
				sqldb.Micros(ticks.Now().Add(time.Hour)), g.TenantID, brief.KeyID)
			return err
		})
		_, rawBrief := n.signIn(t, g.TenantID, g.UserID, identity.Device{Method: "key", KeyID: brief.KeyID})
		if err := n.inside(t, rawBrief).CheckPerson(); err != nil {
			t.Errorf("the session of a key with the scope *: %v", err)
		}
		ticks.Advance(time.Hour)
		n.outside(t, rawBrief, fault.Unauthenticated, "AUTH_ERROR")
	})
}

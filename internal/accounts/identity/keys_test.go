package identity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestCreateKeyScopes(t *testing.T) {
	t.Parallel()
	owner := authz.Caller{Role: authz.Owner, Scopes: []authz.Scope{"*"}}
	admin := authz.Caller{Role: authz.Admin, Scopes: []authz.Scope{"*"}}
	super := authz.Caller{Role: authz.Admin, Scopes: []authz.Scope{"admin"}}
	narrow := authz.Caller{Role: authz.Owner, Scopes: []authz.Scope{"api_keys:write", "runs:read", "billing:read"}}
	for _, tt := range []struct {
		name  string
		who   authz.Caller
		asked []authz.Scope
		want  []authz.Scope
		code  string // of the refusal
		field string // the wrong field, if one is named
	}{
		{"the usual ones", owner, nil, authz.Defaults, "", ""},
		{"the usual ones, narrowed", narrow, nil, []authz.Scope{"runs:read"}, "", ""},
		{"none at all", owner, []authz.Scope{}, []authz.Scope{}, "", ""},
		{"some", admin, []authz.Scope{"billing:read", "runs:read", "billing:read"}, []authz.Scope{"billing:read", "runs:read"}, "", ""},
		{"admin covers every scope", super, []authz.Scope{"webhooks:write", "admin"}, []authz.Scope{"webhooks:write", "admin"}, "", ""},
		{"more than held", narrow, []authz.Scope{"runs:read", "runs:create"}, nil, "SCOPE_NOT_HELD", ""},
		{"admin without it", narrow, []authz.Scope{"admin"}, nil, "SCOPE_NOT_HELD", ""},
		{"everything, by an owner", owner, []authz.Scope{"*"}, []authz.Scope{"*"}, "", ""},
		{"everything, by an owner's narrow key", narrow, []authz.Scope{"*"}, nil, "SCOPE_NOT_HELD", ""},
		{"everything, by an admin", admin, []authz.Scope{"*"}, nil, "SCOPE_NOT_HELD", ""},
		{"unknown", owner, []authz.Scope{"runs:read", "runs:stop"}, nil, "VALIDATION_ERROR", "scopes[1]"},
		{"too many", owner, make([]authz.Scope, 101), nil, "VALIDATION_ERROR", "scopes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				n := newNode(db, clock.NewFake())
				who := n.authenticated(t, bootstrap(t, n))
				who.Role, who.Scopes = tt.who.Role, tt.who.Scopes
				key, raw, err := n.Keys.Create(t.Context(), who, " a key ", tt.asked)
				if tt.code != "" {
					wantFault(t, err, fault.Invalid, tt.code)
					var fields []string
					for _, f := range fault.From(err).Fields {
						fields = append(fields, f.Field)
					}
					if strings.Join(fields, ",") != tt.field {
						t.Errorf("fields %v, want %q", fields, tt.field)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, key.Scopes); diff != "" || key.Name != "a key" {
					t.Errorf("key %+v: %s", key, diff)
				}
				got := n.authenticated(t, raw)
				if diff := cmp.Diff(tt.want, got.Scopes); diff != "" || got.UserID != who.UserID || got.KeyID != key.KeyID {
					t.Errorf("caller %+v: %s", got, diff)
				}
			})
		})
	}
}

func TestUnknownScopesNameTheNearest(t *testing.T) {
	t.Parallel()
	n := newNode(sqldbtest.Open(t, sqldbtest.SQLite), clock.NewFake())
	who := n.authenticated(t, bootstrap(t, n))
	_, _, err := n.Keys.Create(t.Context(), who, "k", []authz.Scope{"billing:write", "runs:craete", "?"})
	var got []string
	for _, f := range fault.From(err).Fields {
		got = append(got, f.Message)
	}
	want := []string{"is not a scope; did you mean billing:read?", "is not a scope; did you mean runs:create?", "is not a scope"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCreateKeyReportsEveryWrongField(t *testing.T) {
	t.Parallel()
	n := newNode(sqldbtest.Open(t, sqldbtest.SQLite), clock.NewFake())
	who := n.authenticated(t, bootstrap(t, n))
	for _, name := range []string{"", "  ", strings.Repeat("ä", 201), "a\x00b", "a\xffb"} {
		_, _, err := n.Keys.Create(t.Context(), who, name, []authz.Scope{"x", "y"})
		if f := fault.From(err); len(f.Fields) != 3 {
			t.Errorf("%q: %v", name, f.Fields)
		}
	}
	if _, _, err := n.Keys.Create(t.Context(), who, strings.Repeat("ä", 200), nil); err != nil {
		t.Error(err)
	}
}

func TestKeysAreOnesOwn(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		here, there := newNode(db, clk), newNode(db, clk)
		owner := here.authenticated(t, bootstrap(t, here))
		g, err := here.Keys.Grant(t.Context(), owner.TenantID, authz.Admin, []authz.Scope{"*"}, "other", "other@example.com")
		if err != nil {
			t.Fatal(err)
		}
		other := here.authenticated(t, g.RawKey)
		key, raw, err := here.Keys.Create(t.Context(), owner, "second", nil)
		if err != nil {
			t.Fatal(err)
		}
		here.authenticated(t, raw)
		there.authenticated(t, raw)

		names := func(who authz.Caller) (list string) {
			keys, err := here.Keys.List(t.Context(), who)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				list += k.Name + " " + string(k.Status) + ";"
			}
			return list
		}
		if got := names(owner) + names(other); got != "second active;owner active;other active;" {
			t.Errorf("keys %s", got)
		}
		stranger := owner
		stranger.TenantID = "another"
		for _, who := range []authz.Caller{other, stranger} {
			wantFault(t, here.Keys.Revoke(t.Context(), who, key.KeyID), fault.NotFound, "NOT_FOUND")
		}
		wantFault(t, here.Keys.Revoke(t.Context(), owner, "\x00"), fault.NotFound, "NOT_FOUND")
		here.authenticated(t, raw)

		at := clk.Now()
		for range 2 { // repeating is fine
			if err := here.Keys.Revoke(t.Context(), owner, key.KeyID); err != nil {
				t.Fatal(err)
			}
			clk.Advance(time.Minute)
		}
		_, err = here.Authenticate(t.Context(), string(raw))
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR") // here at once
		there.pass(time.Second)
		_, err = there.Authenticate(t.Context(), string(raw))
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR") // elsewhere within a second
		if got := names(owner); got != "second revoked;owner active;" {
			t.Errorf("keys %s", got)
		}
		keys, _ := here.Keys.List(t.Context(), owner)
		if !keys[0].RevokedAt.Equal(at) {
			t.Errorf("revoked at %v, want %v", keys[0].RevokedAt, at)
		}
	})
}

func TestGrantKey(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		tenant, err := n.Tenants.Create(t.Context(), "Acme", "Ann@Example.com")
		if err != nil {
			t.Fatal(err)
		}
		if who := n.authenticated(t, tenant.RawKey); who.Role != authz.Owner || !has(who.Scopes, "*") || who.Operator {
			t.Errorf("the owner is %+v", who)
		}
		again, err := n.Tenants.Create(t.Context(), "Acme", "Ann@Example.com")
		if err != nil || again.TenantID == tenant.TenantID {
			t.Fatalf("a second tenant of that name: %v, %v", again, err)
		}

		grant := func(role authz.Role, email string) (identity.Grant, error) {
			return n.Keys.Grant(t.Context(), tenant.TenantID, role, []authz.Scope{"*"}, "k", email)
		}
		viewer, err := grant(authz.Viewer, "")
		if err != nil {
			t.Fatal(err)
		}
		if who := n.authenticated(t, viewer.RawKey); who.Role != authz.Viewer || !has(who.Scopes, "*") || who.UserID == tenant.UserID {
			t.Errorf("the viewer is %+v", who)
		}
		owner, err := grant(authz.Owner, " ann@example.COM ")
		if err != nil || owner.UserID != tenant.UserID || owner.KeyID == tenant.KeyID {
			t.Errorf("the owner's second key: %+v, %v", owner, err)
		}
		_, err = grant(authz.Viewer, "ann@example.com")
		wantFault(t, err, fault.Conflict, "CONFLICT")
		bob, err := grant(authz.Developer, "bob@example.com")
		if err != nil {
			t.Fatal(err)
		}
		if more, err := grant(authz.Developer, "bob@example.com"); err != nil || more.UserID != bob.UserID {
			t.Errorf("bob's second key: %+v, %v", more, err)
		}
		usual, err := n.Keys.Grant(t.Context(), tenant.TenantID, authz.Developer, nil, "k", "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(authz.Defaults, n.authenticated(t, usual.RawKey).Scopes); diff != "" {
			t.Error(diff)
		}

		for _, nowhere := range []string{"nowhere", "\xff", tenant.UserID} {
			_, err = n.Keys.Grant(t.Context(), nowhere, authz.Viewer, nil, "k", "")
			wantFault(t, err, fault.NotFound, "NOT_FOUND")
		}
		_, err = n.Keys.Grant(t.Context(), tenant.TenantID, "king", []authz.Scope{"x"}, "", "?")
		if f := fault.From(err); len(f.Fields) != 4 {
			t.Errorf("fields %v", f.Fields)
		}
		_, err = n.Tenants.Create(t.Context(), "", "?")
		if f := fault.From(err); len(f.Fields) != 2 {
			t.Errorf("fields %v", f.Fields)
		}
	})
}

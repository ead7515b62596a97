package identity_test

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// call plays the edge: it finds the row, checks the caller against it, fills
// the input and returns the answer as JSON. Its arguments are the value of the
// path's parameter and the body, where there are any.
func call(t *testing.T, n node, who authz.Caller, method, path, param, body string) (map[string]any, error) {
	t.Helper()
	for _, r := range n.Routes() {
		if r.Method != method || r.Path != path {
			continue
		}
		if err := who.Check(r.Role, r.Scopes...); err != nil {
			return nil, err
		}
		in := reflect.New(r.In)
		for i := range r.In.NumField() {
			if f := r.In.Field(i); f.Tag.Get("path") != "" {
				in.Elem().Field(i).SetString(param)
			} else if err := json.Unmarshal([]byte(body), in.Elem().Field(i).Addr().Interface()); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := r.Call(t.Context(), who, in.Interface())
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		return object, nil
	}
	t.Fatalf("there is no %s %s", method, path)
	return nil, nil
}

const keysPath = "/api/v1/tenants/me/keys"

func TestAnswers(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.NewFake())
		g, err := n.Tenants.Create(t.Context(), "Acme", "ann@example.com")
		if err != nil {
			t.Fatal(err)
		}
		who := n.authenticated(t, g.RawKey)
		const now = "2026-09-10T12:00:00Z"
		get := func(method, path, param, body string) map[string]any {
			t.Helper()
			got, err := call(t, n, who, method, path, param, body)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		same := func(got, want any) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}

		var unlimited any
		if text, err := json.Marshal(quota.Limits{}); err != nil || json.Unmarshal(text, &unlimited) != nil {
			t.Fatal(err)
		}
		same(get("GET", "/api/v1/tenants/me", "", ""), map[string]any{
			"tenant_id": g.TenantID, "name": "Acme", "slug": "acme", "status": "active", "plan": "self_hosted",
			"settings": map[string]any{}, "branding": map[string]any{}, "social_links": map[string]any{}, "created_at": now, "updated_at": now,
			"quotas": unlimited,
		})
		same(get("GET", "/api/v1/me", "", ""), map[string]any{
			"user": map[string]any{
				"user_id": g.UserID, "email": "ann@example.com", "name": "ann", "role": "owner", "status": "active", "created_at": now,
				"avatar_url": nil, "last_login_at": nil,
			},
			"tenant": map[string]any{"tenant_id": g.TenantID, "name": "Acme", "slug": "acme", "plan": "self_hosted"},
			"role":   "owner", "scopes": []any{"*"}, "auth_method": "api_key",
			"memberships": []any{map[string]any{"tenant_id": g.TenantID, "user_id": g.UserID}},
		})

		made := get("POST", keysPath, "", `{"name":"ci","scopes":["runs:read"]}`)
		raw, keyID := made["raw_key"].(string), made["key_id"].(string)
		record := map[string]any{
			"key_id": keyID, "name": "ci", "prefix": raw[4:12], "kind": "api_key", "scopes": []any{"runs:read"}, "status": "active",
			"created_at": now, "last_used_at": nil, "expires_at": nil, "created_by": g.UserID,
		}
		if made["warning"] == "" {
			t.Error("the warning that the key is shown once is missing")
		}
		delete(made, "raw_key")
		delete(made, "warning")
		same(made, record)

		list := get("GET", keysPath, "", "")
		same(list["total"], 2.0)
		same(list["keys"].([]any)[0], record)

		same(get("DELETE", keysPath+"/{keyId}", keyID, ""), map[string]any{"revoked": true, "key_id": keyID})
		record["status"] = "revoked"
		same(get("GET", keysPath, "", "")["keys"].([]any)[0], record)
	})
}

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	n := newNode(sqldbtest.Open(t, sqldbtest.SQLite), clock.NewFake())
	who := n.authenticated(t, bootstrap(t, n))
	for _, tt := range []struct {
		method, path string
		role         authz.Role
		scopes       []authz.Scope
		code         string // empty: allowed
	}{
		{"GET", "/api/v1/me", authz.Viewer, nil, ""},
		{"GET", "/api/v1/tenants/me", authz.Viewer, nil, ""},
		{"GET", keysPath, authz.Viewer, []authz.Scope{"api_keys:read"}, ""},
		{"GET", keysPath, authz.Owner, []authz.Scope{"api_keys:write"}, "MISSING_SCOPE"},
		{"POST", keysPath, authz.Admin, []authz.Scope{"api_keys:write"}, ""},
		{"POST", keysPath, authz.Developer, []authz.Scope{"*"}, "FORBIDDEN"},
		{"POST", keysPath, authz.Owner, []authz.Scope{"api_keys:read"}, "MISSING_SCOPE"},
		{"DELETE", keysPath + "/{keyId}", authz.Developer, []authz.Scope{"*"}, "FORBIDDEN"},
		{"DELETE", keysPath + "/{keyId}", authz.Owner, []authz.Scope{"api_keys:read"}, "MISSING_SCOPE"},
		{"DELETE", keysPath + "/{keyId}", authz.Admin, []authz.Scope{"api_keys:write"}, "NOT_FOUND"}, // past the check
	} {
		caller := who
		caller.Role, caller.Scopes = tt.role, tt.scopes
		_, err := call(t, n, caller, tt.method, tt.path, "nonsense", `{"name":"k"}`)
		switch {
		case tt.code == "" && err != nil:
			t.Errorf("%s %s as %s with %v: %v", tt.method, tt.path, tt.role, tt.scopes, err)
		case tt.code != "" && (err == nil || fault.From(err).Code != tt.code):
			t.Errorf("%s %s as %s with %v: %v, want %s", tt.method, tt.path, tt.role, tt.scopes, err, tt.code)
		}
	}
}

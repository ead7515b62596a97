package app_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

const keysPath = "/api/v1/tenants/me/keys"

func texts(t testing.TB, v any) []string {
	t.Helper()
	list, ok := v.([]any)
	if !ok {
		t.Fatalf("no list: %v", v)
	}
	out := make([]string, len(list))
	for i, item := range list {
		out[i] = item.(string)
	}
	return out
}

func scopes(list ...authz.Scope) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// A key's record, and its secret, which is shown once (decisions.md D4).
func TestKeyRecord(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	made := n.want(201, "POST", keysPath, object{"name": " ci "})
	raw := made["raw_key"].(string)
	if !regexp.MustCompile(`^svc_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}$`).MatchString(raw) || raw[4:12] != made["prefix"] {
		t.Errorf("raw_key %q, prefix %v", raw, made["prefix"])
	}
	me := n.want(200, "GET", "/api/v1/me", nil)
	want := object{
		"key_id": made["key_id"], "name": "ci", "prefix": raw[4:12], "kind": "api_key", "scopes": made["scopes"], "status": "active", "created_at": made["created_at"],
		"last_used_at": nil, "expires_at": nil, "created_by": me["user"].(object)["user_id"],
	}
	if !ident.Valid(made["key_id"].(string)) {
		t.Errorf("key_id %v", made["key_id"])
	}
	if at, err := time.Parse(time.RFC3339Nano, made["created_at"].(string)); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("created_at %v", made["created_at"])
	}
	list := n.do("GET", keysPath, nil)
	keys := list.json["keys"].([]any)
	if list.json["total"] != 2.0 || len(keys) != 2 {
		t.Fatalf("%s", list.raw)
	}
	if diff := cmp.Diff(want, keys[0]); diff != "" {
		t.Errorf("in the list (-want +got):\n%s", diff)
	}
	for name, value := range want {
		if diff := cmp.Diff(value, made[name]); diff != "" {
			t.Errorf("%s, when made:\n%s", name, diff)
		}
	}
	if regexp.MustCompile(`raw_key|secret|hash|` + raw[13:]).Match(list.raw) {
		t.Errorf("the list shows the secret: %s", list.raw)
	}
	n.as(raw).want(200, "GET", "/api/v1/me", nil)
	eventually(t, func() bool {
		return n.want(200, "GET", keysPath, nil)["keys"].([]any)[0].(object)["last_used_at"] != nil
	})
}

// Which scopes a new key gets (interface.md section 5, points 5 to 8).
func TestKeyScopes(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	usual := scopes(authz.Defaults...)
	if slices.Contains(usual, "billing:read") || len(usual) != 13 {
		t.Errorf("the default scopes: %v", usual)
	}
	for _, c := range []struct {
		name   string
		role   authz.Role
		holds  []authz.Scope
		asked  any // nil: scopes are left out
		status int
		code   string
		got    []string
	}{
		{"defaults_of_an_owner", authz.Owner, []authz.Scope{"*"}, nil, 201, "", usual},
		{"defaults_of_an_admin", authz.Admin, []authz.Scope{"admin"}, nil, 201, "", usual},
		{"defaults_narrowed", authz.Admin, []authz.Scope{"api_keys:write", "runs:read", "billing:read"}, nil, 201, "", []string{"runs:read"}},
		{"null_is_left_out", authz.Owner, []authz.Scope{"*"}, "null", 201, "", usual},
		{"none", authz.Owner, []authz.Scope{"*"}, []string{}, 201, "", []string{}},
		{"some", authz.Admin, []authz.Scope{"api_keys:write", "runs:read"}, []string{"runs:read"}, 201, "", []string{"runs:read"}},
		{"twice", authz.Owner, []authz.Scope{"*"}, []string{"runs:read", "runs:read"}, 201, "", []string{"runs:read"}},
		{"not_held", authz.Admin, []authz.Scope{"api_keys:write", "runs:read"}, []string{"runs:read", "runs:create"}, 422, "SCOPE_NOT_HELD", nil},
		{"admin_not_held", authz.Owner, []authz.Scope{"api_keys:write"}, []string{"admin"}, 422, "SCOPE_NOT_HELD", nil},
		{"star_by_owner", authz.Owner, []authz.Scope{"*"}, []string{"*"}, 201, "", []string{"*"}},
		{"star_by_admin", authz.Admin, []authz.Scope{"*"}, []string{"*"}, 422, "SCOPE_NOT_HELD", nil},
		{"star_not_held", authz.Owner, []authz.Scope{"api_keys:write"}, []string{"*"}, 422, "SCOPE_NOT_HELD", nil},
		{"everything", authz.Owner, []authz.Scope{"*"}, scopes(authz.Catalogue...), 201, "", scopes(authz.Catalogue...)},
		{"unknown", authz.Owner, []authz.Scope{"*"}, []string{"agents:delete"}, 422, "VALIDATION_ERROR", nil},
		{"empty_scope", authz.Owner, []authz.Scope{"*"}, []string{""}, 422, "VALIDATION_ERROR", nil},
		{"by_a_developer", authz.Developer, []authz.Scope{"*"}, nil, 403, "FORBIDDEN", nil},
		{"without_the_scope", authz.Owner, []authz.Scope{"api_keys:read"}, nil, 403, "MISSING_SCOPE", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := object{"name": c.name}
			switch c.asked {
			case nil:
			case "null":
				body["scopes"] = nil
			default:
				body["scopes"] = c.asked
			}
			maker := g.as(g.holding(c.role, c.holds...))
			r := maker.do("POST", keysPath, body)
			if c.code != "" {
				checkCode(t, r, c.status, c.code)
				if _, has := r.json["errors"]; has && c.code == "SCOPE_NOT_HELD" {
					t.Errorf("errors on a 422 that is no failed validation: %s", r.raw)
				}
				return
			}
			if r.StatusCode != c.status {
				t.Fatalf("%d %s", r.StatusCode, r.raw)
			}
			got := texts(t, r.json["scopes"])
			slices.Sort(got)
			slices.Sort(c.got)
			if diff := cmp.Diff(c.got, got); diff != "" {
				t.Errorf("scopes (-want +got):\n%s", diff)
			}
			// It carries them, and its maker's role.
			me := g.as(r.json["raw_key"].(string)).want(200, "GET", "/api/v1/me", nil)
			carried := texts(t, me["scopes"])
			slices.Sort(carried)
			if diff := cmp.Diff(c.got, carried); diff != "" || me["role"] != string(c.role) {
				t.Errorf("carried by the role %v:\n%s", me["role"], diff)
			}
		})
	}
	for _, body := range []string{`{}`, `{"name":""}`, `{"name":" "}`, `{"name":null}`, `{"name":"\u0007"}`} {
		checkCode(t, g.as(g.holding(authz.Owner, "*")).do("POST", keysPath, body), 422, "VALIDATION_ERROR")
	}
}

// Keys are their maker's alone, and revoked for good (section 5, point 5).
func TestKeyOwnership(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	one, two := g.admin.key(g.tenant, authz.Owner, authz.Wildcard), g.admin.key(g.tenant, authz.Owner, authz.Wildcard)
	mine, other := g.as(string(one.RawKey)), g.as(string(two.RawKey))
	made := mine.want(201, "POST", keysPath, object{"name": "mine"})
	id, raw := made["key_id"].(string), made["raw_key"].(string)
	listed := func(n *node) (found []string) {
		for _, item := range n.want(200, "GET", keysPath, nil)["keys"].([]any) {
			k := item.(object)
			found = append(found, k["key_id"].(string)+" "+k["status"].(string))
		}
		return found
	}
	if diff := cmp.Diff([]string{id + " active", one.KeyID + " active"}, listed(mine)); diff != "" {
		t.Errorf("mine:\n%s", diff)
	}
	if diff := cmp.Diff([]string{two.KeyID + " active"}, listed(other)); diff != "" {
		t.Errorf("the other owner's:\n%s", diff)
	}
	checkCode(t, other.do("DELETE", keysPath+"/"+id, nil), 404, "NOT_FOUND")
	checkCode(t, mine.do("DELETE", keysPath+"/"+ident.New(), nil), 404, "NOT_FOUND")
	checkCode(t, mine.do("DELETE", keysPath+"/x", nil), 404, "NOT_FOUND")
	g.as(raw).want(200, "GET", "/api/v1/me", nil)

	for range 2 { // repeating is safe
		if diff := cmp.Diff(object{"revoked": true, "key_id": id}, mine.want(200, "DELETE", keysPath+"/"+id, nil)); diff != "" {
			t.Error(diff)
		}
		checkCode(t, g.as(raw).do("GET", "/api/v1/me", nil), 401, "AUTH_ERROR")
	}
	if diff := cmp.Diff([]string{id + " revoked", one.KeyID + " active"}, listed(mine)); diff != "" {
		t.Errorf("the record is kept:\n%s", diff)
	}
	// A key may revoke itself, and is gone with that.
	other.want(200, "DELETE", keysPath+"/"+two.KeyID, nil)
	checkCode(t, other.do("GET", keysPath, nil), 401, "AUTH_ERROR")
}

// Nothing that opens a door lies readable in the data directory.
func TestSecretsAreNotOnDisk(t *testing.T) {
	t.Parallel()
	n := start(t, modeltest.New(t))
	made := n.want(201, "POST", "/api/v1/tenants/me/keys", object{"name": "k"})["raw_key"].(string)
	n.as(made).ended(n.run(n.agent(nil), "Hello?", nil))
	hidden := map[string]string{"the owner's key": ownerKey[13:], "a key": made[13:], "the operator's model key": "operator-key"}
	files := 0
	err := filepath.WalkDir(n.cfg.Storage.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for what, secret := range hidden {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds %s", d.Name(), what)
			}
		}
		info, infoErr := d.Info()
		if infoErr == nil && info.Mode().Perm()&0o077 != 0 && d.Name() == "secret.key" {
			t.Errorf("%s can be read by others: %v", d.Name(), info.Mode())
		}
		return errors.Join(err, infoErr)
	})
	if err != nil || files < 2 {
		t.Errorf("%d files, %v", files, err)
	}
}

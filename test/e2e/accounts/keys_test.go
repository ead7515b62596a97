package accounts

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

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

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

// A key's record, and its secret, which is shown once.
func TestKeyRecord(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	made := n.Expect(201, "POST", apptest.KeysPath, object{"name": " ci "})
	raw := made["raw_key"].(string)
	if !regexp.MustCompile(`^svc_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}$`).MatchString(raw) || raw[4:12] != made["prefix"] {
		t.Errorf("raw_key %q, prefix %v", raw, made["prefix"])
	}
	me := n.Expect(200, "GET", "/api/v1/me", nil)
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
	list := n.Do("GET", apptest.KeysPath, nil)
	keys := list.JSON["keys"].([]any)
	if list.JSON["total"] != 2.0 || len(keys) != 2 {
		t.Fatalf("%s", list.Body)
	}
	if diff := cmp.Diff(want, keys[0]); diff != "" {
		t.Errorf("in the list (-want +got):\n%s", diff)
	}
	for name, value := range want {
		if diff := cmp.Diff(value, made[name]); diff != "" {
			t.Errorf("%s, when made:\n%s", name, diff)
		}
	}
	if regexp.MustCompile(`raw_key|secret|hash|` + raw[13:]).Match(list.Body) {
		t.Errorf("the list shows the secret: %s", list.Body)
	}
	n.WithKey(raw).Expect(200, "GET", "/api/v1/me", nil)
	apptest.Eventually(t, func() bool {
		return n.Expect(200, "GET", apptest.KeysPath, nil)["keys"].([]any)[0].(object)["last_used_at"] != nil
	})
}

// Which scopes a new key gets.
func TestKeyScopes(t *testing.T) {
	t.Parallel()
	g := apptest.StartWithRoles(t)
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
			maker := g.WithKey(g.KeyFor(c.role, c.holds...))
			r := maker.Do("POST", apptest.KeysPath, body)
			if c.code != "" {
				apptest.CheckCode(t, r, c.status, c.code)
				if _, has := r.JSON["errors"]; has && c.code == "SCOPE_NOT_HELD" {
					t.Errorf("errors on a 422 that is no failed validation: %s", r.Body)
				}
				return
			}
			if r.StatusCode != c.status {
				t.Fatalf("%d %s", r.StatusCode, r.Body)
			}
			got := texts(t, r.JSON["scopes"])
			slices.Sort(got)
			slices.Sort(c.got)
			if diff := cmp.Diff(c.got, got); diff != "" {
				t.Errorf("scopes (-want +got):\n%s", diff)
			}
			// It carries them, and its maker's role.
			me := g.WithKey(r.JSON["raw_key"].(string)).Expect(200, "GET", "/api/v1/me", nil)
			carried := texts(t, me["scopes"])
			slices.Sort(carried)
			if diff := cmp.Diff(c.got, carried); diff != "" || me["role"] != string(c.role) {
				t.Errorf("carried by the role %v:\n%s", me["role"], diff)
			}
		})
	}
	for _, body := range []string{`{}`, `{"name":""}`, `{"name":" "}`, `{"name":null}`, `{"name":"\u0007"}`} {
		apptest.CheckCode(t, g.WithKey(g.KeyFor(authz.Owner, "*")).Do("POST", apptest.KeysPath, body), 422, "VALIDATION_ERROR")
	}
}

// Keys are their maker's alone, and revoked for good (section 5, point 5).
func TestKeyOwnership(t *testing.T) {
	t.Parallel()
	g := apptest.StartWithRoles(t)
	one, two := g.Admin.CreateKey(g.Tenant, authz.Owner, authz.Wildcard), g.Admin.CreateKey(g.Tenant, authz.Owner, authz.Wildcard)
	mine, other := g.WithKey(string(one.RawKey)), g.WithKey(string(two.RawKey))
	made := mine.Expect(201, "POST", apptest.KeysPath, object{"name": "mine"})
	id, raw := made["key_id"].(string), made["raw_key"].(string)
	listed := func(n *apptest.Server) (found []string) {
		for _, item := range n.Expect(200, "GET", apptest.KeysPath, nil)["keys"].([]any) {
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
	apptest.CheckCode(t, other.Do("DELETE", apptest.KeysPath+"/"+id, nil), 404, "NOT_FOUND")
	apptest.CheckCode(t, mine.Do("DELETE", apptest.KeysPath+"/"+ident.New(), nil), 404, "NOT_FOUND")
	apptest.CheckCode(t, mine.Do("DELETE", apptest.KeysPath+"/x", nil), 404, "NOT_FOUND")
	g.WithKey(raw).Expect(200, "GET", "/api/v1/me", nil)

	for range 2 { // repeating is safe
		if diff := cmp.Diff(object{"revoked": true, "key_id": id}, mine.Expect(200, "DELETE", apptest.KeysPath+"/"+id, nil)); diff != "" {
			t.Error(diff)
		}
		apptest.CheckCode(t, g.WithKey(raw).Do("GET", "/api/v1/me", nil), 401, "AUTH_ERROR")
	}
	if diff := cmp.Diff([]string{id + " revoked", one.KeyID + " active"}, listed(mine)); diff != "" {
		t.Errorf("the record is kept:\n%s", diff)
	}
	// A key may revoke itself, and is gone with that.
	other.Expect(200, "DELETE", apptest.KeysPath+"/"+two.KeyID, nil)
	apptest.CheckCode(t, other.Do("GET", apptest.KeysPath, nil), 401, "AUTH_ERROR")
}

// Nothing that opens a door lies readable in the data directory.
func TestSecretsAreNotOnDisk(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	made := n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "k"})["raw_key"].(string)
	n.WithKey(made).WaitRun(n.StartRun(n.CreateAgent(nil), "Hello?", nil))
	hidden := map[string]string{"the owner's key": apptest.OwnerKey[13:], "a key": made[13:], "the operator's model key": "operator-key"}
	files := 0
	err := filepath.WalkDir(n.Config.Storage.DataDir, func(path string, d fs.DirEntry, err error) error {
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

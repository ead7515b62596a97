package app_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/internal/authz"
	"agentd/internal/ident"
	"agentd/internal/model/modeltest"
	"agentd/internal/route"
)

// keyed makes a key with these scopes for the owner.
func (n *node) keyed(scopes ...string) *node {
	n.t.Helper()
	return n.as(n.want(201, "POST", "/api/v1/tenants/me/keys", object{"name": "k", "scopes": scopes})["raw_key"].(string))
}

func TestScopesOfOperations(t *testing.T) {
	t.Parallel()
	n := start(t, modeltest.New(t))
	agent := n.agent(nil)
	run := n.run(agent, "Hello?", nil)
	n.ended(run)
	create := object{"agent_id": agent, "input": object{"message": "x"}}
	tests := []struct {
		scope, method, path string
		body                object
		status              int // with the scope
	}{
		{"agents:read", "GET", "/api/v1/agents", nil, 200},
		{"agents:read", "GET", "/api/v1/agents/" + agent, nil, 200},
		{"agents:write", "POST", "/api/v1/agents", object{"name": "b"}, 201},
		{"agents:write", "PATCH", "/api/v1/agents/" + agent, object{"name": "c"}, 200},
		{"runs:create", "POST", "/api/v1/runs", create, 202},
		{"runs:create", "POST", "/api/v1/runs/" + run + "/cancel", nil, 200},
		{"runs:read", "GET", "/api/v1/runs", nil, 200},
		{"runs:read", "GET", "/api/v1/runs/" + run, nil, 200},
		{"runs:read", "GET", "/api/v1/runs/" + run + "/steps", nil, 200},
		{"runs:read", "GET", "/api/v1/runs/" + run + "/events", nil, 200},
		{"events:read", "GET", "/api/v1/runs/" + run + "/events", nil, 200},
		{"api_keys:read", "GET", "/api/v1/tenants/me/keys", nil, 200},
		{"api_keys:write", "POST", "/api/v1/tenants/me/keys", object{"name": "x"}, 201},
	}
	none := n.keyed("billing:read")
	for _, tt := range tests {
		var body any
		if tt.body != nil {
			body = tt.body
		}
		n.keyed(tt.scope).want(tt.status, tt.method, tt.path, body)
		if p := none.want(403, tt.method, tt.path, body); p["code"] != "MISSING_SCOPE" {
			t.Errorf("%s %s without %s: %v", tt.method, tt.path, tt.scope, p)
		}
	}
	none.want(200, "GET", "/api/v1/me", nil)
	n.keyed("admin").want(200, "GET", "/api/v1/runs", nil)
}

func TestRevokedKeyIsOutAtOnce(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	key := n.want(201, "POST", "/api/v1/tenants/me/keys", object{"name": "k"})
	other := n.as(key["raw_key"].(string))
	other.want(200, "GET", "/api/v1/me", nil)
	n.want(200, "DELETE", "/api/v1/tenants/me/keys/"+key["key_id"].(string), nil)
	other.want(401, "GET", "/api/v1/me", nil)
	n.want(404, "DELETE", "/api/v1/tenants/me/keys/"+ident.New(), nil)
}

func TestVersionIsNotNegotiated(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	for _, asked := range []string{"2020-01-01", "nonsense"} {
		r := n.do("GET", "/api/v1/me", nil, "X-API-Version", asked)
		if r.StatusCode != 200 || r.Header.Get("X-API-Version") != "2026-09-10" {
			t.Errorf("asked for %s: %d %s", asked, r.StatusCode, r.Header.Get("X-API-Version"))
		}
	}
}

func TestStatusesOfWrites(t *testing.T) {
	t.Parallel()
	n := start(t, modeltest.New(t))
	made := n.want(201, "POST", "/api/v1/agents", object{"name": "a"})
	path := "/api/v1/agents/" + made["agent_id"].(string)
	if whole := n.want(200, "GET", path, nil); len(whole) != len(made) {
		t.Errorf("the create answers %d fields of %d", len(made), len(whole))
	}
	n.want(200, "POST", path+"/suspend", object{})
	if p := n.want(409, "POST", path+"/suspend", object{}); p["code"] != "INVALID_STATE_TRANSITION" {
		t.Errorf("suspending twice: %v", p)
	}
	n.want(200, "POST", path+"/activate", object{})
	if r := n.do("DELETE", path, nil); r.StatusCode != 200 || r.json["deleted"] != true {
		t.Errorf("deleting: %d %s", r.StatusCode, r.raw)
	}
	n.want(404, "GET", path, nil)
}

// Reads take a viewer, writes a developer, keys an admin (decisions.md D3).
func TestRolesOfOperations(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	routes, raw := n.app.Routes()
	var rows []route.Row
	for _, r := range routes {
		rows = append(rows, r.Row)
	}
	for _, r := range raw {
		rows = append(rows, r.Row)
	}
	for _, r := range rows {
		if r.Public || slices.Contains(ownThings, r.ID) || r.ID == "callMcp" { // whose handler asks for a developer where a message runs an agent
			continue
		}
		least := authz.Developer
		read := r.Method == "GET" || slices.Contains(searches, r.ID)
		switch {
		case strings.HasPrefix(r.Path, "/api/v1/admin/"): // interface.md section 5.9
			if r.Role != authz.Admin {
				t.Errorf("%s %s takes the role %q, want admin", r.Method, r.Path, r.Role)
			}
			continue
		case read:
			least = authz.Viewer
		case strings.HasPrefix(r.Path, "/api/v1/tenants/"):
			least = authz.Admin
		}
		if read && r.Role != "" && r.Role != least || !read && !r.Role.AtLeast(least) {
			t.Errorf("%s %s takes the role %q, want %s", r.Method, r.Path, r.Role, least)
		}
	}
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

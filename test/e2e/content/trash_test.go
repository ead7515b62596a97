package content

import (
	"strings"
	"testing"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
)

// What a signed-in person deletes goes to the trash and comes back; what a key deletes is
// gone, and no key sees the trash (rule D18-trash).
func TestTrashOfPeople(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	tenant, user := n.Me()
	_, browser := n.Admin().OpenBrowserSession(tenant, user, identity.Device{})
	do := func(status int, method, path, body string) object {
		t.Helper()
		r := n.SendHeaders(method, path, body, append([]string{"Origin", n.URL, "Content-Type", "application/json"}, browser...)...)
		if r.StatusCode != status {
			t.Fatalf("%s %s: %d, want %d: %s", method, path, r.StatusCode, status, r.Body)
		}
		return r.JSON
	}
	workspace := n.Expect(201, "POST", "/api/v1/workspaces", object{})["workspace_id"].(string)
	at := "/api/v1/workspaces/" + workspace
	for _, path := range []string{"docs/a.txt", "b.txt", "c.txt", "folder/d.txt"} {
		if r := putWorkspaceFile(n, workspace, path, path); r.StatusCode != 201 {
			t.Fatalf("%d %s", r.StatusCode, r.Body)
		}
	}
	gone := do(200, "DELETE", at+"/files?path=docs/a.txt", "")
	if gone["trashed"] != true || gone["original_path"] != "docs/a.txt" {
		t.Errorf("%v", gone)
	}
	n.Expect(204, "DELETE", at+"/files?path=b.txt", nil)
	do(204, "DELETE", at+"/files?path=c.txt&trash=false", "")
	do(204, "DELETE", at+"/files?path=folder", "")
	do(404, "DELETE", at+"/files?path=folder", "")
	n.Expect(404, "GET", at+"/files/content?path=docs/a.txt", nil)
	items := do(200, "GET", at+"/trash", "")["items"].([]any)
	if len(items) != 1 || items[0].(object)["trash_path"] != gone["trash_path"] {
		t.Fatalf("the trash has %v", items)
	}
	for _, path := range []string{"/trash", "/trash/restore"} {
		method, body := "GET", any(nil)
		if strings.HasSuffix(path, "restore") {
			method, body = "POST", object{"trash_path": gone["trash_path"]}
		}
		n.Do(method, at+path, body).IsProblem(t, 403, "FORBIDDEN")
	}
	n.Do("DELETE", at+"/trash", nil).IsProblem(t, 403, "FORBIDDEN")
	for _, path := range []string{"/files?path=.trash", "/files/content?path=" + gone["trash_path"].(string)} {
		n.Do("GET", at+path, nil).IsProblem(t, 400, "INVALID_QUERY")
	}

	back := do(200, "POST", at+"/trash/restore", `{"trash_path":"`+gone["trash_path"].(string)+`"}`)
	if back["restored"] != true || back["original_path"] != "docs/a.txt" || back["original_workspace_id"] != workspace {
		t.Errorf("%v", back)
	}
	if r := n.Do("GET", at+"/files/content?path=docs/a.txt", nil); string(r.Body) != "docs/a.txt" {
		t.Errorf("%d %s", r.StatusCode, r.Body)
	}
	do(404, "POST", at+"/trash/restore", `{"trash_path":"`+gone["trash_path"].(string)+`"}`)
	do(200, "DELETE", at+"/files?path=docs/a.txt", "")
	if got := do(200, "DELETE", at+"/trash", ""); got["deleted_count"] != 1.0 || got["deleted"] != 1.0 || len(got["refused_paths"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	if got := do(200, "GET", at, "")["file_count"]; got != 0.0 {
		t.Errorf("%v files are left", got)
	}
	// Those of others do not exist.
	_, other := n.CreateTenant(object{"name": "Other"})
	theirs := other.Expect(201, "POST", "/api/v1/workspaces", object{})["workspace_id"].(string)
	for method, path := range map[string]string{"GET": "/trash", "DELETE": "/trash"} {
		do(404, method, "/api/v1/workspaces/"+theirs+path, "")
	}
}

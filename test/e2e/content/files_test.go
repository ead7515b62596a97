package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// uploadFile sends a file as a form does.
func uploadFile(n *apptest.Server, name, kind string, content []byte) apptest.Reply {
	n.T.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreatePart(map[string][]string{
		"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename=%q`, name)}, "Content-Type": {kind},
	})
	if err != nil {
		n.T.Fatal(err)
	}
	part.Write(content)
	w.Close()
	return n.SendHeaders("POST", "/api/v1/files", b.String(), "Authorization", "Bearer "+n.Key, "Content-Type", w.FormDataContentType())
}

// A file goes in and comes out, whole and in ranges, by header and by query,
// and is there after a restart.
func TestFiles(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		content := bytes.Repeat([]byte("0123456789"), 50_000)
		sum := sha256.Sum256(content)
		up := uploadFile(n, "pictures/one.png", "image/png", content)
		if up.StatusCode != 201 {
			t.Fatalf("%d %s", up.StatusCode, up.Body)
		}
		id := up.JSON["file_id"].(string)
		want := object{
			"file_id": id, "tenant_id": up.JSON["tenant_id"], "filename": "one.png", "mime_type": "image/png", "size_bytes": 500000.0,
			"sha256": hex.EncodeToString(sum[:]), "created_at": up.JSON["created_at"], "url": "/api/v1/files/" + id + "/content",
		}
		if diff := cmp.Diff(want, up.JSON); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, n.Expect(200, "GET", "/api/v1/files/"+id, nil)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}

		n.Stop()
		n = apptest.Restart(t, n.Config)
		path := want["url"].(string)
		got := n.Do("GET", path, nil)
		if !bytes.Equal(got.Body, content) || got.Header.Get("Content-Type") != "image/png" || !strings.HasPrefix(got.Header.Get("Content-Disposition"), "inline") {
			t.Errorf("%d bytes, %v", len(got.Body), got.Header)
		}
		if got := n.Do("GET", path, nil, "Range", "bytes=262140-262149"); got.StatusCode != 206 || string(got.Body) != "0123456789" {
			t.Errorf("a range over two parts: %d %q", got.StatusCode, got.Body)
		}
		if got := n.Do("GET", path, nil, "If-None-Match", got.Header.Get("Etag")); got.StatusCode != 304 || len(got.Body) > 0 {
			t.Errorf("%d", got.StatusCode)
		}
		if got := n.SendHeaders("GET", path+"?token="+n.Key, ""); got.StatusCode != 200 || len(got.Body) != len(content) {
			t.Errorf("the key in the query: %d", got.StatusCode)
		}
		apptest.CheckCode(t, n.SendHeaders("GET", "/api/v1/files/"+id+"?token="+n.Key, ""), 401, "AUTH_ERROR")
		apptest.CheckCode(t, n.SendHeaders("DELETE", "/api/v1/files/"+id+"?token="+n.Key, ""), 401, "AUTH_ERROR")

		page := uploadFile(n, "page.html", "text/html", []byte("<script>alert(1)</script>"))
		shown := n.Do("GET", page.JSON["url"].(string), nil)
		if !strings.HasPrefix(shown.Header.Get("Content-Disposition"), "attachment") || !strings.Contains(shown.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("a page: %v", shown.Header)
		}
		if diff := cmp.Diff([]string{id}, apptest.IDs(t, n.Expect(200, "GET", "/api/v1/files?mime_prefix=image/", nil), "file_id")); diff != "" {
			t.Error(diff)
		}
		apptest.CheckCode(t, n.Do("GET", "/api/v1/files?mime_prefix=%00", nil), 400, "INVALID_QUERY")

		if gone := n.Do("DELETE", "/api/v1/files/"+id, nil); gone.StatusCode != 204 || len(gone.Body) > 0 {
			t.Errorf("%d %s", gone.StatusCode, gone.Body)
		}
		apptest.CheckCode(t, n.Do("GET", path, nil), 404, "NOT_FOUND")
		apptest.CheckCode(t, n.Do("DELETE", "/api/v1/files/"+id, nil), 404, "NOT_FOUND")
	})
}

// An upload may have exactly 50 MiB.
func TestLargestUpload(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	n := apptest.Start(t, nil)
	content := make([]byte, 50<<20+1)
	made := uploadFile(n, "big.bin", "", content[:50<<20])
	if made.StatusCode != 201 || made.JSON["size_bytes"] != float64(50<<20) {
		t.Fatalf("%d %s", made.StatusCode, made.Body)
	}
	apptest.CheckCode(t, uploadFile(n, "bigger.bin", "", content), 413, "PAYLOAD_TOO_LARGE")
	if got := n.Do("GET", made.JSON["url"].(string), nil); len(got.Body) != 50<<20 {
		t.Errorf("%d bytes", len(got.Body))
	}
}

// putWorkspaceFile writes a file of a workspace.
func putWorkspaceFile(n *apptest.Server, workspace, path, content string, headers ...string) apptest.Reply {
	n.T.Helper()
	return n.Do("PUT", "/api/v1/workspaces/"+workspace+"/files?path="+url.QueryEscape(path), content, append([]string{"Content-Type", "text/plain"}, headers...)...)
}

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	made := n.Expect(201, "POST", "/api/v1/workspaces", nil)
	id := made["workspace_id"].(string)
	at := "/api/v1/workspaces/" + id
	if made["name"] != "New Workspace" || made["owner_type"] != "standalone" || made["owner_id"] != nil {
		t.Errorf("%v", made)
	}
	if got := n.Expect(200, "PATCH", at, object{"name": "Team files"}); got["name"] != "Team files" {
		t.Errorf("%v", got)
	}
	apptest.CheckCode(t, n.Do("PATCH", at, object{}), 422, "VALIDATION_ERROR")

	first := putWorkspaceFile(n, id, "/docs/a.txt", "one", "If-None-Match", "*")
	etag := first.Header.Get("Etag")
	if first.StatusCode != 201 || first.JSON["path"] != "docs/a.txt" || etag != `"`+first.JSON["etag"].(string)+`"` {
		t.Errorf("%d %s", first.StatusCode, first.Body)
	}
	refused := putWorkspaceFile(n, id, "docs/a.txt", "two", "If-None-Match", "*")
	apptest.CheckCode(t, refused, 412, "PRECONDITION_FAILED")
	if refused.JSON["current_etag"] != etag {
		t.Errorf("current_etag %v", refused.JSON["current_etag"])
	}
	apptest.CheckCode(t, putWorkspaceFile(n, id, "docs/a.txt", "two", "If-Match", "nonsense"), 412, "PRECONDITION_FAILED")
	if second := putWorkspaceFile(n, id, "docs/a.txt", "two", "If-Match", etag); second.StatusCode != 200 || second.JSON["file_id"] == first.JSON["file_id"] || second.JSON["created_at"] != first.JSON["created_at"] {
		t.Errorf("%d %s", second.StatusCode, second.Body)
	}
	for _, path := range []string{"../x", `a\b`, "a\x00b", "", "/", "\xff", "．．/x"} {
		apptest.CheckCode(t, putWorkspaceFile(n, id, path, "x"), 400, "INVALID_QUERY")
		apptest.CheckCode(t, n.Do("GET", at+"/files/content?path="+url.QueryEscape(path), nil), 400, "INVALID_QUERY")
		apptest.CheckCode(t, n.Do("DELETE", at+"/files?path="+url.QueryEscape(path), nil), 400, "INVALID_QUERY")
	}
	apptest.CheckCode(t, putWorkspaceFile(n, id, "docs", "x"), 409, "CONFLICT")
	moved := n.Expect(200, "POST", at+"/files/move", object{"from_path": "docs/a.txt", "to_path": "b.txt"})
	copied := n.Expect(201, "POST", at+"/files/copy", object{"source": "b.txt", "destination": "c/d.txt"})
	if moved["path"] != "b.txt" || copied["path"] != "c/d.txt" || moved["etag"] != copied["etag"] {
		t.Errorf("%v, %v", moved, copied)
	}
	if r := n.Do("POST", at+"/files/move", object{"from_path": "..", "to_path": ""}); len(r.JSON["errors"].([]any)) != 2 {
		t.Errorf("%s", r.Body)
	}
	apptest.CheckCode(t, n.Do("POST", at+"/files/copy", object{"source_path": "b.txt", "dest_path": "c/d.txt"}), 409, "ALREADY_EXISTS")

	list := n.Expect(200, "GET", at+"/files", nil)
	if diff := cmp.Diff([]any{"c"}, list["directories"]); diff != "" || len(list["files"].([]any)) != 1 {
		t.Errorf("%v", list)
	}
	if all := n.Expect(200, "GET", at+"/files?recursive=true", nil); len(all["files"].([]any)) != 2 {
		t.Errorf("%v", all)
	}
	found := n.Expect(200, "GET", at+"/search?q=TWO&glob=*.txt", nil)
	if first := found["results"].([]any)[0].(object); found["total"] != 2.0 || first["line_number"] == nil || first["lineNumber"] != first["line_number"] {
		t.Errorf("%v", found)
	}
	apptest.CheckCode(t, n.Do("GET", at+"/search?q=(&regex=true", nil), 400, "INVALID_QUERY")
	if got := n.Do("GET", at+"/files/content?path=c/d.txt", nil); string(got.Body) != "two" || !strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment; filename=d.txt") {
		t.Errorf("%q %v", got.Body, got.Header)
	}
	if got := n.Expect(200, "GET", at, nil); got["file_count"] != 2.0 || got["total_size_bytes"] != 6.0 {
		t.Errorf("%v", got)
	}
	if r := n.Do("DELETE", at+"/files?path=c", nil); r.StatusCode != 204 {
		t.Errorf("%d %s", r.StatusCode, r.Body)
	}
	apptest.CheckCode(t, n.Do("DELETE", at+"/files?path=c", nil), 404, "NOT_FOUND")
}

func TestWorkspacesOfAgents(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	id := n.Expect(201, "POST", "/api/v1/workspaces", nil)["workspace_id"].(string)
	at, agent := "/api/v1/workspaces/"+id, n.CreateAgent(nil)
	for _, body := range []object{{}, {"agent_id": agent, "team_id": agent}} {
		apptest.CheckCode(t, n.Do("POST", at+"/assign", body), 400, "MISSING_FIELD")
	}
	for _, field := range []string{"team_id", "company_id"} {
		apptest.CheckCode(t, n.Do("POST", at+"/assign", object{field: agent}), 404, "NOT_FOUND")
	}
	apptest.CheckCode(t, n.Do("DELETE", at+"/assign", nil), 400, "MISSING_FIELD")
	other := n.CreateAgent(object{"name": "other"})
	for _, way := range []struct {
		query string
		body  any
	}{{"", object{"agent_id": agent}}, {"?agent_id=" + agent, nil}, {"", nil}} { // with neither, the only one
		n.Expect(200, "POST", at+"/assign", object{"agent_id": agent})
		if way.query != "" {
			n.Expect(200, "POST", at+"/assign", object{"agent_id": other})
			apptest.CheckCode(t, n.Do("DELETE", at+"/assign", nil), 400, "MISSING_FIELD")
		}
		if got := n.Expect(200, "DELETE", at+"/assign"+way.query, way.body); slices.Contains(got["assigned_agents"].([]any), any(agent)) {
			t.Errorf("unassigned by %v: %v", way, got)
		}
		if way.query != "" {
			n.Expect(200, "DELETE", at+"/assign", nil)
		}
	}
	n.Expect(200, "DELETE", "/api/v1/agents/"+other, nil)
	n.Expect(200, "POST", at+"/assign", object{"agent_id": agent})
	if got := n.Expect(200, "GET", "/api/v1/agents?workspace_id="+id, nil); len(got["items"].([]any)) != 1 {
		t.Errorf("%v", got)
	}
	if got := n.Expect(200, "GET", "/api/v1/agents/"+agent+"/workspace/files", nil); got["workspace_id"] != id {
		t.Errorf("%v", got)
	}
	if r := n.Do("DELETE", at, nil); r.StatusCode != 204 {
		t.Errorf("%d %s", r.StatusCode, r.Body)
	}
	if got := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil); got["workspace_id"] != nil {
		t.Errorf("%v", got)
	}
	own := n.Expect(200, "GET", "/api/v1/agents/"+agent+"/workspace/files", nil)["workspace_id"].(string)
	if all := n.Expect(200, "GET", "/api/v1/workspaces", nil); all["total"] != 1.0 {
		t.Errorf("%v", all)
	}
	n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
	apptest.Eventually(t, func() bool { return n.Do("GET", "/api/v1/workspaces/"+own, nil).StatusCode == 404 })
}

// Reading needs files:read; writing needs files:write and the role developer.
func TestScopesOfFiles(t *testing.T) {
	t.Parallel()
	g := apptest.StartWithRoles(t)
	reader := g.WithKey(g.KeyFor(authz.Viewer, "files:read", "files:write"))
	apptest.CheckCode(t, reader.Do("POST", "/api/v1/workspaces", nil), 403, "FORBIDDEN")
	reader.Expect(200, "GET", "/api/v1/workspaces", nil)
	writer := g.WithKey(g.KeyFor(authz.Developer, "files:write"))
	writer.Expect(201, "POST", "/api/v1/workspaces", nil)
	apptest.CheckCode(t, writer.Do("GET", "/api/v1/workspaces", nil), 403, "MISSING_SCOPE")
	apptest.CheckCode(t, writer.Do("GET", "/api/v1/files", nil), 403, "MISSING_SCOPE")
	agents := g.WithKey(g.KeyFor(authz.Owner, "agents:read", "agents:write", "runs:read"))
	apptest.CheckCode(t, agents.Do("GET", "/api/v1/workspaces", nil), 403, "MISSING_SCOPE")
	apptest.CheckCode(t, agents.Do("POST", "/api/v1/workspaces", nil), 403, "MISSING_SCOPE")
}

// An agent writes a file and reads it again; what it wrote is in its workspace
// and among the run's artifacts, there after a restart.
func TestAgentWritesFiles(t *testing.T) {
	t.Parallel()
	call := func(id, name, arguments string) modeltest.Answer {
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: id, Name: name, Arguments: arguments}}}
	}
	sim := modeltest.New(t, modeltest.Script(
		call("c1", "write_file", `{"path":"report/today.md","content":"# All is well"}`),
		call("c2", "read_file", `{"path":"report/today.md"}`),
		call("c3", "write_file", `{"path":"../../outside","content":"x"}`),
		call("c4", "list_files", `{}`),
		modeltest.Answer{Text: "Done."},
	))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"built_in_tools": []string{"read_file", "write_file", "list_files"}})
	id := n.StartRun(agent, "Write the report.", nil)
	if r := n.WaitRun(id); r["status"] != "completed" {
		t.Fatalf("%v", r)
	}
	requests := sim.Requests()
	var results []string
	for _, m := range requests[len(requests)-1].Chat().Messages {
		if m.Role == "tool" {
			results = append(results, m.Text())
		}
	}
	want := []string{
		"Wrote report/today.md (13 bytes).", "# All is well",
		`The path "../../outside" cannot be used: a path stays inside of its workspace, and no name is only dots and spaces.`, "report/today.md (13 bytes)",
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("what the model was told (-want +got):\n%s", diff)
	}

	n.Stop()
	n = apptest.Restart(t, n.Config)
	list := n.Expect(200, "GET", "/api/v1/runs/"+id+"/artifacts", nil)
	if list["run_id"] != id || list["total"] != 1.0 {
		t.Fatalf("%v", list)
	}
	a := list["artifacts"].([]any)[0].(object)
	if a["name"] != "report/today.md" || a["mime_type"] != "text/markdown" || a["size_bytes"] != 13.0 || a["run_id"] != id {
		t.Errorf("%v", a)
	}
	if got := n.Do("GET", a["storage_ref"].(string), nil); string(got.Body) != "# All is well" || got.Header.Get("Content-Disposition") != "attachment; filename=today.md" {
		t.Errorf("%q %v", got.Body, got.Header)
	}
	if got := n.SendHeaders("GET", a["storage_ref"].(string)+"?token="+n.Key, ""); got.StatusCode != 200 {
		t.Errorf("the key in the query: %d", got.StatusCode)
	}
	if diff := cmp.Diff(a, n.Expect(200, "GET", "/api/v1/artifacts/"+a["artifact_id"].(string), nil)); diff != "" {
		t.Error(diff)
	}
	files := n.Expect(200, "GET", "/api/v1/agents/"+agent+"/workspace/files?path=report", nil)
	content := "/api/v1/workspaces/" + files["workspace_id"].(string) + "/files/content?path=report/today.md"
	if got := n.Do("GET", content, nil); string(got.Body) != "# All is well" {
		t.Errorf("%q", got.Body)
	}
}

// A result that is too long for the conversation is stored whole as an
// artifact; the model gets its name and can read the rest.
func TestLongResultIsAnArtifact(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Script(
		modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "long", Name: "list_files", Arguments: "{}"}}},
		modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "read", Name: "read_file", Arguments: `{"path":"list_files-long.txt","offset":70000}`}}},
		modeltest.Answer{Text: "Done."},
	))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	workspace := n.Expect(201, "POST", "/api/v1/workspaces", nil)["workspace_id"].(string)
	n.Expect(200, "POST", "/api/v1/workspaces/"+workspace+"/assign", object{"agent_id": agent})
	for i := range 120 {
		long := strings.Repeat("x", 200)
		if r := putWorkspaceFile(n, workspace, fmt.Sprintf("%s/%s/%s/%d", long, long, long, i), ""); r.StatusCode != 201 {
			t.Fatalf("%d %s", r.StatusCode, r.Body)
		}
	}
	id := n.StartRun(agent, "What is there?", nil)
	if r := n.WaitRun(id); r["status"] != "completed" {
		t.Fatalf("%v", r)
	}
	list := n.Expect(200, "GET", "/api/v1/runs/"+id+"/artifacts", nil)
	a := list["artifacts"].([]any)[0].(object)
	if list["total"] != 1.0 || a["name"] != "list_files-long.txt" {
		t.Errorf("%v", list)
	}
	whole := n.Do("GET", a["storage_ref"].(string), nil).Body
	if got := strings.Count(string(whole), "(0 bytes)"); got != 120 {
		t.Errorf("%d of 120 files are in the artifact", got)
	}
	requests := sim.Requests()
	messages := requests[len(requests)-1].Chat().Messages
	first, second := messages[len(messages)-3].Text(), messages[len(messages)-1].Text()
	if len(first) > 66<<10 || !strings.Contains(first, "all of it is in this run's artifact list_files-long.txt]") {
		t.Errorf("%d bytes, which end with %q", len(first), first[len(first)-200:])
	}
	if !strings.HasPrefix(second, string(whole[70000:])) {
		t.Errorf("read on: %.100q", second)
	}
}

// A client that stops sending in the middle of a file leaves nothing behind.
func TestHalfAnUpload(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	reader, writer := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		writer.Write(bytes.Repeat([]byte("x"), 600<<10))
		writer.CloseWithError(io.ErrClosedPipe)
	}()
	workspace := n.Expect(201, "POST", "/api/v1/workspaces", nil)["workspace_id"].(string)
	req, err := http.NewRequestWithContext(t.Context(), "PUT", n.URL+"/api/v1/workspaces/"+workspace+"/files?path=half.bin", reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.Key)
	if resp, err := apptest.HTTPClient.Do(req); err == nil {
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("half an upload answers %d", resp.StatusCode)
		}
	}
	<-done
	if got := n.Expect(200, "GET", "/api/v1/workspaces/"+workspace, nil); got["file_count"] != 0.0 {
		t.Errorf("%v", got)
	}
}

// Whatever an upload calls itself, it is downloaded under a clean name in one
// header, as an attachment where a browser would run it, and never sniffed.
func TestHostileUploads(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	checked := func(what, kind string, up apptest.Reply) {
		t.Helper()
		if up.StatusCode/100 == 4 {
			return // refused
		}
		if up.StatusCode != 201 {
			t.Errorf("%s: %d %s", what, up.StatusCode, up.Body)
			return
		}
		name, _ := up.JSON["filename"].(string)
		if name == "" || len(name) > 255 || strings.ContainsAny(name, "/\\\x00\r\n\u202e") || name == ".." {
			t.Errorf("%s is called %q", what, name)
		}
		got := n.Do("GET", up.JSON["url"].(string), nil)
		how, params, err := mime.ParseMediaType(got.Header.Get("Content-Disposition"))
		served := got.Header.Get("Content-Type") // of a type that is none, the one of the name
		inline := served == "image/png" || served == "application/pdf"
		if err != nil || params["filename"] != name || len(got.Header.Values("Content-Disposition")) != 1 || (how == "inline") != inline {
			t.Errorf("%s of %s: %s, %q, %v", what, kind, served, got.Header.Values("Content-Disposition"), err)
		}
		if got.StatusCode != 200 || got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("Set-Cookie") != "" ||
			!strings.Contains(got.Header.Get("Content-Security-Policy"), "default-src 'none'") ||
			strings.Contains(got.Header.Get("Content-Security-Policy"), "sandbox") == (served == "application/pdf") {
			t.Errorf("%s of %s: %d %v", what, kind, got.StatusCode, got.Header)
		}
	}
	names := []string{
		"a.html", "../../etc/passwd", `C:\windows\system.ini`, "a\r\nSet-Cookie: x=y\r\n.txt", "a\x00.png", "gpj.\u202eexe", `a"; filename="b.html`,
		"..", ".", "/", " ", "con", strings.Repeat("ü", 5000), "\xff\xfe", "<script>alert(1)</script>", "a;b=c", "%0d%0aX: y", "=?utf-8?q?x?=",
	}
	for _, name := range names {
		body := `--b` + "\r\n" + `Content-Disposition: form-data; name="file"; filename="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"` +
			"\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>\r\n--b--\r\n"
		checked(fmt.Sprintf("the form %.40q", name), "text/html",
			n.SendHeaders("POST", "/api/v1/files", body, "Authorization", "Bearer "+n.Key, "Content-Type", "multipart/form-data; boundary=b"))
		checked(fmt.Sprintf("the body %.40q", name), "text/html", n.Do("POST", "/api/v1/files",
			object{"filename": strings.ToValidUTF8(name, "?"), "mime_type": "text/html", "data": "PHNjcmlwdD4="}))
	}
	for _, kind := range []string{
		"text/html", "TEXT/HTML", "image/svg+xml", "application/xhtml+xml", "application/xml", "text/xml", "text/javascript", "text/css", "application/pdf",
		"image/png", "multipart/x-mixed-replace", "message/rfc822", "text/html; charset=utf-7", "x", "text/html\r\nX-A: b", "image/png, text/html",
	} {
		checked("x", kind, n.Do("POST", "/api/v1/files", object{"filename": "x", "mime_type": kind, "data": "PHNjcmlwdD4="}))
		checked("page.png", kind, uploadFile(n, "page.png", kind, []byte("<script>alert(1)</script>")))
	}
}

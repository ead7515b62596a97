package sessions

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

func TestShares(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		sim := modeltest.New(t, modeltest.Respond(modeltest.ToolRounds(1, modeltest.Answer{Text: "It is 42."})))
		n := apptest.Start(t, sim, adjust)
		id := n.CreateSession(n.CreateAgent(object{"built_in_tools": []string{"calculator"}}), nil)
		path := "/api/v1/sessions/" + id
		run := n.SendMessage(id, "What is it?")
		n.WaitRun(run)
		n.Expect(201, "POST", path+"/todos", object{"title": "later", "description": "hidden"})
		if got := n.Expect(200, "GET", path+"/share", nil); got["share_url"] != nil || got["role"] != nil {
			t.Errorf("not shared: %v", got)
		}
		n.Expect(204, "DELETE", path+"/share", nil)
		share := func(body object) string {
			return strings.TrimPrefix(n.Expect(200, "POST", path+"/share", body)["share_url"].(string), n.URL)
		}
		if unnamed := n.Expect(200, "POST", path+"/share", nil); unnamed["role"] != "viewer" {
			t.Errorf("without a body: %v", unnamed)
		}
		first := share(object{"role": "editor"})
		second := share(object{"role": "viewer", "expires_in_hours": 1})
		if got := n.Expect(200, "GET", path+"/share", nil); got["share_url"] != n.URL+second || got["role"] != "viewer" || got["expires_at"] == nil {
			t.Errorf("shared: %v", got)
		}
		apptest.CheckCode(t, n.SendHeaders("GET", first, ""), 404, "NOT_FOUND")
		seen := n.SendHeaders("GET", second, "")
		if seen.StatusCode != 200 || !strings.Contains(seen.Header.Get("Cache-Control"), "no-store") {
			t.Fatalf("the link: %d %v %s", seen.StatusCode, seen.Header, seen.Body)
		}
		for _, hidden := range []string{run, `6*7`, "hidden", "tenant"} {
			if strings.Contains(string(seen.Body), hidden) {
				t.Errorf("the link shows %q: %s", hidden, seen.Body)
			}
		}
		var said []string
		for _, m := range seen.JSON["messages"].([]any) {
			said = append(said, fmt.Sprint(m.(object)["role"], " ", m.(object)["content"]))
		}
		if diff := cmp.Diff([]string{"user What is it?", "assistant It is 42."}, said); diff != "" {
			t.Errorf("the link shows (-want +got):\n%s", diff)
		}
		tools := seen.JSON["runs"].([]any)[0].(object)["tools"].([]any)[0].(object)
		if tools["name"] != "calculator" || tools["status"] != "done" || seen.JSON["todos"].([]any)[0].(object)["title"] != "later" || seen.JSON["role"] != "viewer" {
			t.Errorf("the link shows %s", seen.Body)
		}
		n.Admin().Exec(`UPDATE session_shares SET expires_at = 1`)
		apptest.CheckCode(t, n.SendHeaders("GET", second, ""), 404, "NOT_FOUND")
		if got := n.Expect(200, "GET", path+"/share", nil); got["share_url"] != nil {
			t.Errorf("an expired link is shown: %v", got)
		}
		third := share(object{"role": "viewer"})
		n.Expect(204, "DELETE", path+"/share", nil)
		apptest.CheckCode(t, n.SendHeaders("GET", third, ""), 404, "NOT_FOUND")
		apptest.CheckCode(t, n.Do("POST", path+"/share", object{"role": "owner"}), 422, "VALIDATION_ERROR")
		apptest.CheckCode(t, n.Do("POST", path+"/share", object{"role": "viewer", "expires_in_hours": 0.5}), 422, "VALIDATION_ERROR")
	})
}

func TestSessionAnnotations(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(nil)
	id, other := n.CreateSession(agent, nil), n.CreateSession(agent, nil)
	path := "/api/v1/sessions/" + id + "/annotations"
	one := n.Expect(201, "POST", path, object{"message_id": "m-1", "content": "look"})["id"].(string)
	n.Expect(201, "POST", path, object{"message_id": "m-2", "content": "again"})
	n.Expect(201, "POST", "/api/v1/sessions/"+other+"/annotations", object{"message_id": "m-1", "content": "elsewhere"})
	if got := n.Expect(200, "PATCH", path+"/"+one, object{"resolved": true}); got["resolved"] != true || got["content"] != "look" {
		t.Errorf("resolved: %v", got)
	}
	var all []string
	for _, a := range n.Expect(200, "GET", path, nil)["items"].([]any) {
		all = append(all, fmt.Sprint(a.(object)["content"], a.(object)["resolved"]))
	}
	if diff := cmp.Diff([]string{"looktrue", "againfalse"}, all); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	elsewhere := "/api/v1/sessions/" + other + "/annotations/" + one
	apptest.CheckCode(t, n.Do("PATCH", elsewhere, object{"resolved": false}), 404, "NOT_FOUND")
	apptest.CheckCode(t, n.Do("DELETE", elsewhere, nil), 404, "NOT_FOUND")
	n.Expect(204, "DELETE", path+"/"+one, nil)
	apptest.CheckCode(t, n.Do("DELETE", path+"/"+one, nil), 404, "NOT_FOUND")
	apptest.CheckCode(t, n.Do("POST", path, object{"content": ""}), 422, "VALIDATION_ERROR")
}

func TestBulkDeleteAndExport(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(recall))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	a, b := n.CreateSession(agent, nil), n.CreateSession(agent, nil)
	n.WaitRun(n.SendMessage(a, "hello"))
	path := "/api/v1/sessions/" + a + "/export"
	md := n.Do("GET", path, nil)
	if md.StatusCode != 200 || md.Header.Get("Content-Type") != "text/markdown; charset=utf-8" || !strings.HasPrefix(string(md.Body), "# hello\n") || !strings.Contains(string(md.Body), "\n0 hello\n") {
		t.Errorf("%s: %s", md.Header.Get("Content-Type"), md.Body)
	}
	js := n.Expect(200, "GET", path+"?format=json", nil)
	if js["format"] != "svc.chat.v1" || len(js["messages"].([]any)) != 2 || js["title"] != "hello" || js["agent_name"] != "tester" {
		t.Errorf("as JSON: %v", js)
	}
	apptest.CheckCode(t, n.Do("GET", path+"?format=pdf", nil), 400, "INVALID_QUERY")
	gone := ident.New()
	got := n.Expect(200, "POST", "/api/v1/sessions/bulk-delete", object{"session_ids": []string{a, gone, b, "nonsense"}})
	if diff := cmp.Diff(object{"deleted": 2.0, "failed": []any{gone, "nonsense"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, id := range []string{a, b} {
		if s := n.Expect(200, "GET", "/api/v1/sessions/"+id, nil); s["status"] != "closed" {
			t.Errorf("the session is %v", s["status"])
		}
	}
	if got := n.Expect(200, "GET", "/api/v1/sessions/"+a+"/artifacts", nil); got["total"] != 0.0 || got["truncated"] != false || got["session_id"] != a {
		t.Errorf("artifacts: %v", got)
	}
	apptest.CheckCode(t, n.Do("POST", "/api/v1/sessions/bulk-delete", object{"session_ids": []string{}}), 422, "VALIDATION_ERROR")
}

func TestTodos(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
			if strings.Contains(req.Chat().Last("user"), "break") {
				return modeltest.Answer{Status: 400, Error: "no"}
			}
			return recall(req)
		}))
		n := apptest.Start(t, sim, adjust)
		agent, other := n.CreateAgent(nil), n.CreateAgent(object{"name": "other"})
		id := n.CreateSession(agent, nil)
		path := "/api/v1/sessions/" + id + "/todos"
		add := func(body object) string {
			return n.Expect(201, "POST", path, body)["todo_id"].(string)
		}
		one := func(todo string) object {
			t.Helper()
			for _, x := range n.Expect(200, "GET", path, nil)["items"].([]any) {
				if x.(object)["todo_id"] == todo {
					return x.(object)
				}
			}
			return nil
		}
		becomes := func(todo, status string) object {
			t.Helper()
			apptest.Eventually(t, func() bool { return one(todo)["status"] == status })
			return one(todo)
		}
		// With somebody to do it and no time it is done at once, in the session.
		done := becomes(add(object{"title": "count", "instructions": "to three", "assign_agent_id": agent}), "done")
		if done["last_run_status"] != "completed" || done["agent_name"] != "tester" {
			t.Errorf("done: %v", done)
		}
		if diff := cmp.Diff([]string{"user: count\n\nto three", "assistant: 0 count\n\nto three"}, textsOf(n, id)); diff != "" {
			t.Errorf("the session (-want +got):\n%s", diff)
		}
		first := n.Expect(200, "GET", "/api/v1/sessions/"+id+"/messages", nil)["items"].([]any)[0].(object)
		if first["from_todo"] != done["todo_id"] {
			t.Errorf("the message is from %v", first["from_todo"])
		}
		// Another agent does it by itself.
		elsewhere := becomes(add(object{"title": "dig", "assign_agent_id": other}), "done")
		if r := n.Expect(200, "GET", "/api/v1/runs/"+elsewhere["run_id"].(string), nil); r["session_id"] != nil || r["agent_id"] != other {
			t.Errorf("the other agent's run: %v", r)
		}
		// One that goes wrong is pending again, and not tried by itself.
		broken := add(object{"title": "break it", "assign_agent_id": other})
		apptest.Eventually(t, func() bool { return one(broken)["last_run_status"] == "failed" })
		if got := one(broken); got["status"] != "pending" || got["next_fire_at"] != nil {
			t.Errorf("after a failure: %v", got)
		}
		// A person is asked.
		asked := add(object{"title": "ask", "assign_agent_id": agent, "require_confirmation": true})
		apptest.CheckCode(t, n.Do("POST", path+"/"+broken+"/confirm", object{"execute": true}), 409, "INVALID_STATE_TRANSITION")
		becomes(asked, "pending_confirmation")
		n.Expect(200, "POST", path+"/"+asked+"/confirm", nil) // without a body: yes
		becomes(asked, "done")
		never := add(object{"title": "never", "assign_agent_id": agent, "require_confirmation": true})
		becomes(never, "pending_confirmation")
		if got := n.Expect(200, "POST", path+"/"+never+"/confirm", object{"execute": false}); got["status"] != "cancelled" {
			t.Errorf("not confirmed: %v", got)
		}
		apptest.CheckCode(t, n.Do("POST", path+"/"+never+"/run", nil), 409, "INVALID_STATE_TRANSITION")
		// Due tomorrow, moved to now.
		tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
		later := add(object{"title": "later", "assign_agent_id": agent, "due_at": tomorrow})
		if got := one(later); got["status"] != "pending" || got["next_fire_at"] == nil {
			t.Errorf("due tomorrow: %v", got)
		}
		n.Expect(200, "PATCH", path+"/"+later, object{"due_at": time.Now().UTC().Format(time.RFC3339)})
		becomes(later, "done")
		// Of no time, until somebody says now.
		backlog := add(object{"title": "some day", "assign_agent_id": agent, "due_at": nil})
		if got := one(backlog); got["due_at"] != nil || got["next_fire_at"] != nil {
			t.Errorf("of no time: %v", got)
		}
		n.Expect(200, "POST", path+"/"+backlog+"/run", nil)
		becomes(backlog, "done")
		nobody := add(object{"title": "for nobody"})
		apptest.CheckCode(t, n.Do("POST", path+"/"+nobody+"/run", nil), 400, "MISSING_FIELD")
		if got := n.Expect(200, "PATCH", path+"/"+nobody, object{"status": "completed"}); got["status"] != "done" {
			t.Errorf("completed: %v", got)
		}
		ranged := n.Expect(200, "GET", path+"?from=2026-01-01T00:00:00Z&to="+tomorrow, nil)
		if got := ranged["total"]; got == 0.0 || strings.Contains(fmt.Sprint(ranged["items"]), "some day") {
			t.Errorf("by time: %v", ranged)
		}
		apptest.CheckCode(t, n.Do("GET", path+"?from=yesterday", nil), 400, "INVALID_QUERY")
		n.Expect(200, "DELETE", path+"/"+nobody, nil)
		apptest.CheckCode(t, n.Do("DELETE", path+"/"+nobody, nil), 404, "NOT_FOUND")
		for field, body := range map[string]object{
			"title":      {"title": " "},
			"delivery":   {"title": "x", "delivery": object{"channels": []string{"email"}, "target": "ann@example.com"}},
			"recurrence": {"title": "x", "recurrence": object{"cron": "* * * * *"}},
			"status":     {"title": "x", "status": "sleeping"},
		} {
			r := n.Do("POST", path, body)
			apptest.CheckCode(t, r, 422, "VALIDATION_ERROR")
			if !strings.Contains(fmt.Sprint(r.JSON["errors"]), field) {
				t.Errorf("the wrong %s: %s", field, r.Body)
			}
		}
		daily := n.Expect(201, "POST", path, object{"title": "daily", "assign_agent_id": agent, "recurrence": object{"cron": "0 8 * * *", "timezone": "Europe/Berlin"}})
		if at, err := time.Parse(time.RFC3339, fmt.Sprint(daily["next_fire_at"])); err != nil || !at.After(time.Now()) || at.Minute() != 0 {
			t.Errorf("a daily todo: %v", daily)
		}
		apptest.CheckCode(t, n.Do("POST", path, object{"title": "x", "recurrence": object{"cron": "0 8 * * *", "timezone": "Mars/Olympus"}}), 422, "VALIDATION_ERROR")
		apptest.CheckCode(t, n.Do("POST", path, object{"title": "x", "assign_team_id": ident.New()}), 404, "NOT_FOUND")
		apptest.CheckCode(t, n.Do("POST", path, object{"title": "x", "assign_agent_id": ident.New()}), 404, "NOT_FOUND")
	})
}

func TestTasks(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(recall))
	n := apptest.Start(t, sim)
	a, b := n.CreateAgent(nil), n.CreateAgent(object{"name": "other"})
	task := n.Expect(201, "POST", "/api/v1/todos", object{"title": "dig", "agent_ids": []string{a, b}})
	if len(task["items"].([]any)) != 2 {
		t.Fatalf("the task is %v", task)
	}
	n.Expect(201, "POST", "/api/v1/todos", object{"title": "some day", "agent_id": a, "due_at": "2199-01-01T00:00:00Z"})
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", "/api/v1/todos?status=done", nil)["total"] == 2.0 })
	all := n.Expect(200, "GET", "/api/v1/todos?limit=2", nil)
	if items := all["items"].([]any); all["total"] != 3.0 || len(items) != 2 || items[0].(object)["title"] != "some day" {
		t.Errorf("all todos: %v", all)
	}
	if got := n.Expect(200, "GET", "/api/v1/todos?agent_id="+b, nil); got["total"] != 1.0 {
		t.Errorf("of one agent: %v", got)
	}
	n.Expect(201, "POST", "/api/v1/todos", object{"title": "water", "agent_id": a, "instructions": "the plants", "require_confirmation": true,
		"recurrence": object{"cron": "0 8 * * *"}})
	asked := n.Expect(200, "GET", "/api/v1/todos?limit=1", nil)["items"].([]any)[0].(object)
	if asked["instructions"] != "the plants" || asked["require_confirmation"] != true || asked["recurrence"].(object)["cron"] != "0 8 * * *" {
		t.Errorf("a task with all fields: %v", asked)
	}
	session := task["items"].([]any)[0].(object)["session_id"].(string)
	if got := textsOf(n, session); len(got) != 2 {
		t.Errorf("the session of the task: %v", got)
	}
	apptest.CheckCode(t, n.Do("POST", "/api/v1/todos", object{"title": "x"}), 422, "VALIDATION_ERROR")
	apptest.CheckCode(t, n.Do("POST", "/api/v1/todos", object{"title": "x", "agent_id": a, "agent_ids": []string{b}}), 422, "VALIDATION_ERROR")
	apptest.CheckCode(t, n.Do("POST", "/api/v1/todos", object{"title": "x", "team_id": a}), 404, "NOT_FOUND")
	apptest.CheckCode(t, n.Do("POST", "/api/v1/todos", object{"title": "x", "agent_id": ident.New()}), 404, "NOT_FOUND")
}

// A shared conversation is a page for browsers: all of it escaped, without scripts, and
// with a policy that allows none.
func TestSharedPage(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	id := n.CreateSession(n.CreateAgent(object{"name": "<b>Chef</b>", "model": apptest.EchoModel}), nil)
	n.WaitRun(n.SendMessage(id, `<script src="https://evil.example/x.js"></script> & "tea"`))
	path := "/api/v1/sessions/" + id + "/share"
	made := n.Expect(200, "POST", path, nil)
	page := strings.TrimPrefix(made["page_url"].(string), n.URL)
	if !strings.HasPrefix(page, "/shared/") || strings.TrimPrefix(made["share_url"].(string), n.URL+"/api/v1") != page {
		t.Errorf("the link is %v", made)
	}
	seen := n.SendHeaders("GET", page, "", "Accept", "text/html")
	body := string(seen.Body)
	for _, want := range []string{`<html lang="en">`, "&lt;b&gt;Chef&lt;/b&gt;", "&lt;script src=", "&amp; &#34;tea&#34;", "<h2>Person</h2>"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	if seen.StatusCode != 200 || strings.Contains(body, "<script") || strings.Contains(body, "<b>") {
		t.Errorf("%d\n%s", seen.StatusCode, body)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex",
	} {
		if got := seen.Header.Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if policy := seen.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "script") {
		t.Errorf("the policy is %s", policy)
	}
	n.Expect(204, "DELETE", path, nil)
	for _, gone := range []string{page, "/shared/none", "/shared/%3Cscript%3E"} {
		r := n.SendHeaders("GET", gone, "", "Accept", "text/html")
		if r.StatusCode != 404 || !strings.Contains(string(r.Body), "This link is not valid") || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %v %s", gone, r.StatusCode, r.Header, r.Body)
		}
	}
}

// What belongs to another company is as if it were not there, also in lists of
// ids, which TestIsolation does not put in.
func TestForeignIDsInLists(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	g, err := n.Admin().Tenants.Create(t.Context(), "Walrus", "")
	if err != nil {
		t.Fatal(err)
	}
	theirs := n.WithKey(string(g.RawKey))
	agent := theirs.CreateAgent(nil)
	session := theirs.CreateSession(agent, nil)
	gone := ident.New()
	for _, id := range []string{agent, gone} {
		apptest.CheckCode(t, n.Do("POST", "/api/v1/todos", object{"title": "x", "agent_ids": []string{id}}), 404, "NOT_FOUND")
	}
	got := n.Expect(200, "POST", "/api/v1/sessions/bulk-delete", object{"session_ids": []string{session, gone}})
	if diff := cmp.Diff(object{"deleted": 0.0, "failed": []any{session, gone}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := theirs.Expect(200, "GET", "/api/v1/sessions/"+session, nil); s["status"] != "active" {
		t.Errorf("another company closed the session: %v", s)
	}
}

func TestMessagesWithFiles(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(recall))
	n := apptest.Start(t, sim)
	id := n.CreateSession(n.CreateAgent(nil), nil)
	path := "/api/v1/sessions/" + id + "/messages"
	upload := func(mimeType, name, data string) string {
		return n.Expect(201, "POST", "/api/v1/files", object{"mime_type": mimeType, "filename": name, "data": base64.StdEncoding.EncodeToString([]byte(data))})["file_id"].(string)
	}
	files := []string{upload("text/plain", "a.txt", "the text"), upload("image/png", "b.png", "\x89PNG"), upload("application/zip", "c.zip", "PK"), upload("text/plain", "d.txt", "\xff\xfe"),
		upload("application/pdf", "e.pdf", "%PDF-"), upload("audio/mpeg", "f.mp3", "ID3")}
	run := n.Expect(202, "POST", path, object{"content": "", "file_ids": files})["run_id"].(string)
	n.WaitRun(run)
	asked := sim.Requests()[0].Chat().Messages[0].Content
	for _, want := range []string{"the text", "data:image/png;base64,iVBORw==", `c.zip`, "no readable text",
		`{"filename":"e.pdf","file_data":"data:application/pdf;base64,JVBERi0="}`, `{"data":"SUQz","format":"mp3"}`} {
		if !strings.Contains(string(asked), want) {
			t.Errorf("the model is not told %q: %s", want, asked)
		}
	}
	first := n.Expect(200, "GET", path, nil)["items"].([]any)[0].(object)
	if got := first["attachments"].([]any); len(got) != 6 || got[0].(object)["filename"] != "a.txt" || got[1].(object)["size_bytes"] != 4.0 {
		t.Errorf("attachments: %v", first)
	}
	n.WaitRun(n.SendMessage(id, "and now?"))
	if again := sim.Requests()[1].Chat().Messages[0].Content; string(again) != string(asked) {
		t.Errorf("in the next turn the files are %s", again)
	}
	for _, bad := range []string{ident.New(), "nonsense"} {
		apptest.CheckCode(t, n.Do("POST", path, object{"content": "x", "file_ids": []string{bad}}), 404, "NOT_FOUND")
	}
	apptest.CheckCode(t, n.Do("POST", path, object{"content": " "}), 422, "VALIDATION_ERROR")
	g, err := n.Admin().Tenants.Create(t.Context(), "Walrus", "")
	if err != nil {
		t.Fatal(err)
	}
	theirs := n.WithKey(string(g.RawKey)).Expect(201, "POST", "/api/v1/files", object{"mime_type": "text/plain", "data": "eA=="})["file_id"]
	apptest.CheckCode(t, n.Do("POST", path, object{"content": "x", "file_ids": []any{theirs}}), 404, "NOT_FOUND")
	big := upload("image/png", "big.png", strings.Repeat("x", 4<<20))
	apptest.CheckCode(t, n.Do("POST", path, object{"content": "x", "file_ids": []string{big, big, big}}), 422, "VALIDATION_ERROR")

	agent := n.CreateAgent(nil)
	for name, c := range map[string]struct {
		input  object
		status int
		field  string
	}{
		"unknown":  {object{"file_ids": []string{ident.New()}}, 404, ""},
		"no id":    {object{"message": "x", "file_ids": []string{"nonsense"}}, 404, ""},
		"foreign":  {object{"message": "x", "file_ids": []any{theirs}}, 404, ""},
		"too many": {object{"message": "x", "file_ids": slices.Repeat(files[:1], 21)}, 422, "input.file_ids"},
		"too big":  {object{"message": "x", "file_ids": []string{big, big, big}}, 422, "input.file_ids[2]"},
		"one text": {object{"message": "x", "file_ids": files[0]}, 422, "input.file_ids"},
		"numbers":  {object{"message": "x", "file_ids": []int{1}}, 422, "input.file_ids[0]"},
	} {
		got := n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": c.input})
		if got.StatusCode != c.status || !strings.Contains(string(got.Body), `"field":"`+c.field) && c.field != "" {
			t.Errorf("a run with files, %s: %d %s", name, got.StatusCode, got.Body)
		}
	}
}

// A run reads the files that its input names as a session's message does, and keeps
// them as its attachments; a fork of it reads them again.
func TestRunsWithFiles(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(recall))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	file := n.Expect(201, "POST", "/api/v1/files", object{"mime_type": "text/plain", "filename": "a.txt",
		"data": base64.StdEncoding.EncodeToString([]byte("the text"))})["file_id"].(string)
	made := n.Expect(202, "POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "Read it.", "file_ids": []string{file}, "mine": 1}})
	run := n.WaitRun(made["run_id"].(string))
	asked := string(sim.Requests()[0].Chat().Messages[0].Content)
	if !strings.Contains(asked, "Read it.") || !strings.Contains(asked, "the text") {
		t.Errorf("the model was asked %s", asked)
	}
	in := run["input"].(object)
	kept := in["attachments"].([]any)[0].(object)
	if in["message"] != "Read it." || in["mine"] != 1.0 || in["file_ids"] != nil || kept["file_id"] != file || kept["filename"] != "a.txt" {
		t.Errorf("its input is %v", in)
	}
	if got := fmt.Sprint(run["output"].(object)["sources"]); got != "[file]" {
		t.Errorf("its sources are %s", got)
	}
	n.Expect(204, "DELETE", "/api/v1/files/"+file, nil)
	fork := n.Expect(202, "POST", "/api/v1/runs/"+run["run_id"].(string)+"/fork", object{"step_seq": 1})
	n.WaitRun(fork["run_id"].(string))
	if again := string(sim.Requests()[1].Chat().Messages[0].Content); again != asked {
		t.Errorf("the fork asks %s", again)
	}
}

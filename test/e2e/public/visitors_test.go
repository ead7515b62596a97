package public

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

const sessions = "/api/v1/public/sessions"

// visitor is a stranger in a session.
type visitor struct {
	*apptest.Server
	id, token string
}

// visit begins a session as a stranger does, without a key.
func visit(n *apptest.Server, agent string, headers ...string) visitor {
	n.T.Helper()
	stranger := n.WithKey("")
	made := stranger.Expect(201, "POST", sessions, object{"agent_id": agent, "fresh": true}, headers...)
	return visitor{stranger, made["session_id"].(string), made["token"].(string)}
}

func (v visitor) do(method, path string, body any, headers ...string) apptest.Reply {
	v.T.Helper()
	return v.Do(method, sessions+"/"+v.id+path, body, append(headers, "X-Public-Session-Token", v.token)...)
}

func (v visitor) expect(status int, method, path string, body any) object {
	v.T.Helper()
	r := v.do(method, path, body)
	if r.StatusCode != status {
		v.T.Fatalf("%s %s: %d, want %d: %s", method, path, r.StatusCode, status, r.Body)
	}
	return r.JSON
}

// follow reads the event stream until a frame of that name.
func (v visitor) follow(lastID, until string) []apptest.Frame {
	v.T.Helper()
	return v.ReadStream(sessions+"/"+v.id+"/events?token="+v.token, lastID, func(f apptest.Frame) bool { return f.Name == until })
}

// answer reads the event stream until the end of a run.
func (v visitor) answer(lastID, run string) []apptest.Frame {
	v.T.Helper()
	return v.ReadStream(sessions+"/"+v.id+"/events?token="+v.token, lastID, func(f apptest.Frame) bool {
		return f.Name == "done" && strings.HasPrefix(f.ID, run)
	})
}

// publish creates an agent for visitors. Its insides have the word SECRET.
func publish(n *apptest.Server, config object, fields object) string {
	n.T.Helper()
	public := object{"enabled": true, "greeting": "Hello, stranger."}
	maps.Copy(public, config)
	all := object{
		"name": "Ada", "description": "Answers questions.", "visibility": "public", "public_config": public,
		"prompts": object{"system": "SECRET: the launch code is 1234."}, "built_in_tools": []string{"calculator", "ask_user"},
	}
	maps.Copy(all, fields)
	return n.CreateAgent(all)
}

// secretive is a model with insides: it thinks, calls a tool, asks, and tells what it was
// sent.
var secretive = modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
	c := r.Chat()
	last := c.Last(model.User)
	switch {
	case c.Messages[len(c.Messages)-1].Role == "tool":
	case strings.HasPrefix(last, "calculate"):
		return modeltest.Answer{Text: "One moment. ", Thinking: "SECRET thoughts", ToolCalls: []model.ToolCall{{
			ID: "call_SECRET", Name: "calculator", Arguments: `{"expression":"111111*1"}`,
		}}}
	case strings.HasPrefix(last, "ask"):
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_SECRET", Name: "ask_user", Arguments: `{"question":"Which one?"}`}}}
	case strings.HasPrefix(last, "fail"):
		return modeltest.Answer{Status: 400, Error: "SECRET failure"}
	}
	return modeltest.Answer{Text: "You said " + last, Thinking: "SECRET thoughts"}
})

// allowed are the members that the data of a visitor's frames may have.
var allowed = []string{
	"code", "detail", "dropped", "event", "output", "payload", "question", "run_id", "session_id", "status", "stream_type", "text", "timestamp",
}

// checkOutward fails for anything in frames that is of the inside.
func checkOutward(t *testing.T, frames []apptest.Frame, inside ...string) {
	t.Helper()
	for _, f := range frames {
		for name := range f.Object(t) {
			if !slices.Contains(allowed, name) {
				t.Errorf("a visitor's frame has %s: %s", name, f.Data)
			}
		}
		for _, text := range append(inside, "SECRET", "calculator", "111111", "metrics", "cost", "tokens", "step_id", "tool") {
			if strings.Contains(f.Data, text) {
				t.Errorf("a visitor's frame has %q: %s", text, f.Data)
			}
		}
	}
}

func ids(frames []apptest.Frame) (all []string) {
	for _, f := range frames {
		all = append(all, f.String())
	}
	return all
}

func names(frames []apptest.Frame) (all []string) {
	for _, f := range frames {
		all = append(all, f.Name)
	}
	return all
}

func TestVisitorTalks(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, secretive), apptest.AddressPerRequest)
	agent := publish(n, object{"allowed_tools": []string{"calculator", "ask_user"}}, nil)
	card := n.WithKey("").Expect(200, "GET", "/api/v1/public/agents/"+agent, nil)
	for _, name := range []string{"prompts", "model", "tools", "built_in_tools", "tenant_id", "public_config"} {
		if _, has := card[name]; has {
			t.Errorf("the card has %s: %v", name, card)
		}
	}
	v := visit(n, agent)
	sent := v.expect(202, "POST", "/messages", object{"content": "calculate this"})
	if sent["messages_remaining"] != 49.0 {
		t.Errorf("remaining: %v", sent)
	}
	frames := v.follow("", "done")
	checkOutward(t, frames, n.TenantID())
	if got := names(frames); got[0] != "session.connected" || !slices.Contains(got, "llm.chunk") || !slices.Contains(got, "run.completed") {
		t.Errorf("frames: %q", got)
	}
	done := frames[len(frames)-1].Object(t)
	if text := done["output"].(object)["text"].(string); !strings.HasPrefix(text, "You said calculate this") {
		t.Errorf("the answer: %v", done)
	}
	// Resuming after an event brings those behind it and no others.
	at := slices.IndexFunc(frames, func(f apptest.Frame) bool { return f.Name == "llm.completed" })
	again := v.follow(frames[at].ID, "done")
	if diff := cmp.Diff(ids(frames[at+1:]), ids(again[1:])); diff != "" {
		t.Errorf("resumed: %s", diff)
	}

	// A question, and the answer to it.
	v.expect(409, "POST", "/respond", object{"response": "too early"})
	question := v.expect(202, "POST", "/messages", object{"content": "ask me"})["run_id"].(string)
	asked := v.follow(done["run_id"].(string)+":"+strings.Split(frames[len(frames)-1].ID, ":")[1], "input.requested")
	checkOutward(t, asked)
	if q := asked[len(asked)-1].Object(t)["question"]; q != "Which one?" {
		t.Errorf("the question: %v", q)
	}
	if view := v.expect(200, "GET", "", nil); view["question"] != "Which one?" || view["run_id"] == nil {
		t.Errorf("a session that waits: %v", view)
	}
	v.expect(200, "POST", "/respond", object{"response": "The red one"})
	rest := v.answer(asked[len(asked)-1].ID, question)
	checkOutward(t, rest)

	view := v.expect(200, "GET", "", nil)
	var said []string
	for _, m := range view["messages"].([]any) {
		m := m.(object)
		said = append(said, m["role"].(string)+": "+m["content"].(string))
	}
	want := []string{
		"user: calculate this", "assistant: One moment. ", "assistant: You said calculate this",
		"user: ask me", "assistant: Which one?", "user: The red one", "assistant: You said ask me",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	if view["last_event_id"] != rest[len(rest)-1].ID || view["run_id"] != nil || view["message_count"] != 2.0 {
		t.Errorf("the session: %v", view)
	}
	// The company sees the conversation as any other.
	session := n.Expect(200, "GET", "/api/v1/sessions/"+v.id, nil)
	if session["metadata"].(object)["source"] != "public" {
		t.Errorf("the session inside: %v", session["metadata"])
	}
	r := n.Expect(200, "GET", "/api/v1/runs/"+sent["run_id"].(string), nil)
	if diff := cmp.Diff(object{"type": "visitor", "id": v.id}, r["started_by"]); diff != "" {
		t.Error(diff)
	}
}

// Without its name in allowed_tools a tool does not exist for visitors; the prompt is that
// for visitors; and how a run failed stays inside.
func TestVisitorsHaveOnlyWhatIsAllowed(t *testing.T) {
	t.Parallel()
	var prompts []string
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		c := r.Chat()
		if c.Last(model.User) == "fail" {
			return modeltest.Answer{Status: 400, Error: "SECRET failure"}
		}
		prompts = append(prompts, c.Messages[0].Text())
		return modeltest.Answer{Text: "Tools: " + string(rune('0'+len(c.Tools)))}
	}))
	n := apptest.Start(t, sim, apptest.AddressPerRequest)
	agent := publish(n, object{"system_prompt": "Be kind to strangers."}, object{"memory": object{"enabled": true}})
	v := visit(n, agent)
	v.expect(202, "POST", "/messages", object{"content": "hello"})
	frames := v.follow("", "done")
	if text := frames[len(frames)-1].Object(t)["output"].(object)["text"]; text != "Tools: 0" {
		t.Errorf("a visitor's run: %v", text)
	}
	if diff := cmp.Diff([]string{"Be kind to strangers."}, prompts); diff != "" {
		t.Errorf("the prompt: %s", diff)
	}
	failing := v.expect(202, "POST", "/messages", object{"content": "fail"})["run_id"].(string)
	frames = v.answer(frames[len(frames)-1].ID, failing)
	checkOutward(t, frames)
	if last := frames[len(frames)-1].Object(t); last["status"] != "failed" || last["output"] != nil {
		t.Errorf("a run that failed: %v", last)
	}
}

func TestVisitorIsRefused(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.AddressPerRequest)
	agent := publish(n, object{"max_messages_per_session": 2, "max_concurrent_sessions": 3}, nil)
	private := n.CreateAgent(object{"name": "private"})
	stranger := n.WithKey("")
	for id, status := range map[string]int{private: 404, "0197b5a0-0000-7000-8000-000000000000": 404, "nonsense": 422} {
		stranger.Expect(status, "POST", sessions, object{"agent_id": id})
	}
	stranger.Expect(404, "GET", "/api/v1/public/agents/"+private, nil)
	v, other := visit(n, agent), visit(n, agent)
	for name, token := range map[string]string{"none": "", "made up": "pst_x", "a key": n.Key} {
		r := stranger.Do("GET", sessions+"/"+v.id, nil, "X-Public-Session-Token", token)
		if r.StatusCode != 401 {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
	stranger.Expect(404, "GET", sessions+"/"+v.id, nil, "X-Public-Session-Token", other.token)
	n.Expect(401, "GET", sessions+"/"+v.id, nil) // a key of the company opens no visitor's session

	running := v.expect(202, "POST", "/messages", object{"content": "hello"})["run_id"].(string)
	v.do("POST", "/messages", object{"content": "again"}).IsProblem(t, 409, "SESSION_BUSY")
	v.expect(422, "POST", "/messages", object{"content": " "})
	v.expect(422, "POST", "/messages", object{"content": strings.Repeat("x", 10_001)})
	theirs := n.StartRun(n.CreateAgent(object{"name": "inside"}), "hello", nil)
	v.expect(404, "POST", "/runs/"+theirs+"/cancel", nil)
	other.expect(404, "POST", "/runs/"+running+"/cancel", nil)
	v.expect(200, "POST", "/runs/"+running+"/cancel", nil)
	n.WaitRun(running)
	second := v.expect(202, "POST", "/messages", object{"content": "hello"})["run_id"].(string)
	v.expect(200, "POST", "/runs/"+second+"/cancel", nil)
	n.WaitRun(second)
	v.do("POST", "/messages", object{"content": "third"}).IsProblem(t, 429, "MESSAGE_LIMIT")
	if view := v.expect(200, "GET", "", nil); view["message_count"] != 2.0 || view["messages_remaining"] != 0.0 {
		t.Errorf("a session without messages left: %v", view)
	}

	visit(n, agent)
	stranger.Do("POST", sessions, object{"agent_id": agent, "fresh": true}).IsProblem(t, 429, "ANON_BUSY")

	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"visibility": "private"})
	v.expect(410, "GET", "", nil)
	v.expect(410, "POST", "/messages", object{"content": "x"})
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"visibility": "public"})
	v.expect(200, "GET", "", nil)
	n.Expect(200, "DELETE", "/api/v1/sessions/"+v.id, nil)
	v.expect(404, "GET", "", nil)
	v.expect(404, "POST", "/messages", object{"content": "x"})

	n.Expect(200, "PUT", "/api/v1/admin/config/public-chat", object{"enabled": false})
	stranger.Expect(501, "GET", "/api/v1/public/agents/"+agent, nil)
	other.expect(501, "GET", "", nil)
}

// Strangers have limits of their own, which an operator changes at once.
func TestVisitorsAreLimited(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel))
	agent := publish(n, object{"daily_message_limit": 3}, nil)
	n.Expect(200, "PUT", "/api/v1/admin/config/public-chat", object{"sessions_per_address_per_minute": 3, "messages_per_minute": 2})
	first, second := visit(n, agent), visit(n, agent)
	say := func(v visitor) apptest.Reply {
		r := v.do("POST", "/messages", object{"content": "hello"})
		if id, ok := r.JSON["run_id"].(string); ok {
			n.WaitRun(id)
		}
		return r
	}
	for i, want := range []int{202, 202, 429} {
		if r := say(first); r.StatusCode != want || want == 429 && r.Header.Get("Retry-After") == "" {
			t.Fatalf("message %d: %d %s", i, r.StatusCode, r.Body)
		}
	}
	if r := say(second); r.StatusCode != 202 { // the third message of the agent's day
		t.Fatal(string(r.Body))
	}
	say(second).IsProblem(t, 429, "DAILY_LIMIT")
	visit(n, agent)
	stranger := n.WithKey("")
	stranger.Do("POST", sessions, object{"agent_id": agent, "fresh": true}).IsProblem(t, 429, "rate_limit_exceeded")
	n.Expect(200, "PUT", "/api/v1/admin/config/public-chat", object{"sessions_per_address_per_minute": 1000})
	visit(n, agent)
	for _, wrong := range []object{{"session_minutes": 0}, {"captcha_verify_url": "ftp://x"}, {"captcha_verify_url": "https://c.example"}} {
		n.Expect(422, "PUT", "/api/v1/admin/config/public-chat", wrong)
	}
	// A message whose run the plan refuses counts in no limit, and says nothing of the plan.
	n.WithKey("").Expect(401, "GET", "/api/v1/admin/config/public-chat", nil)
}

func TestVisitorsOnPagesOfOthers(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest)
	const site, evil = "https://www.example.com", "https://evil.example"
	agent := publish(n, object{"allowed_origins": []string{site}}, nil)
	n.Expect(422, "PATCH", "/api/v1/agents/"+agent, object{"public_config": object{"allowed_origins": []string{"example.com/"}}})
	stranger := n.WithKey("")
	allows := func(r apptest.Reply) string { return r.Header.Get("Access-Control-Allow-Origin") }

	r := stranger.Do("OPTIONS", sessions, nil, "Origin", site, "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "content-type,x-public-session-token")
	if r.StatusCode != 204 || allows(r) != site || r.Header.Get("Access-Control-Allow-Credentials") != "" ||
		r.Header.Get("Access-Control-Allow-Headers") != "content-type,x-public-session-token" {
		t.Errorf("a preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := stranger.Do("OPTIONS", "/api/v1/agents", nil, "Origin", site, "Access-Control-Request-Method", "POST"); allows(r) != "" {
		t.Errorf("a preflight for an operation of companies: %v", r.Header)
	}
	r = stranger.Do("POST", sessions, object{"agent_id": agent}, "Origin", site)
	if r.StatusCode != 201 || allows(r) != site || !strings.Contains(strings.Join(r.Header["Vary"], ","), "Origin") {
		t.Errorf("on an allowed page: %d %v", r.StatusCode, r.Header)
	}
	v := visitor{stranger, r.JSON["session_id"].(string), r.JSON["token"].(string)}
	for _, refused := range []apptest.Reply{
		stranger.Do("POST", sessions, object{"agent_id": agent}, "Origin", evil),
		stranger.Do("POST", sessions, object{"agent_id": agent}, "Origin", "null"),
		stranger.Do("GET", "/api/v1/public/agents/"+agent, nil, "Origin", evil),
		v.do("GET", "", nil, "Origin", evil),
		v.do("POST", "/messages", object{"content": "x"}, "Origin", evil),
	} {
		if refused.StatusCode != 403 || allows(refused) != "" {
			t.Errorf("on another page: %d %v", refused.StatusCode, refused.Header)
		}
	}
	if r := v.do("POST", "/messages", object{"content": " "}, "Origin", site); r.StatusCode != 422 || allows(r) != site {
		t.Errorf("a refusal that the page reads: %d %v", r.StatusCode, r.Header)
	}
	if r := v.do("GET", "", nil, "Origin", evil, "Sec-Fetch-Site", "same-origin"); r.StatusCode != 200 {
		t.Errorf("a page of this service behind a proxy: %d", r.StatusCode)
	}
	stream := n.OpenStream(t, sessions+"/"+v.id+"/events?token="+v.token, "Origin", site)
	if got := stream.Header.Get("Access-Control-Allow-Origin"); got != site {
		t.Errorf("the stream of an allowed page: %q", got)
	}
}

// Pages of this service have the token as a cookie that no script reads and no other site
// sends.
func TestVisitorsCookie(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest)
	agent := publish(n, nil, nil)
	stranger := n.WithKey("")
	r := stranger.Do("POST", sessions, object{"agent_id": agent})
	cookie := r.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Value != r.JSON["token"] {
		t.Errorf("the cookie: %v", cookie)
	}
	stranger.Expect(200, "GET", sessions+"/"+r.JSON["session_id"].(string), nil, "Cookie", cookie.Name+"="+cookie.Value)
	again := stranger.Do("POST", sessions, object{"agent_id": agent}, "Cookie", cookie.Name+"="+cookie.Value)
	if again.StatusCode != 200 || again.JSON["session_id"] != r.JSON["session_id"] {
		t.Errorf("a repeated creation: %d %s", again.StatusCode, again.Body)
	}
	fresh := stranger.Expect(201, "POST", sessions, object{"agent_id": agent, "fresh": true}, "Cookie", cookie.Name+"="+cookie.Value)
	if fresh["session_id"] == r.JSON["session_id"] {
		t.Error("fresh returned the session of before")
	}
	for _, row := range n.Admin().Query(`SELECT * FROM visitor_sessions`) {
		for _, value := range row {
			if text, ok := value.(string); ok && strings.Contains(text, cookie.Value) {
				t.Error("the token is stored")
			}
		}
	}
}

// png is the smallest image.
const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"

func TestVisitorsImagesAndReports(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest)
	agent := publish(n, nil, nil)
	v, other := visit(n, agent), visit(n, agent)
	v.do("POST", "/upload", "<svg onload=alert(1)>", "Content-Type", "image/png").IsProblem(t, 415, "FILE_TYPE_NOT_ALLOWED")
	v.do("POST", "/upload", png+strings.Repeat("x", 8<<20), "Content-Type", "image/png").IsProblem(t, 413, "PAYLOAD_TOO_LARGE")
	form := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n" + png + "\r\n--x--\r\n"
	if r := v.do("POST", "/upload", form, "Content-Type", "multipart/form-data; boundary=x"); r.StatusCode != 200 {
		t.Errorf("a form: %d %s", r.StatusCode, r.Body)
	}
	up := v.do("POST", "/upload", png, "Content-Type", "text/html") // what it is called does not matter
	if up.StatusCode != 200 || up.JSON["mime_type"] != "image/png" || up.JSON["size"] != float64(len(png)) {
		t.Fatalf("an image: %d %s", up.StatusCode, up.Body)
	}
	id := up.JSON["file_id"].(string)
	other.expect(404, "POST", "/messages", object{"content": "look", "file_ids": []string{id}})
	r := v.expect(202, "POST", "/messages", object{"content": "look", "file_ids": []string{id}})
	n.WaitRun(r["run_id"].(string))
	stranger := n.WithKey("")
	got := stranger.Do("GET", "/api/v1/public/files/"+id+"/content", nil)
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != "image/png" || string(got.Body) != png || got.Header.Get("ETag") == "" {
		t.Errorf("a public image: %d %v", got.StatusCode, got.Header)
	}
	own := n.Expect(201, "POST", "/api/v1/files", object{"data": "aGVsbG8=", "mime_type": "image/png", "filename": "a.png"})["file_id"].(string)
	stranger.Expect(404, "GET", "/api/v1/public/files/"+own+"/content", nil)

	said := v.expect(200, "GET", "", nil)["messages"].([]any)
	if diff := cmp.Diff([]any{id}, said[0].(object)["file_ids"]); diff != "" {
		t.Error(diff)
	}
	report := object{"target_type": "message", "target_id": said[1].(object)["message_id"], "reason": "spam", "details": "It repeats me."}
	made := v.expect(202, "POST", "/reports", report)
	v.expect(422, "POST", "/reports", object{"target_type": "message", "target_id": "another", "reason": "spam"})
	v.expect(422, "POST", "/reports", object{"target_type": "session", "target_id": other.id, "reason": "spam"})
	v.expect(202, "POST", "/reports", object{"target_type": "session", "target_id": v.id, "reason": "other"})
	read := n.Expect(200, "GET", "/api/v1/visitor-reports/"+made["report_id"].(string), nil)
	if read["details"] != "It repeats me." || read["session_id"] != v.id || read["status"] != "received" {
		t.Errorf("the report: %v", read)
	}
	n.Expect(200, "PATCH", "/api/v1/visitor-reports/"+made["report_id"].(string), object{"status": "resolved"})
	v.do("POST", "/reports", object{"target_type": "agent", "target_id": agent, "reason": "other"})
	v.do("POST", "/reports", object{"target_type": "agent", "target_id": agent, "reason": "other"}).IsProblem(t, 429, "rate_limit_exceeded")
}

// Each limit of the operator is obeyed at once.
func TestSettingsOfVisitors(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel))
	agent, stranger := publish(n, nil, nil), n.WithKey("")
	set := func(fields object) { n.Expect(200, "PUT", "/api/v1/admin/config/public-chat", fields) }
	say := func(v visitor) apptest.Reply {
		r := v.do("POST", "/messages", object{"content": "hello"})
		if id, ok := r.JSON["run_id"].(string); ok {
			n.WaitRun(id)
		}
		return r
	}
	set(object{"session_minutes": 1, "messages_per_session": 1, "sessions_per_agent": 3})
	v := visit(n, agent)
	view := v.expect(200, "GET", "", nil)
	inside := n.Expect(200, "GET", "/api/v1/sessions/"+v.id, nil)
	lasts := moment(t, view["expires_at"]).Sub(moment(t, inside["created_at"]))
	if lasts.Round(time.Second) != time.Minute || view["messages_remaining"] != 1.0 {
		t.Errorf("a session of a minute: %v, %v", lasts, view)
	}
	say(v)
	say(v).IsProblem(t, 429, "MESSAGE_LIMIT")
	second := visit(n, agent)
	visit(n, agent)
	stranger.Do("POST", sessions, object{"agent_id": agent, "fresh": true}).IsProblem(t, 429, "ANON_BUSY")
	set(object{"sessions_per_agent": 100, "sessions_per_address_per_hour": 1})
	stranger.Do("POST", sessions, object{"agent_id": agent, "fresh": true}).IsProblem(t, 429, "rate_limit_exceeded")
	set(object{"messages_per_address_per_minute": 1})
	say(second).IsProblem(t, 429, "rate_limit_exceeded")
	set(object{"streams_per_address_per_minute": 1})
	n.OpenStream(t, sessions+"/"+second.id+"/events?token="+second.token)
	second.do("GET", "/events", nil).IsProblem(t, 429, "rate_limit_exceeded")
}

func moment(t *testing.T, value any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, value.(string))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// What a company sets for its agent holds where it is narrower than the operator's.
func TestLimitsOfAgents(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel))
	agent := publish(n, object{"rate_limit_sessions_per_ip": 2, "rate_limit_messages_per_min": 1}, nil)
	v := visit(n, agent)
	id := v.expect(202, "POST", "/messages", object{"content": "hello"})["run_id"].(string)
	n.WaitRun(id)
	v.do("POST", "/messages", object{"content": "again"}).IsProblem(t, 429, "rate_limit_exceeded")
	visit(n, agent)
	n.WithKey("").Do("POST", sessions, object{"agent_id": agent, "fresh": true}).IsProblem(t, 429, "rate_limit_exceeded")
	visit(n, publish(n, nil, nil)) // of another agent there is room
}

func TestCaptchas(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		solved := r.PostFormValue("secret") == "the secret" && r.PostFormValue("response") == "solved"
		_, _ = fmt.Fprintf(w, `{"success":%t}`, solved)
	}))
	t.Cleanup(service.Close)
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest, func(c *config.Config) {
		c.Security.EgressAllow = service.Listener.Addr().String()
	})
	agent, stranger := publish(n, nil, nil), n.WithKey("")
	set := n.Expect(200, "PUT", "/api/v1/admin/config/public-chat", object{
		"captcha_verify_url": service.URL, "captcha_site_key": "the site", "captcha_secret": "the secret",
	})
	if set["captcha_secret"] == "the secret" {
		t.Error("the secret is shown")
	}
	if card := stranger.Expect(200, "GET", "/api/v1/public/agents/"+agent, nil); card["captcha_site_key"] != "the site" {
		t.Errorf("the card: %v", card)
	}
	for answer, status := range map[string]int{"": 422, "wrong": 422, "solved": 201} {
		stranger.Expect(status, "POST", sessions, object{"agent_id": agent, "captcha_token": answer})
	}
	service.Close()
	stranger.Do("POST", sessions, object{"agent_id": agent, "captcha_token": "solved"}).IsProblem(t, 503, "SERVICE_UNAVAILABLE")
}

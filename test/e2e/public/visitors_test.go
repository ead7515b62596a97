package public

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
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

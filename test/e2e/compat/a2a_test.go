package compat

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	peer "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// publicAgent creates an agent that agents of other systems may find.
func publicAgent(n *apptest.Server, more object) string {
	n.T.Helper()
	fields := object{"name": "Ada", "description": "Knows things", "visibility": "public", "public_config": object{"enabled": true}}
	maps.Copy(fields, more)
	return n.CreateAgent(fields)
}

// a2aClient is the official SDK's client of an agent, found by its card, in one version
// of the protocol.
func a2aClient(n *apptest.Server, agent, version string) *a2aclient.Client {
	n.T.Helper()
	client := &http.Client{Transport: keySender{n.Key, ""}}
	resolver := &agentcard.Resolver{Client: client}
	option := a2aclient.WithJSONRPCTransport(client)
	if version == "0.3" {
		resolver.CardParser = a2av0.NewAgentCardParser()
		option = a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: client})
	}
	card, err := resolver.Resolve(n.T.Context(), n.URL+"/api/v1/a2a/agents/"+agent)
	if err != nil {
		n.T.Fatal(err)
	}
	c, err := a2aclient.NewFromCard(n.T.Context(), card, a2aclient.WithDefaultsDisabled(), option)
	if err != nil {
		n.T.Fatal(err)
	}
	return c
}

func a2aSays(text string) *peer.SendMessageRequest {
	return &peer.SendMessageRequest{Message: peer.NewMessage(peer.MessageRoleUser, peer.NewTextPart(text))}
}

// answerOf returns the text of a task's first artifact.
func answerOf(t *testing.T, task *peer.Task) string {
	t.Helper()
	if len(task.Artifacts) == 0 || len(task.Artifacts[0].Parts) == 0 {
		t.Fatalf("no artifact: %+v", task)
	}
	return task.Artifacts[0].Parts[0].Text()
}

// The official SDK's client has agents work, in both versions of the protocol: with an
// answer, with a stream, in a conversation, and with a question in between.
func TestA2AClients(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		c := r.Chat()
		last := c.Last(model.User)
		switch {
		case strings.Contains(last, "hang"):
			return modeltest.Answer{HangFirst: true}
		case strings.Contains(last, "ask") && c.Last(model.Tool) == "":
			return apptest.CallOnce("ask_user", `{"question":"Which colour?"}`)(r)
		case strings.Contains(last, "ask"):
			return modeltest.Answer{Text: "It is " + c.Last(model.Tool)}
		}
		said := 0
		for _, m := range c.Messages {
			if m.Role == string(model.User) {
				said++
			}
		}
		return modeltest.Answer{Text: fmt.Sprintf("%d: %s", said, last)}
	}))
	n := apptest.Start(t, sim)
	agent := publicAgent(n, object{"built_in_tools": []string{"ask_user"}})
	for _, version := range []string{"1.0", "0.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			n := n.WithT(t)
			c, ctx := a2aClient(n, agent, version), t.Context()
			send := func(req *peer.SendMessageRequest) *peer.Task {
				t.Helper()
				got, err := c.SendMessage(ctx, req)
				if err != nil {
					t.Fatal(err)
				}
				return got.(*peer.Task)
			}
			first := send(a2aSays("hello"))
			if got := answerOf(t, first); first.Status.State != peer.TaskStateCompleted || got != "1: hello" || len(first.History) != 2 {
				t.Errorf("%q: %+v", got, first)
			}
			again := a2aSays("more")
			again.Message.ContextID = first.ContextID
			second := send(again)
			if got := answerOf(t, second); got != "2: more" || second.ContextID != first.ContextID || second.ID == first.ID {
				t.Errorf("in the same context: %q: %+v", got, second)
			}
			got, err := c.GetTask(ctx, &peer.GetTaskRequest{ID: first.ID})
			if err != nil || answerOf(t, got) != "1: hello" {
				t.Errorf("%+v, %v", got, err)
			}
			checkA2AStream(t, c)
			asked := send(a2aSays("ask me"))
			if q := asked.Status; q.State != peer.TaskStateInputRequired || q.Message.Parts[0].Text() != "Which colour?" {
				t.Fatalf("%+v", q)
			}
			reply := a2aSays("blue")
			reply.Message.TaskID, reply.Message.ContextID = asked.ID, asked.ContextID
			if done := send(reply); done.Status.State != peer.TaskStateCompleted || !strings.Contains(answerOf(t, done), "blue") {
				t.Errorf("after the answer: %+v", done)
			}
			late := a2aSays("x")
			late.Message.TaskID = first.ID
			if _, err := c.SendMessage(ctx, late); err == nil || !strings.Contains(err.Error(), "waits for no answer") {
				t.Errorf("a message for a task that is over: %v", err)
			}
			checkA2ACancel(t, c)
		})
	}
}

// checkA2AStream checks a stream: what its last update of the answer has is the answer.
func checkA2AStream(t *testing.T, c *a2aclient.Client) {
	t.Helper()
	text, states := "", []peer.TaskState{}
	for e, err := range c.SendStreamingMessage(t.Context(), a2aSays("stream")) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *peer.TaskStatusUpdateEvent:
			states = append(states, e.Status.State)
		case *peer.TaskArtifactUpdateEvent:
			if piece := e.Artifact.Parts[0].Text(); e.Append {
				text += piece
			} else {
				text = piece
			}
		}
	}
	if text != "1: stream" || len(states) == 0 || states[len(states)-1] != peer.TaskStateCompleted {
		t.Errorf("streamed %q, %v", text, states)
	}
}

// checkA2ACancel cancels a task that hangs, while another stream follows it.
func checkA2ACancel(t *testing.T, c *a2aclient.Client) {
	t.Helper()
	req := a2aSays("hang")
	req.Config = &peer.SendMessageConfig{ReturnImmediately: true}
	got, err := c.SendMessage(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	task := got.(*peer.Task)
	ended := make(chan peer.TaskState, 1)
	subscribed := make(chan struct{})
	go func() {
		last, told := peer.TaskState(""), false
		for e, err := range c.SubscribeToTask(t.Context(), &peer.SubscribeToTaskRequest{ID: task.ID}) {
			if err != nil {
				break
			}
			if !told {
				close(subscribed)
				told = true
			}
			if u, ok := e.(*peer.TaskStatusUpdateEvent); ok {
				last = u.Status.State
			}
		}
		ended <- last
	}()
	<-subscribed
	canceled, err := c.CancelTask(t.Context(), &peer.CancelTaskRequest{ID: task.ID})
	if err != nil || canceled.Status.State != peer.TaskStateCanceled {
		t.Errorf("%+v, %v", canceled, err)
	}
	if last := <-ended; last != peer.TaskStateCanceled {
		t.Errorf("the stream ended with %q", last)
	}
	if _, err := c.CancelTask(t.Context(), &peer.CancelTaskRequest{ID: task.ID}); err == nil {
		t.Error("it was cancelled twice")
	}
}

// pushReceiver is a peer's address for changes of tasks.
type pushReceiver struct {
	mu    sync.Mutex
	fails int // requests that it refuses first
	got   []string
	auth  []string
}

func (p *pushReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.auth = append(p.auth, r.Header.Get("X-A2A-Notification-Token")+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Svc-Signature")[:7])
	if p.fails--; p.fails >= 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.got = append(p.got, string(body))
}

func (p *pushReceiver) last() (string, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.got) == 0 {
		return "", 0
	}
	return p.got[len(p.got)-1], len(p.got)
}

// Changes of tasks are sent to the addresses that peers name, with their credentials, and
// again after failures; never to addresses in private networks.
func TestA2APushNotifications(t *testing.T) {
	t.Parallel()
	receiver := &pushReceiver{fails: 1}
	there := httptest.NewServer(receiver)
	defer there.Close()
	n := apptest.Start(t, nil, func(c *config.Config) {
		c.Webhooks.RetryWaits, c.Security.EgressAllow = "10ms,10ms,10ms", there.Listener.Addr().String()
	})
	agent := publicAgent(n, nil)
	for version, state := range map[string]string{"1.0": "TASK_STATE_COMPLETED", "0.3": `"completed"`} {
		c := a2aClient(n, agent, version)
		req := a2aSays("hello")
		req.Config = &peer.SendMessageConfig{PushConfig: &peer.PushConfig{
			URL: there.URL, Token: "tok", Auth: &peer.PushAuthInfo{Scheme: "Bearer", Credentials: "cred"},
		}}
		got, err := c.SendMessage(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		task := got.(*peer.Task)
		apptest.Eventually(t, func() bool {
			text, _ := receiver.last()
			return strings.Contains(text, string(task.ID)) && strings.Contains(text, state) && strings.Contains(text, "hello")
		})
		all, err := c.ListTaskPushConfigs(t.Context(), &peer.ListTaskPushConfigRequest{TaskID: task.ID})
		if err != nil || len(all) != 1 || all[0].URL != there.URL {
			t.Errorf("%s: %+v, %v", version, all, err)
		}
		private := &peer.PushConfig{TaskID: task.ID, URL: "http://10.0.0.1/x"}
		if _, err := c.CreateTaskPushConfig(t.Context(), private); err == nil || !strings.Contains(err.Error(), "public internet") {
			t.Errorf("%s: a private address: %v", version, err)
		}
		if err := c.DeleteTaskPushConfig(t.Context(), &peer.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: all[0].ID}); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if all, err = c.ListTaskPushConfigs(t.Context(), &peer.ListTaskPushConfigRequest{TaskID: task.ID}); err != nil || len(all) != 0 {
			t.Errorf("%s: after it was deleted: %+v, %v", version, all, err)
		}
	}
	if receiver.auth[0] != "tok Bearer cred sha256=" {
		t.Errorf("%q", receiver.auth[0])
	}
}

// rpc sends a JSON-RPC message by hand.
func rpc(n *apptest.Server, agent, method string, params any, headers ...string) apptest.Reply {
	return n.Do("POST", "/api/v1/a2a?agent_id="+agent, object{"jsonrpc": "2.0", "id": "7", "method": method, "params": params}, headers...)
}

// The versions before 0.3, whose clients name the task and the session themselves.
func TestA2ABefore03(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"name": "Ada"})
	message := object{"role": "user", "parts": []object{{"type": "text", "text": "hello"}, {"type": "data", "data": object{"k": 1}}}}
	sent := rpc(n, agent, "tasks/send", object{"id": "mine", "sessionId": "s1", "message": message}).JSON["result"].(object)
	artifact := sent["artifacts"].([]any)[0].(object)
	part := artifact["parts"].([]any)[0].(object)
	if sent["sessionId"] != "s1" || sent["status"].(object)["state"] != "completed" || part["type"] != "text" || artifact["index"] != 0.0 ||
		!strings.Contains(part["text"].(string), `{"k":1}`) {
		t.Errorf("%v", sent)
	}
	read := rpc(n, agent, "tasks/get", object{"id": sent["id"]}).JSON["result"].(object)
	if read["id"] != sent["id"] || len(read["artifacts"].([]any)) != 1 {
		t.Errorf("%v", read)
	}
	set := rpc(n, agent, "tasks/pushNotification/set", object{"id": sent["id"], "pushNotification": object{"url": "https://example.com/x", "token": "t"}})
	if got := set.JSON["result"].(object)["pushNotification"].(object); got["url"] != "https://example.com/x" {
		t.Errorf("%s", set.Body)
	}
	got := rpc(n, agent, "tasks/pushNotification/get", object{"id": sent["id"]}).JSON["result"].(object)
	if got["pushNotification"].(object)["token"] != "t" || got["id"] != sent["id"] {
		t.Errorf("%v", got)
	}
	stream := rpc(n, agent, "tasks/sendSubscribe", object{"id": "other", "message": message})
	if text := string(stream.Body); !strings.HasPrefix(stream.Header.Get("Content-Type"), "text/event-stream") ||
		!strings.Contains(text, `"state":"completed"`) || !strings.Contains(text, `"final":true`) {
		t.Errorf("%s", text)
	}
}

// What is no message, names no agent or another company's task is refused in the terms of
// JSON-RPC; reading needs agents:read, and everything else agents:write.
func TestA2ARefusals(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"name": "Ada"})
	_, other := n.CreateTenant(object{"name": "Other"})
	foreign := n.Expect(202, "POST", "/api/v1/a2a/tasks", taskOf(agent, "hello"))["id"].(string)
	code := func(r apptest.Reply) float64 {
		t.Helper()
		e, _ := r.JSON["error"].(object)
		if e == nil {
			t.Fatalf("%s", r.Body)
		}
		return e["code"].(float64)
	}
	message := object{"message": object{"messageId": "m", "role": "ROLE_USER", "parts": []object{{"text": "hi"}}}}
	for name, c := range map[string]struct {
		got  apptest.Reply
		want float64
	}{
		"no such method":    {rpc(n, agent, "tasks/fly", nil), -32601},
		"wrong parameters":  {rpc(n, agent, "SendMessage", object{"message": 7}), -32602},
		"no message":        {rpc(n, agent, "SendMessage", object{}), -32602},
		"no agent":          {rpc(n, "", "SendMessage", message), -32602},
		"foreign agent":     {rpc(other, agent, "SendMessage", message), -32602},
		"foreign task":      {rpc(other, "", "GetTask", object{"id": foreign}), -32001},
		"foreign cancel":    {rpc(other, "", "tasks/cancel", object{"id": foreign}), -32001},
		"foreign push":      {rpc(other, "", "tasks/pushNotification/set", object{"id": foreign, "pushNotification": object{"url": "https://example.com"}}), -32001},
		"empty message":     {rpc(n, agent, "message/send", object{"message": object{"role": "user", "parts": []object{{"kind": "text", "text": " "}}}}), -32602},
		"only an address":   {rpc(n, agent, "message/send", object{"message": object{"role": "user", "parts": []object{{"kind": "file", "file": object{"uri": "https://example.com/x"}}}}}), -32602},
		"unreadable":        {n.Do("POST", "/api/v1/a2a", `{"jsonrpc":`), -32700},
		"no JSON-RPC":       {n.Do("POST", "/api/v1/a2a", object{"id": 1, "method": "GetTask"}), -32600},
		"reads only":        {rpc(n.WithScopes("agents:read"), agent, "SendMessage", message), -31403},
		"no scope":          {rpc(n.WithScopes("files:read"), agent, "GetTask", object{"id": foreign}), -31403},
		"no key":            {rpc(n.WithKey("svc_x"), agent, "GetTask", object{"id": foreign}), -31401},
		"page of another":   {rpc(n, agent, "ListTasks", object{"pageToken": "x"}), -32602},
		"card of no agent":  {rpc(n, "", "GetExtendedAgentCard", nil), -32602},
		"push to nowhere":   {rpc(n, agent, "CreateTaskPushNotificationConfig", object{"taskId": foreign, "url": "ftp://x"}), -32602},
		"push that is gone": {rpc(n, agent, "GetTaskPushNotificationConfig", object{"taskId": foreign, "id": "x"}), -32001},
	} {
		if got := code(c.got); got != c.want {
			t.Errorf("%s: %s", name, c.got.Body)
		}
	}
	if r := rpc(other, "", "SubscribeToTask", object{"id": foreign}); !strings.Contains(string(r.Body), `"code":-32001`) {
		t.Errorf("foreign stream: %s", r.Body)
	}
	if r := rpc(n.WithScopes("agents:read"), agent, "GetTask", object{"id": foreign}); r.JSON["result"] == nil {
		t.Errorf("%s", r.Body)
	}
	if got := n.Do("GET", "/api/v1/runs?limit=5", nil).JSON["items"].([]any); len(got) != 1 {
		t.Errorf("refused messages started %d runs", len(got)-1)
	}
	listed := rpc(n, agent, "ListTasks", object{"status": "TASK_STATE_COMPLETED", "pageSize": 1})
	apptest.Eventually(t, func() bool {
		listed = rpc(n, agent, "ListTasks", object{"status": "TASK_STATE_COMPLETED", "pageSize": 1})
		return strings.Contains(string(listed.Body), foreign)
	})
	if none := rpc(n, agent, "ListTasks", object{"status": "TASK_STATE_FAILED"}); strings.Contains(string(none.Body), foreign) {
		t.Errorf("%s", none.Body)
	}
}

// taskOf is the body of a task.
func taskOf(agent, text string) object {
	return object{"agent_id": agent, "messages": []object{{"role": "user", "parts": []object{{"type": "text", "text": text}}}}}
}

// Cards of public agents can be read without a key; those of others are 404, and their own
// company gets them by the protocol.
func TestA2ACards(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	skills := []object{{"id": "sum", "name": "Sums", "description": "Adds numbers", "instructions": "secret", "tags": []string{"math"}, "examples": []string{"1+1"}}}
	agent := publicAgent(n, object{"skills": skills, "a2a": object{"agent_card": object{"iconUrl": "https://example.com/i.png", "url": "https://evil.example"}}})
	anyone := n.WithKey("")
	paths := []string{
		"/.well-known/agent.json?agent_id=" + agent, "/.well-known/agent-card.json?agent_id=" + agent,
		"/api/v1/a2a/agents/" + agent + "/.well-known/agent-card.json",
	}
	var card object
	for _, path := range paths {
		card = anyone.Expect(200, "GET", path, nil)
		if card["name"] != "Ada" || card["url"] != n.URL+"/api/v1/a2a?agent_id="+agent || card["iconUrl"] != "https://example.com/i.png" {
			t.Errorf("%v", card)
		}
	}
	if text, _ := json.Marshal(card["skills"]); !strings.Contains(string(text), "Adds numbers") || strings.Contains(string(text), "secret") {
		t.Errorf("%s", text)
	}
	anyone.Expect(422, "GET", "/.well-known/agent.json", nil)
	private := n.CreateAgent(object{"name": "Secret"})
	anyone.Expect(404, "GET", "/.well-known/agent.json?agent_id="+private, nil)
	if own := rpc(n, private, "GetExtendedAgentCard", nil).JSON["result"].(object); own["name"] != "Secret" {
		t.Errorf("%v", own)
	}
	n.Expect(200, "PATCH", "/api/v1/agents/"+private, object{"a2a": object{"enabled": true, "public": true}})
	anyone.Expect(200, "GET", "/.well-known/agent.json?agent_id="+private, nil)
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"visibility": "private"})
	anyone.Expect(404, "GET", paths[0], nil)
	n.Expect(200, "POST", "/api/v1/agents/"+private+"/suspend", nil)
	anyone.Expect(404, "GET", "/.well-known/agent.json?agent_id="+private, nil)
	n.Expect(200, "DELETE", "/api/v1/agents/"+private, nil)
	anyone.Expect(404, "GET", "/.well-known/agent.json?agent_id="+private, nil)
}

// Tasks by REST: created, read, listed, followed with resumption, and cancelled once.
func TestA2ATasks(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := apptest.Start(t, nil, adjust)
		const all = "/api/v1/a2a/tasks"
		agent := n.CreateAgent(object{"name": "Ada"})
		body := taskOf(agent, "hello")
		body["metadata"] = object{"k": "v"}
		made := n.Expect(202, "POST", all, body, "Idempotency-Key", "k1")
		if again := n.Expect(202, "POST", all, body, "Idempotency-Key", "k1"); again["id"] != made["id"] {
			t.Errorf("repeated: %v", again)
		}
		id := made["id"].(string)
		var task object
		apptest.Eventually(t, func() bool {
			task = n.Expect(200, "GET", all+"/"+id, nil)
			return task["status"] == "completed"
		})
		artifact := task["artifacts"].([]any)[0].(object)
		if got := artifact["parts"].([]any)[0].(object)["text"].(string); !strings.Contains(got, "hello") || task["metadata"].(object)["k"] != "v" {
			t.Errorf("%v", task)
		}
		r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
		if r["agent_id"] != agent || r["metadata"].(object)["source"] != "a2a" {
			t.Errorf("%v", r)
		}
		second := taskOf(agent, "more")
		second["context_id"] = task["context_id"]
		next := n.Expect(202, "POST", all, second)
		page := n.Expect(200, "GET", all+"?limit=1", nil)
		if got := page["tasks"].([]any)[0].(object); got["id"] != next["id"] || page["has_more"] != true {
			t.Errorf("%v", page)
		}
		rest := n.Expect(200, "GET", all+"?limit=1&cursor="+page["cursor"].(string), nil)
		if got := rest["tasks"].([]any)[0].(object); got["id"] != id || got["status"] != "completed" || rest["has_more"] != false {
			t.Errorf("%v", rest)
		}
		frames := n.ReadStream(all+"/"+id+"/events", "", func(f apptest.Frame) bool { return f.Data == "[DONE]" })
		names := strings.Join(apptest.FrameNames(frames), " ")
		if !strings.HasPrefix(names, "task.status") || !strings.Contains(names, "task.artifact task.status done") {
			t.Errorf("%s", names)
		}
		status := frames[len(frames)-3]
		resumed := n.ReadStream(all+"/"+id+"/events", status.ID, func(f apptest.Frame) bool { return f.Data == "[DONE]" })
		if got := strings.Join(apptest.FrameNames(resumed), " "); strings.Contains(got, "task.") || !strings.Contains(got, "done") {
			t.Errorf("resumed behind the end: %s", got)
		}
		if lost := n.ReadStream(all+"/"+id+"/events", "x", func(f apptest.Frame) bool { return f.Data == "[DONE]" }); lost[0].Name != "gap" {
			t.Errorf("%v", apptest.FrameNames(lost))
		}
		n.Do("POST", all+"/"+id+"/cancel", nil).IsProblem(t, 409, "INVALID_STATE_TRANSITION")
		n.Do("GET", all+"/"+agent, nil).IsProblem(t, 404, "NOT_FOUND")
		n.Do("POST", all, taskOf(agent, " ")).IsProblem(t, 422, "VALIDATION_ERROR")
		n.Do("POST", all, taskOf(id, "hello")).IsProblem(t, 404, "NOT_FOUND")
	})
}

// A card is signed with the identity of its agent, as JWS over the canonical JSON of what
// was published, and not once the identity is deleted.
func TestA2ACardsAreSigned(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := publicAgent(n, nil)
	path := "/.well-known/agent-card.json?agent_id=" + agent
	card := n.Expect(200, "GET", path, nil)
	identity := n.Expect(200, "GET", "/api/v1/agents/"+agent+"/identity", nil)
	public, err := base64.StdEncoding.DecodeString(identity["public_key"].(string))
	if err != nil {
		t.Fatal(err)
	}
	jws := card["signatures"].([]any)[0].(object)
	delete(card, "signatures")
	text, err := json.Marshal(card)
	if err != nil {
		t.Fatal(err)
	}
	payload := jsontext.Value(text)
	if err := payload.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	signature, err := base64.RawURLEncoding.DecodeString(jws["signature"].(string))
	if err != nil {
		t.Fatal(err)
	}
	message := jws["protected"].(string) + "." + base64.RawURLEncoding.EncodeToString(payload)
	if !ed25519.Verify(public, []byte(message), signature) {
		t.Error("the signature does not fit")
	}
	if jwk := jws["header"].(object)["jwk"].(object); jwk["x"] != base64.RawURLEncoding.EncodeToString(public) {
		t.Errorf("%v", jwk)
	}
	n.Do("DELETE", "/api/v1/agents/"+agent+"/identity", nil)
	if card = n.Expect(200, "GET", path, nil); card["signatures"] != nil {
		t.Errorf("signed without an identity: %v", card)
	}
}

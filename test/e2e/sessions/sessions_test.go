package sessions

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// textsOf returns the messages of the active branch as "role: content".
func textsOf(n *apptest.Server, session string) (all []string) {
	n.T.Helper()
	for _, m := range n.Expect(200, "GET", "/api/v1/sessions/"+session+"/messages", nil)["messages"].([]any) {
		e := m.(object)
		all = append(all, fmt.Sprintf("%s: %s", e["role"], e["content"]))
	}
	return all
}

// recall answers with how many answers it was given before, and the message.
func recall(req modeltest.Request) modeltest.Answer {
	c := req.Chat()
	before := 0
	for _, m := range c.Messages {
		if m.Role == "assistant" {
			before++
		}
	}
	return modeltest.Answer{Text: fmt.Sprintf("%d %s", before, c.Last("user"))}
}

func TestConversation(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		sim := modeltest.New(t, modeltest.Respond(recall))
		n := apptest.Start(t, sim, adjust)
		agent := n.CreateAgent(object{"prompts": object{"system": "Be brief."}})
		id := n.CreateSession(agent, object{"metadata": object{"a": 1}})
		for i, text := range []string{"one", "two", "three"} {
			r := n.WaitRun(n.SendMessage(id, text))
			if got, want := r["output"].(object)["text"], fmt.Sprintf("%d %s", i, text); got != want {
				t.Errorf("turn %d came to %v, want %q", i, got, want)
			}
			if r["session_id"] != id {
				t.Errorf("the run belongs to %v", r["session_id"])
			}
		}
		want := []string{"user: one", "assistant: 0 one", "user: two", "assistant: 1 two", "user: three", "assistant: 2 three"}
		if diff := cmp.Diff(want, textsOf(n, id)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		requests := sim.Requests()
		var told []string
		for _, m := range requests[len(requests)-1].Chat().Messages {
			told = append(told, m.Role+": "+m.Text())
		}
		if diff := cmp.Diff(append([]string{"system: Be brief."}, want[:5]...), told); diff != "" {
			t.Errorf("the model was told (-want +got):\n%s", diff)
		}
		s := n.Expect(200, "GET", "/api/v1/sessions/"+id, nil)
		if len(s["runs"].([]any)) != 3 || len(s["conversation_history"].([]any)) != 6 || s["active_branch"] != "main" {
			t.Errorf("the session is %v", s)
		}
		first := s["conversation_history"].([]any)[0].(object)
		if first["message_id"] != s["runs"].([]any)[0] || s["conversation_history"].([]any)[1].(object)["message_id"] != first["run_id"].(string)+"-reply" {
			t.Errorf("message ids: %v", s["conversation_history"])
		}
		page := n.Expect(200, "GET", "/api/v1/sessions?agent_id="+agent, nil)["items"].([]any)
		item := page[0].(object)
		if len(page) != 1 || item["message_count"] != 6.0 || item["first_user_message"] != "one" || item["last_message"] != "2 three" || item["agent_name"] != "tester" {
			t.Errorf("the list has %v", page)
		}
	})
}

// Fifty messages at once to one session on two nodes: one run at a time, in
// the order in which they were taken, and each sees all answers before it.
func TestTurnsOverTwoNodes(t *testing.T) {
	t.Parallel()
	const messages = 50
	var mu sync.Mutex
	under, most := 0, 0
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		mu.Lock()
		under++
		most = max(most, under)
		mu.Unlock()
		<-time.After(3 * time.Millisecond)
		mu.Lock()
		under--
		mu.Unlock()
		return recall(req)
	}))
	a, b := pair(t, sim)
	id := a.CreateSession(a.CreateAgent(nil), nil)
	var all sync.WaitGroup
	for i := range messages {
		all.Go(func() {
			n := []*apptest.Server{a, b}[i%2]
			n.SendMessage(id, fmt.Sprintf("message %d", i))
		})
	}
	all.Wait()
	s := a.Expect(200, "GET", "/api/v1/sessions/"+id, nil)
	runs := s["runs"].([]any)
	if len(runs) != messages {
		t.Fatalf("%d turns", len(runs))
	}
	var last time.Time
	for i, r := range runs {
		got := a.WaitRun(r.(string))
		if got["status"] != "completed" {
			t.Fatalf("turn %d is %v: %v", i, got["status"], got["error"])
		}
		want := fmt.Sprintf("%d %s", i, got["input"].(object)["message"])
		if text := got["output"].(object)["text"]; text != want {
			t.Errorf("turn %d came to %v, want %q", i, text, want)
		}
		// A run that waits for the session's lock while it is stored says when it was taken,
		// which may be before the end of the turn before; that no two are under way at once
		// is what the model counts.
		ended := timeOf(t, got["completed_at"])
		if ended.Before(last) {
			t.Errorf("turn %d ended at %s, before the one before at %s", i, ended, last)
		}
		last = ended
	}
	if most > 1 {
		t.Errorf("%d runs were under way at once", most)
	}
}

func timeOf(t *testing.T, v any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, v.(string))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// pair starts two nodes over one PostgreSQL and one NATS.
func pair(t *testing.T, sim *modeltest.Server) (a, b *apptest.Server) {
	t.Helper()
	bus, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	bus.Start()
	t.Cleanup(func() { bus.Shutdown(); bus.WaitForShutdown() })
	if !bus.ReadyForConnections(5 * time.Second) {
		t.Fatal("NATS does not start")
	}
	database := sqldbtest.Migrated(t, sqldbtest.Postgres)
	shared := func(c *config.Config) {
		c.Storage.DatabaseURL = config.NewURL(database.URL)
		c.Security.SecretKey = secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
		c.Bus.NATSURL = config.NewURL(bus.ClientURL())
	}
	return apptest.Start(t, sim, shared), apptest.Start(t, sim, shared)
}

func TestBusySession(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		id := n.CreateSession(n.CreateAgent(nil), object{"queue_mode": "reject"})
		var mu sync.Mutex
		var accepted []string
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				r := n.Do("POST", "/api/v1/sessions/"+id+"/messages", object{"content": "hello"})
				mu.Lock()
				defer mu.Unlock()
				if r.StatusCode == 202 {
					accepted = append(accepted, r.JSON["run_id"].(string))
				} else if r.StatusCode != 409 || r.JSON["code"] != "SESSION_BUSY" {
					t.Errorf("%d %s", r.StatusCode, r.Body)
				}
			})
		}
		all.Wait()
		if len(accepted) != 1 {
			t.Fatalf("%d messages were accepted at once", len(accepted))
		}
		n.Expect(200, "POST", "/api/v1/runs/"+accepted[0]+"/cancel", nil)
		n.SendMessage(id, "hello again")
	})
}

// What is cancelled while it waits does not hold up those behind it, and does
// not let them pass either.
func TestCancelledTurns(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		id := n.CreateSession(n.CreateAgent(nil), nil)
		first, second, third := n.SendMessage(id, "first"), n.SendMessage(id, "second"), n.SendMessage(id, "third")
		apptest.Eventually(t, func() bool { return statusOf(n, first) == "running" })
		n.Expect(200, "POST", "/api/v1/runs/"+second+"/cancel", nil)
		if got := statusOf(n, third); got != "queued" {
			t.Errorf("the third is %s while the first runs", got)
		}
		if got := n.Expect(200, "GET", "/api/v1/sessions/"+id+"/messages", nil); got["active_run_id"] != first || got["active_run_status"] != "running" {
			t.Errorf("whose turn it is: %v", got)
		}
		n.Expect(200, "POST", "/api/v1/runs/"+first+"/cancel", nil)
		apptest.Eventually(t, func() bool { return statusOf(n, third) == "running" })
	})
}

func statusOf(n *apptest.Server, run string) string {
	n.T.Helper()
	return n.Expect(200, "GET", "/api/v1/runs/"+run, nil)["status"].(string)
}

func TestClosedSession(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(nil)
		id := n.CreateSession(agent, nil)
		first, second := n.SendMessage(id, "first"), n.SendMessage(id, "second")
		apptest.Eventually(t, func() bool { return statusOf(n, first) == "running" })
		for range 2 {
			if got := n.Expect(200, "DELETE", "/api/v1/sessions/"+id, nil); got["deleted"] != true || got["session_id"] != id {
				t.Errorf("closing: %v", got)
			}
		}
		apptest.Eventually(t, func() bool { return statusOf(n, second) == "cancelled" })
		if got := statusOf(n, first); got != "running" {
			t.Errorf("the run that was under way is %s", got)
		}
		if got := n.Expect(200, "GET", "/api/v1/sessions/"+id, nil)["status"]; got != "closed" {
			t.Errorf("the session is %v", got)
		}
		apptest.CheckCode(t, n.Do("POST", "/api/v1/sessions/"+id+"/messages", object{"content": "x"}), 409, "INVALID_STATE_TRANSITION")
		apptest.CheckCode(t, n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "session_id": id, "input": object{"message": "x"}}), 409, "INVALID_STATE_TRANSITION")
		apptest.CheckCode(t, n.Do("POST", "/api/v1/sessions/"+id+"/branch", object{}), 409, "INVALID_STATE_TRANSITION")
	})
}

func TestExpiredSession(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		id := n.CreateSession(n.CreateAgent(nil), object{"expires_in_seconds": 1})
		r := n.SendMessage(id, "x")
		path := "/api/v1/sessions/" + id
		apptest.Eventually(t, func() bool { return n.Expect(200, "GET", path, nil)["status"] == "expired" })
		apptest.CheckCode(t, n.Do("POST", path+"/messages", object{"content": "x"}), 409, "INVALID_STATE_TRANSITION")
		if got := statusOf(n, r); got != "running" {
			t.Errorf("the run is %s", got)
		}
		db := n.Admin()
		apptest.Eventually(t, func() bool {
			return db.Query(`SELECT status FROM sessions WHERE session_id = ?`, id)[0]["status"] == "expired"
		})
	})
}

func TestRunsInSessions(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(recall))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	id := n.CreateSession(agent, nil)
	n.WaitRun(n.SendMessage(id, "one"))
	r := n.WaitRun(n.StartRun(agent, "two", object{"session_id": id}))
	if got := r["output"].(object)["text"]; got != "1 two" {
		t.Errorf("a run in the session came to %v", got)
	}
	if got := n.Expect(200, "GET", "/api/v1/runs?session_id="+id, nil)["items"].([]any); len(got) != 2 {
		t.Errorf("the session has %d runs", len(got))
	}
	apptest.CheckCode(t, n.Do("POST", "/api/v1/runs", object{"agent_id": n.CreateAgent(nil), "session_id": id, "input": object{"message": "x"}}), 422, "VALIDATION_ERROR")
	apptest.CheckCode(t, n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "session_id": agent, "input": object{"message": "x"}}), 404, "NOT_FOUND")
}

func TestModelOverride(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(recall))
	n := apptest.Start(t, sim)
	id := n.CreateSession(n.CreateAgent(nil), object{"model_override": object{"provider": "openai_compat", "model_ref": "other-model"}})
	path := "/api/v1/sessions/" + id
	n.WaitRun(n.SendMessage(id, "one"))
	if got := n.Expect(200, "PUT", path, object{"model_override": nil, "metadata": object{"k": "v"}}); got["model_override"] != nil {
		t.Errorf("cleared, it is %v", got["model_override"])
	}
	n.WaitRun(n.SendMessage(id, "two"))
	var asked []string
	for _, r := range sim.Requests() {
		asked = append(asked, r.Chat().Model)
	}
	if diff := cmp.Diff([]string{"other-model", "sim-model"}, asked); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	got := n.Expect(200, "PUT", path, object{"metadata": object{"k": nil, "l": object{"m": 1}}, "queue_mode": "reject"})
	if diff := cmp.Diff(object{"l": object{"m": 1.0}}, got["metadata"]); diff != "" || got["queue_mode"] != "reject" {
		t.Errorf("after the update: %v", got)
	}
	bad := n.Do("PUT", path, object{"model_override": object{"provider": "x", "endpoint_url": "http://127.0.0.1/v1"}, "queue_mode": "maybe"})
	apptest.CheckCode(t, bad, 422, "VALIDATION_ERROR")
	if fields := fmt.Sprint(bad.JSON["errors"]); !strings.Contains(fields, "model_override.provider") || !strings.Contains(fields, "model_ref") || !strings.Contains(fields, "queue_mode") {
		t.Errorf("the wrong fields: %s", fields)
	}
}

// kill -9 in the middle of a session: the turns go on where they were, in
// their order.
func TestTurnsSurviveKills(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("builds and kills the program")
	}
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		a := recall(req)
		a.TTFT, a.Delay = 10*time.Millisecond, time.Millisecond
		return a
	}))
	p := apptest.BuildProcess(t, sim)
	p.Start()
	id := p.CreateSession(p.CreateAgent(nil), nil)
	var runs []string
	for range 4 {
		for range 5 {
			runs = append(runs, p.SendMessage(id, fmt.Sprintf("message %d", len(runs))))
		}
		<-time.After(25 * time.Millisecond)
		p.Kill()
		p.Start()
	}
	for i, r := range runs {
		want := fmt.Sprintf("%d message %d", i, i)
		if got := p.WaitRun(r); got["status"] != "completed" || got["output"].(object)["text"] != want {
			t.Errorf("turn %d is %v, %v, want %q", i, got["status"], got["output"], want)
		}
	}
	s := p.Expect(200, "GET", "/api/v1/sessions/"+id, nil)
	if diff := cmp.Diff(runs, strs(s["runs"])); diff != "" {
		t.Errorf("turns (-sent +stored):\n%s", diff)
	}
}

func strs(v any) (out []string) {
	for _, s := range v.([]any) {
		out = append(out, s.(string))
	}
	return out
}

func TestBranches(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		sim := modeltest.New(t, modeltest.Respond(recall))
		n := apptest.Start(t, sim, adjust)
		id := n.CreateSession(n.CreateAgent(nil), nil)
		path := "/api/v1/sessions/" + id
		one := n.SendMessage(id, "one")
		n.WaitRun(one)
		n.WaitRun(n.SendMessage(id, "two"))
		fork := func(body object) string {
			return n.Expect(201, "POST", path+"/branch", body)["branch_id"].(string)
		}
		activate := func(branch string) {
			if got := n.Expect(200, "PUT", path+"/branches/"+branch+"/activate", nil); got["active_branch"] != branch {
				t.Errorf("active: %v", got)
			}
		}
		b := fork(object{"fork_point_run_id": one, "name": "other"})
		activate(b)
		n.WaitRun(n.SendMessage(id, "zwei"))
		other := []string{"user: one", "assistant: 0 one", "user: zwei", "assistant: 1 zwei"}
		if diff := cmp.Diff(other, textsOf(n, id)); diff != "" {
			t.Errorf("the branch (-want +got):\n%s", diff)
		}
		// A branch of the branch, by an index into its history.
		c := fork(object{"fork_point": 2})
		activate(c)
		n.WaitRun(n.SendMessage(id, "three"))
		if diff := cmp.Diff([]string{"user: one", "assistant: 0 one", "user: zwei", "user: three", "assistant: 1 three"}, textsOf(n, id)); diff != "" {
			t.Errorf("the branch of the branch (-want +got):\n%s", diff)
		}
		// One that shares nothing.
		activate(fork(object{"fork_point": -1, "parent_branch_id": "main"}))
		n.WaitRun(n.SendMessage(id, "anew"))
		if diff := cmp.Diff([]string{"user: anew", "assistant: 0 anew"}, textsOf(n, id)); diff != "" {
			t.Errorf("the branch that shares nothing (-want +got):\n%s", diff)
		}
		activate("main")
		if diff := cmp.Diff([]string{"user: one", "assistant: 0 one", "user: two", "assistant: 1 two"}, textsOf(n, id)); diff != "" {
			t.Errorf("main (-want +got):\n%s", diff)
		}
		list := n.Expect(200, "GET", path+"/branches", nil)
		if list["total"] != 4.0 || list["active_branch"] != "main" {
			t.Errorf("branches: %v", list)
		}
		apptest.CheckCode(t, n.Do("DELETE", path+"/branches/main", nil), 422, "VALIDATION_ERROR")
		apptest.CheckCode(t, n.Do("DELETE", path+"/branches/"+b, nil), 409, "CONFLICT")
		activate(c)
		apptest.CheckCode(t, n.Do("DELETE", path+"/branches/"+c, nil), 409, "CONFLICT")
		activate("main")
		if got := n.Expect(200, "DELETE", path+"/branches/"+c, nil); got["runs"] != 1.0 {
			t.Errorf("deleted: %v", got)
		}
		n.Expect(200, "DELETE", path+"/branches/"+b, nil)
		apptest.CheckCode(t, n.Do("PUT", path+"/branches/"+b+"/activate", nil), 404, "NOT_FOUND")
		apptest.CheckCode(t, n.Do("POST", path+"/branch", object{"fork_point": 99}), 422, "VALIDATION_ERROR")
		apptest.CheckCode(t, n.Do("POST", path+"/branch", object{"fork_point": -2}), 422, "VALIDATION_ERROR")
		apptest.CheckCode(t, n.Do("POST", path+"/branch", object{"fork_point_run_id": id}), 404, "NOT_FOUND")
		apptest.CheckCode(t, n.Do("POST", path+"/branch", object{"parent_branch_id": "nobody"}), 404, "NOT_FOUND")
		apptest.CheckCode(t, n.Do("POST", path+"/branch", object{"fork_point_run_id": one, "fork_point_step_seq": 7}), 422, "VALIDATION_ERROR")
	})
}

// Messages include the tool calls of earlier turns with their results, and pages
// count back from the newest message.
func TestMessagesWithTools(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		c := req.Chat()
		if slices.ContainsFunc(c.Messages, func(m modeltest.ChatMessage) bool { return m.Role == "tool" }) {
			return modeltest.Answer{Text: "It is 42."}
		}
		return modeltest.ToolRounds(1, modeltest.Answer{Text: "?"})(req)
	}))
	n := apptest.Start(t, sim)
	id := n.CreateSession(n.CreateAgent(object{"built_in_tools": []string{"calculator"}}), nil)
	first := n.SendMessage(id, "What is 6*7?")
	n.WaitRun(first)
	n.WaitRun(n.SendMessage(id, "Sure?"))
	var roles []string
	for _, m := range sim.Requests()[2].Chat().Messages {
		roles = append(roles, m.Role)
	}
	if diff := cmp.Diff([]string{"user", "assistant", "tool", "assistant", "user"}, roles); diff != "" {
		t.Errorf("the model was told (-want +got):\n%s", diff)
	}
	path := "/api/v1/sessions/" + id + "/messages"
	all := n.Expect(200, "GET", path, nil)
	var ids []string
	for _, m := range all["items"].([]any) {
		ids = append(ids, strings.TrimPrefix(m.(object)["message_id"].(string), first))
	}
	if diff := cmp.Diff([]string{"", "-reply", "-tool-1", "-reply-2"}, ids[:4]); diff != "" {
		t.Errorf("message ids (-want +got):\n%s", diff)
	}
	call := all["items"].([]any)[1].(object)["tool_calls"].([]any)[0].(object)
	if call["name"] != "calculator" || call["status"] != "done" || call["output"] != "42" || call["input"] != `{"expression":"6*7"}` {
		t.Errorf("the call is %v", call)
	}
	newest := n.Expect(200, "GET", path+"?limit=4", nil)
	older := n.Expect(200, "GET", path+"?limit=4&cursor="+newest["cursor"].(string), nil)
	if got := len(newest["messages"].([]any)) + len(older["messages"].([]any)); got != 6 || older["has_more"] != false || older["total"] != 6.0 {
		t.Errorf("pages: %v, %v", newest, older)
	}
	if got := older["messages"].([]any)[0].(object)["message_id"]; got != first {
		t.Errorf("the older page begins with %v", got)
	}
}

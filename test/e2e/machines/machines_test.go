package machines

import (
	"slices"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
)

// A run of a machine's agent is a task: it holds no worker, its events go into the
// run's stream, what is reported twice counts once, and after its end the machine is
// to stop.
func TestTasks(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		agent := register(n, "m1", object{"machine_name": "Mill", "os": "plan9", "description": "Grinds."})
		shown := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil)
		if shown["execution_mode"] != "bridge" || shown["name"] != "Mill" || shown["description"] != "Grinds." {
			t.Fatalf("the agent is %v", shown)
		}
		made := n.Expect(200, "POST", api+"/delegate", object{"agent_id": agent, "message": "grind", "context": object{"grain": "rye"}})
		id := made["run_id"].(string)
		if made["task_id"] != id || made["status"] != "enqueued" {
			t.Errorf("delegated: %v", made)
		}
		polled := n.Expect(200, "GET", api+"/poll?timeout=20000&machine_id=m1&agent_id="+agent, nil)["tasks"].([]any)
		task := polled[0].(object)
		if len(polled) != 1 || task["task_id"] != id || task["source"].(object)["type"] != "user" ||
			!strings.HasPrefix(task["input"].(object)["message"].(string), "grind\n\nContext:\n{\"grain\":\"rye\"}") {
			t.Fatalf("polled: %v", polled)
		}
		if r := n.Do("GET", api+"/poll?timeout=10&agent_id="+agent, nil); r.StatusCode != 204 {
			t.Errorf("polled again: %d %s", r.StatusCode, r.Body)
		}
		if r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil); r["waiting_for"] != "machine" || r["status"] != "running" {
			t.Errorf("the run: %v", r)
		}
		n.Expect(409, "POST", "/api/v1/runs/"+id+"/pause", nil)

		first := object{"event_id": "1", "type": "text", "content": "Looking."}
		if got := push(n, id, first, object{"type": "thinking", "content": "Hm."}); got["events_stored"] != 2.0 {
			t.Errorf("the first report: %v", got)
		}
		got := push(n, id, first, object{"event_id": "2", "type": "tool_call", "tool_call_id": "c1", "tool_name": "mill", "tool_args_preview": `{"speed":3}`})
		if got["events_stored"] != 1.0 || got["received"] != 2.0 {
			t.Errorf("a repetition: %v", got)
		}
		push(n, id,
			object{"type": "tool_result", "tool_call_id": "c1", "tool_name": "mill", "tool_result_preview": "flour"},
			object{"type": "metrics", "metrics": object{"llm_calls": 7}, "input_tokens": 11, "output_tokens": 13},
			object{"type": "status", "status": "working", "message": "Almost there."},
			object{"type": "capability_report", "capabilities": []string{"bake"}, "working_directory": "/oven", "hostname": "mill.lan"},
			object{"type": "something_new"},
			object{"type": "text", "content": "Done, "})
		push(n, id, object{"type": "text", "content": "it is flour.", "event_id": "9"}, object{"type": "completed"})

		checkGround(n, id)
		checkOtherEnds(n, agent)
	})
}

// checkGround checks the run of TestTasks that the machine completed.
func checkGround(n *apptest.Server, id string) {
	t := n.T
	t.Helper()
	r := n.WaitRun(id)
	if r["status"] != "completed" || apptest.OutputText(r) != "Done, it is flour." {
		t.Fatalf("the run: %v", r)
	}
	if m := r["metrics"].(object); m["llm_calls_count"] != 7.0 || m["tool_calls_count"] != 1.0 || m["input_tokens"] != 11.0 || m["output_tokens"] != 13.0 {
		t.Errorf("its metrics: %v", m)
	}
	frames := n.ReadStream("/api/v1/runs/"+id+"/events", "", nil)
	names := apptest.FrameNames(frames)
	for _, want := range []string{"llm.chunk", "llm.thinking", "tool.call", "tool.result", "machine.metrics", "machine.status", "llm.completed",
		"run.completed", "done"} {
		if !slices.Contains(names, want) {
			t.Errorf("the stream has no %s: %v", want, names)
		}
	}
	if text := apptest.ChunkText(t, frames); text != "Looking.Done, it is flour." {
		t.Errorf("the text of the stream: %q", text)
	}
	over := push(n, id, object{"type": "text", "content": "and more"})
	if over["abort"] != true || over["events_stored"] != 0.0 {
		t.Errorf("after the end: %v", over)
	}
	machine := n.Do("GET", api+"/agents", nil).Value().([]any)[0].(object)
	if machine["hostname"] != "mill.lan" || machine["working_directory"] != "/oven" || machine["capabilities"].([]any)[0] != "bake" ||
		machine["status"] != "online" || machine["os"] != "plan9" {
		t.Errorf("the machine: %v", machine)
	}
}

// checkOtherEnds checks tasks that fail and that are cancelled.
func checkOtherEnds(n *apptest.Server, agent string) {
	t := n.T
	t.Helper()
	failed := onMachine(n, agent, "burn", nil)
	push(n, failed, object{"type": "tool_result", "tool_call_id": "c", "tool_name": "oven", "error": "too hot"},
		object{"type": "failed", "code": "burnt", "error": "It is coal."})
	if r := n.WaitRun(failed); r["status"] != "failed" || r["error_code"] != "burnt" || r["error"] != "It is coal." {
		t.Errorf("a task that failed: %v", r)
	}
	stopped := onMachine(n, agent, "never", nil)
	n.Expect(200, "POST", "/api/v1/runs/"+stopped+"/cancel", nil)
	if got := push(n, stopped, object{"type": "completed", "output": "late"}); got["abort"] != true {
		t.Errorf("after it was cancelled: %v", got)
	}
}

// A person decides about what a machine is about to do; the answer is signed, and waits
// for the machine.
func TestApprovals(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	reg := n.Expect(201, "POST", api+"/register", object{"machine_id": "m", "capabilities": []string{}, "working_directory": "/", "version": "1"})
	agent := reg["agent_id"].(string)
	ask := func(id, approval string) {
		push(n, id, object{"type": "tool_call", "tool_call_id": "c" + approval, "tool_name": "rm", "tool_args_preview": `{"path":"x"}`},
			object{"type": "approval_request", "approval_id": approval, "tool_call_id": "c" + approval, "tool_name": "rm", "tool_args_preview": `{"path":"x"}`})
	}
	id := onMachine(n, agent, "tidy up", nil)
	ask(id, "1")
	ask(id, "1")
	if r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil); r["status"] != "awaiting_approval" || len(r["pending_approvals"].([]any)) != 1 {
		t.Fatalf("the run: %v", r)
	}
	n.Expect(400, "GET", api+"/tasks/"+id+"/approval", nil)
	n.Expect(404, "GET", api+"/tasks/"+id+"/approval?approval_id=2", nil)
	n.Expect(200, "POST", "/api/v1/runs/"+id+"/approve", object{"arguments": object{"path": "y"}})
	d := n.Expect(200, "GET", api+"/tasks/"+id+"/approval?approval_id=1", nil)["approval_response"].(object)
	if d["approved"] != true || d["outcome"] != "approved" || d["arguments"].(object)["path"] != "y" || len(d["signature"].(string)) != 64 {
		t.Errorf("the decision: %v", d)
	}
	if len(reg["approval_key"].(string)) != 64 {
		t.Errorf("registered: %v", reg)
	}
	push(n, id, object{"type": "completed", "output": "Tidy."})
	if r := n.WaitRun(id); apptest.OutputText(r) != "Tidy." {
		t.Errorf("the run: %v", r)
	}

	refused := onMachine(n, agent, "tidy up", nil)
	ask(refused, "1")
	n.Expect(200, "POST", "/api/v1/runs/"+refused+"/reject", object{"reason": "no", "continue": true})
	d = n.Expect(200, "GET", api+"/tasks/"+refused+"/approval?approval_id=1", nil)["approval_response"].(object)
	if d["approved"] != false || d["reason"] != "no" {
		t.Errorf("the decision: %v", d)
	}
	ask(refused, "2")
	n.Expect(200, "POST", "/api/v1/runs/"+refused+"/reject", nil)
	if got := push(n, refused, object{"type": "completed"}); got["abort"] != true {
		t.Errorf("after the run was rejected: %v", got)
	}
	if r := n.WaitRun(refused); r["status"] != "rejected" {
		t.Errorf("the run: %v", r)
	}
}

// Machines act with keys of the member that registered them: another member's, a browser's
// and another company's cannot, whatever id they name.
func TestMachinesThatLie(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := register(n, "m", nil)
	id := onMachine(n, agent, "hello", nil)
	tenant, _ := n.Me()
	liar := n.WithKey(string(n.Admin().CreateKey(tenant, authz.Developer, "agents:read", "agents:write", "runs:create", "runs:read").RawKey))
	body := object{"machine_id": "m", "capabilities": []string{}, "working_directory": "/", "version": "1"}
	liar.Do("POST", api+"/register", body).IsProblem(t, 409, "MACHINE_TAKEN")
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/heartbeat", object{"machine_id": "m"}},
		{"POST", "/heartbeat", object{"agent_id": agent}},
		{"POST", "/heartbeat", object{"machine_id": "m", "agent_id": id}},
		{"GET", "/poll?machine_id=m", nil},
		{"GET", "/poll?agent_id=" + agent, nil},
		{"POST", "/tasks/" + id + "/events", []object{{"type": "completed", "timestamp": at}}},
		{"GET", "/tasks/" + id + "/approval?approval_id=1", nil},
	} {
		liar.Expect(404, c.method, api+c.path, c.body)
	}
	liar.Expect(200, "POST", api+"/deregister", object{"machine_id": "m"})
	n.Expect(404, "POST", api+"/heartbeat", object{"machine_id": "m", "agent_id": id})
	n.Expect(200, "POST", api+"/heartbeat", object{"machine_id": "m", "agent_id": agent, "status": "fine"})
	n.Expect(422, "POST", "/api/v1/agents", object{"name": "a liar", "execution_mode": "bridge"})
	n.Expect(422, "PATCH", "/api/v1/agents/"+agent, object{"execution_mode": "async"})
	n.Expect(400, "POST", api+"/delegate", object{"agent_id": n.CreateAgent(object{"name": "no machine"}), "message": "x"})

	many := make([]object, 501)
	for i := range many {
		many[i] = object{"type": "text", "content": "x", "timestamp": at}
	}
	n.Expect(422, "POST", api+"/tasks/"+id+"/events", many)
	large := object{"type": "text", "timestamp": at, "content": strings.Repeat("x", 400_000)}
	n.Expect(413, "POST", api+"/tasks/"+id+"/events", []object{large, large, large})
	for range 50 { // a machine that floods is stopped, and its run ends
		if got := push(n, id, object{"type": "text", "content": strings.Repeat("x", 499_000)}, object{"type": "thinking", "content": strings.Repeat("y", 499_000)}); got["abort"] == true {
			break
		}
	}
	if r := n.WaitRun(id); r["error_code"] != "machine_runaway" {
		t.Errorf("the run of a machine that floods: %v", r["error_code"])
	}
}

// A machine leaves and comes back to what waited; one whose agent was deleted stays out
// until a person forgets it. Analytics count what there is.
func TestComingAndGoing(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := register(n, "m", object{"agent_name": "Millie", "app": "mill"})
	n.CreateAgent(object{"name": "of the platform"})
	part := register(n, "m/part", object{"parent_agent_id": agent})
	if l := n.Expect(200, "GET", "/api/v1/agents/"+part, nil)["metadata"].(object); l["parent_agent_id"] != agent {
		t.Errorf("the part's metadata: %v", l)
	}
	n.Expect(422, "POST", api+"/register", object{"machine_id": "x", "capabilities": []string{}, "working_directory": "/", "version": "1",
		"parent_agent_id": part})
	n.Expect(400, "POST", api+"/deregister", object{})
	n.Expect(200, "POST", api+"/deregister", object{"machine_id": "m"})
	n.Expect(404, "POST", api+"/heartbeat", object{"machine_id": "m"})
	n.Expect(200, "POST", api+"/deregister", object{"agent_id": part})
	made := n.Expect(200, "POST", api+"/delegate", object{"agent_id": agent, "message": "while you were away", "priority": "high"})
	if made["status"] != "queued_offline" {
		t.Errorf("delegated to a machine that left: %v", made)
	}
	counts := func() object { return n.Expect(200, "GET", "/api/v1/analytics/agents", nil) }
	if c := counts(); c["by_execution_mode"].(object)["bridge"] != 2.0 || c["by_execution_mode"].(object)["cloud"] != 1.0 ||
		c["bridge"].(object)["offline"] != 2.0 {
		t.Errorf("analytics: %v", c)
	}
	again := n.Expect(200, "POST", api+"/register", object{"machine_id": "m", "capabilities": []string{"a"}, "working_directory": "/new", "version": "2",
		"protocol_version": 1})
	if again["agent_id"] != agent || again["registered"] != false {
		t.Errorf("registered again: %v", again)
	}
	tasks := n.Expect(200, "GET", api+"/poll?machine_id=m", nil)["tasks"].([]any)
	if len(tasks) != 1 || tasks[0].(object)["task_id"] != made["task_id"] {
		t.Errorf("what waited: %v", tasks)
	}
	n.Expect(200, "POST", api+"/agents/"+agent+"/capability", object{"capabilities": []string{"b"}, "hostname": "h", "working_directory": "/newer",
		"installed_specs": []object{{"spec_id": "@a/b", "status": "failed", "version": "1", "tools": []string{"t"}, "error": strings.Repeat("e", 900),
			"reported_at": at}},
		"stats": object{"load": 3}})
	n.Expect(422, "POST", api+"/agents/"+agent+"/capability", object{"capabilities": []string{}, "stats": object{"Load": 3}})
	status := n.Expect(200, "GET", api+"/status", nil)
	m := status["connections"].([]any)[0].(object)
	if status["status"] != "online" || m["version"] != "2" || m["hostname"] != "h" || m["working_directory"] != "/newer" || m["app"] != nil ||
		m["stats"].(object)["load"] != 3.0 || len(m["installed_specs"].([]any)[0].(object)["error"].(string)) != 500 ||
		m["installed_specs"].([]any)[0].(object)["reported_at"] != at {
		t.Errorf("the status: %v", status)
	}
	if c := counts(); c["bridge"].(object)["online"] != 1.0 || c["bridge"].(object)["machines_total"] != 2.0 {
		t.Errorf("analytics: %v", c)
	}
	specs := n.Expect(200, "GET", api+"/agent-specs?agent_id="+agent, nil)
	if len(specs["revision"].(string)) != 64 || len(specs["specs"].([]any)) != 0 {
		t.Errorf("specs: %v", specs)
	}

	n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
	body := object{"machine_id": "m", "capabilities": []string{}, "working_directory": "/", "version": "1"}
	n.Do("POST", api+"/register", body).IsProblem(t, 410, "agent_deleted")
	apptest.Eventually(t, func() bool { return len(n.Expect(200, "GET", api+"/deleted-machines", nil)["items"].([]any)) == 1 })
	n.Expect(204, "DELETE", api+"/deleted-machines/m", nil)
	n.Expect(404, "DELETE", api+"/deleted-machines/m", nil)
	if id := register(n, "m", nil); id == agent {
		t.Error("the machine got the agent that was deleted")
	}
}

// What a machine answers passes the guardrails of its agent; what it writes before that is
// not shown.
func TestGuardrailsOfMachines(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := register(n, "m", nil)
	guard := n.CreateGuardrail(object{"name": "g", "kind": "keyword", "stage": "output", "action": "block", "config": object{"keywords": []string{"secret"}}})
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"guardrails": object{"output": apptest.GuardrailRef(guard)}})
	id := onMachine(n, agent, "hello", nil)
	push(n, id, object{"type": "text", "content": "the secret"}, object{"type": "completed", "output": "the secret"})
	if r := n.WaitRun(id); r["status"] != "guardrail_blocked" {
		t.Errorf("the run: %v", r["status"])
	}
	if text := apptest.ChunkText(t, n.ReadStream("/api/v1/runs/"+id+"/events", "", nil)); text != "" {
		t.Errorf("the stream has %q", text)
	}
}

// The turns of a session go to the machine as its conversation.
func TestSessionsOfMachines(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := register(n, "m", nil)
	session := n.CreateSession(agent, nil)
	for i, want := range []int{0, 2} {
		id := n.SendMessage(session, []string{"one", "two"}[i])
		tasks := n.Expect(200, "GET", api+"/poll?machine_id=m", nil)["tasks"].([]any)
		input := tasks[0].(object)["input"].(object)
		history, _ := input["conversation_history"].([]any)
		if tasks[0].(object)["session_id"] != session || len(history) != want || input["message"] != []string{"one", "two"}[i] {
			t.Errorf("task %d: %v", i, tasks)
		}
		push(n, id, object{"type": "completed", "message": "answer"})
		n.WaitRun(id)
	}
}

package runs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// The body that starts a run, and the answer.
func TestRunCreation(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	agent := n.CreateAgent(object{"resource_limits": object{"max_steps": 5, "max_tool_calls": 7}})

	t.Run("answer", func(t *testing.T) {
		made := n.Do("POST", "/api/v1/runs", `{"agent_id":"`+agent+`","input":{"message":"hi","more":{"a":[1,null]}},"metadata":{"b":{"c":"d"},"e":null},`+
			`"resource_limits":{"max_steps":9,"max_duration_ms":60000},"unknown":true}`)
		if made.StatusCode != 202 {
			t.Fatalf("%d %s", made.StatusCode, made.Body)
		}
		for _, field := range []string{"run_id", "agent_id", "tenant_id", "created_at"} {
			if made.JSON[field] == "" || made.JSON[field] == nil {
				t.Errorf("%s is missing: %s", field, made.Body)
			}
		}
		want := object{
			"status": "queued", "input": object{"message": "hi", "more": object{"a": []any{1.0, nil}}}, "output": nil, "error": nil, "session_id": nil,
			"metadata": object{"b": object{"c": "d"}, "e": nil}, "artifacts": []any{}, "agent_version": 1.0, "team_run_id": nil, "completed_at": nil,
			"resource_limits": object{"max_steps": 5.0, "max_tool_calls": 7.0, "max_duration_ms": 60000.0},
		}
		for field, value := range want {
			got, has := made.JSON[field]
			if diff := cmp.Diff(value, got); diff != "" || !has {
				t.Errorf("%s:\n%s", field, diff)
			}
		}
		got := n.Expect(200, "GET", "/api/v1/runs/"+made.JSON["run_id"].(string), nil)
		for _, field := range []string{"input", "metadata", "resource_limits", "created_at", "agent_version"} {
			if diff := cmp.Diff(made.JSON[field], got[field]); diff != "" {
				t.Errorf("%s, read again:\n%s", field, diff)
			}
		}
	})

	t.Run("ids", func(t *testing.T) {
		body := func(fields string) string { return `{"input":{"message":"x"},` + fields + `}` }
		for _, c := range []struct {
			body   string
			status int
			code   string
		}{
			{body(`"agent_id":"x"`), 422, "VALIDATION_ERROR"},
			{body(`"agent_id":""`), 422, "VALIDATION_ERROR"},
			{body(`"agent_id":null`), 422, "VALIDATION_ERROR"},
			{body(`"agent_id":1`), 422, "VALIDATION_ERROR"},
			{body(`"agent_id":"` + ident.New() + `"`), 404, "NOT_FOUND"},
			{body(`"agent_id":"` + agent + `","session_id":"x"`), 422, "VALIDATION_ERROR"},
			{body(`"agent_id":"` + agent + `","session_id":"` + ident.New() + `"`), 404, "NOT_FOUND"},
			{body(`"agent_id":"` + agent + `","version":2`), 404, "NOT_FOUND"},
			{body(`"agent_id":"` + agent + `","version":9223372036854775808`), 422, "VALIDATION_ERROR"},
		} {
			apptest.CheckCode(t, n.Do("POST", "/api/v1/runs", c.body), c.status, c.code)
		}
		if r := n.Do("POST", "/api/v1/runs", body(`"agent_id":"`+agent+`","session_id":null`)); r.StatusCode != 202 {
			t.Errorf("session_id null: %d %s", r.StatusCode, r.Body)
		}
		for _, path := range []string{"", "/steps", "/wait", "/events"} {
			for _, id := range []string{"x", ident.New()} {
				apptest.CheckCode(t, n.Do("GET", "/api/v1/runs/"+id+path, nil, "Accept", "text/event-stream"), 404, "NOT_FOUND")
			}
		}
	})

	t.Run("suspended", func(t *testing.T) {
		asleep := n.CreateAgent(nil)
		n.Expect(200, "POST", "/api/v1/agents/"+asleep+"/suspend", nil)
		r := n.Do("POST", "/api/v1/runs", object{"agent_id": asleep, "input": object{"message": "x"}})
		apptest.CheckCode(t, r, 409, "INVALID_STATE_TRANSITION")
		if !strings.Contains(r.JSON["detail"].(string), "suspended") {
			t.Errorf("the detail does not name the state: %s", r.Body)
		}
		n.Expect(200, "POST", "/api/v1/agents/"+asleep+"/activate", nil)
		n.StartRun(asleep, "x", nil)
	})
}

// Cancelling answers 200 in every state of the run.
func TestCancelling(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	echo, slow := n.CreateAgent(object{"model": apptest.EchoModel}), n.CreateAgent(nil)
	cancel := func(id string) object { return n.Expect(200, "POST", "/api/v1/runs/"+id+"/cancel", nil) }

	id := n.StartRun(slow, "wait", nil)
	if diff := cmp.Diff(object{"cancelled": true, "run_id": id}, cancel(id)); diff != "" {
		t.Errorf("a running one:\n%s", diff)
	}
	r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
	if r["status"] != "cancelled" || r["completed_at"] == nil || r["error_code"] != "RUN_CANCELLED" {
		t.Errorf("the run is %v", r)
	}
	again := cancel(id)
	if message, _ := again["message"].(string); again["cancelled"] != false || again["run_id"] != id || !strings.Contains(message, "cancelled") {
		t.Errorf("once more: %v", again)
	}

	id = n.StartRun(echo, "hello", nil)
	n.WaitRun(id)
	late := cancel(id)
	if message, _ := late["message"].(string); late["cancelled"] != false || !strings.Contains(message, "completed") {
		t.Errorf("a completed one: %v", late)
	}
	if r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil); r["status"] != "completed" {
		t.Errorf("a final state moved: %v", r["status"])
	}
	// A body is not needed, and not looked at.
	if r := n.Do("POST", "/api/v1/runs/"+id+"/cancel", `{"reason":"x"}`); r.StatusCode != 200 {
		t.Errorf("with a body: %d %s", r.StatusCode, r.Body)
	}
	apptest.CheckCode(t, n.Do("POST", "/api/v1/runs/"+ident.New()+"/cancel", nil), 404, "NOT_FOUND")
	apptest.CheckCode(t, n.Do("POST", "/api/v1/runs/x/cancel", nil), 404, "NOT_FOUND")
}

// Waiting answers with the run, or that it is not over yet.
func TestWaiting(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	done := n.StartRun(n.CreateAgent(object{"model": apptest.EchoModel}), "hello", nil)
	ended := n.Expect(200, "GET", "/api/v1/runs/"+done+"/wait", nil)
	if diff := cmp.Diff(n.Expect(200, "GET", "/api/v1/runs/"+done, nil), ended); diff != "" || ended["status"] != "completed" {
		t.Errorf("the run that was waited for is not the run:\n%s", diff)
	}

	slow := n.StartRun(n.CreateAgent(nil), "wait", nil)
	for _, seconds := range []string{"1", "0", "-5"} {
		began := time.Now()
		got := n.Expect(202, "GET", "/api/v1/runs/"+slow+"/wait?timeout_sec="+seconds, nil)
		if diff := cmp.Diff(object{"run_id": slow, "status": "still_running", "run_status": "running"}, got); diff != "" {
			t.Errorf("timeout_sec=%s:\n%s", seconds, diff)
		}
		if took := time.Since(began); took < 900*time.Millisecond || took > 20*time.Second {
			t.Errorf("timeout_sec=%s took %v", seconds, took)
		}
	}
	answer := make(chan apptest.Reply)
	go func() { answer <- n.Do("GET", "/api/v1/runs/"+slow+"/wait?timeout_sec=600", nil) }()
	n.Expect(200, "POST", "/api/v1/runs/"+slow+"/cancel", nil)
	if r := <-answer; r.StatusCode != 200 || r.JSON["status"] != "cancelled" {
		t.Errorf("cancelled meanwhile: %d %s", r.StatusCode, r.Body)
	}
}

// Deleting an agent ends its runs.
func TestDeletedAgentEndsItsRuns(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	agent, other := n.CreateAgent(nil), n.CreateAgent(nil)
	run, kept := n.StartRun(agent, "wait", nil), n.StartRun(other, "wait", nil)
	if diff := cmp.Diff(object{"deleted": true, "agent_id": agent}, n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)); diff != "" {
		t.Error(diff)
	}
	got := n.WaitRun(run)
	if got["status"] != "failed" || got["error_code"] != "agent_deleted" || got["error"] == nil {
		t.Errorf("its run: %v", got)
	}
	for _, path := range []string{"", "/versions"} {
		apptest.CheckCode(t, n.Do("GET", "/api/v1/agents/"+agent+path, nil), 404, "NOT_FOUND")
	}
	apptest.CheckCode(t, n.Do("DELETE", "/api/v1/agents/"+agent, nil), 404, "NOT_FOUND")
	apptest.CheckCode(t, n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "x"}}), 404, "NOT_FOUND")
	if r := n.Expect(200, "GET", "/api/v1/runs/"+kept, nil); r["status"] != "running" {
		t.Errorf("another agent's run: %v", r["status"])
	}
	frames := apptest.FrameNames(n.ReadStream("/api/v1/runs/"+run+"/events", "", nil))
	if diff := cmp.Diff([]string{"run.failed", "done", "[DONE]"}, frames[len(frames)-3:]); diff != "" {
		t.Errorf("its stream ends otherwise:\n%s", diff)
	}
}

// The journal of a run lists its steps.
func TestSteps(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"model": apptest.EchoModel, "built_in_tools": []string{"calculator"}})
	id := n.StartRun(agent, "calculate 6*7", nil)
	n.WaitRun(id)
	page := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)
	if page["run_id"] != id || page["total"] != 3.0 {
		t.Errorf("%v", page)
	}
	var kinds []string
	for i, item := range page["steps"].([]any) {
		step := item.(object)
		kinds = append(kinds, fmt.Sprint(step["type"], " ", step["status"]))
		if step["run_id"] != id || step["seq"] != float64(i+1) || step["step_index"] != float64(i) || step["error"] != nil || step["duration_ms"].(float64) < 0 {
			t.Errorf("step %d: %v", i+1, step)
		}
		for _, field := range []string{"step_id", "started_at", "completed_at", "input", "output", "metrics", "tool_calls"} {
			if _, has := step[field]; !has {
				t.Errorf("step %d has no %s", i+1, field)
			}
		}
	}
	if diff := cmp.Diff([]string{"llm completed", "tool completed", "llm completed"}, kinds); diff != "" {
		t.Error(diff)
	}
	tool := page["steps"].([]any)[1].(object)
	if tool["input"].(object)["name"] != "calculator" || !strings.Contains(fmt.Sprint(tool["output"]), "42") {
		t.Errorf("the tool's step: %v", tool)
	}
}

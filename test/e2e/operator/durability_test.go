package operator

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// Text of a step that goes on is stored as soon as the operator says, and not before.
func TestPersistence(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(3000), Delay: 20 * time.Millisecond}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	beside := n.Admin()
	drafts := func(run string) int {
		return len(beside.Query(`SELECT last_seq FROM run_events WHERE run_id = ? AND draft > 0`, run))
	}
	// begin starts a run and returns it once a reader has seen text.
	begin := func() string {
		run := n.StartRun(agent, "Go.", nil)
		n.ReadStream("/api/v1/runs/"+run+"/events", "", func(f apptest.Frame) bool { return f.Name == "llm.chunk" })
		return run
	}
	first := begin()
	apptest.Eventually(t, func() bool { return drafts(first) > 0 })
	put(n, "persistence", object{"snapshot_interval_ms": 60000})
	// What was due when it was set is stored before so many pieces have come.
	seen := 0
	n.ReadStream("/api/v1/runs/"+first+"/events", "", func(f apptest.Frame) bool {
		if f.Name == "llm.chunk" {
			seen++
		}
		return seen == 30
	})
	n.Expect(200, "POST", "/api/v1/runs/"+first+"/cancel", nil)
	second := begin()
	for range 100 { // requests, in the time of which it would have been stored
		n.Expect(200, "GET", "/api/v1/runs/"+second, nil)
	}
	if got := drafts(second); got != 0 {
		t.Errorf("%d pieces of text are stored after less than a minute", got)
	}
	n.Expect(200, "POST", "/api/v1/runs/"+second+"/cancel", nil)
	refusedKeys(t, n, "persistence", map[string]string{`{"snapshot_interval_ms":1}`: "snapshot_interval_ms"})
}

// Runs whose agents do not say wait for people and models, and go on, as long as the
// operator says; those that say go by what they say.
func TestLongRunning(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var down atomic.Bool
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		switch {
		case down.Load():
			return modeltest.Answer{Status: 503, Error: "away"}
		case len(r.Chat().Tools) == 0:
			return modeltest.Answer{Text: "That was all."}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{
			ID: fmt.Sprint("c", calls.Add(1)), Name: "calculator", Arguments: fmt.Sprintf(`{"expression":"1+%d"}`, calls.Load()),
		}}}
	}))
	n := apptest.Start(t, sim)
	agent := func(more object) string {
		more["built_in_tools"] = []string{"calculator"}
		return n.CreateAgent(more)
	}
	asks := agent(object{"approval_required_tools": []string{"calculator"}})
	own := agent(object{"approval_required_tools": []string{"calculator"}, "policies": object{"approval_timeout_ms": 7_200_000}})
	waits := func(agent string) time.Duration {
		run := n.StartRun(agent, "Go.", nil)
		var pending []any
		apptest.Eventually(t, func() bool {
			pending, _ = n.Expect(200, "GET", "/api/v1/runs/"+run, nil)["pending_approvals"].([]any)
			return len(pending) > 0
		})
		defer n.Expect(200, "POST", "/api/v1/runs/"+run+"/cancel", nil)
		at := func(name string) time.Time {
			at, err := time.Parse(time.RFC3339, pending[0].(object)[name].(string))
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		return at("expires_at").Sub(at("requested_at"))
	}
	if got := waits(asks); got != 72*time.Hour {
		t.Errorf("it waits %v at first", got)
	}
	put(n, "long-running", object{"default_approval_timeout_ms": 3_600_000, "default_max_steps": 6, "default_model_wait_ms": 0})
	if got := waits(asks); got != time.Hour {
		t.Errorf("it waits %v", got)
	}
	if got := waits(own); got != 2*time.Hour {
		t.Errorf("an agent that says waits %v", got)
	}

	free := agent(object{})
	steps := func(limits object) float64 {
		r := n.WaitRun(n.StartRun(free, "Go.", object{"resource_limits": limits}))
		if r["status"] != "completed" || r["output"].(object)["truncated"] != true {
			t.Errorf("%v", r)
		}
		return r["step_seq"].(float64)
	}
	if short, long := steps(object{}), steps(object{"max_steps": 12}); short > 8 || long <= short {
		t.Errorf("%v steps by default, and %v of 12", short, long)
	}

	down.Store(true)
	if r := n.WaitRun(n.StartRun(free, "Go.", nil)); r["status"] != "failed" {
		t.Errorf("with a model that is away: %v", r)
	}
	put(n, "long-running", object{"default_model_wait_ms": nil})
	run := n.StartRun(free, "Go.", nil)
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", "/api/v1/runs/"+run, nil)["waiting_for"] == "model" })
	n.Expect(200, "POST", "/api/v1/runs/"+run+"/cancel", nil)
	refusedKeys(t, n, "long-running", map[string]string{
		`{"default_approval_timeout_ms":1}`: "default_approval_timeout_ms", `{"default_model_wait_ms":-1}`: "default_model_wait_ms",
		`{"default_max_steps":0}`: "default_max_steps",
	})
}

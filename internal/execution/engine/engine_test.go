package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/policy"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func call(id, name, arguments string) model.ToolCall {
	return model.ToolCall{ID: id, Name: name, Arguments: arguments}
}

// calculate returns an answer that calls the calculator.
func calculate(id, expression string) modeltest.Answer {
	return modeltest.Answer{ToolCalls: []model.ToolCall{call(id, "calculator", fmt.Sprintf(`{"expression":%q}`, expression))}}
}

func TestToolLoop(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Script(
			modeltest.Answer{Text: "Let me see.", Thinking: "two sums", ToolCalls: []model.ToolCall{
				call("a", "calculator", `{"expression":"6*7"}`), call("b", "calculator", `{"expression":"7/2"}`),
			}},
			modeltest.Answer{Text: "42 and 3.5"},
		))
		n := r.start("node", 8, nil)
		got := n.end(n.begin(run.Request{}).RunID)
		if out := r.output(got); got.Status != run.Completed || out.Text != "42 and 3.5" {
			t.Fatalf("the run is %s with %+v", got.Status, out)
		}
		r.checkEnded(got)
		if got.Metrics.ToolCallsCount != 2 || got.Metrics.LLMCallsCount != 2 || got.Metrics.TotalCostUSD == nil || *got.Metrics.TotalCostUSD <= 0 {
			t.Errorf("metrics: %+v", got.Metrics)
		}
		var second []string
		for _, m := range r.sim.Requests()[1].Chat().Messages {
			second = append(second, m.Role+" "+m.ToolCallID+" "+m.Text())
		}
		want := []string{"system  Be brief.", "user  What is 6 times 7?", "assistant  Let me see.", "tool a 42", "tool b 3.5"}
		if diff := cmp.Diff(want, second); diff != "" {
			t.Errorf("what the model got (-want +got):\n%s", diff)
		}
		wantEvents := []string{
			"run.queued", "run.started", "step.started", "llm.thinking", "llm.chunk", "llm.completed", "step.completed",
			"step.started", "tool.call", "step.started", "tool.call",
		}
		events := r.events(got.RunID)
		if diff := cmp.Diff(wantEvents, names(events)[:len(wantEvents)]); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		results := map[string]string{}
		for _, e := range events {
			if e.Name == "tool.result" {
				var d struct {
					ToolCallID string `json:"tool_call_id"`
					Status     string `json:"status"`
					Output     string `json:"output"`
				}
				if err := json.Unmarshal(e.Data, &d); err != nil {
					t.Fatal(err)
				}
				results[d.ToolCallID] = d.Status + " " + d.Output
			}
		}
		if diff := cmp.Diff(map[string]string{"a": "done 42", "b": "done 3.5"}, results); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

// Whatever a model does with tools, the run continues and the model gets a result.
func TestBadToolCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call model.ToolCall
		want string
	}{
		"unknown_tool":     {call("a", "rm_rf", `{}`), `no tool "rm_rf"`},
		"not_enabled":      {call("a", "current_time", `{}`), `no tool "current_time"`},
		"no_json":          {call("a", "calculator", `{"expression":`), "JSON"},
		"wrong_type":       {call("a", "calculator", `{"expression":7}`), "expression"},
		"no_arguments":     {call("a", "calculator", ``), "expression"},
		"nothing_sensible": {call("a", "calculator", `{"expression":"1/0"}`), "zero"},
		"no_id":            {call("", "calculator", `{"expression":"2+2"}`), "4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Script(
				modeltest.Answer{ToolCalls: []model.ToolCall{c.call}}, modeltest.Answer{Text: "never mind"}))
			n := r.start("node", 8, nil)
			got := n.end(n.begin(run.Request{}).RunID)
			if got.Status != run.Completed {
				t.Fatalf("the run is %s: %v", got.Status, got.Error)
			}
			r.checkEnded(got)
			if result := r.sim.Requests()[1].Chat().Last(model.Tool); !strings.Contains(result, c.want) {
				t.Errorf("the model got %q, want something about %q", result, c.want)
			}
		})
	}
}

// Limits end a run gracefully: one closing answer without tools, and
// output.truncated (rule D6-truncated).
func TestLimits(t *testing.T) {
	t.Parallel()
	endless := modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		chat := req.Chat()
		if len(chat.Tools) == 0 {
			return modeltest.Answer{Text: "so far"}
		}
		return calculate(fmt.Sprintf("c%d", len(chat.Messages)), "1+1")
	})
	for name, c := range map[string]struct {
		run, agent run.Limits
		text       string
		truncated  bool
		llm, tools int64
		status     run.Status
	}{
		"steps":              {run: run.Limits{MaxSteps: new(int64(4))}, text: "so far", truncated: true, llm: 3, tools: 2},
		"steps_of_the_agent": {run: run.Limits{MaxSteps: new(int64(9))}, agent: run.Limits{MaxSteps: new(int64(2))}, text: "so far", truncated: true, llm: 2, tools: 1},
		"steps_mid_call":     {run: run.Limits{MaxSteps: new(int64(1))}, text: "so far", truncated: true, llm: 2},
		"no_steps":           {run: run.Limits{MaxSteps: new(int64(0))}, truncated: true},
		"tool_calls":         {run: run.Limits{MaxToolCalls: new(int64(2))}, text: "so far", truncated: true, llm: 3, tools: 2},
		"no_tool_calls":      {run: run.Limits{MaxToolCalls: new(int64(0))}, text: "so far", llm: 1},
		"tokens":             {run: run.Limits{MaxTokensPerRun: new(int64(1))}, text: "so far", truncated: true, llm: 2},
		"no_tokens":          {run: run.Limits{MaxTokensPerRun: new(int64(0))}, truncated: true},
		"no_time":            {run: run.Limits{MaxDurationMS: new(int64(0))}, status: run.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), endless)
			r.agents.spec.Limits = c.agent
			n := r.start("node", 8, nil)
			got := n.end(n.begin(run.Request{Limits: c.run}).RunID)
			want := c.status
			if want == "" {
				want = run.Completed
			}
			if got.Status != want {
				t.Fatalf("the run is %s: %v", got.Status, got.Error)
			}
			r.checkEnded(got)
			out := r.output(got)
			if out.Text != c.text || out.Truncated != c.truncated {
				t.Errorf("output is %+v", out)
			}
			if m := got.Metrics; m.LLMCallsCount != c.llm || m.ToolCallsCount != c.tools {
				t.Errorf("metrics are %+v", m)
			}
			if want == run.TimedOut && got.ErrorCode != run.CodeMaxDuration {
				t.Errorf("error_code is %s", got.ErrorCode)
			}
		})
	}
}

func TestDurationLimitEndsAHangingModelCall(t *testing.T) {
	t.Parallel()
	r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Default(modeltest.Answer{Text: "a b c", HangAfter: 2}))
	n := r.start("node", 8, nil)
	got := n.end(n.begin(run.Request{Limits: run.Limits{MaxDurationMS: new(int64(300))}}).RunID)
	if got.Status != run.TimedOut || got.ErrorCode != run.CodeMaxDuration {
		t.Fatalf("the run is %s, %s", got.Status, got.ErrorCode)
	}
	r.checkEnded(got)
	var out run.LLMOutput
	if err := json.Unmarshal(r.steps(got.RunID)[0].Output, &out); err != nil {
		t.Fatal(err)
	}
	if out.Text != "a b " {
		t.Errorf("the step keeps %q of what was said", out.Text)
	}
}

// A failed model call ends the run with its code, and the text so far stays
// readable.
func TestModelFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer modeltest.Answer
		code   string
		said   string
	}{
		"refuses":      {modeltest.Answer{Status: 400, Error: "no"}, run.CodeModelError, ""},
		"rate_limited": {modeltest.Answer{Status: 429, Error: "slow down", RetryAfter: "1"}, run.CodeModelRateLimited, ""},
		"garbage":      {modeltest.Answer{Raw: []byte("<html>"), ContentType: "text/html"}, run.CodeModelError, ""},
		"breaks_off":   {modeltest.Answer{Text: "one two three", BreakAfter: 2}, run.CodeModelError, "one two "},
		"half_stream":  {modeltest.Answer{Text: "one two three", EndAfter: 2}, run.CodeModelError, "one two "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Default(c.answer))
			n := r.start("node", 8, nil)
			got := n.end(n.begin(run.Request{}).RunID)
			if got.Status != run.Failed || got.ErrorCode != c.code || got.Error == nil || *got.Error == "" {
				t.Fatalf("the run is %s, %s: %v", got.Status, got.ErrorCode, got.Error)
			}
			r.checkEnded(got)
			var said strings.Builder
			for _, e := range r.events(got.RunID) {
				if e.Name == "llm.chunk" {
					var d struct {
						Text string `json:"text"`
					}
					if err := json.Unmarshal(e.Data, &d); err != nil {
						t.Fatal(err)
					}
					said.WriteString(d.Text)
				}
			}
			if said.String() != c.said {
				t.Errorf("the log says %q, want %q", said.String(), c.said)
			}
		})
	}
}

func TestFallbackModel(t *testing.T) {
	t.Parallel()
	r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if req.Chat().Model == "broken" {
			return modeltest.Answer{Status: 500, Error: "down"}
		}
		return modeltest.Answer{Text: "from " + req.Chat().Model}
	}))
	r.agents.spec.Model.ModelRef = "default/broken"
	r.agents.spec.Fallback = &model.Spec{ModelRef: "default/spare"}
	n := r.start("node", 8, nil)
	got := n.end(n.begin(run.Request{}).RunID)
	if out := r.output(got); out.Text != "from spare" {
		t.Errorf("the run is %s with %q", got.Status, out.Text)
	}
}

// gate is a policy that refuses what its fields name.
type gate struct {
	policy.AllowAll
	run, tool, answer bool
}

func refuse(yes bool) (policy.Verdict, error) {
	return policy.Verdict{Refused: yes, Code: run.CodePolicyBlocked, Reason: "The constitution forbids it."}, nil
}

func (g gate) BeforeRun(context.Context, policy.Run) (policy.Verdict, error) { return refuse(g.run) }
func (g gate) BeforeTool(context.Context, policy.Run, string, string) (policy.Verdict, error) {
	return refuse(g.tool)
}
func (g gate) BeforeAnswer(context.Context, policy.Run, string) (policy.Verdict, error) {
	return refuse(g.answer)
}

func TestPolicyIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gate   gate
		status run.Status
		code   string
		calls  int
	}{
		"before_a_run":     {gate{run: true}, run.Rejected, run.CodePolicyBlocked, 0},
		"before_a_tool":    {gate{tool: true}, run.Completed, "", 2},
		"before_an_answer": {gate{answer: true}, run.GuardrailBlocked, run.CodeGuardrailBlocked, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Script(calculate("a", "1+1"), modeltest.Answer{Text: "two"}))
			r.gate = c.gate
			n := r.start("node", 8, nil)
			got := n.end(n.begin(run.Request{}).RunID)
			if got.Status != c.status || got.ErrorCode != c.code || r.sim.Calls() != c.calls {
				t.Errorf("the run is %s, %q after %d calls", got.Status, got.ErrorCode, r.sim.Calls())
			}
			if c.gate.tool {
				if result := r.sim.Requests()[1].Chat().Last(model.Tool); !strings.Contains(result, "The constitution forbids it.") {
					t.Errorf("the model got %q", result)
				}
			}
			if len(got.Output) > 0 && c.status != run.Completed {
				t.Errorf("a refused answer went out: %s", got.Output)
			}
		})
	}
}

// A tool of the caller's own ends the run with the call; the result comes with
// the next run's history.
func TestCallersTools(t *testing.T) {
	t.Parallel()
	r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Script(
		modeltest.Answer{ToolCalls: []model.ToolCall{call("w", "weather", `{"city":"Bern"}`)}}, modeltest.Answer{Text: "Sunny."}))
	n := r.start("node", 8, nil)
	got := n.end(n.begin(run.Request{Options: run.Options{Plain: true, Tools: []run.CallerTool{{Name: "weather"}}}}).RunID)
	out := r.output(got)
	if diff := cmp.Diff([]model.ToolCall{call("w", "weather", `{"city":"Bern"}`)}, out.ToolCalls); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	input := `{"message":"","history":[{"role":"user","text":"Weather?"},` +
		`{"role":"assistant","tool_calls":[{"id":"w","name":"weather","arguments":"{}"}]},{"role":"tool","tool_call_id":"w","text":"18 degrees"}]}`
	got = n.end(n.begin(run.Request{Input: schema.Object(input)}).RunID)
	if out := r.output(got); out.Text != "Sunny." {
		t.Errorf("output is %+v", out)
	}
	if result := r.sim.Requests()[1].Chat().Last(model.Tool); result != "18 degrees" {
		t.Errorf("the model got %q", result)
	}
}

// The caller's options are stored with the run and reach each of its model calls.
func TestOptionsReachEveryCall(t *testing.T) {
	t.Parallel()
	r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Script(
		modeltest.Answer{ToolCalls: []model.ToolCall{call("c", "calculator", `{"expression":"6*7"}`)}}, modeltest.Answer{Text: `{"product":42}`}))
	n := r.start("node", 8, nil)
	n.end(n.begin(run.Request{Options: run.Options{Plain: true, Extra: map[string]jsontext.Value{
		"response_format": jsontext.Value(`{"type":"json_object"}`), "seed": jsontext.Value(`7`), "parallel_tool_calls": jsontext.Value(`false`),
	}, Tools: []run.CallerTool{{Name: "weather", Strict: true}}}}).RunID)
	asked := r.sim.Requests()
	if len(asked) != 2 {
		t.Fatalf("%d calls", len(asked))
	}
	for _, req := range asked {
		for _, want := range []string{`"response_format":{"type":"json_object"}`, `"seed":7`, `"parallel_tool_calls":false`, `"strict":true`} {
			if !strings.Contains(string(req.Body), want) {
				t.Errorf("%s is not in %s", want, req.Body)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Default(modeltest.Answer{Text: "one two three", HangAfter: 2}))
		n := r.start("node", 1, nil)
		running := n.begin(run.Request{})
		queued := n.begin(run.Request{}) // the node has one place
		sub := n.Hub.Subscribe(running.RunID)
		defer sub.Close()
		waitFor(t, func() bool { return len(r.sim.Requests()) == 1 })

		for _, c := range []struct {
			id   string
			want run.CancelAnswer
		}{
			{queued.RunID, run.CancelAnswer{Cancelled: true, RunID: queued.RunID}},
			{running.RunID, run.CancelAnswer{Cancelled: true, RunID: running.RunID}},
			{running.RunID, run.CancelAnswer{RunID: running.RunID, Message: "The run had already ended: it is cancelled."}},
		} {
			got, err := n.Cancel(t.Context(), r.who.TenantID, c.id)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		for _, id := range []string{running.RunID, queued.RunID} {
			got := n.end(id)
			if got.Status != run.Cancelled || got.ErrorCode != run.CodeCancelled {
				t.Errorf("the run is %s, %s", got.Status, got.ErrorCode)
			}
			r.checkAborted(got)
		}
		// The worker that was fenced off stops by itself, well before its lease.
		waitFor(t, func() bool { return n.engine.Active() == 0 })
	})
}

// checkAborted is checkEnded for runs that were cancelled, whose last step has
// no result.
func (r *harness) checkAborted(got *run.Run) {
	r.t.Helper()
	last := int64(0)
	events := r.events(got.RunID)
	for _, e := range events {
		if e.Seq <= last {
			r.t.Errorf("seq %d follows %d", e.Seq, last)
		}
		last = e.Seq
	}
	if !run.FinalEvent(events[len(events)-1].Name) {
		r.t.Errorf("the last event is %s", events[len(events)-1].Name)
	}
}

func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-time.After(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("it did not happen in time")
}

func TestDeletedAgentEndsItsRuns(t *testing.T) {
	t.Parallel()
	r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Default(modeltest.Answer{HangFirst: true}))
	n := r.start("node", 1, nil)
	running, queued := n.begin(run.Request{}), n.begin(run.Request{})
	if err := n.AgentDeleted(t.Context(), r.who.TenantID, r.agents.spec.ID); err != nil {
		t.Fatal(err)
	}
	if got := n.end(running.RunID); got.Status != run.Failed || got.ErrorCode != run.CodeAgentDeleted {
		t.Errorf("the running one is %s, %s", got.Status, got.ErrorCode)
	}
	if got := n.end(queued.RunID); got.Status != run.Cancelled || got.ErrorCode != run.CodeAgentDeleted {
		t.Errorf("the queued one is %s, %s", got.Status, got.ErrorCode)
	}
}

// A queued run whose agent was deleted ends as failed.
func TestAgentIsDeletedWhileTheRunIsQueued(t *testing.T) {
	t.Parallel()
	r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite))
	n := r.start("idle", 0, nil)
	queued := n.begin(run.Request{})
	r.agents.delete()
	m := r.start("node", 1, nil)
	if got := m.end(queued.RunID); got.Status != run.Failed || got.ErrorCode != run.CodeAgentDeleted {
		t.Errorf("the run is %s, %s", got.Status, got.ErrorCode)
	}
}

// Text is published at once, stored within moments, and stored once: drafts are
// deleted when their step commits. Every reader gets the same, at any time and on
// any node.
func TestTextIsStoredAsItComes(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(30), Delay: 10 * time.Millisecond, Thinking: "hm hm"}))
		n := r.start("node", 4, nil)
		id := n.begin(run.Request{}).RunID
		follow := event.Follower{Log: r.log, Hub: n.Hub}
		var live []string
		drafts := 0
		for e, err := range follow.Follow(t.Context(), r.who.TenantID, id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			live = append(live, fmt.Sprintf("%d %s %s", e.Seq, e.Name, e.Data))
			if e.Name == "llm.chunk" {
				drafts = max(drafts, r.countDrafts(id))
			}
			if run.FinalEvent(e.Name) {
				break
			}
		}
		if drafts == 0 {
			t.Error("no text was stored before the step ended")
		}
		if n := r.countDrafts(id); n != 0 {
			t.Errorf("%d drafts are left", n)
		}
		for after := range int64(len(live)) {
			var again []string
			for _, e := range r.events(id)[after:] {
				again = append(again, fmt.Sprintf("%d %s %s", e.Seq, e.Name, e.Data))
			}
			if diff := cmp.Diff(live[after:], again); diff != "" {
				t.Fatalf("after %d (-live +stored):\n%s", after, diff)
			}
		}
	})
}

func (r *harness) countDrafts(id string) (n int) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT COUNT(*) FROM run_events WHERE run_id = ? AND draft > 0`, id).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// rules is a Governor with an effect for each action.
type rules struct {
	mu       sync.Mutex
	effects  map[string]policy.Effect // of actions
	fails    bool
	recorded []string // action and decision
}

func (g *rules) put(action string, e policy.Effect) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.effects[action] = e
}

func (g *rules) Judge(_ context.Context, _ policy.Run, act policy.Act) (policy.Ruling, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ruling policy.Ruling
	for _, action := range act.Actions {
		if g.fails && strings.HasPrefix(action, "tool:") {
			return ruling, errors.New("the database is away")
		}
		if e, ok := g.effects[action]; ok {
			ruling.Effect = max(ruling.Effect, e)
			ruling.Findings = append(ruling.Findings, policy.Finding{
				RuleID: "r", Severity: "error", Action: action, Decision: e.String(), Message: "Because of " + action + ".",
			})
		}
	}
	return ruling, nil
}

func (g *rules) RecordTx(_ txn.Tx, r policy.Run, ruling policy.Ruling) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range ruling.Findings {
		if r.TenantID == "" || r.AgentID == "" || r.RunID == "" {
			return errors.New("whose ruling is it")
		}
		g.recorded = append(g.recorded, f.Action+" "+f.Decision)
	}
	return nil
}

func governed(t *testing.T, db *sqldb.DB, effects map[string]policy.Effect) (*harness, *rules) {
	r := payer(t, db)
	g := &rules{effects: effects}
	r.rules = g
	r.agents.spec.ApprovalRules = nil
	r.agents.spec.Model.ModelRef = "sim-model"
	return r, g
}

// A call that a rule blocks is not made: the model reads why, the run goes on, and the
// decision is in the step, in the events and in the records.
func TestRulesJudgeCalls(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r, g := governed(t, db, map[string]policy.Effect{"tool:pay": policy.Deny, "tool:look": policy.Warn})
		n := r.start("n", 4, nil)
		got := n.end(n.begin(run.Request{}).RunID)
		results := r.results(got.RunID)
		if got.Status != run.Completed || !results["p1"].IsError || results["p1"].Rulings[0].Decision != "block" ||
			!strings.Contains(results["p1"].Content, "refused by policy (policy_blocked): rule r: Because of tool:pay.") {
			t.Errorf("%s, %+v", got.Status, results["p1"])
		}
		if l := results["l1"]; l.IsError || l.Content != "{}" || l.Rulings[0].Decision != "warn" {
			t.Errorf("%+v", l)
		}
		if sent := string(r.sim.Requests()[1].Body); !strings.Contains(sent, "Because of tool:pay.") {
			t.Errorf("the model was sent %s", sent)
		}
		if !slices.Contains(names(r.events(got.RunID)), "governance.decided") {
			t.Errorf("events %v", names(r.events(got.RunID)))
		}
		slices.Sort(g.recorded)
		if diff := cmp.Diff([]string{"tool:look warn", "tool:pay block", "tool:pay block", "tool:pay block"}, g.recorded); diff != "" {
			t.Error(diff)
		}
		r.checkEnded(got)
	})
}

// A call that cannot be judged is not made.
func TestCallsFailClosed(t *testing.T) {
	t.Parallel()
	r, g := governed(t, sqldbtest.Open(t, sqldbtest.SQLite), nil)
	g.fails = true
	n := r.start("n", 4, nil)
	got := n.end(n.begin(run.Request{}).RunID)
	for id, res := range r.results(got.RunID) {
		if !res.IsError || !strings.Contains(res.Content, "could not be judged") {
			t.Errorf("%s: %+v", id, res)
		}
	}
}

// A rule has a call wait for a person, also of a tool that is always allowed; what was
// approved is made.
func TestRulesHaveCallsWait(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r, g := governed(t, db, map[string]policy.Effect{"tool:look": policy.Approve})
		r.agents.spec.ToolOverrides = []agent.ToolOverride{{Tool: "look", Trust: "always_allow"}}
		n := r.start("n", 4, nil)
		started := n.begin(run.Request{})
		waiting := n.reaches(started.RunID, run.AwaitingApproval).PendingApprovals
		if len(waiting) != 1 || waiting[0].ToolCallID != "l1" {
			t.Fatalf("%+v", waiting)
		}
		if _, err := n.Approve(t.Context(), r.who, started.RunID, run.ApproveRequest{ApprovalID: waiting[0].ApprovalID}); err != nil {
			t.Fatal(err)
		}
		got := n.end(started.RunID)
		if l := r.results(got.RunID)["l1"]; got.Status != run.Completed || l.IsError {
			t.Errorf("%s, %+v", got.Status, l)
		}
		if diff := cmp.Diff([]string{"tool:look require_approval"}, g.recorded); diff != "" {
			t.Error(diff)
		}
		r.checkEnded(got)
	})
}

// A rule that is put while a call waits for its approval holds when it is made.
func TestRulesHoldForWhatWasApproved(t *testing.T) {
	t.Parallel()
	r, g := governed(t, sqldbtest.Open(t, sqldbtest.SQLite), map[string]policy.Effect{"tool:look": policy.Approve})
	n := r.start("n", 4, nil)
	started := n.begin(run.Request{})
	waiting := n.reaches(started.RunID, run.AwaitingApproval).PendingApprovals
	g.put("tool:look", policy.Deny)
	if _, err := n.Approve(t.Context(), r.who, started.RunID, run.ApproveRequest{ApprovalID: waiting[0].ApprovalID}); err != nil {
		t.Fatal(err)
	}
	got := n.end(started.RunID)
	if l := r.results(got.RunID)["l1"]; !l.IsError || !strings.Contains(l.Content, "policy_blocked") {
		t.Errorf("%s, %+v", got.Status, l)
	}
}

// Calls of models are judged: a run that may not make its first is rejected, and one
// that is under way fails before its next.
func TestRulesJudgeModels(t *testing.T) {
	t.Parallel()
	for _, effect := range []policy.Effect{policy.Deny, policy.Approve, policy.Terminate} {
		r, g := governed(t, sqldbtest.Open(t, sqldbtest.SQLite), map[string]policy.Effect{"model:sim-model": effect})
		n := r.start("n", 4, nil)
		got := n.end(n.begin(run.Request{}).RunID)
		if got.Status != run.Rejected || got.ErrorCode != run.CodePolicyBlocked || r.sim.Calls() != 0 || len(g.recorded) != 1 {
			t.Errorf("%s: %s, %s after %d calls, %v", effect, got.Status, got.ErrorCode, r.sim.Calls(), g.recorded)
		}
	}
	r, g := governed(t, sqldbtest.Open(t, sqldbtest.SQLite), map[string]policy.Effect{"tool:look": policy.Approve})
	n := r.start("n", 4, nil)
	started := n.begin(run.Request{})
	waiting := n.reaches(started.RunID, run.AwaitingApproval).PendingApprovals
	g.put("model:sim-model", policy.Deny)
	if _, err := n.Approve(t.Context(), r.who, started.RunID, run.ApproveRequest{ApprovalID: waiting[0].ApprovalID}); err != nil {
		t.Fatal(err)
	}
	got := n.end(started.RunID)
	if got.Status != run.Failed || got.ErrorCode != run.CodePolicyBlocked || r.sim.Calls() != 1 {
		t.Errorf("%s, %s after %d calls", got.Status, got.ErrorCode, r.sim.Calls())
	}
	r.checkEnded(got)
}

// The penalty terminate_agent ends the run with the call that broke the rule.
func TestRulesTerminate(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r, g := governed(t, db, map[string]policy.Effect{"tool:look": policy.Terminate})
		n := r.start("n", 4, nil)
		got := n.end(n.begin(run.Request{}).RunID)
		if got.Status != run.Failed || got.ErrorCode != run.CodePolicyBlocked || r.sim.Calls() != 1 || !slices.Contains(g.recorded, "tool:look terminate_agent") {
			t.Errorf("%s, %s after %d calls, %v", got.Status, got.ErrorCode, r.sim.Calls(), g.recorded)
		}
		r.checkEnded(got)
	})
}

// Tools of the caller are judged before the caller gets the call.
func TestRulesJudgeTheCallersTools(t *testing.T) {
	t.Parallel()
	for _, effect := range []policy.Effect{policy.Warn, policy.Deny, policy.Approve} {
		r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
			if countAssistant(req.Chat()) == 0 {
				return modeltest.Answer{ToolCalls: []model.ToolCall{call("w1", "weather", `{}`), call("t1", "time", `{}`)}}
			}
			return modeltest.Answer{Text: "Done."}
		}))
		g := &rules{effects: map[string]policy.Effect{"tool:weather": effect}}
		r.rules = g
		n := r.start("n", 4, nil)
		got := n.end(n.begin(run.Request{Options: run.Options{Plain: true, Tools: []run.CallerTool{{Name: "weather"}, {Name: "time"}}}}).RunID)
		calls, want := 2, 1
		if effect == policy.Warn {
			calls = 1
		}
		if got.Status != run.Completed || r.sim.Calls() != calls || len(g.recorded) != want {
			t.Errorf("%s: %s after %d calls, %v", effect, got.Status, r.sim.Calls(), g.recorded)
		}
		if effect == policy.Warn {
			continue
		}
		results := r.results(got.RunID)
		if !strings.Contains(results["w1"].Content, "policy_blocked") || !strings.Contains(results["t1"].Content, "Ask for this one again") {
			t.Errorf("%s: %+v", effect, results)
		}
	}
}

// Delegation, messages and spawning are judged beside the tools that do them.
func TestRulesJudgeDelegation(t *testing.T) {
	t.Parallel()
	for _, act := range [][2]string{
		{"delegate_to_agent", "delegate"},
		{"delegate_to_agent", "message"},
		{"delegate_to_worker", "delegate"},
		{"delegate_to_worker", "message"},
		{"a2a_send", "message"},
		{"spawn_agent", "spawn"},
	} {
		tool, action := act[0], act[1]
		r, g := governed(t, sqldbtest.Open(t, sqldbtest.SQLite), map[string]policy.Effect{action: policy.Deny})
		r.tools = append(r.tools, echoing(tool))
		r.agents.spec.Tools = []string{tool}
		r.sim = modeltest.New(t, modeltest.Script(modeltest.Answer{ToolCalls: []model.ToolCall{call("d1", tool, `{}`)}}, modeltest.Answer{Text: "Well."}))
		n := r.start("n", 4, nil)
		got := n.end(n.begin(run.Request{}).RunID)
		if res := r.results(got.RunID)["d1"]; !res.IsError || !slices.Contains(g.recorded, action+" block") {
			t.Errorf("%s: %+v, %v", tool, res, g.recorded)
		}
	}
}

// What rules find about a call of the model comes before its text in the stream, with no
// gap: neither for who follows it nor in the log.
func TestRulingsComeBeforeText(t *testing.T) {
	inBubble(t, &fakeModel{answer: func(calls int, _ model.Request, sink func(model.Delta)) (model.Response, error) {
		if calls == 1 {
			resp, _ := says("Let me look.", sink)
			resp.ToolCalls, resp.FinishReason = []model.ToolCall{call("1", "look", `{}`)}, model.FinishToolCalls
			return resp, nil
		}
		sink(model.Delta{Text: "It is "})
		rest(200 * time.Millisecond) // a draft is stored
		return says("42.", sink)
	}}, func(h *harness, n *node) {
		id := ident.New()
		follower := event.Follower{Log: h.log, Hub: n.Hub, Complete: true}
		sub := n.Hub.Subscribe(id)
		defer sub.Close()
		n.begin(run.Request{RunID: id})
		var seen []string
		last := int64(0)
		for e, err := range follower.FollowNew(h.t.Context(), h.who.TenantID, sub) {
			if err != nil {
				h.t.Fatal(err)
			}
			if e.Seq != last+1 {
				h.t.Errorf("%s is event %d, after %d", e.Name, e.Seq, last)
			}
			last = e.Seq
			if e.Name == "governance.decided" || e.Name == "llm.chunk" {
				seen = append(seen, e.Name)
			}
			if run.FinalEvent(e.Name) {
				break
			}
		}
		want := "[governance.decided llm.chunk llm.chunk llm.chunk governance.decided llm.chunk llm.chunk]"
		if got := fmt.Sprint(seen); got != want {
			h.t.Errorf("a reader sees %v, want %v", got, want)
		}
		h.checkEnded(n.end(id))
	}, func(h *harness) {
		h.rules = &rules{effects: map[string]policy.Effect{"model:sim-model": policy.Warn}}
		h.tools, h.agents.spec.Tools = []tool.Tool{echoing("look")}, []string{"look"}
		h.agents.spec.Model.ModelRef = "sim-model"
	})
}

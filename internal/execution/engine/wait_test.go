package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// reaches waits for a run to be in a state.
func (n *node) reaches(id string, want run.Status) *run.Run {
	n.h.t.Helper()
	var got *run.Run
	waitFor(n.h.t, func() bool {
		var err error
		got, err = n.Get(n.h.t.Context(), n.h.who.TenantID, id)
		return err == nil && (got.Status == want || got.Status.Final())
	})
	if got.Status != want {
		n.h.t.Fatalf("the run is %s (%v), want %s", got.Status, ptr.Value(got.Error), want)
	}
	return got
}

// results returns the outputs of the calls that were made, by tool_call_id.
func (r *harness) results(id string) map[string]run.ToolOutput {
	out := map[string]run.ToolOutput{}
	for _, s := range r.steps(id) {
		if s.Type != run.StepTool {
			continue
		}
		var in run.ToolInput
		var res run.ToolOutput
		if err := json.Unmarshal(s.Input, &in); err != nil {
			r.t.Fatal(err)
		}
		if err := json.Unmarshal(s.Output, &res); err != nil {
			r.t.Fatal(err)
		}
		out[in.ToolCallID] = res
	}
	return out
}

// echoing returns a tool whose result is its arguments.
func echoing(name string) tool.Tool {
	return tool.Tool{
		Name: name, Parameters: jsontext.Value(`{"type":"object"}`),
		Run: func(_ context.Context, c tool.Call) (tool.Result, error) {
			return tool.Result{Output: c.Arguments}, nil
		},
	}
}

// payer is an agent that pays twice, once more than it may without approval, and
// makes a lookup in parallel.
func payer(t *testing.T, db *sqldb.DB) *harness {
	r := newHarness(t, db, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if countAssistant(req.Chat()) == 0 {
			return modeltest.Answer{Text: "Paying.", ToolCalls: []model.ToolCall{
				call("p1", "pay", `{"amount": 500}`), call("l1", "look", `{}`), call("p2", "pay", `{"amount": 5}`), call("p3", "pay", `{"amount": 900}`),
			}}
		}
		return modeltest.Answer{Text: "Paid."}
	}))
	r.tools = []tool.Tool{echoing("pay"), echoing("look")}
	r.agents.spec.Tools = []string{"pay", "look"}
	r.agents.spec.ApprovalTimeout = time.Hour
	r.agents.spec.ApprovalRules = []run.ApprovalRule{{Tool: "pay", Approval: run.ApprovalWhen, Condition: "arguments.amount > 100"}}
	return r
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := payer(t, db)
		n := r.start("n", 4, nil)
		started := n.begin(run.Request{})
		got := n.reaches(started.RunID, run.AwaitingApproval)
		if len(got.PendingApprovals) != 2 || got.PendingApprovals[0].ToolCallID != "p1" || got.PendingApprovals[1].ToolCallID != "p3" {
			t.Fatalf("pending: %+v", got.PendingApprovals)
		}
		if diff := cmp.Diff([]string{"l1", "p2"}, sorted(r.results(started.RunID))); diff != "" {
			t.Errorf("the calls that need no approval are made first:\n%s", diff)
		}
		waitFor(t, func() bool { return n.engine.Active() == 0 }) // a run that waits is held by no worker
		if _, err := n.Approve(t.Context(), r.who, started.RunID, run.ApproveRequest{}); !fault.Is(err, fault.Conflict) {
			t.Errorf("two wait and none is named: %v", err)
		}
		_, err := n.Approve(t.Context(), r.who, started.RunID, run.ApproveRequest{
			ApprovalID: got.PendingApprovals[0].ApprovalID, Arguments: schema.Any(`{"amount":50}`), Response: "Less will do.",
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.reaches(started.RunID, run.AwaitingApproval); len(got.PendingApprovals) != 1 || len(got.Approvals) != 1 {
			t.Errorf("after one decision: %+v, %+v", got.PendingApprovals, got.Approvals)
		}
		if _, err := n.Reject(t.Context(), r.who, started.RunID, run.RejectRequest{Reason: "Too much.", Continue: true}); err != nil {
			t.Fatal(err)
		}
		end := n.end(started.RunID)
		if end.Status != run.Completed || r.output(end).Text != "Paid." {
			t.Fatalf("%s %v", end.Status, ptr.Value(end.Error))
		}
		results := r.results(started.RunID)
		if c := results["p1"].Content; !strings.HasPrefix(c, `{"amount":50}`) || !strings.Contains(c, "Less will do.") {
			t.Errorf("the approved call was made with %q", c)
		}
		if o := results["p3"]; !o.IsError || !strings.Contains(o.Content, "Too much.") {
			t.Errorf("the refused call: %+v", o)
		}
		r.checkEnded(end)
		last := r.sim.Requests()[len(r.sim.Requests())-1].Chat()
		var order []string
		for _, m := range last.Messages {
			if m.ToolCallID != "" {
				order = append(order, m.ToolCallID)
			}
		}
		if diff := cmp.Diff([]string{"p1", "l1", "p2", "p3"}, order); diff != "" {
			t.Errorf("results reach the model in the order of its calls:\n%s", diff)
		}
		for _, a := range end.Approvals {
			if a.DecidedBy != r.who.UserID || a.DecidedAt == nil || a.Decision != a.Status {
				t.Errorf("recorded: %+v", a)
			}
		}
	})
}

func sorted[T any](m map[string]T) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func TestRejectionEndsTheRun(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := payer(t, db)
		n := r.start("n", 4, nil)
		id := n.begin(run.Request{}).RunID
		got := n.reaches(id, run.AwaitingApproval)
		if _, err := n.Reject(t.Context(), r.who, id, run.RejectRequest{ApprovalID: got.PendingApprovals[1].ApprovalID}); err != nil {
			t.Fatal(err)
		}
		end := n.end(id)
		if end.Status != run.Rejected || end.ErrorCode != run.CodeApprovalRejected || len(end.PendingApprovals) != 0 {
			t.Fatalf("%s %s %+v", end.Status, end.ErrorCode, end.PendingApprovals)
		}
		if s := end.Approvals[0].Status; s != run.ApprovalCancelled {
			t.Errorf("the other approval is %s", s)
		}
		for what, err := range map[string]error{
			"approve again": second(n.Approve(t.Context(), r.who, id, run.ApproveRequest{ApprovalID: got.PendingApprovals[0].ApprovalID})),
			"approve":       second(n.Approve(t.Context(), r.who, id, run.ApproveRequest{})),
			"resume":        n.Resume(t.Context(), r.who.TenantID, id, ""),
			"pause":         n.Pause(t.Context(), r.who.TenantID, id),
			"respond":       n.Respond(t.Context(), r.who.TenantID, id, "x"),
		} {
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := n.Approve(t.Context(), r.who, id, run.ApproveRequest{ApprovalID: id}); !fault.Is(err, fault.NotFound) {
			t.Errorf("an approval that is not there: %v", err)
		}
		r.checkEnded(end)
	})
}

func second[A any](_ A, err error) error { return err }

// Of many simultaneous decisions exactly one counts.
func TestOneDecisionCounts(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := payer(t, db)
		r.agents.spec.ApprovalRules[0].Condition = "arguments.amount > 800"
		a, b := r.start("a", 4, nil), r.start("b", 4, nil)
		id := a.begin(run.Request{}).RunID
		a.reaches(id, run.AwaitingApproval)
		var counted atomic.Int32
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				var err error
				n := []*node{a, b}[i%2]
				if i < 5 {
					_, err = n.Approve(t.Context(), r.who, id, run.ApproveRequest{})
				} else {
					_, err = n.Reject(t.Context(), r.who, id, run.RejectRequest{})
				}
				switch {
				case err == nil:
					counted.Add(1)
				case !fault.Is(err, fault.Conflict):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := counted.Load(); n != 1 {
			t.Errorf("%d decisions counted", n)
		}
		r.checkEnded(a.end(id))
	})
}

func TestUnansweredWaitsExpire(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for name, c := range map[string]struct {
			answer modeltest.Answer
			code   string
		}{
			"approval": {modeltest.Answer{ToolCalls: []model.ToolCall{call("p", "pay", `{"amount":101}`)}}, run.CodeApprovalExpired},
			"question": {modeltest.Answer{ToolCalls: []model.ToolCall{call("q", "ask_user", `{"question":"Well?"}`)}}, run.CodeInputTimeout},
		} {
			r := newHarness(t, db, modeltest.Default(c.answer))
			r.tools = append(r.tools, echoing("pay"))
			r.agents.spec.Tools = []string{"pay", "ask_user"}
			r.agents.spec.ApprovalTools = []string{"pay"}
			r.agents.spec.ApprovalTimeout = 50 * time.Millisecond
			n := r.start("n", 4, nil)
			end := n.end(n.begin(run.Request{}).RunID)
			if end.Status != run.TimedOut || end.ErrorCode != c.code {
				t.Errorf("%s: %s %s", name, end.Status, end.ErrorCode)
			}
			for _, a := range end.Approvals {
				if a.Status != run.ApprovalExpired {
					t.Errorf("the approval is %s", a.Status)
				}
			}
			r.checkEnded(end)
			n.stop()
		}
	})
}

func TestQuestionsAreAnswered(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
			if countAssistant(req.Chat()) == 0 {
				return modeltest.Answer{ToolCalls: []model.ToolCall{
					call("q1", "ask_user", `{"question":"Which city?"}`), call("c1", "calculator", `{"expression":"1+1"}`),
					call("q2", "ask_user", `{"question":"Which day?"}`), call("q3", "ask_user", `{"question":"  "}`),
				}}
			}
			return modeltest.Answer{Text: "Booked."}
		}))
		r.agents.spec.Tools = []string{"ask_user", "calculator"}
		r.agents.spec.ApprovalTimeout = time.Hour
		n := r.start("n", 4, nil)
		id := n.begin(run.Request{}).RunID
		for _, q := range []struct{ question, answer string }{{"Which city?", "Rome"}, {"Which day?", "Monday"}} {
			got := n.reaches(id, run.Paused)
			waitFor(t, func() bool {
				got, _ = n.Get(t.Context(), r.who.TenantID, id)
				return got.PendingInput != nil && got.PendingInput.Question == q.question
			})
			if err := n.Resume(t.Context(), r.who.TenantID, id, ""); !fault.Is(err, fault.Conflict) {
				t.Errorf("resuming a run that waits for an answer: %v", err)
			}
			n.stop() // answers survive restarts
			n = r.start("n", 4, nil)
			if err := n.Respond(t.Context(), r.who.TenantID, id, q.answer); err != nil {
				t.Fatal(err)
			}
		}
		end := n.end(id)
		if end.Status != run.Completed || end.PendingInput != nil {
			t.Fatalf("%s %v", end.Status, ptr.Value(end.Error))
		}
		got := r.results(id)
		if got["q1"].Content != "Rome" || got["q2"].Content != "Monday" || got["c1"].Content != "2" || !got["q3"].IsError {
			t.Errorf("%+v", got)
		}
		r.checkEnded(end)
		if err := n.Respond(t.Context(), r.who.TenantID, id, "late"); !fault.Is(err, fault.Conflict) {
			t.Errorf("a late answer: %v", err)
		}
	})
}

// A pause takes effect at the next step boundary: the step that is under way is
// finished and stored, the next one is not begun.
func TestPause(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		t.Run("while_the_model_answers", func(t *testing.T) {
			for _, note := range []string{"", "Answer in French."} {
				called, proceed := make(chan struct{}, 8), make(chan struct{}, 8)
				r := newHarness(t, db, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
					called <- struct{}{}
					<-proceed
					return modeltest.Answer{Text: fmt.Sprintf("Answer %d.", countAssistant(req.Chat())+1)}
				}))
				n := r.start("n", 4, nil)
				id := n.begin(run.Request{}).RunID
				<-called
				if err := n.Pause(t.Context(), r.who.TenantID, id); err != nil {
					t.Fatal(err)
				}
				proceed <- struct{}{}
				got := n.reaches(id, run.Paused)
				if len(got.Output) != 0 || got.PendingInput != nil {
					t.Errorf("the answer is not held: %s", got.Output)
				}
				if err := n.Respond(t.Context(), r.who.TenantID, id, "x"); !fault.Is(err, fault.Conflict) {
					t.Errorf("answering a run that was paused by hand: %v", err)
				}
				proceed <- struct{}{}
				if err := n.Resume(t.Context(), r.who.TenantID, id, note); err != nil {
					t.Fatal(err)
				}
				end := n.end(id)
				want, calls := "Answer 1.", 1
				if note != "" {
					want, calls = "Answer 2.", 2
				}
				if r.output(end).Text != want || len(r.sim.Requests()) != calls {
					t.Errorf("note %q: %q after %d model calls", note, r.output(end).Text, len(r.sim.Requests()))
				}
				r.checkEnded(end)
				n.stop()
			}
		})
		t.Run("while_a_tool_runs", func(t *testing.T) {
			running, proceed := make(chan struct{}), make(chan struct{})
			r := newHarness(t, db, modeltest.Respond(errand))
			slow := tool.Tool{Name: "act", Parameters: jsontext.Value(`{"type":"object"}`), Run: func(_ context.Context, c tool.Call) (tool.Result, error) {
				if c.ID == "a1" {
					close(running)
					<-proceed
				}
				return tool.Result{Output: "did " + c.ID}, nil
			}}
			r.tools = []tool.Tool{slow, echoing("safe")}
			r.agents.spec.Tools = []string{"act", "safe"}
			n := r.start("n", 4, nil)
			id := n.begin(run.Request{}).RunID
			<-running
			if err := n.Pause(t.Context(), r.who.TenantID, id); err != nil {
				t.Fatal(err)
			}
			close(proceed)
			n.reaches(id, run.Paused)
			if got := r.results(id); got["a1"].Content != "did a1" {
				t.Errorf("what was under way: %+v", got)
			}
			if err := n.Pause(t.Context(), r.who.TenantID, id); !fault.Is(err, fault.Conflict) {
				t.Errorf("pausing a paused run: %v", err)
			}
			n.stop()
			n = r.start("n", 4, nil)
			if err := n.Resume(t.Context(), r.who.TenantID, id, "Go on."); err != nil {
				t.Fatal(err)
			}
			end := n.end(id)
			if r.output(end).Text != "All done." {
				t.Errorf("%s %q", end.Status, r.output(end).Text)
			}
			r.checkEnded(end)
		})
		t.Run("before_the_calls_begin", func(t *testing.T) {
			called, proceed := make(chan struct{}, 8), make(chan struct{}, 8)
			done := &effects{done: map[string]int{}}
			r := newHarness(t, db, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
				called <- struct{}{}
				<-proceed
				return errand(req)
			}))
			r.tools = []tool.Tool{done.tool("act", false), done.tool("safe", true)}
			r.agents.spec.Tools = []string{"act", "safe"}
			n := r.start("n", 4, nil)
			id := n.begin(run.Request{}).RunID
			<-called
			if err := n.Pause(t.Context(), r.who.TenantID, id); err != nil {
				t.Fatal(err)
			}
			proceed <- struct{}{}
			n.reaches(id, run.Paused)
			if len(r.results(id)) != 0 || len(done.done) != 0 {
				t.Errorf("calls were made: %v", done.done)
			}
			proceed <- struct{}{}
			proceed <- struct{}{}
			if err := n.Resume(t.Context(), r.who.TenantID, id, ""); err != nil {
				t.Fatal(err)
			}
			end := n.end(id)
			if got := r.results(id); got["a1"].Content != "did a1" || done.done["a1"] != 1 || r.output(end).Text != "All done." {
				t.Errorf("%+v", got)
			}
			r.checkEnded(end)
		})
	})
}

// A call that needs authorization waits and is made once it is granted; parallel
// calls are not repeated.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		done := &effects{done: map[string]int{}}
		var authorized atomic.Bool
		guarded := done.tool("act", false)
		act := guarded.Run
		guarded.Run = func(ctx context.Context, c tool.Call) (tool.Result, error) {
			if !authorized.Load() {
				return tool.Result{Authorize: &tool.Authorization{ServerID: "srv", Name: "Mail", URL: "https://example.com/authorize"}}, nil
			}
			return act(ctx, c)
		}
		r := newHarness(t, db, modeltest.Respond(errand))
		r.tools = []tool.Tool{guarded, done.tool("safe", false)}
		r.agents.spec.Tools = []string{"act", "safe"}
		r.agents.spec.ApprovalTimeout = time.Hour
		n := r.start("n", 4, nil)
		id := n.begin(run.Request{}).RunID
		got := n.reaches(id, run.AuthRequired)
		want := &run.PendingAuth{ServerID: "srv", Name: "Mail", AuthorizationURL: "https://example.com/authorize"}
		if diff := cmp.Diff(want, got.PendingAuth); diff != "" {
			t.Error(diff)
		}
		n.stop()
		n = r.start("n", 4, nil)
		if err := n.Authorized(t.Context(), r.who.TenantID, "other"); err != nil {
			t.Fatal(err)
		}
		authorized.Store(true)
		if err := n.Authorized(t.Context(), r.who.TenantID, "srv"); err != nil {
			t.Fatal(err)
		}
		end := n.end(id)
		if end.Status != run.Completed || end.PendingAuth != nil {
			t.Fatalf("%s %v", end.Status, ptr.Value(end.Error))
		}
		if diff := cmp.Diff(map[string]int{"a1": 1, "s1": 1, "a2": 1}, done.done); diff != "" {
			t.Error(diff)
		}
		r.checkEnded(end)
	})
}

// Calls that reuse an id do not inherit the decision about another call.
func TestReusedCallIDs(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
			if n := countAssistant(req.Chat()); n < 2 {
				return modeltest.Answer{ToolCalls: []model.ToolCall{call("same", "pay", `{"amount":1}`)}}
			}
			return modeltest.Answer{Text: "Paid twice."}
		}))
		r.tools = []tool.Tool{echoing("pay")}
		r.agents.spec.Tools = []string{"pay"}
		r.agents.spec.ApprovalTools = []string{"pay"}
		r.agents.spec.ApprovalTimeout = time.Hour
		n := r.start("n", 4, nil)
		id := n.begin(run.Request{}).RunID
		for asked := 1; asked <= 2; asked++ {
			waitFor(t, func() bool {
				got, err := n.Get(t.Context(), r.who.TenantID, id)
				return err == nil && len(got.PendingApprovals) == 1 && len(got.Approvals) == asked-1
			})
			if _, err := n.Approve(t.Context(), r.who, id, run.ApproveRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		end := n.end(id)
		if len(end.Approvals) != 2 || end.Status != run.Completed {
			t.Errorf("%s, %d approvals", end.Status, len(end.Approvals))
		}
		r.checkEnded(end)
	})
}

// Each call of the model has the whole conversation so far.
func TestTheModelGetsTheWholeConversation(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Respond(modeltest.ToolRounds(4, modeltest.Answer{Text: "Done."})))
		n := r.start("n", 4, nil)
		r.checkEnded(n.end(n.begin(run.Request{}).RunID))
		before := []modeltest.ChatMessage{}
		for i, req := range r.sim.Requests() {
			now := req.Chat().Messages
			if len(now) != 2+2*i {
				t.Fatalf("call %d has %d messages, want %d", i, len(now), 2+2*i)
			}
			if diff := cmp.Diff(before, now[:len(before)]); diff != "" {
				t.Errorf("call %d does not go on from the one before:\n%s", i, diff)
			}
			before = now
		}
	})
}

package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// awaitTool is a tool that has a run of the same agent do its argument, and returns
// how that ended. within is how long it may take.
func awaitTool(r *harness, within time.Duration) (t tool.Tool, connect func(*node)) {
	var on *node
	return tool.Tool{
		Name: "delegate", Parameters: jsontext.Value(`{"type":"object"}`), Idempotent: true,
		Run: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			awaits := c.Awaits
			if awaits == nil {
				awaits = &tool.Await{RunID: ident.Derive(c.RunID, "task", c.StepID), Until: time.Now().Add(within)}
				_, err := on.Create(ctx, r.who, run.Request{
					RunID: awaits.RunID, AgentID: c.AgentID, Input: schema.Object(`{"message":"child"}`), Parent: c.RunID, ParentStep: c.StepID,
				})
				if err != nil && fault.From(err).Code != "ALREADY_EXISTS" {
					return tool.Result{}, err
				}
			}
			got, err := on.Get(ctx, c.TenantID, awaits.RunID)
			if err != nil {
				return tool.Result{}, err
			}
			if !got.Status.Final() && time.Now().Before(awaits.Until) {
				return tool.Result{Await: awaits}, nil
			}
			return tool.Result{Output: string(got.Status)}, nil
		},
	}, func(n *node) { on = n }
}

// parents is a model whose parents call the tool so many times at once and then
// repeat the results; children answer as child does.
func parents(calls int, child func() modeltest.Answer) func(modeltest.Request) modeltest.Answer {
	return func(req modeltest.Request) modeltest.Answer {
		chat := req.Chat()
		if chat.Last(model.User) == "child" {
			return child()
		}
		if countAssistant(chat) == 0 {
			var a modeltest.Answer
			for i := range calls {
				a.ToolCalls = append(a.ToolCalls, call(fmt.Sprintf("d%d", i), "delegate", fmt.Sprintf(`{"n":%d}`, i)))
			}
			return a
		}
		text := ""
		for _, m := range chat.Messages {
			if m.Role == string(model.Tool) {
				text += m.Text() + "."
			}
		}
		return modeltest.Answer{Text: text}
	}
}

func startParents(t *testing.T, db *sqldb.DB, slots int, within time.Duration, answer func(modeltest.Request) modeltest.Answer) (*harness, *node) {
	r := newHarness(t, db, modeltest.Respond(answer))
	delegate, connect := awaitTool(r, within)
	r.tools, r.agents.spec.Tools = []tool.Tool{delegate}, []string{"delegate"}
	n := r.start(ident.New(), slots, nil)
	connect(n)
	return r, n
}

// A parent that waits for a child holds no worker: many more than there are slots
// all end (rule D16-parents-wait).
func TestParentsHoldNoWorker(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r, n := startParents(t, db, 4, time.Hour, parents(1, func() modeltest.Answer { return modeltest.Answer{Text: "42"} }))
		ids := make([]string, 200)
		for i := range ids {
			ids[i] = n.begin(run.Request{Input: schema.Object(`{"message":"parent"}`)}).RunID
		}
		for _, id := range ids {
			got := n.end(id)
			if text := r.output(got).Text; text != "completed." || got.Metrics.ToolCallsCount != 1 {
				t.Fatalf("%q, %+v", text, got)
			}
		}
		r.checkEnded(n.end(ids[0]))
	})
}

// While it waits, a parent shows what for, can be paused, resumed and cancelled, and
// ends when its time is up; the children of a parent that ended are cancelled.
func TestParentWaits(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		release := make(chan struct{})
		r, n := startParents(t, db, 8, time.Hour, parents(2, func() modeltest.Answer {
			<-release
			return modeltest.Answer{Text: "42"}
		}))
		parent := func(limits run.Limits) string {
			id := n.begin(run.Request{Input: schema.Object(`{"message":"parent"}`), Limits: limits}).RunID
			waitFor(t, func() bool {
				got, err := n.Get(t.Context(), r.who.TenantID, id)
				return err == nil && got.WaitingFor == run.WaitsForRuns && got.NextAttemptAt != nil || got.Status.Final()
			})
			return id
		}
		soon := int64(300)
		late := parent(run.Limits{MaxDurationMS: &soon})
		if got := n.end(late); got.Status != run.TimedOut || got.ErrorCode != run.CodeMaxDuration {
			t.Errorf("a parent whose time is up is %+v", got)
		}
		cancelled, paused := parent(run.Limits{}), parent(run.Limits{})
		if answer, err := n.Cancel(t.Context(), r.who.TenantID, cancelled); err != nil || !answer.Cancelled {
			t.Errorf("%+v, %v", answer, err)
		}
		n.cancelOrphans(2 * 2)
		for _, id := range []string{late, cancelled} {
			children, err := r.runs.ListChildren(t.Context(), r.who.TenantID, id, 10)
			if err != nil || len(children) != 2 {
				t.Fatalf("%v, %v", children, err)
			}
			for _, c := range children {
				if got := n.end(c.RunID); got.Status != run.Cancelled {
					t.Errorf("a child of a parent that ended is %s", got.Status)
				}
			}
		}
		if err := n.Pause(t.Context(), r.who.TenantID, paused); err != nil {
			t.Fatal(err)
		}
		close(release)
		children, err := r.runs.ListChildren(t.Context(), r.who.TenantID, paused, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range children {
			n.end(c.RunID)
		}
		if got, err := n.Get(t.Context(), r.who.TenantID, paused); err != nil || got.Status != run.Paused {
			t.Fatalf("the paused parent is %+v, %v", got, err)
		}
		if err := n.Resume(t.Context(), r.who.TenantID, paused, ""); err != nil {
			t.Fatal(err)
		}
		got := n.end(paused)
		if text := r.output(got).Text; text != "completed.completed." {
			t.Errorf("%q", text)
		}
		r.checkEnded(got)
	})
}

// cancelOrphans does the work that cancels runs whose parent has ended.
func (n *node) cancelOrphans(want int) {
	n.h.t.Helper()
	waitFor(n.h.t, func() bool {
		held, err := n.Queue.Claim(n.h.t.Context(), run.CancelWorkKind, "test", 100, time.Minute)
		if err != nil {
			n.h.t.Fatal(err)
		}
		for _, lease := range held {
			if err := n.HandleCancel(n.h.t.Context(), lease); err != nil {
				n.h.t.Error(err)
			}
			want--
		}
		return want <= 0
	})
}

// A call that waits comes back when its time is up, and its tool decides.
func TestAwaitIsOver(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r, n := startParents(t, sqldbtest.Open(t, sqldbtest.SQLite), 4, 200*time.Millisecond, parents(1, func() modeltest.Answer {
		<-release
		return modeltest.Answer{Text: "42"}
	}))
	got := n.end(n.begin(run.Request{Input: schema.Object(`{"message":"parent"}`)}).RunID)
	if text := r.output(got).Text; text != "running." {
		t.Errorf("%q", text)
	}
	close(release)
}

// A run does not start as the child of one that has ended.
func TestNoChildOfAnEndedRun(t *testing.T) {
	t.Parallel()
	r, n := startParents(t, sqldbtest.Open(t, sqldbtest.SQLite), 4, time.Hour, parents(0, nil))
	ended := n.end(n.begin(run.Request{Input: schema.Object(`{"message":"parent"}`)}).RunID)
	_, err := n.Create(t.Context(), r.who, run.Request{AgentID: r.agents.spec.ID, Parent: ended.RunID, ParentStep: ident.New()})
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
}

// The process dies at every write of a parent that waits for two children. Each
// child exists once, and the parent ends with both results (rule D16-parents-wait).
func TestCrashOfAParent(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	for at := 1; ; at++ {
		r := newHarness(t, db, modeltest.Respond(parents(2, func() modeltest.Answer { return modeltest.Answer{Text: "42"} })))
		delegate, connect := awaitTool(r, time.Hour)
		r.tools, r.agents.spec.Tools = []tool.Tool{delegate}, []string{"delegate"}
		writer := dieAtWrite(db, at)
		first := r.start(fmt.Sprintf("node-%d", at), 8, writer)
		connect(first)
		started, err := first.Create(t.Context(), r.who, run.Request{AgentID: r.agents.spec.ID, Input: schema.Object(`{"message":"parent"}`)})
		if err != nil {
			first.stop()
			continue // it was never accepted
		}
		waitFor(t, func() bool {
			got, err := first.Get(t.Context(), r.who.TenantID, started.RunID)
			return writer.died() || err == nil && got.Status.Final()
		})
		died := writer.died()
		first.stop()
		second := r.start(fmt.Sprintf("node-%d", at), 8, nil)
		connect(second)
		got := second.end(started.RunID)
		if text := r.output(got).Text; text != "completed.completed." {
			t.Errorf("killed at write %d: %q", at, text)
		}
		children, err := r.runs.ListChildren(t.Context(), r.who.TenantID, started.RunID, 10)
		if err != nil || len(children) != 2 {
			t.Errorf("killed at write %d: children %v, %v", at, children, err)
		}
		r.checkEnded(got)
		second.stop()
		if !died {
			if at < 6 {
				t.Errorf("a parent has only %d writes", at)
			}
			return
		}
	}
}

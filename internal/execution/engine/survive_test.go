package engine_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// flaky is a writer whose database is away for a while, or whose process is dead.
type flaky struct {
	txn.Writer
	mu   sync.Mutex
	away time.Time
	dead bool
}

func (f *flaky) Write(ctx context.Context, do func(txn.Tx) error) error {
	f.mu.Lock()
	away, dead := time.Now().Before(f.away), f.dead
	f.mu.Unlock()
	switch {
	case dead:
		return errDead
	case away:
		return fault.New(fault.Unavailable, "SERVICE_UNAVAILABLE", "The database is away.")
	}
	return f.Writer.Write(ctx, do)
}

func (f *flaky) leave(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = time.Now().Add(d)
}

func (f *flaky) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
}

// callsOnce is a model that calls a tool, and answers when it has the result.
func callsOnce(name string) func(int, model.Request, func(model.Delta)) (model.Response, error) {
	return func(_ int, req model.Request, sink func(model.Delta)) (model.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == model.Tool {
			return says("It said: "+last.Text, sink)
		}
		return model.Response{
			ToolCalls: []model.ToolCall{{ID: "c1", Name: name, Arguments: `{}`}}, FinishReason: model.FinishToolCalls,
			Usage: model.Usage{InputTokens: 1, OutputTokens: 1},
		}, nil
	}
}

func toolOf(name string, repeatable bool, do func(context.Context) string) tool.Tool {
	return tool.Tool{
		Name: name, Parameters: jsontext.Value(`{"type":"object"}`), Idempotent: repeatable,
		Run: func(ctx context.Context, _ tool.Call) (tool.Result, error) { return tool.Result{Output: do(ctx)}, nil },
	}
}

// What a finished call returned is stored when the database is back, however long it
// was away (rule D22-finished-call).
func TestResultOutlivesDatabaseOutage(t *testing.T) {
	inBubble(t, &fakeModel{answer: callsOnce("pay")}, func(h *harness, n *node) {
		n.stop()
		w := &flaky{Writer: h.db}
		var calls atomic.Int64 // of this database
		h.agents.spec.Tools = []string{"pay"}
		h.tools = append(h.tools, toolOf("pay", false, func(context.Context) string {
			calls.Add(1)
			w.leave(2 * time.Minute)
			return "paid"
		}))
		n = h.start("two", 8, w)
		began := time.Now()
		id := n.begin(run.Request{}).RunID
		r, err := n.Wait(h.t.Context(), h.who.TenantID, id, 10*time.Minute)
		if err != nil || r.Status != run.Completed || h.output(r).Text != "It said: paid" || calls.Load() != 1 {
			h.t.Errorf("the run is %+v, %v; %d calls", r, err, calls.Load())
		}
		if took := time.Since(began); took < 2*time.Minute || took > 2*time.Minute+6*time.Second {
			h.t.Errorf("it took %v", took)
		}
		n.stop()
	})
}

// A step that killed its process twice is given up: the model receives that its tool
// failed (rule X-steps-that-kill).
func TestStepThatKills(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		calls, under := atomic.Int64{}, make(chan struct{}, 10)
		own := &fakeModel{answer: callsOnce("parse")}
		h := newHarness(t, db)
		h.client, h.model, h.agents.spec.Tools = own, own, []string{"parse"}
		h.tools = append(h.tools, toolOf("parse", true, func(ctx context.Context) string {
			calls.Add(1)
			under <- struct{}{}
			<-ctx.Done()
			return ""
		}))
		id := ""
		for range 2 {
			w := &flaky{Writer: db}
			n := h.start("a", 8, w)
			if id == "" {
				id = n.begin(run.Request{}).RunID
			}
			<-under
			w.kill()
			n.stop()
		}
		n := h.start("a", 8, nil)
		r := n.end(id)
		h.checkEnded(r)
		if r.Status != run.Completed || !strings.Contains(h.output(r).Text, "stopped twice") || calls.Load() != 2 {
			t.Errorf("the run is %s, %s, after %d calls", r.Status, r.Output, calls.Load())
		}
	})
}

// A run that was under way beside one that kills does not suffer, and a node that
// stops in an orderly way is no death.
func TestBystandersAreNotGivenUp(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		under := make(chan struct{}, 100)
		var lives atomic.Int64
		own := &fakeModel{answer: callsOnce("read")}
		h := newHarness(t, db)
		h.client, h.model, h.agents.spec.Tools = own, own, []string{"read"}
		h.tools = append(h.tools, toolOf("read", true, func(ctx context.Context) string {
			if lives.Load() > 3 {
				return "fine"
			}
			under <- struct{}{}
			<-ctx.Done()
			return ""
		}))
		const runs = 5
		var ids []string
		for life := range 4 {
			lives.Store(int64(life))
			w := &flaky{Writer: db}
			n := h.start("a", 8, w)
			for len(ids) < runs {
				ids = append(ids, n.begin(run.Request{}).RunID)
			}
			want := runs
			if life >= 2 { // after two deaths they are tried one at a time
				want = 1
			}
			for range want {
				<-under
			}
			if life < 2 {
				w.kill()
			}
			n.stop()
		}
		lives.Store(4)
		n := h.start("a", 8, nil)
		for _, id := range ids {
			if r := n.end(id); r.Status != run.Completed || h.output(r).Text != "It said: fine" {
				t.Errorf("a bystander is %s: %s", r.Status, r.Output)
			}
		}
	})
}

// A run that failed is continued by a new one, which begins with all its steps and
// tries what failed again (rule D22-continue).
func TestContinuesFailedRun(t *testing.T) {
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		n.stop()
		var paid, asked atomic.Int64 // of this database
		var broken atomic.Bool
		broken.Store(true)
		h.client = &fakeModel{answer: func(call int, req model.Request, sink func(model.Delta)) (model.Response, error) {
			asked.Add(1)
			if broken.Load() && req.Messages[len(req.Messages)-1].Role == model.Tool {
				return model.Response{}, &model.Error{Code: run.CodeModelError, Detail: "The key is wrong.", Status: 400}
			}
			if last := req.Messages[len(req.Messages)-1]; last.Text == "Try now." {
				return says("It said: "+req.Messages[len(req.Messages)-2].Text, sink)
			}
			return callsOnce("pay")(call, req, sink)
		}}
		h.agents.spec.Tools = []string{"pay"}
		h.tools = append(h.tools, toolOf("pay", false, func(context.Context) string {
			paid.Add(1)
			return "paid"
		}))
		n = h.start("two", 8, nil)
		ctx := h.t.Context()
		failed := n.end(n.begin(run.Request{}).RunID)
		if failed.Status != run.Failed {
			h.t.Fatalf("the run is %s", failed.Status)
		}
		answer, err := n.Continue(ctx, h.who, failed.RunID, "", "")
		if err != nil || answer.RunID == failed.RunID || answer.ResumeStep != failed.StepSeq+1 {
			h.t.Fatalf("continue: %+v, %v", answer, err)
		}
		again := n.end(answer.RunID) // the key is still wrong
		if again.Status != run.Failed || again.ContinuesRunID != failed.RunID {
			h.t.Errorf("the second run is %+v", again)
		}
		_, err = n.Continue(ctx, h.who, failed.RunID, "", "")
		if f := fault.From(err); f == nil || f.Code != "ALREADY_CONTINUED" || f.Extra["run_id"] != again.RunID {
			h.t.Errorf("continuing twice: %v", err)
		}
		broken.Store(false)
		before := asked.Load()
		answer, err = n.Continue(ctx, h.who, again.RunID, "", "Try now.")
		if err != nil {
			h.t.Fatal(err)
		}
		last := n.end(answer.RunID)
		if last.Status != run.Completed || h.output(last).Text != "It said: paid" || paid.Load() != 1 || asked.Load() != before+1 {
			h.t.Errorf("the last run is %s, %s; it paid %d times, and asked %d times", last.Status, last.Output, paid.Load(), asked.Load()-before)
		}
		if last.Metrics.LLMCallsCount != 1 || last.Metrics.ToolCallsCount != 0 {
			h.t.Errorf("its metrics are %+v", last.Metrics)
		}
		var own, all []string
		for _, s := range h.steps(last.RunID) {
			all = append(all, string(s.Type))
			if s.InheritedFrom == nil {
				own = append(own, string(s.Type))
			} else if *s.InheritedFrom != failed.RunID {
				h.t.Errorf("step %d was made by %s", s.Seq, *s.InheritedFrom)
			}
		}
		if strings.Join(all, " ") != "llm tool input llm" || strings.Join(own, " ") != "input llm" {
			h.t.Errorf("the steps are %v, its own %v", all, own)
		}
		if _, err := n.Continue(ctx, h.who, last.RunID, "", ""); !fault.Is(err, fault.Conflict) {
			h.t.Errorf("continuing a run that completed: %v", err)
		}
		if r, err := n.Get(ctx, h.who.TenantID, failed.RunID); err != nil || r.ContinuedByRunID == nil || *r.ContinuedByRunID != again.RunID {
			h.t.Errorf("the first run is %+v, %v", r, err)
		}
		n.stop()
	})
}

// Of a run that ran out of time, a call that was cut off is not made again unless it
// can be repeated (rule D22-continue).
func TestContinuesRunWithInterruptedCall(t *testing.T) {
	inBubble(t, &fakeModel{answer: callsOnce("pay")}, func(h *harness, n *node) {
		n.stop()
		var calls atomic.Int64 // of this database
		h.agents.spec.Tools = []string{"pay"}
		h.tools = append(h.tools, toolOf("pay", false, func(ctx context.Context) string {
			calls.Add(1)
			<-ctx.Done()
			return ""
		}))
		n = h.start("two", 8, nil)
		ms := int64(2000)
		late := n.end(n.begin(run.Request{Limits: run.Limits{MaxDurationMS: &ms}}).RunID)
		if late.Status != run.TimedOut {
			h.t.Fatalf("the run is %s", late.Status)
		}
		answer, err := n.Continue(h.t.Context(), h.who, late.RunID, "", "")
		if err != nil {
			h.t.Fatal(err)
		}
		r := n.end(answer.RunID)
		if r.Status != run.Completed || !strings.Contains(h.output(r).Text, "outcome unknown") || calls.Load() != 1 {
			h.t.Errorf("the run is %s, %s; %d calls", r.Status, r.Output, calls.Load())
		}
		n.stop()
	})
}

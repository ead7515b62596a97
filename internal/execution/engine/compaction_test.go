package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// asksForSummary reports whether a request asks for a summary, not for an answer.
func asksForSummary(req modeltest.Request) bool {
	return strings.HasPrefix(req.Chat().Messages[0].Text(), "You write the record")
}

// said returns the messages of a request, abbreviated.
func said(req modeltest.Request) (out []string) {
	for _, m := range req.Chat().Messages {
		text := m.Text()
		if strings.Contains(text, "<summary>") {
			text = "summary"
		}
		word, _, _ := strings.Cut(text, " ")
		if len(m.ToolCalls) > 0 {
			word = "calls " + m.ToolCalls[0].ID
		}
		if m.ToolCallID != "" {
			word = "result " + m.ToolCallID
		}
		out = append(out, word)
	}
	return out
}

// tokens estimates the tokens of a request.
func tokens(req modeltest.Request) (n int) {
	for _, m := range req.Chat().Messages {
		n += 4 + model.EstimateTokens(m.Text())
	}
	return n
}

// historyOf returns the input of a run after a number of turns of about 100 tokens.
func historyOf(turns int) schema.Object {
	in := run.Input{Message: "request: go on"}
	for i := range turns {
		in.History = append(in.History,
			model.Message{Role: model.User, Text: fmt.Sprintf("q%d %s", i, strings.Repeat("word ", 38))},
			model.Message{Role: model.Assistant, Text: fmt.Sprintf("a%d %s", i, strings.Repeat("word ", 38))})
	}
	b, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	return b
}

const theSummary = "Facts: the summary of it all."

// writer is a model that writes summaries, and answers other requests with answer.
func writer(answer func(modeltest.Request) modeltest.Answer) modeltest.Option {
	return modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if asksForSummary(req) {
			return modeltest.Answer{Text: theSummary}
		}
		return answer(req)
	})
}

func answers(text string) func(modeltest.Request) modeltest.Answer {
	return func(modeltest.Request) modeltest.Answer { return modeltest.Answer{Text: text} }
}

func kinds(steps []run.Step) (out []string) {
	for _, s := range steps {
		out = append(out, string(s.Type)+" "+string(s.Status))
	}
	return out
}

func decode[T any](t *testing.T, raw []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// A conversation that exceeds the model's context is compacted before the model
// is called: the agent's prompt, the newest turns and the request stay.
func TestCompaction(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[string][]string{
		"":           {"Be", "summary", "a13", "q14", "a14", "q15", "a15", "q16", "a16", "q17", "a17", "q18", "a18", "q19", "a19", "request:"},
		"compaction": {"Be", "summary", "a13", "q14", "a14", "q15", "a15", "q16", "a16", "q17", "a17", "q18", "a18", "q19", "a19", "request:"},
		"summarize":  {"Be", "summary", "request:"},
	} {
		t.Run("strategy-"+strategy, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				r := newHarness(t, db, writer(answers("The answer.")))
				r.window, r.agents.spec.ContextStrategy = 2400, strategy
				r.agents.spec.Tools = nil
				n := r.start("n", 4, nil)
				got := n.end(n.begin(run.Request{Input: historyOf(20)}).RunID)
				if out := r.output(got); got.Status != run.Completed || out.Text != "The answer." || out.Truncated {
					t.Fatalf("%s: %+v %v", got.Status, out, got.Error)
				}
				r.checkEnded(got)
				requests := r.sim.Requests()
				var asked []modeltest.Request
				for _, req := range requests {
					if !asksForSummary(req) {
						asked = append(asked, req)
					} else if req.Stream || len(req.Chat().Tools) > 0 || tokens(req) > 2400 {
						t.Errorf("a summary is asked for as %s", req.Body)
					}
				}
				if len(asked) != 1 || !asksForSummary(requests[0]) {
					t.Fatalf("%d answers were asked for", len(asked))
				}
				if diff := cmp.Diff(want, said(asked[0])); diff != "" {
					t.Errorf("what the model read (-want +got):\n%s", diff)
				}
				summary := asked[0].Chat().Messages[1]
				if summary.Role != "user" || !strings.Contains(summary.Text(), "<summary>\n"+theSummary+"\n</summary>") {
					t.Errorf("the summary is given as %+v", summary)
				}
				named := strategy
				if named == "" {
					named = "compaction"
				}
				r.compacted(t, got.RunID, named, asked[0])
			})
		})
	}
}

// compacted checks the steps and events of a run that only compacted and answered.
func (r *harness) compacted(t *testing.T, id, strategy string, asked modeltest.Request) {
	t.Helper()
	steps := r.steps(id)
	last := len(steps) - 2
	for _, s := range steps[:last+1] {
		if s.Type != run.StepCompaction || s.Status != run.StepCompleted {
			t.Fatalf("the steps are %v", kinds(steps))
		}
	}
	in, out := decode[run.CompactionInput](t, steps[last].Input), decode[run.CompactionOutput](t, steps[last].Output)
	if in.Messages == 0 || in.KeepRequest || in.Tokens == 0 || in.Through != nil || out.Summary != theSummary || out.Tokens != tokens(asked) || out.Model != "sim-model" {
		t.Errorf("%+v -> %+v, of %d tokens", in, out, tokens(asked))
	}
	var events []string
	for _, e := range r.events(id) {
		if e.Name != "context.compacted" {
			continue
		}
		d := decode[struct {
			Step   int64 `json:"step_seq"`
			Folded int   `json:"folded"`
			Before int   `json:"before_tokens"`
			After  int   `json:"after_tokens"`
		}](t, e.Data)
		if d.Folded == 0 || d.Before <= d.After || d.Step == 0 {
			t.Errorf("%s", e.Data)
		}
		events = append(events, e.Name)
	}
	if len(events) != last+1 {
		t.Errorf("%d compactions tell of themselves %d times", last+1, len(events))
	}
	if in.Strategy != strategy {
		t.Errorf("strategy %q", in.Strategy)
	}
}

// A conversation that fits is not compacted, and its first call begins while the
// run is stored.
func TestNothingToCompact(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, writer(answers("The answer.")))
		r.window = 10_000
		n := r.start("n", 4, nil)
		got := n.end(n.begin(run.Request{Input: historyOf(20)}).RunID)
		if diff := cmp.Diff([]string{"llm completed"}, kinds(r.steps(got.RunID))); diff != "" || r.sim.Calls() != 1 {
			t.Errorf("%d calls\n%s", r.sim.Calls(), diff)
		}
		if in := string(r.steps(got.RunID)[0].Input); in != `{"messages":42}` {
			t.Errorf("the model read %s", in)
		}
	})
}

// The other strategies leave messages out, without a call for a summary.
func TestStrategiesWithoutSummaries(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		strategy string
		window   int // of the model
		keep     int
		want     []string
	}{
		"truncate":        {"truncate", 500, 0, []string{"Be", "q17", "a17", "q18", "a18", "q19", "a19", "request:"}},
		"truncate-enough": {"truncate", 0, 0, nil},
		"four-messages":   {"sliding_window", 0, 4, []string{"Be", "a18", "q19", "a19", "request:"}},
		"twenty-unless":   {"sliding_window", 0, 0, []string{"Be", "a13"}}, // the 39th message was too many, and 12 stayed
		"both":            {"sliding_window", 350, 20, []string{"Be", "q18", "a18", "q19", "a19", "request:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				r := newHarness(t, db, writer(answers("The answer.")))
				r.window, r.agents.spec.ContextStrategy, r.agents.spec.ContextWindow = tt.window, tt.strategy, tt.keep
				r.agents.spec.Tools = nil
				n := r.start("n", 4, nil)
				got := n.end(n.begin(run.Request{Input: historyOf(20)}).RunID)
				read := said(r.sim.Requests()[0])
				switch {
				case got.Status != run.Completed || r.sim.Calls() != 1:
					t.Errorf("%s after %d calls", got.Status, r.sim.Calls())
				case tt.want == nil:
					if len(read) != 42 {
						t.Errorf("%d messages were read", len(read))
					}
				case name == "twenty-unless":
					if len(read) != 15 || read[1] != "a13" {
						t.Errorf("read %v", read)
					}
				default:
					if diff := cmp.Diff(tt.want, read); diff != "" {
						t.Errorf("read (-want +got):\n%s", diff)
					}
				}
				if in, want := string(r.steps(got.RunID)[0].Input), fmt.Sprintf(`{"messages":%d}`, len(read)); in != want {
					t.Errorf("the step says %s, want %s", in, want)
				}
			})
		})
	}
}

// longWorker is an agent that calls a tool with long results a number of times,
// and then answers.
func longWorker(t *testing.T, db *sqldb.DB, rounds int) *harness {
	var round atomic.Int64
	r := newHarness(t, db, writer(func(req modeltest.Request) modeltest.Answer {
		c := req.Chat()
		last := c.Messages[len(c.Messages)-1]
		next := int64(1)
		if last.Role == string(model.Tool) {
			if _, err := fmt.Sscanf(last.Text(), "done %d", &next); err != nil {
				panic(err)
			}
			next++
		}
		if next > int64(rounds) || len(c.Tools) == 0 {
			return modeltest.Answer{Text: "All done."}
		}
		round.Store(next)
		return modeltest.Answer{ToolCalls: []model.ToolCall{call(fmt.Sprintf("c%d", next), "toil", fmt.Sprintf(`{"n":%d}`, next))}}
	}))
	r.tools = []tool.Tool{{
		Name: "toil", Parameters: jsontext.Value(`{"type":"object"}`), Idempotent: true,
		Run: func(_ context.Context, c tool.Call) (tool.Result, error) {
			var args struct {
				N int `json:"n"`
			}
			if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Output: fmt.Sprintf("done %d %s", args.N, strings.Repeat("data ", 100))}, nil
		},
	}}
	r.agents.spec.Tools = []string{"toil"}
	r.window = 1200
	return r
}

// In a long run the run's own messages are compacted: the request stays, calls
// stay with their results, each summary includes the one before, and no call of
// the model is ever too long.
func TestCompactionWithinOneTurn(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := longWorker(t, db, 30)
		n := r.start("n", 4, nil)
		got := n.end(n.begin(run.Request{Input: schema.Object(`{"message":"request: toil"}`)}).RunID)
		if out := r.output(got); out.Text != "All done." {
			t.Fatalf("%s: %+v, %v", got.Status, out, got.Error)
		}
		r.checkEnded(got)
		summaries := 0
		for i, req := range r.sim.Requests() {
			if tokens(req) > 1200 {
				t.Errorf("request %d has %d tokens", i, tokens(req))
			}
			material := req.Chat().Last(model.User)
			if asksForSummary(req) {
				summaries++
				if summaries > 1 && !strings.Contains(material, theSummary) {
					t.Errorf("summary %d is made without the one before", summaries)
				}
				continue
			}
			read := said(req)
			if !slices.Contains(read, "request:") || summaries > 0 && read[1] != "summary" {
				t.Errorf("request %d reads %v", i, read)
			}
			for j, m := range read {
				if id, ok := strings.CutPrefix(m, "result "); ok && read[j-1] != "calls "+id {
					t.Errorf("request %d reads %v", i, read)
				}
			}
		}
		if summaries < 3 {
			t.Errorf("only %d summaries", summaries)
		}
		for _, s := range r.steps(got.RunID) {
			if s.Type != run.StepCompaction {
				continue
			}
			in := decode[run.CompactionInput](t, s.Input)
			if !in.KeepRequest || in.Through == nil || in.Through.RunID != got.RunID || in.Through.StepSeq == 0 || in.Through.StepSeq >= s.Seq {
				t.Errorf("step %d replaces %+v", s.Seq, in)
			}
		}
	})
}

// The process dies at every write of a run with compactions. A committed summary
// is never requested again, and in the end the model has read the same as
// without a crash.
func TestCompactionSurvivesEveryCrash(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		want := []string(nil)
		for at := 1000; ; at++ {
			if at == 1001 {
				at = 1
			}
			r := longWorker(t, db, 7)
			dying := dieAtWrite(db, at)
			first := r.start(fmt.Sprintf("compaction-%d", at), 4, dying)
			started, err := first.Create(t.Context(), r.who, run.Request{AgentID: r.agents.spec.ID, Input: historyOf(3)})
			if err != nil {
				first.stop()
				continue // it was never accepted
			}
			waitFor(t, func() bool {
				got, err := first.Get(t.Context(), r.who.TenantID, started.RunID)
				return dying.died() || err == nil && got.Status.Final()
			})
			first.stop()
			before := r.steps(started.RunID)
			second := r.start(fmt.Sprintf("compaction-%d", at), 4, nil)
			got := second.end(started.RunID)
			second.stop()
			r.checkEnded(got)
			if out := r.output(got); out.Text != "All done." {
				t.Fatalf("crash at %d: %s %+v %v", at, got.Status, out, got.Error)
			}
			requests := r.sim.Requests()
			read := said(requests[len(requests)-1])
			if want == nil {
				if want = read; !slices.Contains(read, "summary") {
					t.Fatalf("nothing was compacted: %v", read)
				}
				continue
			}
			if diff := cmp.Diff(want, read); diff != "" {
				t.Errorf("crash at %d: what the model read last (-want +got):\n%s", at, diff)
			}
			steps := r.steps(started.RunID)
			for i, kept := range before {
				if diff := cmp.Diff(kept, steps[i]); diff != "" {
					t.Errorf("crash at %d: a committed step changed:\n%s", at, diff)
				}
			}
			folds, summaries := 0, 0
			for _, s := range steps {
				if s.Type == run.StepCompaction {
					folds++
				}
			}
			for _, req := range requests {
				if asksForSummary(req) {
					summaries++
				}
			}
			if summaries > folds+1 { // the one that was under way
				t.Errorf("crash at %d: %d summaries were asked for, %d stored", at, summaries, folds)
			}
			if !dying.died() {
				return
			}
		}
	})
}

// After a model has counted more tokens than estimated, the agent's next run is
// compacted earlier.
func TestModelCountsMoreTokens(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, writer(func(req modeltest.Request) modeltest.Answer {
			return modeltest.Answer{Text: "The answer.", Usage: &model.Usage{InputTokens: tokens(req) * 5 / 2, OutputTokens: 3}}
		}))
		r.window, r.agents.spec.Tools = 6000, nil
		n := r.start("n", 4, nil)
		for i, want := range [][]string{{"llm completed"}, {"compaction completed", "llm completed"}} {
			got := n.end(n.begin(run.Request{Input: historyOf(20)}).RunID)
			r.checkEnded(got)
			if diff := cmp.Diff(want, kinds(r.steps(got.RunID))); diff != "" {
				t.Errorf("run %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

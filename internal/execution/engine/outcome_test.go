package engine_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

var wordOfJudge = regexp.MustCompile(`"word": "([A-Z0-9]+)"`)

// judging is a model that works and judges: as agent it says "draft 1", "draft 2" and so
// on, and as judge it gives the next of the answers. {word} in them stands for the word that
// a judge must repeat.
type judging struct {
	mu       sync.Mutex
	verdicts []modeltest.Answer
	drafts   int
	shown    []string // to the judge
	feedback string
	work     func(q modeltest.Request) *modeltest.Answer // goes first as agent
	verdict  func(shown string) modeltest.Answer         // in place of verdicts
}

func scored(score string) modeltest.Answer {
	return modeltest.Answer{Text: `{"word":"{word}","c1":{"score":` + score + `,"reason":"It lacks salt."}}`}
}

func (m *judging) answer(q modeltest.Request) modeltest.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	chat := q.Chat()
	if word := wordOfJudge.FindStringSubmatch(chat.Last(model.System)); word != nil {
		m.shown = append(m.shown, chat.Last(model.User))
		var a modeltest.Answer
		if m.verdict != nil {
			a = m.verdict(chat.Last(model.User))
		} else {
			a = m.verdicts[min(len(m.shown), len(m.verdicts))-1]
		}
		a.Text = strings.ReplaceAll(a.Text, "{word}", word[1])
		a.Usage = &model.Usage{InputTokens: 1000, OutputTokens: 10}
		return a
	}
	if said := chat.Last(model.User); strings.HasPrefix(said, "Your result was judged") {
		m.feedback = said
	}
	if m.work != nil {
		if a := m.work(q); a != nil {
			return *a
		}
	}
	// The number of the draft is that of the verdicts before it, so that a call that is made
	// again after a crash has the same answer.
	m.drafts++
	n := 1
	for _, msg := range chat.Messages {
		if s := msg.Text(); strings.Contains(s, "Your result was judged") {
			n++
		}
	}
	return modeltest.Answer{Text: fmt.Sprintf("draft %d", n), Usage: &model.Usage{InputTokens: 100, OutputTokens: 5}}
}

func rubric(t testing.TB, raw string) *judge.Rubric {
	t.Helper()
	r, wrong := judge.Parse([]byte(raw), "outcome")
	if wrong != nil {
		t.Fatal(wrong)
	}
	return r
}

const soup = `{"criteria":[{"name":"salt","description":"It is salty."}],"min_score":0.75,"max_iterations":3}`

// A run with a rubric ends when its judge is content, or by a bound; its state, its output
// and its steps say what became of it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	nonsense, down := modeltest.Answer{Text: "Nice soup!"}, modeltest.Answer{Status: 500, Error: "boom"}
	for _, tt := range []struct {
		name     string
		verdicts []modeltest.Answer
		rubric   string
		limits   run.Limits

		status       run.Status
		code, reason string
		outcome      run.OutcomeStatus
		endedBy      string
		score        *float64
		text         string
		judges       int // calls of the judge
		drafts       int
	}{
		{name: "reached at once", verdicts: []modeltest.Answer{scored("0.9")}, status: run.Completed,
			outcome: run.OutcomeReached, endedBy: "score", score: new(0.9), text: "draft 1", judges: 1, drafts: 1},
		{name: "reached after feedback", verdicts: []modeltest.Answer{scored("0.2"), scored("1")}, status: run.Completed,
			outcome: run.OutcomeReached, endedBy: "score", score: new(1.0), text: "draft 2", judges: 2, drafts: 2},
		{name: "never", verdicts: []modeltest.Answer{scored("0.2"), scored("0.5"), scored("0.4")}, status: run.Failed,
			code: run.CodeNotReached, reason: "the best score is 0.50, and 0.75 is needed. It was judged 3 times",
			outcome: run.OutcomeNotReached, endedBy: "iterations", score: new(0.5), text: "draft 2", judges: 3, drafts: 3},
		{name: "nonsense once", verdicts: []modeltest.Answer{nonsense, scored("0.8")}, status: run.Completed,
			outcome: run.OutcomeReached, endedBy: "score", score: new(0.8), text: "draft 1", judges: 2, drafts: 1},
		{name: "nonsense twice", verdicts: []modeltest.Answer{nonsense, {Text: `{"word":"guessed","c1":{"score":1}}`}}, status: run.Failed,
			code: run.CodeNotJudged, reason: "Its judge answered twice with something that is no verdict",
			outcome: run.OutcomeNotJudged, endedBy: "judge", text: "draft 1", judges: 2, drafts: 1},
		{name: "judge down", verdicts: []modeltest.Answer{down}, status: run.Failed,
			code: run.CodeNotJudged, reason: "Its judge did not answer.", outcome: run.OutcomeNotJudged, endedBy: "judge", text: "draft 1",
			judges: 1, drafts: 1},
		{name: "out of budget", verdicts: []modeltest.Answer{scored("0.2")}, status: run.Failed,
			rubric: `{"criteria":[{"name":"salt"}],"max_cost_usd":0.0013}`,
			code:   run.CodeNotReached, reason: "does not pay for another call", outcome: run.OutcomeNotReached, endedBy: "budget", score: new(0.2),
			text: "draft 1", judges: 1, drafts: 1},
		{name: "out of steps", verdicts: []modeltest.Answer{scored("0.2")}, limits: run.Limits{MaxSteps: new(int64(1))}, status: run.Failed,
			code: run.CodeNotReached, reason: "A limit of the run", outcome: run.OutcomeNotReached, endedBy: "limit", score: new(0.2),
			text: "draft 1", judges: 1, drafts: 1},
		{name: "out of tokens", limits: run.Limits{MaxTokensPerRun: new(int64(100))}, status: run.Failed,
			code: run.CodeNotJudged, reason: "Its limit of tokens", outcome: run.OutcomeNotJudged, endedBy: "limit", text: "draft 1", drafts: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				m := &judging{verdicts: tt.verdicts}
				r := newHarness(t, db, modeltest.Respond(m.answer))
				counted := &countingMeter{}
				r.meter = counted
				n := r.start("n", 4, nil)
				asked := cmp.Or(tt.rubric, soup)
				end := n.end(n.begin(run.Request{
					Input: []byte(`{"message":"Cook soup."}`), Limits: tt.limits, Options: run.Options{Outcome: rubric(t, asked)},
				}).RunID)
				o := end.Outcome
				if end.Status != tt.status || end.ErrorCode != tt.code || !strings.Contains(ptr.Value(end.Error), tt.reason) {
					t.Fatalf("%s %s: %s", end.Status, end.ErrorCode, ptr.Value(end.Error))
				}
				if o == nil || o.Status != tt.outcome || o.EndedBy != tt.endedBy || o.Rubric == nil || gocmp.Diff(tt.score, o.Score) != "" {
					t.Fatalf("the outcome is %+v", o)
				}
				if text := r.output(end).Text; !strings.HasPrefix(text, tt.text) {
					t.Errorf("the output is %q", text)
				}
				if len(m.shown) != tt.judges || m.drafts != tt.drafts {
					t.Errorf("%d judgements of %d drafts", len(m.shown), m.drafts)
				}
				for _, shown := range m.shown {
					if !strings.Contains(shown, `"task":"Cook soup."`) || !strings.Contains(shown, `"result":"draft `) || strings.Contains(shown, "Be brief.") {
						t.Errorf("the judge is shown %s", shown)
					}
				}
				if m.drafts > 1 && !strings.Contains(m.feedback, "It lacks salt.") {
					t.Errorf("the agent reads %q", m.feedback)
				}
				if n := count(r.events(end.RunID), "outcome.judged"); n != len(o.Verdicts) {
					t.Errorf("%d events of %d verdicts", n, len(o.Verdicts))
				}
				if use := counted.sum(); use.ModelCalls != end.Metrics.LLMCallsCount || use.InputTokens != end.Metrics.InputTokens {
					t.Errorf("%+v is counted of %+v", use, end.Metrics)
				}
				r.checkEnded(end)
			})
		})
	}
}

// The rubric of an agent holds for runs that bring none, and not for visitors.
func TestOutcomeOfTheAgent(t *testing.T) {
	t.Parallel()
	r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Respond((&judging{verdicts: []modeltest.Answer{scored("1")}}).answer))
	r.agents.spec.Outcome = rubric(t, soup)
	n := r.start("n", 4, nil)
	if end := n.end(n.begin(run.Request{}).RunID); end.Outcome == nil || end.Outcome.Status != run.OutcomeReached {
		t.Errorf("by the agent's rubric: %+v", end.Outcome)
	}
	own := rubric(t, `{"criteria":[{"name":"own"}],"min_score":0}`)
	if end := n.end(n.begin(run.Request{Options: run.Options{Outcome: own}}).RunID); end.Outcome.Rubric.Criteria[0].Name != "own" {
		t.Errorf("by its own rubric: %+v", end.Outcome)
	}
	if end := n.end(n.begin(run.Request{Options: run.Options{Visitor: true}}).RunID); end.Outcome != nil || end.Status != run.Completed {
		t.Errorf("for a visitor: %s, %+v", end.Status, end.Outcome)
	}
}

// The process dies at every write of a run that is judged twice: no verdict and no answer
// that is stored is made again, and the run ends as without the crash.
func TestCrashAtEveryWriteOfAnOutcome(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for at := 2; ; at++ {
			m := &judging{verdict: func(shown string) modeltest.Answer {
				if strings.Contains(shown, "draft 1") {
					return scored("0.2")
				}
				return scored("1")
			}}
			r := newHarness(t, db, modeltest.Respond(m.answer))
			writer := dieAtWrite(db, at)
			first := r.start(fmt.Sprintf("outcome-%d", at), 4, writer)
			id := first.begin(run.Request{Options: run.Options{Outcome: rubric(t, soup)}}).RunID
			waitFor(t, func() bool {
				got, err := first.Get(t.Context(), r.who.TenantID, id)
				return writer.died() || err == nil && got.Status.Final()
			})
			first.stop()
			if got, err := first.Get(t.Context(), r.who.TenantID, id); err != nil || got.Status.Final() {
				if err != nil || at < 5 {
					t.Errorf("the run has only %d writes, %v", at, err)
				}
				return
			}
			kept := r.steps(id)
			second := r.start(fmt.Sprintf("outcome-%d", at), 4, nil)
			got := second.end(id)
			second.stop()
			steps := r.steps(id)
			var kinds []run.StepType
			for _, s := range steps {
				kinds = append(kinds, s.Type)
			}
			o := got.Outcome
			if got.Status != run.Completed || o.Status != run.OutcomeReached || r.output(got).Text != "draft 2" ||
				len(o.Verdicts) != 2 || o.Verdicts[1].StepID != steps[len(steps)-1].StepID {
				t.Fatalf("crash at %d: %s with %+v: %v", at, got.Status, o, ptr.Value(got.Error))
			}
			if want := []run.StepType{run.StepLLM, run.StepJudge, run.StepLLM, run.StepJudge}; !slices.Equal(kinds, want) {
				t.Errorf("crash at %d: the steps are %v", at, kinds)
			}
			for i := range kept {
				if diff := gocmp.Diff(kept[i], steps[i]); diff != "" {
					t.Errorf("crash at %d: a committed step changed:\n%s", at, diff)
				}
			}
			// At most the one call that was under way is made again.
			if calls := len(m.shown) + m.drafts; calls > len(steps)+1 {
				t.Errorf("crash at %d: %d calls for %d steps", at, calls, len(steps))
			}
			r.checkEnded(got)
		}
	})
}

// A run that is cancelled while it is judged ends at once.
func TestCancelWhileJudged(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		m := &judging{verdicts: []modeltest.Answer{{HangFirst: true}}}
		r := newHarness(t, db, modeltest.Respond(m.answer))
		n := r.start("n", 4, nil)
		id := n.begin(run.Request{Options: run.Options{Outcome: rubric(t, soup)}}).RunID
		waitFor(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.shown) > 0 })
		if got, err := n.Cancel(t.Context(), r.who.TenantID, id); err != nil || !got.Cancelled {
			t.Fatalf("%+v, %v", got, err)
		}
		end := n.end(id)
		if end.Status != run.Cancelled || end.Outcome.Status != run.OutcomeNotJudged || end.Outcome.EndedBy != "run" {
			t.Errorf("%s with %+v", end.Status, end.Outcome)
		}
	})
}

// A tool of the second iteration waits for approval, and the outcome is reached after it.
func TestApprovalWithinAnOutcome(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		done := &effects{done: map[string]int{}}
		m := &judging{verdicts: []modeltest.Answer{scored("0.2"), scored("0.9")}}
		m.work = func(q modeltest.Request) *modeltest.Answer {
			chat := q.Chat()
			if last := chat.Messages[len(chat.Messages)-1]; last.Role == string(model.User) && m.feedback != "" {
				return &modeltest.Answer{ToolCalls: []model.ToolCall{call("a1", "act", "{}")}}
			}
			return nil
		}
		r := newHarness(t, db, modeltest.Respond(m.answer))
		r.tools = []tool.Tool{done.tool("act", false)}
		r.agents.spec.Tools, r.agents.spec.ApprovalTools = []string{"act"}, []string{"act"}
		r.agents.spec.ApprovalTimeout = time.Hour
		n := r.start("n", 4, nil)
		id := n.begin(run.Request{Options: run.Options{Outcome: rubric(t, soup)}}).RunID
		n.reaches(id, run.AwaitingApproval)
		if _, err := n.Approve(t.Context(), r.who, id, run.ApproveRequest{}); err != nil {
			t.Fatal(err)
		}
		end := n.end(id)
		if end.Status != run.Completed || end.Outcome.Status != run.OutcomeReached || len(end.Outcome.Verdicts) != 2 || done.done["a1"] != 1 {
			t.Errorf("%s with %+v, the call was made %d times", end.Status, end.Outcome, done.done["a1"])
		}
		r.checkEnded(end)
	})
}

// The rules of the company hold for the judge's call: one that they deny ends the run, with
// the answer as its output.
func TestRulesOnJudges(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		m := &judging{verdicts: []modeltest.Answer{scored("1")}}
		r := newHarness(t, db, modeltest.Respond(m.answer))
		g := &rules{effects: map[string]policy.Effect{"model:other-model": policy.Deny}}
		r.rules = g
		r.agents.spec.Model.ModelRef = "sim-model"
		n := r.start("n", 4, nil)
		end := n.end(n.begin(run.Request{Options: run.Options{
			Outcome: rubric(t, `{"criteria":[{"name":"salt"}],"judge_model":"other-model"}`),
		}}).RunID)
		if end.Status != run.Failed || end.ErrorCode != run.CodePolicyBlocked || len(m.shown) != 0 || r.output(end).Text != "draft 1" ||
			!slices.Contains(g.recorded, "model:other-model block") {
			t.Errorf("%s %s after %d judgements: %v, %v", end.Status, end.ErrorCode, len(m.shown), ptr.Value(end.Error), g.recorded)
		}
		r.checkEnded(end)
	})
}

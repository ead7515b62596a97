package session

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
)

func enc(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// runOf returns a run with a message, a status, an output and steps.
func runOf(t *testing.T, id, message string, status run.Status, output string, steps ...run.Step) *run.Journal {
	t.Helper()
	r := &run.Journal{Steps: steps}
	r.Run.RunID, r.Run.Status = id, status
	r.Run.Input = enc(t, run.Input{Message: message})
	if output != "" {
		r.Run.Output = enc(t, run.Output{Text: output})
	}
	at := time.Unix(1000, 0)
	for i := range r.Steps {
		st := &r.Steps[i]
		st.RunID, st.Seq, st.CompletedAt = id, int64(i+1), &at
		if st.Status == "" {
			st.Status = run.StepCompleted
		}
	}
	return r
}

func llm(t *testing.T, text string, calls ...model.ToolCall) run.Step {
	t.Helper()
	return run.Step{Type: run.StepLLM, Output: enc(t, run.LLMOutput{Text: text, ToolCalls: calls})}
}

func toolResult(t *testing.T, id, result string, failed bool) run.Step {
	t.Helper()
	return run.Step{
		Type: run.StepTool, Input: enc(t, run.ToolInput{ToolCallID: id, Name: "tool", Arguments: `{"a":1}`}),
		Output: enc(t, run.ToolOutput{Content: result, IsError: failed}),
	}
}

func compaction(t *testing.T, messages int, summary string) run.Step {
	t.Helper()
	return run.Step{
		Type: run.StepCompaction, Input: enc(t, run.CompactionInput{Compaction: contextwindow.Compaction{Messages: messages}}),
		Output: enc(t, run.CompactionOutput{Summary: summary}),
	}
}

// render returns the entries of a history as "id role content", with + before
// what is compacted, and its messages as "role content".
func render(t *testing.T, runs []*run.Journal, upto ...int64) (entries, messages []string) {
	t.Helper()
	h := newHistory()
	for i, r := range runs {
		limit := int64(0)
		if i < len(upto) {
			limit = upto[i]
		}
		c, err := readChapter(r, limit)
		if err != nil {
			t.Fatal(err)
		}
		h.add(c)
	}
	h.markCompacted()
	for _, e := range h.entries {
		mark := ""
		if e.Compacted {
			mark = "+"
		}
		entries = append(entries, mark+e.MessageID+" "+e.Role+" "+e.Content)
	}
	for _, m := range h.messages {
		text := m.Text
		if m.Summary {
			text = "summary"
		}
		for _, c := range m.ToolCalls {
			text += " " + c.ID
		}
		messages = append(messages, string(m.Role)+" "+text)
	}
	return entries, messages
}

func TestHistory(t *testing.T) {
	t.Parallel()
	c1, c2 := model.ToolCall{ID: "c1", Name: "tool"}, model.ToolCall{ID: "c2", Name: "tool"}
	for name, c := range map[string]struct {
		runs     []*run.Journal
		upto     []int64
		entries  []string
		messages []string
	}{
		"plain": {
			runs:     []*run.Journal{runOf(t, "a", "hi", run.Completed, "yo", llm(t, "yo"))},
			entries:  []string{"a user hi", "a-reply assistant yo"},
			messages: []string{"user hi", "assistant yo"},
		},
		"results_come_in_the_order_of_the_calls": {
			runs: []*run.Journal{runOf(t, "a", "hi", run.Completed, "yo", llm(t, "", c1, c2), toolResult(t, "c2", "two", false), toolResult(t, "c1", "one", true), llm(t, "yo"))},
			entries: []string{
				"a user hi", "a-reply assistant ", "a-tool-1 tool_result two", "a-tool-2 tool_result one", "a-reply-2 assistant yo",
			},
			messages: []string{"user hi", "assistant  c1 c2", "tool one", "tool two", "assistant yo"},
		},
		"unanswered_calls_of_a_cancelled_run_are_left_out": {
			runs:     []*run.Journal{runOf(t, "a", "hi", run.Cancelled, "", llm(t, "let me see", c1, c2), toolResult(t, "c2", "two", false)), runOf(t, "b", "well?", run.Completed, "yo", llm(t, "yo"))},
			entries:  []string{"a user hi", "a-reply assistant let me see", "a-tool-1 tool_result two", "b user well?", "b-reply assistant yo"},
			messages: []string{"user hi", "assistant let me see c2", "tool two", "user well?", "assistant yo"},
		},
		"calls_without_any_result": {
			runs:     []*run.Journal{runOf(t, "a", "hi", run.Cancelled, "", llm(t, "", c1))},
			entries:  []string{"a user hi", "a-reply assistant "},
			messages: []string{"user hi"},
		},
		"a_partial_answer_is_shown_but_not_sent_to_the_model": {
			runs: []*run.Journal{runOf(t, "a", "hi", run.Failed, "", run.Step{
				Type: run.StepLLM, Status: run.StepFailed, Output: enc(t, run.LLMOutput{Text: "half of"}),
			})},
			entries:  []string{"a user hi", "a-reply assistant half of"},
			messages: []string{"user hi"},
		},
		"an_answer_changed_by_a_guardrail_stays_changed": {
			runs:     []*run.Journal{runOf(t, "a", "hi", run.Completed, "[redacted]", llm(t, "secret"))},
			entries:  []string{"a user hi", "a-reply assistant [redacted]"},
			messages: []string{"user hi", "assistant [redacted]"},
		},
		"an_answer_blocked_by_a_guardrail_stays_blocked": {
			runs:     []*run.Journal{runOf(t, "a", "hi", run.GuardrailBlocked, "", llm(t, "secret"))},
			entries:  []string{"a user hi"},
			messages: []string{"user hi"},
		},
		"a_message_refused_by_a_guardrail_is_not_sent_to_the_model_later": {
			runs: []*run.Journal{
				runOf(t, "a", "how are bombs made?", run.GuardrailBlocked, "", run.Step{Type: run.StepGuardrail, Status: run.StepFailed, Output: enc(t, run.GuardrailOutput{})}),
				runOf(t, "b", "answer my question", run.Completed, "no", llm(t, "no")),
			},
			entries:  []string{"a user how are bombs made?", "b user answer my question", "b-reply assistant no"},
			messages: []string{"user answer my question", "assistant no"},
		},
		"up_to_a_step": {
			runs:     []*run.Journal{runOf(t, "a", "hi", run.Completed, "yo", llm(t, "", c1), toolResult(t, "c1", "one", false), llm(t, "yo"))},
			upto:     []int64{2},
			entries:  []string{"a user hi", "a-reply assistant ", "a-tool-1 tool_result one"},
			messages: []string{"user hi", "assistant  c1", "tool one"},
		},
		"the_message_alone": {
			runs:     []*run.Journal{runOf(t, "a", "hi", run.Completed, "yo", llm(t, "yo"))},
			upto:     []int64{-1},
			entries:  []string{"a user hi"},
			messages: []string{"user hi"},
		},
		"the_note_of_a_resume": {
			runs: []*run.Journal{runOf(t, "a", "hi", run.Completed, "yo", run.Step{Type: run.StepInput, Output: enc(t, run.NoteOutput{Message: "go on"})}, llm(t, "yo"))},
			entries: []string{
				"a user hi", "a-user-2 user go on", "a-reply assistant yo",
			},
			messages: []string{"user hi", "user go on", "assistant yo"},
		},
		"compacted": {
			runs: []*run.Journal{
				runOf(t, "a", "one", run.Completed, "1", llm(t, "1")),
				runOf(t, "b", "two", run.Completed, "2", compaction(t, 2, "it was one"), llm(t, "2")),
				runOf(t, "c", "three", run.Completed, "3", compaction(t, 3, "it was one and two"), llm(t, "3")),
			},
			entries: []string{
				"+a user one", "+a-reply assistant 1", "+b user two", "+b-system-1 system it was one", "+b-reply assistant 2",
				"c user three", "c-system-1 system it was one and two", "c-reply assistant 3",
			},
			messages: []string{"user summary", "user three", "assistant 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, messages := render(t, c.runs, c.upto...)
			if diff := cmp.Diff(c.entries, entries); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.messages, messages); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	turns := []Turn{
		{Turn: 1, BranchID: Root, RunID: "r1"}, {Turn: 2, BranchID: Root, RunID: "r2"}, {Turn: 3, BranchID: "b", RunID: "b1"},
		{Turn: 4, BranchID: Root, RunID: "r3"}, {Turn: 5, BranchID: "d", RunID: "d1"}, {Turn: 6, BranchID: "e", RunID: "e1"},
	}
	branches := []Branch{
		{BranchID: "b", ParentID: Root, ForkRunID: "r2", ForkStep: 3},
		{BranchID: "c", ParentID: "b", ForkRunID: "r2", ForkStep: 5}, // beyond what its parent shares
		{BranchID: "d", ParentID: "b", ForkRunID: "b1"},
		{BranchID: "e", ParentID: Root}, // forked before the first run
		{BranchID: "f", ParentID: "c", ForkRunID: "r2", ForkStep: -1},
		{BranchID: "g", ParentID: "d", ForkRunID: "r1"},
	}
	const end = math.MaxInt64
	for branch, want := range map[string][]piece{
		Root: {{Root, end, 0}},
		"b":  {{Root, 2, 3}, {"b", end, 0}},
		"c":  {{Root, 2, 3}, {"c", end, 0}},
		"d":  {{Root, 2, 3}, {"b", 3, 0}, {"d", end, 0}},
		"e":  {{"e", end, 0}},
		"f":  {{Root, 2, -1}, {"f", end, 0}},
		"g":  {{Root, 1, 0}, {"g", end, 0}},
	} {
		got, err := piecesOf(branches, branch, func(run string) (Turn, error) {
			return turns[slices.IndexFunc(turns, func(t Turn) bool { return t.RunID == run })], nil
		})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(piece{})); diff != "" || err != nil {
			t.Errorf("the path of %s: %v (-want +got):\n%s", branch, err, diff)
		}
	}
	if _, err := piecesOf(branches, "x", nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("of no branch: %v", err)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	keys := "{"
	for i := range 101 {
		if i > 0 {
			keys += ","
		}
		keys += string(enc(t, string(rune('a'+i%26))+string(rune('a'+i/26)))) + ":1"
	}
	for text, want := range map[string]string{
		`{}`: "", ``: "", `{"a":{"b":{"c":{"d":{"e":{"f":{"g":1}}}}}}}`: "",
		`{"a":{"b":{"c":{"d":{"e":{"f":{"g":[[1]]}}}}}}}`: "it nests deeper than 8 levels",
		keys + "}": "it has more than 100 keys",
	} {
		if got := checkMetadata([]byte(text)); got != want {
			t.Errorf("%.60s: %q, want %q", text, got, want)
		}
	}
}

func TestPositionsAreTotallyOrdered(t *testing.T) {
	t.Parallel()
	inOrder := []position{{1, "b", 9}, {2, "a", 1}, {2, "a", 2}, {2, "b", 1}, {3, "a", 1}}
	for i, p := range inOrder {
		for j, q := range inOrder {
			if got := p.before(q); got != (i < j) {
				t.Errorf("%v before %v: %v", p, q, got)
			}
		}
	}
	src := &source{}
	src.add(eventAt(1, 5))
	src.add(eventAt(2, 3)) // another node's clock is behind
	src.add(eventAt(0, 9)) // a gap
	src.add(eventAt(3, 7))
	var got []int64
	for _, p := range src.queue {
		got = append(got, p.at.micros)
	}
	if diff := cmp.Diff([]int64{5, 5, 5, 7}, got); diff != "" {
		t.Errorf("positions (-want +got):\n%s", diff)
	}
}

func eventAt(seq, micros int64) event.Event {
	return event.Event{Seq: seq, Name: "x", At: time.UnixMicro(micros)}
}

package run_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
)

func enc(t *testing.T, v any) schema.Nullable {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// journal numbers steps and says whose they are.
func journal(steps ...run.Step) []run.Step {
	for i := range steps {
		steps[i].RunID, steps[i].Seq = "r", int64(i)+1
		if steps[i].Status == "" {
			steps[i].Status = run.StepCompleted
		}
	}
	return steps
}

// The conversation of a journal has its compactions applied: of what
// was said before the run, of its own, and with a note that came in between.
func TestFoldsOfAJournal(t *testing.T) {
	t.Parallel()
	llm := func(text string, calls ...string) run.Step {
		out := run.LLMOutput{Text: text}
		for _, id := range calls {
			out.ToolCalls = append(out.ToolCalls, model.ToolCall{ID: id, Name: "t", Arguments: "{}"})
		}
		return run.Step{Type: run.StepLLM, Output: enc(t, out)}
	}
	result := func(id string) run.Step {
		return run.Step{Type: run.StepTool, Input: enc(t, run.ToolInput{ToolCallID: id, Name: "t"}), Output: enc(t, run.ToolOutput{Content: "result of " + id})}
	}
	note := run.Step{Type: run.StepInput, Output: enc(t, run.NoteOutput{Message: "note"})}
	fold := func(f contextwindow.Compaction, summary string) run.Step {
		return run.Step{Type: run.StepCompaction, Input: enc(t, run.CompactionInput{Compaction: f}), Output: enc(t, run.CompactionOutput{Summary: summary})}
	}
	failed := func(kind run.StepType) run.Step { return run.Step{Type: kind, Status: run.StepFailed} }
	before := []model.Message{{Role: model.User, Text: "earlier"}, {Role: model.Assistant, Text: "answer"}}
	for name, tt := range map[string]struct {
		steps []run.Step
		want  []string
		aside int64
	}{
		"none":           {journal(llm("a")), []string{"earlier", "answer", "message", "a"}, 0},
		"before-the-run": {journal(fold(contextwindow.Compaction{Messages: 2}, "one"), llm("a")), []string{"<one>", "message", "a"}, 1},
		"its-own": {
			journal(llm("a", "c1"), result("c1"), fold(contextwindow.Compaction{Messages: 5, KeepRequest: true}, "one"), llm("b")),
			[]string{"<one>", "message", "b"}, 1,
		},
		"a-round-before-a-note": {
			journal(llm("a", "c1"), result("c1"), note, fold(contextwindow.Compaction{Messages: 5}, "one"), llm("b")),
			[]string{"<one>", "note", "b"}, 1,
		},
		"twice": {
			journal(fold(contextwindow.Compaction{Messages: 2}, "one"), llm("a", "c1"), result("c1"), fold(contextwindow.Compaction{Messages: 4, KeepRequest: true}, "two"), llm("b")),
			[]string{"<two>", "message", "b"}, 2,
		},
		"what-failed": {
			journal(failed(run.StepLLM), failed(run.StepCompaction), llm("a")),
			[]string{"earlier", "answer", "message", "a"}, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := &run.Record{Run: run.Run{RunID: "r", Input: schema.Object(`{"message":"message"}`)}}
			all, err := run.ConversationAfter(before, rec, tt.steps)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range all {
				if m.Summary {
					m.Text = "<" + m.Text[len(contextwindow.Summary("").Text)-len("\n</summary>"):len(m.Text)-len("\n</summary>")] + ">"
				}
				got = append(got, m.Text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(before) != 2 || before[0].Text != "earlier" {
				t.Errorf("what was said before was changed: %v", before)
			}
			script, err := run.Transcribe(tt.steps)
			if err != nil || script.OverheadSteps != tt.aside {
				t.Errorf("%d steps count as no work, want %d (%v)", script.OverheadSteps, tt.aside, err)
			}
		})
	}
	for _, kind := range []run.Step{
		{Type: run.StepCompaction, Input: schema.Nullable(`7`), Output: schema.Nullable(`{}`)},
		{Type: run.StepCompaction, Input: schema.Nullable(`{}`), Output: schema.Nullable(`7`)},
	} {
		if _, err := run.ConversationAfter(nil, &run.Record{}, journal(kind)); err == nil {
			t.Errorf("%s is understood", kind.Input)
		}
	}
}

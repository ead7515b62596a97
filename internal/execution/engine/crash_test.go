package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// effects counts the effects of a tool.
type effects struct {
	mu   sync.Mutex
	done map[string]int
}

func (e *effects) tool(name string, repeatable bool) tool.Tool {
	return tool.Tool{
		Name: name, Parameters: jsontext.Value(`{"type":"object"}`), Idempotent: repeatable,
		Run: func(_ context.Context, c tool.Call) (tool.Result, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.done[c.ID]++
			return tool.Result{Output: "did " + c.ID}, nil
		},
	}
}

// errand is a model that makes two rounds of tool calls, one of them with two
// parallel calls, and then answers. It thinks, and refuses a conversation whose
// calls lack its signatures, as Gemini does.
func errand(req modeltest.Request) modeltest.Answer {
	chat := req.Chat()
	if !chat.Signed(signature) {
		return modeltest.Answer{Status: 400, Error: "Function call is missing a thought_signature."}
	}
	signed := func(id, name string) model.ToolCall {
		c := call(id, name, "{}")
		c.Opaque = signature(id)
		return c
	}
	switch n := countAssistant(chat); n {
	case 0:
		return modeltest.Answer{Text: "First.", Thinking: "Hm.", ToolCalls: []model.ToolCall{signed("a1", "act"), signed("s1", "safe")}}
	case 1:
		return modeltest.Answer{Text: "Second.", ToolCalls: []model.ToolCall{signed("a2", "act")}}
	default:
		return modeltest.Answer{Text: "All done."}
	}
}

func signature(id string) string { return `{"google":{"thought_signature":"` + id + `"}}` }

func countAssistant(c modeltest.Chat) (n int) {
	for _, m := range c.Messages {
		if m.Role == string(model.Assistant) {
			n++
		}
	}
	return n
}

// The process dies at every write in turn. Committed steps stay as they were and
// are not repeated, no effect happens twice, and the run ends properly (rules
// D6-journal, D6-recovery).
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for at := 1; ; at++ {
			if !crashAt(t, db, at) {
				if at < 6 {
					t.Errorf("a run has only %d writes", at)
				}
				return
			}
		}
	})
}

// crashAt kills the worker at its nth write and reports whether that was before
// the run had ended.
func crashAt(t *testing.T, db *sqldb.DB, at int) (crashed bool) {
	done := &effects{done: map[string]int{}}
	r := newHarness(t, db, modeltest.Respond(errand))
	r.tools = []tool.Tool{done.tool("act", false), done.tool("safe", true)}
	r.agents.spec.Tools = []string{"act", "safe"}
	writer := dieAtWrite(db, at)
	first := r.start(fmt.Sprintf("first-%d", at), 4, writer)
	started, err := first.Create(t.Context(), r.who, run.Request{AgentID: r.agents.spec.ID, Input: []byte(`{"message":"Go."}`)})
	if err != nil {
		if at != 1 {
			t.Fatal(err)
		}
		first.stop()
		return true // it was never accepted
	}
	waitFor(t, func() bool {
		got, err := first.Get(t.Context(), r.who.TenantID, started.RunID)
		return writer.died() || err == nil && got.Status.Final()
	})
	first.stop()
	if got, err := first.Get(t.Context(), r.who.TenantID, started.RunID); err != nil || got.Status.Final() {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	kept := r.steps(started.RunID)

	second := r.start(fmt.Sprintf("first-%d", at), 4, nil) // the same node, come back
	got := second.end(started.RunID)
	second.stop()
	if out := r.output(got); got.Status != run.Completed || out.Text != "All done." {
		t.Fatalf("crash at %d: the run is %s, %q: %v", at, got.Status, out.Text, got.Error)
	}
	r.checkEnded(got)
	steps := r.steps(started.RunID)
	for _, k := range kept {
		i := slices.IndexFunc(steps, func(s run.Step) bool { return s.Seq == k.Seq })
		if diff := cmp.Diff(k, steps[i]); diff != "" {
			t.Errorf("crash at %d: a committed step changed:\n%s", at, diff)
		}
	}
	for id, n := range done.done {
		if n > 1 && strings.HasPrefix(id, "a") {
			t.Errorf("crash at %d: %s was done %d times", at, id, n)
		}
	}
	unknown := slices.ContainsFunc(steps, func(s run.Step) bool { return strings.Contains(string(s.Output), "outcome unknown") })
	if done.done["a1"]+done.done["a2"] < 2 && !unknown {
		t.Errorf("crash at %d: a call was lost without a word: %v", at, done.done)
	}
	if done.done["s1"] == 0 {
		t.Errorf("crash at %d: the repeatable call was never made", at)
	}
	return true
}

package constitution_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/governance/constitution"
	"agentd/internal/kernel/policy"
	"agentd/internal/store/sqldb/sqldbtest"
)

// An act that a run does again is judged as before, until anything of it or of the rules
// is another; a caller that changes a ruling changes its own copy.
func TestRulingsOfTheSameAct(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqldbtest.Open(t, sqldbtest.SQLite))
	rules := make([]constitution.Rule, 20)
	for i := range rules {
		rules[i] = constitution.Rule{RuleID: fmt.Sprint("r", i), Principle: "p", Action: "tool:*", Severity: "warning", Condition: fmt.Sprintf(
			"args.amount > %d && run.session_id == 's' && agent.version == 1 && !('web' in sources)", i)}
	}
	r.put(rules...)
	session, version := "s", 1
	judge := func(run, agent, tool, arguments string, sources ...string) policy.Ruling {
		t.Helper()
		ruling, err := r.Judge(t.Context(), policy.Run{TenantID: "acme", RunID: run, AgentID: agent}, policy.Act{
			Actions: []string{"tool:" + tool}, Arguments: []byte(arguments), Sources: sources,
			FactsKey: fmt.Sprint(session, version),
			Facts: func() (of, facts map[string]any) {
				return map[string]any{"version": version}, map[string]any{"session_id": session}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return ruling
	}
	found := func(ruling policy.Ruling, want int) {
		t.Helper()
		if len(ruling.Findings) != want {
			t.Errorf("%d rules found something, want %d", len(ruling.Findings), want)
		}
	}
	first := judge("1", "g", "pay", `{"amount":5}`)
	found(first, 5)
	again := judge("1", "g", "pay", `{"amount":5}`)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
	_ = append(first.Findings, policy.Finding{RuleID: "mine"})
	_ = append(again.Findings, policy.Finding{RuleID: "mine, too"})
	if diff := cmp.Diff(first, judge("1", "g", "pay", `{"amount":5}`)); diff != "" {
		t.Error(diff)
	}
	found(judge("1", "g", "pay", `{"amount":6}`), 6)
	found(judge("1", "g", "pay", `{"amount":5}`, "web"), 0)
	if got := judge("1", "g", "mail", `{"amount":5}`).Findings[0].Action; got != "tool:mail" {
		t.Errorf("another tool was judged as %s", got)
	}
	session = "other"
	found(judge("1", "g", "pay", `{"amount":5}`), 0)
	session, version = "s", 2
	found(judge("1", "g", "pay", `{"amount":5}`), 0)
	version = 1
	long := fmt.Sprintf(`{"amount":5,"text":%q}`, strings.Repeat("x", 8<<10))
	found(judge("1", "g", "pay", long), 5)
	found(judge("1", "g", "pay", long), 5)
	r.put(append(rules[:19:19], constitution.Rule{RuleID: "r19", Principle: "p", Action: "tool:*", Severity: "warning"})...)
	found(judge("1", "g", "pay", `{"amount":5}`), 6)
	// A condition that cannot be evaluated is not forgotten either.
	found(judge("1", "g", "pay", `{"other":5}`), 20)
	found(judge("1", "g", "pay", `{"other":5}`), 20)
}

// The same act of another run is judged again only where a condition names the run.
func TestRulingsOfOtherRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqldbtest.Open(t, sqldbtest.SQLite))
	for _, tt := range []struct {
		condition string
		found     map[string]int // by run
		times     int
	}{
		{"args.amount > 1", map[string]int{"1": 20, "2": 20}, 1},
		{"run.id == '1'", map[string]int{"1": 20, "2": 0}, 2},
		{"run['id'] == '2'", map[string]int{"1": 0, "2": 20}, 2},
	} {
		rules := make([]constitution.Rule, 20)
		for i := range rules {
			rules[i] = constitution.Rule{RuleID: fmt.Sprint("r", i), Principle: "p", Action: "tool:*", Severity: "warning", Condition: tt.condition}
		}
		r.put(rules...)
		times := 0
		for range 2 {
			for id, want := range tt.found {
				ruling, err := r.Judge(t.Context(), policy.Run{TenantID: "acme", RunID: id, AgentID: "g"}, policy.Act{
					Actions: []string{"tool:pay"}, Arguments: []byte(`{"amount":5}`), FactsKey: "1",
					Facts: func() (of, facts map[string]any) { times++; return map[string]any{}, map[string]any{} },
				})
				if err != nil || len(ruling.Findings) != want {
					t.Errorf("%s: %d rules found something about the run %s, want %d; %v", tt.condition, len(ruling.Findings), id, want, err)
				}
			}
		}
		if times != tt.times {
			t.Errorf("%s: it was judged %d times, want %d", tt.condition, times, tt.times)
		}
	}
}

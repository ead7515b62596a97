package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A test of a changed agent runs with the change, calls only tools that are read-only,
// waits for no person, and is not punished.
func TestSandboxRuns(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r, g := governed(t, db, map[string]policy.Effect{"tool:weigh": policy.Terminate})
		var made []string
		for i := range r.tools {
			r.tools[i].ReadOnly = r.tools[i].Name == "look"
		}
		weigh := echoing("weigh")
		weigh.ReadOnly = true
		r.tools = append(r.tools, weigh)
		r.agents.spec.Tools = []string{"pay", "look", "weigh"}
		r.agents.spec.ApprovalTools = []string{"pay"}
		n := r.start("n", 4, nil)
		sandboxed := run.Request{Options: run.Options{Sandbox: &run.Sandbox{Patch: []byte(`{"system":"Weigh it first."}`)}}}
		got := n.end(n.begin(sandboxed).RunID)
		results := r.results(got.RunID)
		for id, result := range results {
			if !result.IsError {
				made = append(made, id)
			} else if !strings.Contains(result.Content, "sandbox test of a changed agent") {
				t.Errorf("%s: %s", id, result.Content)
			}
		}
		if got.Status != run.Completed || len(results) != 4 || !cmp.Equal([]string{"l1"}, made) {
			t.Errorf("%s, of %d calls %v were made", got.Status, len(results), made)
		}
		if sent := string(r.sim.Requests()[0].Body); !strings.Contains(sent, "Weigh it first.") || strings.Contains(sent, "Be brief.") {
			t.Errorf("the model was sent %s", sent)
		}
		g.put("tool:look", policy.Terminate)
		got = n.end(n.begin(sandboxed).RunID)
		if look := r.results(got.RunID)["l1"]; got.Status != run.Completed || !look.IsError || !strings.Contains(look.Content, "refused by policy") {
			t.Errorf("%s, %+v", got.Status, look)
		}
		sandboxed.Options.Sandbox = &run.Sandbox{Patch: []byte(`[`)}
		if _, err := n.Create(t.Context(), r.who, run.Request{AgentID: r.agents.spec.ID, Options: sandboxed.Options}); err == nil || fault.Is(err, fault.NotFound) {
			t.Errorf("a patch that the agent does not take: %v", err)
		}
	})
}

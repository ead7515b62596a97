package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestWhichCallsWait: overrides of tools go before rules, rules before lists, and a
// name in a list before a star.
func TestWhichCallsWait(t *testing.T) {
	t.Parallel()
	rule := func(approval string) []run.ApprovalRule { return []run.ApprovalRule{{Tool: "pay", Approval: approval}} }
	override := func(trust string) []agent.ToolOverride {
		return []agent.ToolOverride{{Tool: "look", Trust: "always_allow"}, {Tool: "pay", Trust: trust}}
	}
	tests := map[string]struct {
		spec run.AgentSpec
		want []string // calls that wait
	}{
		"nothing said":                  {run.AgentSpec{}, nil},
		"auto approved, but not listed": {run.AgentSpec{AutoApproveTools: []string{"pay"}}, nil},
		"listed":                        {run.AgentSpec{ApprovalTools: []string{"pay"}}, []string{"p1", "p2", "p3"}},
		"listed and auto approved":      {run.AgentSpec{ApprovalTools: []string{"pay"}, AutoApproveTools: []string{"pay"}}, []string{"p1", "p2", "p3"}},
		"star":                          {run.AgentSpec{ApprovalTools: []string{"*"}}, []string{"l1", "p1", "p2", "p3"}},
		"star, auto approved":           {run.AgentSpec{ApprovalTools: []string{"*"}, AutoApproveTools: []string{"pay"}}, []string{"l1"}},
		"rule over auto approval":       {run.AgentSpec{ApprovalRules: rule("always"), AutoApproveTools: []string{"pay"}}, []string{"p1", "p2", "p3"}},
		"override over list":            {run.AgentSpec{ApprovalTools: []string{"*"}, ToolOverrides: override("always_allow")}, nil},
		"override over rule":            {run.AgentSpec{ApprovalRules: rule("never"), ToolOverrides: override("ask_first")}, []string{"p1", "p2", "p3"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := payer(t, sqldbtest.Open(t, sqldbtest.SQLite))
			spec := &r.agents.spec
			spec.ApprovalRules, spec.ApprovalTools = tt.spec.ApprovalRules, tt.spec.ApprovalTools
			spec.AutoApproveTools, spec.ToolOverrides = tt.spec.AutoApproveTools, tt.spec.ToolOverrides
			n := r.start("n", 4, nil)
			started := n.begin(run.Request{})
			var waiting []string
			if len(tt.want) == 0 {
				n.end(started.RunID)
			} else {
				for _, a := range n.reaches(started.RunID, run.AwaitingApproval).PendingApprovals {
					waiting = append(waiting, a.ToolCallID)
				}
			}
			slices.Sort(waiting)
			if diff := cmp.Diff(tt.want, waiting); diff != "" {
				t.Errorf("calls that wait (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNeverAllowedTools: the model is not offered a tool that the agent must never
// use, and cannot call it.
func TestNeverAllowedTools(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := payer(t, db)
		r.agents.spec.ToolOverrides = []agent.ToolOverride{{Tool: "pay", Trust: agent.NeverAllow}}
		n := r.start("n", 4, nil)
		started := n.begin(run.Request{})
		n.end(started.RunID)
		results := r.results(started.RunID)
		if got := results["l1"].Content; got != `{}` {
			t.Errorf("another tool: %q", got)
		}
		if got := results["p1"].Content; !strings.Contains(got, `no tool "pay"`) {
			t.Errorf("a tool that is never allowed: %q", got)
		}
		if sent := string(r.sim.Requests()[0].Body); strings.Contains(sent, `"name":"pay"`) || !strings.Contains(sent, `"name":"look"`) {
			t.Errorf("the model is offered %s", sent)
		}
	})
}

package runs

import (
	"fmt"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// A simulation finds in the journals what rules would have stopped, of the company's own
// runs, with the sources that they had read.
func TestRulesAreSimulated(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(doesAsTold)))
	agent := n.CreateAgent(object{"built_in_tools": []string{"list_files", "calculator"}})
	const sum, list = `["calculator","{\"expression\":\"6*7\"}"]`, `["list_files","{}"]`
	var ran []string
	for _, message := range []string{"[" + sum + "]", "[" + list + "," + sum + "]", "Hello."} {
		id := n.StartRun(agent, message, nil)
		n.WaitRun(id)
		ran = append(ran, id)
	}
	simulate := func(n *apptest.Server, rule object) object {
		t.Helper()
		rule["rule_id"], rule["principle"] = "tried", "A test."
		return n.Expect(200, "POST", "/api/v1/governance/constitution/simulate", object{"rules": []object{rule}})
	}
	for name, c := range map[string]struct {
		rule    object
		blocked int
		runs    []string
	}{
		"a tool":        {object{"action": "tool:calc*"}, 2, ran[:2]},
		"its arguments": {object{"action": "tool:calculator", "condition": "args.expression == '6*7'"}, 2, ran[:2]},
		"sources":       {object{"action": "tool:calculator", "condition": "'file' in sources"}, 1, ran[1:2]},
		"before it":     {object{"action": "tool:list_files", "condition": "'file' in sources"}, 0, nil},
		"models":        {object{"action": "model:*"}, 3, ran},
	} {
		got := simulate(n, c.rule)
		if got["acts_blocked"] != float64(c.blocked) || got["runs_checked"] != 3.0 || got["acts_checked"] != 6.0 || got["truncated"] != nil {
			t.Errorf("%s: %v", name, got)
		}
		for _, by := range []string{"by_rule", "by_agent", "by_tool"} {
			groups := got[by].([]any)
			if c.blocked == 0 && len(groups) == 0 {
				continue
			}
			if g := groups[0].(object); fmt.Sprint(g["run_ids"]) != fmt.Sprint(c.runs) || by == "by_agent" && g["agent_id"] != agent {
				t.Errorf("%s, %s: %v, want runs %v", name, by, g, c.runs)
			}
		}
	}
	_, other := n.CreateTenant(object{"name": "Other"})
	if got := simulate(other, object{"action": "*"}); got["runs_checked"] != 0.0 {
		t.Errorf("another company: %v", got)
	}
}

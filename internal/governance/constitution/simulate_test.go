package constitution_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/internal/base/fault"
	"agentd/internal/governance/constitution"
	"agentd/internal/kernel/policy"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A simulation counts what rules would have made of acts, by rule, agent and tool, and
// names the runs; nothing is recorded.
func TestSimulation(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqldbtest.Open(t, sqldbtest.SQLite))
	type window struct{ from, to time.Time }
	var asked window
	next := time.Time{}
	r.ConnectRuns(func(_ context.Context, tenant string, from, to time.Time, most int, yield func(policy.Run, policy.Act) bool) (int, time.Time, error) {
		asked = window{from, to}
		if tenant != "acme" || most != 10_000 {
			t.Errorf("%s, %d runs", tenant, most)
		}
		for run := range 30 {
			of := policy.Run{TenantID: tenant, RunID: fmt.Sprintf("run-%02d", run), AgentID: []string{"a", "b"}[run%2]}
			for _, arguments := range []string{`{"amount":1}`, fmt.Sprintf(`{"amount":%d}`, 100*run)} {
				if !yield(of, policy.ToolAct("pay", arguments, []string{"web"})) {
					return run, next, nil
				}
			}
			if !yield(of, policy.ToolAct("look", "", nil)) {
				return run, next, nil
			}
		}
		return 30, next, nil
	})
	body := constitution.SimulationIn{Rules: []constitution.Rule{
		{RuleID: "large", Principle: "p", Action: "tool:pay", Condition: "args.amount > 500 && 'web' in sources"},
		{RuleID: "largest", Principle: "p", Action: "tool:pay", Condition: "args.amount >= 2900", Penalty: "require_approval"},
		{RuleID: "looks", Principle: "p", Action: "tool:look", Shadow: true},
		{RuleID: "asks", Principle: "p", Action: "tool:pay", Condition: "args.amount == 0", Penalty: "require_approval"},
	}}
	got, err := call[*constitution.SimulationResult](r, admin, "simulateConstitution", body)
	if err != nil {
		t.Fatal(err)
	}
	ids := func(from, n, step int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("run-%02d", from+i*step))
		}
		return all
	}
	want := &constitution.SimulationResult{
		From: r.clock.Now().AddDate(0, 0, -7), To: r.clock.Now(), RunsChecked: 30, ActsChecked: 90, Blocked: 24, Waiting: 1,
		ByRule: []constitution.SimulationGroup{
			{RuleID: "looks", Decision: "block", Shadow: true, Acts: 30, Runs: 30, RunIDs: ids(0, 20, 1)},
			{RuleID: "large", Decision: "block", Acts: 24, Runs: 24, RunIDs: ids(6, 20, 1)},
			{RuleID: "asks", Decision: "require_approval", Acts: 1, Runs: 1, RunIDs: ids(0, 1, 1)},
			{RuleID: "largest", Decision: "require_approval", Acts: 1, Runs: 1, RunIDs: ids(29, 1, 1)},
		},
		ByAgent: []constitution.SimulationGroup{
			{AgentID: "a", Decision: "block", Acts: 12, Runs: 12, RunIDs: ids(6, 12, 2)},
			{AgentID: "b", Decision: "block", Acts: 12, Runs: 12, RunIDs: ids(7, 12, 2)},
			{AgentID: "a", Decision: "require_approval", Acts: 1, Runs: 1, RunIDs: ids(0, 1, 1)},
		},
		ByTool: []constitution.SimulationGroup{
			{Action: "tool:pay", Decision: "block", Acts: 24, Runs: 24, RunIDs: ids(6, 20, 1)},
			{Action: "tool:pay", Decision: "require_approval", Acts: 1, Runs: 1, RunIDs: ids(0, 1, 1)},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(constitution.SimulationGroup{}, constitution.SimulationResult{})); diff != "" {
		t.Error(diff)
	}
	if c, err := call[*constitution.Constitution](r, admin, "getConstitution", nil); err != nil || !c.Virtual || r.kinds() != "" {
		t.Errorf("something was stored: %+v, %v, %s", c, err, r.kinds())
	}
	next = r.clock.Now()
	from := next.Add(-time.Hour)
	body.From = &from
	if got, err := call[*constitution.SimulationResult](r, admin, "simulateConstitution", body); err != nil || !got.Truncated || !got.NextFrom.Equal(next) || asked.from != from {
		t.Errorf("truncated: %+v, %v, asked %v", got, err, asked)
	}
	to := from.Add(-time.Minute)
	for _, bad := range []constitution.SimulationIn{
		{From: &from, To: &to}, {Rules: []constitution.Rule{{RuleID: "r", Principle: "p", Condition: "1 +"}}},
		{Rules: []constitution.Rule{{RuleID: "r", Principle: "p"}, {RuleID: "r", Principle: "p"}}},
	} {
		if _, err := call[*constitution.SimulationResult](r, admin, "simulateConstitution", bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A simulation ends with its request or when its time is up, and a company has one at a
// time.
func TestSimulationsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqldbtest.Open(t, sqldbtest.SQLite))
	body := constitution.SimulationIn{Rules: []constitution.Rule{{RuleID: "r", Principle: "p", Action: "tool:*"}}}
	ctx, cancel := context.WithCancel(t.Context())
	r.ConnectRuns(func(_ context.Context, tenant string, _, _ time.Time, _ int, yield func(policy.Run, policy.Act) bool) (int, time.Time, error) {
		if _, err := call[*constitution.SimulationResult](r, admin, "simulateConstitution", body); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second one: %v", err)
		}
		cancel()
		for n := 0; yield(policy.Run{TenantID: tenant, RunID: "r"}, policy.ToolAct("x", "", nil)); n++ {
			if n > 100 {
				return 0, time.Time{}, errors.New("it did not end")
			}
		}
		return 0, time.Time{}, nil
	})
	if _, err := constitution.Simulate(ctx, r.Service, admin, body); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r.ConnectRuns(func(_ context.Context, tenant string, _, _ time.Time, _ int, yield func(policy.Run, policy.Act) bool) (int, time.Time, error) {
		for n := 0; yield(policy.Run{TenantID: tenant, RunID: "r"}, policy.ToolAct("x", "", nil)); n++ {
			r.clock.Advance(10 * time.Second)
		}
		return 0, r.clock.Now(), nil
	})
	if got, err := call[*constitution.SimulationResult](r, admin, "simulateConstitution", body); err != nil || !got.Truncated || got.ActsChecked > 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

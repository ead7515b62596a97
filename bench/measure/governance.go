package main

import (
	"fmt"
	"strings"

	"agentd/bench/load"
)

// judgedRules is how many rules the acts of a run are checked against.
const judgedRules = 200

// governed measures what rules add to a run of tool calls, beside a server that has them
// switched off.
func governed(b *bench) error {
	sim, err := b.startToolModel()
	if err != nil {
		return err
	}
	defer sim.stop()
	with, err := b.start(b.agentd, sim)
	if err != nil {
		return err
	}
	defer with.stop()
	switchedOff := b.agentd
	environment := switchedOff.env
	switchedOff.env = func(addr, dir string, model *process) []string {
		return append(environment(addr, dir, model), "AGENTD_GOVERNANCE=off")
	}
	without, err := b.start(switchedOff, sim)
	if err != nil {
		return err
	}
	defer without.stop()
	if err := with.legislate(judgedRules); err != nil {
		return err
	}
	for _, clients := range []int{1, 16} {
		var plans [2]load.Plan
		for i, p := range []*process{with, without} {
			agent, err := p.newAgentOf(calculatingAgent)
			if err != nil {
				return err
			}
			plans[i] = load.Plan{Addr: p.addr, PID: p.pid(), Request: chatOf(agent, false), Clients: clients, Want: lastToken}
		}
		mine, theirs, err := b.pair(plans[0], plans[1])
		if err != nil {
			return err
		}
		const acts = 2*toolRounds + 1
		what := fmt.Sprintf("%d rules, a run of %d acts, clients %d", judgedRules, acts, clients)
		if clients == 1 {
			b.report(what+": added to each, p99", (mine.P99 / acts).String(), (theirs.P99 / acts).String(),
				milliseconds(mine.P99-theirs.P99)/acts, atMost(0.1, " ms"))
		}
		b.report(what+": CPU", mine.CPU.String(), theirs.CPU.String(), float64(mine.CPU)/float64(theirs.CPU), atMost(1.05, ""))
	}
	return nil
}

// legislate makes a constitution of n rules, of which a third judges every call of a
// tool, a third every call of a model, each with a condition that is false, and the
// others other acts.
func (p *process) legislate(n int) error {
	rules := make([]string, n)
	for i := range rules {
		action := [...]string{"tool:*", "model:*", "delegate"}[i%3]
		rules[i] = fmt.Sprintf(`{"rule_id":"r%[1]d","principle":"No more than %[1]d.","action":%[2]q,`+
			`"condition":"has(args.amount) && args.amount > %[1]d"}`, i, action)
	}
	body := `{"rules":[` + strings.Join(rules, ",") + `],"rationale":"To be measured."}`
	status, answer, err := p.ask("PUT", "/api/v1/governance/constitution", body)
	if err == nil && status != 200 {
		err = fmt.Errorf("the constitution: %d %s", status, answer)
	}
	return err
}

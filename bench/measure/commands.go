package main

import (
	"fmt"
	"os/exec"
	"time"

	"agentd/bench/load"
)

// computingAgent is an agent without a model: it calls the tools that a message names.
const computingAgent = `{"name":"bench","model":{"provider":"custom","model_ref":"builtin/echo"},` +
	`"built_in_tools":["run_code","calculator"]}`

// commands measures what the sandbox adds to a command of a workspace, and run_code once
// its engine is compiled, beside a tool that does next to nothing.
func commands(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	p, err := b.start(b.agentd, sim)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := b.code(p); err != nil {
		return err
	}
	return b.confined(p)
}

func (b *bench) code(p *process) error {
	agent, err := p.newAgentOf(computingAgent)
	if err != nil {
		return err
	}
	plan := func(call, want string) load.Plan {
		r := chatOf(agent, false)
		r.Body = fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, agent, call)
		return load.Plan{Addr: p.addr, Request: r, Clients: 1, Want: want}
	}
	own := plan(`call run_code {"code":"6*7"}`, "42")
	if _, _, err := p.ask("POST", own.Request.Path, own.Request.Body); err != nil { // the engine is compiled
		return err
	}
	with, beside, err := b.pair(own, plan(`call calculator {"expression":"6*7"}`, "42"))
	if err != nil {
		return err
	}
	b.report("run_code, warm: over a call of calculator, p50", with.P50.String(), beside.P50.String(),
		milliseconds(with.P50-beside.P50), atMost(10, " ms"))
	b.report("the same: p99", with.P99.String(), beside.P99.String(), milliseconds(with.P99-beside.P99), atMost(10, " ms"))
	return nil
}

// confined compares a command through the API, on a workspace with files, with the same
// program started by this one.
func (b *bench) confined(p *process) error {
	const settings = `{"enabled":true,"allowed_commands":["true"]}`
	if status, answer, err := p.ask("PUT", "/api/v1/admin/config/run-command", settings); err != nil || status != 200 {
		return fmt.Errorf("allowing commands: %d %s: %w", status, answer, err)
	}
	id, err := p.create("/api/v1/workspaces", `{}`, "workspace_id")
	if err != nil {
		return err
	}
	workspace := "/api/v1/workspaces/" + id
	for i := range 10 {
		path := fmt.Sprintf("%s/files?path=notes-%d.txt", workspace, i)
		if status, answer, err := p.ask("PUT", path, "A note.\n"); err != nil || status/100 != 2 {
			return fmt.Errorf("PUT %s answered %d: %s: %w", path, status, answer, err)
		}
	}
	command := load.Request{Method: "POST", Path: workspace + "/run-command", Key: key, Body: `{"command":"true"}`}
	status, answer, err := p.ask("POST", command.Path, command.Body)
	switch {
	case err != nil:
		return err
	case status == 501:
		fmt.Printf("| commands are not measured: %s | | | | | |\n", answer)
		return nil
	}
	measured := load.Plan{Addr: p.addr, Request: command, Clients: 1, Want: `"exit_code":0`}
	var alone []time.Duration
	for end := time.Now().Add(b.span); time.Now().Before(end); {
		begin := time.Now()
		if err := exec.Command("true").Run(); err != nil {
			return err
		}
		alone = append(alone, time.Since(begin))
	}
	all, err := b.inTurn(measured)
	if err != nil {
		return err
	}
	own := all[0]
	for _, q := range []struct {
		name        string
		own, beside time.Duration
	}{{"p50", own.P50, load.Quantile(alone, .5)}, {"p99", own.P99, load.Quantile(alone, .99)}} {
		b.report("a command of a workspace: over the same outside, "+q.name, q.own.String(), q.beside.String(),
			milliseconds(q.own-q.beside), atMost(50, " ms"))
	}
	return nil
}

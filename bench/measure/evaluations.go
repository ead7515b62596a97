package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/bench/load"
)

// casesOfEvaluation and parallelCases are those of one measured evaluation.
const (
	casesOfEvaluation = 1000
	parallelCases     = 64
)

// evaluations measures what an evaluation adds to the runs of its cases: as many runs at
// a time, of a model at the pace of a real one, started one by one and by an evaluation.
func evaluations(b *bench) error {
	sim, err := b.start(b.sim, nil, "-ttft", "200ms", "-delay", "5ms")
	if err != nil {
		return err
	}
	defer sim.stop()
	p, err := b.start(b.agentd, sim)
	if err != nil {
		return err
	}
	defer p.stop()
	agent, err := p.newAgent()
	if err != nil {
		return err
	}
	cases := strings.Repeat(`,{"input":{"message":"Say something."},"expected_output":"tok19"}`, casesOfEvaluation)[1:]
	dataset, err := p.create("/api/v1/agents/"+agent+"/datasets", `{"name":"bench","cases":[`+cases+`]}`, "dataset_id")
	if err != nil {
		return err
	}
	runs, err := b.inTurn(load.Plan{
		Addr: p.addr, Request: chatOf(agent, false), Clients: parallelCases, Want: lastToken, PID: p.pid(),
	})
	if err != nil {
		return err
	}
	took, cpu, err := p.evaluate(agent, dataset)
	if err != nil {
		return err
	}
	alone := time.Duration(casesOfEvaluation / runs[0].PerSecond * float64(time.Second))
	what := fmt.Sprintf("an evaluation of %d cases, %d at a time: ", casesOfEvaluation, parallelCases)
	b.report(what+"time over that of as many runs", took.String(), alone.String(), float64(took)/float64(alone), atMost(1.1, ""))
	b.report(what+"CPU over that of as many runs", cpu.String(), (runs[0].CPU * casesOfEvaluation).String(),
		float64(cpu)/float64(runs[0].CPU*casesOfEvaluation), atMost(1.1, ""))
	return nil
}

// evaluate evaluates an agent on a dataset, and returns how long that took.
func (p *process) evaluate(agent, dataset string) (took, cpu time.Duration, err error) {
	before, err := load.Of(p.pid())
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	path := "/api/v1/agents/" + agent + "/evaluations"
	id, err := p.create(path, fmt.Sprintf(`{"dataset_id":%q,"scorers":["contains"],"concurrency":%d}`, dataset, parallelCases), "eval_run_id")
	if err != nil {
		return 0, 0, err
	}
	for {
		time.Sleep(50 * time.Millisecond)
		status, answer, err := p.ask("GET", path+"/"+id, "")
		if err != nil || status != http.StatusOK {
			return 0, 0, fmt.Errorf("the evaluation answered %d: %s: %w", status, answer, err)
		}
		var seen struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal(answer, &seen); err != nil {
			return 0, 0, err
		}
		switch seen.Status {
		case "queued", "running":
			continue
		case "completed":
			after, err := load.Of(p.pid())
			return time.Since(start), after.CPU - before.CPU, err
		}
		return 0, 0, fmt.Errorf("the evaluation is %s: %s", seen.Status, answer)
	}
}

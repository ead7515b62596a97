package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentd/bench/load"
)

// wiresOf are the wires beside chat completions, with what their providers need.
var wiresOf = []struct {
	wire, base, members string
}{
	{"azure_openai", "", `"api_key":"none"`},
	{"openai_responses", "/v1", `"api_key":"none"`},
	{"anthropic", "", `"api_key":"none"`},
	{"gemini", "", `"api_key":"none"`},
	{"bedrock", "", `"region":"eu-central-1","aws":{"access_key_id":"AKIDEXAMPLE","secret_access_key":"none"}`},
}

// wires measures persisted runs over each wire beside one over chat completions.
func wires(b *bench) error {
	own := b.sim
	own.name = "simmodel" // other yardsticks speak chat completions only
	sim, err := b.start(own, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	var providers []string
	for _, w := range wiresOf {
		providers = append(providers, fmt.Sprintf(`{"name":"by_%s","wire":%[1]q,"base_url":%q,%s,"models":[{"id":"sim-model"}]}`,
			w.wire, sim.url()+w.base, w.members))
	}
	file := filepath.Join(b.dir, "providers.json")
	if err := os.WriteFile(file, []byte(`{"providers":[`+strings.Join(providers, ",")+`]}`), 0o600); err != nil {
		return err
	}
	withAll := b.agentd
	withAll.env = func(addr, dir string, sim *process) []string {
		return append(b.agentd.env(addr, dir, sim), "AGENTD_PROVIDERS="+file)
	}
	p, err := b.start(withAll, sim)
	if err != nil {
		return err
	}
	defer p.stop()
	var plans []load.Plan
	for i := range len(wiresOf) + 1 {
		body := agentBody
		if i > 0 {
			body = strings.Replace(body, "sim-model", fmt.Sprintf("by_%s/sim-model", wiresOf[i-1].wire), 1)
		}
		agent, err := p.newAgentOf(body)
		if err != nil {
			return err
		}
		plans = append(plans, load.Plan{Addr: p.addr, Request: chatOf(agent, true), Clients: 16, Want: lastToken, PID: p.pid()})
	}
	all, err := b.inTurn(plans...)
	if err != nil {
		return err
	}
	chat := all[0]
	for i, w := range wiresOf {
		what := fmt.Sprintf("runs over %s, streamed, clients: 16", w.wire)
		other := all[i+1]
		b.report(what, rate(other), rate(chat), other.PerSecond/chat.PerSecond, atLeast(.85))
		b.report(what+": CPU of a run", other.CPU.String(), chat.CPU.String(), float64(other.CPU)/float64(chat.CPU), atMost(1.15, ""))
	}
	return nil
}

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"agentd/bench/load"
)

// passage is a route of the model proxy, and what one asks there.
type passage struct {
	name string
	path string
	body string // %t: whether it is streamed
	mark string // of the first token
}

const question = `"messages":[{"role":"user","content":"Say something in twenty tokens."}]`

var passages = []passage{
	{"LLM proxy", "/api/v1/llm/chat/completions", `{"model":"default/sim-model","stream":%t,` + question + `}`, firstToken},
	{"messages", "/v1/messages", `{"model":"default/sim-model","max_tokens":100,"stream":%t,` + question + `}`, `"text":"tok0`},
}

func (p passage) request(stream bool) load.Request {
	return load.Request{Method: "POST", Path: p.path, Key: key, Body: fmt.Sprintf(p.body, stream)}
}

var kinds = map[bool]string{false: "plain", true: "streamed"}

// proxied starts a model, the reverse proxy before it, and agentd.
func (b *bench) proxied(model ...string) (sim, beside, own *process, stop func(), err error) {
	var all []*process
	stop = func() {
		for _, p := range all {
			p.stop()
		}
	}
	add := func(what program, before *process, extra ...string) *process {
		if err != nil {
			return nil
		}
		var p *process
		if p, err = b.start(what, before, extra...); err == nil {
			all = append(all, p)
		}
		return p
	}
	sim = add(b.sim, nil, model...)
	beside = add(b.proxy, sim)
	own = add(b.agentd, sim)
	return sim, beside, own, stop, err
}

// proxy compares the routes of the model proxy with a reverse proxy that does
// nothing but pass bytes on.
func proxy(b *bench) error {
	_, beside, own, stop, err := b.proxied()
	defer stop()
	if err != nil {
		return err
	}
	for _, p := range passages {
		for _, stream := range []bool{false, true} {
			for _, clients := range []int{1, 16, 64} {
				mine, theirs, err := b.pair(
					load.Plan{Addr: own.addr, Request: p.request(stream), Clients: clients, Want: lastToken, PID: own.pid()},
					load.Plan{Addr: beside.addr, Request: chatOf("sim-model", stream), Clients: clients, Want: lastToken, PID: beside.pid()})
				if err != nil {
					return err
				}
				what := fmt.Sprintf("%s, %s, clients: %d", p.name, kinds[stream], clients)
				if clients == 1 {
					b.report(what+": p50", mine.P50.String(), theirs.P50.String(), float64(mine.P50)/float64(theirs.P50), atMost(1.6, ""))
				} else {
					b.report(what, rate(mine), rate(theirs), mine.PerSecond/theirs.PerSecond, atLeast(.7))
				}
				b.report(what+": CPU of a call", mine.CPU.String(), theirs.CPU.String(), float64(mine.CPU)/float64(theirs.CPU), atMost(1.8, ""))
			}
		}
	}
	return nil
}

// pacedProxy measures how much later than the model's the first token is.
func pacedProxy(b *bench) error {
	sim, beside, own, stop, err := b.proxied("-ttft", "50ms", "-delay", "10ms")
	defer stop()
	if err != nil {
		return err
	}
	for _, p := range passages {
		for _, clients := range []int{1, 16} {
			// Sixteen that start at the same moment queue for the cores: what counts
			// then is how much longer than at a proxy that does nothing.
			with, what := load.Plan{Addr: sim.addr, Request: chatOf("sim-model", true), Mark: firstToken}, "the model's"
			if clients > 1 {
				with.Addr, what = beside.addr, "the reverse proxy's"
			}
			with.Clients, with.Want = clients, lastToken
			mine, theirs, err := b.pair(load.Plan{Addr: own.addr, Request: p.request(true), Clients: clients, Want: lastToken, Mark: p.mark}, with)
			if err != nil {
				return err
			}
			b.report(fmt.Sprintf("%s, paced, clients: %d: first token later than %s", p.name, clients, what), mine.MarkedP50.String(),
				theirs.MarkedP50.String(),
				milliseconds(mine.MarkedP50-theirs.MarkedP50), atMost(1, " ms"))
		}
	}
	return nil
}

// largeTokens make an answer of about 1 MB.
const largeTokens = 110_000

var allocated = regexp.MustCompile(`(?m)^go_memstats_alloc_bytes_total ([0-9.e+]+)$`)

// allocations is how many bytes a process allocated since it began.
func (p *process) allocations() (float64, error) {
	_, text, err := p.ask("GET", "/metrics", "")
	if err != nil {
		return 0, err
	}
	found := allocated.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("the metrics do not tell what was allocated")
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// largeAnswers counts the copies that an answer costs: the bytes that are
// allocated for it, as a multiple of its own.
func largeAnswers(b *bench) error {
	_, _, own, stop, err := b.proxied("-tokens", strconv.Itoa(largeTokens))
	defer stop()
	if err != nil {
		return err
	}
	for _, p := range passages {
		for _, stream := range []bool{false, true} {
			const calls = 20
			var before, size float64
			for i := range calls + 2 {
				if i == 2 { // the first ones make what is kept
					if before, err = own.allocations(); err != nil {
						return err
					}
				}
				status, answer, err := own.ask("POST", p.path, fmt.Sprintf(p.body, stream))
				if err != nil || status != 200 {
					return fmt.Errorf("%s answered %d: %.300s: %w", p.path, status, answer, err)
				}
				size = float64(len(answer))
			}
			after, err := own.allocations()
			if err != nil {
				return err
			}
			b.report(fmt.Sprintf("%s, %s, an answer of %.1f MB: copies of it", p.name, kinds[stream], size/1e6), "", "",
				(after-before)/calls/size, atMost(3, ""))
		}
	}
	return nil
}

// soakedProxy sees whether memory grows with the number of calls.
func soakedProxy(b *bench) error {
	_, _, own, stop, err := b.proxied()
	defer stop()
	if err != nil {
		return err
	}
	const all = 500_000
	var early, late int64
	done := 0
	for i := 0; done < all; i++ {
		r, err := load.Run(load.Plan{Addr: own.addr, Request: passages[i%2].request(i%4 < 2), Clients: 64, Want: lastToken,
			Measure: 5 * time.Second})
		if err != nil {
			return err
		}
		if r.Failed > 0 || r.OK == 0 {
			return fmt.Errorf("%d answers, %d failures, the first: %s", r.OK, r.Failed, r.FirstError)
		}
		done += r.OK
		u, err := load.Of(own.pid())
		if err != nil {
			return err
		}
		if early == 0 && done > all/10 {
			early = u.Resident
		}
		late = u.Resident
	}
	b.report("model proxy, memory after 500,000 calls against that after 50,000", fmt.Sprintf("%.0f MiB", float64(late)/mib),
		fmt.Sprintf("%.0f MiB", float64(early)/mib),
		float64(late)/float64(early), atMost(1.1, ""))
	return nil
}

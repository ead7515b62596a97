package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/bench/load"
)

const (
	manyVisitors  = 10_000
	visitedAgents = 100 // whose visitors they are
)

// visitors measures a busy API alone, beside the streams of many visitors, and alone
// again: what the streams add to its p99, and what one costs.
func visitors(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	behindProxy := b.agentd
	behindProxy.env = func(addr, dir string, model *process) []string {
		return append(b.agentd.env(addr, dir, model), "AGENTD_TRUSTED_PROXIES=127.0.0.1")
	}
	p, err := b.start(behindProxy, sim)
	if err != nil {
		return err
	}
	defer p.stop()
	agent, err := p.newAgent()
	if err != nil {
		return err
	}
	n := manyVisitors
	if b.quick {
		n /= 10
	}
	paths, err := p.admit(n)
	if err != nil {
		return err
	}
	plan := load.Plan{Addr: p.addr, Request: chatOf(agent, false), Clients: 16, Want: lastToken, PID: p.pid()}
	alone, err := b.p99s(plan)
	if err != nil {
		return err
	}
	before, err := load.Of(p.pid())
	if err != nil {
		return err
	}
	all, err := load.OpenEach(p.addr, n, func(i int) load.Request {
		return load.Request{Method: "GET", Path: paths[i], From: addressOf(i)}
	})
	if err != nil {
		return err
	}
	time.Sleep(settle)
	after, err := load.Of(p.pid())
	var beside []time.Duration
	if err == nil {
		beside, err = b.p99s(plan)
	}
	if _, ended := all.Waits(); err == nil && ended > 0 {
		err = fmt.Errorf("%d of %d streams of visitors ended", ended, n)
	}
	all.Close()
	if err != nil {
		return err
	}
	time.Sleep(settle)
	again, err := b.p99s(plan)
	if err != nil {
		return err
	}
	alone = append(alone, again...)
	with, without := load.Quantile(beside, .5), load.Quantile(alone, .5)
	b.report(fmt.Sprintf("the stream of one of %d visitors: memory", n), "", "",
		float64(after.Resident-before.Resident)/float64(n)/1024, atMost(64, " KiB"))
	b.report(fmt.Sprintf("chat completions, clients: 16, beside the streams of %d visitors: p99", n), with.String(), without.String(),
		float64(with)/float64(without), atMost(1.2, ""))
	return nil
}

// p99s measures a plan several times.
func (b *bench) p99s(plan load.Plan) (all []time.Duration, err error) {
	plan.Measure, plan.Warm = b.span, b.span/4
	for range max(b.runs, 3) {
		r, err := load.Run(plan)
		if err == nil && (r.Failed > 0 || r.OK == 0) {
			err = fmt.Errorf("%d answers, %d failures, the first: %s", r.OK, r.Failed, r.FirstError)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r.P99)
	}
	return all, nil
}

// admit begins the sessions of n visitors, and returns the paths of their streams.
func (p *process) admit(n int) (paths []string, err error) {
	const limits = `{"sessions_per_address_per_minute":100000,"sessions_per_address_per_hour":1000000,` +
		`"streams_per_address_per_minute":100000,"sessions_per_agent":1000000}`
	if status, answer, err := p.ask("PUT", "/api/v1/admin/config/public-chat", limits); err != nil || status != 200 {
		return nil, fmt.Errorf("the limits of visitors: %d %s: %w", status, answer, err)
	}
	agents := make([]string, visitedAgents)
	for i := range agents {
		body := fmt.Sprintf(`{"name":"for visitors %d","visibility":"public","public_config":{"enabled":true}}`, i)
		if agents[i], err = p.newAgentOf(body); err != nil {
			return nil, err
		}
	}
	const clients = 8
	paths = make([]string, n)
	failed := make([]error, clients)
	var coming sync.WaitGroup
	for client := range clients {
		coming.Go(func() {
			for i := client; i < n && failed[client] == nil; i += clients {
				paths[i], failed[client] = p.visit(agents[i%visitedAgents], addressOf(i))
			}
		})
	}
	coming.Wait()
	return paths, errors.Join(slices.DeleteFunc(failed, func(err error) bool { return err == nil })...)
}

// addressOf is the network address of a visitor.
func addressOf(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255) }

// visit begins a session, and returns the path of its stream.
func (p *process) visit(agent, from string) (string, error) {
	body := fmt.Sprintf(`{"agent_id":%q,"fresh":true}`, agent)
	req, err := http.NewRequest("POST", p.url()+"/api/v1/public/sessions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", from)
	resp, err := busy.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var made struct {
		ID    string `json:"session_id"`
		Token string `json:"token"`
	}
	if err := json.Unmarshal(answer, &made); err != nil || made.Token == "" {
		return "", fmt.Errorf("beginning a session answered %s: %s", resp.Status, answer)
	}
	return "/api/v1/public/sessions/" + made.ID + "/events?token=" + made.Token, nil
}

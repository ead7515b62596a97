package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/bench/load"
	"agentd/bench/receive"
)

// company is a tenant whose receivers get its agent.updated events.
type company struct {
	p         *process
	key       string
	agents    []string
	receivers []*receive.Receiver
	hooks     []string // their subscriptions
	sent      atomic.Int64
}

// sender is agentd that may reach receivers on this machine.
func (b *bench) sender() program {
	p := b.agentd
	env := p.env
	p.env = func(addr, dir string, model *process) []string {
		return append(env(addr, dir, model), "AGENTD_EGRESS_ALLOW=127.0.0.1", "AGENTD_WEBHOOK_RETRY_WAITS=200ms,500ms,1s,2s")
	}
	return p
}

// call makes one request of the company and decodes its answer.
func (c *company) call(method, path, body string, into any) error {
	req, err := newRequest(method, c.p.url()+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := busy.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 {
		return fmt.Errorf("%s %s answered %s", method, path, resp.Status)
	}
	return json.UnmarshalRead(resp.Body, into)
}

// busy keeps more connections than client.
var busy = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// company makes a tenant with agents.
func (p *process) company(name string) (*company, error) {
	own := &company{p: p, key: key}
	var made struct {
		Key string `json:"raw_key"`
	}
	if err := own.call("POST", "/api/v1/admin/tenants", fmt.Sprintf(`{"name":%q,"slug":%q}`, name, name), &made); err != nil {
		return nil, err
	}
	c := &company{p: p, key: made.Key}
	for i := range 32 {
		var agent struct {
			ID string `json:"agent_id"`
		}
		if err := c.call("POST", "/api/v1/agents", fmt.Sprintf(`{"name":"bench %d"}`, i), &agent); err != nil {
			return nil, err
		}
		c.agents = append(c.agents, agent.ID)
	}
	return c, nil
}

// hear adds receivers.
func (c *company) hear(n int, answer func(receive.Request) receive.Answer) error {
	for range n {
		r, err := receive.Listen(answer)
		if err != nil {
			return err
		}
		var made struct {
			ID string `json:"webhook_id"`
		}
		if err := c.call("POST", "/api/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["agent.updated"]}`, r.URL()), &made); err != nil {
			r.Close()
			return err
		}
		c.receivers, c.hooks = append(c.receivers, r), append(c.hooks, made.ID)
	}
	return nil
}

func (c *company) close() {
	for _, r := range c.receivers {
		r.Close()
	}
}

// change makes one event and returns the mark that identifies it.
func (c *company) change() (string, error) {
	n := c.sent.Add(1)
	mark := fmt.Sprint(n)
	err := c.call("PATCH", "/api/v1/agents/"+c.agents[int(n)%len(c.agents)], `{"description":"mark-`+mark+`"}`, &struct{}{})
	return mark, err
}

// changeAll makes n events from several clients, for at most so long, and says
// how many it made.
func (c *company) changeAll(n int, most time.Duration) (int, error) {
	end := time.Now().Add(most)
	var wg sync.WaitGroup
	var left, made atomic.Int64
	left.Store(int64(n))
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() {
			for left.Add(-1) >= 0 && time.Now().Before(end) {
				if _, errs[i] = c.change(); errs[i] != nil {
					return
				}
				made.Add(1)
			}
		})
	}
	wg.Wait()
	return int(made.Load()), errors.Join(errs...)
}

// pace makes so many events a second for a while, whatever becomes of them.
func (c *company) pace(perSecond float64, span time.Duration) (int, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	slots := make(chan struct{}, 32)
	begin, made := time.Now(), 0
	for ; time.Since(begin) < span; made++ {
		time.Sleep(time.Until(begin.Add(time.Duration(float64(made) / perSecond * float64(time.Second)))))
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, err := c.change(); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return made, failed
}

func accepted(all []*receive.Receiver) (n int) {
	for _, r := range all {
		n += r.Accepted()
	}
	return n
}

// arrived waits until receivers have taken so many events in all, and says how
// long that took.
func arrived(all []*receive.Receiver, want int, most time.Duration) (time.Duration, error) {
	begin := time.Now()
	for accepted(all) < want {
		if time.Since(begin) > most {
			return 0, fmt.Errorf("%d of %d events arrived within %v", accepted(all), want, most)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begin), nil
}

func at(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))].Round(100 * time.Microsecond)
}

// webhooks measures how many deliveries a second reach receivers: from a
// backlog, compared with the floor of one, and as events happen.
func webhooks(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	for _, receivers := range []int{1, 10, 50} {
		if err := b.deliveries(sim, receivers); err != nil {
			return err
		}
	}
	return nil
}

// wanted is how many deliveries a second there are to be.
const wanted = 2000

func (b *bench) deliveries(sim *process, receivers int) error {
	p, err := b.start(b.sender(), sim)
	if err != nil {
		return err
	}
	defer p.stop()
	c, err := p.company("acme")
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.hear(receivers, receive.OK); err != nil {
		return err
	}
	var rates []float64
	for range b.runs {
		for _, r := range c.receivers {
			r.Reset()
			r.Hold()
		}
		made, err := c.changeAll(10_000/receivers, 6*time.Second)
		if err != nil {
			return err
		}
		for _, r := range c.receivers {
			r.Release()
		}
		took, err := arrived(c.receivers, made*receivers, time.Minute)
		if err != nil {
			return err
		}
		rates = append(rates, float64(made*receivers)/took.Seconds())
	}
	slices.Sort(rates)
	middle := rates[len(rates)/2]
	what := fmt.Sprintf("webhooks, receivers: %d", receivers)
	b.report(what+": deliveries a second from a backlog", "", "", middle, atLeast(wanted))
	for _, r := range c.receivers {
		r.Reset()
	}
	if receivers == 1 {
		return b.outboxed(c)
	}
	begin := time.Now()
	made, err := c.pace(float64(wanted)/float64(receivers), 3*b.span)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	by := accepted(c.receivers)
	if _, err := arrived(c.receivers, made*receivers, time.Minute); err != nil {
		return err
	}
	b.report(what+": deliveries a second as they happen", "", "", float64(by)/took.Seconds(), atLeast(.95*wanted))
	late := receive.Late(c.receivers...)
	b.report(what+": from commit to arrival, p99", "p50 "+at(late, .5).String(), "", milliseconds(at(late, .99)), atMost(1000, " ms"))
	return nil
}

// outboxed compares updating an agent of a tenant with a receiver against one
// of a tenant without receivers.
func (b *bench) outboxed(c *company) error {
	quiet, err := c.p.company("quiet")
	if err != nil {
		return err
	}
	plan := func(c *company) load.Plan {
		return load.Plan{Addr: c.p.addr, Clients: 64, Want: "agent_id", Request: load.Request{
			Method: "PATCH", Path: "/api/v1/agents/" + c.agents[0], Key: c.key, Body: `{"description":"mark-{{n}}"}`,
		}}
	}
	mine, theirs, err := b.pair(plan(c), plan(quiet))
	if err != nil {
		return err
	}
	b.report("change an agent with a subscription, 64 clients", rate(mine), rate(theirs), mine.PerSecond/theirs.PerSecond, atLeast(.5))
	return nil
}

// hangingReceivers measures what 50 receivers that never answer do to others.
func hangingReceivers(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	p, err := b.start(b.sender(), sim)
	if err != nil {
		return err
	}
	defer p.stop()
	var all []*company
	for i, hanging := range []int{45, 5, 0} { // a tenant has 50 at most
		c, err := p.company(fmt.Sprint("company-", i))
		if err != nil {
			return err
		}
		defer c.close()
		if err := c.hear(5, receive.OK); err != nil {
			return err
		}
		if err := c.hear(hanging, receive.Never); err != nil {
			return err
		}
		all = append(all, c)
	}
	var wg sync.WaitGroup
	made, errs := make([]int, len(all)), make([]error, len(all))
	for i, c := range all {
		wg.Go(func() { made[i], errs[i] = c.pace(30, 15*time.Second) }) // beyond the first time-outs
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, what := range []string{"of a tenant with 45 that hang", "of one with 5 that hang", "of one with none"} {
		well := all[i].receivers[:5]
		if _, err := arrived(well, 5*made[i], time.Minute); err != nil {
			return err
		}
		late := receive.Late(well...)
		b.report("webhooks, 50 receivers hang: p99 of the healthy "+what, "p50 "+at(late, .5).String(), "", milliseconds(at(late, .99)),
			atMost(2000, " ms"))
	}
	return nil
}

// killedSender kills agentd ten times while it delivers 2,000 events to each of
// ten receivers, two of which fail at first.
func killedSender(b *bench) error {
	const events, healthy, failing, kills = 2000, 8, 2, 10
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	p, err := b.start(b.sender(), sim)
	if err != nil {
		return err
	}
	defer func() { p.stop() }() // the last one that was started
	c, err := p.company("acme")
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.hear(healthy, receive.OK); err != nil {
		return err
	}
	for range failing {
		if err := c.hear(1, failsEverySecond()); err != nil {
			return err
		}
	}
	changes := c.startChanges(events, 8)
	for i := range kills {
		// At even parts of the way, so that each is in the middle of deliveries.
		for accepted(c.receivers) < (i+1)*events*(healthy+failing)/(kills+1) {
			time.Sleep(time.Millisecond)
		}
		if p, err = b.killAndRestart(p, sim); err != nil {
			return err
		}
	}
	return b.reportDeliveries(c, changes(), kills)
}

// failsEverySecond answers the first attempt at every second event with 500.
func failsEverySecond() func(receive.Request) receive.Answer {
	seen := 0
	return func(r receive.Request) receive.Answer {
		if r.Before > 0 {
			return 204
		}
		if seen++; seen%2 == 0 {
			return 500
		}
		return 204
	}
}

// killAndRestart kills a process and starts another on its address and data. On
// an error the returned process is the killed one, which can be stopped again.
func (b *bench) killAndRestart(p, sim *process) (*process, error) {
	if err := p.cmd.Process.Kill(); err != nil {
		return p, err
	}
	_ = p.cmd.Wait() // it reports the kill
	next, err := b.startAt(p.addr, p.dir, b.sender(), sim)
	if err != nil {
		return p, err
	}
	return next, nil
}

// startChanges makes so many changes from some goroutines. A change that fails,
// because there is no server at the moment, is made again with another mark.
// The returned function waits and returns the marks of the changes that were
// answered, whose events must arrive.
func (c *company) startChanges(events int64, goroutines int) (wait func() map[string]bool) {
	answered := make(chan string, 2*events)
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(events)
	for range goroutines {
		wg.Go(func() {
			for left.Load() > 0 {
				mark, err := c.change()
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				left.Add(-1)
				answered <- mark
			}
		})
	}
	return func() map[string]bool {
		wg.Wait()
		close(answered)
		marks := map[string]bool{}
		for mark := range answered {
			marks[mark] = true
		}
		return marks
	}
}

// reportDeliveries waits up to a minute for the events of answered changes, and
// reports what is missing, what came more than once, and subscriptions that the
// kills deactivated.
func (b *bench) reportDeliveries(c *company, answered map[string]bool, kills int) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && missing(c.receivers, answered) > 0; {
		time.Sleep(100 * time.Millisecond)
	}
	repeats, total := 0, accepted(c.receivers)
	for _, r := range c.receivers {
		repeats += r.Repeats()
	}
	inactive, err := c.inactive()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("webhooks, %d kills: ", kills)
	b.report(name+"events that did not arrive", "", "", float64(missing(c.receivers, answered)), atMost(0, ""))
	b.report(name+"arrived more than once", fmt.Sprint(repeats), fmt.Sprint(total), 100*float64(repeats)/float64(total), atMost(1, " %"))
	b.report(name+"subscriptions that are not active then", "", "", float64(inactive), atMost(0, ""))
	return nil
}

// inactive returns how many subscriptions are not active.
func (c *company) inactive() (n int, err error) {
	for _, id := range c.hooks {
		var hook struct {
			Status string `json:"status"`
		}
		if err := c.call("GET", "/api/v1/webhooks/"+id, "", &hook); err != nil {
			return n, err
		}
		if hook.Status != "active" {
			n++
		}
	}
	return n, nil
}

// missing counts the events that a receiver did not accept: those whose change
// was answered, and those that another receiver accepted. Deliveries with the
// same mark must have the same ID.
func missing(all []*receive.Receiver, answered map[string]bool) (n int) {
	ids := map[string]string{}
	for mark := range answered {
		ids[mark] = ""
	}
	for _, r := range all {
		maps.Copy(ids, r.Marks())
	}
	for _, r := range all {
		marks := r.Marks()
		for mark, id := range ids {
			if marks[mark] != id || id == "" {
				n++
			}
		}
	}
	return n
}

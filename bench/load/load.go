// Package load asks a server as fast as it answers: so many clients, each
// sending its next request when the last one is answered, each over a
// connection of its own.
package load

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Request is what every client sends, again and again.
type Request struct {
	Method string
	Path   string
	Key    string // API key; empty: none
	Body   string // JSON; every "{{n}}" in it becomes a number that never repeats
	Once   bool   // with an Idempotency-Key of its own each time
	From   string // address of the client, as a proxy says it; empty: no proxy
}

// Plan is one measurement.
type Plan struct {
	Addr    string // host:port
	Request Request
	Clients int
	Warm    time.Duration // before anything is counted
	Measure time.Duration
	Want    string // text that every good answer contains
	Mark    string // text whose arrival is timed: the first token; empty: nothing
	PID     int    // process whose CPU time is read before and after; 0: none
}

// Result is what the clients saw within the measured time.
type Result struct {
	OK, Failed int
	FirstError string
	PerSecond  float64
	P50, P99   time.Duration
	MarkedP50  time.Duration
	CPU        time.Duration // of the process, per answer
}

// bytes renders the request for one client and one number.
func (r Request) bytes(addr string, n int64) []byte {
	body := bytes.ReplaceAll([]byte(r.Body), []byte("{{n}}"), fmt.Append(nil, n))
	out := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, addr)
	if r.Key != "" {
		out = fmt.Appendf(out, "Authorization: Bearer %s\r\n", r.Key)
	}
	if r.From != "" {
		out = fmt.Appendf(out, "X-Forwarded-For: %s\r\n", r.From)
	}
	if r.Once {
		out = fmt.Appendf(out, "Idempotency-Key: bench-%d\r\n", n)
	}
	if r.Method != "GET" {
		out = fmt.Appendf(out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append(append(out, "\r\n"...), body...)
}

// Numbers start at the clock, so that they do not repeat over processes.
var (
	first  = time.Now().UnixMicro()
	serial atomic.Int64
)

func number() int64 { return first + serial.Add(1) }

// client is what one of them saw.
type client struct {
	totals, marks []time.Duration
	failed        int
	firstError    string
}

// Run measures once.
func Run(p Plan) (Result, error) { return RunAll([]Plan{p}) }

// RunAll measures plans at the same time, which is that of the first; the result is
// of all their clients together, with the CPU time of the first's process.
func RunAll(plans []Plan) (Result, error) {
	first := plans[0]
	begin := time.Now().Add(first.Warm)
	end := begin.Add(first.Measure)
	var clients []*client
	var running sync.WaitGroup
	for _, p := range plans {
		for range p.Clients {
			c := &client{}
			clients = append(clients, c)
			running.Go(func() { c.work(p, begin, end) })
		}
	}
	time.Sleep(time.Until(begin))
	before, err := usageOf(first.PID)
	if err != nil {
		return Result{}, err
	}
	time.Sleep(time.Until(end))
	after, err := usageOf(first.PID)
	running.Wait()
	return sum(clients, first.Measure, after.CPU-before.CPU), err
}

func (c *client) work(p Plan, begin, end time.Time) {
	link := &conn{addr: p.Addr}
	defer link.close()
	want, mark := []byte(p.Want), []byte(p.Mark)
	varies := p.Request.Once || strings.Contains(p.Request.Body, "{{n}}")
	request := p.Request.bytes(p.Addr, number())
	for time.Now().Before(end) {
		a, err := link.exchange(request, mark)
		if varies {
			request = p.Request.bytes(p.Addr, number())
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // a server that refuses is not to be hammered
		}
		if now := time.Now(); now.Before(begin) || now.After(end) {
			continue
		}
		switch {
		case err != nil:
			c.fail(err.Error())
		case a.status < 200 || a.status > 299:
			c.fail(fmt.Sprintf("status %d: %.200s", a.status, link.body))
		case !bytes.Contains(link.body, want):
			c.fail(fmt.Sprintf("not what was wanted: %.200s", link.body))
		case len(mark) > 0 && a.marked == 0:
			c.fail(fmt.Sprintf("no first token: %.200s", link.body))
		default:
			c.totals = append(c.totals, a.total)
			c.marks = append(c.marks, a.marked)
		}
	}
}

func (c *client) fail(why string) {
	c.failed++
	if c.firstError == "" {
		c.firstError = why
	}
}

func sum(clients []*client, measured, cpu time.Duration) Result {
	var r Result
	var totals, marks []time.Duration
	for _, c := range clients {
		totals, marks = append(totals, c.totals...), append(marks, c.marks...)
		r.Failed += c.failed
		if r.FirstError == "" {
			r.FirstError = c.firstError
		}
	}
	r.OK = len(totals)
	r.PerSecond = float64(r.OK) / measured.Seconds()
	r.P50, r.P99, r.MarkedP50 = quantile(totals, .5), quantile(totals, .99), quantile(marks, .5)
	r.CPU = cpu / time.Duration(max(r.OK, 1))
	return r
}

func quantile(of []time.Duration, q float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[int(q*float64(len(of)-1))]
}

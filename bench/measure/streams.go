package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/bench/load"
)

const (
	idleStreams  = 10_000
	idleTopics   = 100 // runs that they follow
	manyReaders  = 1_000
	eventsAtOnce = 100 // a second
	settle       = 5 * time.Second

	waitingAgent = `{"name":"waits","model":{"provider":"openai_compat","model_ref":"sim-model","capabilities":{}},` +
		`"prompts":{"system":"You are brief."},"built_in_tools":["calculator"],"approval_required_tools":["calculator"]}`
	pacedMessage = "Say so many words: "
)

// stampingModel is a model, in this process, that calls a tool, or says as many
// words as it is asked for at an even pace, each the time at which it is said.
func stampingModel() (*process, func(), error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(serveStamps), ReadHeaderTimeout: time.Second}
	go server.Serve(l)
	return &process{addr: l.Addr().String()}, func() { server.Close() }, nil
}

const chunkOf = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"sim-model\"," +
	"\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n"

func serveStamps(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	words := 0
	if _, asked, found := bytes.Cut(body, []byte(pacedMessage)); found {
		fmt.Sscanf(string(asked), "%d", &words)
	}
	if words == 0 {
		fmt.Fprintf(w, chunkOf, `{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function",`+
			`"function":{"name":"calculator","arguments":"{\"expression\":\"1+1\"}"}}]}`, `"tool_calls"`)
		io.WriteString(w, "data: [DONE]\n\n")
		return
	}
	flusher := http.NewResponseController(w)
	tick := time.NewTicker(time.Second / eventsAtOnce)
	defer tick.Stop()
	for range words {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		fmt.Fprintf(w, chunkOf, fmt.Sprintf(`{"content":"%s "}`, load.Stamp()), "null")
		if flusher.Flush() != nil {
			return
		}
	}
	fmt.Fprintf(w, chunkOf, "{}", `"stop"`)
	io.WriteString(w, "data: [DONE]\n\n")
}

// streams compares event streams with the least hub there can be: what an
// idle one costs, how late an event reaches one among many, and how late it
// reaches many.
func streams(b *bench) error {
	model, stop, err := stampingModel()
	if err != nil {
		return err
	}
	defer stop()
	n, words := idleStreams, 10*eventsAtOnce
	if b.quick {
		n, words = idleStreams/5, 2*eventsAtOnce
	}
	var costs [2][]float64
	var ones, many [2][]time.Duration
	for range b.runs {
		for side, measure := range []func(*process, int, int) (streamCost, error){b.hubStreams, b.ownStreams} {
			got, err := measure(model, n, words)
			if err != nil {
				return err
			}
			costs[side] = append(costs[side], got.memory)
			ones[side] = append(ones[side], got.one)
			many[side] = append(many[side], got.many)
		}
	}
	for side := range costs {
		slices.Sort(costs[side])
		slices.Sort(ones[side])
		slices.Sort(many[side])
	}
	middle := b.runs / 2
	kib := func(side int) string { return fmt.Sprintf("%.1f KiB", costs[side][middle]/1024) }
	b.report(fmt.Sprintf("an idle stream of %d: memory", n), kib(1), kib(0), costs[1][middle]/costs[0][middle], atMost(1.15, ""))
	b.report(fmt.Sprintf("an event to one of %d streams: p99", n), ones[1][middle].String(), ones[0][middle].String(),
		milliseconds(ones[1][middle]), atMost(2, " ms"))
	b.report(fmt.Sprintf("%d readers of one run, %d events a second: p99", manyReaders, eventsAtOnce), many[1][middle].String(),
		many[0][middle].String(),
		milliseconds(many[1][middle]), atMost(100, " ms"))
	return nil
}

// streamCost is what one server came to.
type streamCost struct {
	memory    float64 // bytes of an idle stream
	one, many time.Duration
}

// hubStreams measures the floor.
func (b *bench) hubStreams(_ *process, n, words int) (c streamCost, err error) {
	p, err := b.start(b.hub, nil)
	if err != nil {
		return c, err
	}
	defer p.stop()
	publish := func(topic string) func() error {
		return func() error {
			tick := time.NewTicker(time.Second / eventsAtOnce)
			defer tick.Stop()
			for range words {
				<-tick.C
				if status, answer, err := p.ask("POST", "/pub?topic="+topic, load.Stamp()); err != nil || status/100 != 2 {
					return fmt.Errorf("publishing answered %d: %s: %w", status, answer, err)
				}
			}
			return nil
		}
	}
	return p.measureStreams(n, words, func(i int) string { return fmt.Sprintf("/sub?topic=idle%d", i%idleTopics) },
		func() (string, func() error, error) { return "/sub?topic=one", publish("one"), nil })
}

// ownStreams measures agentd: the idle streams follow runs that wait for an
// approval, the others one whose model speaks.
func (b *bench) ownStreams(model *process, n, words int) (c streamCost, err error) {
	p, err := b.start(b.agentd, model)
	if err != nil {
		return c, err
	}
	defer p.stop()
	agent, err := p.newAgentOf(waitingAgent)
	if err != nil {
		return c, err
	}
	runs := make([]string, idleTopics)
	for i := range runs {
		if runs[i], err = p.newRun(agent, "Wait."); err != nil {
			return c, err
		}
	}
	for _, id := range runs {
		if err := p.waitFor(id, "awaiting_approval"); err != nil {
			return c, err
		}
	}
	return p.measureStreams(n, words, func(i int) string { return "/api/v1/runs/" + runs[i%idleTopics] + "/events" },
		func() (string, func() error, error) {
			id, err := p.newRun(agent, fmt.Sprintf("%s%d.", pacedMessage, words))
			return "/api/v1/runs/" + id + "/events", func() error { return p.waitFor(id, "completed") }, err
		})
}

// measureStreams opens idle streams, then one that events come on, then many.
// Speak begins something that has so many events, and says where they are
// read, and what to do to make them come to an end.
func (p *process) measureStreams(
	n, words int, idle func(int) string, speak func() (string, func() error, error),
) (c streamCost, err error) {
	before, err := load.Of(p.pid())
	if err != nil {
		return c, err
	}
	all, err := load.OpenStreams(p.addr, key, n, idle)
	if err != nil {
		return c, err
	}
	time.Sleep(settle)
	after, err := load.Of(p.pid())
	if err == nil {
		c.memory = float64(after.Resident-before.Resident) / float64(n)
		c.one, err = p.lateness(1, words, speak)
	}
	if _, ended := all.Waits(); err == nil && ended > 0 {
		err = fmt.Errorf("%d of %d idle streams ended", ended, n)
	}
	all.Close()
	time.Sleep(settle) // what their end takes is not measured
	if err == nil {
		c.many, err = p.lateness(manyReaders, words, speak)
	}
	return c, err
}

// lateness returns the p99 of the delay of events to readers.
func (p *process) lateness(readers, words int, speak func() (string, func() error, error)) (time.Duration, error) {
	path, finish, err := speak()
	if err != nil {
		return 0, err
	}
	all, err := load.OpenStreams(p.addr, key, readers, func(int) string { return path })
	if err != nil {
		return 0, err
	}
	defer all.Close()
	time.Sleep(500 * time.Millisecond)
	all.Waits() // those that came in a heap when a stream was opened
	if err := finish(); err != nil {
		return 0, err
	}
	time.Sleep(time.Second) // the last of them arrive
	waits, _ := all.Waits()
	if want := readers * words / 2; len(waits) < want {
		return 0, fmt.Errorf("%d of at least %d events arrived", len(waits), want)
	}
	return load.Quantile(waits, .99), nil
}

// newRun creates a run and returns its ID.
func (p *process) newRun(agent, message string) (string, error) {
	body := fmt.Sprintf(`{"agent_id":%q,"input":{"message":%q}}`, agent, message)
	status, answer, err := p.ask("POST", "/api/v1/runs", body)
	if err != nil {
		return "", err
	}
	var run struct {
		ID string `json:"run_id"`
	}
	if err := json.Unmarshal(answer, &run); err != nil || run.ID == "" {
		return "", fmt.Errorf("starting a run answered %d: %s", status, answer)
	}
	return run.ID, nil
}

// waitFor asks until a run is in a state.
func (p *process) waitFor(run, state string) error {
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, answer, err := p.ask("GET", "/api/v1/runs/"+run, "")
		if err != nil {
			return err
		}
		if strings.Contains(string(answer), `"status":"`+state+`"`) {
			return nil
		}
		if time.Since(begin) > time.Minute {
			return fmt.Errorf("a run does not become %s: %.300s", state, answer)
		}
	}
}

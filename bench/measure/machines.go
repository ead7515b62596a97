package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"agentd/bench/load"
)

const (
	manyMachines = 1000
	machineTasks = 2000
	askingAtOnce = 4
)

// onMachine is a connected machine and its agent.
type onMachine struct {
	agent string
	ws    *websocket.Conn
	tasks chan string // ids of the tasks that came
}

// machines measures what a machine costs that is connected over a WebSocket, and how long
// a run takes until its task is there, beside the answer to the request that started it.
func machines(b *bench) error {
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
	agents := make([]string, manyMachines)
	for i := range agents {
		body := fmt.Sprintf(`{"machine_id":"m%d","capabilities":["read_file"],"working_directory":"/w","version":"1"}`, i)
		if agents[i], err = p.create("/api/v1/bridge/register", body, "agent_id"); err != nil {
			return err
		}
	}
	const warm = 50 // what the first connections set up is not theirs
	all, err := p.connect(agents[:warm], 0)
	defer func() { disconnect(all) }()
	if err != nil {
		return err
	}
	time.Sleep(settle)
	before, err := load.Of(p.pid())
	if err != nil {
		return err
	}
	others, err := p.connect(agents[warm:], warm)
	all = append(all, others...)
	if err != nil {
		return err
	}
	time.Sleep(settle)
	after, err := load.Of(p.pid())
	if err != nil {
		return err
	}
	each := float64(after.Resident-before.Resident) / (manyMachines - warm)
	b.report(fmt.Sprintf("a connected machine of %d: memory", manyMachines), "", "", each/1024, atMost(64, " KiB"))
	tasks := machineTasks
	if b.quick {
		tasks /= 4
	}
	arrivals, answers, err := p.askMachines(all, tasks)
	if err != nil {
		return err
	}
	late := load.Quantile(arrivals, .99)
	b.report(fmt.Sprintf("a task for one of %d machines, clients: %d: from the request, p99", manyMachines, askingAtOnce),
		late.String(), load.Quantile(answers, .99).String(), milliseconds(late), atMost(20, " ms"))
	b.report("the same: p50", "", "", milliseconds(load.Quantile(arrivals, .5)), atMost(10, " ms"))
	return nil
}

func disconnect(all []*onMachine) {
	for _, m := range all {
		m.ws.CloseNow()
	}
}

// connect connects the machines of agents; the number of the first is given.
func (p *process) connect(agents []string, first int) (all []*onMachine, err error) {
	for i, agent := range agents {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		ws, _, err := websocket.Dial(ctx, "ws://"+p.addr+"/api/v1/bridge/ws", &websocket.DialOptions{ //nolint:bodyclose // Dial replaces it
			HTTPHeader: http.Header{"Authorization": {"Bearer " + key}},
		})
		if err == nil {
			all = append(all, &onMachine{agent, ws, make(chan string, 16)})
			err = ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"hello","machine_id":"m%d"}`, first+i))
		}
		if err == nil {
			_, _, err = ws.Read(ctx) // the welcome
		}
		cancel()
		if err != nil {
			return all, err
		}
		go all[len(all)-1].listen()
	}
	return all, nil
}

// listen takes tasks until the connection ends.
func (m *onMachine) listen() {
	defer close(m.tasks)
	for {
		_, data, err := m.ws.Read(context.Background())
		if err != nil {
			return
		}
		var f struct {
			Type string `json:"type"`
			Task struct {
				ID string `json:"task_id"`
			} `json:"task"`
		}
		if json.Unmarshal(data, &f) == nil && f.Type == "task" {
			m.tasks <- f.Task.ID
		}
	}
}

// askMachines starts runs on machines, and returns how long each took until its task
// was there, and until its request was answered. The machines report the end.
func (p *process) askMachines(all []*onMachine, tasks int) (arrivals, answers []time.Duration, err error) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	failed := make([]error, askingAtOnce)
	for client := range askingAtOnce {
		asking.Go(func() {
			for i := client; i < tasks && failed[client] == nil; i += askingAtOnce {
				m := all[(i*7+client)%len(all)/askingAtOnce*askingAtOnce+client] // no two clients ask the same
				arrived, answered, err := p.askMachine(m)
				failed[client] = err
				mu.Lock()
				arrivals, answers = append(arrivals, arrived), append(answers, answered)
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return arrivals, answers, errors.Join(failed...)
}

func (p *process) askMachine(m *onMachine) (arrived, answered time.Duration, err error) {
	type answer struct {
		id   string
		took time.Duration
		err  error
	}
	begin := time.Now()
	started := make(chan answer, 1)
	go func() {
		id, err := p.newRun(m.agent, "Work.")
		started <- answer{id, time.Since(begin), err}
	}()
	var task string
	select {
	case task = <-m.tasks:
		arrived = time.Since(begin)
	case <-time.After(limitOfTask):
		return 0, 0, errors.New("no task came")
	}
	a := <-started
	if a.err != nil {
		return 0, 0, a.err
	}
	if a.id != task {
		return 0, 0, fmt.Errorf("the task %q came in place of %q", task, a.id)
	}
	report := fmt.Appendf(nil, `{"type":"events","task_id":%q,"events":[{"type":"completed","output":"Done.","timestamp":%q}]}`,
		task, time.Now().UTC().Format(time.RFC3339))
	return arrived, a.took, m.ws.Write(context.Background(), websocket.MessageText, report)
}

// limitOfTask is the longest that a task may take to come.
const limitOfTask = 40 * time.Second

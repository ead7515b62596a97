// Package bridgeclient connects a folder of this machine with a server, as an agent: it takes
// the runs of that agent as tasks and works on them with tools that act here. The model is
// called through the server, so that no key of a model is needed on the machine.
//
// What is known of a task is in a file before it is used or reported ([journal]), so that
// the program may be killed at any moment and goes on where it was.
package bridgeclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"agentd/internal/base/secret"
	"agentd/internal/client"
)

// Config says what is connected, and what may be done there.
type Config struct {
	API      *client.Client
	URL      string // of the server, as in AGENTD_URL
	Key      secret.String
	Dir      string // the folder
	State    string // where the tasks are kept
	Name     string // of the machine and its agent
	Model    string // that is called; "": the agent's
	Version  string // of this program
	Commands Permission
	Writes   Permission
	Remote   Permission // calls of tools of MCP servers that do more than read
	Timeout  time.Duration
	Servers  [][]string // MCP servers: program and arguments
	Say      func(format string, args ...any)
}

// Permission is whether the model may do something on the machine.
type Permission string

// The permissions.
const (
	Ask   Permission = "ask"   // a person approves each time
	Allow Permission = "allow" // at once
	Off   Permission = "off"   // the model does not know of it
)

// maxTasks is how many tasks are worked on at once; others wait.
const maxTasks = 4

// machine is a connected machine.
type machine struct {
	Config
	id       string
	agentID  string
	key      string // of approvals
	tools    *toolbox
	slots    chan struct{}
	finished sync.WaitGroup

	mu     sync.Mutex
	active map[string]context.CancelCauseFunc // tasks that are worked on, or wait for a slot
}

// Run connects the machine until ctx ends. Errors: what a person has to fix: the server
// refuses the key or the machine, or the folder cannot be used.
func Run(ctx context.Context, c Config) error {
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return fmt.Errorf("the folder cannot be opened: %w", err)
	}
	defer root.Close()
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		return fmt.Errorf("the directory of the tasks cannot be made: %w", err)
	}
	id, err := machineID(c.State)
	if err != nil {
		return err
	}
	m := &machine{Config: c, id: id, slots: make(chan struct{}, maxTasks), active: map[string]context.CancelCauseFunc{}}
	servers, err := startServers(ctx, c)
	if err != nil {
		return err
	}
	defer servers.close()
	m.tools = newToolbox(c, root, servers)
	defer m.finished.Wait()
	working, stop := context.WithCancel(ctx)
	defer stop()
	if err := m.register(working, true); err != nil {
		return err
	}
	if err := m.resume(working); err != nil {
		return err
	}
	err = m.stayConnected(working)
	if ctx.Err() != nil {
		m.leave(context.WithoutCancel(ctx))
		return nil
	}
	return err
}

// registered is the server's answer to a registration.
type registered struct {
	AgentID     string `json:"agent_id"`
	ApprovalKey string `json:"approval_key"`
	Registered  bool   `json:"registered"`
}

// register registers the machine, and waits for a server that is away.
func (m *machine) register(ctx context.Context, first bool) error {
	host, _ := os.Hostname()
	body := map[string]any{
		"machine_id": m.id, "machine_name": m.Name, "agent_name": m.Name, "capabilities": m.tools.names(), "working_directory": m.Dir,
		"version": m.Version, "os": runtime.GOOS, "app": "agentd bridge", "protocol_version": 1,
		"description": "Works in the folder " + m.Dir + " of the machine " + host + ".",
	}
	var got registered
	err := m.again(ctx, func(ctx context.Context) error {
		return m.API.Do(ctx, http.MethodPost, "/api/v1/bridge/register", body, &got)
	})
	if err != nil {
		return err
	}
	m.agentID, m.key = got.AgentID, got.ApprovalKey
	if first {
		m.Say("%s is connected as the agent %s (%s).", m.Dir, m.Name, m.agentID)
	}
	report := map[string]any{"capabilities": m.tools.names(), "working_directory": m.Dir, "hostname": host}
	return m.again(ctx, func(ctx context.Context) error {
		return m.API.Do(ctx, http.MethodPost, "/api/v1/bridge/agents/"+m.agentID+"/capability", report, nil)
	})
}

// leave says that the machine goes. What it works on waits for its return.
func (m *machine) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_ = m.API.Do(ctx, http.MethodPost, "/api/v1/bridge/deregister", map[string]any{"machine_id": m.id}, nil) // its age says the same later
}

// again repeats a request until it is answered, with waits that grow. A refusal that
// does not pass is an error.
func (m *machine) again(ctx context.Context, do func(context.Context) error) error {
	for try := 0; ; try++ {
		err := do(ctx)
		if err == nil || ctx.Err() != nil || !passes(err) {
			return err
		}
		if try == 0 {
			m.Say("%v; trying again until it answers.", err)
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// passes reports whether the same request may succeed later.
func passes(err error) bool {
	if _, ok := errors.AsType[*client.Unreachable](err); ok {
		return true
	}
	p, ok := errors.AsType[*client.Problem](err)
	return !ok || p.Status == http.StatusTooManyRequests || p.Status >= 500 && p.Status != http.StatusNotImplemented
}

// Waits between attempts double from the first to the last, and are random below that, so
// that the machines of a server that was away do not all come at once.
const (
	firstWait = 500 * time.Millisecond
	lastWait  = 30 * time.Second
)

func pause(ctx context.Context, try int) error {
	most := min(lastWait, firstWait<<min(try, 10))
	timer := time.NewTimer(most/4 + rand.N(most-most/4))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// resume takes up the tasks that the last process left.
func (m *machine) resume(ctx context.Context) error {
	kept, err := readJournals(m.State)
	if err != nil {
		return err
	}
	for _, j := range kept {
		m.Say("Going on with task %s.", j.Task.TaskID)
		m.take(ctx, j)
	}
	return nil
}

// take works on a task, unless that is so already.
func (m *machine) take(ctx context.Context, j *journal) {
	id := j.Task.TaskID
	ctx, cancel := context.WithCancelCause(ctx)
	m.mu.Lock()
	if _, known := m.active[id]; known {
		m.mu.Unlock()
		cancel(nil)
		return
	}
	m.active[id] = cancel
	m.mu.Unlock()
	m.finished.Go(func() {
		defer func() {
			cancel(nil)
			m.mu.Lock()
			delete(m.active, id)
			m.mu.Unlock()
		}()
		select {
		case m.slots <- struct{}{}:
			defer func() { <-m.slots }()
		case <-ctx.Done():
			return
		}
		w := &worker{m: m, j: j}
		err := w.work(ctx)
		switch over := errors.Is(context.Cause(ctx), errCancelled); {
		case j.Ended && (err == nil || over): // the server says so too, once it has the result
			m.Say("Task %s is done.", id)
		case over || errors.Is(err, errDropped): // an answer may say so before the connection does
			m.Say("Task %s was ended by the server.", id)
		case err != nil && ctx.Err() == nil:
			m.Say("Task %s: %v", id, err)
		}
		if errors.Is(context.Cause(ctx), errCancelled) {
			_ = j.remove() // it is looked at again at the next start, and ends then
		}
	})
}

// errCancelled is the cause of the end of a task whose run has ended.
var errCancelled = errors.New("the run has ended")

// cancel ends a task.
func (m *machine) cancel(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if stop := m.active[id]; stop != nil {
		stop(errCancelled)
	}
}

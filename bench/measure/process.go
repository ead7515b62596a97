package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// bench is what all scenarios share.
type bench struct {
	settings
	dir    string // temporary: programs, data, logs
	sim    program
	floor  program
	hello  program
	hub    program
	proxy  program // Go's reverse proxy before the model
	agentd program
	missed int
}

// program is a built server: how to start it on an address, and where it
// answers once it is ready.
type program struct {
	name  string
	ready string // path
	args  func(addr, dir string, model *process) []string
	env   func(addr, dir string, model *process) []string
}

// newBench builds everything. The yardsticks named by BENCH_YARDSTICKS, where
// there are any, take the place of our own floor and simulated model.
func newBench(s settings) (*bench, error) {
	dir, err := os.MkdirTemp("", "agentd-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{settings: s, dir: dir}
	b.agentd = program{
		name: "agentd", ready: "/healthz",
		args: func(string, string, *process) []string { return []string{"serve"} },
		env: func(addr, dir string, model *process) []string {
			return []string{
				"AGENTD_LISTEN=" + addr, "AGENTD_DATA_DIR=" + dir, "AGENTD_OWNER_KEY=" + key,
				"AGENTD_MODEL_BASE_URL=" + model.url() + "/v1", "AGENTD_MODEL=sim-model", "AGENTD_RATE_LIMITS=off",
			}
		},
	}
	listen := func(addr, _ string, _ *process) []string { return []string{"-addr", addr} }
	persist := func(addr, dir string, model *process) []string {
		return []string{"-addr", addr, "-db", filepath.Join(dir, "floor.db"), "-to", model.url() + chatPath}
	}
	b.sim = program{name: "simmodel", ready: "/v1/models", args: listen}
	b.floor = program{name: "floor", ready: "/hello", args: persist}
	b.hello = program{name: "floor", ready: "/hello", args: func(addr, dir string, _ *process) []string {
		return []string{"-addr", addr, "-db", filepath.Join(dir, "floor.db")}
	}}
	b.hub = b.hello
	b.proxy = program{name: "floor", ready: "/v1/models", args: func(addr, _ string, model *process) []string {
		return []string{"-addr", addr, "-proxy", model.url()}
	}}
	if err := command("go", "build", "-o", dir, "./cmd/agentd", "./bench/floor", "./bench/simmodel").Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("build: %w", err), os.RemoveAll(dir))
	}
	yardsticks := os.Getenv("BENCH_YARDSTICKS")
	if yardsticks == "" {
		return b, nil
	}
	if err := command("bash", filepath.Join(yardsticks, "build.sh"), dir).Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the yardsticks: %w", err), os.RemoveAll(dir))
	}
	b.sim.name = "simupstream"
	b.hello = program{name: "hello", ready: "/hello", args: listen}
	b.proxy = program{name: "revproxy", ready: "/v1/models", args: func(addr, _ string, model *process) []string {
		return []string{"-addr", addr, "-to", model.url()}
	}}
	b.hub = program{name: "ssehub", ready: "/healthz", args: listen}
	b.floor = program{name: "runfloor", ready: "/healthz", args: func(addr, dir string, model *process) []string {
		return append(persist(addr, dir, model), "-sync", "FULL")
	}}
	return b, nil
}

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd
}

func (b *bench) close() { os.RemoveAll(b.dir) }

// process is a running server.
type process struct {
	addr string
	dir  string // its data
	cmd  *exec.Cmd
	took time.Duration // from exec to the first 200
}

func (p *process) url() string { return "http://" + p.addr }

func (p *process) pid() int { return p.cmd.Process.Pid }

// start runs a program on a free port and an empty data directory, until it
// answers 200.
func (b *bench) start(what program, model *process, extra ...string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, what.name+"-data-")
	if err != nil {
		return nil, err
	}
	return b.startAt(addr, dir, what, model, extra...)
}

// startAt is start on an address and with the data that is in a directory.
func (b *bench) startAt(addr, dir string, what program, model *process, extra ...string) (*process, error) {
	log, err := os.Create(dir + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{addr: addr, dir: dir, cmd: exec.Command(filepath.Join(b.dir, what.name), append(what.args(addr, dir, model), extra...)...)}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if what.env != nil {
		p.cmd.Env = append(os.Environ(), what.env(addr, dir, model)...)
	}
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for {
		if status, _, _ := p.ask("GET", what.ready, ""); status == http.StatusOK {
			p.took = time.Since(begin)
			return p, nil
		}
		if time.Since(begin) > 20*time.Second {
			p.stop()
			text, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("%s does not answer; it said:\n%s", what.name, text)
		}
		time.Sleep(time.Millisecond)
	}
}

// stop ends a process, gracefully if it can.
func (p *process) stop() {
	if p == nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	p.cmd.Wait()
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

var client = &http.Client{Timeout: 30 * time.Second}

// ask makes one request outside of any measurement.
func (p *process) ask(method, path, body string) (status int, answer []byte, err error) {
	req, err := newRequest(method, p.url()+path, body)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// newAgent creates an agent with the simulated model and returns its ID.
func (p *process) newAgent() (string, error) { return p.newAgentOf(agentBody) }

func (p *process) newAgentOf(body string) (string, error) {
	return p.create("/api/v1/agents", body, "agent_id")
}

// create creates something, and returns its id.
func (p *process) create(path, body, field string) (string, error) {
	status, answer, err := p.ask("POST", path, body)
	if err != nil {
		return "", err
	}
	var made map[string]any
	err = json.Unmarshal(answer, &made)
	id, _ := made[field].(string)
	if err != nil || id == "" {
		return "", fmt.Errorf("POST %s answered %d: %s", path, status, answer)
	}
	return id, nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/internal/app"
	"agentd/internal/kernel/model/modeltest"
)

// asProgram makes a link to the test binary be the program itself, so that the
// tests run real processes without building any.
const asProgram = "AGENTD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	app.Child()
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// machine is a directory with bin/agentd in it, and a person's shell.
type machine struct {
	t   *testing.T
	dir string
	env []string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	self := os.Getenv("AGENTD_TEST_PROGRAM") // apptest says why
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o700), os.Symlink(self, filepath.Join(dir, "bin", "agentd"))); err != nil {
		t.Fatal(err)
	}
	return &machine{t: t, dir: dir, env: []string{asProgram + "=1", "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TZ=UTC"}}
}

// with is the same machine with more in its environment.
func (m *machine) with(env ...string) *machine {
	other := *m
	other.env = append(slices.Clip(m.env), env...)
	return &other
}

// output is what a process wrote so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is a command under way.
type process struct {
	t         *testing.T
	line      string
	cmd       *exec.Cmd
	out, errs output
	ended     chan struct{}
}

// start runs a line as a shell does.
func (m *machine) start(line string) *process {
	m.t.Helper()
	p := &process{t: m.t, line: line, ended: make(chan struct{})}
	// exec: signals are for the program, not for the shell.
	p.cmd = exec.CommandContext(context.WithoutCancel(m.t.Context()), "sh", "-c", "exec "+line)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = m.dir, m.env, &p.out, &p.errs
	p.cmd.WaitDelay = 5 * time.Second // what a script started may go on and hold its output
	if err := p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the exit code tells
	}()
	m.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have ended
		<-p.ended
	})
	return p
}

// patience is how long anything may take on a busy machine.
const patience = time.Minute

// says waits for a text on stdout.
func (p *process) says(text string) {
	p.t.Helper()
	p.until(func() bool { return strings.Contains(p.out.String(), text) }, "says "+text)
}

// wait waits for the end and returns the exit code.
func (p *process) wait() int {
	p.t.Helper()
	for seen := -1; ; { // a script of many commands may take longer than each of them
		written := len(p.out.String()) + len(p.errs.String())
		if written == seen {
			p.t.Fatalf("%s does not end:\n%s\n%s", p.line, p.out.String(), p.errs.String())
		}
		seen = written
		select {
		case <-p.ended:
			return p.cmd.ProcessState.ExitCode()
		case <-time.After(patience):
		}
	}
}

func (p *process) until(done func() bool, what string) {
	p.t.Helper()
	for begun := time.Now(); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begun) > patience {
			p.t.Fatalf("%s never %s:\n%s\n%s", p.line, what, p.out.String(), p.errs.String())
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// want runs a line to its end, checks its exit code and that it says some
// things, and gives what it wrote to stdout.
func (m *machine) want(code int, line string, says ...string) string {
	m.t.Helper()
	p := m.start(line)
	if got := p.wait(); got != code {
		m.t.Errorf("%s: exit code %d, want %d", line, got, code)
	}
	for _, text := range says {
		if !strings.Contains(p.out.String()+p.errs.String(), text) {
			m.t.Errorf("%s does not say %q", line, text)
		}
	}
	if m.t.Failed() {
		m.t.Logf("%s\nstdout:\n%s\nstderr:\n%s", line, p.out.String(), p.errs.String())
		m.t.FailNow()
	}
	return p.out.String()
}

var export = regexp.MustCompile(`(?m)^  export (AGENTD_\w+=\S+)$`)

// serve starts the server on a free port, with a simulated model if one is
// given, and gives it with a machine that has the environment that the server
// told its person to set.
func (m *machine) serve(sim *modeltest.Server) (*process, *machine) {
	m.t.Helper()
	with := m.with("AGENTD_LISTEN=127.0.0.1:0")
	if sim != nil {
		with = with.with("AGENTD_MODEL_BASE_URL="+sim.URL, "AGENTD_MODEL=sim-model")
	}
	server := with.start("bin/agentd serve")
	server.says(" is ready.")
	server.says("Model ")
	if m.firstStart() {
		server.says("bin/agentd run ")
	}
	client := m
	for _, e := range export.FindAllStringSubmatch(server.out.String(), -1) {
		client = client.with(e[1])
	}
	return server, client
}

// firstStart reports whether no key was printed yet.
func (m *machine) firstStart() bool {
	for _, e := range m.env {
		if strings.HasPrefix(e, "AGENTD_KEY=") {
			return false
		}
	}
	return true
}

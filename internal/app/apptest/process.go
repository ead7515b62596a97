package apptest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/kernel/model/modeltest"
)

// Process is a Server that runs as a process of its own, which can be killed.
type Process struct {
	*Server
	Program string
	Env     []string
	Address string
	Command *exec.Cmd
}

// ProgramVariable names the environment variable with the path of a program that is
// built already; make race sets it, since a program with the race detector takes a
// second to start.
const ProgramVariable = "AGENTD_TEST_PROGRAM"

// programs is the directory of what program built, which Main removes.
var programs string

// program builds the program as make build does, once for the tests of a package,
// and returns its path.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(ProgramVariable); path != "" {
		return path, nil
	}
	var err error
	if programs, err = os.MkdirTemp("", "agentd-program"); err != nil {
		return "", err
	}
	bin := filepath.Join(programs, "agentd")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "agentd/cmd/agentd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
})

// BuildProcess builds the program and returns a process of it, which Start starts.
func BuildProcess(t *testing.T, sim *modeltest.Server) *Process {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return NewProcess(t, bin, sim)
}

// NewProcess returns another process of a program that is built already.
func NewProcess(t *testing.T, bin string, sim *modeltest.Server, env ...string) *Process {
	t.Helper()
	addr := FreeAddress(t)
	p := &Process{Program: bin, Address: addr, Server: &Server{T: t, URL: "http://" + addr, Key: OwnerKey},
		Env: append(append(os.Environ(), env...),
			"AGENTD_RATE_LIMITS=off", "AGENTD_LISTEN="+addr, "AGENTD_DATA_DIR="+t.TempDir(), "AGENTD_OWNER_KEY="+OwnerKey,
			"AGENTD_MODEL_BASE_URL="+sim.URL, "AGENTD_MODEL=sim-model", "AGENTD_LOG_LEVEL=error")}
	t.Cleanup(p.Kill)
	return p
}

// Start starts the process and waits until it accepts connections.
func (p *Process) Start() {
	p.T.Helper()
	p.Command = exec.Command(p.Program, "serve")
	p.Command.Env = p.Env
	var log strings.Builder
	p.Command.Stderr = &log
	if err := p.Command.Start(); err != nil {
		p.T.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", p.Address); err == nil {
			c.Close()
			return
		}
	}
	p.Kill()
	p.T.Fatalf("agentd does not answer:\n%s", log.String())
}

// Kill ends the process with SIGKILL, if it runs.
func (p *Process) Kill() {
	if p.Command != nil {
		_ = p.Command.Process.Kill() // it may have ended
		_ = p.Command.Wait()
		p.Command = nil
	}
}

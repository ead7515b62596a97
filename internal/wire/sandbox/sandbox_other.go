//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"io"
	"syscall"
)

// errUnsupported is why nothing runs here: a program without a sandbox could
// read the keys of every tenant.
var errUnsupported = errors.New("sandboxed commands need Linux on amd64 or arm64; unset AGENTD_MCP_STDIO and AGENTD_MCP_STDIO_COMMANDS")

// Sandbox runs commands. There is none on this system.
type Sandbox struct{}

// New fails on this system.
func New(Config) (*Sandbox, error) { return nil, errUnsupported }

// Missing returns what the system does not provide.
func (*Sandbox) Missing() []string { return nil }

// Start fails on this system.
func (*Sandbox) Start(Spec) (*Process, error) { return nil, errUnsupported }

// Process is a command that runs.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
}

// Signal sends a signal to the command and everything that it started.
func (*Process) Signal(syscall.Signal) {}

// Wait waits for the end of the command.
func (*Process) Wait() error { return errUnsupported }

// Protect does nothing on this system.
func Protect([]string) error { return nil }

package mcpclient

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/tool"
	"agentd/internal/wire/sandbox"
	"agentd/internal/wire/sandbox/sandboxtest"
)

// manager serves until the test ends.
func manager(t *testing.T, adjust ...func(*Config)) *Manager {
	t.Helper()
	c := Config{Transport: http.DefaultTransport.(*http.Transport).Clone(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Version: "test",
		ReachTimeout: time.Nanosecond}
	for _, f := range adjust {
		f(&c)
	}
	if c.Sandbox == nil && len(c.Commands) > 0 {
		var err error
		if c.Sandbox, err = sandbox.New(sandbox.Config{}); err != nil {
			t.Fatal(err)
		}
	}
	m := New(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if transport, ok := c.Transport.(*http.Transport); ok {
			transport.CloseIdleConnections()
		}
	})
	return m
}

// self allows this test binary as a command.
func self(t *testing.T) func(*Config) {
	t.Helper()
	c := sandbox.Command{Path: sandboxtest.Executable(t), Limits: sandbox.Limits{MemoryMiB: sandboxtest.MemoryMiB}}
	return func(config *Config) {
		config.Commands = map[string]sandbox.Command{"self": c, "missing": {Path: "/does/not/exist"}}
	}
}

// selfServed is a target that runs this test binary as a server.
func selfServed(behaviour string) *mcp.Target {
	return &mcp.Target{
		TenantID: "t", ServerID: behaviour, Name: "Weather", Fingerprint: behaviour, Transport: mcp.STDIO,
		Command: "self", Args: []string{"serve=" + behaviour},
	}
}

func call(t *testing.T, m *Manager, target *mcp.Target, name, arguments string) tool.Result {
	t.Helper()
	res, err := m.Call(t.Context(), target, name, jsontext.Value(arguments), mcp.CallKey{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// refused wants an error with a code and a sentence that says something.
func refused(t *testing.T, err error, code, says string) {
	t.Helper()
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Detail, says) {
		t.Errorf("error = %v, want %s that says %q", err, code, says)
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	m, target := manager(t, self(t)), selfServed("well")
	target.Env = map[string]string{"MCP_TOKEN": "hidden"}
	l, err := m.List(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(l.Tools, func(r mcp.RemoteTool) bool { return r.Name == "echo" })
	if i < 0 || !l.Tools[i].ReadOnly || l.Tools[i].Description != "Says it again." || !strings.Contains(string(l.Tools[i].Schema), `"message"`) {
		t.Errorf("tools = %+v", l.Tools)
	}
	if !slices.Contains(l.Capabilities, "tools") {
		t.Errorf("capabilities = %v", l.Capabilities)
	}
	if res := call(t, m, target, "echo", `{"message":"hello"}`); res.Output != "you said hello" || res.Failed {
		t.Errorf("echo = %+v", res)
	}
	if res := call(t, m, target, "fail", `{}`); res.Output != "no such city" || !res.Failed {
		t.Errorf("fail = %+v", res)
	}
	if res := call(t, m, target, "nothing", `{}`); !res.Failed || !strings.Contains(res.Output, "refused the call") {
		t.Errorf("unknown tool = %+v", res)
	}
}

func TestProcessSeesNothingOfOurs(t *testing.T) {
	t.Setenv("AGENTD_SECRET_OF_OURS", "visible")
	m, target := manager(t, self(t)), selfServed("env")
	target.Env = map[string]string{"MCP_TOKEN": "its own"}
	env := strings.Split(call(t, m, target, "environment", `{}`).Output, "\n")
	var dir string
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "PATH", "LANG", "HOME", "TMPDIR":
		case "MCP_TOKEN":
			if value != "its own" {
				t.Errorf("%s", line)
			}
		case "cwd":
			dir = value
		default:
			t.Errorf("the process sees %s", line)
		}
	}
	if !strings.Contains(filepath.Base(dir), "agentd-sandbox-") {
		t.Errorf("it works in %s", dir)
	}
	m.Forget("t", "env")
	gone(t, func() bool { _, err := os.Stat(dir); return errors.Is(err, os.ErrNotExist) })
}

// gone polls until something is no more.
func gone(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is still there")
		}
	}
}

// A process that ends in a call fails the call, and the next one finds another
// process.
func TestProcessThatDies(t *testing.T) {
	t.Parallel()
	m, target := manager(t, self(t)), selfServed("dying")
	_, err := m.Call(t.Context(), target, "die", jsontext.Value(`{}`), mcp.CallKey{})
	refused(t, err, codeUnreachable, "closed the connection")
	if res := call(t, m, target, "echo", `{"message":"again"}`); res.Output != "you said again" {
		t.Errorf("after that: %+v", res)
	}
}

func TestProcessThatFloods(t *testing.T) {
	t.Parallel()
	m, target := manager(t, self(t)), selfServed("flooding")
	_, err := m.Call(t.Context(), target, "flood", jsontext.Value(`{}`), mcp.CallKey{})
	refused(t, err, codeUnreachable, "larger than a message may be")
}

func TestProcessThatHangs(t *testing.T) {
	t.Parallel()
	m, target := manager(t, self(t), func(c *Config) { c.CallTimeout = 200 * time.Millisecond }), selfServed("hanging")
	if _, err := m.List(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	_, err := m.Call(t.Context(), target, "hang", jsontext.Value(`{}`), mcp.CallKey{})
	refused(t, err, codeTimeout, "200ms")
}

func TestProcessesThatAreNoServers(t *testing.T) {
	t.Parallel()
	for behaviour, says := range map[string]string{"mute": "did not answer", "noise": "does not speak the protocol", "exit": "closed the connection"} {
		patience := time.Minute
		if behaviour == "mute" {
			patience = 500 * time.Millisecond
		}
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			m := manager(t, self(t), func(c *Config) { c.ConnectTimeout = patience })
			_, err := m.List(t.Context(), selfServed(behaviour))
			if e := fault.From(err); e.Kind != fault.Unavailable || !strings.Contains(e.Detail, says) {
				t.Errorf("error = %v, want one that says %q", err, says)
			}
		})
	}
	m := manager(t, self(t))
	missing := selfServed("x")
	missing.Command = "missing"
	_, err := m.Probe(t.Context(), missing)
	refused(t, err, codeUnreachable, "cannot be started")
}

// A process that does not end by itself is killed. That what it started ends with
// it is sandbox.TestEverythingEndsTogether.
func TestProcessThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	m, target := manager(t, self(t)), selfServed("stubborn")
	call(t, m, target, "echo", `{"message":"x"}`)
	m.Forget("t", "stubborn")
	gone(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.processes["t"] == 0
	})
}

// Processes are few; one that nobody uses makes place for another.
func TestProcessesAreBounded(t *testing.T) {
	t.Parallel()
	m := manager(t, self(t), func(c *Config) { c.PerTenant = 1 })
	first, second := selfServed("first"), selfServed("second")
	call(t, m, first, "echo", `{"message":"x"}`)
	_, err := m.Call(t.Context(), second, "echo", jsontext.Value(`{"message":"x"}`), mcp.CallKey{})
	refused(t, err, codeBusy, "already")
	gone(t, func() bool {
		_, err := m.Call(t.Context(), second, "echo", jsontext.Value(`{"message":"x"}`), mcp.CallKey{})
		return err == nil
	})
}

func TestUnusedConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	m, target := manager(t, self(t), func(c *Config) { c.IdleFor = 20 * time.Millisecond }), selfServed("idle")
	call(t, m, target, "echo", `{"message":"x"}`)
	gone(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.conns) == 0 && m.processes["t"] == 0
	})
	call(t, m, target, "echo", `{"message":"x"}`)
}

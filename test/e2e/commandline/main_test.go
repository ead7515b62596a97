// Package commandline tests the commands that call a server against a whole one,
// in the test's process.
package commandline

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/cli"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC
	apptest.Main(m)
}

// shell is a person's shell: it runs commands against a server.
type shell struct {
	t     testing.TB
	env   map[string]string
	stdin string
}

func newShell(t testing.TB, n *apptest.Server) shell {
	return shell{t: t, env: map[string]string{"AGENTD_URL": n.URL, "AGENTD_KEY": n.Key, "PATH": os.Getenv("PATH")}}
}

// typing is the same shell with a text on the standard input of its commands.
func (s shell) typing(text string) shell {
	s.stdin = text
	return s
}

// with is the same shell for another test, or with another environment.
func (s shell) with(name, value string) shell {
	env := map[string]string{name: value}
	for k, v := range s.env {
		if k != name {
			env[k] = v
		}
	}
	s.env = env
	return s
}

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

// run runs a command, which must end with a code and say some things, and
// returns what it wrote to stdout.
func (s shell) run(code int, args []string, says ...string) string {
	s.t.Helper()
	c := s.start(args)
	got := <-c.ended
	out, errs := &c.out, &c.errs
	if got != code {
		s.t.Errorf("%s: exit code %d, want %d", args, got, code)
	}
	for _, text := range says {
		if !strings.Contains(out.String()+errs.String(), text) {
			s.t.Errorf("%s does not say %q", args, text)
		}
	}
	if s.t.Failed() {
		s.t.Fatalf("%s\nstdout:\n%s\nstderr:\n%s", args, out.String(), errs.String())
	}
	return out.String()
}

// command is one that runs beside the test.
type command struct {
	t         testing.TB
	out, errs output
	ended     chan int
}

func (s shell) start(args []string) *command {
	c := &command{t: s.t, ended: make(chan int, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	go func() {
		c.ended <- cli.Main(ctx, args, cli.Deps{
			Version: "1.2.3", Stdin: strings.NewReader(s.stdin), Stdout: &c.out, Stderr: &c.errs,
			LookupEnv: func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
		})
	}()
	return c
}

// says waits until the command said something.
func (c *command) says(text string) {
	c.t.Helper()
	until(c.t, text, func() bool { return strings.Contains(c.out.String()+c.errs.String(), text) })
}

// until waits for something to happen.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// words splits a line at its blanks.
func words(line string, more ...string) []string { return append(strings.Fields(line), more...) }

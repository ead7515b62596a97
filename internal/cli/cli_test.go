package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/config"
)

// now is when the tests take place.
var now = time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)

// buffer is a bytes.Buffer that several goroutines write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// shell runs commands in an environment of their own.
type shell struct {
	ctx   context.Context
	env   map[string]string
	serve func(context.Context, config.Config) error
	leave time.Duration
	stdin string
}

func (s shell) run(args ...string) result {
	var out, errs buffer
	if s.ctx == nil {
		s.ctx = context.Background()
	}
	code := Main(s.ctx, args, Deps{
		Version: "1.2.3", Serve: s.serve, Stdin: strings.NewReader(s.stdin), Stdout: &out, Stderr: &errs,
		LookupEnv: func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
		Environ: func() (all []string) {
			for name, value := range s.env {
				all = append(all, name+"="+value)
			}
			return all
		},
		Now: func() time.Time { return now }, cancelGrace: s.leave,
	})
	return result{code, out.String(), errs.String()}
}

// want fails unless a command ended with a code and said some things.
func (r result) want(t *testing.T, code int, says ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, text := range says {
		if !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("%q is missing", text)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitOK, "Usage: agentd <command>"},
		{[]string{"--help"}, exitOK, "Usage: agentd <command>"},
		{[]string{"run", "-h"}, exitOK, "Usage: agentd run <agent> [<message> ...]"},
		{[]string{"serve", "--help"}, exitOK, "($AGENTD_LISTEN)"},
		{[]string{"--version"}, exitOK, "agentd 1.2.3\n"},
		{[]string{"sing"}, exitUsage, "there is no command \"sing\"; there are agent, run, "},
		{[]string{"runs"}, exitUsage, "say what to do: list, show, "},
		{[]string{"run"}, exitUsage, "the argument <agent> is missing: Agent, by its id or its exact name.\nTry: agentd run --help"},
		{[]string{"run", "a", "--key=k"}, exitUsage, "the argument <message> is missing"},
		{[]string{"help", "agent", "create"}, exitOK, "Usage: agentd agent create"},
		{[]string{"help"}, exitOK, "Usage: agentd <command>"},
		{[]string{"version"}, exitOK, "agentd 1.2.3\n"},
		{[]string{"version", "--json"}, exitOK, "\"version\": \"1.2.3\""},
		{[]string{"agents"}, exitUsage, "there is no command \"agents\"; did you mean \"agent\"?\nTry: agentd --help"},
		{[]string{"agent", "crate"}, exitUsage, "there is no command \"crate\" of \"agent\"; did you mean \"create\"?\nTry: agentd agent --help"},
		{[]string{"agent", "create", "--nam=x"}, exitUsage, "unknown flag --nam, did you mean \"--name\"?\nTry: agentd agent create --help"},
		{[]string{"agent", "list", "more"}, exitUsage, "the argument \"more\" is one too many; this command takes flags only\nTry: agentd agent list --help"},
		{[]string{"agent", "show", "a", "b"}, exitUsage, "the argument \"b\" is one too many after <agent>"},
		{[]string{"agent", "list", "--limit=-1"}, exitUsage, "--limit is -1 and must be 0 (all) or more\nTry: agentd agent list --help"},
		{[]string{"admin", "tenant", "create"}, exitUsage, "these flags are needed: --name=NAME\nTry: agentd admin tenant create --help"},
		{[]string{"runs", "list", "--limit=many"}, exitUsage, "--limit"},
		{[]string{"admin", "key", "create", "--tenant=t", "--role=king", "--name=n"}, exitUsage, "--role must be one of"},
		{[]string{"agent", "create", "--name=n", "--system=a", "--system-file=b"}, exitUsage, "can't be used together"},
		{[]string{"migrate", "--status", "--down=0"}, exitUsage, "can't be used together"},
		{[]string{"serve", "--listen=here"}, exitUsage, "AGENTD_LISTEN"},
		{[]string{"agent", "list"}, exitFailure, "set AGENTD_KEY"},
		{[]string{"agent", "list", "--key=k", "--url=localhost"}, exitFailure, "AGENTD_URL (--url) \"localhost\" is no address of a server"},
	} {
		t.Run(strings.Join(tt.args, "_"), func(t *testing.T) {
			t.Parallel()
			r := shell{}.run(tt.args...)
			r.want(t, tt.code, tt.says)
			if tt.code == exitOK && r.stderr != "" || tt.code != exitOK && r.stdout != "" {
				t.Errorf("the wrong stream was written to:\n%s\n%s", r.stdout, r.stderr)
			}
		})
	}
}

func TestServeGetsTheConfiguration(t *testing.T) {
	t.Parallel()
	var got config.Config
	s := shell{
		env: map[string]string{
			"AGENTD_LISTEN": ":1", "AGENTD_LOG_LEVEL": "debug", "AGENTD_LOG_FORMAT": "", "AGENTD_OWNER_KEY": "secret",
			"AGENTD_EGRESS_ALLOW": "10.0.0.0/8,127.0.0.1:80", "AGENTD_URL": "not for the server",
		},
		serve: func(_ context.Context, cfg config.Config) error { got = cfg; return errors.New("the port is taken") },
	}
	s.run("serve", "--listen=:2").want(t, exitFailure, "Error: the port is taken\n")
	if got.Server.Listen != ":2" || got.Observability.LogLevel != "debug" || got.Observability.LogFormat != "auto" ||
		got.Security.OwnerKey.Reveal() != "secret" || got.Security.EgressAllow != "10.0.0.0/8,127.0.0.1:80" || got.Storage.DataDir != "./agentd-data" {
		t.Errorf("got %+v", got)
	}
}

// A setting of another command must not stand in one's way.
func TestOnlyTheCommandsOwnSettingsAreRead(t *testing.T) {
	t.Parallel()
	s := shell{env: map[string]string{"AGENTD_LOG_LEVEL": "loud", "AGENTD_KEY": "k", "AGENTD_URL": "http://127.0.0.1:1"}}
	s.run("agent", "list").want(t, exitFailure, "no answer from http://127.0.0.1:1", "Is agentd serve running there?")
	s.run("config").want(t, exitUsage, "--log-level must be one of")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	s := shell{env: map[string]string{
		"AGENTD_DATABASE_URL": "postgres://agentd:hush@db/agentd", "AGENTD_OWNER_KEY": "hush", "AGENTD_MODEL_API_KEY": "hush",
	}}
	r := s.run("config", "--listen=:9000")
	r.want(t, exitOK, "AGENTD_LISTEN=:9000\n", "AGENTD_DATABASE_URL=postgres://[redacted]@db/agentd\n", "AGENTD_OWNER_KEY=[redacted]\n")
	if strings.Contains(r.stdout, "hush") {
		t.Error("a secret is seen")
	}
	if r := s.run("config", "reference"); r.stdout != config.Reference() {
		t.Error("the reference differs")
	}
}

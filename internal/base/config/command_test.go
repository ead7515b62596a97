package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func commandsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "commands.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommands(t *testing.T) {
	t.Parallel()
	s := Security{MCPStdio: "/bin/true, /bin/sh", MCPStdioCommands: commandsFile(t, `[
		{"name": "weather", "command": "/bin/sh", "args": ["/opt/weather.sh"], "env": {"REGION": "eu"},
		 "tenant_args": ["--metric", "--city=*"], "tenant_env": ["WEATHER_KEY"],
		 "read": ["/opt/weather"], "network": false, "limits": {"memory_mib": 256, "processes": 20}},
		{"command": "/bin/cat"}]`)}
	got, err := s.Commands()
	if err != nil {
		t.Fatal(err)
	}
	no := false
	want := []Command{
		{Name: "/bin/true", Path: "/bin/true"}, {Name: "/bin/sh", Path: "/bin/sh"},
		{
			Name: "weather", Path: "/bin/sh", Args: []string{"/opt/weather.sh"}, Env: map[string]string{"REGION": "eu"},
			TenantArgs: []string{"--metric", "--city=*"}, TenantEnv: []string{"WEATHER_KEY"}, Read: []string{"/opt/weather"}, Network: &no,
			Limits: CommandLimits{MemoryMiB: 256, Processes: 20},
		},
		{Name: "/bin/cat", Path: "/bin/cat"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	plain, weather := got[0], got[2]
	for arg, want := range map[string]bool{"--metric": true, "--city=": true, "--city=Oslo; id": true, "--metric=": false, "--cit": false, "": false} {
		if weather.AllowsArg(arg) != want || plain.AllowsArg(arg) {
			t.Errorf("the argument %q: %t and %t", arg, weather.AllowsArg(arg), plain.AllowsArg(arg))
		}
	}
	if !weather.AllowsVariable("WEATHER_KEY") || weather.AllowsVariable("REGION") || weather.AllowsVariable("weather_key") || plain.AllowsVariable("MCP_X") {
		t.Error("another variable can be set, or the named one cannot")
	}
}

func TestCommandsThatCannotWork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: "must be a JSON list",
		"[\n{\"command\": \"/bin/sh\",\n\"tenant_envs\": []}]": "line 3",
		`[{"command": "sh"}]`:                                             "no absolute path",
		`[{"command": "/no/such"}]`:                                       "cannot be used",
		`[{"command": "/bin"}]`:                                           "is no program",
		`[{"command": "/bin/sh"}, {"command": "/bin/sh"}]`:                "give one of them another name",
		`[{"command": "/bin/sh", "tenant_env": ["HOME"]}]`:                "is set already",
		`[{"command": "/bin/sh", "env": {"A": ""}, "tenant_env": ["A"]}]`: "is set already",
		`[{"command": "/bin/sh", "tenant_env": ["MCP_*"]}]`:               "write each name in full",
		`[{"command": "/bin/sh", "env": {"A=B": "x"}}]`:                   "no name of a variable",
		`[{"command": "/bin/sh", "read": ["/"]}]`:                         "no absolute path below /",
		`[{"command": "/bin/sh", "read": ["data"]}]`:                      "no absolute path below /",
		`[{"command": "/bin/sh", "limits": {"files": -1}}]`:               "each must be 1 or more",
	} {
		s := Security{MCPStdioCommands: commandsFile(t, text)}
		if _, err := s.Commands(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want one that says %q", text, err, want)
		}
	}
	if _, err := (Security{MCPStdioCommands: "/no/such/file"}).Commands(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("error = %v", err)
	}
}

// Whoever starts agentd without thinking of it is not on the network.
func TestDefaultListenIsLoopback(t *testing.T) {
	t.Parallel()
	for s := range new(Config).Settings() {
		if s.Env == "AGENTD_LISTEN" && s.Default != "127.0.0.1:8080" {
			t.Errorf("it listens on %s", s.Default)
		}
		if (s.Env == "AGENTD_MCP_STDIO" || s.Env == "AGENTD_MCP_STDIO_COMMANDS" || s.Env == "AGENTD_NATS_LISTEN" || s.Env == "AGENTD_EGRESS_ALLOW") &&
			s.Default != "" {
			t.Errorf("%s is on without a setting: %s", s.Env, s.Default)
		}
	}
}

package apptest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/config"
	"agentd/internal/wire/sandbox/sandboxtest"
)

// StdioCommand is the name of the command that AllowStdioCommand allows.
const StdioCommand = "test-server"

// AllowStdioCommand allows tenants to run the test binary as an MCP server, with
// the argument --metric and the variable MCP_TOKEN.
func AllowStdioCommand(tb testing.TB) func(*config.Config) {
	tb.Helper()
	text, err := json.Marshal([]Object{{
		"name": StdioCommand, "command": sandboxtest.Executable(tb), "args": []string{StdioServer},
		"tenant_args": []string{"--metric"}, "tenant_env": []string{"MCP_TOKEN"}, "limits": Object{"memory_mib": sandboxtest.MemoryMiB},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "commands.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return func(c *config.Config) { c.Security.MCPStdioCommands = file }
}

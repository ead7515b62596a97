package bridgeclient

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	serverStart = 30 * time.Second // for an MCP server to say what it has
	maxRemote   = 200              // tools of all servers
)

// servers are the MCP servers that run here, with what they can do.
type servers struct {
	sessions []*mcp.ClientSession
	offered  []remoteTool
}

type remoteTool struct {
	session *mcp.ClientSession
	tool    *mcp.Tool
}

// startServers starts the MCP servers. They end with the program.
func startServers(ctx context.Context, c Config) (*servers, error) {
	s := &servers{}
	for _, line := range c.Servers {
		if err := s.start(ctx, c, line); err != nil {
			s.close()
			return nil, fmt.Errorf("the MCP server %q cannot be used: %w", strings.Join(line, " "), err)
		}
	}
	return s, nil
}

func (s *servers) start(ctx context.Context, c Config, line []string) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), line[0], line[1:]...) // close ends it
	ctx, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	cmd.Dir, cmd.Stderr, cmd.Env = c.Dir, os.Stderr, withoutKeys(os.Environ())
	client := mcp.NewClient(&mcp.Implementation{Name: "agentd-bridge", Version: c.Version}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return err
	}
	s.sessions = append(s.sessions, session)
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		if len(s.offered) >= maxRemote {
			return fmt.Errorf("the servers have more than %d tools", maxRemote)
		}
		s.offered = append(s.offered, remoteTool{session, t})
	}
	return nil
}

func (s *servers) close() {
	for _, session := range s.sessions {
		_ = session.Close() // the program ends
	}
}

// tools are the tools of the servers. Those that say that they only read need no approval.
func (s *servers) tools(others Permission) (all []tool) {
	for _, r := range s.offered {
		t := tool{name: r.tool.Name, doc: r.tool.Description, permission: others, run: r.call}
		if a := r.tool.Annotations; a != nil && a.ReadOnlyHint {
			t.permission, t.reads = Allow, true
		}
		if schema, err := json.Marshal(r.tool.InputSchema); err == nil && string(schema) != "null" {
			t.parameters = schema
		} else {
			t.parameters = jsontext.Value(`{"type":"object"}`)
		}
		all = append(all, t)
	}
	return all
}

// call calls a tool of a server.
func (r remoteTool) call(ctx context.Context, arguments string, _ *counts) (out string, failed bool) {
	var args map[string]any
	if strings.TrimSpace(arguments) != "" {
		if err := json.Unmarshal([]byte(arguments), &args); err != nil {
			return "The arguments cannot be read: " + err.Error(), true
		}
	}
	result, err := r.session.CallTool(ctx, &mcp.CallToolParams{Name: r.tool.Name, Arguments: args})
	if err != nil {
		return err.Error(), true
	}
	var b strings.Builder
	for _, part := range result.Content {
		if text, ok := part.(*mcp.TextContent); ok {
			fmt.Fprintln(&b, text.Text)
		}
	}
	return b.String(), result.IsError
}

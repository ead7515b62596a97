package app

import (
	"fmt"
	"path/filepath"
	"time"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/config"
	"agentd/internal/base/share"
	"agentd/internal/content/workspace"
	"agentd/internal/wire/extractor"
	"agentd/internal/wire/sandbox"
	"agentd/internal/wire/workcommand"
)

// Child turns the process into one that reads a document, if agentd started it for that.
// main calls it before anything else. Sandboxed commands do not come so far: see package
// sandbox.
func Child() {
	extractor.Main()
}

// commands are the programs that the operator allows: what tenants may set of
// them, and what they may use.
type commands struct {
	rules   map[string]mcp.Command
	run     map[string]sandbox.Command
	sandbox *sandbox.Sandbox // nil where there are no commands
}

func newCommands(p *platform) (commands, error) {
	c := commands{rules: map[string]mcp.Command{}, run: map[string]sandbox.Command{}}
	all, err := p.cfg.Security.Commands()
	if err != nil || len(all) == 0 {
		return c, err
	}
	for _, one := range all {
		c.rules[one.Name] = &one
		c.run[one.Name] = sandbox.Command{
			Path: one.Path, Args: one.Args, Env: one.Env, Read: one.Read, Offline: one.Network != nil && !*one.Network,
			Limits: sandbox.Limits(one.Limits),
		}
	}
	if c.sandbox, err = newSandbox(p); err != nil {
		return c, fmt.Errorf("AGENTD_MCP_STDIO: %w", err)
	}
	return c, nil
}

func newSandbox(p *platform) (*sandbox.Sandbox, error) {
	box, err := sandbox.New(sandbox.Config{User: p.cfg.Security.SandboxUser, Hidden: hidden(p.cfg)})
	if err != nil {
		return nil, err
	}
	if missing := box.Missing(); len(missing) > 0 {
		p.log.Warn("this system cannot hold sandboxed commands as firmly as others can", "missing", missing)
	}
	return box, nil
}

// At most four commands of workspaces run on a node at once, two of them for one tenant.
const (
	runners     = 4
	runnersEach = 2
	runnersWait = 8 * time.Second
)

// workspaceCommands is what commands in workspaces need. They get a sandbox of their own
// when the first one runs.
func workspaceCommands(p *platform) (*workspace.Commands, workspace.TerminalOpener) {
	runner := &workcommand.Runner{New: func() (*sandbox.Sandbox, error) {
		box, err := newSandbox(p)
		if err != nil {
			p.log.Error("commands in workspaces are switched on, and cannot be confined here", "err", err)
		}
		return box, err
	}}
	return &workspace.Commands{
		Policy: func() workspace.CommandPolicy {
			c := p.config.RunCommand()
			return workspace.CommandPolicy{
				Enabled: c.Enabled, Allowed: c.Allowed, MaxTime: time.Duration(c.MaxSeconds) * time.Second, MemoryMiB: int(c.MemoryMiB),
				Terminal: c.Terminal,
			}
		},
		Places: share.New(runners, runnersEach, runnersWait), Runner: runner,
	}, runner
}

// hidden returns the files and directories that no command may read.
func hidden(cfg config.Config) []string {
	all := []string{cfg.Storage.DataDir}
	for _, file := range []string{cfg.SignIn.OIDCProviders, cfg.Models.Providers, cfg.Security.MCPStdioCommands} {
		if file != "" {
			all = append(all, file)
		}
	}
	for i, path := range all {
		if abs, err := filepath.Abs(path); err == nil {
			all[i] = abs
		}
	}
	return all
}

package app

import (
	"fmt"
	"path/filepath"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/config"
	"agentd/internal/wire/extractor"
	"agentd/internal/wire/sandbox"
)

// Child turns the process into a sandboxed command, or into one that reads a document,
// if agentd started it for that. main calls it before anything else.
func Child() {
	sandbox.Main()
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
	if c.sandbox, err = sandbox.New(sandbox.Config{User: p.cfg.Security.SandboxUser, Hidden: hidden(p.cfg)}); err != nil {
		return c, fmt.Errorf("AGENTD_MCP_STDIO: %w", err)
	}
	if missing := c.sandbox.Missing(); len(missing) > 0 {
		p.log.Warn("this system cannot hold sandboxed commands as firmly as others can", "missing", missing)
	}
	return c, nil
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

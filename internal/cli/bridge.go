package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentd/internal/cli/bridgeclient"
	"agentd/internal/store/sqldb"
)

type bridgeCommand struct {
	remote
	Dir      string        `placeholder:"DIR" help:"Folder that the agent works in. Left out: the current one."`
	Name     string        `placeholder:"NAME" help:"Name of the machine and of its agent. Left out: the host's name and the folder's."`
	Commands string        `enum:"ask,allow,off" default:"ask" placeholder:"HOW" help:"Whether the agent may run commands: ask waits for a person's approval of each, allow does not, off hides them."`
	Writes   string        `enum:"ask,allow,off" default:"allow" placeholder:"HOW" help:"Whether it may write files in the folder: ask, allow or off."`
	MCP      []string      `name:"mcp" sep:"none" placeholder:"COMMAND" help:"An MCP server to start here, as a program with its arguments; may be repeated."`
	MCPCalls string        `name:"mcp-calls" enum:"ask,allow,off" default:"ask" placeholder:"HOW" help:"Whether it may call tools of MCP servers that do more than read: ask, allow or off."`
	Model    string        `placeholder:"REF" help:"Model of the catalogue to use, in place of the agent's."`
	Timeout  time.Duration `default:"2m" placeholder:"DURATION" help:"How long a command may take."`
	State    string        `placeholder:"DIR" help:"Where the tasks are kept, so that they go on after the program was killed. Left out: a directory of the user's configuration."`
}

// Run implements the command.
func (cmd *bridgeCommand) Run(s *server) error {
	dir, err := filepath.Abs(cmd.Dir)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return usageError("--dir %s is no folder", cmd.Dir)
	}
	c := bridgeclient.Config{
		API: s.Client, URL: cmd.Server.URL, Key: cmd.Server.Key, Dir: dir, State: cmd.State, Name: cmd.Name, Model: cmd.Model,
		Version: s.deps.Version, Commands: bridgeclient.Permission(cmd.Commands), Writes: bridgeclient.Permission(cmd.Writes),
		Remote: bridgeclient.Permission(cmd.MCPCalls), Timeout: cmd.Timeout, Say: s.note,
	}
	for _, line := range cmd.MCP {
		if words := strings.Fields(line); len(words) > 0 {
			c.Servers = append(c.Servers, words)
		}
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "machine"
		}
		c.Name = host + ":" + filepath.Base(dir)
	}
	if c.State == "" {
		if c.State, err = bridgeState(cmd.Server.URL, dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		return err
	}
	unlock, err := sqldb.LockDir(c.State)
	if err != nil {
		return fmt.Errorf("the tasks in %s are another program's: an agentd bridge connects this folder already; stop it, "+
			"or name another directory with --state", c.State)
	}
	defer func() { _ = unlock() }() // the process ends
	return bridgeclient.Run(s, c)
}

// bridgeState is the directory of a connection of one folder with one server.
func bridgeState(url, dir string) (string, error) {
	base, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no directory for the user's configuration; name one with --state (%w)", err)
	}
	sum := sha256.Sum256([]byte(url + "\n" + dir))
	return filepath.Join(base, "agentd", "bridge", hex.EncodeToString(sum[:8])), nil
}

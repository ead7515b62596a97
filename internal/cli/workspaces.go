package cli

import (
	"fmt"

	"agentd/internal/cli/terminalclient"
	"agentd/internal/client"
)

type workspacesTerminalCommand struct {
	remote
	Workspace string `arg:"" help:"ID of the workspace."`
	Dir       string `placeholder:"FOLDER" help:"Folder of the workspace that the shell begins in. Left out: the root."`
}

// shellFailed is the error of a shell that ended with another code than 0, which it has
// explained itself.
type shellFailed struct{ code int }

func (e shellFailed) Error() string { return fmt.Sprintf("the shell ended with %d", e.code) }

// Run implements the command.
func (cmd *workspacesTerminalCommand) Run(s *server) error {
	code, err := terminalclient.Run(s, terminalclient.Config{
		URL: cmd.Server.URL, Key: cmd.Server.Key, Tenant: cmd.Server.Tenant, Workspace: cmd.Workspace, Dir: cmd.Dir,
		In: s.deps.Stdin, Out: s.stdout, Say: s.note,
		Refused: client.ProblemOf,
	})
	if err == nil && code != 0 {
		return shellFailed{code}
	}
	return err
}

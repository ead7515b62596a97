package cli

import (
	"errors"

	"agentd/internal/base/config"
)

type serveCommand struct {
	Config config.Config `embed:""`
}

// Run implements the command. The parser has validated the settings.
func (cmd *serveCommand) Run(inv *invocation) error {
	if inv.deps.Serve == nil {
		return errors.New("this program was built without the server")
	}
	inv.warnOfReaders(cmd.Config.Storage)
	return inv.deps.Serve(inv, cmd.Config)
}

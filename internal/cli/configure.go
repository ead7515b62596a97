package cli

import (
	"fmt"

	"agentd/internal/base/config"
)

type configShowCommand struct {
	Config config.Config `embed:""`
}

// Run implements the command.
func (cmd *configShowCommand) Run(inv *invocation) error {
	_, err := fmt.Fprint(inv.stdout, cmd.Config.Dump())
	return err
}

type configReferenceCommand struct{}

// Run implements the command.
func (*configReferenceCommand) Run(inv *invocation) error {
	_, err := fmt.Fprint(inv.stdout, config.Reference())
	return err
}

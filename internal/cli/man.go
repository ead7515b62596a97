package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
	mangokong "github.com/alecthomas/mango-kong"
	"github.com/muesli/roff"
)

type manCommand struct{}

// Run implements the command.
func (manCommand) Run(inv *invocation) error {
	_, err := fmt.Fprint(inv.stdout, manPage())
	return err
}

// manPage returns the manual of all commands, as man reads it.
func manPage() string {
	parser := newParser(newInvocation(context.Background(), Deps{
		Stdout: io.Discard, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false },
	}))
	_ = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if command, ok := node.(*kong.Node); ok {
			command.Detail = "" // examples, which are on the page docs/cli.md
		}
		return next(nil)
	})
	parser.Model.Help = "runs AI agents: durably, streamed, behind one API"
	page := mangokong.NewManPage(1, parser.Model).
		WithLongDescription("One program is the server (agentd serve), its operator's tools (agentd admin) and the command line of "+
			"everybody who works with agents. agentd help COMMAND shows the examples that docs/cli.md has.").
		WithSection("Environment", "Settings are flags or variables whose names begin with AGENTD_; agentd config reference lists them. "+
			"AGENTD_URL and AGENTD_KEY say to which server commands speak, and with which key.").
		WithSection("Exit status", "0: done. 1: the server refused, a run did not complete, or a check failed. "+
			"2: the command line is invalid; nothing was done. 3: the run goes on or waits, and the command left it.")
	return page.Build(roff.NewDocument())
}

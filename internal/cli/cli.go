// Package cli is the command line of agentd: the server, the commands of its
// operator, which work on the database directly, and the commands for a
// person, which talk to a server over HTTP.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"agentd/internal/base/config"
)

// Deps is what main, or a test, provides to the command line.
type Deps struct {
	Version string
	Program string // what is typed to run this program; empty: agentd
	// Serve runs the server until ctx ends.
	Serve func(ctx context.Context, cfg config.Config) error

	Stdout, Stderr io.Writer
	LookupEnv      func(string) (string, bool) // nil: os.LookupEnv
	Now            func() time.Time            // nil: time.Now

	cancelGrace time.Duration // how long an interrupted command waits for its run to end; 0: 10 s
}

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // the command failed
	exitUsage   = 2 // the command line is invalid
)

type commands struct {
	Help    helpFlag    `short:"h" help:"Show help."`
	Version versionFlag `help:"Print the version."`

	Serve   serveCommand   `cmd:"" group:"Server" help:"Run the server."`
	Migrate migrateCommand `cmd:"" group:"Server" help:"Migrate the database to this version's schema, or back."`
	Config  struct {
		Show      configShowCommand      `cmd:"" default:"withargs" help:"Print the effective configuration, without secrets."`
		Reference configReferenceCommand `cmd:"" help:"Print the reference of every setting, as Markdown."`
	} `cmd:"" group:"Server" help:"Show the configuration."`
	Admin struct {
		Tenant struct {
			Create     tenantCreateCommand     `cmd:"" help:"Create a tenant, its owner and the owner's key."`
			List       tenantListCommand       `cmd:"" help:"List tenants, newest first."`
			Suspend    tenantSuspendCommand    `cmd:"" help:"Suspend a tenant: its keys are refused and its runs stop."`
			Reactivate tenantReactivateCommand `cmd:"" help:"Reactivate a suspended tenant; its runs continue where they stopped."`
			Purge      tenantPurgeCommand      `cmd:"" help:"Delete a tenant with all its data."`
		} `cmd:"" help:"Tenants."`
		Key struct {
			Create keyCreateCommand `cmd:"" help:"Create a key for a member of a tenant."`
		} `cmd:"" help:"Keys."`
		Secrets struct {
			Rotate secretsRotateCommand `cmd:"" help:"Seal everything again with the first key of AGENTD_SECRET_KEY."`
			Status secretsStatusCommand `cmd:"" help:"Count the sealed values by the secret key that they need."`
			Forget secretsForgetCommand `cmd:"" help:"Let the server start without a secret key that is lost."`
		} `cmd:"" help:"Secret keys."`
	} `cmd:"" group:"Server" help:"Manage tenants, keys and secret keys, also while a server runs."`

	Agent struct {
		Create agentCreateCommand `cmd:"" help:"Create an agent."`
		List   agentListCommand   `cmd:"" help:"List agents."`
	} `cmd:"" group:"Agents" help:"Create and list agents."`
	Run  runCommand `cmd:"" group:"Agents" help:"Start a run of an agent and follow it to its end."`
	Runs struct {
		List   runsListCommand   `cmd:"" help:"List runs, newest first."`
		Show   runsShowCommand   `cmd:"" help:"Show a run with its output and steps."`
		Cancel runsCancelCommand `cmd:"" help:"Cancel a run."`
	} `cmd:"" group:"Agents" help:"List, show and cancel runs."`
}

// Main runs one command and returns the exit code of the process.
func Main(ctx context.Context, args []string, deps Deps) int {
	if deps.LookupEnv == nil {
		deps.LookupEnv = os.LookupEnv
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	deps.Program = cmp.Or(deps.Program, "agentd")
	if deps.cancelGrace == 0 {
		deps.cancelGrace = 10 * time.Second
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	var cmds commands
	inv := &invocation{
		Context: ctx, deps: deps, stdout: deps.Stdout, stderr: deps.Stderr, now: deps.Now,
		dim: isTerminal(deps.Stderr) && os.Getenv("NO_COLOR") == "", stdoutTerminal: isTerminal(deps.Stdout),
	}
	parser := kong.Must(&cmds,
		kong.Name("agentd"),
		kong.Description("agentd runs AI agents: durably, streamed, behind one API."),
		kong.NoDefaultHelp(),
		kong.Writers(deps.Stdout, deps.Stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
		kong.ValueFormatter(describe),
		kong.Resolvers(environment(deps.LookupEnv)),
		kong.Bind(inv),
	)
	forgetEnvironment(parser)
	parsed, err := parser.Parse(args)
	if err == nil {
		err = parsed.Run()
	}
	return inv.end(err)
}

// end reports an error, if there was one, and returns the exit code.
func (inv *invocation) end(err error) int {
	var usage *kong.ParseError
	switch {
	case err == nil || errors.Is(err, errAnswered):
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(inv.stderr, "agentd: %s\n", usage)
		command := "agentd"
		if usage.Context != nil {
			if words := strings.Fields(usage.Context.Command()); len(words) > 0 && !strings.HasPrefix(words[0], "<") {
				command += " " + words[0]
			}
		}
		fmt.Fprintf(inv.stderr, "Try: %s --help\n", command)
		return exitUsage
	}
	fmt.Fprintf(inv.stderr, "Error: %s\n", clean(explain(err)))
	return exitFailure
}

// errAnswered ends parsing where a flag was the whole request.
var errAnswered = errors.New("answered")

type helpFlag bool

// BeforeReset implements a hook of kong.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errAnswered
}

type versionFlag bool

// BeforeReset implements a hook of kong.
func (versionFlag) BeforeReset(inv *invocation) error {
	fmt.Fprintf(inv.stdout, "agentd %s\n", inv.deps.Version)
	return errAnswered
}

// environment resolves flags from their environment variables. An empty
// variable counts as absent, as files of variables tend to list all of them.
func environment(lookup func(string) (string, bool)) kong.ResolverFunc {
	return func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, name := range flag.Envs {
			if value, ok := lookup(name); ok && value != "" {
				return value, nil
			}
		}
		return nil, nil
	}
}

// forgetEnvironment keeps kong from reading the process's environment itself:
// it would read that of every command, not only of the one that runs. The flags
// keep the names.
func forgetEnvironment(k *kong.Kong) {
	_ = kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			flag.Tag.Envs = nil
		}
		return next(nil)
	})
}

// describe is the help text of a flag with its default and its environment
// variable.
func describe(value *kong.Value) string {
	text := value.Help
	if value.Flag == nil {
		return text
	}
	if value.HasDefault {
		text += " Default: " + value.Default + "."
	}
	if len(value.Flag.Envs) > 0 {
		text += " ($" + value.Flag.Envs[0] + ")"
	}
	return text
}

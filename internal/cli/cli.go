// Package cli is the command line of agentd: the server, the commands of its
// operator, which work on the database directly, and the commands for a
// person, which call a server over HTTP.
//
// A command is a struct whose fields are its flags and whose Run method gets
// what it needs as arguments: the [invocation], and the [server] if it embeds
// [remote]. examples.go has an example of each command, from which the help
// texts and docs/cli.md are made.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer
	LookupEnv      func(string) (string, bool) // nil: os.LookupEnv
	Environ        func() []string             // nil: os.Environ, unless LookupEnv is set
	Now            func() time.Time            // nil: time.Now

	cancelGrace time.Duration // how long an interrupted command waits for its run to end; 0: 10 s
}

// Exit codes. docs/cli.md has them too.
const (
	exitOK       = 0
	exitFailure  = 1 // the command failed, or its run did not complete
	exitUsage    = 2 // the command line is invalid, or a file to check cannot be read
	exitDetached = 3 // the run goes on, or waits, and the command left it, or it was interrupted
)

// Main runs one command and returns the exit code of the process.
func Main(ctx context.Context, args []string, deps Deps) int {
	if deps.Environ == nil {
		deps.Environ = func() []string { return nil }
		if deps.LookupEnv == nil {
			deps.Environ = os.Environ
		}
	}
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
	inv := newInvocation(ctx, deps)
	parser := newParser(inv)
	if len(args) > 0 && args[0] == completeWord {
		inv.complete(parser, args[1:])
		return exitOK
	}
	parsed, err := parser.Parse(words(args))
	if err == nil {
		inv.command = parsed.Selected().FullPath()
		err = parsed.Run()
	}
	if err == nil && inv.serve != nil {
		err = inv.serve() // without the parser, whose memory is free by now
	}
	return inv.end(err)
}

// words are the arguments as the parser knows them: help is a word too.
func words(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	}
	return args
}

func newParser(inv *invocation) *kong.Kong {
	parser := kong.Must(&commands{},
		kong.Name("agentd"),
		kong.Description("agentd runs AI agents: durably, streamed, behind one API."),
		kong.NoDefaultHelp(),
		kong.Writers(inv.stdout, inv.stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 120}),
		kong.ValueFormatter(describe),
		kong.Resolvers(environment(inv.deps.LookupEnv)),
		kong.Bind(inv),
	)
	_ = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		switch node := node.(type) {
		case *kong.Flag:
			// Kong would read the process's environment itself: that of every
			// command, not only of the one that runs. The flags keep the names.
			node.Tag.Envs = nil
		case *kong.Node:
			node.Detail = exampleText(node)
		}
		return next(nil)
	})
	return parser
}

// usage is the error of a command line that the parser cannot refuse.
type usage struct{ text string }

func (u usage) Error() string { return u.text }

func usageError(format string, args ...any) error { return usage{fmt.Sprintf(format, args...)} }

// detached is the error of a command that left a run which goes on.
type detached struct{ text string }

func (d detached) Error() string { return d.text }

// end reports an error, if there was one, and returns the exit code.
func (inv *invocation) end(err error) int {
	if err == nil || errors.Is(err, errAnswered) {
		return exitOK
	}
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		for _, at := range parse.Context.Path {
			if at.Command != nil {
				inv.command = at.Command.FullPath()
			}
		}
		err = usage{refusal(parse)}
	}
	if u, ok := errors.AsType[usage](err); ok {
		fmt.Fprintf(inv.stderr, "agentd: %s\nTry: %s --help\n", clean(u.text), inv.command)
		return exitUsage
	}
	if d, ok := errors.AsType[detached](err); ok {
		fmt.Fprintln(inv.stderr, clean(d.text))
		return exitDetached
	}
	if ended, ok := errors.AsType[shellFailed](err); ok {
		return ended.code
	}
	if inv.interrupted(err) {
		fmt.Fprintln(inv.stderr, "Interrupted. What has begun on the server goes on there.")
		return exitDetached
	}
	fmt.Fprintf(inv.stderr, "Error: %s\n", clean(explain(err)))
	if _, ok := errors.AsType[unreadable](err); ok {
		return exitUsage
	}
	return exitFailure
}

// interrupted reports whether a client's command ended with err because a signal
// told it to: the server did nothing wrong then, and is not unreachable.
func (inv *invocation) interrupted(err error) bool {
	if inv.serve != nil || inv.Err() == nil {
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(inv))
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
	inv.say("agentd %s", inv.deps.Version)
	return errAnswered
}

type versionCommand struct {
	JSON bool `help:"Print JSON, for scripts."`
}

// Run implements the command.
func (cmd *versionCommand) Run(inv *invocation) error {
	if cmd.JSON {
		return inv.printAny(map[string]string{"version": inv.deps.Version})
	}
	inv.say("agentd %s", inv.deps.Version)
	return nil
}

// helpCommand is listed and completed as the others are; words answers it.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command, as in: help agent create."`
}

// Run implements the command.
func (*helpCommand) Run(ctx *kong.Context) error { return ctx.PrintUsage(false) }

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

// describe is the help text of a flag with its default and its environment
// variable.
func describe(value *kong.Value) string {
	text := value.Help
	if value.Flag == nil {
		return text
	}
	if value.HasDefault && value.Default != "" {
		text += " Default: " + value.Default + "."
	}
	if len(value.Flag.Envs) > 0 {
		text += " ($" + value.Flag.Envs[0] + ")"
	}
	return text
}

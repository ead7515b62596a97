// Command agentd is an agent runtime platform in one program.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/mattn/go-isatty"

	"agentd/internal/app"
	"agentd/internal/base/config"
	"agentd/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	app.Child()
	signals := notify()
	os.Exit(cli.Main(signals.ctx, os.Args[1:], cli.Deps{
		Version: version, Program: program(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Serve: func(ctx context.Context, cfg config.Config) error {
			return app.Serve(ctx, cfg, app.Process{
				Version: version, Program: program(), Out: os.Stdout, Errs: os.Stderr, Cut: signals.second(),
				Terminal: isatty.IsTerminal(os.Stderr.Fd()),
			})
		},
	}))
}

// program is what to type for another command of this program: what was typed
// for this one.
func program() string {
	if strings.Contains(os.Args[0], "go-build") { // where go run builds
		return "go run ./cmd/agentd"
	}
	return os.Args[0]
}

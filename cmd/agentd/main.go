// Command agentd is an agent runtime platform in one program.
package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"agentd/internal/app"
	"agentd/internal/base/config"
	"agentd/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	app.Child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends the process the hard way.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Deps{
		Version: version, Program: program(), Stdout: os.Stdout, Stderr: os.Stderr,
		Serve: func(ctx context.Context, cfg config.Config) error {
			return app.Serve(ctx, cfg, version, program(), os.Stdout, os.Stderr)
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

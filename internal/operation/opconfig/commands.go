package opconfig

import (
	"fmt"
	"path"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
)

// RunCommand is which commands may be run in workspaces.
type RunCommand struct {
	_ struct{} `json:"-" name:"AdminConfigRunCommand"`

	Enabled    bool     `json:"enabled" doc:"Whether commands may be run in workspaces at all; off until the operator switches it on."`
	Allowed    []string `json:"allowed_commands" maxItems:"200" doc:"Programs that may be run: names that are looked up in the system's directories, as wc, or absolute paths. A shell (sh) runs any other program too."`
	MaxSeconds int64    `json:"max_timeout_sec" minimum:"1" maximum:"3600" doc:"Seconds that one command may run at most."`
	Terminal   bool     `json:"terminal_enabled" doc:"Whether admins may open terminals in workspaces, where enabled is set too; off until the operator switches it on. The shell of a terminal runs any program of the system, whatever allowed_commands says; max_timeout_sec and memory_mib bound each process."`
	MemoryMiB  int64    `json:"memory_mib" minimum:"64" maximum:"65536" doc:"Mebibytes of memory that one process of a command may have."`
}

func newRunCommand() RunCommand {
	return RunCommand{Allowed: []string{}, MaxSeconds: 120, MemoryMiB: 512}
}

func checkRunCommand(r *RunCommand) error {
	var wrong []fault.Field
	for i, one := range r.Allowed {
		problem := ""
		switch {
		case one == "" || len(one) > 500 || strings.ContainsAny(one, "\x00\n\r\t '\""):
			problem = "must be the name of a program, as wc, or its absolute path, without spaces and quotes"
		case strings.Contains(one, "/") && (!path.IsAbs(one) || path.Clean(one) != one):
			problem = "must be a name without slashes, or an absolute path without . and .."
		}
		if problem != "" {
			wrong = append(wrong, fault.Field{Field: fmt.Sprintf("allowed_commands[%d]", i), Message: problem})
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// RunCommand returns which commands may be run in workspaces.
func (c *Config) RunCommand() *RunCommand { return c.commands.Get() }

func (c *Config) commandRoutes() []route.Route {
	return routes(c.commands, published[RunCommand, RunCommand]{
		name: "run-command", id: "RunCommand", what: "commands in workspaces", shown: itself[RunCommand],
		example: `{"enabled": false, "allowed_commands": ["wc", "grep"]}`,
		doc:     "Which commands may be run in workspaces, in a sandbox without a network.",
	})
}

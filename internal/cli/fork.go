package cli

import (
	"agentd/internal/client"
)

type runsForkCommand struct {
	remote
	ID      string  `arg:"" name:"run" help:"Id of a run that has ended."`
	Step    int64   `required:"" placeholder:"SEQ" help:"The first step that is made again; runs show lists them."`
	Result  *string `placeholder:"TEXT" help:"What the tool of that step is said to have answered; it is not called again."`
	Message string  `short:"m" placeholder:"TEXT" help:"Message to the agent before it goes on."`
	Detach  bool    `short:"d" help:"Do not follow the new run: print its id and end."`
}

// Run implements the command. It fails unless the new run completes.
func (cmd *runsForkCommand) Run(s *server) error {
	body := map[string]any{"step_seq": cmd.Step}
	if cmd.Result != nil {
		body["tool_result"] = map[string]string{"content": *cmd.Result}
	}
	if cmd.Message != "" {
		body["message"] = cmd.Message
	}
	return s.startRun(client.Path(client.RunsPath, cmd.ID, "fork"), body, cmd.Detach)
}

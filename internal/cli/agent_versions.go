package cli

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/cli/agentfile"
	"agentd/internal/client"
)

type agentVersionsCommand struct {
	listing
	agentArgument
}

// Run implements the command.
func (cmd *agentVersionsCommand) Run(s *server) error {
	id, err := s.agentID(cmd.Agent)
	if err != nil {
		return err
	}
	return list[client.AgentVersion]{
		path: client.Path(client.AgentsPath, id, "versions"), limit: cmd.Limit,
		empty:   "The agent has no versions.",
		heading: []string{"VERSION", "CREATED", "BY", "~CHANGE"},
		row: func(v client.AgentVersion) []string {
			return []string{strconv.Itoa(v.Version), formatTime(s.now(), v.CreatedAt), v.CreatedBy, v.Changelog}
		},
	}.show(s)
}

type agentDiffCommand struct {
	remote
	agentArgument
	From int `arg:"" optional:"" help:"Version to compare. Left out: the one before the newest."`
	To   int `arg:"" optional:"" help:"Version to compare it with. Left out: the newest."`
}

// Run implements the command.
func (cmd *agentDiffCommand) Run(s *server) error {
	id, err := s.agentID(cmd.Agent)
	if err != nil {
		return err
	}
	path := client.Path(client.AgentsPath, id, "versions")
	docs, _, err := list[client.AgentVersion]{path: path}.read(s)
	if err != nil {
		return err
	}
	configs := map[int]jsontext.Value{}
	newest := 0
	for _, d := range docs {
		configs[d.Value.Version] = d.Value.Config
		newest = max(newest, d.Value.Version)
	}
	to, from := cmd.To, cmd.From
	if to == 0 {
		to = newest
	}
	if from == 0 {
		from = newest - 1
	}
	if newest < 2 && cmd.From == 0 {
		s.note("The agent has one version; there is nothing to compare.")
		return nil
	}
	sides := map[int]map[string]jsontext.Value{}
	for _, n := range []int{from, to} {
		config, ok := configs[n]
		if !ok {
			return fmt.Errorf("there is no version %d of the agent; the newest is %d, and they are listed by:  %s agent versions %s",
				n, newest, s.deps.Program, quote(cmd.Agent))
		}
		if sides[n], err = agentfile.Export(config); err != nil {
			return err
		}
	}
	if cmd.JSON {
		diff, err := get[jsontext.Value](s, client.Path(path, strconv.Itoa(to), "diff")+"?compare_to="+strconv.Itoa(from))
		if err != nil {
			return err
		}
		return s.printJSON(diff.Raw)
	}
	diff, err := agentfile.Diff(sides[from], sides[to], fmt.Sprintf("version %d", from), fmt.Sprintf("version %d", to))
	if err != nil {
		return err
	}
	if diff == "" {
		s.note("Versions %d and %d are the same.", from, to)
		return nil
	}
	_, err = fmt.Fprint(s.stdout, clean(diff))
	return err
}

type agentRollbackCommand struct {
	remote
	agentArgument
	Version int `arg:"" help:"Version to go back to."`
}

// Run implements the command.
func (cmd *agentRollbackCommand) Run(s *server) error {
	id, err := s.agentID(cmd.Agent)
	if err != nil {
		return err
	}
	path := client.Path(client.AgentsPath, id, "rollback")
	made, err := call[client.AgentVersion](s, http.MethodPost, path, map[string]int{"version": cmd.Version})
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	s.say("Version %d of the agent is version %d again.", made.Value.Version, cmd.Version)
	return nil
}

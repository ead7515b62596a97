package cli

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

// schedule is what is shown of an agent's schedule.
type schedule struct {
	AgentID     string         `json:"agent_id"`
	AgentName   string         `json:"agent_name"`
	Cron        string         `json:"cron"`
	Timezone    string         `json:"timezone"`
	Enabled     bool           `json:"enabled"`
	Status      string         `json:"status"`
	NextRunAt   time.Time      `json:"next_run_at"`
	LastFiredAt time.Time      `json:"last_fired_at"`
	Input       jsontext.Value `json:"input"`
	Problem     string         `json:"problem"`
}

type schedulesListCommand struct{ listing }

// Run implements the command.
func (cmd *schedulesListCommand) Run(s *server) error {
	return list[schedule]{
		path: "/api/v1/schedules", limit: cmd.Limit,
		empty:   "There are no schedules. Make one:  " + s.deps.Program + " schedules set AGENT --cron '0 9 * * 1-5'",
		heading: []string{"~AGENT", "CRON", "TIMEZONE", "STATUS", "NEXT", "LAST"},
		row: func(e schedule) []string {
			return []string{e.AgentName, e.Cron, e.Timezone, e.Status, formatTime(s.now(), e.NextRunAt), formatTime(s.now(), e.LastFiredAt)}
		},
	}.show(s)
}

func (s *server) schedulePath(agent string) (string, error) {
	id, err := s.agentID(agent)
	return client.Path(client.AgentsPath, id, "schedule"), err
}

type schedulesShowCommand struct {
	remote
	agentArgument
}

// Run implements the command.
func (cmd *schedulesShowCommand) Run(s *server) error {
	path, err := s.schedulePath(cmd.Agent)
	if err != nil {
		return err
	}
	doc, err := get[*schedule](s, path)
	if err != nil {
		return err
	}
	return s.showSchedule(doc, cmd.Agent)
}

func (s *server) showSchedule(doc client.Doc[*schedule], agent string) error {
	if s.json {
		return s.printJSON(doc.Raw)
	}
	if doc.Value == nil {
		s.note("The agent has no schedule. Make one:  %s schedules set %s --cron '0 9 * * 1-5'", s.deps.Program, quote(agent))
		return nil
	}
	e := *doc.Value
	var input struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(e.Input, &input) // other shapes have no message
	enabled := "yes"
	if !e.Enabled {
		enabled = "no"
	}
	s.fields("Agent", agent, "Cron", e.Cron, "Timezone", e.Timezone, "Enabled", enabled, "Status", e.Status, "Message", input.Message,
		"Next", formatMoment(s.now(), e.NextRunAt), "Last", formatMoment(s.now(), e.LastFiredAt), "Problem", e.Problem)
	return nil
}

type schedulesSetCommand struct {
	remote
	agentArgument
	Cron     string `required:"" placeholder:"CRON" help:"When, as '0 9 * * 1-5': minute, hour, day of the month, month and day of the week."`
	Timezone string `default:"UTC" placeholder:"ZONE" help:"Time zone of the cron expression, as Europe/Berlin."`
	Message  string `placeholder:"TEXT" help:"Message of the runs. Default: a sentence that the schedule started the run."`
	Disabled bool   `help:"Keep it without firing."`
}

// Run implements the command.
func (cmd *schedulesSetCommand) Run(s *server) error {
	path, err := s.schedulePath(cmd.Agent)
	if err != nil {
		return err
	}
	body := map[string]any{"cron": cmd.Cron, "timezone": cmd.Timezone, "enabled": !cmd.Disabled}
	if cmd.Message != "" {
		body["input"] = map[string]string{"message": cmd.Message}
	}
	doc, err := call[*schedule](s, http.MethodPut, path, body)
	if err != nil {
		return err
	}
	return s.showSchedule(doc, cmd.Agent)
}

type schedulesDeleteCommand struct {
	remote
	agentArgument
}

// Run implements the command.
func (cmd *schedulesDeleteCommand) Run(s *server) error {
	path, err := s.schedulePath(cmd.Agent)
	if err != nil {
		return err
	}
	return s.send(http.MethodDelete, path, nil, "Removed the schedule of %s.", cmd.Agent)
}

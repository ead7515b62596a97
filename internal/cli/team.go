package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/text"
	"agentd/internal/client"
)

const teamsPath = "/api/v1/teams"

// team is what is shown of a team.
type team struct {
	TeamID       string       `json:"team_id"`
	Name         string       `json:"name"`
	Description  string       `json:"description"`
	Topology     string       `json:"topology"`
	SupervisorID string       `json:"supervisor_agent_id"`
	Workers      []teamWorker `json:"workers"`
	AgentIDs     []string     `json:"agent_ids"`
	CreatedAt    time.Time    `json:"created_at"`
}

type teamWorker struct {
	AgentID string `json:"agent_id"`
	Role    string `json:"role"`
}

// teamRun is what is shown of a run of a team.
type teamRun struct {
	TeamRunID   string       `json:"team_run_id"`
	Status      string       `json:"status"`
	Message     string       `json:"message"`
	Output      string       `json:"output"`
	Error       string       `json:"error"`
	Runs        []client.Run `json:"runs"`
	CreatedAt   time.Time    `json:"created_at"`
	CompletedAt time.Time    `json:"completed_at"`
}

// teamArgument is what every command has that takes a team.
type teamArgument struct {
	Team string `arg:"" help:"Team, by its id or its exact name."`
}

// path returns the path of the team in the API, or of what is below it.
func (a teamArgument) path(s *server, below ...string) (string, error) {
	return lookup[team]{
		path: teamsPath, noun: "team", list: "team list",
		key: func(one team) (id, name string) { return one.TeamID, one.Name },
	}.find(s, a.Team, below...)
}

type teamListCommand struct{ listing }

// Run implements the command.
func (cmd *teamListCommand) Run(s *server) error {
	return list[team]{
		path: teamsPath, limit: cmd.Limit,
		empty:   "There are no teams. Make one:  " + s.deps.Program + " team create NAME --supervisor AGENT --worker AGENT",
		heading: []string{"~NAME", "TOPOLOGY", "WORKERS", "CREATED", "TEAM"},
		row: func(t team) []string {
			return []string{t.Name, t.Topology, strconv.Itoa(len(t.Workers) + len(t.AgentIDs)), formatTime(s.now(), t.CreatedAt), t.TeamID}
		},
	}.show(s)
}

type teamCreateCommand struct {
	remote
	Name        string   `arg:"" help:"Name of the team."`
	Topology    string   `default:"supervisor" enum:"supervisor,round_robin,pipeline,goal_driven,swarm" help:"How they work together: ${enum}."`
	Supervisor  string   `placeholder:"AGENT" help:"Agent that plans and merges, by its id or its exact name; not of a swarm."`
	Worker      []string `placeholder:"AGENT" help:"Member, by its id or its exact name; several in order. The first of a swarm begins."`
	Description string   `placeholder:"TEXT" help:"What the team is for."`
}

// Run implements the command.
func (cmd *teamCreateCommand) Run(s *server) (err error) {
	workers := make([]teamWorker, len(cmd.Worker))
	for i, name := range cmd.Worker {
		if workers[i].AgentID, err = s.agentID(name); err != nil {
			return err
		}
		workers[i].Role = "worker"
	}
	body := map[string]any{"name": cmd.Name, "description": cmd.Description, "topology": cmd.Topology, "workers": workers}
	if cmd.Supervisor != "" {
		if body["supervisor_agent_id"], err = s.agentID(cmd.Supervisor); err != nil {
			return err
		}
	}
	if cmd.Topology == "swarm" && len(workers) > 0 {
		body["swarm_config"] = map[string]string{"initial_agent_id": workers[0].AgentID}
	}
	made, err := call[team](s, http.MethodPost, teamsPath, body)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	s.say("Created team %s (%s).", oneLine(made.Value.Name), made.Value.TeamID)
	s.note("Give it something to do:  %s team run %s \"message\"", s.deps.Program, quote(cmd.Name))
	return nil
}

type teamShowCommand struct {
	remote
	teamArgument
}

// Run implements the command.
func (cmd *teamShowCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	doc, err := get[team](s, path)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	t := doc.Value
	pairs := []string{"Team", t.TeamID, "Name", t.Name, "Description", t.Description, "Topology", t.Topology}
	if t.SupervisorID != "" {
		pairs = append(pairs, "Supervisor", s.agentName(t.SupervisorID))
	}
	for _, w := range t.Workers {
		pairs = append(pairs, "Worker", s.agentName(w.AgentID)+" "+parenthesis(w.Role))
	}
	for _, id := range t.AgentIDs {
		pairs = append(pairs, "Member", s.agentName(id))
	}
	s.fields(append(pairs, "Created", formatMoment(s.now(), t.CreatedAt))...)
	return nil
}

type teamRunCommand struct {
	remote
	teamArgument
	Message []string `arg:"" optional:"" help:"What the team is to do; - is the standard input. Words with @ address members."`
	File    string   `placeholder:"FILE" help:"File with the message; - is the standard input."`
	To      []string `placeholder:"AGENT" help:"Only these members work on it, by their ids or exact names."`
	Chat    bool     `help:"The members answer the message themselves, and see the earlier turns."`
	Detach  bool     `short:"d" help:"Do not follow the run: print its id and end."`
}

// Run implements the command. It fails unless the team has an answer.
func (cmd *teamRunCommand) Run(s *server) error {
	message, err := s.text("<message>", cmd.Message, cmd.File)
	if err != nil {
		return err
	}
	path, err := cmd.path(s, "runs")
	if err != nil {
		return err
	}
	body := map[string]any{"message": message}
	if cmd.Chat {
		body["chat_mode"] = "chat"
	}
	var to []string
	for _, name := range cmd.To {
		id, err := s.agentID(name)
		if err != nil {
			return err
		}
		to = append(to, id)
	}
	if to != nil {
		body["addressed_to"] = to
	}
	made, err := call[teamRun](s, http.MethodPost, path, body)
	switch {
	case err != nil:
		return err
	case cmd.Detach && cmd.JSON:
		return s.printJSON(made.Raw)
	case cmd.Detach:
		s.say("%s", made.Value.TeamRunID)
		s.note("Look at it:  %s team runs %s", s.deps.Program, quote(cmd.Team))
		return nil
	}
	return s.watchTeam(client.Path(path, made.Value.TeamRunID))
}

// watchTeam follows a run of a team to its end and prints its answer.
func (s *server) watchTeam(path string) error {
	lost := func(err error) { s.note("The connection was lost (%v); reconnecting.", err) }
	for frame, err := range s.WatchPath(s, path+"/events", lost) {
		switch {
		case err != nil:
			return err
		case s.json:
			s.showJSON(frame)
		default:
			s.showTeamEvent(frame)
		}
	}
	r, err := get[teamRun](s, path)
	if err != nil {
		return err
	}
	if r.Value.Status != "completed" && r.Value.Status != "partial_failure" {
		return fmt.Errorf("the run %s of the team ended as %s: %s",
			r.Value.TeamRunID, r.Value.Status, cmp.Or(r.Value.Error, "there is no answer"))
	}
	if !s.json {
		fmt.Fprintln(s.stdout, strings.TrimSpace(clean(r.Value.Output)))
		if r.Value.Error != "" {
			s.note("%s", r.Value.Error)
		}
	}
	return nil
}

// showTeamEvent shows on stderr who begins and ends what.
func (s *server) showTeamEvent(frame client.Frame) {
	var d struct {
		AgentID string `json:"agent_id"`
		Round   int    `json:"round"`
		Purpose string `json:"purpose"`
		Status  string `json:"status"`
		RunID   string `json:"run_id"`
	}
	if json.Unmarshal(frame.Data, &d) != nil {
		return // an event of a shape that this version does not know
	}
	switch frame.Name {
	case "team.task_started":
		s.note("Round %d: %s begins (%s, run %s).", d.Round, s.agentName(d.AgentID), d.Purpose, d.RunID)
	case "team.task_ended":
		s.note("Round %d: %s has ended (%s).", d.Round, s.agentName(d.AgentID), d.Status)
	}
}

type teamRunsCommand struct {
	listing
	teamArgument
}

// Run implements the command.
func (cmd *teamRunsCommand) Run(s *server) error {
	path, err := cmd.path(s, "runs")
	if err != nil {
		return err
	}
	return list[teamRun]{
		path: path, limit: cmd.Limit,
		empty:   "There are no runs of this team. Start one:  " + s.deps.Program + " team run " + quote(cmd.Team) + " \"message\"",
		heading: []string{"TEAM RUN", "STATUS", "CREATED", "~MESSAGE"},
		row: func(r teamRun) []string {
			return []string{r.TeamRunID, r.Status, formatTime(s.now(), r.CreatedAt), text.Truncate(oneLine(r.Message), 48)}
		},
	}.show(s)
}

type teamChatCommand struct {
	remote
	teamArgument
	Thread   string `placeholder:"ID" help:"Only the messages of this thread."`
	Internal bool   `help:"With what the members answered on the way."`
}

// Run implements the command.
func (cmd *teamChatCommand) Run(s *server) error {
	path, err := cmd.path(s, "chat")
	if err != nil {
		return err
	}
	q := query("thread_id", cmd.Thread)
	if cmd.Internal {
		q.Set("include_internal", "true")
	}
	type turn struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Pending bool   `json:"run_pending"`
		Meta    struct {
			AgentID string `json:"agent_id"`
			Error   string `json:"error"`
		} `json:"run_meta"`
	}
	doc, err := get[struct {
		Turns []turn `json:"conversation_history"`
	}](s, path+"?"+q.Encode())
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	if len(doc.Value.Turns) == 0 {
		s.note("Nothing was said yet. Say something:  %s team run %s \"message\" --chat", s.deps.Program, quote(cmd.Team))
	}
	for _, t := range doc.Value.Turns {
		who, said := map[string]string{"user": "You", "assistant": "Team"}[t.Role], cmp.Or(t.Content, t.Meta.Error)
		if t.Meta.AgentID != "" {
			who = "  " + s.agentName(t.Meta.AgentID)
		}
		if said == "" && t.Pending {
			said = "…"
		}
		fmt.Fprintf(s.stdout, "%s: %s\n", who, strings.TrimSpace(clean(said)))
	}
	return nil
}

type teamCancelCommand struct {
	remote
	teamArgument
	ID string `arg:"" name:"team-run" help:"Id of the run of the team."`
}

// Run implements the command.
func (cmd *teamCancelCommand) Run(s *server) error {
	path, err := cmd.path(s, "runs", cmd.ID, "cancel")
	if err != nil {
		return err
	}
	answer, err := call[struct {
		Cancelled bool `json:"cancelled"`
	}](s, http.MethodPost, path, nil)
	switch {
	case err != nil:
		return err
	case cmd.JSON:
		return s.printJSON(answer.Raw)
	case answer.Value.Cancelled:
		s.say("Cancelled the run %s of the team.", cmd.ID)
	default:
		s.say("The run of the team had ended already.")
	}
	return nil
}

type teamDeleteCommand struct {
	remote
	teamArgument
}

// Run implements the command.
func (cmd *teamDeleteCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	return s.send(http.MethodDelete, path, nil, "Deleted the team %s with its runs.", cmd.Team)
}

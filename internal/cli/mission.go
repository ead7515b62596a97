package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/text"
	"agentd/internal/client"
)

const missionsPath = "/api/v1/missions"

// mission is what is shown of a mission.
type mission struct {
	MissionID     string    `json:"mission_id"`
	Goal          string    `json:"goal"`
	Status        string    `json:"status"`
	Outcome       string    `json:"outcome"`
	ResultSummary string    `json:"result_summary"`
	ResultCode    string    `json:"result_code"`
	ObjectiveIDs  []string  `json:"objective_ids"`
	CheckpointIDs []string  `json:"checkpoint_ids"`
	Deadline      time.Time `json:"deadline"`
	CreatedAt     time.Time `json:"created_at"`
	CompletedAt   time.Time `json:"completed_at"`
}

// missionArgument is what every command has that takes a mission.
type missionArgument struct {
	Mission string `arg:"" help:"Id of the mission."`
}

func (a missionArgument) path(below ...string) string {
	return client.Path(missionsPath, append([]string{a.Mission}, below...)...)
}

type missionListCommand struct {
	listing
	Session string `placeholder:"ID" help:"Only missions of this session."`
}

// Run implements the command.
func (cmd *missionListCommand) Run(s *server) error {
	return list[mission]{
		path: missionsPath, limit: cmd.Limit, query: query("session_id", cmd.Session),
		empty:   "There are no missions. Start one:  " + s.deps.Program + " mission start \"goal\" --agent AGENT",
		heading: []string{"MISSION", "STATUS", "REACHED", "CREATED", "~GOAL"},
		row: func(m mission) []string {
			return []string{
				m.MissionID, m.Status, fmt.Sprintf("%d of %d", len(m.CheckpointIDs), len(m.ObjectiveIDs)), formatTime(s.now(), m.CreatedAt),
				text.Truncate(oneLine(m.Goal), 48),
			}
		},
	}.show(s)
}

type missionStartCommand struct {
	remote
	Goal      []string `arg:"" optional:"" help:"What is to be reached; - is the standard input."`
	File      string   `placeholder:"FILE" help:"File with the goal; - is the standard input."`
	Agent     []string `required:"" placeholder:"AGENT" help:"Agent that works on it, by its id or its exact name; several. The first also plans."`
	Planner   string   `placeholder:"AGENT" help:"Agent that makes the plan."`
	Judge     string   `placeholder:"AGENT" help:"Agent that verifies results; the planner if omitted."`
	Plan      string   `placeholder:"FILE" help:"File with the plan as JSON, in place of one that the planner makes."`
	Session   string   `placeholder:"ID" help:"Session that it belongs to; a new one of the first agent if omitted."`
	Authorize bool     `help:"The plan waits for: mission authorize."`
	Always    bool     `name:"always-plan" help:"Make a plan however small the goal looks."`
	Budget    float64  `placeholder:"USD" help:"US dollars that all of its runs may cost."`
	Detach    bool     `short:"d" help:"Do not follow the mission: print its id and end."`
}

// Run implements the command. It fails unless the mission completes.
func (cmd *missionStartCommand) Run(s *server) error {
	goal, err := s.text("<goal>", cmd.Goal, cmd.File)
	if err != nil {
		return err
	}
	body, err := cmd.body(s, goal)
	if err != nil {
		return err
	}
	made, err := call[struct {
		MissionID  string `json:"mission_id"`
		RunStarted bool   `json:"run_started"`
	}](s, http.MethodPost, missionsPath, body)
	switch {
	case err != nil:
		return err
	case cmd.Detach && cmd.JSON:
		return s.printJSON(made.Raw)
	case cmd.Detach || !made.Value.RunStarted:
		s.say("%s", made.Value.MissionID)
		if !made.Value.RunStarted {
			s.note("It waits for you:  %s mission authorize %s", s.deps.Program, made.Value.MissionID)
		}
		return nil
	}
	return s.watchMission(client.Path(missionsPath, made.Value.MissionID))
}

func (cmd *missionStartCommand) body(s *server, goal string) (map[string]any, error) {
	body := map[string]any{"goal": goal, "requires_authorization": cmd.Authorize, "skip_classification": cmd.Always}
	var agents []map[string]string
	for _, name := range cmd.Agent {
		id, err := s.agentID(name)
		if err != nil {
			return nil, err
		}
		agents = append(agents, map[string]string{"agent_id": id, "name": name})
	}
	body["available_agents"] = agents
	for field, name := range map[string]string{"planner_agent_id": cmd.Planner, "judge_agent_id": cmd.Judge} {
		if name == "" {
			continue
		}
		id, err := s.agentID(name)
		if err != nil {
			return nil, err
		}
		body[field] = id
	}
	if cmd.Budget > 0 {
		body["max_cost_usd"] = cmd.Budget
	}
	if cmd.Plan != "" {
		plan, err := s.text("<plan>", nil, cmd.Plan)
		if err != nil {
			return nil, err
		}
		if !jsontext.Value(plan).IsValid() {
			return nil, fmt.Errorf("the plan in %s is no JSON", cmd.Plan)
		}
		body["plan"] = jsontext.Value(plan)
	}
	if body["session_id"] = cmd.Session; cmd.Session == "" {
		made, err := call[struct {
			SessionID string `json:"session_id"`
		}](s, http.MethodPost, "/api/v1/sessions", map[string]string{"agent_id": agents[0]["agent_id"]})
		if err != nil {
			return nil, err
		}
		body["session_id"] = made.Value.SessionID
	}
	return body, nil
}

// watchMission follows a mission to its end and prints what came out.
func (s *server) watchMission(path string) error {
	if err := s.followObjectives(path + "/events"); err != nil {
		return err
	}
	m, err := get[mission](s, path)
	if err != nil {
		return err
	}
	if m.Value.Status != "completed" {
		return fmt.Errorf("the mission %s ended as %s: %s\nWhat failed, and why:  %s mission report %s",
			m.Value.MissionID, m.Value.Status, m.Value.ResultSummary, s.deps.Program, m.Value.MissionID)
	}
	if s.json {
		return nil
	}
	all, err := get[struct {
		Items []objective `json:"items"`
	}](s, path+"/objectives")
	if err != nil {
		return err
	}
	for _, o := range all.Value.Items {
		if o.Result != "" {
			fmt.Fprintf(s.stdout, "%s:\n%s\n\n", oneLine(o.Title), strings.TrimSpace(clean(o.Result)))
		}
	}
	s.note("%s", m.Value.ResultSummary)
	return nil
}

type missionShowCommand struct {
	remote
	missionArgument
}

// Run implements the command.
func (cmd *missionShowCommand) Run(s *server) error {
	doc, err := get[mission](s, cmd.path())
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	m := doc.Value
	pairs := []string{
		"Mission", m.MissionID, "Goal", m.Goal, "Status", m.Status,
		"Reached", fmt.Sprintf("%d of %d objectives", len(m.CheckpointIDs), len(m.ObjectiveIDs)),
	}
	if m.ResultSummary != "" {
		pairs = append(pairs, "Result", m.ResultSummary)
	}
	if !m.Deadline.IsZero() {
		pairs = append(pairs, "Deadline", formatMoment(s.now(), m.Deadline))
	}
	pairs = append(pairs, "Created", formatMoment(s.now(), m.CreatedAt))
	if !m.CompletedAt.IsZero() {
		pairs = append(pairs, "Ended", formatMoment(s.now(), m.CompletedAt))
	}
	s.fields(pairs...)
	return nil
}

type missionObjectivesCommand struct {
	remote
	missionArgument
}

// Run implements the command.
func (cmd *missionObjectivesCommand) Run(s *server) error {
	doc, err := get[struct {
		Items []objective `json:"items"`
	}](s, cmd.path("objectives"))
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	for _, o := range doc.Value.Items {
		s.printObjective(o, "")
	}
	return nil
}

type missionFollowCommand struct {
	remote
	missionArgument
}

// Run implements the command.
func (cmd *missionFollowCommand) Run(s *server) error { return s.watchMission(cmd.path()) }

type missionActionCommand struct {
	remote
	missionArgument
}

type missionAuthorizeCommand struct{ missionActionCommand }

// Run implements the command.
func (cmd *missionAuthorizeCommand) Run(s *server) error {
	return s.send(http.MethodPost, cmd.path("authorize"), nil, "Authorized the mission %s.", cmd.Mission)
}

type missionPauseCommand struct{ missionActionCommand }

// Run implements the command.
func (cmd *missionPauseCommand) Run(s *server) error {
	return s.send(http.MethodPost, cmd.path("pause"), nil, "Pausing the mission %s: what is under way ends first.", cmd.Mission)
}

type missionResumeCommand struct{ missionActionCommand }

// Run implements the command.
func (cmd *missionResumeCommand) Run(s *server) error {
	return s.send(http.MethodPost, cmd.path("resume"), nil, "Resumed the mission %s.", cmd.Mission)
}

type missionAbortCommand struct {
	missionActionCommand
	Reason string `placeholder:"TEXT" help:"Why. It is shown with the mission."`
}

// Run implements the command.
func (cmd *missionAbortCommand) Run(s *server) error {
	return s.send(http.MethodPost, cmd.path("abort"), map[string]string{"reason": cmd.Reason}, "Aborted the mission %s.", cmd.Mission)
}

type missionReportCommand struct {
	remote
	missionArgument
}

// Run implements the command.
func (cmd *missionReportCommand) Run(s *server) error {
	doc, err := get[struct {
		Outcome  string `json:"outcome"`
		Outcomes []struct {
			ObjectiveID string `json:"objective_id"`
			Title       string `json:"title"`
			FinalStatus string `json:"final_status"`
			AbortReason string `json:"abort_reason"`
			Strikes     int    `json:"strikes_used"`
		} `json:"objective_outcomes"`
		Failures struct {
			Causes []struct {
				ObjectiveID string `json:"objective_id"`
				Category    string `json:"category"`
				Details     string `json:"details"`
			} `json:"root_causes"`
		} `json:"failure_analysis"`
		Lessons []struct {
			Pattern        string `json:"pattern"`
			Recommendation string `json:"recommendation"`
		} `json:"lessons"`
	}](s, cmd.path("aar"))
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	fmt.Fprintf(s.stdout, "Outcome: %s\n", doc.Value.Outcome)
	causes := doc.Value.Failures.Causes
	for _, o := range doc.Value.Outcomes {
		fmt.Fprintf(s.stdout, "%s: %s, %d strikes %s\n", oneLine(o.Title), o.FinalStatus, o.Strikes, parenthesis(cmp.Or(o.AbortReason, "-")))
		for _, c := range causes {
			if c.ObjectiveID == o.ObjectiveID {
				fmt.Fprintf(s.stdout, "  %s: %s\n", c.Category, oneLine(c.Details))
			}
		}
	}
	for _, l := range doc.Value.Lessons {
		fmt.Fprintf(s.stdout, "%s %s\n", l.Pattern, l.Recommendation)
	}
	return nil
}

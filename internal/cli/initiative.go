package cli

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/client"
)

const initiativesPath = "/api/v1/initiatives"

// initiative is what is shown of an initiative.
type initiative struct {
	InitiativeID string           `json:"initiative_id"`
	Name         string           `json:"name"`
	Mission      string           `json:"mission"`
	Status       string           `json:"status"`
	StatusReason string           `json:"status_reason"`
	StrategistID string           `json:"strategist_agent_id"`
	Goals        []initiativeGoal `json:"strategic_goals"`
	Budget       struct {
		Total float64 `json:"total_usd"`
		Spent float64 `json:"spent_usd"`
		Daily float64 `json:"daily_limit_usd"`
	} `json:"budget"`
	Config struct {
		Schedule string `json:"schedule"`
		Timezone string `json:"timezone"`
	} `json:"config"`
	LastTickAt     time.Time `json:"last_tick_at"`
	LastFollowedAt time.Time `json:"last_successful_tick_at"`
	CreatedAt      time.Time `json:"created_at"`
}

type initiativeGoal struct {
	Title       string    `json:"title"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
}

// objective is what is shown of an objective of a mission or an initiative.
type objective struct {
	ObjectiveID string   `json:"objective_id"`
	Title       string   `json:"title"`
	Status      string   `json:"status"`
	Result      string   `json:"result"`
	AbortReason string   `json:"abort_reason"`
	Notes       []string `json:"progress_notes"`
	AgentID     string   `json:"assigned_agent_id"`
	Strikes     int      `json:"strikes_used"`
	Verified    bool     `json:"verified"`
}

// initiativeArgument is what every command has that takes an initiative.
type initiativeArgument struct {
	Initiative string `arg:"" help:"Initiative, by its id or its exact name."`
}

// path returns the path of the initiative in the API, or of what is below it.
func (a initiativeArgument) path(s *server, below ...string) (string, error) {
	return lookup[initiative]{
		path: initiativesPath, noun: "initiative", list: "initiative list",
		key: func(one initiative) (id, name string) { return one.InitiativeID, one.Name },
	}.find(s, a.Initiative, below...)
}

type initiativeListCommand struct{ listing }

// Run implements the command.
func (cmd *initiativeListCommand) Run(s *server) error {
	return list[initiative]{
		path: initiativesPath, limit: cmd.Limit,
		empty:   "There are no initiatives. Make one:  " + s.deps.Program + " initiative create NAME --mission TEXT --budget USD --daily USD",
		heading: []string{"~NAME", "STATUS", "SPENT", "BUDGET", "LAST TICK", "INITIATIVE"},
		row: func(i initiative) []string {
			tick := "never"
			if !i.LastTickAt.IsZero() {
				tick = formatTime(s.now(), i.LastTickAt)
			}
			return []string{i.Name, i.Status, dollars(i.Budget.Spent), dollars(i.Budget.Total), tick, i.InitiativeID}
		},
	}.show(s)
}

func dollars(usd float64) string { return fmt.Sprintf("$%.2f", usd) }

type initiativeCreateCommand struct {
	remote
	Name       string   `arg:"" help:"Name of the initiative."`
	Mission    string   `required:"" placeholder:"TEXT" help:"What it exists to do."`
	Goal       []string `placeholder:"TEXT" sep:"none" help:"What it is to reach; several."`
	Budget     float64  `required:"" placeholder:"USD" help:"US dollars that it may spend in all."`
	Daily      float64  `required:"" placeholder:"USD" help:"US dollars that it may spend in a day."`
	Alert      float64  `default:"80" placeholder:"PERCENT" help:"Percent of either at which people are notified."`
	Schedule   string   `placeholder:"CRON" help:"When its strategist is asked; hourly if omitted."`
	Strategist string   `placeholder:"AGENT" help:"Agent that plans, by its id or its exact name; one is made if omitted."`
	Agent      []string `placeholder:"AGENT" help:"Agent that it may give objectives to, by its id or its exact name; several."`
}

// Run implements the command.
func (cmd *initiativeCreateCommand) Run(s *server) (err error) {
	goals := []map[string]string{}
	for _, title := range cmd.Goal {
		goals = append(goals, map[string]string{"title": title})
	}
	body := map[string]any{
		"name": cmd.Name, "mission": cmd.Mission, "strategic_goals": goals,
		"budget": map[string]float64{"total_usd": cmd.Budget, "daily_limit_usd": cmd.Daily, "alert_threshold_pct": cmd.Alert},
	}
	if cmd.Schedule != "" {
		body["config"] = map[string]string{"schedule": cmd.Schedule}
	}
	if cmd.Strategist != "" {
		if body["strategist_agent_id"], err = s.agentID(cmd.Strategist); err != nil {
			return err
		}
	}
	var ids []string
	for _, name := range cmd.Agent {
		id, err := s.agentID(name)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if ids != nil {
		body["agent_ids"] = ids
	}
	made, err := call[initiative](s, http.MethodPost, initiativesPath, body)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	s.say("Created initiative %s (%s).", oneLine(made.Value.Name), made.Value.InitiativeID)
	s.note("Ask its strategist now:  %s initiative tick %s", s.deps.Program, quote(cmd.Name))
	return nil
}

type initiativeShowCommand struct {
	remote
	initiativeArgument
}

// Run implements the command.
func (cmd *initiativeShowCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	doc, err := get[initiative](s, path)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	i := doc.Value
	status := i.Status
	if i.StatusReason != "" {
		status += " " + parenthesis(i.StatusReason)
	}
	pairs := []string{
		"Initiative", i.InitiativeID, "Name", i.Name, "Mission", i.Mission, "Status", status, "Strategist", s.agentName(i.StrategistID),
		"Schedule", i.Config.Schedule + " " + parenthesis(i.Config.Timezone),
		"Spent", dollars(i.Budget.Spent) + " of " + dollars(i.Budget.Total) + ", at most " + dollars(i.Budget.Daily) + " a day",
	}
	for _, g := range i.Goals {
		reached := ""
		if !g.CompletedAt.IsZero() {
			reached = " (reached)"
		}
		pairs = append(pairs, "Goal", g.Title+reached)
	}
	if i.LastTickAt.After(i.LastFollowedAt) {
		pairs = append(pairs, "Last tick", formatMoment(s.now(), i.LastTickAt)+"; its answer is not there yet, or could not be followed")
	}
	s.fields(append(pairs, "Created", formatMoment(s.now(), i.CreatedAt))...)
	return nil
}

type initiativeActionCommand struct {
	remote
	initiativeArgument
}

func (cmd *initiativeActionCommand) post(s *server, action, said string) error {
	path, err := cmd.path(s, action)
	if err != nil {
		return err
	}
	return s.send(http.MethodPost, path, nil, said, cmd.Initiative)
}

type initiativePauseCommand struct{ initiativeActionCommand }

// Run implements the command.
func (cmd *initiativePauseCommand) Run(s *server) error {
	return cmd.post(s, "pause", "Paused the initiative %s.")
}

type initiativeResumeCommand struct{ initiativeActionCommand }

// Run implements the command.
func (cmd *initiativeResumeCommand) Run(s *server) error {
	return cmd.post(s, "resume", "Resumed the initiative %s.")
}

type initiativeTickCommand struct{ initiativeActionCommand }

// Run implements the command.
func (cmd *initiativeTickCommand) Run(s *server) error {
	return cmd.post(s, "tick", "The strategist of the initiative %s is being asked.")
}

type initiativeDeleteCommand struct{ initiativeActionCommand }

// Run implements the command.
func (cmd *initiativeDeleteCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	return s.send(http.MethodDelete, path, nil, "Deleted the initiative %s with its objectives.", cmd.Initiative)
}

type initiativeObjectivesCommand struct {
	remote
	initiativeArgument
}

// objectiveTree is an objective with those below it.
type objectiveTree struct {
	Objective objective       `json:"objective"`
	Children  []objectiveTree `json:"children"`
}

// Run implements the command.
func (cmd *initiativeObjectivesCommand) Run(s *server) error {
	path, err := cmd.path(s, "objectives")
	if err != nil {
		return err
	}
	doc, err := get[struct {
		Trees []objectiveTree `json:"trees"`
	}](s, path)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	if len(doc.Value.Trees) == 0 {
		s.note("There are no objectives yet: the strategist adds them. Ask it now:  %s initiative tick %s", s.deps.Program, quote(cmd.Initiative))
	}
	s.printTrees(doc.Value.Trees, "")
	return nil
}

func (s *server) printTrees(trees []objectiveTree, indent string) {
	for _, t := range trees {
		s.printObjective(t.Objective, indent)
		s.printTrees(t.Children, indent+"  ")
	}
}

func (s *server) printObjective(o objective, indent string) {
	status := o.Status
	if o.AbortReason != "" {
		status += ": " + o.AbortReason
	} else if o.Verified {
		status += ", verified"
	}
	fmt.Fprintf(s.stdout, "%s%s (%s)\n", indent, oneLine(o.Title), status)
}

type initiativeActivityCommand struct {
	remote
	initiativeArgument
}

// Run implements the command.
func (cmd *initiativeActivityCommand) Run(s *server) error {
	path, err := cmd.path(s, "activity")
	if err != nil {
		return err
	}
	doc, err := get[struct {
		Entries []struct {
			RunID     string    `json:"run_id"`
			Purpose   string    `json:"purpose"`
			AgentID   string    `json:"agent_id"`
			TeamID    string    `json:"team_id"`
			CreatedAt time.Time `json:"created_at"`
			Success   *bool     `json:"success"`
			Error     string    `json:"error"`
		} `json:"entries"`
	}](s, path)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	for _, e := range doc.Value.Entries {
		how := "under way"
		if e.Success != nil {
			how = "done"
			if !*e.Success {
				how = "failed: " + oneLine(e.Error)
			}
		}
		who := "team " + e.TeamID
		if e.AgentID != "" {
			who = s.agentName(e.AgentID)
		}
		fmt.Fprintf(s.stdout, "%s  %s, %s, run %s: %s\n", formatTime(s.now(), e.CreatedAt), e.Purpose, who, e.RunID, how)
	}
	return nil
}

type initiativeFollowCommand struct {
	remote
	initiativeArgument
}

// Run implements the command.
func (cmd *initiativeFollowCommand) Run(s *server) error {
	path, err := cmd.path(s, "events")
	if err != nil {
		return err
	}
	return s.followObjectives(path)
}

// followObjectives shows the events of a mission or an initiative until they end.
func (s *server) followObjectives(path string) error {
	lost := func(err error) { s.note("The connection was lost (%v); reconnecting.", err) }
	for frame, err := range s.WatchPath(s, path, lost) {
		switch {
		case err != nil:
			return err
		case s.json:
			s.showJSON(frame)
		default:
			s.showObjectiveEvent(frame)
		}
		if frame.Name == "terminal" || frame.Name == "initiative.deleted" {
			return nil
		}
	}
	return nil
}

// showObjectiveEvent shows an event in a line on stderr.
func (s *server) showObjectiveEvent(frame client.Frame) {
	var d struct {
		Title   string `json:"title"`
		From    string `json:"from"`
		To      string `json:"to"`
		RunID   string `json:"run_id"`
		Purpose string `json:"purpose"`
		AgentID string `json:"agent_id"`
		TeamID  string `json:"team_id"`
		Status  string `json:"status"`
		Message string `json:"message"`
		Reason  string `json:"reason"`
	}
	if json.Unmarshal(frame.Data, &d) != nil {
		return // an event of a shape that this version does not know
	}
	switch frame.Name {
	case "objective_change":
		s.note("%s: %s", oneLine(d.Title), d.To)
	case "status_change":
		s.note("Mission: %s", d.To)
	case "task_started":
		who := "team " + d.TeamID
		if d.AgentID != "" {
			who = s.agentName(d.AgentID)
		}
		s.note("  %s begins (%s, run %s).", who, d.Purpose, d.RunID)
	case "task_ended":
		s.note("  The run %s has ended (%s).", d.RunID, d.Status)
	case "initiative.tick_start":
		s.note("The strategist is asked.")
	case "initiative.tick_end":
		if d.Reason != "" {
			s.note("The strategist's answer could not be followed, and is asked for again at the next tick: %s", oneLine(d.Reason))
			break
		}
		s.note("The strategist has answered.")
	case "initiative.escalation":
		s.note("For people: %s", oneLine(d.Message))
	case "initiative.budget_alert", "initiative.budget_exceeded", "initiative.paused", "initiative.resumed", "initiative.goal_completed":
		s.note("%s %s", strings.TrimPrefix(frame.Name, "initiative."), oneLine(d.Title+d.Reason))
	}
}

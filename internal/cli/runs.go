package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/text"
	"agentd/internal/client"
)

type runsListCommand struct {
	listing
	Status []string          `placeholder:"STATUS" help:"Only runs with one of these statuses, as failed,timeout."`
	Agent  string            `placeholder:"AGENT" help:"Only runs of this agent, by its id or its exact name."`
	Since  string            `placeholder:"TIME" help:"Only runs created at this time or later: 2026-09-10T12:00:00Z, or how long ago, as 1h30m or 7d."`
	Until  string            `placeholder:"TIME" help:"Only runs created before this time, as for --since."`
	Meta   map[string]string `placeholder:"KEY=VALUE" help:"Only runs with this in their metadata; up to three times."`
	Error  string            `placeholder:"CODE" help:"Only runs that ended with this error code, as model_error."`
}

// Run implements the command.
func (cmd *runsListCommand) Run(s *server) (err error) {
	agentID := ""
	if cmd.Agent != "" {
		if agentID, err = s.agentID(cmd.Agent); err != nil {
			return err
		}
	}
	since, err := s.moment("since", cmd.Since)
	if err != nil {
		return err
	}
	until, err := s.moment("until", cmd.Until)
	if err != nil {
		return err
	}
	q := query("status", strings.Join(cmd.Status, ","), "agent_id", agentID, "error_code", cmd.Error,
		"created_after", since, "created_before", until)
	for key, value := range cmd.Meta {
		q.Set("metadata["+key+"]", value)
	}
	return list[client.Run]{
		path: client.RunsPath, query: q, limit: cmd.Limit,
		empty:   "There are no such runs. Start one:  " + s.deps.Program + " run AGENT \"message\"",
		heading: []string{"RUN", "~AGENT", "STATUS", "CREATED", "TOOK", "~MESSAGE"},
		row: func(r client.Run) []string {
			return []string{r.RunID, s.agentName(r.AgentID), r.Status, formatTime(s.now(), r.CreatedAt), elapsed(s.now(), r),
				text.Truncate(oneLine(r.Message()), 48)}
		},
	}.show(s)
}

// moment returns the time that a flag says, as the API takes it; "" for none. A
// time without a date is how long ago it was.
func (s *server) moment(flag, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Format(time.RFC3339Nano), nil
	}
	ago, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil {
			ago = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || ago < 0 || ago > 100*365*24*time.Hour {
		return "", fmt.Errorf("--%s: %q is no time; write 2026-09-10T12:00:00Z, or how long ago it was, as 1h30m or 7d", flag, text)
	}
	return s.now().Add(-ago).UTC().Format(time.RFC3339Nano), nil
}

// elapsed is how long a run has been at work, or was.
func elapsed(now time.Time, r client.Run) string {
	switch {
	case r.StartedAt.IsZero():
		return "-"
	case r.CompletedAt.IsZero():
		return formatDuration(now.Sub(r.StartedAt))
	}
	return formatDuration(r.CompletedAt.Sub(r.StartedAt))
}

// runArgument is what every command has that takes a run.
type runArgument struct {
	ID string `arg:"" name:"run" help:"Id of the run."`
}

type runsShowCommand struct {
	remote
	runArgument
}

// Run implements the command.
func (cmd *runsShowCommand) Run(s *server) error {
	run, err := get[client.Run](s, client.Path(client.RunsPath, cmd.ID))
	if err != nil {
		return err
	}
	steps, _, err := list[client.Step]{path: client.Path(client.RunsPath, cmd.ID, "steps")}.read(s)
	if err != nil {
		return err
	}
	if cmd.JSON {
		raw := make([]jsontext.Value, len(steps))
		for i, step := range steps {
			raw[i] = step.Raw
		}
		return s.printAny(struct {
			Run   jsontext.Value   `json:"run"`
			Steps []jsontext.Value `json:"steps"`
		}{run.Raw, raw})
	}
	s.showRun(run.Value)
	return s.showSteps(steps)
}

func (s *server) showRun(r client.Run) {
	pairs := []string{
		"Run", r.RunID, "Agent", s.agentName(r.AgentID), "Session", r.SessionID, "Status", r.Status,
		"Created", formatMoment(s.now(), r.CreatedAt), "Took", strings.TrimPrefix(elapsed(s.now(), r), "-"),
	}
	if r.Metrics.LLMCalls > 0 || r.Metrics.InputTokens > 0 {
		pairs = append(pairs, "Tokens", fmt.Sprintf("%d in, %d out", r.Metrics.InputTokens, r.Metrics.OutputTokens))
	}
	if r.Metrics.CostUSD != nil {
		pairs = append(pairs, "Cost", formatUSD(*r.Metrics.CostUSD))
	}
	pairs = append(pairs, "Message", text.Truncate(oneLine(r.Message()), 200))
	for _, p := range r.Pending {
		pairs = append(pairs, "Waits for", fmt.Sprintf("approval of %s %s (%s)", p.ToolName, brief(p.Arguments), p.ApprovalID))
	}
	pairs = append(pairs, "Asks", r.Question.Question, "Authorize", r.Auth.URL)
	if r.Error != "" {
		pairs = append(pairs, "Error", strings.TrimSpace(r.Error+" "+parenthesis(r.ErrorCode)))
	}
	s.fields(pairs...)
	if answer := strings.TrimSpace(clean(r.Text())); answer != "" {
		fmt.Fprintf(s.stdout, "\n%s\n", answer)
	}
}

func (inv *invocation) showSteps(steps []client.Doc[client.Step]) error {
	if len(steps) == 0 {
		return nil
	}
	var rows [][]string
	for _, doc := range steps {
		step := doc.Value
		what := toolOf(step)
		if reason := brief(step.Error); reason != "" && reason != "null" {
			what = strings.TrimSpace(what + " " + reason)
		}
		rows = append(rows, []string{strconv.Itoa(step.Seq), step.Type, step.Status, formatDuration(milliseconds(step.DurationMS)), what})
	}
	fmt.Fprintln(inv.stdout)
	return inv.table([]string{"STEP", "TYPE", "STATUS", "TOOK", "~"}, rows)
}

// toolOf names the tool that a step called.
func toolOf(s client.Step) string {
	var in struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if s.Type != "tool" || json.Unmarshal(s.Input, &in) != nil {
		return ""
	}
	return text.Truncate(in.Name+" "+brief(in.Arguments), 80)
}

type runsCancelCommand struct {
	remote
	runArgument
}

// Run implements the command.
func (cmd *runsCancelCommand) Run(s *server) error {
	answer, err := call[client.Cancelled](s, http.MethodPost, client.Path(client.RunsPath, cmd.ID, "cancel"), nil)
	switch {
	case err != nil:
		return err
	case cmd.JSON:
		return s.printJSON(answer.Raw)
	case answer.Value.Cancelled:
		s.say("Cancelled run %s.", cmd.ID)
	default:
		s.say("%s", oneLine(cmp.Or(answer.Value.Message, "The run had ended already.")))
	}
	return nil
}

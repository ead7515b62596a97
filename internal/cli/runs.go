package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/config"
	"agentd/internal/base/text"
	"agentd/internal/client"
)

type runsListCommand struct {
	Server config.Client `embed:"" group:"Server"`
	Status string        `placeholder:"STATUS" help:"Only runs with this status, as running."`
	Agent  string        `placeholder:"AGENT" help:"Only runs of this agent, by its id or its exact name."`
	Limit  int           `default:"20" placeholder:"N" help:"How many to list."`
	JSON   bool          `help:"Print the runs as a JSON array."`
}

// Run implements the command.
func (cmd *runsListCommand) Run(inv *invocation) error {
	c, err := inv.connect(cmd.Server)
	if err != nil {
		return err
	}
	filter := client.RunFilter{Status: cmd.Status}
	if cmd.Agent != "" {
		if filter.AgentID, err = inv.findAgent(c, cmd.Agent); err != nil {
			return err
		}
	}
	var runs []client.Run
	raw := []jsontext.Value{}
	for run, err := range c.Runs(inv, filter, cmd.Limit) {
		if err != nil {
			return err
		}
		if len(raw) == max(cmd.Limit, 1) {
			break
		}
		runs, raw = append(runs, run.Value), append(raw, run.Raw)
	}
	if cmd.JSON {
		return inv.printArray(raw)
	}
	if len(runs) == 0 {
		inv.note("There are no such runs. Start one:  %s run AGENT \"message\"", inv.deps.Program)
		return nil
	}
	names := inv.agentNames(c, runs)
	var rows [][]string
	for _, r := range runs {
		rows = append(rows, []string{r.RunID, text.Truncate(names[r.AgentID], 24), r.Status, formatTime(inv.now(), r.CreatedAt),
			elapsed(inv.now(), r), text.Truncate(oneLine(r.Message()), 48)})
	}
	return inv.table([]string{"RUN", "AGENT", "STATUS", "CREATED", "TOOK", "MESSAGE"}, rows)
}

// agentNames looks up what the agents of some runs are called. An agent that
// cannot be read is shown by its id.
func (inv *invocation) agentNames(c *client.Client, runs []client.Run) map[string]string {
	names := map[string]string{}
	for _, r := range runs {
		if _, ok := names[r.AgentID]; ok {
			continue
		}
		names[r.AgentID] = r.AgentID
		if agent, err := c.Agent(inv, r.AgentID); err == nil {
			names[r.AgentID] = agent.Value.Name
		}
	}
	return names
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

type runsShowCommand struct {
	Server config.Client `embed:"" group:"Server"`
	ID     string        `arg:"" help:"Id of the run."`
	JSON   bool          `help:"Print the run and its steps as JSON."`
}

// Run implements the command.
func (cmd *runsShowCommand) Run(inv *invocation) error {
	c, err := inv.connect(cmd.Server)
	if err != nil {
		return err
	}
	run, err := c.Run(inv, cmd.ID)
	if err != nil {
		return err
	}
	steps, err := c.Steps(inv, cmd.ID)
	if err != nil {
		return err
	}
	if cmd.JSON {
		raw := make([]jsontext.Value, len(steps))
		for i, s := range steps {
			raw[i] = s.Raw
		}
		text, err := json.Marshal(struct {
			Run   jsontext.Value   `json:"run"`
			Steps []jsontext.Value `json:"steps"`
		}{run.Raw, raw})
		if err != nil {
			return err
		}
		return inv.printJSON(text)
	}
	inv.showRun(run.Value, inv.agentNames(c, []client.Run{run.Value})[run.Value.AgentID])
	return inv.showSteps(steps)
}

func (inv *invocation) showRun(r client.Run, agent string) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(inv.stdout, "%-9s %s\n", name, oneLine(value))
		}
	}
	line("Run", r.RunID)
	line("Agent", agent)
	line("Status", r.Status)
	if !r.CreatedAt.IsZero() {
		line("Created", formatTime(inv.now(), r.CreatedAt)+", at "+r.CreatedAt.Local().Format(time.DateTime))
	}
	line("Took", strings.TrimPrefix(elapsed(inv.now(), r), "-"))
	if r.Metrics.LLMCalls > 0 || r.Metrics.InputTokens > 0 {
		line("Tokens", fmt.Sprintf("%d in, %d out", r.Metrics.InputTokens, r.Metrics.OutputTokens))
	}
	if r.Metrics.CostUSD != nil {
		line("Cost", formatUSD(*r.Metrics.CostUSD))
	}
	line("Message", text.Truncate(oneLine(r.Message()), 200))
	for _, p := range r.Pending {
		line("Waits for", fmt.Sprintf("approval of %s %s", p.ToolName, brief(p.Arguments)))
	}
	if r.Error != "" {
		line("Error", strings.TrimSpace(r.Error+" "+parenthesis(r.ErrorCode)))
	}
	if text := strings.TrimSpace(clean(r.Text())); text != "" {
		fmt.Fprintf(inv.stdout, "\n%s\n", text)
	}
}

func (inv *invocation) showSteps(steps []client.Doc[client.Step]) error {
	if len(steps) == 0 {
		return nil
	}
	var rows [][]string
	for _, doc := range steps {
		s := doc.Value
		what := toolOf(s)
		if reason := brief(s.Error); reason != "" && reason != "null" {
			what = strings.TrimSpace(what + " " + reason)
		}
		rows = append(rows, []string{strconv.Itoa(s.Seq), s.Type, s.Status, formatDuration(milliseconds(s.DurationMS)), what})
	}
	fmt.Fprintln(inv.stdout)
	return inv.table([]string{"STEP", "TYPE", "STATUS", "TOOK", ""}, rows)
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
	Server config.Client `embed:"" group:"Server"`
	ID     string        `arg:"" help:"Id of the run."`
	JSON   bool          `help:"Print the answer as JSON."`
}

// Run implements the command.
func (cmd *runsCancelCommand) Run(inv *invocation) error {
	c, err := inv.connect(cmd.Server)
	if err != nil {
		return err
	}
	answer, err := c.Cancel(inv, cmd.ID)
	switch {
	case err != nil:
		return err
	case cmd.JSON:
		return inv.printJSON(answer.Raw)
	case answer.Value.Cancelled:
		fmt.Fprintf(inv.stdout, "Cancelled run %s.\n", cmd.ID)
	default:
		fmt.Fprintln(inv.stdout, oneLine(firstNonEmpty(answer.Value.Message, "The run had ended already.")))
	}
	return nil
}

// jsonArray writes JSON values as one array.
func (inv *invocation) printArray(values []jsontext.Value) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return inv.printJSON(text)
}

// formatUSD returns an amount in cents, or a smaller one to a millionth.
func formatUSD(usd float64) string {
	if usd == 0 || usd >= 0.01 {
		return fmt.Sprintf("$%.2f", usd)
	}
	return "$" + strings.TrimRight(fmt.Sprintf("%.6f", usd), "0")
}

func parenthesis(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/config"
	"agentd/internal/client"
)

type runCommand struct {
	Server  config.Client `embed:"" group:"Server"`
	Agent   string        `arg:"" help:"Agent, by its id or its exact name."`
	Message string        `arg:"" help:"What to say to it."`
	JSON    bool          `help:"Print every event of the run as one line of JSON."`
}

// Run implements the command. It fails unless the run completes.
func (cmd *runCommand) Run(inv *invocation) error {
	c, err := inv.connect(cmd.Server)
	if err != nil {
		return err
	}
	agentID, err := inv.findAgent(c, cmd.Agent)
	if err != nil {
		return err
	}
	run, err := c.StartRun(inv, agentID, cmd.Message)
	if err != nil {
		return err
	}
	var show func(client.Frame)
	if cmd.JSON {
		show = inv.showJSON
	} else {
		show = (&follower{inv: inv}).show
	}
	end, err := inv.follow(c, run.Value.RunID, show)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.Value.RunID, err)
	}
	if !cmd.JSON && inv.dim {
		inv.note("%s", end.summary(run.Value.RunID))
	}
	if end.Status == "completed" {
		return nil
	}
	return inv.failure(c, run.Value.RunID, end.Status)
}

// ending is the data of the frame that ends a run's stream.
type ending struct {
	Status  string         `json:"status"`
	Metrics client.Metrics `json:"metrics"`
	CostUSD *float64       `json:"cost_usd"`
}

func (e ending) summary(runID string) string {
	s := fmt.Sprintf("run %s: %d steps, %d tokens in, %d out, %s", runID, e.Metrics.Steps, e.Metrics.InputTokens, e.Metrics.OutputTokens,
		formatDuration(milliseconds(e.Metrics.DurationMS)))
	if e.CostUSD != nil {
		s += ", " + formatUSD(*e.CostUSD)
	}
	return s
}

// follow shows a run's events up to its end. When the person interrupts, the
// run is cancelled once, and its end is still awaited for a while.
func (inv *invocation) follow(c *client.Client, runID string, show func(client.Frame)) (ending, error) {
	watching, leave := context.WithCancel(context.WithoutCancel(inv))
	defer leave()
	asked := make(chan struct{})
	stop := context.AfterFunc(inv, func() {
		defer close(asked)
		inv.note("Cancelling the run; interrupt again to leave it alone.")
		time.AfterFunc(inv.deps.cancelGrace, leave)
		if _, err := c.Cancel(watching, runID); err != nil && watching.Err() == nil {
			inv.note("The run could not be cancelled: %v", err)
		}
	})
	defer func() {
		if !stop() {
			leave()
			<-asked
		}
	}()
	lost := func(err error) { inv.note("The connection was lost (%v); going on where it broke off.", err) }
	for frame, err := range c.Watch(watching, runID, lost) {
		if err != nil {
			if inv.Err() != nil {
				err = fmt.Errorf("left before the run ended; see it with:  %s runs show %s", inv.deps.Program, runID)
			}
			return ending{}, err
		}
		show(frame)
		if frame.Name == "done" {
			var end ending
			if err := json.Unmarshal(frame.Data, &end); err != nil {
				return end, fmt.Errorf("the end of the run cannot be read: %w", err)
			}
			return end, nil
		}
	}
	return ending{}, fmt.Errorf("the event stream ended before the run did")
}

// failure returns why a run did not complete, as the run records it.
func (inv *invocation) failure(c *client.Client, runID, status string) error {
	run, err := c.Run(context.WithoutCancel(inv), runID)
	if err != nil || run.Value.Error == "" {
		return fmt.Errorf("run %s ended as %s", runID, status)
	}
	if run.Value.ErrorCode == "" {
		return fmt.Errorf("run %s ended as %s: %s", runID, status, run.Value.Error)
	}
	return fmt.Errorf("run %s ended as %s: %s (%s)", runID, status, run.Value.Error, run.Value.ErrorCode)
}

// showJSON prints an event for a script.
func (inv *invocation) showJSON(frame client.Frame) {
	line := struct {
		ID    string         `json:"id,omitzero"`
		Event string         `json:"event"`
		Data  jsontext.Value `json:"data"`
	}{frame.ID, frame.Name, frame.Data}
	if !line.Data.IsValid() {
		line.Data, _ = jsontext.AppendQuote(nil, string(frame.Data))
	}
	text, err := json.Marshal(line)
	if err != nil {
		return // ids and names that are no UTF-8 come from no agentd
	}
	fmt.Fprintf(inv.stdout, "%s\n", text)
}

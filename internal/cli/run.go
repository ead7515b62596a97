package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/cli/agentfile"
	"agentd/internal/client"
)

type runCommand struct {
	remote
	agentArgument
	Message []string `arg:"" optional:"" help:"What to say to it; - is the standard input."`
	File    string   `placeholder:"FILE" help:"File with the message; - is the standard input."`
	Rubric  string   `placeholder:"FILE" help:"File with a rubric, in YAML or JSON: a judge scores the result by its criteria, and the agent works on until min_score is reached or a bound is."`
	Detach  bool     `short:"d" help:"Do not follow the run: print its id and end."`
}

// Run implements the command. It fails unless the run completes.
func (cmd *runCommand) Run(s *server) error {
	message, err := s.text("<message>", cmd.Message, cmd.File)
	if err != nil {
		return err
	}
	agentID, err := s.agentID(cmd.Agent)
	if err != nil {
		return err
	}
	body := map[string]any{"agent_id": agentID, "input": map[string]string{"message": message}}
	if cmd.Rubric != "" {
		raw, err := s.readFile(cmd.Rubric)
		if err != nil {
			return err
		}
		rubric, err := agentfile.Object(raw)
		if err != nil {
			return fmt.Errorf("--rubric %s: %w", cmd.Rubric, err)
		}
		body["outcome"] = rubric
	}
	return s.startRun(client.RunsPath, body, cmd.Detach)
}

// startRun starts a run by a request, and follows it to its end unless it is to be
// left alone.
func (s *server) startRun(path string, body map[string]any, detach bool) error {
	run, err := call[client.Run](s, http.MethodPost, path, body)
	switch {
	case err != nil:
		return err
	case detach && s.json:
		return s.printJSON(run.Raw)
	case detach:
		s.say("%s", run.Value.RunID)
		s.note("Follow it:  %s runs follow %s", s.deps.Program, run.Value.RunID)
		return nil
	}
	return s.watchRun(run.Value.RunID)
}

// watchRun follows a run to its end and prints it. It fails unless the run
// completes.
func (s *server) watchRun(runID string) error {
	f := s.newFollower(runID)
	end, err := f.follow(s)
	if err != nil {
		return err
	}
	if !s.json && s.stderrTerminal {
		s.note("%s", end.summary(runID))
	}
	if end.Status == "completed" {
		return nil
	}
	return s.failure(runID, end.Status)
}

// ending is the data of the frame that ends a run's stream.
type ending struct {
	Status  string         `json:"status"`
	Metrics client.Metrics `json:"metrics"`
	Output  jsontext.Value `json:"output"`
	CostUSD *float64       `json:"cost_usd"`
}

func (e ending) summary(runID string) string {
	s := fmt.Sprintf("run %s: %s, %d tokens in, %d out, %s", runID, plural(e.Metrics.Steps, "step"), e.Metrics.InputTokens,
		e.Metrics.OutputTokens, formatDuration(milliseconds(e.Metrics.DurationMS)))
	if e.CostUSD != nil {
		s += ", " + formatUSD(*e.CostUSD)
	}
	return s
}

// failure returns why a run did not complete, as the run records it.
func (s *server) failure(runID, status string) error {
	var run client.Run
	if err := s.Do(uninterrupted(s), http.MethodGet, client.Path(client.RunsPath, runID), nil, &run); err != nil || run.Error == "" {
		return fmt.Errorf("run %s ended as %s", runID, status)
	}
	return fmt.Errorf("run %s ended as %s: %s", runID, status, strings.TrimSpace(run.Error+" "+parenthesis(run.ErrorCode)))
}

package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"agentd/internal/client"
)

type runsExportCommand struct {
	remote
	Status []string `placeholder:"STATUS" help:"Only runs with one of these statuses, as failed,timeout."`
	Agent  string   `placeholder:"AGENT" help:"Only runs of this agent, by its id or its exact name."`
	Since  string   `placeholder:"TIME" help:"Only runs created at this time or later: 2026-09-10T12:00:00Z, or how long ago, as 1h30m or 7d."`
	After  string   `placeholder:"CURSOR" help:"Continue after this: the cursor of the last line that you have."`
	Limit  int      `default:"0" placeholder:"N" help:"How many runs at most; 0: all."`
	File   string   `placeholder:"FILE" help:"File that the lines are appended to. Left out: the standard output."`
}

// Validate implements a hook of kong.
func (cmd *runsExportCommand) Validate() error {
	if cmd.Limit < 0 {
		return fmt.Errorf("--limit is %d and must be 0 (all) or more", cmd.Limit)
	}
	return nil
}

// Run implements the command.
func (cmd *runsExportCommand) Run(s *server) (err error) {
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
	return exporting{
		path: client.RunsPath + "/export", noun: "runs", after: cmd.After, limit: cmd.Limit, file: cmd.File,
		query: query("status", strings.Join(cmd.Status, ","), "agent_id", agentID, "created_after", since),
	}.run(s)
}

type runsDiffCommand struct {
	remote
	runArgument
	With string `arg:"" help:"Id of the run to compare it with."`
}

// diffSide is what the command shows of a step.
type diffSide struct {
	Seq    int64  `json:"seq"`
	Type   string `json:"type"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Output string `json:"output_preview"`
}

// runDiff is what the command shows of a comparison.
type runDiff struct {
	Same    bool     `json:"same"`
	Changed []string `json:"changed"`
	Steps   []struct {
		Change  string    `json:"change"`
		Differs []string  `json:"differs"`
		From    *diffSide `json:"from"`
		To      *diffSide `json:"to"`
	} `json:"steps"`
}

// Run implements the command. It fails where the runs differ.
func (cmd *runsDiffCommand) Run(s *server) error {
	doc, err := get[runDiff](s, client.Path(client.RunsPath, cmd.ID, "diff")+"?"+query("with", cmd.With).Encode())
	if err != nil {
		return err
	}
	if s.json {
		err = s.printJSON(doc.Raw)
	} else {
		err = s.showDiff(&doc.Value)
	}
	if err == nil && !doc.Value.Same {
		err = fmt.Errorf("run %s differs from run %s", cmd.ID, cmd.With)
	}
	return err
}

func (s *server) showDiff(d *runDiff) error {
	var rows [][]string
	for _, p := range d.Steps {
		rows = append(rows, append(append([]string{p.Change}, p.From.cells()...), append(p.To.cells(), strings.Join(p.Differs, ", "))...))
	}
	if err := s.table([]string{"CHANGE", "STEP", "~WHAT", "STEP", "~WHAT", "DIFFERS"}, rows); err != nil {
		return err
	}
	if len(d.Changed) > 0 {
		s.note("Differs: %s", strings.Join(d.Changed, ", "))
	}
	return nil
}

func (d *diffSide) cells() []string {
	if d == nil {
		return []string{"-", "-"}
	}
	return []string{strconv.FormatInt(d.Seq, 10), strings.TrimSpace(d.Type + " " + d.Name + ": " + d.Output)}
}

type runsReplayCommand struct {
	remote
	runArgument
	Execute bool  `short:"x" help:"Start it again: the model is called, and tools have the results that they had. Left out: only its record is verified."`
	Version int64 `name:"of-version" placeholder:"N" help:"With --execute: the version of the agent that runs. Left out: the run's."`
	Detach  bool  `short:"d" help:"Do not follow the new run: print its id and end."`
}

// Validate implements a hook of kong.
func (cmd *runsReplayCommand) Validate() error {
	if cmd.Version != 0 && !cmd.Execute {
		return errors.New("--of-version needs --execute")
	}
	return nil
}

// Run implements the command.
func (cmd *runsReplayCommand) Run(s *server) error {
	body := map[string]any{"mode": "verify"}
	if cmd.Execute {
		body["mode"] = "execute"
	}
	if cmd.Version != 0 {
		body["version"] = cmd.Version
	}
	doc, err := call[struct {
		Deterministic bool   `json:"deterministic"`
		Played        int    `json:"events_replayed"`
		Reason        string `json:"divergence_reason"`
		ReplayRunID   string `json:"replay_run_id"`
	}](s, http.MethodPost, client.Path(client.RunsPath, cmd.ID, "replay"), body)
	if err != nil {
		return err
	}
	d := doc.Value
	switch {
	case s.json:
		err = s.printJSON(doc.Raw)
	case cmd.Execute && cmd.Detach:
		s.say("%s", d.ReplayRunID)
	case d.Deterministic:
		s.note("The record is whole: %d events agree with the steps.", d.Played)
	}
	if err == nil && !d.Deterministic {
		err = fmt.Errorf("the record of the run does not agree with itself: %s", d.Reason)
	}
	if err != nil || !cmd.Execute || cmd.Detach || s.json {
		return err
	}
	err = s.watchRun(d.ReplayRunID)
	s.note("Compare:  %s runs diff %s %s", s.deps.Program, cmd.ID, d.ReplayRunID)
	return err
}

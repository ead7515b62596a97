package cli

import (
	"errors"
	"net/http"
	"time"

	"agentd/internal/client"
)

type runsContinueCommand struct {
	remote
	ID      string        `arg:"" name:"run" optional:"" help:"Id of a run that failed or timed out."`
	Message string        `short:"m" placeholder:"TEXT" help:"Message to the agent."`
	Failed  bool          `help:"Continue all runs that failed, instead of one."`
	Since   time.Duration `placeholder:"DURATION" default:"1h" help:"With --failed: only runs created in this time, as 1h."`
	Code    string        `placeholder:"CODE" help:"With --failed: only runs with this error code, as model_error."`
}

// Validate implements a hook of kong.
func (cmd *runsContinueCommand) Validate() error {
	if cmd.Failed == (cmd.ID != "") {
		return errors.New("name either a run or --failed")
	}
	return nil
}

// continued is the answer to a continued run, and what the command prints of it.
type continued struct {
	Failed string `json:"continues_run_id"`
	RunID  string `json:"run_id"`
}

// Run implements the command.
func (cmd *runsContinueCommand) Run(s *server) error {
	ids := []string{cmd.ID}
	if cmd.Failed {
		var err error
		if ids, err = cmd.failed(s); err != nil {
			return err
		}
	}
	done, refused := []continued{}, 0
	for _, id := range ids {
		answer, err := call[continued](s, http.MethodPost, client.Path(client.RunsPath, id, "continue"), struct {
			Message string `json:"message,omitzero"`
		}{cmd.Message})
		if p, ok := errors.AsType[*client.Problem](err); ok && cmd.Failed && p.Status == http.StatusConflict {
			s.note("Run %s: %v", id, err)
			refused++
			continue
		}
		if err != nil {
			return err
		}
		done = append(done, continued{id, answer.Value.RunID})
		if !s.json {
			s.say("Run %s is continued by %s.", id, answer.Value.RunID)
		}
	}
	if s.json {
		return s.printAny(items[continued]{Items: done})
	}
	if cmd.Failed {
		s.note("%d runs are continued, %d were not.", len(done), refused)
	}
	return nil
}

// failed returns the ids of the runs to continue, newest first.
func (cmd *runsContinueCommand) failed(s *server) (ids []string, err error) {
	oldest := s.now().Add(-cmd.Since)
	for doc, err := range client.List[client.Run](s, s.Client, client.RunsPath, query("status", "failed"), 0) {
		if err != nil {
			return nil, err
		}
		r := doc.Value
		if r.CreatedAt.Before(oldest) {
			return ids, nil
		}
		if r.ContinuedBy == "" && (cmd.Code == "" || r.ErrorCode == cmd.Code) {
			ids = append(ids, r.RunID)
		}
	}
	return ids, nil
}

package notification

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"agentd/internal/run"
	"agentd/internal/txn"
)

// told is what people hear of a run's arrival in a state. %s is the agent's id.
var told = map[run.Status]struct{ kind, title, message string }{
	run.AwaitingApproval: {RunAwaitingApproval, "A run waits for an approval", "A run of agent %s may not go on until somebody approves or rejects what it is about to do."},
	run.Paused:           {RunAwaitingInput, "A run waits for an answer", "A run of agent %s is paused until somebody answers or resumes it."},
	run.AuthRequired:     {RunAuthRequired, "A run waits for an authorization", "A run of agent %s needs access to something that somebody must authorize first."},
	run.Failed:           {RunFailed, "A run failed", "A run of agent %s failed."},
}

// RunMoved is a run.Watcher: it tells of runs that failed or that wait for
// somebody.
func (s *Service) RunMoved(tx txn.Tx, r *run.Record) error {
	t, tell := told[r.Status]
	if !tell {
		return nil
	}
	message := fmt.Sprintf(t.message, r.AgentID)
	if r.Status == run.Failed && r.Error != nil && !blank(*r.Error) {
		message = *r.Error
	}
	data, err := json.Marshal(struct {
		RunID     string     `json:"run_id"`
		AgentID   string     `json:"agent_id"`
		SessionID *string    `json:"session_id,omitzero"`
		Status    run.Status `json:"status"`
		ErrorCode string     `json:"error_code,omitzero"`
	}{r.RunID, r.AgentID, r.SessionID, r.Status, r.ErrorCode})
	if err != nil {
		return err
	}
	return s.Notify(tx, Notification{
		TenantID: r.TenantID, Type: t.kind, Title: t.title, Message: message, Data: data, Priority: Warning,
		ActionURL: "/api/v1/runs/" + r.RunID, Source: &Source{Kind: "run", ID: r.RunID},
		// A run can wait more than once; each time is after another event.
		DedupKey: fmt.Sprintf("%s/%s/%d", t.kind, r.RunID, r.EventSeq),
	})
}

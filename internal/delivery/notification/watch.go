package notification

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// telling is what people hear of a run's arrival in a state. %s is what it is
// about.
type telling struct{ kind, title, message string }

// tell says what people hear of a run; ok is false where they hear nothing.
func tell(r *run.Record) (t telling, about string, ok bool) {
	about = "agent " + r.AgentID
	switch r.Status {
	case run.AwaitingApproval:
		t = telling{RunAwaitingApproval, "A run waits for an approval", "A run of %s may not go on until somebody approves or rejects what it is about to do."}
	case run.Paused:
		if r.PendingInput == nil {
			return t, "", false // somebody paused it
		}
		t, about = telling{RunAwaitingInput, "A run waits for an answer", "%s"}, r.PendingInput.Question
	case run.AuthRequired:
		if r.PendingAuth != nil && !blank(r.PendingAuth.Name) {
			about += " with " + r.PendingAuth.Name
		}
		t = telling{RunAuthRequired, "A run waits for an authorization", "A run of %s needs access that somebody must authorize first."}
	case run.Failed:
		t = telling{RunFailed, "A run failed", "A run of %s failed."}
		if r.Error != nil && !blank(*r.Error) {
			t.message, about = "%s", *r.Error
		}
	default:
		return t, "", false
	}
	return t, about, true
}

// OnRunState is a run.Watcher: it tells of runs that failed or that wait for
// somebody.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	t, about, ok := tell(r)
	if !ok {
		return nil
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
		TenantID: r.TenantID, Type: t.kind, Title: t.title, Message: fmt.Sprintf(t.message, about), Data: data, Priority: Warning,
		ActionURL: "/api/v1/runs/" + r.RunID, Source: &Source{Kind: "run", ID: r.RunID},
		// A run can wait more than once; each time is after another event.
		DedupKey: fmt.Sprintf("%s/%s/%d", t.kind, r.RunID, r.EventSeq),
	})
}

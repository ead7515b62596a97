package notification

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// runNotice is the notification of a run's status. The message has a %s for the
// subject.
type runNotice struct{ kind, title, message string }

// noticeOf returns the notification of a run's status; ok is false if there is
// none.
func noticeOf(r *run.Record) (t runNotice, about string, ok bool) {
	about = "agent " + r.AgentID
	switch r.Status {
	case run.AwaitingApproval:
		t = runNotice{RunAwaitingApproval, "A run waits for an approval", "A run of %s waits until its next action is approved or rejected."}
	case run.Paused:
		if r.PendingInput == nil {
			return t, "", false // a person paused it
		}
		t, about = runNotice{RunAwaitingInput, "A run waits for an answer", "%s"}, r.PendingInput.Question
	case run.AuthRequired:
		if r.PendingAuth != nil && !blank(r.PendingAuth.Name) {
			about += " with " + r.PendingAuth.Name
		}
		t = runNotice{RunAuthRequired, "A run waits for an authorization", "A run of %s needs an authorization to continue."}
	case run.Failed:
		t = runNotice{RunFailed, "A run failed", "A run of %s failed."}
		if r.Error != nil && !blank(*r.Error) {
			t.message, about = "%s", *r.Error
		}
	default:
		return t, "", false
	}
	return t, about, true
}

// evaluated reports whether the run is a case of an evaluation, whose summary reports it.
func evaluated(r *run.Record) bool { return r.StartedBy != nil && r.StartedBy.Type == run.ByEvaluation }

// OnRunState is a run.Watcher: it notifies people of runs that failed or that wait
// for a person.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	t, about, ok := noticeOf(r)
	if !ok || r.Options.Sandbox != nil || evaluated(r) {
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
		// A run can wait more than once; the event seq makes each key unique.
		DedupKey: fmt.Sprintf("%s/%s/%d", t.kind, r.RunID, r.EventSeq),
	})
}

package a2a

import (
	"bytes"

	"agentd/internal/base/ptr"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
)

// Source is the metadata.source of runs that do tasks.
const Source = "a2a"

// stateOf returns the state of a task by its run, and what it waits for or why it
// failed.
func stateOf(r *run.Run, input *run.PendingInput) (State, string) {
	switch r.Status {
	case run.Queued:
		return Submitted, ""
	case run.Completed:
		return Completed, ""
	case run.Cancelled:
		return Canceled, ptr.Value(r.Error)
	case run.AwaitingApproval:
		return InputRequired, "A person on this side must approve what the agent is about to do."
	case run.AuthRequired:
		return InputRequired, "A person on this side must authorize a tool of the agent."
	case run.Paused:
		if input != nil {
			return InputRequired, input.Question
		}
		return Working, ""
	case run.Running:
		return Working, ""
	}
	return Failed, ptr.Value(r.Error)
}

var sourceMember = []byte(`"` + Source + `"`)

// OnRunState is the run.Watcher of tasks: the state of a task follows its run, and each
// change is sent to the addresses that want it.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if !bytes.Contains(r.Metadata, sourceMember) || r.Source() != Source {
		return nil
	}
	now := s.Clock.Now()
	state, _ := stateOf(&r.Run, r.Wait.Input)
	changed, err := s.Store.UpdateStateTx(tx, r.TenantID, r.RunID, state, now)
	if err != nil || !changed {
		return err
	}
	pushes, err := s.Store.ListPushesTx(tx, r.TenantID, r.RunID)
	if err != nil || len(pushes) == 0 {
		return err
	}
	items := make([]work.Item, len(pushes))
	for i := range pushes {
		items[i] = work.Item{Kind: PushWorkKind, Key: pushes[i].key(), TenantID: r.TenantID, Due: now}
	}
	return s.Queue.EnqueueTx(tx, items...)
}

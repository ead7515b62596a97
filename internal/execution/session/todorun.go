package session

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
)

// TodoWorkKind is the kind of the work items that start the runs of todos; the
// key is the todo's id.
const TodoWorkKind = "todo"

// handle starts a run for a todo that is due. The run's id is stored before the
// run is created: if the node crashes in between, the item is retried with the
// same id, and no second run is created.
func (s *todoService) handle(ctx context.Context, held work.Lease) error {
	t, err := s.claim(ctx, held)
	if err != nil || t == nil {
		return err
	}
	startErr := s.createRun(ctx, t)
	if startErr != nil && retryable(startErr) {
		return startErr
	}
	return s.settle(ctx, held, t.RunID, startErr != nil)
}

// claim returns the todo of a work item once it has a run to create. It returns
// nil if there is none: then the item is finished or rescheduled.
func (s *todoService) claim(ctx context.Context, held work.Lease) (t *Todo, err error) {
	err = s.writer.Write(ctx, func(tx txn.Tx) (err error) {
		t, err = s.claimTx(tx, held)
		return err
	})
	return t, err
}

func (s *todoService) claimTx(tx txn.Tx, held work.Lease) (*Todo, error) {
	t, err := s.store.LockTodoTx(tx, held.TenantID, held.Key)
	if fault.Is(err, fault.NotFound) {
		return nil, s.queue.FinishTx(tx, held)
	}
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	switch {
	case t.NextFireAt == nil:
		return nil, s.queue.FinishTx(tx, held)
	case t.NextFireAt.After(now):
		return nil, s.queue.RescheduleTx(tx, held, *t.NextFireAt, nil)
	case t.Status != TodoPending: // it has a run that an earlier attempt could not create
		return t, nil
	case t.RequireConfirm:
		t.Status, t.NextFireAt, t.UpdatedAt = TodoUnconfirmed, nil, now
		if err := s.queue.FinishTx(tx, held); err != nil {
			return nil, err
		}
		return nil, s.put(tx, t)
	}
	if err := s.assignRun(t); err != nil {
		return nil, err
	}
	t.UpdatedAt = now
	return t, s.put(tx, t)
}

// retryable reports whether creating the run may succeed later.
func retryable(err error) bool {
	kind := fault.From(err).Kind
	return kind == fault.Unavailable || kind == fault.Internal || kind == fault.Limited
}

// settle finishes the item of a todo whose run was created or refused.
func (s *todoService) settle(ctx context.Context, held work.Lease, runID string, refused bool) error {
	return s.writer.Write(ctx, func(tx txn.Tx) error {
		t, err := s.store.LockTodoTx(tx, held.TenantID, held.Key)
		if fault.Is(err, fault.NotFound) {
			return s.queue.FinishTx(tx, held)
		}
		if err != nil {
			return err
		}
		if err := s.queue.FinishTx(tx, held); err != nil {
			return err
		}
		switch {
		case t.RunID != runID: // it was started again meanwhile
			return s.schedule(tx, t)
		case refused:
			return s.applyRunStatus(tx, t, run.Rejected)
		case t.Status == TodoInProgress: // otherwise its run has ended already
			t.NextFireAt = nil
		}
		return s.put(tx, t)
	})
}

// createRun creates the todo's run unless it exists: as a turn of the todo's
// session if that belongs to the agent and accepts messages, otherwise on its
// own.
func (s *todoService) createRun(ctx context.Context, t *Todo) error {
	_, err := s.runs.Get(ctx, t.TenantID, t.RunID)
	if err == nil || !fault.Is(err, fault.NotFound) {
		return err
	}
	rec, err := s.sessions.store.Get(ctx, t.TenantID, t.SessionID)
	if err != nil {
		return err
	}
	req, err := t.runRequest()
	if err != nil {
		return err
	}
	if rec.AgentID == t.AgentID && s.turns.checkOpen(rec) == nil {
		req.SessionID = &rec.SessionID
		if err := s.turns.join(ctx, t.TenantID, &req); err != nil {
			return err
		}
	}
	_, err = s.runs.Create(ctx, authz.Caller{TenantID: t.TenantID, UserID: t.CreatedByUserID}, req)
	return err
}

// todoSource is the source in the metadata of runs that todos start.
const todoSource = "todo"

// todoMetadata is the metadata of a run that a todo starts.
type todoMetadata struct {
	Source string `json:"source"`
	TodoID string `json:"todo_id"`
}

func (t *Todo) runRequest() (run.Request, error) {
	message := t.Title
	for _, text := range []string{t.Description, t.Instructions} {
		if text = strings.TrimSpace(text); text != "" {
			message += "\n\n" + text
		}
	}
	req := run.Request{
		RunID: t.RunID, AgentID: t.AgentID, Parsed: &run.Input{Message: message},
		StartedBy: run.Initiator{Type: run.ByTodo, ID: t.TodoID},
	}
	input, err := json.Marshal(struct {
		Message string `json:"message"`
	}{message})
	if err != nil {
		return req, err
	}
	metadata, err := json.Marshal(todoMetadata{todoSource, t.TodoID})
	req.Input, req.Metadata = input, metadata
	return req, err
}

// todoOf returns the id of the todo that started a run, or "".
func todoOf(r *run.Record) string {
	var meta todoMetadata
	if json.Unmarshal(r.Metadata, &meta) != nil || meta.Source != todoSource {
		return "" // callers may send metadata of any shape
	}
	return meta.TodoID
}

// onRunEnd settles the todo that started a run which has ended.
func (s *todoService) onRunEnd(tx txn.Tx, r *run.Record) error {
	id := todoOf(r)
	if id == "" {
		return nil
	}
	t, err := s.store.LockTodoTx(tx, r.TenantID, id)
	if fault.Is(err, fault.NotFound) || err == nil && t.RunID != r.RunID {
		return nil // it was deleted, or a caller sent metadata like a todo's
	}
	if err != nil {
		return err
	}
	return s.applyRunStatus(tx, t, r.Status)
}

// applyRunStatus settles a todo whose run ended. A recurring todo is pending
// again with its next time. Another one is done if the run completed, otherwise
// pending without a time.
func (s *todoService) applyRunStatus(tx txn.Tx, t *Todo, status run.Status) error {
	now := s.clock.Now()
	t.LastRunStatus, t.UpdatedAt = status, now
	if t.Status != TodoInProgress { // a caller changed it meanwhile
		return s.put(tx, t)
	}
	t.NextFireAt = nil
	switch {
	case t.Recurrence != nil:
		t.Status, t.DueAt = TodoPending, nil
		if err := s.plan(t, now); err != nil {
			return err
		}
	case status == run.Completed:
		t.Status = TodoDone
	default:
		t.Status = TodoPending
	}
	return s.put(tx, t)
}

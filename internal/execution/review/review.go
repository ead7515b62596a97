// Package review lets people look back at runs: their place in the queue, their events as
// a file, what was done to them, how two of them differ, whether the record of one agrees
// with itself and what the model answers the second time, checkpoints, and what people
// think of messages.
package review

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/event"
)

// Store is the port to what people note about runs, and to their places in the queue.
type Store interface {
	CreateCheckpointTx(tx txn.Tx, c *Checkpoint) error
	// ListCheckpoints returns the checkpoints of a run, oldest first.
	ListCheckpoints(ctx context.Context, tenant, run string, limit int) ([]Checkpoint, error)

	// PutFeedbackTx replaces what a user thinks of a message.
	PutFeedbackTx(tx txn.Tx, f *Feedback) error
	// DeleteFeedbackTx removes what a user thinks of a message, if anything.
	DeleteFeedbackTx(tx txn.Tx, tenant, run, message, user string) error
	// ListFeedback returns what people think of the messages of a run; of one message
	// or of one user where these are not empty.
	ListFeedback(ctx context.Context, tenant, run, message, user string, limit int) ([]Feedback, error)

	// CountAhead returns how many items of work of a tenant are due before an item, up to
	// a limit, and whether the item waits to be claimed.
	CountAhead(ctx context.Context, kind, key string, limit int) (ahead int, waits bool, err error)
}

// AuditLog is the port to the audit log.
type AuditLog interface {
	List(ctx context.Context, tenant string, f audit.Filter) ([]audit.Record, error)
	Count(ctx context.Context, tenant string, f audit.Filter, most int) (int, error)
}

// Starter is the port to new runs.
type Starter interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
}

// Service has the operations.
type Service struct {
	Store    Store
	Runs     run.Store
	Starter  Starter
	Log      event.Log
	AuditLog AuditLog
	Audit    audit.Recorder
	// Session returns fault.NotFound unless the tenant has the session.
	Session  func(ctx context.Context, tenant, id string) error
	Writer   txn.Writer
	Cursors  *page.Cursors
	Clock    clock.Clock
	WorkKind string // of the items that make runs go on
}

// Checkpoint is a place in a run that a caller marked.
type Checkpoint struct {
	_ struct{} `json:"-" name:"RunCheckpoint"`

	CheckpointID string      `json:"checkpoint_id" format:"uuid" required:"true"`
	RunID        string      `json:"run_id" format:"uuid" required:"true"`
	TenantID     string      `json:"-"`
	Status       run.Status  `json:"status" required:"true" doc:"The run's status at that moment."`
	Step         int64       `json:"step" required:"true" doc:"The seq of the last step that was committed; a fork goes on from here with step_seq one greater."`
	StepSeq      int64       `json:"step_seq" required:"true" doc:"The same as step."`
	Metrics      run.Metrics `json:"metrics" required:"true" doc:"What the run had used so far."`
	CreatedBy    string      `json:"created_by,omitzero" doc:"The member who marked it."`
	CreatedAt    time.Time   `json:"created_at" required:"true"`
}

// maxCheckpoints is how many checkpoints a run has.
const maxCheckpoints = 500

// CheckpointList is the checkpoints of a run.
type CheckpointList struct {
	_ struct{} `json:"-" name:"RunCheckpointList"`

	Checkpoints []Checkpoint `json:"checkpoints" required:"true" doc:"Oldest first; at most 500."`
	Total       int          `json:"total" required:"true"`
}

// checkpoint marks the present step of a run that has not ended.
func (s *Service) checkpoint(ctx context.Context, who authz.Caller, in *runIn) (*Checkpoint, error) {
	marked, err := s.Store.ListCheckpoints(ctx, who.TenantID, in.RunID, maxCheckpoints)
	if err != nil {
		return nil, err
	}
	if len(marked) == maxCheckpoints {
		return nil, fault.New(fault.Conflict, "COUNT_LIMIT_REACHED",
			"The run has %d checkpoints already; a run has at most so many.", maxCheckpoints)
	}
	var made *Checkpoint
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		r, err := s.Runs.LockTx(tx, who.TenantID, in.RunID)
		if err != nil {
			return err
		}
		if r.Status.Final() {
			return fault.WrongState("run", string(r.Status), "a checkpoint")
		}
		made = &Checkpoint{
			CheckpointID: ident.New(), RunID: r.RunID, TenantID: r.TenantID, Status: r.Status, Step: lastCommitted(r),
			Metrics: r.Metrics, CreatedBy: who.UserID, CreatedAt: s.Clock.Now(),
		}
		made.StepSeq = made.Step
		if err := s.Store.CreateCheckpointTx(tx, made); err != nil {
			return err
		}
		return txn.Answer(tx, made)
	})
	return made, err
}

func (s *Service) checkpoints(ctx context.Context, who authz.Caller, in *runIn) (*CheckpointList, error) {
	if _, err := s.Runs.Get(ctx, who.TenantID, in.RunID); err != nil {
		return nil, err
	}
	all, err := s.Store.ListCheckpoints(ctx, who.TenantID, in.RunID, maxCheckpoints)
	return &CheckpointList{Checkpoints: all, Total: len(all)}, err
}

// lastCommitted returns the seq of the last step of a run that has a result: those that
// are under way have the highest numbers.
func lastCommitted(r *run.Record) int64 {
	last := r.StepSeq
	for _, p := range r.Pending {
		last = min(last, p.Seq-1)
	}
	return last
}

package run

import (
	"context"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
)

// Watcher is told of a run's move in the transaction that makes it, with the
// run as it is after the move. It must be quick, and do nothing where the run
// is none of its business; an error undoes the move.
type Watcher func(tx txn.Tx, r *Record) error

// Watchers are told of every move of every run, wherever it is made. The zero
// value has none; add them before the first run.
type Watchers struct{ all []Watcher }

// Add adds a watcher.
func (w *Watchers) Add(f Watcher) { w.all = append(w.all, f) }

// OnRunState tells the watchers. A nil receiver has none.
func (w *Watchers) OnRunState(tx txn.Tx, r *Record) error {
	if w == nil {
		return nil
	}
	for _, f := range w.all {
		if err := f(tx, r); err != nil {
			return err
		}
	}
	return nil
}

// Conversations is the port to sessions: what was said on a run's branch
// before the run, oldest first. It is asked once the run's turn has come. The
// messages say where they come from (model.Message.From), so that a compaction
// can say what it folds; those that a step of type compaction folded are
// replaced by its summary (window.Apply).
type Conversations interface {
	Before(ctx context.Context, r *Record) ([]model.Message, error)
}

// Admission decides in the transaction that stores a run whether its turn has
// come. A run whose turn has not come is stored queued and has no work; who
// admits it enqueues its work later, with Service.Release. An error refuses the run.
type Admission func(tx txn.Tx, r *Record) (now bool, err error)

// SessionGate is the port to sessions for runs that are started in one.
type SessionGate interface {
	// Join makes a request part of the session that its SessionID names: it
	// sets Admit, and the session's model. Errors: NotFound for the session,
	// Invalid for one of another agent, Conflict where it takes no runs.
	Join(ctx context.Context, tenant string, req *Request) error
}

package run

import (
	"context"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
)

// Watcher is called for each state change of a run, in the transaction that
// makes it, with the run in its new state. It must be quick and ignore runs that
// do not concern it. An error rolls the change back. Slices name their watcher
// OnRunState.
type Watcher func(tx txn.Tx, r *Record) error

// Watchers are called for each state change of every run. The zero value has
// none; add them before the first run.
type Watchers struct{ all []Watcher }

// Add adds a watcher. Watchers are called in the order in which they are added.
func (w *Watchers) Add(f Watcher) { w.all = append(w.all, f) }

// OnRunState calls the watchers. A nil receiver has none.
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

// Conversations is the port to the messages before a run, oldest first, on its
// branch of a session or in its chain of responses. It is called when the run
// begins. Each message has its origin (model.Message.From), so that a
// compaction can name what it replaces. Messages that a compaction replaced
// are left out in favour of its summary (contextwindow.Apply). Older messages
// than reach asks for may be left out too, so that what a turn costs does not grow
// with the conversation; a summary is not.
type Conversations interface {
	Before(ctx context.Context, r *Record, reach Reach) ([]model.Message, error)
}

// Reach is how much of an earlier conversation a model may be shown. At least the
// smaller of its bounds is read, in whole turns. 0 is no bound.
type Reach struct {
	Messages int // without system messages and summaries
	Tokens   int // model.EstimateMessage
}

// Admission decides, in the transaction that stores a run, whether the run may
// begin now. One that may not is stored as queued without a work item; whoever
// admits it later calls Service.Release. An error refuses the run.
type Admission func(tx txn.Tx, r *Record) (now bool, err error)

// SessionGate is the port to sessions for runs that are started in one.
type SessionGate interface {
	// Join makes a request part of the session that its SessionID names: it sets
	// Admit, and the session's model. Errors: NotFound for the session, Invalid for
	// a session of another agent, Conflict for one that accepts no runs.
	Join(ctx context.Context, tenant string, req *Request) error
	// Replace makes the run of a request take the turn of another run of its
	// session, which failed. Errors: NotFound for the session or the turn, Conflict
	// for a session that accepts no runs.
	Replace(ctx context.Context, tenant string, req *Request, failed string) error
}

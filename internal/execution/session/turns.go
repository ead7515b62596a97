package session

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

var emptyObject = jsontext.Value(`{}`)

// turnQueue assigns turns to runs, so that at most one run of a branch is under
// way. The lock on the session's row serializes all changes of its turns.
type turnQueue struct {
	store Store
	runs  Runs
	clock clock.Clock
	hints hints
}

// join makes a request part of the session that it names: it takes a turn when
// it is stored, and uses the session's model. Errors: NotFound for the session,
// Invalid for a session of another agent, Conflict if it accepts no messages.
func (q *turnQueue) join(ctx context.Context, tenant string, req *run.Request) error {
	r, err := q.store.Get(ctx, tenant, *req.SessionID)
	if err != nil {
		return err
	}
	if r.AgentID != req.AgentID {
		return fault.BadFields(fault.Field{Field: "session_id", Message: "the session belongs to another agent"})
	}
	if err := q.checkOpen(r); err != nil {
		return err
	}
	if m := r.Model.Spec(); m != nil {
		req.Options.Model = m
	}
	req.Admit = q.admit
	return nil
}

// checkOpen returns a Conflict error unless the session accepts runs.
func (q *turnQueue) checkOpen(r *Record) error { return r.checkActive(q.clock.Now(), "a new run") }

// admit is the run.Admission of every session: it makes the run the next turn of
// the active branch.
func (q *turnQueue) admit(tx txn.Tx, r *run.Record) (now bool, err error) {
	rec, err := q.store.LockTx(tx, r.TenantID, *r.SessionID)
	if err != nil {
		return false, err
	}
	if err := q.checkOpen(rec); err != nil {
		return false, err
	}
	before, err := q.store.ListUnfinishedTx(tx, r.TenantID, rec.SessionID, rec.ActiveBranch)
	if err != nil {
		return false, err
	}
	final := r.Status.Final() // policy refused the run before it began
	if len(before) > 0 && rec.QueueMode == Reject && !final {
		busy := fault.New(fault.Conflict, "SESSION_BUSY",
			"The run %s of this session is still under way, and the session's queue_mode is reject; "+
				"wait for its end, or set queue_mode to allow.", before[0].RunID)
		busy.RetryAfter = time.Second
		return false, busy
	}
	// A run that started before the session last changed has waited for the lock.
	// It starts again, so that no turn starts before the end of the one before it.
	now = len(before) == 0 && (r.StartedAt == nil || !rec.UpdatedAt.After(*r.StartedAt))
	rec.Turns++
	t := Turn{SessionID: rec.SessionID, Turn: rec.Turns, BranchID: rec.ActiveBranch, RunID: r.RunID, Finished: final, Entries: uncounted}
	if final {
		if err := t.count(r, nil); err != nil {
			return false, err
		}
	}
	if err := q.store.CreateTurnTx(tx, r.TenantID, t); err != nil {
		return false, err
	}
	in := r.StoredInput()
	rec.Summary.add(in.Message, true)
	rec.Summary.Rules = rec.Summary.Rules || slices.ContainsFunc(in.History, func(m model.Message) bool { return m.Role == model.System })
	rec.UpdatedAt = q.clock.Now()
	q.hints.publish(tx, rec.SessionID, hintRunAdded)
	return now, q.store.UpdateTx(tx, rec)
}

// replace makes the run of a request take the turn of a run that failed. Errors:
// those of join; NotFound if the turn's branch was deleted.
func (q *turnQueue) replace(ctx context.Context, tenant string, req *run.Request, failed string) error {
	r, err := q.store.Get(ctx, tenant, *req.SessionID)
	if err != nil {
		return err
	}
	if err := q.checkOpen(r); err != nil {
		return err
	}
	req.Admit = func(tx txn.Tx, r *run.Record) (now bool, err error) { return q.admitAgain(tx, r, failed) }
	return nil
}

// admitAgain is the admission of a run that takes the turn of another. It waits
// for the turns before it only.
func (q *turnQueue) admitAgain(tx txn.Tx, r *run.Record, failed string) (now bool, err error) {
	rec, err := q.store.LockTx(tx, r.TenantID, *r.SessionID)
	if err != nil {
		return false, err
	}
	if err := q.checkOpen(rec); err != nil {
		return false, err
	}
	t, err := q.store.PutTurnTx(tx, r.TenantID, failed, r.RunID)
	if err != nil {
		return false, err
	}
	unfinished, err := q.store.ListUnfinishedTx(tx, r.TenantID, rec.SessionID, t.BranchID)
	if err != nil {
		return false, err
	}
	rec.UpdatedAt = q.clock.Now()
	q.hints.publish(tx, rec.SessionID, hintRunAdded)
	return unfinished[0].RunID == r.RunID, q.store.UpdateTx(tx, rec)
}

// finish ends the turn of a run and releases the next run of its branch.
func (q *turnQueue) finish(tx txn.Tx, r *run.Record) error {
	if r.SessionID == nil {
		return nil
	}
	rec, err := q.store.LockTx(tx, r.TenantID, *r.SessionID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	t, ended, err := q.endTurn(tx, r)
	if err != nil || !ended {
		return err
	}
	rec.Summary.add(answerText(r), false)
	rec.UpdatedAt = q.clock.Now()
	if err := q.store.UpdateTx(tx, rec); err != nil {
		return err
	}
	next, err := q.store.ListUnfinishedTx(tx, r.TenantID, rec.SessionID, t.BranchID)
	if err != nil {
		return err
	}
	q.hints.publish(tx, rec.SessionID, hintTurnEnded)
	// The first unfinished turn was waiting for this one, unless it precedes it:
	// then the run that ended was cancelled while it waited.
	if len(next) > 0 && next[0].Turn > t.Turn {
		return q.runs.Release(tx, r.TenantID, next[0].RunID)
	}
	return nil
}

// endTurn stores that the turn of a run is finished, and reports whether it was
// unfinished.
func (q *turnQueue) endTurn(tx txn.Tx, r *run.Record) (t Turn, ended bool, err error) {
	t, err = q.store.GetTurnTx(tx, r.TenantID, r.RunID)
	if fault.Is(err, fault.NotFound) {
		return t, false, nil
	}
	if err != nil || t.Finished {
		return t, false, err
	}
	steps, err := q.store.ListStepOutlinesTx(tx, r.TenantID, r.RunID)
	if err != nil {
		return t, false, err
	}
	if err := t.count(r, steps); err != nil {
		return t, false, err
	}
	t.Finished = true
	return t, true, q.store.FinishTurnTx(tx, r.TenantID, t)
}

// count counts the entries of a run that has ended.
func (t *Turn) count(r *run.Record, steps []run.Step) error {
	b := historyBuilder{run: r, callers: map[string]int{}}
	if err := b.addRun(steps); err != nil {
		return err
	}
	b.applyOutput()
	t.Entries = int64(len(b.entries))
	t.Summarized = slices.ContainsFunc(steps, func(s run.Step) bool {
		return s.Type == run.StepCompaction && s.Status == run.StepCompleted
	})
	return nil
}

// answerText returns the text of a run's output, or "" if it has none.
func answerText(r *run.Record) string {
	var out run.Output
	if len(r.Output) > 0 {
		_ = json.Unmarshal(r.Output, &out) // an output of another shape has no text
	}
	return out.Text
}

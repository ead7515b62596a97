package run

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/quota"
)

// mutation is a change of a run by a caller, not by its worker. The run's row is
// locked until the mutation commits.
type mutation struct {
	s        *Service
	tx       txn.Tx
	r        *Record
	was      Status
	now      time.Time
	last     int64 // seq of the last event before the change
	events   []event.Event
	entries  []event.Entry
	uses     []quota.Use // what the mutation uses
	unstored bool        // a worker may have published seqs that the log does not have
}

// mutate changes a run in one transaction. Like workers, it locks the work item
// before the row; the item becomes due by that.
func (s *Service) mutate(ctx context.Context, tenant, id string, do func(*mutation) error) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return mutateTx(tx, s, tenant, id, do) })
}

func mutateTx(tx txn.Tx, s *Service, tenant, id string, do func(*mutation) error) error {
	if err := s.Release(tx, tenant, id); err != nil {
		return err
	}
	r, err := s.Runs.LockTx(tx, tenant, id)
	if err != nil {
		return err
	}
	return s.change(tx, r, do)
}

// change applies do to a locked run and stores the result.
func (s *Service) change(tx txn.Tx, r *Record, do func(*mutation) error) error {
	last, err := s.Runs.GetLastSeqTx(tx, r.TenantID, r.RunID)
	if err != nil {
		return err
	}
	c := &mutation{s: s, tx: tx, r: r, was: r.Status, now: s.Clock.Now(), last: max(last, r.EventSeq)}
	if err := do(c); err != nil {
		return err
	}
	return c.store()
}

// emit adds an event to the mutation.
func (c *mutation) emit(name string, data any) error {
	enc, err := json.Marshal(data, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	c.emitRaw(event.Entry{Name: name, At: c.now, Data: enc}, enc)
	return nil
}

func (c *mutation) emitRaw(stored event.Entry, live jsontext.Value) {
	if by := c.s.Redaction.Of(c.r.TenantID); by != nil {
		stored.Data, live = by.JSON(stored.Data), by.JSON(live)
	}
	seq := c.last + 1
	if c.unstored {
		seq = c.last + SeqJump
	}
	if n := len(c.events); n > 0 {
		seq = c.events[n-1].Seq + 1
	}
	c.entries = append(c.entries, stored)
	c.events = append(c.events, event.Event{Seq: seq, Name: stored.Name, At: c.now, Data: live})
}

// step adds a finished step to the journal.
func (c *mutation) step(st *Step) error {
	c.r.StepSeq++
	st.Seq = c.r.StepSeq
	if st.StartedAt.IsZero() {
		st.StartedAt = c.now
	}
	if err := c.emit("step.started", StepStartedData{st.Ref(), st.Type}); err != nil {
		return err
	}
	return c.endStep(st)
}

// endStep adds a step that was begun, and has ended, to the journal.
func (c *mutation) endStep(st *Step) error {
	st.RunID, st.TenantID, st.StepIndex, st.CompletedAt = c.r.RunID, c.r.TenantID, st.Seq-1, &c.now
	st.DurationMS = float64(c.now.Sub(st.StartedAt).Microseconds()) / 1000
	if st.Metrics == nil {
		st.Metrics = schema.Nullable("{}")
	}
	c.r.Metrics.StepsCount++
	if err := c.s.Runs.AppendStep(st)(c.tx); err != nil {
		return err
	}
	return c.emit("step.completed", StepCompletedOf(st))
}

// resume moves the run to running. Its work item is due already, by mutate.
func (c *mutation) resume() error {
	c.r.Status = Running
	c.r.Wait = Wait{Approvals: c.r.Wait.Approvals, Woken: true}
	return c.emit("run.resumed", struct {
		Status Status `json:"status"`
	}{Running})
}

// end moves the run to a final state. Its worker, if there is one, is fenced off.
func (c *mutation) end(status Status, code, sentence string) error {
	if err := c.s.Queue.DeleteTx(c.tx, c.s.WorkKind, c.r.RunID); err != nil {
		return err
	}
	if err := c.closeApprovals(ApprovalCancelled); err != nil {
		return err
	}
	spent := func(reserved int64) int64 { return reserved } // the call's cost stays unknown, so all of it counts
	if c.r.Wait.For != "" {                                 // no call is under way
		spent = func(int64) int64 { return 0 }
		if err := c.endWait(); err != nil {
			return err
		}
	}
	for _, p := range c.r.Pending {
		if p.Reserved > 0 {
			if err := c.s.Runs.Settle(c.r.TenantID, c.r.Options.Budgets, p.Reserved, spent(p.Reserved))(c.tx); err != nil {
				return err
			}
		}
	}
	sentence = c.s.Redaction.Of(c.r.TenantID).Text(sentence)
	c.r.Status, c.r.Error, c.r.ErrorCode, c.r.CompletedAt = status, &sentence, code, &c.now
	c.r.Pending, c.r.Wait = nil, Wait{Approvals: c.r.Wait.Approvals}
	return c.emit(status.EventName(), struct {
		Status    Status `json:"status"`
		Error     string `json:"error"`
		ErrorCode string `json:"error_code"`
	}{status, sentence, code})
}

// endWait ends the run's wait for a model or for other runs, which counts as
// running.
func (c *mutation) endWait() error {
	c.r.Metrics.DurationMS += float64(c.now.Sub(c.r.Wait.Since).Microseconds()) / 1000
	if c.r.Wait.For == WaitsForRuns || c.r.Wait.For == WaitsForMachine {
		return nil
	}
	return c.s.Runs.DeleteModelWait(c.r.TenantID, c.r.RunID)(c.tx)
}

// store writes the row and the events, which are published after the commit.
func (c *mutation) store() error {
	tenant, id := c.r.TenantID, c.r.RunID
	if n := len(c.events); n > 0 {
		c.r.EventSeq = c.events[n-1].Seq
		err := c.s.Log.Append(tenant, id, event.Segment{First: c.events[0].Seq, Entries: c.entries})(c.tx)
		if err != nil {
			return err
		}
		final := FinalEvent(c.events[len(c.events)-1].Name)
		c.tx.AfterCommit(func() { c.s.Hub.Publish(event.Batch{Stream: id, Prev: c.last, Events: c.events, Final: final}) })
	}
	c.r.Output = RedactOutput(c.s.Redaction.Of(tenant), c.r.Output)
	u := UpdateOf(c.r)
	u.Pause = PauseCleared
	if err := c.s.Runs.Update(tenant, id, u)(c.tx); err != nil {
		return err
	}
	if c.r.Status != c.was {
		if err := c.s.Watchers.OnRunState(c.tx, c.r); err != nil {
			return err
		}
	}
	if c.r.Status.Final() && !c.was.Final() {
		c.uses = append(c.uses, c.r.EndUse())
	}
	if c.s.Meter == nil || len(c.uses) == 0 {
		return nil
	}
	for i := range c.uses {
		c.uses[i].AgentID, c.uses[i].Source, c.uses[i].KeyID = c.r.AgentID, c.r.Source(), c.r.Options.KeyID
	}
	return c.s.Meter.Count(tenant, c.uses...)(c.tx)
}

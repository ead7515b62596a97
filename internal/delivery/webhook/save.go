package webhook

import (
	"context"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

// save begins to store the outcomes of attempts, while others go on. A stop does
// not end it: attempts whose outcome is not stored are made again.
func (d *dispatcher) save(ctx context.Context) {
	if d.saving != nil || len(d.unsaved) == 0 {
		return
	}
	d.saving, d.unsaved = d.unsaved, nil
	go func(results []result) { d.saved <- d.write(context.WithoutCancel(ctx), results) }(d.saving)
}

// endSave takes the outcome of a save.
func (d *dispatcher) endSave(s *saveResult) error {
	results := d.saving
	d.saving = nil
	for i := range results {
		results[i].slot.release()
	}
	if s.err != nil {
		return s.err
	}
	d.sub.Status, d.sub.Failures = s.status, s.failures
	for i := range results {
		delete(d.open, results[i].attempt.ID)
		d.Observe(results[i].out)
		if results[i].out.Failure != "" {
			d.failures--
		}
	}
	return nil
}

// write commits the outcomes of attempts: the log entries, the attempts that
// follow, and the failures of the subscription. Only the holder of the work item
// commits, so each attempt is counted once.
func (d *dispatcher) write(ctx context.Context, results []result) saveResult {
	var s saveResult
	s.err = d.Writer.Write(ctx, func(tx txn.Tx) error {
		s.status, s.failures = d.sub.Status, d.sub.Failures // the function may run again
		if err := d.Queue.HoldTx(tx, d.held, leaseTime); err != nil {
			return err
		}
		for i := range results {
			if err := d.writeResult(tx, results[i], &s); err != nil {
				return err
			}
		}
		return nil
	})
	return s
}

// writeResult stores one outcome, and counts it in s. It changes a copy of the
// result, because the transaction may run again.
func (d *dispatcher) writeResult(tx txn.Tx, r result, s *saveResult) (err error) {
	tenant, id := d.held.TenantID, d.held.Key
	retry := d.settle(&r)
	if err := d.Store.UpdateAttemptTx(tx, tenant, &r.attempt); err != nil {
		return err
	}
	if retry != nil {
		if err := d.Store.CreateAttemptsTx(tx, tenant, []Attempt{*retry}); err != nil {
			return err
		}
	}
	switch {
	case r.out.Failure != "":
		s.failures++
		s.status, err = d.Store.MarkFailedTx(tx, tenant, id, r.at, failingAfter, disabledAfter)
		return err
	case s.failures == 0:
		return nil
	}
	s.failures = 0
	if s.status == Failing {
		s.status = Active
	}
	return d.Store.MarkHealthyTx(tx, tenant, id)
}

// settle sets the outcome of an attempt, and returns the attempt that follows;
// nil if none does.
func (d *dispatcher) settle(r *result) *Attempt {
	a := &r.attempt
	a.State, a.Status, a.Failure, a.Latency = Succeeded, r.out.Status, r.out.Failure, r.out.Latency
	if a.Failure == "" {
		return nil
	}
	a.State = Failed
	waits := d.Waits()
	if !retryable(a.Status) || a.Number > len(waits) {
		a.Dead = true
		return nil
	}
	a.NextRetry = r.at.Add(waits[a.Number-1])
	return &Attempt{
		ID: ident.New(), SubscriptionID: a.SubscriptionID, EventID: a.EventID, EventType: a.EventType,
		Number: a.Number + 1, State: Pending, Due: a.NextRetry, CreatedAt: r.at,
	}
}

// retryable reports whether another attempt may succeed after a response status:
// after no response, a redirect, a 5xx, and the three of the 4xx that pass.
func retryable(status int) bool {
	switch status {
	case 408, 425, 429:
		return true
	}
	return status < 400 || status >= 500
}

package work

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/txn"
)

// maxClaim bounds how many items one transaction claims.
const maxClaim = 100

// loop claims and renews in one goroutine. A claim thus never precedes an overdue
// renewal, for example after the machine slept: it would claim items that
// handlers of this Runner still hold.
func (r *Runner) loop() {
	defer close(r.ended)
	renewed := time.Now() // monotonic, so that setting the clock changes nothing
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-r.wake:
		case <-next.C:
		}
		select {
		case <-r.cfg.Gate.whenOpen():
		case <-r.quit:
			return
		}
		if time.Since(renewed) >= r.cfg.Lease/3 {
			if !r.renew() {
				next.Reset(min(time.Second, r.cfg.Lease/3))
				continue
			}
			renewed = time.Now()
		}
		wait := r.claim()
		next.Reset(max(0, min(wait, r.cfg.Lease/3-time.Since(renewed))))
	}
}

// renew extends all leases at once, cancels the handlers of those that are lost,
// and reports whether the database answered. If it does not answer the handlers
// go on: their next write fails if they lost their lease.
func (r *Runner) renew() bool {
	r.mu.Lock()
	leases := make([]Lease, 0, len(r.held))
	for _, l := range r.held {
		leases = append(leases, l)
	}
	r.mu.Unlock()
	if len(leases) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Lease/3)
	defer cancel()
	lost, err := r.cfg.Queue.Renew(ctx, leases, r.cfg.Lease)
	if err != nil {
		r.failed(err)
		return false
	}
	if len(lost) == 0 {
		return true
	}
	if r.cfg.OnLost != nil {
		r.cfg.OnLost(len(lost))
	}
	type id struct {
		key   string
		epoch int64
	}
	gone := make(map[id]bool, len(lost))
	for _, l := range lost {
		gone[id{l.Key, l.Epoch}] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for h, l := range r.held {
		if gone[id{l.Key, l.Epoch}] {
			h.cancel(ErrLost)
		}
	}
	return true
}

// failed records that the queue did not answer.
func (r *Runner) failed(err error) {
	if r.cfg.Gate != nil && (errors.Is(err, txn.ErrAway) || errors.Is(err, context.DeadlineExceeded)) {
		r.cfg.Gate.Close(err)
		return
	}
	r.idle.Notice("error", err)
}

// claim claims items for the free slots, and returns how long to wait before the
// next claim. It does not occupy the slots before it has items for them, so that
// Reserve works in the meantime; hence there can be more handlers than slots for
// a while.
func (r *Runner) claim() time.Duration {
	r.mu.Lock()
	n := min(r.slots()-r.used, maxClaim)
	if r.state != running {
		n = 0
	}
	r.recheck = n <= 0 // items may be due: claim when a slot becomes free
	r.claiming = n > 0
	r.mu.Unlock()
	if n <= 0 {
		return r.cfg.Poll
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Lease/3)
	defer cancel()
	leases, err := r.cfg.Queue.Claim(ctx, r.cfg.Kind, r.cfg.Owner, n, r.cfg.Lease)
	r.mu.Lock()
	r.claiming = false
	r.used += len(leases)
	r.closeEmpty()
	r.mu.Unlock()
	if err != nil {
		r.failed(err)
		return min(r.cfg.Poll, time.Second)
	}
	r.idle.End()
	for _, l := range leases {
		r.launch(l, false)
	}
	if len(leases) == n {
		return 0
	}
	due, err := r.cfg.Queue.GetNextDue(ctx, r.cfg.Kind)
	if err != nil || due.IsZero() {
		return r.cfg.Poll
	}
	wait := due.Sub(r.cfg.Clock.Now())
	if len(leases) == 0 && wait <= 0 {
		// Items that are due but could not be claimed are being claimed elsewhere, or
		// are left to the node that held them before an outage.
		wait = 5 * time.Millisecond << min(r.missed, 8)
		r.missed++
	} else {
		r.missed = 0
	}
	return min(wait, r.cfg.Poll)
}

package webhook

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the work items that dispatchers hold; the key is the
// subscription's id.
const WorkKind = "webhook"

const (
	// maxParallel is how many attempts a subscription has at a time, and
	// maxParallelFailing how many while it is failing: most of them would only wait
	// for their timeout.
	maxParallel        = 8
	maxParallelFailing = 1
	// maxOpen is how many attempts of a dispatcher may be under way or not stored.
	maxOpen = 3 * maxParallel
	// maxBodyBytes is about how many bytes of bodies a dispatcher has in memory.
	maxBodyBytes = 2 << 20
	// pollInterval is how often a dispatcher that waits for responses looks for
	// attempts that another node created.
	pollInterval = 250 * time.Millisecond
	// lingerTime is how long a dispatcher that has made more than one attempt waits
	// for another: releasing the work item and claiming it again are two writes.
	lingerTime = 50 * time.Millisecond
	// stopGrace is how long attempts may still take when the drain of a program that
	// stops is over. Those that are cut off are made again after the next start.
	stopGrace = 2 * time.Second
	// leaseTime is for how long a commit of a dispatcher extends its lease.
	leaseTime = 15 * time.Second
)

// state is what a dispatcher does. These are all moves between states:
//
//	          ┌──── look again ────┐
//	          ▼                    │
//	 ──▶ dispatching ─────────▶ lingering
//	       │      ▲
//	       │      └─ more is due ──┐
//	       └─────────────────▶ releasing ──▶ released
//
//	dispatching  makes attempts and stores outcomes, until nothing is under way
//	lingering    waits once for more, if it has been busy
//	releasing    gives the work item back, unless an attempt became due meanwhile
//	released     is over
//
// An error in any state, and the end of the context, lead to stop: no attempt
// begins any more, those under way may still end, and their outcomes are stored
// unless the lease is lost.
type state int

const (
	dispatching state = iota
	lingering
	releasing
	released
)

// dispatcher makes the attempts of one subscription while this node holds its
// work item. Its fields belong to the goroutine that runs it.
type dispatcher struct {
	*Service
	held   work.Lease
	sub    *Subscription // with the status and failures that this dispatcher has stored
	secret string

	wake    chan struct{}   // capacity 1: there may be more attempts
	results chan result     // attempts that ended
	saved   chan saveResult // the end of a save
	quit    chan struct{}   // closed: no attempt begins any more

	queue       []DueAttempt    // read, not begun
	moreDue     bool            // the store may have attempts that were not read
	open        map[string]bool // attempts that are under way or not stored
	underWay    int             // attempts under way
	unsaved     []result        // ended, to be stored
	saving      []result        // being stored; nil: no save is under way
	failures    int             // failed attempts among unsaved and saving
	needsSlot   bool            // the last response was fast: attempts need a slot
	begun       int             // attempts that were begun
	lingerAbove int             // linger once more attempts than this were begun
}

// result is an attempt with its outcome.
type result struct {
	attempt Attempt
	out     Outcome
	at      time.Time
	slot    *slot // nil: it needed none
	skipped bool  // it was not made: the dispatcher stopped before it got a slot
}

// saveResult is the outcome of a save.
type saveResult struct {
	status   Status // of the subscription afterwards
	failures int64
	err      error
}

// Handle is the work.Handler of WorkKind: it makes the attempts of one
// subscription until none is due.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	sub, err := s.Store.Get(ctx, held.TenantID, held.Key)
	if fault.Is(err, fault.NotFound) {
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, held) })
	}
	if err != nil {
		return err
	}
	key, err := s.Box.Open(sub.Sealed, sub.context())
	if err != nil {
		return err
	}
	d := &dispatcher{
		Service: s, held: held, sub: sub, secret: string(key),
		wake: make(chan struct{}, 1), results: make(chan result, maxParallel), saved: make(chan saveResult, 1), quit: make(chan struct{}),
		open: map[string]bool{}, moreDue: true, lingerAbove: 1,
	}
	s.dispatchers.add(held.Key, d)
	defer s.dispatchers.remove(held.Key, d)
	return d.run(ctx)
}

// run dispatches until nothing is due. Attempts do not end with ctx at once, so
// that a stop does not cut off a response that is about to come.
func (d *dispatcher) run(ctx context.Context) error {
	attempts, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for current := dispatching; current != released; {
		err := cmp.Or(context.Cause(ctx), work.StopIfDraining(ctx))
		if err == nil {
			current, err = d.step(ctx, attempts, current)
		}
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return errors.Join(err, d.stop(ctx, attempts, cancel, errors.Is(err, work.ErrLost)))
		}
	}
	return nil
}

// step does the work of a state and returns the next one.
func (d *dispatcher) step(ctx, attempts context.Context, current state) (next state, err error) {
	switch current {
	case lingering:
		d.lingerAbove = d.begun
		return dispatching, d.await(ctx, lingerTime)
	case releasing:
		return d.release(ctx)
	}
	if err := d.begin(ctx, attempts); err != nil {
		return current, err
	}
	d.save(ctx)
	switch {
	case d.busy():
		return dispatching, d.await(ctx, pollInterval)
	case d.begun > d.lingerAbove:
		return lingering, nil
	}
	return releasing, nil
}

// busy reports whether attempts are under way or being stored.
func (d *dispatcher) busy() bool { return d.underWay > 0 || d.saving != nil }

// parallel returns how many attempts are made at a time.
func (d *dispatcher) parallel() int {
	switch d.sub.Status {
	case Disabled:
		return 0
	case Failing:
		return maxParallelFailing
	}
	return maxParallel
}

// begin begins as many attempts as there is room for. It begins none while a
// failure is not stored, since that may change how many there may be.
func (d *dispatcher) begin(ctx, attempts context.Context) error {
	for d.underWay < d.parallel() && len(d.open) < maxOpen && d.failures == 0 {
		if len(d.queue) == 0 && d.moreDue {
			if err := d.read(ctx); err != nil {
				return err
			}
		}
		if len(d.queue) == 0 {
			return nil
		}
		due := d.queue[0]
		d.queue = d.queue[1:]
		d.open[due.ID] = true
		d.underWay++
		d.begun++
		go func(needsSlot bool) { d.results <- d.attempt(attempts, due, needsSlot) }(d.needsSlot)
	}
	return nil
}

// read reads due attempts: more than can be open, because those may be among
// them.
func (d *dispatcher) read(ctx context.Context) error {
	found, err := d.Store.ListDue(ctx, d.held.TenantID, d.held.Key, d.Clock.Now(), maxOpen+2*maxParallel, maxBodyBytes)
	if err != nil {
		return err
	}
	d.moreDue = false
	for _, due := range found {
		if !d.open[due.ID] {
			d.queue = append(d.queue, due)
			d.moreDue = true // there may be others behind it
		}
	}
	return nil
}

// attempt makes an attempt, once it has a slot if it needs one.
func (d *dispatcher) attempt(ctx context.Context, due DueAttempt, needsSlot bool) result {
	r := result{attempt: due.Attempt}
	if needsSlot {
		if r.slot = d.slots.acquire(d.quit); r.slot == nil {
			r.skipped = true
			return r
		}
	}
	if d.Allowed != nil {
		if err := d.Allowed(d.sub.URL); err != nil {
			r.out, r.at = Outcome{Failure: err.Error()}, d.Clock.Now()
			r.slot.keep()
			return r
		}
	}
	r.out = d.Sender.Send(ctx, Request{
		TenantID: d.sub.TenantID, URL: d.sub.URL, Secret: d.secret,
		DeliveryID: due.ID, EventID: due.EventID, EventType: due.EventType, Body: due.Body,
	})
	r.at = d.Clock.Now()
	r.slot.keep()
	return r
}

// await waits for the next result, save or wake-up, at most for timeout.
func (d *dispatcher) await(ctx context.Context, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case r := <-d.results:
		d.collect(r)
	case s := <-d.saved:
		return d.endSave(&s)
	case <-d.wake:
		d.moreDue = true
	case <-timer.C:
		d.moreDue = true
	case <-work.Draining(ctx):
	case <-ctx.Done():
	}
	return nil
}

// collect takes a result, and all others that are ready.
func (d *dispatcher) collect(r result) {
	for {
		d.underWay--
		if !r.skipped {
			d.needsSlot = r.out.Latency < fastResponse
			if r.out.Failure != "" {
				d.failures++
			}
			d.unsaved = append(d.unsaved, r)
		}
		select {
		case r = <-d.results:
		default:
			return
		}
	}
}

// release returns the work item: until the next attempt is due, or for good.
// If an attempt is due already, it returns dispatching.
func (d *dispatcher) release(ctx context.Context) (next state, err error) {
	tenant, id := d.held.TenantID, d.held.Key
	err = d.Writer.Write(ctx, func(tx txn.Tx) error {
		next = dispatching
		// A transaction that adds an attempt does so before it touches the item, and
		// this one holds the item before it looks: one of the two sees the other.
		if err := d.Queue.HoldTx(tx, d.held, leaseTime); err != nil {
			return err
		}
		var due time.Time
		if d.sub.Status != Disabled {
			if due, err = d.Store.GetNextDueTx(tx, tenant, id); err != nil {
				return err
			}
		}
		switch {
		case due.IsZero():
			next = released
			return d.Queue.FinishTx(tx, d.held)
		case due.After(d.Clock.Now()):
			next = released
			return d.Queue.RescheduleTx(tx, d.held, due, nil)
		}
		return nil
	})
	d.moreDue = true
	return next, err
}

// stop ends the dispatcher early: no attempt begins any more, those under way get
// stopGrace from the end of ctx, and outcomes are stored unless the lease is lost.
func (d *dispatcher) stop(ctx, attempts context.Context, cancel context.CancelFunc, lost bool) (err error) {
	close(d.quit)
	if lost {
		cancel()
	}
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(stopGrace):
			cancel()
		case <-attempts.Done():
		}
	})()
	for d.busy() {
		select {
		case r := <-d.results:
			d.underWay--
			// Without a response it may have been cut off by us: it is made again.
			if r.out.Status == 0 {
				r.slot.release()
				continue
			}
			d.unsaved = append(d.unsaved, r)
		case s := <-d.saved:
			if err = d.endSave(&s); errors.Is(err, work.ErrLost) {
				lost = true
				cancel()
			}
		}
	}
	if len(d.unsaved) > 0 && !lost {
		last := d.write(context.WithoutCancel(ctx), d.unsaved)
		err = errors.Join(err, last.err)
	}
	for i := range d.unsaved {
		d.unsaved[i].slot.release()
		if err == nil {
			d.Observe(d.unsaved[i].out)
		}
	}
	return err
}

// dispatchers are those that run on this node.
type dispatchers struct {
	mu  sync.Mutex
	all map[string]*dispatcher // by the subscription's id
}

func (l *dispatchers) add(id string, d *dispatcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*dispatcher{}
	}
	l.all[id] = d
}

func (l *dispatchers) remove(id string, d *dispatcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[id] == d {
		delete(l.all, id)
	}
}

// wake makes the dispatcher of a subscription look for attempts, if it runs on
// this node. It never blocks.
func (l *dispatchers) wake(id string) {
	l.mu.Lock()
	d := l.all[id]
	l.mu.Unlock()
	if d == nil {
		return
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

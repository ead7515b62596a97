package webhook

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the work items that are lanes; the key is the
// subscription's id.
const WorkKind = "webhook"

const (
	// width is how many attempts a receiver gets at a time, and narrow how many
	// where it is failing: most of them would only wait for their time-out.
	width  = 8
	narrow = 1
	// maxOpen is how many attempts of a lane may be made and not written down.
	maxOpen = 3 * width
	// maxSending is about how many bytes of bodies a lane has in memory.
	maxSending = 2 << 20
	// look is how often a lane that waits for answers looks for deliveries that
	// another node left.
	look = 250 * time.Millisecond
	// linger is how long a lane that had more than one delivery waits for another:
	// letting go of it and taking it again are two writes.
	linger = 50 * time.Millisecond
	// grace is how long attempts that were begun may still take when the program
	// stops. What is cut off is sent again at the next start.
	grace = 2 * time.Second
	// lease is how long a commit of a lane holds it.
	lease = 15 * time.Second
)

// lanes are those that this node drives, to be told of what is left for them.
type lanes struct {
	mu  sync.Mutex
	all map[string]*lane
}

func (l *lanes) enter(id string, one *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*lane{}
	}
	l.all[id] = one
}

func (l *lanes) leave(id string, one *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[id] == one {
		delete(l.all, id)
	}
}

// nudge tells a lane that there is more; it never blocks.
func (l *lanes) nudge(id string) {
	l.mu.Lock()
	one := l.all[id]
	l.mu.Unlock()
	if one == nil {
		return
	}
	select {
	case one.more <- struct{}{}:
	default:
	}
}

// lane drives the deliveries of one subscription while this node holds them. Its
// fields belong to the goroutine that drives it.
type lane struct {
	*Service
	held   work.Lease
	sub    *Subscription // as it is after what this lane has written
	secret string

	more    chan struct{}   // capacity 1: look again
	ended   chan ended      // attempts that were made
	written chan written    // the end of a write
	open    map[string]bool // deliveries that are being made, or are made and not written down
	quit    chan struct{}   // closed: no attempt begins any more
	sending int             // attempts that are being made
	done    []ended         // attempts that are made and wait to be written down
	writing bool            // others are being written down
	failed  int             // attempts of both kinds that failed
	next    []Ready         // read, not begun
	unread  bool            // there may be more than was read
	quick   bool            // the receiver answers so soon that attempts need a turn
	begun   bool            // an attempt was made
	stays   bool            // another one after it, and the lane has not lingered since
}

// ended is an attempt with what became of it.
type ended struct {
	d    Delivery
	out  Outcome
	at   time.Time
	turn *turn // nil: it needed none
	void bool  // it was not made: the lane ended before its turn came
}

// written is what became of a write.
type written struct {
	done     []ended
	status   Status // of the subscription, after it
	failures int64
	err      error
}

// Handle is the work.Handler of WorkKind: it delivers what is due for one
// receiver, until nothing is.
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
	l := &lane{
		Service: s, held: held, sub: sub, secret: string(key),
		more: make(chan struct{}, 1), ended: make(chan ended, width), written: make(chan written, 1), quit: make(chan struct{}),
		open: map[string]bool{}, unread: true,
	}
	s.lanes.enter(held.Key, l)
	defer s.lanes.leave(held.Key, l)
	return l.drive(ctx)
}

// drive sends until nothing is due. Attempts do not end with ctx at once, so
// that a stop does not cut off what a receiver is about to answer.
func (l *lane) drive(ctx context.Context) error {
	attempts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	for {
		err := context.Cause(ctx)
		if err == nil {
			err = l.fill(ctx, attempts)
		}
		rested := false
		if err == nil {
			l.save(ctx)
			switch {
			case l.sending > 0 || l.writing:
				err = l.await(ctx, look)
			case l.stays:
				l.stays = false
				err = l.await(ctx, linger)
			default:
				rested, err = l.rest(ctx)
			}
		}
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return errors.Join(err, l.wind(ctx, stop, errors.Is(err, work.ErrLost)))
		}
		if rested {
			return nil
		}
	}
}

// width is how many attempts are made at a time: as many as the receiver is
// well for.
func (l *lane) width() int {
	switch l.sub.Status {
	case Disabled:
		return 0
	case Failing:
		return narrow
	}
	return width
}

// fill begins as many attempts as there is room for: none while it is not
// written down that one failed, which may change what the receiver is well for.
func (l *lane) fill(ctx, attempts context.Context) error {
	for l.sending < l.width() && len(l.open) < maxOpen && l.failed == 0 {
		if len(l.next) == 0 && l.unread {
			if err := l.read(ctx); err != nil {
				return err
			}
		}
		if len(l.next) == 0 {
			return nil
		}
		r := l.next[0]
		l.next = l.next[1:]
		l.open[r.ID] = true
		l.sending++
		l.begun, l.stays = true, l.begun
		go func(quick bool) { l.ended <- l.attempt(attempts, r, quick) }(l.quick)
	}
	return nil
}

// attempt makes one, once it is its turn.
func (l *lane) attempt(ctx context.Context, r Ready, quick bool) ended {
	e := ended{d: r.Delivery}
	if quick {
		if e.turn = l.turns.take(l.quit); e.turn == nil {
			e.void = true
			return e
		}
	}
	e.out = l.Sender.Send(ctx, Attempt{
		URL: l.sub.URL, Secret: l.secret, DeliveryID: r.ID, EventID: r.EventID, EventType: r.EventType, Body: r.Body,
	})
	e.at = l.Clock.Now()
	e.turn.answered()
	return e
}

// read looks for deliveries that are due, more than can be open: those are due
// too.
func (l *lane) read(ctx context.Context) error {
	found, err := l.Store.ListDue(ctx, l.held.TenantID, l.held.Key, l.Clock.Now(), maxOpen+2*width, maxSending)
	if err != nil {
		return err
	}
	l.unread = false
	for _, r := range found {
		if !l.open[r.ID] {
			l.next = append(l.next, r)
			l.unread = true // behind it may be others
		}
	}
	return nil
}

// await waits for something to happen to the lane, for at most so long.
func (l *lane) await(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case e := <-l.ended:
		l.collect(e)
	case w := <-l.written:
		return l.wrote(&w)
	case <-l.more:
		l.unread = true
	case <-timer.C:
		l.unread = true
	case <-ctx.Done():
	}
	return nil
}

// collect takes an attempt that ended, and whatever others have.
func (l *lane) collect(e ended) {
	for {
		l.sending--
		if !e.void {
			l.quick = e.out.Latency < patience
			if e.out.Failure != "" {
				l.failed++
			}
			l.done = append(l.done, e)
		}
		select {
		case e = <-l.ended:
		default:
			return
		}
	}
}

// save begins to write down what became of attempts, while others go on. A stop
// does not end that: what is not written is sent again.
func (l *lane) save(ctx context.Context) {
	if l.writing || len(l.done) == 0 {
		return
	}
	done := l.done
	l.done, l.writing = nil, true
	go func() { l.written <- l.write(context.WithoutCancel(ctx), done) }()
}

// wrote ends a write.
func (l *lane) wrote(w *written) error {
	l.writing = false
	for i := range w.done {
		w.done[i].turn.pass()
	}
	if w.err != nil {
		return w.err
	}
	l.sub.Status, l.sub.Failures = w.status, w.failures
	for i := range w.done {
		delete(l.open, w.done[i].d.ID)
		l.Observe(w.done[i].out)
		if w.done[i].out.Failure != "" {
			l.failed--
		}
	}
	return nil
}

// write commits the outcomes of attempts: the log, what follows in it, and the
// failures of the receiver. Only who holds the lane does, so that each counts
// once.
func (l *lane) write(ctx context.Context, done []ended) written {
	tenant, id := l.held.TenantID, l.held.Key
	var status Status
	var failures int64
	err := l.Writer.Write(ctx, func(tx txn.Tx) error {
		status, failures = l.sub.Status, l.sub.Failures
		if err := l.Queue.HoldTx(tx, l.held, lease); err != nil {
			return err
		}
		for i := range done {
			e := done[i] // a copy: this may run again
			retry := l.outcome(&e)
			if err := l.Store.UpdateDeliveryTx(tx, tenant, &e.d); err != nil {
				return err
			}
			if retry != nil {
				if err := l.Store.CreateDeliveriesTx(tx, tenant, []Delivery{*retry}); err != nil {
					return err
				}
			}
			if e.out.Failure == "" && failures == 0 {
				continue
			}
			if e.out.Failure == "" {
				if err := l.Store.MarkHealthyTx(tx, tenant, id); err != nil {
					return err
				}
				failures = 0
				if status == Failing {
					status = Active
				}
				continue
			}
			after, err := l.Store.MarkFailedTx(tx, tenant, id, e.at, failingAfter, disabledAfter)
			if err != nil {
				return err
			}
			status, failures = after, failures+1
		}
		return nil
	})
	return written{done, status, failures, err}
}

// outcome puts into a delivery what became of it, and gives the attempt that
// follows; nil: none does.
func (l *lane) outcome(e *ended) *Delivery {
	d := &e.d
	d.State, d.Status, d.Failure, d.Latency = Succeeded, e.out.Status, e.out.Failure, e.out.Latency
	if d.Failure == "" {
		return nil
	}
	d.State = Failed
	if !retried(d.Status) || d.Attempt > len(l.Waits) {
		d.Dead = true
		return nil
	}
	d.NextRetry = e.at.Add(l.Waits[d.Attempt-1])
	return &Delivery{
		ID: ident.New(), WebhookID: d.WebhookID, EventID: d.EventID, EventType: d.EventType,
		Attempt: d.Attempt + 1, State: Pending, Due: d.NextRetry, CreatedAt: e.at,
	}
}

// retried says whether another attempt may do better (interface.md section 6):
// after no answer, a redirect, a 5xx, and the four of the 4xx that pass.
func retried(status int) bool {
	switch status {
	case 408, 425, 429:
		return true
	}
	return status < 400 || status >= 500
}

// rest lets go of the lane: until the next delivery is due, or for good. It is
// false where one has come meanwhile.
func (l *lane) rest(ctx context.Context) (rested bool, err error) {
	tenant, id := l.held.TenantID, l.held.Key
	err = l.Writer.Write(ctx, func(tx txn.Tx) error {
		rested = false
		// Who leaves a delivery does so before they touch the item, and who looks
		// for one holds it first: one of the two sees the other.
		if err := l.Queue.HoldTx(tx, l.held, lease); err != nil {
			return err
		}
		var next time.Time
		if l.sub.Status != Disabled {
			if next, err = l.Store.GetNextDueTx(tx, tenant, id); err != nil {
				return err
			}
		}
		switch {
		case next.IsZero():
			rested = true
			return l.Queue.FinishTx(tx, l.held)
		case next.After(l.Clock.Now()):
			rested = true
			return l.Queue.RescheduleTx(tx, l.held, next, nil)
		}
		return nil
	})
	l.unread = true
	return rested, err
}

// wind ends a lane early: attempts that were begun get a little time, and what
// became of them is written down unless the lane is lost.
func (l *lane) wind(ctx context.Context, stop context.CancelFunc, lost bool) (err error) {
	close(l.quit)
	if lost {
		stop()
	}
	defer time.AfterFunc(grace, stop).Stop()
	for l.sending > 0 || l.writing {
		select {
		case e := <-l.ended:
			l.sending--
			// One that got no answer may have been cut off by us: it is made again.
			if e.out.Status == 0 {
				e.turn.pass()
				continue
			}
			l.done = append(l.done, e)
		case w := <-l.written:
			if err = l.wrote(&w); errors.Is(err, work.ErrLost) {
				lost = true
				stop()
			}
		}
	}
	rest := written{done: l.done}
	if len(l.done) > 0 && !lost {
		rest = l.write(context.WithoutCancel(ctx), l.done)
		err = errors.Join(err, rest.err)
	}
	for i := range rest.done {
		rest.done[i].turn.pass()
		if err == nil {
			l.Observe(rest.done[i].out)
		}
	}
	return err
}

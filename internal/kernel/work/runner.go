package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"agentd/internal/base/clock"
)

// ErrStopping is the cause with which handlers are cancelled by [Runner.Stop].
var ErrStopping = errors.New("work: stopping")

// Handler does one item and settles it: it ends the item with [Queue.Finish] or
// [Queue.Reschedule] in its own transaction and returns nil. What it returns
// otherwise is settled by the Runner:
//   - ErrLost, wrapped or not: nothing is done, the item is somebody else's;
//   - another error, or a panic: the item is tried again after a backoff that
//     grows with its attempts;
//   - any error after ctx was cancelled with ErrStopping: the item is due at
//     once, for another node, and this was no attempt.
//
// A handler that returns nil without settling is called again when its lease
// ends. ctx ends with cause ErrStopping, or with ErrLost where the lease is
// found lost; that can also happen just after the handler settled the item.
type Handler func(ctx context.Context, held Lease) error

// Config is what a Runner runs. Kind, Owner, Queue and Handler are required.
type Config struct {
	Kind    string
	Owner   string // the node, unique among those that run
	Queue   Queue
	Handler Handler

	Slots   int                             // handlers at a time; 0 is 64
	Lease   time.Duration                   // 0 is 15 s; renewed every third of it
	Poll    time.Duration                   // how long to trust that nothing new is due; 0 is 5 s
	Backoff func(attempt int) time.Duration // nil is Backoff
	Clock   clock.Clock                     // nil is clock.System
	Logger  *slog.Logger                    // nil is slog.Default
}

// Backoff is 1 s after the first attempt, doubling up to 5 min, and up to a
// quarter more by chance, so that what failed together is not tried together.
func Backoff(attempt int) time.Duration {
	wait := 5 * time.Minute
	if attempt < 9 {
		wait = time.Second << max(attempt-1, 0)
	}
	return wait + rand.N(wait/4)
}

// Runner calls a handler for each item of a kind that becomes due. An item
// that waits costs nothing here: only those that are being handled have a
// goroutine. It is safe for concurrent use.
type Runner struct {
	cfg Config

	wake    chan struct{} // capacity 1: look for due items now
	quit    chan struct{} // ends the loop
	ended   chan struct{} // the loop has ended
	stopped chan struct{} // Stop is done

	mu       sync.Mutex
	state    state
	used     int                // slots
	claiming bool               // there may be more of them used in a moment
	held     map[*holding]Lease // what is being handled
	more     bool               // no slot was free when items were last looked for
	empty    chan struct{}      // closed when stopping and no slot is used
}

type state int

const (
	fresh state = iota
	running
	stopping
)

// holding is an item that is being handled; it is its handler's context too.
type holding struct {
	context.Context
	cancel context.CancelCauseFunc
}

type holdingKey struct{}

// Value implements context.Context.
func (h *holding) Value(key any) any {
	if key == (holdingKey{}) {
		return h
	}
	return h.Context.Value(key)
}

// Abandon ends the context that a handler was called with, or one made from
// it, with cause ErrLost: for whoever learns before the Runner does that the
// item is somebody else's or gone.
func Abandon(ctx context.Context) {
	if h, ok := ctx.Value(holdingKey{}).(*holding); ok {
		h.cancel(ErrLost)
	}
}

// NewRunner makes a Runner that does nothing until it is started.
func NewRunner(cfg Config) *Runner {
	cfg.Slots = cmp.Or(cfg.Slots, 64)
	cfg.Lease = cmp.Or(cfg.Lease, 15*time.Second)
	cfg.Poll = cmp.Or(cfg.Poll, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default()).With("work", cfg.Kind)
	if cfg.Backoff == nil {
		cfg.Backoff = Backoff
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	return &Runner{
		cfg:     cfg,
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		ended:   make(chan struct{}),
		stopped: make(chan struct{}),
		held:    make(map[*holding]Lease),
		empty:   make(chan struct{}),
	}
}

// Start begins to claim items. A Runner starts once, and not after Stop.
func (r *Runner) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != fresh {
		return fmt.Errorf("work: the runner of %s was started or stopped before", r.cfg.Kind)
	}
	r.state = running
	go r.loop()
	return nil
}

// Stop claims no more, cancels the handlers with ErrStopping and waits for
// them. What they leave is due at once for others; so is what handlers hold
// that do not return before ctx ends, which is Stop's error then. Every call
// waits for the end of the first.
func (r *Runner) Stop(ctx context.Context) error {
	r.mu.Lock()
	before := r.state
	r.state = stopping
	if before != stopping {
		r.closeEmpty()
		for h := range r.held {
			h.cancel(ErrStopping)
		}
	}
	r.mu.Unlock()
	if before == stopping {
		select {
		case <-r.stopped:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(r.stopped)
	var err error
	select {
	case <-r.empty:
	case <-ctx.Done():
		err = fmt.Errorf("work: handlers of %s did not stop in time: %w", r.cfg.Kind, ctx.Err())
		err = errors.Join(err, r.abandon())
	}
	close(r.quit)
	if before == running {
		<-r.ended
	}
	return err
}

// abandon lets go of what handlers that do not return hold; it also fences
// them off.
func (r *Runner) abandon() error {
	r.mu.Lock()
	leases := make([]Lease, 0, len(r.held))
	for _, l := range r.held {
		l.Attempt--
		leases = append(leases, l)
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Lease/3)
	defer cancel()
	return r.cfg.Queue.Release(ctx, leases, r.cfg.Clock.Now())
}

// Wake makes the Runner look for due items now. It never blocks.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Running is the number of slots in use.
func (r *Runner) Running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// Slot is a place for one handler. Exactly one of Adopt and Free ends it.
type Slot struct{ runner *Runner }

// Reserve takes a slot for an item that is about to be enqueued with
// [Queue.EnqueueHeldTx], with this Runner's Owner and Lease. Where it says no (no
// slot is free, or the Runner does not run), the item is enqueued plainly, and
// waits its turn. Stop waits for reserved slots.
func (r *Runner) Reserve() (Slot, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != running || r.used >= r.cfg.Slots {
		return Slot{}, false
	}
	r.used++
	return Slot{r}, true
}

// Adopt starts the handler for an item that was committed with EnqueueHeldTx, and
// returns at once.
func (s Slot) Adopt(held Lease) { s.runner.launch(held) }

// Free gives the slot back: nothing was enqueued.
func (s Slot) Free() { s.runner.free() }

// Owner is under whose name the Runner holds items.
func (r *Runner) Owner() string { return r.cfg.Owner }

// Lease is how long it holds them without renewing.
func (r *Runner) Lease() time.Duration { return r.cfg.Lease }

func (r *Runner) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used--
	if r.more {
		r.Wake()
	}
	r.closeEmpty()
}

// closeEmpty is called with the lock held, after each change that can make a
// stopping Runner empty. From then on nothing makes it full again.
func (r *Runner) closeEmpty() {
	if r.state == stopping && r.used == 0 && !r.claiming {
		close(r.empty)
	}
}

// launch handles an item in a slot that is taken already.
func (r *Runner) launch(held Lease) {
	ctx, cancel := context.WithCancelCause(context.Background())
	h := &holding{ctx, cancel}
	r.mu.Lock()
	r.held[h] = held
	if r.state == stopping {
		cancel(ErrStopping)
	}
	r.mu.Unlock()
	go func() {
		defer r.free()
		defer cancel(nil)
		err := r.handle(h, held)
		r.mu.Lock()
		delete(r.held, h)
		r.mu.Unlock()
		if err != nil && !errors.Is(err, ErrLost) {
			r.settle(ctx, held, err)
		}
	}()
}

// handle calls the handler; a stopped Runner does not begin.
func (r *Runner) handle(ctx context.Context, held Lease) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return r.cfg.Handler(ctx, held)
}

// settle lets go of an item whose handler failed.
func (r *Runner) settle(ctx context.Context, held Lease, failure error) {
	due := r.cfg.Clock.Now()
	if errors.Is(context.Cause(ctx), ErrStopping) {
		held.Attempt--
	} else {
		wait := r.cfg.Backoff(held.Attempt)
		due = due.Add(wait)
		r.cfg.Logger.Warn("a handler failed; the item is tried again",
			"key", held.Key, "tenant", held.TenantID, "attempt", held.Attempt, "after", wait, "error", failure)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Lease/3)
	defer cancel()
	if err := r.cfg.Queue.Release(ctx, []Lease{held}, due); err != nil {
		// Not held any more, it is due when its lease ends.
		r.cfg.Logger.Warn("an item could not be released", "key", held.Key, "error", err)
		return
	}
	r.Wake() // to set the timer for it
}

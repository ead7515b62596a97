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
	"agentd/internal/base/lasting"
	"agentd/internal/base/txn"
)

// ErrStopping is the cause with which [Runner.Stop] cancels handlers. A handler
// returns it, too, where it stops early because of [Draining].
var ErrStopping = errors.New("work: stopping")

// Handler works on one item. It settles the item with [Queue.FinishTx] or
// [Queue.RescheduleTx] in a transaction of its own and returns nil. If it returns
// an error, the Runner settles the item:
//   - ErrLost, wrapped or not: nothing is done, another worker has the item;
//   - another error, or a panic: the item is retried after a backoff that
//     increases with its attempts;
//   - ErrStopping, or any error after ctx was cancelled with it: the item is due
//     at once, for another node, and this does not count as an attempt.
//
// A handler that returns nil without settling the item is called again when the
// lease ends. ctx ends with cause ErrStopping, or with ErrLost when the Runner
// finds the lease lost, which can also happen just after the handler settled
// the item.
type Handler func(ctx context.Context, held Lease) error

// DefaultPoll is the longest time between two claims of a Runner. Whoever makes an
// item due within it wakes the Runner, which may have looked before.
const DefaultPoll = 5 * time.Second

// Config configures a Runner. Kind, Owner, Queue and Handler are required.
type Config struct {
	Kind    string
	Owner   string // the node; unique among running nodes
	Queue   Queue
	Handler Handler

	Slots    int                             // handlers at a time; 0 means 64
	SlotsNow func() int                      // takes the place of Slots, if not nil, and may change
	Lease    time.Duration                   // 0 means 15 s; renewed after a third of it
	Poll     time.Duration                   // longest time between two claims; 0 means DefaultPoll
	Backoff  func(attempt int) time.Duration // nil means Backoff
	Clock    clock.Clock                     // nil means clock.System
	Logger   *slog.Logger                    // nil means slog.Default
	Gate     *Gate                           // shared by the runners of a node; nil means that each asks a database that is away
	OnLost   func(leases int)                // called when leases are found lost; nil means nobody counts them
}

// Backoff returns 1 s after the first attempt, doubled with each further one up to
// 5 min, plus up to a quarter at random, so that items that failed together are
// not retried together.
func Backoff(attempt int) time.Duration {
	wait := 5 * time.Minute
	if attempt < 9 {
		wait = time.Second << max(attempt-1, 0)
	}
	return wait + rand.N(wait/4)
}

// Runner calls a handler for each item of a kind that becomes due. Waiting items
// cost it nothing: only those that are being handled have a goroutine. A Runner
// is safe for concurrent use.
type Runner struct {
	cfg Config

	idle    *lasting.State // no items can be claimed
	wake    chan struct{}  // capacity 1: claim now
	drain   chan struct{}  // closed by Drain and Stop: handlers should come to an end
	quit    chan struct{}  // ends the loop
	ended   chan struct{}  // the loop has ended
	stopped chan struct{}  // Stop is done

	missed int // claims in a row that got nothing; the loop's

	mu       sync.Mutex
	state    state
	started  bool               // the loop runs, or has run
	used     int                // slots in use
	claiming bool               // a claim is running and may use more slots
	held     map[*holding]Lease // the items that are being handled
	recheck  bool               // no slot was free at the last claim
	empty    chan struct{}      // closed when draining or stopping and no slot is in use
	isEmpty  bool               // empty is closed
}

type state int

const (
	created state = iota
	running
	draining // nothing is claimed any more
	stopping // handlers are cancelled
)

// holding is an item that is being handled, and the context of its handler.
type holding struct {
	context.Context
	cancel context.CancelCauseFunc
	drain  <-chan struct{}
}

type holdingKey struct{}

// Value implements context.Context.
func (h *holding) Value(key any) any {
	if key == (holdingKey{}) {
		return h
	}
	return h.Context.Value(key)
}

// Abandon cancels the context of a handler with cause ErrLost. ctx is that context
// or derived from it. Abandon is for code that finds out before the Runner that
// the lease is lost or the item deleted.
func Abandon(ctx context.Context) {
	if h, ok := ctx.Value(holdingKey{}).(*holding); ok {
		h.cancel(ErrLost)
	}
}

// Draining returns a channel that is closed once the Runner wants its handlers to
// come to an end: a handler that works in steps returns ErrStopping after its
// present one. ctx is the context of a handler or derived from it; for any other
// the channel is nil.
func Draining(ctx context.Context) <-chan struct{} {
	if h, ok := ctx.Value(holdingKey{}).(*holding); ok {
		return h.drain
	}
	return nil
}

// IsDraining reports whether the channel of [Draining] is closed.
func IsDraining(ctx context.Context) bool {
	select {
	case <-Draining(ctx):
		return true
	default:
		return false
	}
}

// StopIfDraining returns ErrStopping if the channel of [Draining] is closed. It is
// for handlers that work in a loop.
func StopIfDraining(ctx context.Context) error {
	if IsDraining(ctx) {
		return ErrStopping
	}
	return nil
}

// NewRunner returns a Runner that does nothing until it is started.
func NewRunner(cfg Config) *Runner {
	cfg.Slots = cmp.Or(cfg.Slots, 64)
	cfg.Lease = cmp.Or(cfg.Lease, 15*time.Second)
	cfg.Poll = cmp.Or(cfg.Poll, DefaultPoll)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default()).With("work", cfg.Kind)
	if cfg.Backoff == nil {
		cfg.Backoff = Backoff
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	return &Runner{
		cfg:     cfg,
		idle:    lasting.New(cfg.Logger, "no items can be claimed"),
		wake:    make(chan struct{}, 1),
		drain:   make(chan struct{}),
		quit:    make(chan struct{}),
		ended:   make(chan struct{}),
		stopped: make(chan struct{}),
		held:    make(map[*holding]Lease),
		empty:   make(chan struct{}),
	}
}

// Start starts to claim items. A Runner can be started once, and not after Stop.
func (r *Runner) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != created {
		return fmt.Errorf("work: the runner of %s was started or stopped before", r.cfg.Kind)
	}
	r.state, r.started = running, true
	go r.loop()
	return nil
}

// Drain stops claiming, and waits until the handlers have returned by themselves;
// those that look at [Draining] return early. Leases are renewed meanwhile. It
// returns ctx's error where ctx ends first. Stop must still be called.
func (r *Runner) Drain(ctx context.Context) error {
	r.mu.Lock()
	if r.state < draining {
		r.state = draining
		close(r.drain)
		r.closeEmpty()
	}
	r.mu.Unlock()
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop stops claiming, cancels the handlers with ErrStopping and waits until they
// return. Items that they have not settled are due at once for other nodes. If
// handlers do not return before ctx ends, their items are released too, and Stop
// returns ctx's error. Further calls wait for the end of the first.
func (r *Runner) Stop(ctx context.Context) error {
	r.mu.Lock()
	before := r.state
	r.state = stopping
	if before < draining {
		close(r.drain)
	}
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
	if r.started {
		<-r.ended
	}
	return err
}

// abandon releases the items of handlers that did not return, which also fences
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

// Wake makes the Runner claim due items now. It never blocks.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Running returns the number of slots in use.
func (r *Runner) Running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// Slot is a reserved place for one handler. Exactly one of Adopt and Free must be
// called on it.
type Slot struct{ runner *Runner }

func (r *Runner) slots() int {
	if r.cfg.SlotsNow != nil {
		return max(1, r.cfg.SlotsNow())
	}
	return r.cfg.Slots
}

// Reserve reserves a slot for an item that is about to be enqueued with
// [Queue.EnqueueHeldTx], with this Runner's Owner and Lease. It returns false if
// no slot is free or the Runner is not running: then the item is enqueued with
// [Queue.EnqueueTx] and waits its turn. Stop waits for reserved slots.
func (r *Runner) Reserve() (Slot, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != running || r.used >= r.slots() {
		return Slot{}, false
	}
	r.used++
	return Slot{r}, true
}

// Adopt starts the handler for an item that was committed with EnqueueHeldTx, and
// returns at once.
func (s Slot) Adopt(held Lease) { s.runner.launch(held, true) }

// Free releases a slot for which nothing was enqueued.
func (s Slot) Free() { s.runner.free() }

// Owner returns the owner of the leases that the Runner takes.
func (r *Runner) Owner() string { return r.cfg.Owner }

// Lease returns the duration of its leases.
func (r *Runner) Lease() time.Duration { return r.cfg.Lease }

func (r *Runner) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used--
	if r.recheck {
		r.Wake()
	}
	r.closeEmpty()
}

// closeEmpty closes r.empty if the Runner is draining or stopping and no slot is
// in use; no slot can be taken after that. It is called with the lock held, after
// each change that can make this true.
func (r *Runner) closeEmpty() {
	if r.state >= draining && r.used == 0 && !r.claiming && !r.isEmpty {
		r.isEmpty = true
		close(r.empty)
	}
}

// launch starts the handler of an item, whose slot is counted already. An item
// that was adopted has begun, so that draining does not refuse it.
func (r *Runner) launch(held Lease, adopted bool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	h := &holding{ctx, cancel, r.drain}
	r.mu.Lock()
	r.held[h] = held
	if r.state == stopping || r.state == draining && !adopted {
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

// handle calls the handler, unless the Runner is stopping.
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

// settle releases an item whose handler failed.
func (r *Runner) settle(ctx context.Context, held Lease, failure error) {
	due := r.cfg.Clock.Now()
	switch {
	case errors.Is(failure, ErrStopping) || errors.Is(context.Cause(ctx), ErrStopping):
		held.Attempt--
	case r.cfg.Gate != nil && errors.Is(failure, txn.ErrAway):
		r.cfg.Gate.Close(failure)
		due = due.Add(r.cfg.Backoff(held.Attempt))
	default:
		wait := r.cfg.Backoff(held.Attempt)
		due = due.Add(wait)
		r.cfg.Logger.Warn("a handler failed; the item will be retried",
			"key", held.Key, "tenant", held.TenantID, "attempt", held.Attempt, "after", wait, "error", failure)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Lease/3)
	defer cancel()
	if err := r.cfg.Queue.Release(ctx, []Lease{held}, due); err != nil {
		if r.cfg.Gate != nil && errors.Is(err, txn.ErrAway) {
			r.cfg.Gate.Close(err)
			return
		}
		// As it is not renewed any more, it is due when its lease ends.
		r.cfg.Logger.Warn("an item could not be released", "key", held.Key, "error", err)
		return
	}
	r.Wake() // to take its due time into account
}

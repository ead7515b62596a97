package work_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/kernel/work/worktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a queue with runners, inside a synctest bubble.
type bench struct {
	*testing.T
	*worktest.Queue
	start time.Time

	mu      sync.Mutex
	runners []*work.Runner
}

// bubble runs a test in a synctest bubble, where time passes when all goroutines
// are blocked.
func bubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, start: time.Now()}
		b.Queue = worktest.NewQueue(clock.System{}, func(string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, r := range b.runners {
				r.Wake()
			}
		})
		test(b)
	})
}

// runner starts a runner of kind "run", which is stopped at the end of the test.
func (b *bench) runner(owner string, slots int, handler work.Handler) *work.Runner {
	b.Helper()
	r := b.newRunner(work.Config{Owner: owner, Slots: slots, Queue: b.Queue, Handler: handler})
	b.mu.Lock()
	b.runners = append(b.runners, r)
	b.mu.Unlock()
	return r
}

func (b *bench) newRunner(cfg work.Config) *work.Runner {
	b.Helper()
	cfg.Kind = "run"
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Backoff = func(attempt int) time.Duration { return time.Duration(attempt) * time.Minute }
	r := work.NewRunner(cfg)
	if err := r.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return r
}

func (b *bench) enqueue(key string, due time.Duration) {
	b.Helper()
	if err := b.Write(b.Context(), func(tx txn.Tx) error {
		return b.EnqueueTx(tx, work.Item{Kind: "run", Key: key, TenantID: "t", Due: time.Now().Add(due)})
	}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) finish(held work.Lease) error {
	return b.Write(context.Background(), func(tx txn.Tx) error { return b.FinishTx(tx, held) })
}

// pass lets time pass, and then waits until all goroutines are blocked.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// since returns the time since the start of the test.
func (b *bench) since() time.Duration { return time.Since(b.start) }

func (b *bench) empty() {
	b.Helper()
	if due, err := b.GetNextDue(b.Context(), "run"); err != nil || !due.IsZero() {
		b.Errorf("something is left, due %v, %v", due, err)
	}
}

func TestRunnerHandlesWhatIsDue(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		var at []string
		b.runner("n1", 1, func(_ context.Context, held work.Lease) error {
			at = append(at, fmt.Sprint(held.Key, " ", b.since()))
			return b.finish(held)
		})
		synctest.Wait()
		b.enqueue("now", 0)
		b.enqueue("later", 91200*time.Millisecond) // between two polls
		b.enqueue("soon", time.Second)
		b.pass(2 * time.Minute)
		if got := fmt.Sprint(at); got != "[now 0s soon 1s later 1m31.2s]" {
			b.Error(got)
		}
		b.empty()
	})
}

func TestRunnerFindsWhatNobodyWokeItFor(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		var at time.Duration
		b.newRunner(work.Config{Owner: "n1", Queue: b.Queue, Handler: func(_ context.Context, held work.Lease) error {
			at = b.since()
			return b.finish(held)
		}})
		b.pass(time.Second)
		b.enqueue("a", 0)
		b.pass(time.Minute)
		if at != 5*time.Second {
			b.Errorf("handled after %v", at)
		}
	})
}

func TestRunnerKeepsToItsSlots(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		var running, peak, done atomic.Int64
		r := b.runner("n1", 3, func(_ context.Context, held work.Lease) error {
			peak.Store(max(peak.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			done.Add(1)
			return b.finish(held)
		})
		for i := range 30 {
			b.enqueue(fmt.Sprint(i), 0)
		}
		b.pass(500 * time.Millisecond)
		if n := r.Running(); n != 3 {
			b.Errorf("%d running", n)
		}
		if _, ok := r.Reserve(); ok {
			b.Error("reserved a slot of a full runner")
		}
		b.pass(10 * time.Second)
		if done.Load() != 30 || peak.Load() != 3 {
			b.Errorf("%d done, at most %d at a time", done.Load(), peak.Load())
		}
		b.empty()
	})
}

func TestRunnerAdopts(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		var handled []string
		r := b.runner("n1", 1, func(_ context.Context, held work.Lease) error {
			handled = append(handled, held.Key)
			return b.finish(held)
		})
		unused, ok := r.Reserve()
		if !ok {
			b.Fatal("no slot")
		}
		unused.Free()
		slot, ok := r.Reserve()
		if !ok {
			b.Fatal("no slot after one was freed")
		}
		if err := b.Write(b.Context(), func(tx txn.Tx) error {
			held, err := b.EnqueueHeldTx(tx, work.Item{Kind: "run", Key: "a"}, r.Owner(), r.Lease())
			tx.AfterCommit(func() { slot.Adopt(held) })
			return err
		}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		if got := fmt.Sprint(handled); got != "[a]" || r.Running() != 0 {
			b.Error(got, r.Running())
		}
		b.empty()
	})
}

func TestRunnerAdoptsWhileStopping(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		r := b.runner("n1", 1, func(context.Context, work.Lease) error {
			b.Error("handled")
			return nil
		})
		slot, _ := r.Reserve()
		go func() {
			time.Sleep(time.Second)
			if err := b.Write(context.Background(), func(tx txn.Tx) error {
				held, err := b.EnqueueHeldTx(tx, work.Item{Kind: "run", Key: "a"}, r.Owner(), r.Lease())
				tx.AfterCommit(func() { slot.Adopt(held) })
				return err
			}); err != nil {
				b.Error(err)
			}
		}()
		if err := r.Stop(b.Context()); err != nil || b.since() != time.Second {
			b.Error(err, b.since())
		}
		if leases, err := b.Claim(b.Context(), "run", "n2", 1, time.Minute); len(leases) != 1 || leases[0].Attempt != 1 {
			b.Error(leases, err)
		}
	})
}

func TestRunnerRenews(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		var calls atomic.Int64
		handler := func(ctx context.Context, held work.Lease) error {
			calls.Add(1)
			select {
			case <-time.After(10 * time.Minute):
			case <-ctx.Done():
				b.Error(context.Cause(ctx))
			}
			return b.finish(held)
		}
		b.runner("n1", 10, handler)
		b.runner("n2", 10, handler)
		for i := range 5 {
			b.enqueue(fmt.Sprint(i), 0)
		}
		b.pass(11 * time.Minute)
		if n := calls.Load(); n != 5 {
			b.Errorf("%d calls", n)
		}
		b.empty()
	})
}

func TestRunnerCancelsWhatIsLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		var cause error
		var after time.Duration
		b.runner("n1", 1, func(ctx context.Context, held work.Lease) error {
			<-ctx.Done()
			cause, after = context.Cause(ctx), b.since()
			return b.finish(held)
		})
		b.enqueue("a", 0)
		synctest.Wait()
		if err := b.Write(b.Context(), func(tx txn.Tx) error { return b.DeleteTx(tx, "run", "a") }); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Minute)
		if cause != work.ErrLost || after > 5*time.Second {
			b.Error(cause, after)
		}
	})
}

func TestRunnerTriesAgain(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("no") },
		"panic": func() error { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(b *bench) {
				var at []string
				b.runner("n1", 1, func(_ context.Context, held work.Lease) error {
					at = append(at, fmt.Sprint(held.Attempt, " ", b.since()))
					if held.Attempt < 4 {
						return fail()
					}
					return b.finish(held)
				})
				b.enqueue("a", 0)
				b.pass(time.Hour)
				if got := fmt.Sprint(at); got != "[1 0s 2 1m0s 3 3m0s 4 6m0s]" {
					b.Error(got)
				}
				b.empty()
			})
		})
	}
}

func TestRunnerLeavesWhatWasLostAlone(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		calls := 0
		b.runner("n1", 1, func(_ context.Context, held work.Lease) error {
			calls++
			if calls == 1 {
				return fmt.Errorf("write: %w", work.ErrLost)
			}
			if since := b.since(); since != 15*time.Second {
				b.Errorf("again after %v", since) // when the lease ends, as the item was not released
			}
			return b.finish(held)
		})
		b.enqueue("a", 0)
		b.pass(time.Minute)
		if calls != 2 {
			b.Errorf("%d calls", calls)
		}
	})
}

// outage is a queue whose database can be unavailable.
type outage struct {
	*worktest.Queue
	down   atomic.Bool
	claims atomic.Int64
}

var errDown = errors.New("database is down")

func (o *outage) Claim(ctx context.Context, kind, owner string, n int, lease time.Duration) ([]work.Lease, error) {
	if o.down.Load() {
		return nil, errDown
	}
	o.claims.Add(1)
	return o.Queue.Claim(ctx, kind, owner, n, lease)
}

func (o *outage) Renew(ctx context.Context, held []work.Lease, lease time.Duration) ([]work.Lease, error) {
	if o.down.Load() {
		return nil, errDown
	}
	return o.Queue.Renew(ctx, held, lease)
}

func TestRunnerOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		o := &outage{Queue: b.Queue}
		var calls atomic.Int64
		b.newRunner(work.Config{Owner: "n1", Slots: 10, Queue: o, Handler: func(ctx context.Context, held work.Lease) error {
			calls.Add(1)
			select {
			case <-time.After(5 * time.Minute):
			case <-ctx.Done():
				b.Error(context.Cause(ctx))
			}
			return b.finish(held)
		}})
		b.enqueue("a", 0)
		b.pass(10 * time.Second)
		o.down.Store(true)
		time.Sleep(time.Minute) // in this time the lease expires
		o.down.Store(false)
		b.pass(10 * time.Minute)
		if calls.Load() != 1 {
			b.Errorf("handled %d times", calls.Load())
		}
		b.empty()
	})
}

func TestRunnerIsIdleWithParkedItems(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		o := &outage{Queue: b.Queue}
		b.newRunner(work.Config{Owner: "n1", Queue: o, Handler: func(context.Context, work.Lease) error { return nil }})
		if err := b.Write(b.Context(), func(tx txn.Tx) error {
			for i := range 10_000 {
				if err := b.EnqueueTx(tx, work.Item{Kind: "run", Key: fmt.Sprint(i), Due: time.Now().Add(time.Hour)}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		before := runtime.NumGoroutine()
		b.pass(50 * time.Second)
		if n := runtime.NumGoroutine(); n > before+100 { // other tests run too
			b.Errorf("%d goroutines", n)
		}
		if n := o.claims.Load(); n > 11 { // one for each poll
			b.Errorf("%d claims in 50 s", n)
		}
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for attempt, least := range []time.Duration{
		time.Second, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second,
		128 * time.Second, 5 * time.Minute, 5 * time.Minute,
	} {
		for range 50 {
			if wait := work.Backoff(attempt); wait < least || wait >= least+least/4 {
				t.Errorf("attempt %d: %v", attempt, wait)
			}
		}
	}
	if wait := work.Backoff(10_000); wait < 5*time.Minute || wait >= 6*time.Minute+15*time.Second {
		t.Errorf("after 10,000 attempts: %v", wait)
	}
}

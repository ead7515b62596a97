package work_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/kernel/work/worktest"
)

func TestRunnerStops(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		stopped := b.runner("n1", 10, func(ctx context.Context, held work.Lease) error {
			<-ctx.Done()
			time.Sleep(20 * time.Second) // while the lease is renewed
			return context.Cause(ctx)
		})
		for i := range 5 {
			b.enqueue(fmt.Sprint(i), 0)
		}
		b.pass(time.Second)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := stopped.Stop(context.Background()); err != nil || b.since() != 21*time.Second {
					b.Error(err, b.since())
				}
			})
		}
		wg.Wait()
		if _, ok := stopped.Reserve(); ok {
			b.Error("reserved a slot of a stopped runner")
		}
		if err := stopped.Start(); err == nil {
			b.Error("started again")
		}
		var done atomic.Int64
		b.runner("n2", 10, func(_ context.Context, held work.Lease) error {
			if held.Attempt != 1 {
				b.Errorf("attempt %d", held.Attempt)
			}
			done.Add(1)
			return b.finish(held)
		})
		synctest.Wait()
		if done.Load() != 5 {
			b.Errorf("%d taken over at once", done.Load())
		}
		b.empty()
	})
}

func TestRunnerStopsThoughHandlersDoNot(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		r := work.NewRunner(work.Config{Kind: "run", Owner: "n1", Queue: b.Queue, Logger: slog.New(slog.DiscardHandler),
			Handler: func(_ context.Context, held work.Lease) error {
				time.Sleep(time.Hour)
				if err := b.finish(held); !errors.Is(err, work.ErrLost) {
					b.Errorf("the lease is not fenced: %v", err)
				}
				return work.ErrLost
			}})
		b.enqueue("a", 0)
		if err := r.Start(); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Second)
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
		defer cancel()
		if err := r.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			b.Error(err)
		}
		if leases, err := b.Claim(b.Context(), "run", "n2", 1, 2*time.Hour); len(leases) != 1 || leases[0].Attempt != 1 {
			b.Error(leases, err)
		}
		b.pass(time.Hour)
	})
}

// TestRunnerStartStopRace calls all methods at once, for the race detector and the
// leak check.
func TestRunnerStartStopRace(t *testing.T) {
	t.Parallel()
	for range 200 {
		q := worktest.NewQueue(clock.System{}, nil)
		var handled atomic.Int64
		r := work.NewRunner(work.Config{Kind: "run", Owner: "n1", Slots: 4, Queue: q, Logger: slog.New(slog.DiscardHandler),
			Handler: func(ctx context.Context, held work.Lease) error {
				handled.Add(1)
				return q.Write(context.Background(), func(tx txn.Tx) error { return q.FinishTx(tx, held) })
			}})
		var adopted, enqueued atomic.Int64
		var wg sync.WaitGroup
		wg.Go(func() { r.Start() })
		for i := range 4 {
			wg.Go(func() {
				item := work.Item{Kind: "run", Key: fmt.Sprint(i)}
				slot, ok := r.Reserve()
				err := q.Write(context.Background(), func(tx txn.Tx) error {
					if !ok {
						return q.EnqueueTx(tx, item)
					}
					held, err := q.EnqueueHeldTx(tx, item, "n1", time.Minute)
					tx.AfterCommit(func() { slot.Adopt(held) })
					return err
				})
				if err != nil {
					t.Error(err)
				}
				if ok {
					adopted.Add(1)
				}
				enqueued.Add(1)
				r.Wake()
			})
			wg.Go(func() {
				if err := r.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := r.Running(); n != 0 {
			t.Fatalf("%d slots are used after Stop", n)
		}
		left, err := q.Claim(context.Background(), "run", "n2", 10, time.Minute)
		if err != nil || int64(len(left))+handled.Load() != enqueued.Load() {
			t.Fatalf("%d left and %d handled of %d, %v", len(left), handled.Load(), enqueued.Load(), err)
		}
	}
}

func TestRunnerDrains(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		draining := b.runner("n1", 10, func(ctx context.Context, held work.Lease) error {
			for range 3 { // steps of 20 s each, under a lease of 15 s
				if err := work.StopIfDraining(ctx); err != nil {
					return err
				}
				time.Sleep(20 * time.Second)
				if err := ctx.Err(); err != nil {
					b.Errorf("%s was cancelled: %v", held.Key, context.Cause(ctx))
				}
			}
			return b.finish(held)
		})
		for i := range 5 {
			b.enqueue(fmt.Sprint(i), 0)
		}
		b.pass(25 * time.Second)
		begun := b.since()
		var drained sync.WaitGroup
		for range 3 {
			drained.Go(func() {
				if err := draining.Drain(context.Background()); err != nil || b.since() != 40*time.Second {
					b.Error(err, b.since())
				}
			})
		}
		synctest.Wait()
		if _, ok := draining.Reserve(); ok {
			b.Error("reserved a slot of a draining runner")
		}
		b.enqueue("late", 0)
		drained.Wait()
		if n := draining.Running(); n != 0 || begun == b.since() {
			b.Errorf("%d running after %v", n, b.since()-begun)
		}
		if err := draining.Stop(context.Background()); err != nil {
			b.Error(err)
		}
		var attempts atomic.Int64
		b.runner("n2", 10, func(_ context.Context, held work.Lease) error {
			attempts.Add(int64(held.Attempt))
			return b.finish(held)
		})
		synctest.Wait()
		if n := attempts.Load(); n != 6 {
			b.Errorf("6 items were taken over in %d attempts", n)
		}
		b.empty()
	})
}

func TestRunnerDrainsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		r := b.runner("n1", 1, func(ctx context.Context, _ work.Lease) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		b.enqueue("a", 0)
		b.pass(time.Second)
		ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
		defer cancel()
		if err := r.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || b.since() != 31*time.Second {
			b.Error(err, b.since())
		}
		if n := r.Running(); n != 1 {
			b.Errorf("%d running after the drain", n)
		}
		if err := r.Stop(b.Context()); err != nil || b.since() != 31*time.Second {
			b.Error(err, b.since())
		}
		if leases, err := b.Claim(b.Context(), "run", "n2", 1, time.Minute); len(leases) != 1 || leases[0].Attempt != 1 {
			b.Error(leases, err)
		}
	})
}

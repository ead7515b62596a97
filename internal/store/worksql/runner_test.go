package worksql_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

// TestRunnersOnWork has two nodes do what was enqueued, adopted, or left behind
// by a third that died, each item once.
func TestRunnersOnWork(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const enqueued, adopted, left = 200, 100, 20
		n := &nodes{t: t, db: db, done: make(map[string]int), all: make(chan struct{}), want: enqueued + adopted + left}
		n.queue = worksql.New(db, clock.System{}, func(string) {
			for _, r := range n.runners {
				r.Wake()
			}
		})
		n.enqueue("left", left)
		if leases, err := n.queue.Claim(t.Context(), "run", "dead", left, time.Second); err != nil || len(leases) != left {
			t.Fatal(leases, err)
		}
		for _, owner := range []string{"n1", "n2"} {
			n.runners = append(n.runners, work.NewRunner(work.Config{Kind: "run", Owner: owner, Slots: 8, Queue: n.queue,
				Handler: n.handle, Logger: slog.New(slog.DiscardHandler)}))
		}
		for _, r := range n.runners {
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}()
		}
		var wg sync.WaitGroup
		wg.Go(func() { n.enqueue("enqueued", enqueued) })
		wg.Go(func() {
			for i := range adopted {
				n.adopt(n.runners[i%2], fmt.Sprint("adopted ", i))
			}
		})
		wg.Wait()
		select {
		case <-n.all:
		case <-time.After(30 * time.Second):
			t.Errorf("only %d of %d items are done", len(n.done), n.want)
		}
		for key, times := range n.done {
			if times != 1 {
				t.Errorf("%s was done %d times", key, times)
			}
		}
	})
}

// What is put off for less than the time between two claims is done on time, not at
// the next claim.
func TestShortDelaysEndOnTime(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	delays := map[string]func(*worksql.Queue, txn.Tx, work.Lease) error{
		"rescheduled": func(q *worksql.Queue, tx txn.Tx, held work.Lease) error {
			return q.RescheduleTx(tx, held, time.Now().Add(delay), nil)
		},
		"enqueued again": func(q *worksql.Queue, tx txn.Tx, held work.Lease) error {
			if err := q.FinishTx(tx, held); err != nil {
				return err
			}
			return q.EnqueueTx(tx, work.Item{Kind: "run", Key: "again", TenantID: "t", Due: time.Now().Add(delay)})
		},
	}
	for name, put := range delays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				var r *work.Runner
				q := worksql.New(db, clock.System{}, func(string) { r.Wake() })
				done := make(chan struct{})
				times := 0
				r = work.NewRunner(work.Config{Kind: "run", Owner: "n", Slots: 8, Queue: q, Poll: time.Hour, Lease: time.Hour, Logger: slog.New(slog.DiscardHandler),
					Handler: func(ctx context.Context, held work.Lease) error {
						if times++; times == 2 {
							close(done)
							return db.Write(ctx, func(tx txn.Tx) error { return q.FinishTx(tx, held) })
						}
						<-time.After(50 * time.Millisecond) // the claim has looked for what is due next
						return db.Write(ctx, func(tx txn.Tx) error { return put(q, tx, held) })
					}})
				if err := r.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := r.Stop(context.Background()); err != nil {
						t.Error(err)
					}
				}()
				if err := db.Write(t.Context(), func(tx txn.Tx) error {
					return q.EnqueueTx(tx, work.Item{Kind: "run", Key: "first", TenantID: "t"})
				}); err != nil {
					t.Fatal(err)
				}
				select {
				case <-done:
				case <-time.After(30 * time.Second):
					t.Error("what was put off is not done")
				}
			})
		})
	}
}

type nodes struct {
	t       *testing.T
	db      *sqldb.DB
	queue   *worksql.Queue
	runners []*work.Runner

	mu   sync.Mutex
	done map[string]int
	want int
	all  chan struct{}
}

func (n *nodes) enqueue(name string, items int) {
	for i := range items {
		if err := n.db.Write(n.t.Context(), func(tx txn.Tx) error {
			return n.queue.EnqueueTx(tx, work.Item{Kind: "run", Key: fmt.Sprint(name, " ", i), TenantID: fmt.Sprint(i % 3)})
		}); err != nil {
			n.t.Error(err)
		}
	}
}

// adopt starts an item with a runner that has a slot, as a request does.
func (n *nodes) adopt(r *work.Runner, key string) {
	item := work.Item{Kind: "run", Key: key, TenantID: "adopted"}
	slot, ok := r.Reserve()
	if err := n.db.Write(n.t.Context(), func(tx txn.Tx) error {
		if !ok {
			return n.queue.EnqueueTx(tx, item)
		}
		held, err := n.queue.EnqueueHeldTx(tx, item, r.Owner(), r.Lease())
		tx.AfterCommit(func() { slot.Adopt(held) })
		return err
	}); err != nil {
		n.t.Error(err)
	}
}

func (n *nodes) handle(ctx context.Context, held work.Lease) error {
	if err := n.db.Write(ctx, func(tx txn.Tx) error { return n.queue.FinishTx(tx, held) }); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.done[held.Key]++
	if len(n.done) == n.want {
		close(n.all)
	}
	return nil
}

// BenchmarkWork is what the queue costs a run: an item that is held from the
// start, and finished.
func BenchmarkWork(b *testing.B) {
	for _, engine := range sqldbtest.Engines {
		b.Run(string(engine), func(b *testing.B) {
			db := sqldbtest.Open(b, engine)
			q := worksql.New(db, clock.System{}, nil)
			if err := db.Write(b.Context(), func(tx txn.Tx) error {
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					held, err := q.EnqueueHeldTx(tx, work.Item{Kind: "run", Key: fmt.Sprint(i), TenantID: "t"}, "n1", time.Minute)
					if err != nil {
						return err
					}
					if err := q.FinishTx(tx, held); err != nil {
						return err
					}
				}
				b.StopTimer()
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkClaim claims ten items at a time, of a backlog of so many.
func BenchmarkClaim(b *testing.B) {
	for _, engine := range sqldbtest.Engines {
		for _, backlog := range []int{100, 20_000} {
			b.Run(fmt.Sprintf("%s/backlog-%d", engine, backlog), func(b *testing.B) {
				db := sqldbtest.Open(b, engine)
				q := worksql.New(db, clock.System{}, nil)
				if err := db.Write(b.Context(), func(tx txn.Tx) error {
					for i := range backlog {
						if err := q.EnqueueTx(tx, work.Item{Kind: "run", Key: fmt.Sprint(i), TenantID: fmt.Sprint(i % 5)}); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					leases, err := q.Claim(b.Context(), "run", "n1", 10, time.Minute)
					if err != nil || len(leases) != 10 {
						b.Fatal(leases, err)
					}
					if err := q.Release(b.Context(), leases, time.Now().Add(-time.Second)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

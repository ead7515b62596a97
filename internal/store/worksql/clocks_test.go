package worksql_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

// skewed is a system's clock that is wrong, and can be set while it runs.
type skewed struct{ by atomic.Int64 }

func newSkewed(by time.Duration) *skewed {
	s := &skewed{}
	s.by.Store(int64(by))
	return s
}

func (s *skewed) Now() time.Time { return clock.System{}.Now().Add(time.Duration(s.by.Load())) }

func enqueue(t *testing.T, db *sqldb.DB, q work.Queue, items ...work.Item) {
	t.Helper()
	if err := db.Write(t.Context(), func(tx txn.Tx) error { return q.EnqueueTx(tx, items...) }); err != nil {
		t.Fatal(err)
	}
}

// claim returns the keys that a queue claims.
func claim(t *testing.T, q work.Queue, owner string) (keys []string, leases []work.Lease) {
	t.Helper()
	leases, err := q.Claim(t.Context(), "run", owner, 10, 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		keys = append(keys, l.Key)
	}
	return keys, leases
}

// TestSkewedClocks has nodes over one PostgreSQL whose clocks are an hour ahead and
// behind: none takes what another holds, and nothing is late or early.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.Postgres)
	clocks := []*skewed{newSkewed(0), newSkewed(time.Hour), newSkewed(-time.Hour)}
	var queues []*worksql.Queue
	for _, c := range clocks {
		queues = append(queues, worksql.New(db, c, nil))
	}
	for i, q := range queues {
		key := fmt.Sprint(i)
		enqueue(t, db, q, work.Item{Kind: "run", Key: key, TenantID: "t"}, work.Item{Kind: "run", Key: "later " + key, TenantID: "t", Due: clocks[i].Now().Add(time.Minute)})
		keys, leases := claim(t, queues[(i+1)%3], "n1")
		if diff := cmp.Diff([]string{key}, keys); diff != "" {
			t.Fatalf("enqueued by clock %d: %s", i, diff)
		}
		for j, other := range queues {
			if keys, _ := claim(t, other, "n2"); len(keys) > 0 {
				t.Errorf("clock %d took %v from clock %d", j, keys, i)
			}
			if lost, err := other.Renew(t.Context(), leases, 15*time.Second); err != nil || len(lost) > 0 {
				t.Errorf("clock %d: %v, %v", j, lost, err)
			}
			if err := db.Write(t.Context(), func(tx txn.Tx) error { return other.HoldTx(tx, leases[0], 15*time.Second) }); err != nil {
				t.Errorf("clock %d: %v", j, err)
			}
			due, err := other.GetNextDue(t.Context(), "run")
			if in := due.Sub(clocks[j].Now()); err != nil || in < 5*time.Second || in > 16*time.Second {
				t.Errorf("clock %d finds something due in %v, %v", j, in, err)
			}
		}
		// A release is for now, and a reschedule for later.
		if err := q.Release(t.Context(), leases, clocks[i].Now()); err != nil {
			t.Fatal(err)
		}
		keys, leases = claim(t, queues[(i+2)%3], "n3")
		if diff := cmp.Diff([]string{key}, keys); diff != "" {
			t.Fatalf("released by clock %d: %s", i, diff)
		}
		if err := db.Write(t.Context(), func(tx txn.Tx) error {
			return q.RescheduleTx(tx, leases[0], clocks[i].Now().Add(300*time.Millisecond), nil)
		}); err != nil {
			t.Fatal(err)
		}
		for begun, keys := time.Now(), []string(nil); len(keys) == 0; keys, leases = claim(t, queues[i], "n4") {
			if time.Since(begun) > 5*time.Second {
				t.Fatalf("clock %d: it is late", i)
			}
		}
		if err := db.Write(t.Context(), func(tx txn.Tx) error { return q.FinishTx(tx, leases[0]) }); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunnersWithSkewedClocks does the same with runners, which renew short leases
// while their handlers work.
func TestRunnersWithSkewedClocks(t *testing.T) {
	t.Parallel()
	const items = 30
	db := sqldbtest.Open(t, sqldbtest.Postgres)
	var handled atomic.Int64
	all := make(chan struct{})
	for i, by := range []time.Duration{0, time.Hour, -time.Hour} {
		c := newSkewed(by)
		q := worksql.New(db, c, nil)
		r := work.NewRunner(work.Config{
			Kind: "run", Owner: fmt.Sprint("n", i), Slots: 4, Queue: q, Clock: c, Lease: 900 * time.Millisecond, Poll: 50 * time.Millisecond,
			Logger: slog.New(slog.DiscardHandler),
			Handler: func(ctx context.Context, held work.Lease) error {
				select {
				case <-ctx.Done():
					t.Errorf("%s was lost: %v", held.Key, context.Cause(ctx))
				case <-time.After(1200 * time.Millisecond): // longer than a lease
				}
				if err := db.Write(ctx, func(tx txn.Tx) error { return q.FinishTx(tx, held) }); err != nil {
					t.Errorf("%s: %v", held.Key, err)
				}
				if handled.Add(1) == items {
					close(all)
				}
				return nil
			},
		})
		for j := range items / 3 {
			enqueue(t, db, q, work.Item{Kind: "run", Key: fmt.Sprint(i, " ", j), TenantID: "t"})
		}
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		defer r.Stop(context.Background())
	}
	select {
	case <-all:
	case <-time.After(30 * time.Second):
		t.Errorf("only %d are done", handled.Load())
	}
	if n := handled.Load(); n != items {
		t.Errorf("%d were handled", n)
	}
}

// TestClockThatIsSet has the system's clock set while SQLite's node runs: leases go
// on, and due times follow it.
func TestClockThatIsSet(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			db := sqldbtest.Open(t, sqldbtest.SQLite)
			c := newSkewed(0)
			q := worksql.New(db, c, nil)
			enqueue(t, db, q, work.Item{Kind: "run", Key: "held", TenantID: "t"},
				work.Item{Kind: "run", Key: "noon", TenantID: "t", Due: c.Now().Add(time.Hour / 2)})
			if keys, _ := claim(t, q, "n1"); len(keys) != 1 {
				t.Fatal(keys)
			}
			c.by.Store(int64(by))
			want := []string(nil)
			if by > 0 {
				want = []string{"noon"}
			}
			keys, _ := claim(t, q, "n2")
			if diff := cmp.Diff(want, keys); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReclaimAll is the start of SQLite's node after a crash, with a clock that was
// a day ahead before.
func TestReclaimAll(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	ahead := newSkewed(24 * time.Hour)
	before := worksql.New(db, ahead, nil)
	enqueue(t, db, before, work.Item{Kind: "run", Key: "held", TenantID: "t"}, work.Item{Kind: "run", Key: "failed", TenantID: "t"})
	_, leases := claim(t, before, "another name")
	if err := before.Release(t.Context(), leases[:1], ahead.Now().Add(5*time.Minute)); err != nil {
		t.Fatal(err)
	}
	enqueue(t, db, before, work.Item{Kind: "run", Key: "new", TenantID: "t"}, work.Item{Kind: "run", Key: "tomorrow", TenantID: "t", Due: ahead.Now().Add(time.Hour)})
	after := worksql.New(db, clock.System{}, nil)
	if err := after.ReclaimAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, _ := claim(t, after, "n1")
	if len(keys) != 3 {
		t.Errorf("due are %v", keys)
	}
}

// TestLeaveHeld has a node whose database was away leave the leases of others alone
// for a while.
func TestLeaveHeld(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		q := worksql.New(db, clock.System{}, nil)
		enqueue(t, db, q, work.Item{Kind: "run", Key: "a", TenantID: "t"})
		if leases, err := q.Claim(t.Context(), "run", "n1", 1, -time.Second); err != nil || len(leases) != 1 {
			t.Fatal(leases, err)
		}
		q.LeaveHeld(time.Hour)
		enqueue(t, db, q, work.Item{Kind: "run", Key: "b", TenantID: "t"})
		if keys, _ := claim(t, q, "n2"); !cmp.Equal(keys, []string{"b"}) {
			t.Errorf("it claims %v", keys)
		}
		q.LeaveHeld(0)
		if keys, _ := claim(t, q, "n2"); !cmp.Equal(keys, []string{"a"}) {
			t.Errorf("it claims %v then", keys)
		}
	})
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		q := worksql.New(db, clock.System{}, nil)
		if b, err := q.GetBacklog(t.Context(), "run"); err != nil || b != (worksql.Backlog{}) {
			t.Errorf("of nothing: %v, %v", b, err)
		}
		now := clock.System{}.Now()
		enqueue(t, db, q, work.Item{Kind: "run", Key: "a", TenantID: "t", Due: now.Add(-time.Minute)}, work.Item{Kind: "run", Key: "b", TenantID: "t"},
			work.Item{Kind: "run", Key: "later", TenantID: "t", Due: now.Add(time.Hour)}, work.Item{Kind: "other", Key: "a", TenantID: "t"})
		b, err := q.GetBacklog(t.Context(), "run")
		if err != nil || b.Depth != 2 || b.Oldest < time.Minute || b.Oldest > 3*time.Minute {
			t.Errorf("%v, %v", b, err)
		}
	})
}

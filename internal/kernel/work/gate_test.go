package work_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// away is a queue whose database is away for a while, as PostgreSQL is in a failover.
type away struct {
	*outage
	asked atomic.Int64 // while it was away
}

func (a *away) down() error {
	if !a.outage.down.Load() {
		return nil
	}
	a.asked.Add(1)
	return fault.New(fault.Unavailable, "", "The database is away.").Because(txn.ErrAway)
}

func (a *away) Claim(ctx context.Context, kind, owner string, n int, lease time.Duration) ([]work.Lease, error) {
	if err := a.down(); err != nil {
		return nil, err
	}
	return a.Queue.Claim(ctx, kind, owner, n, lease)
}

func (a *away) Renew(ctx context.Context, held []work.Lease, lease time.Duration) ([]work.Lease, error) {
	if err := a.down(); err != nil {
		return nil, err
	}
	return a.Queue.Renew(ctx, held, lease)
}

// TestSlowFailover has the database of fourteen kinds of work away for two and a
// half minutes: nobody asks but one probe, leases are kept, and the log has a
// handful of lines.
func TestSlowFailover(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		q := &away{outage: &outage{Queue: b.Queue}}
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		var probes, opened, handled atomic.Int64
		gate := work.NewGate(logger, func(context.Context) error {
			probes.Add(1)
			if q.outage.down.Load() {
				return errDown
			}
			return nil
		}, func() { opened.Add(1) })
		ctx, stop := context.WithCancel(b.Context())
		defer stop()
		go gate.Serve(ctx)
		for i := range 14 {
			kind := fmt.Sprint("kind", i)
			r := work.NewRunner(work.Config{Kind: kind, Owner: "n1", Queue: q, Gate: gate, Logger: logger,
				Handler: func(ctx context.Context, held work.Lease) error {
					select {
					case <-time.After(10 * time.Minute):
					case <-ctx.Done():
						b.Errorf("%s: %v", held.Key, context.Cause(ctx))
					}
					handled.Add(1)
					return b.finish(held)
				}})
			if err := b.Write(b.Context(), func(tx txn.Tx) error { return b.EnqueueTx(tx, work.Item{Kind: kind, Key: kind}) }); err != nil {
				b.Fatal(err)
			}
			if err := r.Start(); err != nil {
				b.Fatal(err)
			}
			defer r.Stop(context.Background())
		}
		b.pass(10 * time.Second)
		q.outage.down.Store(true)
		b.pass(150 * time.Second)
		if n := q.asked.Load(); n > 14 {
			b.Errorf("the queue was asked %d times", n)
		}
		if n := probes.Load(); n < 140 || n > 151 {
			b.Errorf("%d probes", n)
		}
		q.outage.down.Store(false)
		b.pass(20 * time.Minute)
		if n := handled.Load(); n != 14 || opened.Load() != 1 {
			b.Errorf("%d items were handled, and the gate was opened %d times", n, opened.Load())
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 4 || !strings.Contains(lines[0], "the database is away") || !strings.Contains(lines[2], "still: ") || !strings.Contains(lines[3], "over: ") {
			b.Errorf("the log is\n%s", log.String())
		}
	})
}

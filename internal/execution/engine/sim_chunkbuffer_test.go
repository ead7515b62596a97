package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// uncertainWriter commits the first writes while a model answers, but reports that
// they failed, as when the connection to the database breaks.
type uncertainWriter struct {
	txn.Writer
	mu   sync.Mutex
	skip int // writes that are reported correctly first
	lies int // writes to report as failed
	lied int // so far
}

func (u *uncertainWriter) Write(ctx context.Context, do func(txn.Tx) error) error {
	err := u.Writer.Write(ctx, do)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.skip > 0 {
		u.skip--
		return err
	}
	if err == nil && u.lied < u.lies {
		u.lied++
		return fault.New(fault.Unavailable, "", "The connection broke.")
	}
	return err
}

// Drafts that were stored although the write seemed to fail are in the log once,
// while the model answers and afterwards.
func TestDraftsAfterUncertainWrites(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, lies := range []int{1, 2} {
			r := newHarness(t, db, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(10), Delay: 30 * time.Millisecond}))
			writer := &uncertainWriter{Writer: db, skip: 1, lies: lies}
			n := r.start("n", 4, writer)
			id := n.begin(run.Request{}).RunID
			waitFor(t, func() bool {
				r.grows(r.events(id))
				got, err := n.Get(t.Context(), r.who.TenantID, id)
				return err == nil && got.Status.Final()
			})
			end := n.end(id)
			if writer.lied != lies || r.output(end).Text != modeltest.Tokens(10) {
				t.Errorf("%d of %d writes seemed to fail; %s %q", writer.lied, lies, end.Status, r.output(end).Text)
			}
			r.checkEnded(end)
			n.stop()
		}
	})
}

// grows fails unless seqs increase.
func (r *harness) grows(events []event.Event) {
	r.t.Helper()
	last := int64(0)
	for _, e := range events {
		if e.Seq <= last {
			r.t.Fatalf("event %d follows %d", e.Seq, last)
		}
		last = e.Seq
	}
}

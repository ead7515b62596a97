package audit

import (
	"context"
	"fmt"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// PushKind is the kind of work of a Pusher. There is one item of it.
const PushKind = "audit_push"

const (
	pushBatch = 100
	pushEvery = 5 * time.Second // how often a Pusher looks for new entries
)

// Receiver takes entries of all tenants, such as a SIEM.
type Receiver interface {
	// Push returns nil once the receiver has all of the lines. They come again if it
	// fails.
	Push(ctx context.Context, lines []Line) error
}

// PushStore is the port to entries that are still to be pushed. While pushing is
// enabled, Store.AppendTx adds each entry to them, in any process.
type PushStore interface {
	EnablePushTx(tx txn.Tx, now time.Time) error
	// ClearPushTx ends it, and forgets what is not pushed yet.
	ClearPushTx(tx txn.Tx) error
	// ListUnsent lists up to n entries, oldest first.
	ListUnsent(ctx context.Context, n int) ([]Record, error)
	DeleteUnsentTx(tx txn.Tx, sent []Record) error
}

// Pusher pushes new entries to a receiver, each at least once, on one node at a
// time. What a receiver refuses is tried again, with waits of up to five minutes,
// and delays nothing else.
type Pusher struct {
	Store    PushStore
	Queue    work.Queue
	Writer   txn.Writer
	Clock    clock.Clock
	Receiver Receiver      // nil: nothing is pushed
	Lease    time.Duration // of the work
}

// Enable begins to collect entries, or ends it where there is no receiver.
func (p *Pusher) Enable(ctx context.Context) error {
	return p.Writer.Write(ctx, func(tx txn.Tx) error {
		if p.Receiver == nil {
			if err := p.Queue.DeleteTx(tx, PushKind, PushKind); err != nil {
				return err
			}
			return p.Store.ClearPushTx(tx)
		}
		if err := p.Store.EnablePushTx(tx, p.Clock.Now()); err != nil {
			return err
		}
		return p.Queue.EnqueueTx(tx, work.Item{Kind: PushKind, Key: PushKind})
	})
}

// Handle is the work.Handler of PushKind.
func (p *Pusher) Handle(ctx context.Context, held work.Lease) error {
	for {
		entries, err := p.Store.ListUnsent(ctx, pushBatch)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return p.Writer.Write(ctx, func(tx txn.Tx) error {
				return p.Queue.RescheduleTx(tx, held, p.Clock.Now().Add(pushEvery), nil)
			})
		}
		lines := make([]Line, len(entries))
		for i := range entries {
			lines[i] = LineOf(entries[i])
		}
		if err := p.Receiver.Push(ctx, lines); err != nil {
			return fmt.Errorf("pushing the audit log (AGENTD_AUDIT_PUSH): %w", err)
		}
		err = p.Writer.Write(ctx, func(tx txn.Tx) error {
			if err := p.Queue.HoldTx(tx, held, p.Lease); err != nil {
				return err
			}
			return p.Store.DeleteUnsentTx(tx, entries)
		})
		if err != nil {
			return err
		}
		select {
		case <-work.Draining(ctx):
			return work.ErrStopping
		default:
		}
	}
}

package idempotency

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// Config is what a Keeper is made of.
type Config struct {
	Store  Store
	Writer txn.Writer
	Box    *secret.Box // seals answers, any of which may hold a secret
	Clock  clock.Clock
	Log    *slog.Logger
	// OnStored is told of every answer that is kept: whether in the transaction of
	// the effect or after it. Nil: nobody.
	OnStored func(withEffect bool)
}

// Manager hands out tickets for writes that carry a key. It is safe for
// concurrent use.
type Manager struct {
	Config

	mu       sync.Mutex
	inFlight map[ID]Hash // what this node is at, and its target
}

// NewManager makes a Keeper.
func NewManager(c Config) *Manager {
	if c.OnStored == nil {
		c.OnStored = func(bool) {}
	}
	return &Manager{Config: c, inFlight: map[ID]Hash{}}
}

// Begin takes a write, and gives a ticket that the caller closes. It does not
// look whether the write was done before: the first transaction will show, and
// a write that comes to its end without one asks with Earlier. answer renders
// what a write's function says it will answer. Errors: ErrRunning where this
// node is at it; IDEMPOTENCY_KEY_REUSED.
func (k *Manager) Begin(r Request, answer func(any) (*Answer, error)) (*Operation, error) {
	if err := k.beginInFlight(r); err != nil {
		return nil, err
	}
	return &Operation{
		manager: k, request: r, render: answer,
		record: Record{ID: r.ID, Holder: ident.New(), Request: r.Target},
	}, nil
}

// beginInFlight notes what this node is at.
func (k *Manager) beginInFlight(r Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	target, busy := k.inFlight[r.ID]
	switch {
	case !busy:
		k.inFlight[r.ID] = r.Target
		return nil
	case target != r.Target:
		return errReused()
	}
	return ErrRunning
}

func (k *Manager) endInFlight(id ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.inFlight, id)
}

// findAnswer gives the answer that is kept, and nil where there is none that counts.
func (k *Manager) findAnswer(ctx context.Context, r Request) (*Answer, error) {
	record, err := k.Store.Get(ctx, r.ID)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now := k.Clock.Now()
	if record.Status == 0 && !now.Before(record.Lease) || !now.Before(record.Expires) {
		return nil, nil
	}
	if record.Request != r.Target {
		return nil, errReused()
	}
	if body, known := r.Body(record.Status != 0); known && record.Body != (Hash{}) && body != record.Body {
		return nil, errReused()
	}
	if record.Status == 0 {
		return nil, ErrRunning
	}
	return open(k.Box, record)
}

const (
	sweepEvery = time.Hour
	sweepBatch = 500
	sweepPause = 10 * time.Millisecond // between batches: others want to work too
)

// Serve forgets expired records until ctx ends.
func (k *Manager) Serve(ctx context.Context) {
	work.Every(ctx, sweepEvery, k.Log, "expired idempotency keys could not be removed", k.Sweep)
}

// Sweep looks through all records, a batch at a time, and forgets those that
// have expired.
func (k *Manager) Sweep(ctx context.Context) error {
	now := k.Clock.Now()
	var after ID
	for {
		batch, err := k.Store.List(ctx, after, sweepBatch)
		if err != nil {
			return err
		}
		var expired []ID
		for _, r := range batch {
			if !now.Before(r.Expires) {
				expired = append(expired, r.ID)
			}
		}
		if expired != nil {
			if err := k.Writer.Write(ctx, func(tx txn.Tx) error { return k.Store.DeleteExpiredTx(tx, expired, now) }); err != nil {
				return err
			}
		}
		if len(batch) < sweepBatch {
			return nil
		}
		after = batch[len(batch)-1].ID
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sweepPause):
		}
	}
}

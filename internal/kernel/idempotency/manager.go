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

// Config has the dependencies of a Manager.
type Config struct {
	Store  Store
	Writer txn.Writer
	Box    *secret.Box // seals answers, any of which may hold a secret
	Clock  clock.Clock
	Log    *slog.Logger
	// OnStored, if set, is called for every answer that is stored: withEffect
	// reports whether in the transaction of the effect, or after it.
	OnStored func(withEffect bool)
	// Window returns how long an answer is kept; nil: Window.
	Window func() time.Duration
}

func (c *Config) window() time.Duration {
	if c.Window == nil {
		return Window
	}
	return c.Window()
}

// Manager makes Operations of writes that carry a key. It is safe for concurrent
// use.
type Manager struct {
	Config

	mu       sync.Mutex
	inFlight map[ID]Hash // targets of the writes in progress on this node
}

// NewManager returns a Manager.
func NewManager(c Config) *Manager {
	if c.OnStored == nil {
		c.OnStored = func(bool) {}
	}
	return &Manager{Config: c, inFlight: map[ID]Hash{}}
}

// Begin registers a write and returns an Operation, which the caller closes. It
// does not look for an earlier answer: the write's first transaction finds out
// whether the key is taken, and a write that ends without a transaction calls
// EarlierAnswer. answer renders the result of the write's function. Errors:
// ErrRunning if a write with the key is in progress on this node;
// IDEMPOTENCY_KEY_REUSED if that write is a different one.
func (m *Manager) Begin(r Request, answer func(any) (*Answer, error)) (*Operation, error) {
	if err := m.beginInFlight(r); err != nil {
		return nil, err
	}
	return &Operation{
		manager: m, request: r, render: answer,
		record: Record{ID: r.ID, Holder: ident.New(), Request: r.Target},
	}, nil
}

// beginInFlight registers a write in progress.
func (m *Manager) beginInFlight(r Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	target, busy := m.inFlight[r.ID]
	switch {
	case !busy:
		m.inFlight[r.ID] = r.Target
		return nil
	case target != r.Target:
		return errReused()
	}
	return ErrRunning
}

func (m *Manager) endInFlight(id ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.inFlight, id)
}

// Earlier returns the answer to an earlier request with the same key, nil if there is
// none and none is under way. Errors: ErrRunning while the earlier request is running,
// IDEMPOTENCY_KEY_REUSED, the store's.
func (m *Manager) Earlier(ctx context.Context, r Request) (*Answer, error) {
	m.mu.Lock()
	_, busy := m.inFlight[r.ID]
	m.mu.Unlock()
	if busy {
		return nil, ErrRunning
	}
	return m.findAnswer(ctx, r)
}

// findAnswer returns the stored answer, or nil if the key has no valid record.
func (m *Manager) findAnswer(ctx context.Context, r Request) (*Answer, error) {
	record, err := m.Store.Get(ctx, r.ID)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now := m.Clock.Now()
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
	return open(m.Box, record)
}

const (
	sweepEvery = time.Hour
	sweepBatch = 500
	sweepPause = 10 * time.Millisecond // between batches, to leave the database to others
)

// Serve deletes expired records now and then until ctx ends.
func (m *Manager) Serve(ctx context.Context) {
	work.Every(ctx, sweepEvery, m.Log, "expired idempotency keys could not be removed", m.Sweep)
}

// Sweep reads all records, a batch at a time, and deletes those that have
// expired.
func (m *Manager) Sweep(ctx context.Context) error {
	now := m.Clock.Now()
	var after ID
	for {
		batch, err := m.Store.List(ctx, after, sweepBatch)
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
			if err := m.Writer.Write(ctx, func(tx txn.Tx) error { return m.Store.DeleteExpiredTx(tx, expired, now) }); err != nil {
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

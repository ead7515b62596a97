package worktest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// Queue is a work.Queue in memory and its txn.Writer, for tests without a
// database. It passes the suite.
type Queue struct {
	clock clock.Clock
	wake  func(kind string)

	mu    sync.Mutex
	items map[id]*row
	epoch int64
	last  map[string]string // kind → tenant of the item claimed last
}

type id struct{ kind, key string }

// row is an item, held or not. Rows in the map are replaced, never changed.
type row struct {
	work.Lease // Owner is "" if the item is not held
}

// due returns when the item can be claimed.
func (r *row) due() time.Time {
	if r.Owner != "" {
		return r.Until
	}
	return r.Due
}

var (
	_ work.Queue = (*Queue)(nil)
	_ txn.Writer = (*Queue)(nil)
)

// NewQueue returns an empty queue. wake, which may be nil, is called after each
// write that makes an item due at once.
func NewQueue(clock clock.Clock, wake func(kind string)) *Queue {
	return &Queue{clock: clock, wake: wake, items: make(map[id]*row), last: make(map[string]string)}
}

type tx struct {
	ctx   context.Context
	hints []func()
}

func (t *tx) Context() context.Context { return t.ctx }
func (t *tx) AfterCommit(hint func())  { t.hints = append(t.hints, hint) }

// Write implements txn.Writer.
func (q *Queue) Write(ctx context.Context, do func(txn.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := &tx{ctx: context.WithoutCancel(ctx)}
	if err := q.locked(t, do); err != nil {
		return err
	}
	for _, hint := range t.hints {
		hint()
	}
	return nil
}

func (q *Queue) locked(t *tx, do func(txn.Tx) error) (err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := maps.Clone(q.items)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			q.items = before
		}
	}()
	return do(t)
}

func (q *Queue) wakeAfter(t txn.Tx, kind string, due time.Time) {
	if q.wake != nil && !due.After(q.clock.Now()) {
		t.AfterCommit(func() { q.wake(kind) })
	}
}

// EnqueueTx implements work.Queue.
func (q *Queue) EnqueueTx(t txn.Tx, items ...work.Item) error {
	for _, item := range items {
		if err := q.enqueue(t, item); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) enqueue(t txn.Tx, item work.Item) error {
	if item.Due.IsZero() {
		item.Due = q.clock.Now()
	}
	k := id{item.Kind, item.Key}
	r, exists := q.items[k]
	switch {
	case !exists:
		q.epoch++
		q.items[k] = &row{work.Lease{Item: item, Epoch: q.epoch}}
	case r.Owner == "" && item.Due.Before(r.Due):
		earlier := *r
		earlier.Due = item.Due
		q.items[k] = &earlier
	default:
		return nil
	}
	q.wakeAfter(t, item.Kind, item.Due)
	return nil
}

// EnqueueHeldTx implements work.Queue.
func (q *Queue) EnqueueHeldTx(_ txn.Tx, item work.Item, owner string, lease time.Duration) (work.Lease, error) {
	now := q.clock.Now()
	k := id{item.Kind, item.Key}
	if q.items[k] != nil {
		return work.Lease{}, work.ErrExists
	}
	if item.Due.IsZero() {
		item.Due = now
	}
	q.epoch++
	q.items[k] = &row{work.Lease{Item: item, Owner: owner, Epoch: q.epoch, Attempt: 1, Until: now.Add(lease)}}
	return q.items[k].Lease, nil
}

// Claim implements work.Queue.
func (q *Queue) Claim(_ context.Context, kind, owner string, n int, lease time.Duration) ([]work.Lease, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	due := slices.SortedFunc(maps.Values(q.items), func(a, b *row) int {
		return cmp.Or(a.due().Compare(b.due()), strings.Compare(a.Key, b.Key))
	})
	due = slices.DeleteFunc(due, func(r *row) bool { return r.Kind != kind || r.due().After(now) })
	last, taken := q.last[kind]
	rounds := make(map[string]int)
	round := make(map[*row]int)
	for _, r := range due {
		round[r] = 2 * rounds[r.TenantID]
		if taken && r.TenantID <= last {
			round[r]++
		}
		rounds[r.TenantID]++
	}
	slices.SortStableFunc(due, func(a, b *row) int {
		return cmp.Or(cmp.Compare(round[a], round[b]), strings.Compare(a.TenantID, b.TenantID))
	})
	var leases []work.Lease
	for _, r := range due[:min(n, len(due))] {
		held := *r
		q.epoch++
		held.Owner, held.Epoch, held.Attempt, held.Until = owner, q.epoch, r.Attempt+1, now.Add(lease)
		q.items[id{r.Kind, r.Key}] = &held
		q.last[kind] = r.TenantID
		leases = append(leases, held.Lease)
	}
	return leases, nil
}

// current replaces the row of a lease by a copy and returns it, for the caller to
// change. It returns work.ErrLost if the lease is not current.
func (q *Queue) current(held work.Lease) (*row, error) {
	r := q.items[id{held.Kind, held.Key}]
	if r == nil || r.Epoch != held.Epoch {
		return nil, work.ErrLost
	}
	changed := *r
	q.items[id{held.Kind, held.Key}] = &changed
	return &changed, nil
}

// Renew implements work.Queue.
func (q *Queue) Renew(_ context.Context, held []work.Lease, lease time.Duration) (lost []work.Lease, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range held {
		if q.HoldTx(nil, l, lease) != nil {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// HoldTx implements work.Queue.
func (q *Queue) HoldTx(_ txn.Tx, held work.Lease, lease time.Duration) error {
	r, err := q.current(held)
	if err == nil {
		r.Until = q.clock.Now().Add(lease)
	}
	return err
}

// FinishTx implements work.Queue.
func (q *Queue) FinishTx(_ txn.Tx, held work.Lease) error {
	_, err := q.current(held)
	if err == nil {
		delete(q.items, id{held.Kind, held.Key})
	}
	return err
}

// RescheduleTx implements work.Queue.
func (q *Queue) RescheduleTx(t txn.Tx, held work.Lease, due time.Time, payload []byte) error {
	r, err := q.current(held)
	if err != nil {
		return err
	}
	r.Payload = payload
	q.release(r, due, 0)
	q.wakeAfter(t, held.Kind, due)
	return nil
}

func (q *Queue) release(r *row, due time.Time, attempt int) {
	q.epoch++
	r.Due, r.Owner, r.Epoch, r.Attempt = due, "", q.epoch, max(attempt, 0)
}

// DeleteTx implements work.Queue.
func (q *Queue) DeleteTx(_ txn.Tx, kind, key string) error {
	delete(q.items, id{kind, key})
	return nil
}

// Release implements work.Queue.
func (q *Queue) Release(ctx context.Context, held []work.Lease, due time.Time) error {
	return q.Write(ctx, func(t txn.Tx) error {
		for _, l := range held {
			if r, err := q.current(l); err == nil {
				q.release(r, due, l.Attempt)
				q.wakeAfter(t, l.Kind, due)
			}
		}
		return nil
	})
}

// GetNextDue implements work.Queue.
func (q *Queue) GetNextDue(_ context.Context, kind string) (next time.Time, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.items {
		if r.Kind == kind && (next.IsZero() || r.due().Before(next)) {
			next = r.due()
		}
	}
	return next, nil
}

// Reclaim implements work.Queue.
func (q *Queue) Reclaim(ctx context.Context, owner string) (n int, err error) {
	err = q.Write(ctx, func(t txn.Tx) error {
		for _, r := range q.items {
			if r.Owner == owner {
				free, _ := q.current(r.Lease)
				q.release(free, q.clock.Now(), r.Attempt)
				q.wakeAfter(t, r.Kind, free.Due)
				n++
			}
		}
		return nil
	})
	return n, err
}

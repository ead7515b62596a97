package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentd/internal/base/txn"
)

// Ticket is a write that is being done. As the txn.Guard of its request it
// reserves the key in the first transaction and keeps the answer in the one
// that is told it.
type Ticket struct {
	keeper  *Keeper
	request Request
	render  func(any) (*Answer, error)

	mu       sync.Mutex
	record   Record
	reserved bool // the reservation is committed
	answered bool // the answer is committed
	told     bool // the open transaction was told the answer
	lost     bool // another request holds the key
	closed   bool
	landed   bool // nobody else is kept from the key by this node's memory any more
	renewal  *time.Timer
}

var _ txn.Guard = (*Ticket)(nil)

// Enter implements txn.Guard.
func (t *Ticket) Enter(tx txn.Tx) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = false
	if t.closed || t.answered {
		return nil
	}
	if t.reserved { // it may have been taken for dead since
		t.record.Lease = t.keeper.Clock.Now().Add(lease)
		return t.held(t.keeper.Store.RenewTx(tx, t.record))
	}
	if err := t.reserve(tx); err != nil {
		return err
	}
	tx.AfterCommit(t.isReserved)
	return nil
}

func (t *Ticket) reserve(tx txn.Tx) error {
	now := t.keeper.Clock.Now()
	t.record.Lease, t.record.Expires = now.Add(lease), now.Add(Window)
	t.record.Body, _ = t.request.Body(false)
	return t.held(t.keeper.Store.ReserveTx(tx, t.record, now))
}

// held notes whether the key is this request's.
func (t *Ticket) held(ok bool, err error) error {
	if err != nil {
		return err
	}
	if t.lost = !ok; t.lost {
		return errLost
	}
	return nil
}

func (t *Ticket) isReserved() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved = true
	if !t.told && !t.closed {
		t.renewal = time.AfterFunc(renewEvery, t.renew)
	}
}

// Reserve reserves the key in a transaction of its own, for a write that works
// outside of the database before it writes there. Errors: the database's; where
// another request holds the key, Lost says so.
func (t *Ticket) Reserve(ctx context.Context) error {
	return t.keeper.Writer.Write(ctx, t.Enter)
}

// renew keeps the reservation of a write that takes long.
func (t *Ticket) renew() {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return
	}
	t.record.Lease = t.keeper.Clock.Now().Add(lease)
	record := t.record
	t.renewal.Reset(renewEvery)
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	err := t.keeper.Writer.Write(ctx, func(tx txn.Tx) error {
		_, err := t.keeper.Store.RenewTx(tx, record) // who lost it learns so when he writes
		return err
	})
	if err != nil {
		t.keeper.Log.Warn("an idempotency key could not be renewed", "cause", err)
	}
}

// Answer implements txn.Guard.
func (t *Ticket) Answer(tx txn.Tx, answer any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.answered {
		return nil
	}
	body, known := t.request.Body(false)
	if !known {
		return nil // it is kept after the body was read to its end
	}
	rendered, err := t.render(answer)
	if err != nil {
		return err
	}
	if !Kept(rendered.Status) {
		return nil
	}
	if err := t.complete(tx, body, rendered); err != nil {
		return err
	}
	t.told = true
	tx.AfterCommit(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.answered = true
		t.keeper.Kept(true)
		t.land() // others find the answer
	})
	return nil
}

func (t *Ticket) complete(tx txn.Tx, body Hash, a *Answer) error {
	t.record.Body, t.record.Status = body, a.Status
	t.record.Answer = seal(t.keeper.Box, t.record.ID, a)
	return t.held(t.keeper.Store.CompleteTx(tx, t.record))
}

// Earlier gives what an earlier request with this key was answered, to a write
// that lost its key or had no transaction; nil where there was none. Errors:
// ErrRunning while that one is at it, IDEMPOTENCY_KEY_REUSED, the store's.
func (t *Ticket) Earlier(ctx context.Context) (*Answer, error) {
	t.mu.Lock()
	ours, lost := t.reserved, t.lost
	t.mu.Unlock()
	if ours && !lost {
		return nil, nil
	}
	kept, err := t.keeper.find(ctx, t.request)
	if err == nil && kept == nil && lost {
		return nil, ErrRunning // the other gave up meanwhile: the client sends it again
	}
	return kept, err
}

// Lost says whether the write was not done because another request holds its
// key.
func (t *Ticket) Lost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// Finish keeps the answer that is about to be sent, unless the transaction of
// the effect has done so, or frees the key where answers like it are not kept.
// a is nil where there is none.
func (t *Ticket) Finish(a *Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.lost {
		return
	}
	t.closed = true // what the request still writes is not its doing any more
	if t.answered {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lease/2) // the client may be gone
	defer cancel()
	body, known := t.request.Body(false)
	var err error
	switch {
	case a != nil && known && Kept(a.Status):
		err = t.keep(ctx, body, a)
	case t.reserved:
		err = t.keeper.Writer.Write(ctx, func(tx txn.Tx) error { return t.keeper.Store.ReleaseTx(tx, t.record) })
	}
	if err != nil {
		t.keeper.Log.Warn("the answer to a write with an idempotency key was not kept", "cause", err)
	}
}

// keep writes the answer after the fact.
func (t *Ticket) keep(ctx context.Context, body Hash, a *Answer) error {
	err := t.keeper.Writer.Write(ctx, func(tx txn.Tx) error {
		if !t.reserved {
			if err := t.reserve(tx); err != nil {
				return err
			}
		}
		return t.complete(tx, body, a)
	})
	switch {
	case errors.Is(err, errLost):
		return nil // the other's answer stands
	case err == nil:
		t.keeper.Kept(false)
	}
	return err
}

// Close ends the ticket, whatever became of it. One that was not finished, as
// after a panic, frees its key.
func (t *Ticket) Close() {
	t.Finish(nil)
	t.mu.Lock()
	t.closed = true
	if t.renewal != nil {
		t.renewal.Stop()
	}
	t.land()
	t.mu.Unlock()
}

func (t *Ticket) land() {
	if !t.landed {
		t.landed = true
		t.keeper.land(t.request.ID)
	}
}

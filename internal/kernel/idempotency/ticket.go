package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentd/internal/base/txn"
)

// Operation is a write that is being done. As the txn.RequestHook of its request it
// reserves the key in the first transaction and keeps the answer in the one
// that is told it.
type Operation struct {
	manager *Manager
	request Request
	render  func(any) (*Answer, error)

	mu       sync.Mutex
	record   Record
	reserved bool // the reservation is committed
	answered bool // the answer is committed
	storing  bool // the open transaction was told the answer
	lost     bool // another request holds the key
	closed   bool
	released bool // nobody else is kept from the key by this node's memory any more
	renewal  *time.Timer
}

var _ txn.RequestHook = (*Operation)(nil)

// BeginTx implements txn.RequestHook.
func (t *Operation) BeginTx(tx txn.Tx) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.storing = false
	if t.closed || t.answered {
		return nil
	}
	if t.reserved { // it may have been taken for dead since
		t.record.Lease = t.manager.Clock.Now().Add(lease)
		return t.checkHeld(t.manager.Store.RenewTx(tx, t.record))
	}
	if err := t.reserve(tx); err != nil {
		return err
	}
	tx.AfterCommit(t.onReserved)
	return nil
}

func (t *Operation) reserve(tx txn.Tx) error {
	now := t.manager.Clock.Now()
	t.record.Lease, t.record.Expires = now.Add(lease), now.Add(Window)
	t.record.Body, _ = t.request.Body(false)
	return t.checkHeld(t.manager.Store.ReserveTx(tx, t.record, now))
}

// checkHeld notes whether the key is this request's.
func (t *Operation) checkHeld(ok bool, err error) error {
	if err != nil {
		return err
	}
	if t.lost = !ok; t.lost {
		return errLost
	}
	return nil
}

func (t *Operation) onReserved() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved = true
	if !t.storing && !t.closed {
		t.renewal = time.AfterFunc(renewEvery, t.renew)
	}
}

// Reserve reserves the key in a transaction of its own, for a write that works
// outside of the database before it writes there. Errors: the database's; where
// another request holds the key, Lost says so.
func (t *Operation) Reserve(ctx context.Context) error {
	return t.manager.Writer.Write(ctx, t.BeginTx)
}

// renew keeps the reservation of a write that takes long.
func (t *Operation) renew() {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return
	}
	t.record.Lease = t.manager.Clock.Now().Add(lease)
	record := t.record
	t.renewal.Reset(renewEvery)
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	err := t.manager.Writer.Write(ctx, func(tx txn.Tx) error {
		_, err := t.manager.Store.RenewTx(tx, record) // who lost it learns so when he writes
		return err
	})
	if err != nil {
		t.manager.Log.Warn("an idempotency key could not be renewed", "cause", err)
	}
}

// AnswerTx implements txn.RequestHook.
func (t *Operation) AnswerTx(tx txn.Tx, answer any) error {
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
	if !Replayable(rendered.Status) {
		return nil
	}
	if err := t.complete(tx, body, rendered); err != nil {
		return err
	}
	t.storing = true
	tx.AfterCommit(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.answered = true
		t.manager.OnStored(true)
		t.release() // others find the answer
	})
	return nil
}

func (t *Operation) complete(tx txn.Tx, body Hash, a *Answer) error {
	t.record.Body, t.record.Status = body, a.Status
	t.record.Answer = seal(t.manager.Box, t.record.ID, a)
	return t.checkHeld(t.manager.Store.CompleteTx(tx, t.record))
}

// EarlierAnswer gives what an earlier request with this key was answered, to a write
// that lost its key or had no transaction; nil where there was none. Errors:
// ErrRunning while that one is at it, IDEMPOTENCY_KEY_REUSED, the store's.
func (t *Operation) EarlierAnswer(ctx context.Context) (*Answer, error) {
	t.mu.Lock()
	ours, lost := t.reserved, t.lost
	t.mu.Unlock()
	if ours && !lost {
		return nil, nil
	}
	kept, err := t.manager.findAnswer(ctx, t.request)
	if err == nil && kept == nil && lost {
		return nil, ErrRunning // the other gave up meanwhile: the client sends it again
	}
	return kept, err
}

// Lost says whether the write was not done because another request holds its
// key.
func (t *Operation) Lost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// Finish keeps the answer that is about to be sent, unless the transaction of
// the effect has done so, or frees the key where answers like it are not kept.
// a is nil where there is none.
func (t *Operation) Finish(a *Answer) {
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
	case a != nil && known && Replayable(a.Status):
		err = t.storeAnswer(ctx, body, a)
	case t.reserved:
		err = t.manager.Writer.Write(ctx, func(tx txn.Tx) error { return t.manager.Store.ReleaseTx(tx, t.record) })
	}
	if err != nil {
		t.manager.Log.Warn("the answer to a write with an idempotency key was not kept", "cause", err)
	}
}

// storeAnswer writes the answer after the fact.
func (t *Operation) storeAnswer(ctx context.Context, body Hash, a *Answer) error {
	err := t.manager.Writer.Write(ctx, func(tx txn.Tx) error {
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
		t.manager.OnStored(false)
	}
	return err
}

// Close ends the ticket, whatever became of it. One that was not finished, as
// after a panic, frees its key.
func (t *Operation) Close() {
	t.Finish(nil)
	t.mu.Lock()
	t.closed = true
	if t.renewal != nil {
		t.renewal.Stop()
	}
	t.release()
	t.mu.Unlock()
}

func (t *Operation) release() {
	if !t.released {
		t.released = true
		t.manager.endInFlight(t.request.ID)
	}
}

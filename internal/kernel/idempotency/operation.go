package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentd/internal/base/txn"
)

// Operation is a write in progress. As the txn.RequestHook of its request it
// reserves the key in the first transaction, and stores the answer in the
// transaction whose AnswerTx receives it.
type Operation struct {
	manager *Manager
	request Request
	render  func(any) (*Answer, error)

	mu       sync.Mutex
	record   Record
	reserved bool // the reservation is committed
	answered bool // the answer is committed
	storing  bool // the open transaction stores the answer
	lost     bool // another request holds the key
	closed   bool
	released bool // the manager's inFlight no longer has the key
	renewal  *time.Timer
}

var _ txn.RequestHook = (*Operation)(nil)

// BeginTx implements txn.RequestHook.
func (o *Operation) BeginTx(tx txn.Tx) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.storing = false
	if o.closed || o.answered {
		return nil
	}
	if o.reserved { // its lease may have ended in the meantime
		o.record.Lease = o.manager.Clock.Now().Add(lease)
		return o.checkHeld(o.manager.Store.RenewTx(tx, o.record))
	}
	if err := o.reserve(tx); err != nil {
		return err
	}
	tx.AfterCommit(o.onReserved)
	return nil
}

func (o *Operation) reserve(tx txn.Tx) error {
	now := o.manager.Clock.Now()
	o.record.Lease, o.record.Expires = now.Add(lease), now.Add(o.manager.window())
	o.record.Body, _ = o.request.Body(false)
	return o.checkHeld(o.manager.Store.ReserveTx(tx, o.record, now))
}

// checkHeld records whether this request holds the key, and returns errLost if not.
func (o *Operation) checkHeld(ok bool, err error) error {
	if err != nil {
		return err
	}
	if o.lost = !ok; o.lost {
		return errLost
	}
	return nil
}

func (o *Operation) onReserved() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reserved = true
	if !o.storing && !o.closed {
		o.renewal = time.AfterFunc(renewEvery, o.renew)
	}
}

// Reserve reserves the key in a transaction of its own, for a write that has
// effects outside of the database before its first transaction. If it fails
// because another request holds the key, Lost reports true; other errors come
// from the database.
func (o *Operation) Reserve(ctx context.Context) error {
	return o.manager.Writer.Write(ctx, o.BeginTx)
}

// renew renews the reservation of a long write.
func (o *Operation) renew() {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.record.Lease = o.manager.Clock.Now().Add(lease)
	record := o.record
	o.renewal.Reset(renewEvery)
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	err := o.manager.Writer.Write(ctx, func(tx txn.Tx) error {
		_, err := o.manager.Store.RenewTx(tx, record) // if the key was lost, the next write finds out
		return err
	})
	if err != nil {
		o.manager.Log.Warn("an idempotency key could not be renewed", "cause", err)
	}
}

// AnswerTx implements txn.RequestHook.
func (o *Operation) AnswerTx(tx txn.Tx, answer any) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.answered {
		return nil
	}
	body, known := o.request.Body(false)
	if !known {
		return nil // Finish stores it, when the body was read to its end
	}
	rendered, err := o.render(answer)
	if err != nil {
		return err
	}
	if !Replayable(rendered.Status) {
		return nil
	}
	if err := o.complete(tx, body, rendered); err != nil {
		return err
	}
	o.storing = true
	tx.AfterCommit(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.answered = true
		o.manager.OnStored(true)
		o.release() // later requests find the stored answer
	})
	return nil
}

func (o *Operation) complete(tx txn.Tx, body Hash, a *Answer) error {
	o.record.Body, o.record.Status = body, a.Status
	o.record.Answer = seal(o.manager.Box, o.record.ID, a)
	return o.checkHeld(o.manager.Store.CompleteTx(tx, o.record))
}

// EarlierAnswer returns the answer to an earlier request with this key, or nil if
// there was none. It is for a write that lost its key or had no transaction.
// Errors: ErrRunning while the other request is running, IDEMPOTENCY_KEY_REUSED,
// the store's.
func (o *Operation) EarlierAnswer(ctx context.Context) (*Answer, error) {
	o.mu.Lock()
	reserved, lost := o.reserved, o.lost
	o.mu.Unlock()
	if reserved && !lost {
		return nil, nil
	}
	stored, err := o.manager.findAnswer(ctx, o.request)
	if err == nil && stored == nil && lost {
		return nil, ErrRunning // the other request released the key: the client retries
	}
	return stored, err
}

// Lost reports whether the write was aborted because another request holds its
// key.
func (o *Operation) Lost() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// Finish stores the answer that is about to be sent, unless the transaction of
// the effect has done so. It releases the key if the answer is nil or not
// Replayable.
func (o *Operation) Finish(a *Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.lost {
		return
	}
	o.closed = true // later transactions of the request do not concern the key
	if o.answered {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lease/2) // the client may be gone
	defer cancel()
	body, known := o.request.Body(false)
	var err error
	switch {
	case a != nil && known && Replayable(a.Status):
		err = o.storeAnswer(ctx, body, a)
	case o.reserved:
		err = o.manager.Writer.Write(ctx, func(tx txn.Tx) error { return o.manager.Store.ReleaseTx(tx, o.record) })
	}
	if err != nil {
		o.manager.Log.Warn("the answer to a write with an idempotency key was not stored", "cause", err)
	}
}

// storeAnswer stores the answer in a transaction of its own, after the effect.
func (o *Operation) storeAnswer(ctx context.Context, body Hash, a *Answer) error {
	err := o.manager.Writer.Write(ctx, func(tx txn.Tx) error {
		if !o.reserved {
			if err := o.reserve(tx); err != nil {
				return err
			}
		}
		return o.complete(tx, body, a)
	})
	switch {
	case errors.Is(err, errLost):
		return nil // the other request's answer counts
	case err == nil:
		o.manager.OnStored(false)
	}
	return err
}

// Close ends the operation. If it was not finished, as after a panic, Close
// releases its key.
func (o *Operation) Close() {
	o.Finish(nil)
	o.mu.Lock()
	o.closed = true
	if o.renewal != nil {
		o.renewal.Stop()
	}
	o.release()
	o.mu.Unlock()
}

func (o *Operation) release() {
	if !o.released {
		o.released = true
		o.manager.endInFlight(o.request.ID)
	}
}

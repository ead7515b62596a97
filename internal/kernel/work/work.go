// Package work is leased background work: runs, deliveries, schedules and
// whatever else must happen though a process dies.
//
// An item is due at a moment. Claiming it moves that moment to the end of the
// lease and raises the item's epoch, so that an item whose worker died is
// simply due again; there is no reaper. A worker writes only in transactions
// that [Queue.Hold], [Queue.Finish] or [Queue.Reschedule] its lease: these fail
// with [ErrLost] unless the epoch is still the worker's, which fences off every
// worker that lost its lease without knowing.
//
// A [Runner] claims the items of one kind, keeps their leases alive and calls a
// handler for each.
package work

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/txn"
)

// ErrLost says that the lease belongs to somebody else now, or that the item
// is gone. The transaction must be abandoned.
var ErrLost = errors.New("work: the lease is lost")

// ErrExists says that there is an item of that kind and key already.
var ErrExists = errors.New("work: the item exists")

// Item is a piece of work. (Kind, Key) is unique.
type Item struct {
	Kind     string    // which handler: "run"
	Key      string    // what to work on: the run's id
	TenantID string    // whose it is; claims are fair over tenants
	Due      time.Time // zero is now
	Payload  []byte    // small, opaque JSON; nil where Key says it all
}

// Lease is an item held by a worker.
type Lease struct {
	Item
	Owner   string // the node
	Epoch   int64  // the fencing token; no two leases of (Kind, Key) share one, not even after a Remove
	Attempt int    // claims since the item was enqueued or rescheduled, this one included
	Until   time.Time
}

// Queue is the port to the table of work. All times are the clock's of the
// calling node; leases are long against clock skew.
type Queue interface {
	// EnqueueTx adds items, of different keys, in the caller's transaction. Where
	// one exists, only an earlier due time changes it, and nothing if it is held:
	// what its holder writes depends on what it reads in its own transactions.
	EnqueueTx(tx txn.Tx, items ...Item) error
	// EnqueueHeldTx adds an item that this owner holds from the start, which
	// spares the claim. It fails with ErrExists, and the transaction may go on.
	EnqueueHeldTx(tx txn.Tx, item Item, owner string, lease time.Duration) (Lease, error)
	// Claim takes up to n due items of a kind for owner, oldest first within a
	// tenant and turn by turn over tenants, also from one claim to the next, so
	// that nobody's backlog makes others wait.
	Claim(ctx context.Context, kind, owner string, n int, lease time.Duration) ([]Lease, error)
	// Renew prolongs leases, all of one kind and owner, and gives back those
	// that are lost.
	Renew(ctx context.Context, held []Lease, lease time.Duration) (lost []Lease, err error)
	// HoldTx proves in the transaction that the lease is current, and prolongs it.
	HoldTx(tx txn.Tx, held Lease, lease time.Duration) error
	// FinishTx deletes the item.
	FinishTx(tx txn.Tx, held Lease) error
	// RescheduleTx lets go of the item until due, with a new payload; attempts
	// count from 0 again.
	RescheduleTx(tx txn.Tx, held Lease, due time.Time, payload []byte) error
	// Release lets go of items until due, as they are but for Attempt, which is
	// taken from the leases. Those that are lost are left alone.
	Release(ctx context.Context, held []Lease, due time.Time) error
	// DeleteTx deletes an item whoever holds it; its holder is fenced off.
	DeleteTx(tx txn.Tx, kind, key string) error
	// GetNextDue is the earliest due time of a kind, zero where there is nothing.
	GetNextDue(ctx context.Context, kind string) (time.Time, error)
	// Reclaim makes due at once what owner held when it died. Called by a node
	// at start, with its own name.
	Reclaim(ctx context.Context, owner string) (int, error)
}

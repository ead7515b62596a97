// Package work is leased background work: runs, deliveries, schedules and
// everything else that must be done even if a process dies.
//
// An item has a due time. Claiming it moves that time to the end of the lease and
// increments the item's epoch, so that an item whose worker died becomes due
// again; there is no reaper. A worker writes only in transactions that call
// [Queue.HoldTx], [Queue.FinishTx] or [Queue.RescheduleTx] with its lease. These
// fail with [ErrLost] unless the epoch is still that of the lease, which fences
// off a worker that lost its lease without noticing.
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

// ErrLost means that another worker has the lease now, or that the item was
// deleted. The transaction must be rolled back.
var ErrLost = errors.New("work: the lease is lost")

// ErrExists means that there is already an item of that kind and key.
var ErrExists = errors.New("work: the item exists")

// Item is a piece of work. (Kind, Key) is unique.
type Item struct {
	Kind     string    // selects the handler, for example "run"
	Key      string    // what to work on, for example the id of a run
	TenantID string    // its tenant; claims are fair between tenants
	Due      time.Time // the zero time means now
	Payload  []byte    // small, opaque JSON; nil if the key is enough
}

// Lease is an item held by a worker.
type Lease struct {
	Item
	Owner   string // the node
	Epoch   int64  // the fencing token; unique among all leases of (Kind, Key), even after a deletion
	Attempt int    // claims since the item was enqueued or rescheduled, this one included
	Until   time.Time
}

// Queue is the port to the table of work. All times are of the calling node's
// clock; leases are long compared to clock skew.
type Queue interface {
	// EnqueueTx adds items, of different keys, in the caller's transaction. An
	// item that exists already is changed only if it is not held and the new due
	// time is earlier. A held item needs no change, because what its holder
	// writes depends on what it reads in its own transactions.
	EnqueueTx(tx txn.Tx, items ...Item) error
	// EnqueueHeldTx adds an item that owner holds from the start, which saves the
	// claim. If the item exists the transaction fails with ErrExists, at this call
	// or at a later one.
	EnqueueHeldTx(tx txn.Tx, item Item, owner string, lease time.Duration) (Lease, error)
	// Claim leases up to n due items of a kind to owner: oldest first within a
	// tenant, and round-robin over tenants, also from one claim to the next, so
	// that the backlog of one tenant does not delay others.
	Claim(ctx context.Context, kind, owner string, n int, lease time.Duration) ([]Lease, error)
	// Renew extends leases, all of one kind and owner, and returns those that are
	// lost.
	Renew(ctx context.Context, held []Lease, lease time.Duration) (lost []Lease, err error)
	// HoldTx checks in the transaction that the lease is current, and extends it.
	HoldTx(tx txn.Tx, held Lease, lease time.Duration) error
	// FinishTx deletes the item. If the lease is lost the transaction fails with
	// ErrLost, at this call or at a later one.
	FinishTx(tx txn.Tx, held Lease) error
	// RescheduleTx ends the lease and makes the item due at due, with a new
	// payload. Its attempts are counted from 0 again.
	RescheduleTx(tx txn.Tx, held Lease, due time.Time, payload []byte) error
	// Release ends leases and makes their items due at due. Of the items only
	// Attempt changes, to that of the lease. Lost leases are ignored.
	Release(ctx context.Context, held []Lease, due time.Time) error
	// DeleteTx deletes an item even if it is held; its holder is fenced off.
	DeleteTx(tx txn.Tx, kind, key string) error
	// GetNextDue returns the earliest time at which an item of a kind is due or
	// its lease ends, or the zero time if there is no item.
	GetNextDue(ctx context.Context, kind string) (time.Time, error)
	// Reclaim makes the items due at once that owner held when it died, and
	// returns their number. A node calls it at its start with its own name.
	Reclaim(ctx context.Context, owner string) (int, error)
}

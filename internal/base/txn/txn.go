// Package txn is the seam between slices and databases: an open write
// transaction that slices pass along and only adapters look into.
//
// One function writes: [Writer.Write]. It runs the closure, commits, and then
// runs the functions that the closure passed to AfterCommit. The closure may run
// more than once (after a serialization failure, or after another closure of the
// same group commit failed), so it sets its results on every run and changes
// nothing else outside the transaction. Nesting is refused by construction: a
// closure has a Tx, not a Writer.
package txn

import (
	"context"
	"errors"
)

// ErrAway is in the chain of an error which means that the database is locked, full
// or gone, and not that a statement was wrong.
var ErrAway = errors.New("the database failed")

// Tx is an open write transaction. Storage ports take it where a write, or a
// read that the write depends on, must be part of the transaction.
type Tx interface {
	// Context lives as long as the transaction.
	Context() context.Context
	// AfterCommit registers a hint (a wake-up, a live event) that runs once the
	// commit is durable, and never otherwise. It must not block.
	AfterCommit(hint func())
}

// Op is a prepared write: what can be computed before the transaction, encoding
// above all, is done. This keeps transactions short, since others wait for them.
type Op func(Tx) error

// Fail returns an Op that fails with err, for a write that could not be prepared.
func Fail(err error) Op { return func(Tx) error { return err } }

// Writer commits closures. Errors: what the closure returned, unchanged and
// with nothing written; fault.Unavailable if the database is locked, full or
// unreachable.
type Writer interface {
	Write(ctx context.Context, do func(Tx) error) error
}

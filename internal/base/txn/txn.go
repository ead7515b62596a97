// Package txn is the seam between slices and databases: an open write
// transaction that slices pass along and only adapters look into.
//
// One function writes: [Writer.Write]. It runs the closure, commits, and then
// runs what the closure left with AfterCommit. The closure may run more than
// once (a serialization failure, or a neighbour in the same group commit that
// failed), so it sets what it returns anew on every run and touches nothing
// outside the transaction. Nesting is refused by construction: a closure has a
// Tx, not a Writer.
package txn

import "context"

// Tx is an open write transaction. Storage ports take it where a write, or a
// read that the write depends on, must be part of the transaction.
type Tx interface {
	// Context lives as long as the transaction.
	Context() context.Context
	// AfterCommit leaves a hint (a wake-up, a live event) that runs once the
	// commit is durable, and never runs otherwise. It must not block.
	AfterCommit(hint func())
}

// Op is a write that is ready to go: what could be computed before the
// transaction, encoding above all, is done. Transactions are short because
// others wait for them.
type Op func(Tx) error

// Fail is an Op for what could not be made ready.
func Fail(err error) Op { return func(Tx) error { return err } }

// Writer commits closures. Errors: what the closure returned, unchanged and
// with nothing written; fault.Unavailable where the database is locked, full
// or gone.
type Writer interface {
	Write(ctx context.Context, do func(Tx) error) error
}

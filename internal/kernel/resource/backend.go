package resource

import (
	"context"

	"agentd/internal/base/txn"
)

// Backend is the port to stored documents. Every implementation passes
// resourcetest.Backend. Strings may hold any characters, NUL included. A
// transaction in which a call failed must be abandoned.
type Backend interface {
	// Get reads the newest committed document. Errors: ErrAbsent.
	Get(ctx context.Context, kind, tenant, id string) (Doc, error)
	// LockTx reads it inside the transaction, and nobody else changes it
	// until that ends. Errors: ErrAbsent.
	LockTx(tx txn.Tx, kind, tenant, id string) (Doc, error)
	// List reads a page. It costs an index walk over the rows of the page,
	// whatever the number of rows behind it, and it never counts.
	List(ctx context.Context, q Query) ([]Doc, error)
	// ListTx is List inside the transaction, which sees its own writes.
	ListTx(tx txn.Tx, q Query) ([]Doc, error)
	// PutTx stores doc in place of version was; was 0 inserts. Errors: ErrStale
	// where the stored version is another one or the document is gone,
	// ErrTaken.
	PutTx(tx txn.Tx, doc Doc, was int64) error
	// DeleteTx removes the document of that version. Errors: ErrStale.
	DeleteTx(tx txn.Tx, kind, tenant, id string, version int64) error
}

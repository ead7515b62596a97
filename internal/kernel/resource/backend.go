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
	// LockTx reads a document inside the transaction and locks it against other
	// writers until the transaction ends. Errors: ErrAbsent.
	LockTx(tx txn.Tx, kind, tenant, id string) (Doc, error)
	// List reads a page. It reads only the rows of the page from an index,
	// whatever the number of rows after it, and never counts rows.
	List(ctx context.Context, q Query) ([]Doc, error)
	// ListTx is List inside the transaction, which sees its own writes.
	ListTx(tx txn.Tx, q Query) ([]Doc, error)
	// PutTx stores doc in place of version was; was 0 inserts. Errors: ErrStale
	// if the stored version is another one or the document was deleted, and
	// ErrTaken.
	PutTx(tx txn.Tx, doc Doc, was int64) error
	// DeleteTx removes the document of that version. Errors: ErrStale.
	DeleteTx(tx txn.Tx, kind, tenant, id string, version int64) error
}

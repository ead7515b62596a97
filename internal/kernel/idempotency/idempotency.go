// Package idempotency lets a client repeat a write without repeating its
// effect.
//
// A client names a write by sending a key in the header Idempotency-Key. The key
// is reserved in the transaction of the write's first effect, before that effect,
// and the answer is stored in the transaction of its last effect. A write with
// one transaction thus commits its effect, its key and its answer together, and
// a crash leaves all or none of them. A request whose key is taken receives the
// stored answer, or ErrRunning while the first request is still running.
package idempotency

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

const (
	// Window is how long an answer is kept, unless the operator sets another time.
	Window = 24 * time.Hour
	// lease is how long a reservation holds without being renewed: the keys of a
	// process that died are free again after it.
	lease = time.Minute
	// renewEvery is how often a long request renews its reservation.
	renewEvery = lease / 3

	maxKey = 128
)

// Hash is a SHA-256.
type Hash = [sha256.Size]byte

// ID identifies an idempotency key. Equal ones of two credentials are different: what
// one API key or browser session did is not shown to another, even of the same
// person.
type ID struct{ Tenant, Credential, Key string }

// Record is the stored state of a key.
type Record struct {
	ID
	Holder  string // the request that reserved it
	Request Hash   // of its method and path with query
	Body    Hash   // of its body; zero until the body was read
	Status  int    // of the answer; 0 if there is no answer yet
	Answer  []byte // sealed
	Lease   time.Time
	Expires time.Time
}

// ErrNotFound is returned by Store.Get if there is no record of a key.
var ErrNotFound = errors.New("idempotency: no such key")

// Store is the port to the records. Every ID has the tenant.
type Store interface {
	// Get returns the record of a key, expired or not, or ErrNotFound.
	Get(ctx context.Context, id ID) (Record, error)
	// ReserveTx writes a record without an answer and reports whether it did. It
	// does not if the key has a record that is valid at now: one with an answer
	// that has not expired, or one whose lease has not ended. If another
	// transaction is about to commit a reservation, ReserveTx waits for it.
	ReserveTx(tx txn.Tx, r Record, now time.Time) (bool, error)
	// CompleteTx sets the body, status and answer of the record, and reports
	// whether r's holder still held it.
	CompleteTx(tx txn.Tx, r Record) (bool, error)
	// RenewTx moves the end of the lease, and reports whether r's holder still
	// held the record.
	RenewTx(tx txn.Tx, r Record) (bool, error)
	// ReleaseTx deletes the record if r's holder holds it and it has no answer.
	ReleaseTx(tx txn.Tx, r Record) error
	// List returns up to limit records after an ID, in the order of their IDs,
	// with ID and Expires only. Sweeping all records finds the expired ones: an
	// index for that would make every write more expensive.
	List(ctx context.Context, after ID, limit int) ([]Record, error)
	// DeleteExpiredTx deletes those of the keys that expired before a time.
	DeleteExpiredTx(tx txn.Tx, ids []ID, before time.Time) error
}

// Request is a write that carries a key.
type Request struct {
	ID
	Target Hash // see Target
	// Body returns the hash of the whole body. The hash of an upload is known
	// only when the body was read to its end: until then ok is false, unless
	// wait makes Body read the rest first.
	Body func(wait bool) (hash Hash, ok bool)
}

// Target returns the hash of a request's method and path with query.
func Target(method, uri string) Hash { return sha256.Sum256([]byte(method + " " + uri)) }

// Check returns an error unless the key has 1 to 128 letters, digits, '_', '.' or '-'.
func Check(key string) error {
	valid := len(key) >= 1 && len(key) <= maxKey
	for i := 0; i < len(key) && valid; i++ {
		c := key[i]
		valid = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
	}
	if valid {
		return nil
	}
	return fault.New(fault.Malformed, "INVALID_IDEMPOTENCY_KEY",
		"The header Idempotency-Key must be 1 to %d letters, digits, '_', '.' or '-'; a UUID for each write is a good choice.", maxKey)
}

// ErrRunning is returned while the first request with a key is not answered yet.
var ErrRunning = errors.New("idempotency: the first request with this key is still running")

// errLost aborts a transaction whose key is held by another request.
var errLost = errors.New("idempotency: another request holds this key")

func errReused() error {
	return fault.New(fault.Invalid, "IDEMPOTENCY_KEY_REUSED",
		"This Idempotency-Key belongs to another request: its method, path or body differs. Use a new key for a new write.")
}

// Replayable reports whether an answer with this status is stored. The others do
// not depend on the write (who sends it, how often), or may differ at a retry.
func Replayable(status int) bool {
	switch status {
	case 401, 403, 408, 409, 429:
		return false
	}
	return status >= 200 && status < 300 || status >= 400 && status < 500
}

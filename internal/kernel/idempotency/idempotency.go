// Package idempotency lets a client repeat a write without repeating its
// effect (interface.md section 5, Idempotency; decisions.md D5).
//
// A client names a write with a key. The key is reserved in the transaction
// that has the write's first effect, before that effect, and the answer is kept
// in the transaction of its last: so one commit holds an effect, its key and
// its answer, and a crash leaves all or none. Who finds a key taken gets the
// answer that is kept, or is told that the first is still at it.
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
	// Window is how long an answer is kept.
	Window = 24 * time.Hour
	// lease is how long a reservation holds that nobody renews: what a process
	// that died had begun is free again after it.
	lease = time.Minute
	// renewEvery is how often a request that takes long renews its reservation.
	renewEvery = lease / 3

	maxKey = 128
)

// Hash is a SHA-256.
type Hash = [sha256.Size]byte

// ID is whose key it is: two people's equal keys are two keys.
type ID struct{ Tenant, User, Key string }

// Record is what is kept of a key.
type Record struct {
	ID
	Holder  string // the request that reserved it
	Request Hash   // of its method and path with query
	Body    Hash   // of its body; zero until that is known
	Status  int    // of the answer; 0: there is none yet
	Answer  []byte // sealed
	Lease   time.Time
	Expires time.Time
}

// ErrNotFound is the Store's answer where there is no record.
var ErrNotFound = errors.New("idempotency: no such key")

// Store is the port to the records. Every call takes the tenant, in the ID.
type Store interface {
	// Get gives the record of a key, expired or not, or ErrNone.
	Get(ctx context.Context, id ID) (Record, error)
	// ReserveTx writes a record without an answer, unless there is one that
	// counts: with an answer that has not expired, or whose lease has not
	// ended, at that time. It says whether it did. A reservation that another
	// transaction is about to commit is waited for.
	ReserveTx(tx txn.Tx, r Record, now time.Time) (bool, error)
	// CompleteTx gives the record of r's holder its body, status and answer. It
	// says whether the holder still had it.
	CompleteTx(tx txn.Tx, r Record) (bool, error)
	// RenewTx moves the end of the holder's lease. It says whether the holder
	// still had it.
	RenewTx(tx txn.Tx, r Record) (bool, error)
	// ReleaseTx forgets the record of r's holder, unless it has an answer.
	ReleaseTx(tx txn.Tx, r Record) error
	// List gives whose keys there are and when they expire, in the order of
	// their ids, behind one. It is how expired ones are found: an index would
	// cost every write something.
	List(ctx context.Context, after ID, limit int) ([]Record, error)
	// DeleteExpiredTx forgets those of the keys that expired before a time.
	DeleteExpiredTx(tx txn.Tx, ids []ID, before time.Time) error
}

// Request is a write that carries a key.
type Request struct {
	ID
	Target Hash // see Target
	// Body gives the hash of the whole body. Of an upload it is known once that
	// was read, and ok is false before; wait reads what is left of it.
	Body func(wait bool) (hash Hash, ok bool)
}

// Target is the hash of a request's method and path with query.
func Target(method, uri string) Hash { return sha256.Sum256([]byte(method + " " + uri)) }

// Check refuses a key that is none: 1 to 128 letters, digits, '_', '.' or '-'.
func Check(key string) error {
	good := len(key) >= 1 && len(key) <= maxKey
	for i := 0; i < len(key) && good; i++ {
		c := key[i]
		good = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
	}
	if good {
		return nil
	}
	return fault.New(fault.Malformed, "INVALID_IDEMPOTENCY_KEY",
		"The header Idempotency-Key must be 1 to %d letters, digits, '_', '.' or '-'; a UUID for each write is a good choice.", maxKey)
}

// ErrRunning says that the first request with this key is not answered yet.
var ErrRunning = errors.New("idempotency: the first request with this key is still running")

// errLost is why a transaction ends whose key another request holds.
var errLost = errors.New("idempotency: another request holds this key")

func errReused() error {
	return fault.New(fault.Invalid, "IDEMPOTENCY_KEY_REUSED",
		"This Idempotency-Key belongs to another request: its method, path or body differs. Use a new key for a new write.")
}

// Replayable says whether the answer with a status is kept. The others are not the
// write's doing, or may be different the next time.
func Replayable(status int) bool {
	switch status {
	case 401, 403, 408, 409, 429:
		return false
	}
	return status >= 200 && status < 300 || status >= 400 && status < 500
}

package sensor

import (
	"context"
	"time"

	"agentd/internal/base/txn"
)

// Store is the port to sensors and to the calls of theirs that carried an id.
// What is absent is nil, and no error.
type Store interface {
	// CreateTx stores a new sensor, unless there is one with its id.
	CreateTx(tx txn.Tx, s *Sensor) (made bool, err error)
	// CountActiveTx counts the company's sensors that take calls, and those of one of
	// its agents. Whoever else counts to make one waits for the commit.
	CountActiveTx(tx txn.Tx, tenant, agentID string, now time.Time) (all, ofAgent int, err error)
	Get(ctx context.Context, tenant, id string) (*Sensor, error)
	// GetByID is Get for a caller who belongs to no company: the sensor says whose
	// it is.
	GetByID(ctx context.Context, id string) (*Sensor, error)
	// List gives up to limit sensors, newest first, from behind one of them; ""
	// is from the newest.
	List(ctx context.Context, tenant, after string, limit int) ([]Sensor, error)
	Count(ctx context.Context, tenant string) (int, error)
	DeleteTx(tx txn.Tx, tenant, id string) (found bool, err error)
	// EndTx ends the sensors of an agent.
	EndTx(tx txn.Tx, tenant, agentID string, at time.Time) error
	// DeleteEndedTx forgets the company's sensors that ended before a moment.
	DeleteEndedTx(tx txn.Tx, tenant string, before time.Time) error

	// ClaimTx spends a trigger of a sensor that is active, and no other: false is
	// that it is not, or not any more.
	ClaimTx(tx txn.Tx, tenant, id string, now time.Time) (bool, error)
	// CreateCallTx remembers which run a call started, and forgets the sensor's calls
	// from before a moment. It is false where the call is known already.
	CreateCallTx(tx txn.Tx, c *Call, before time.Time) (fresh bool, err error)
	// GetCallRun gives the run of a call that was noted since a moment; "": none.
	GetCallRun(ctx context.Context, tenant, id, hash string, since time.Time) (runID string, err error)
}

// Call is a call that carried an id of its own.
type Call struct {
	TenantID, SensorID string
	Hash               string // of the id and the body
	RunID              string
	At                 time.Time
}

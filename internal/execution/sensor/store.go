package sensor

import (
	"context"
	"time"

	"agentd/internal/base/txn"
)

// Store is the port to sensors and to the calls of theirs that carried an id.
// What is absent is nil, and no error.
type Store interface {
	// Insert stores a new sensor, unless there is one with its id.
	Insert(tx txn.Tx, s *Sensor) (made bool, err error)
	// Active counts the company's sensors that take calls, and those of one of
	// its agents. Whoever else counts to make one waits for the commit.
	Active(tx txn.Tx, tenant, agentID string, now time.Time) (all, ofAgent int, err error)
	Get(ctx context.Context, tenant, id string) (*Sensor, error)
	// Find is Get for a caller who belongs to no company: the sensor says whose
	// it is.
	Find(ctx context.Context, id string) (*Sensor, error)
	// List gives up to limit sensors, newest first, from behind one of them; ""
	// is from the newest.
	List(ctx context.Context, tenant, after string, limit int) ([]Sensor, error)
	Count(ctx context.Context, tenant string) (int, error)
	Delete(tx txn.Tx, tenant, id string) (found bool, err error)
	// End ends the sensors of an agent.
	End(tx txn.Tx, tenant, agentID string, at time.Time) error
	// Sweep forgets the company's sensors that ended before a moment.
	Sweep(tx txn.Tx, tenant string, before time.Time) error

	// Claim spends a trigger of a sensor that is active, and no other: false is
	// that it is not, or not any more.
	Claim(tx txn.Tx, tenant, id string, now time.Time) (bool, error)
	// Note remembers which run a call started, and forgets the sensor's calls
	// from before a moment. It is false where the call is known already.
	Note(tx txn.Tx, c *Call, before time.Time) (fresh bool, err error)
	// Called gives the run of a call that was noted since a moment; "": none.
	Called(ctx context.Context, tenant, id, hash string, since time.Time) (runID string, err error)
}

// Call is a call that carried an id of its own.
type Call struct {
	TenantID, SensorID string
	Hash               string // of the id and the body
	RunID              string
	At                 time.Time
}

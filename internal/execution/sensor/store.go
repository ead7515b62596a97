package sensor

import (
	"context"
	"time"

	"agentd/internal/base/txn"
)

// Store is the port to sensors, and to those calls that carried an id. A sensor
// that does not exist is nil without an error.
type Store interface {
	// CreateTx stores a sensor, unless one with its id exists.
	CreateTx(tx txn.Tx, s *Sensor) (created bool, err error)
	// CountActiveTx counts the active sensors of a tenant, and those of one of its
	// agents. It blocks other transactions that count until commit.
	CountActiveTx(tx txn.Tx, tenant, agentID string, now time.Time) (all, ofAgent int, err error)
	Get(ctx context.Context, tenant, id string) (*Sensor, error)
	// GetByID is Get for callers without a tenant; the sensor has it.
	GetByID(ctx context.Context, id string) (*Sensor, error)
	// List returns up to limit sensors after one of them, newest first; "" starts
	// with the newest.
	List(ctx context.Context, tenant, after string, limit int) ([]Sensor, error)
	Count(ctx context.Context, tenant string) (int, error)
	DeleteTx(tx txn.Tx, tenant, id string) (found bool, err error)
	// EndTx ends the sensors of an agent.
	EndTx(tx txn.Tx, tenant, agentID string, at time.Time) error
	// DeleteEndedTx deletes the tenant's sensors that ended before a time.
	DeleteEndedTx(tx txn.Tx, tenant string, before time.Time) error

	// ClaimTx uses a trigger of an active sensor. It returns false if the sensor is
	// not active.
	ClaimTx(tx txn.Tx, tenant, id string, now time.Time) (bool, error)
	// CreateCallTx stores which run a call started, and deletes the sensor's calls
	// from before a time. It returns false if the call is stored already.
	CreateCallTx(tx txn.Tx, c *Call, before time.Time) (created bool, err error)
	// GetCallRun returns the run of a call that was stored since a time, or "".
	GetCallRun(ctx context.Context, tenant, id, hash string, since time.Time) (runID string, err error)
}

// Call is a call that carried an id.
type Call struct {
	TenantID, SensorID string
	Hash               string // of the id and the body
	RunID              string
	At                 time.Time
}

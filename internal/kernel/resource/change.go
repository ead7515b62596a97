package resource

import (
	"time"

	"agentd/internal/base/txn"
)

// The actions of a Change that every kind has. The others are its moves.
const (
	Created = "created"
	Updated = "updated"
	Deleted = "deleted"
)

// Change tells that a resource was written. It is told if and only if the
// write commits.
type Change struct {
	Kind     string    `json:"kind"`
	Action   string    `json:"action"` // created | updated | deleted | the action of a move
	TenantID string    `json:"tenant_id"`
	ID       string    `json:"id"`
	Name     string    `json:"name,omitzero"` // what Kind.Label gives: all that is left of the deleted
	Version  int64     `json:"version"`       // after the write; of the deleted: its last
	Actor    string    `json:"actor"`         // user id
	At       time.Time `json:"at"`
}

// Outbox takes changes into the transaction that makes them.
type Outbox interface {
	Append(tx txn.Tx, c Change) error
}

// NoOutbox drops changes: for kinds and tests that nobody listens to.
type NoOutbox struct{}

// Append implements Outbox.
func (NoOutbox) Append(txn.Tx, Change) error { return nil }

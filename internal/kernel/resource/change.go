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

// Change describes a write to a resource. It is published if and only if the
// write commits.
type Change struct {
	Kind     string    `json:"kind"`
	Action   string    `json:"action"` // created | updated | deleted | the action of a move
	TenantID string    `json:"tenant_id"`
	ID       string    `json:"id"`
	Name     string    `json:"name,omitzero"` // from Kind.Label: a deleted resource can no longer be read
	Version  int64     `json:"version"`       // after the write; after a deletion the last one
	Actor    string    `json:"actor"`         // user id
	At       time.Time `json:"at"`
}

// Outbox stores changes in the transaction that makes them.
type Outbox interface {
	Append(tx txn.Tx, c Change) error
}

// NoOutbox drops changes, for kinds and tests without subscribers.
type NoOutbox struct{}

// Append implements Outbox.
func (NoOutbox) Append(txn.Tx, Change) error { return nil }

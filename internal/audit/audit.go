// Package audit keeps who did what to what, and from where: an append-only log
// of each tenant, written in the transactions of what it records
// (behaviours.md sections 0.4 and 34).
package audit

import (
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/authz"
	"agentd/internal/txn"
)

// Entry is what whoever did something says about it. Who, when and from where
// the [Recorder] knows from the caller.
type Entry struct {
	Action     string         // thing and past participle: api_key.revoked
	TargetType string         // api_key
	TargetID   string         // "" where there is no single one
	Details    jsontext.Value // a JSON object with more, never a secret; nil: none
}

// Recorder writes entries.
type Recorder interface {
	// Record writes that the caller did this, into the log of the caller's
	// tenant, in the transaction of what was done.
	Record(tx txn.Tx, who authz.Caller, e Entry) error
}

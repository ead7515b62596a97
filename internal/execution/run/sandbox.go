package run

import "github.com/go-json-experiment/json/jsontext"

// Sandbox is the change that a run tests. Such a run changes nothing but itself: it
// calls only tools that are read-only, waits for no person, and what follows other runs
// (webhooks, notifications, memories) does not follow it.
type Sandbox struct {
	// Patch is the change: a merge patch as agents take it.
	Patch jsontext.Value `json:"patch"`
}

package run

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"
)

// Sandbox is the change that a run tests. Such a run changes nothing but itself: it
// calls only tools that are read-only, waits for no person, and what follows other runs
// (webhooks, notifications, memories) does not follow it.
type Sandbox struct {
	// Patch is the change: a merge patch as agents take it.
	Patch jsontext.Value `json:"patch"`
	// Replays is the run whose recorded results the calls of tools have, none of which is
	// made; "": the run replays none.
	Replays string `json:"replays,omitzero"`
}

// Replaying is the request for a run that replays another: on its input, after the same
// earlier turns, with the results that its tools had. version 0: that of the run.
func Replaying(r *Record, id string, version int64) Request {
	options := r.Options
	options.ForkOf, options.Inherits, options.Wakes = r.RunID, "", nil
	options.Sandbox = &Sandbox{Patch: jsontext.Value("{}"), Replays: r.RunID}
	return Request{
		RunID: id, AgentID: r.AgentID, AgentVersion: cmp.Or(version, r.AgentVersion), Input: r.Input, Metadata: r.Metadata,
		Limits: r.ResourceLimits, Options: options,
	}
}

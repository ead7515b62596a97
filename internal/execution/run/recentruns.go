package run

import "time"

// Recent is what is known of an agent's newest runs.
type Recent struct {
	Runs, Failures int64 // since a time
	LastID         string
	LastStatus     Status
	LastAt         time.Time // zero: there is no run
}

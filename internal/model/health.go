package model

import "time"

// How a provider does.
const (
	HealthOK       = "ok"       // it answers
	HealthDegraded = "degraded" // it fails now and then
	HealthDown     = "down"     // it is not asked for the moment
	HealthUnknown  = "unknown"  // nobody asked lately
)

// Health is how an endpoint does, as the calls of this process saw it.
type Health struct {
	Status string    // one of the constants
	Since  time.Time // zero: not known
}

// Watcher knows how endpoints do. A target's Model may be empty: then it is the
// endpoint as a whole. It never blocks.
type Watcher interface {
	Health(t Target) Health
}

//go:build !race

package apptest

// RaceEnabled reports whether the race detector is on, which makes everything
// slower.
const RaceEnabled = false

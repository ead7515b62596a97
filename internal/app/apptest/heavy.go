package apptest

import (
	"testing"
)

// SkipUnderRace leaves a test out where the race detector watches: a walk over all
// routes, whose requests are like those of the other tests, only more, kills of a
// program that is built without the detector, or what mostly waits. CI plays
// these without it, on both databases.
func SkipUnderRace(tb testing.TB) {
	tb.Helper()
	if RaceEnabled {
		tb.Skip("played without the race detector; see .ci/run")
	}
}

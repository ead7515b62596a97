package apptest

import (
	"testing"
)

// SkipUnderRace skips a test under the race detector: tests of every operation,
// whose requests are like those of other tests, only more; kills of a program that
// is built without the detector; and tests that mostly wait. CI runs them without
// the detector, on both databases.
func SkipUnderRace(tb testing.TB) {
	tb.Helper()
	if RaceEnabled {
		tb.Skip("played without the race detector; see .ci/run")
	}
}

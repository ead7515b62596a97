package app_test

import "testing"

// heavy leaves a walk over all routes out where the race detector watches: the
// requests are like those of the other tests, only more, and it takes minutes.
// CI walks without the detector, on both databases.
func heavy(tb testing.TB) {
	tb.Helper()
	if racing {
		tb.Skip("walked without the race detector; see .ci/run")
	}
}

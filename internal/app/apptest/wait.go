package apptest

import (
	"testing"
	"time"
)

// Eventually waits up to 20 s until a condition holds that sends no signal.
func Eventually(t testing.TB, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}

package apptest

import (
	"testing"
	"time"
)

// Eventually waits for what happens without anybody being told.
func Eventually(t testing.TB, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}

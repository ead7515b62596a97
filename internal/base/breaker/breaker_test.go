package breaker_test

import (
	"testing"
	"time"

	"agentd/internal/base/breaker"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func TestBreaker(t *testing.T) {
	t.Parallel()
	b := breaker.Breaker{After: 3, First: 5 * time.Second, Max: 15 * time.Second, MaxTrial: 4 * time.Second}
	allow := func(second int, trial bool, wait time.Duration) {
		t.Helper()
		if gotTrial, gotWait := b.Allow(at(second)); gotTrial != trial || gotWait != wait {
			t.Errorf("at %d s: trial %t, wait %v, want %t, %v", second, gotTrial, gotWait, trial, wait)
		}
	}
	report := func(second int, trial bool, o breaker.Outcome, open bool) {
		t.Helper()
		if got := b.Report(at(second), trial, o); got != open {
			t.Errorf("at %d s it is open: %t", second, got)
		}
	}
	report(0, false, breaker.Failed, false)
	report(0, false, breaker.Alive, false)
	for i := range 20 { // what fails together does not make the pause longer
		report(0, false, breaker.Failed, i >= 2)
	}
	allow(1, false, 4*time.Second)
	allow(5, true, 0)
	allow(5, false, time.Second)
	report(6, false, breaker.Undecided, true) // another call
	allow(6, false, time.Second)
	report(6, true, breaker.Undecided, true)
	allow(6, true, 0)
	report(6, true, breaker.Failed, true)
	allow(15, false, time.Second)
	allow(16, true, 0)
	allow(19, false, time.Second)
	allow(20, true, 0) // the trial before gave no answer
	report(20, true, breaker.Failed, true)
	allow(34, false, time.Second)
	allow(35, true, 0)
	report(36, true, breaker.Alive, false)
	allow(36, false, 0)
	if got := b.State(); got != (breaker.State{Since: at(36)}) {
		t.Errorf("%+v", got)
	}
}

package breaker_test

import (
	"fmt"
	"time"

	"agentd/internal/base/breaker"
)

func ExampleBreaker() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	b := &breaker.Breaker{After: 2, First: 10 * time.Second, Max: time.Minute}
	for range 2 {
		trial, _ := b.Allow(now)
		b.Report(now, trial, breaker.Failed)
	}
	_, wait := b.Allow(now)
	fmt.Println("open, wait", wait)

	now = now.Add(wait)
	trial, wait := b.Allow(now)
	fmt.Println("trial", trial, wait)
	b.Report(now, trial, breaker.Alive)
	fmt.Println("open", b.State().Open)
	// Output:
	// open, wait 10s
	// trial true 0s
	// open false
}

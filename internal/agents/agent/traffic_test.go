package agent

import (
	"fmt"
	"math"
	"testing"
)

// divided returns a division among versions, from versions and their weights.
func divided(pairs ...int64) *Traffic {
	t := &Traffic{}
	for i := 0; i < len(pairs); i += 2 {
		t.Entries = append(t.Entries, TrafficEntry{Version: pairs[i], Weight: float64(pairs[i+1])})
	}
	return t
}

// In a session the version is always the same; over many sessions, and without one, the
// weights hold.
func TestTrafficChooses(t *testing.T) {
	t.Parallel()
	traffic := divided(1, 70, 2, 0, 3, 30)
	const many = 20_000
	for name, session := range map[string]func(i int) string{
		"sessions":    func(i int) string { return fmt.Sprintf("01a208c9-3505-7384-a98b-%012x", i) },
		"no sessions": func(int) string { return "" },
	} {
		counts := map[int64]int{}
		for i := range many {
			v := traffic.Choose(session(i))
			counts[v]++
			if again := traffic.Choose(session(i)); session(i) != "" && again != v {
				t.Fatalf("the session %d has the versions %d and %d", i, v, again)
			}
		}
		if counts[2] != 0 || math.Abs(float64(counts[3])/many-0.3) > 0.03 || counts[1]+counts[3] != many {
			t.Errorf("%s: %v", name, counts)
		}
	}
	if v := (*Traffic)(nil).Choose("s"); v != 0 {
		t.Errorf("without a division: %d", v)
	}
	for at := range 100 {
		if v := divided(4, 100).Choose(fmt.Sprint(at)); v != 4 {
			t.Errorf("of one version: %d", v)
		}
	}
	// Who moves when weights change is whose share changed.
	less := divided(1, 60, 2, 0, 3, 40)
	for i := range 1000 {
		session := fmt.Sprint(i)
		if was, is := traffic.Choose(session), less.Choose(session); was != is && (was != 1 || is != 3) {
			t.Errorf("a session moved from %d to %d", was, is)
		}
	}
}

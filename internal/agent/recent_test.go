package agent

import (
	"testing"
	"time"
)

func TestRecent(t *testing.T) {
	t.Parallel()
	key, now := agentKey{"t", "a"}, time.Unix(1000, 0)
	g := &Agent{}
	r := newRecent()
	_, _, before := r.find(key, now)
	r.keep(key, g, 1, now, before)
	if got, fresh, _ := r.find(key, now.Add(freshFor-1)); got != g || !fresh {
		t.Error("what was just read is not fresh")
	}
	if got, fresh, _ := r.find(key, now.Add(freshFor)); got != g || fresh {
		t.Error("what was read a second ago is fresh, or forgotten")
	}
	r.forget(key)
	if got, _, _ := r.find(key, now); got != nil {
		t.Error("what changed is still known")
	}
	// A reader that began before a change must not bring back what it saw.
	r.keep(key, g, 1, now, before)
	if got, _, _ := r.find(key, now); got != nil {
		t.Error("what was read before a change was kept after it")
	}
}

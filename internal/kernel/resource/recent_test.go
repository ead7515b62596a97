package resource

import (
	"testing"
	"time"
)

func TestRecent(t *testing.T) {
	t.Parallel()
	key, now := recentKey{"t", "a"}, time.Unix(1000, 0)
	g := &struct{ Meta }{}
	r := NewRecent[struct{ Meta }](nil, 1<<20)
	_, _, before := r.find(key, now)
	r.keep(key, g, 1, now, before)
	if got, fresh, _ := r.find(key, now.Add(FreshFor-1)); got != g || !fresh {
		t.Error("what was just read is not fresh")
	}
	if got, fresh, _ := r.find(key, now.Add(FreshFor)); got != g || fresh {
		t.Error("what was read a second ago is fresh, or forgotten")
	}
	r.Forget(key.tenant, key.id)
	if got, _, _ := r.find(key, now); got != nil {
		t.Error("what changed is still known")
	}
	// A reader that began before a change must not bring back what it saw.
	r.keep(key, g, 1, now, before)
	if got, _, _ := r.find(key, now); got != nil {
		t.Error("what was read before a change was kept after it")
	}
}

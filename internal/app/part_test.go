package app

import (
	"slices"
	"strings"
	"testing"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// Watchers lock rows, so each transaction must call them in the same order,
// whatever the order of the parts is.
func TestWatchersAreOrdered(t *testing.T) {
	t.Parallel()
	var called []string
	watch := func(name string) watcher {
		return watcher{name, func(txn.Tx, *run.Record) error {
			called = append(called, name)
			return nil
		}}
	}
	var all []watcher
	for _, name := range slices.Backward(watcherOrder) {
		all = append(all, watch(name))
	}
	ordered, err := orderWatchers([]part{{watchers: all[:2]}, {watchers: all[2:]}})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ordered {
		if err := w(nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(called, watcherOrder) {
		t.Errorf("watchers are called in the order %v, want %v", called, watcherOrder)
	}
	for name, parts := range map[string][]part{
		"not in watcherOrder":   {{watchers: append(slices.Clone(all), watch("news"))}},
		"two watchers":          {{watchers: all}, {watchers: all[:1]}},
		"no part has the watch": {{watchers: all[1:]}},
	} {
		if _, err := orderWatchers(parts); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

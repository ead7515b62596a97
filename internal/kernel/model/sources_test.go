package model_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/internal/kernel/model"
)

func TestJoinSources(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]string{"web", "file", "sensor", "mcp:a"}), 0, 5), 0, 4).Draw(t, "lists")
		before := make([][]string, len(lists))
		for i, l := range lists {
			before[i] = slices.Clone(l)
		}
		got := model.JoinSources(lists...)
		want := slices.Concat(lists...)
		slices.Sort(want)
		if want = slices.Compact(want); len(want) == 0 {
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		_ = append(got, "other")
		if diff := cmp.Diff(before, lists); diff != "" {
			t.Fatalf("the lists were changed: %s", diff)
		}
	})
}

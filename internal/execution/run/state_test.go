package run

import (
	"slices"
	"strings"
	"testing"
)

// The states and transitions, written out a second time, so that
// a slip in the table shows.
func TestMoves(t *testing.T) {
	t.Parallel()
	legal := map[Status]string{
		Queued:           "running cancelled rejected timeout",
		Running:          "completed failed cancelled timeout guardrail_blocked paused awaiting_approval auth_required",
		Paused:           "running cancelled timeout",
		AwaitingApproval: "running rejected cancelled timeout",
		AuthRequired:     "running cancelled timeout failed",
	}
	for _, from := range Statuses {
		for _, to := range Statuses {
			want := slices.Contains(strings.Fields(legal[from]), string(to))
			if got := from.May(to); got != want {
				t.Errorf("%s to %s: %v, want %v", from, to, got, want)
			}
		}
		if got, want := from.Final(), legal[from] == ""; got != want {
			t.Errorf("%s final: %v, want %v", from, got, want)
		}
	}
	if Status("done").Valid() {
		t.Error("done is no state")
	}
}

package run

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const stateDoc = "../../../docs/states/run.md"

var (
	drawnMove  = regexp.MustCompile(`(?m)^ +(\S+) --> (\S+)$`)
	stateInRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| .* \\| (.*) \\|$")
)

// The drawing in docs/states/run.md and the table of moves are one thing.
func TestDrawnMovesAreTheMoves(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(stateDoc)
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[Status][]Status{}
	var initial, final []Status
	for _, m := range drawnMove.FindAllStringSubmatch(string(text), -1) {
		from, to := Status(m[1]), Status(m[2])
		switch {
		case from == "[*]":
			initial = append(initial, to)
		case to == "[*]":
			final = append(final, from)
		default:
			drawn[from] = append(drawn[from], to)
		}
	}
	anyOrder := cmpopts.SortSlices(func(a, b Status) bool { return a < b })
	if diff := cmp.Diff(transitions, drawn, anyOrder); diff != "" {
		t.Errorf("the drawing (+) and the table (-) differ:\n%s", diff)
	}
	if diff := cmp.Diff([]Status{Queued}, initial); diff != "" {
		t.Errorf("the drawing starts elsewhere:\n%s", diff)
	}
	var ends []Status
	for _, s := range Statuses {
		if s.Final() {
			ends = append(ends, s)
		}
	}
	if diff := cmp.Diff(ends, final, anyOrder); diff != "" {
		t.Errorf("the drawing (+) ends in other states (-):\n%s", diff)
	}
}

func TestDocumentedStatesAreTheStates(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(stateDoc)
	if err != nil {
		t.Fatal(err)
	}
	var listed []Status
	for _, m := range stateInRow.FindAllStringSubmatch(string(text), -1) {
		s := Status(m[1])
		listed = append(listed, s)
		if says := strings.Contains(m[2], "final"); says != s.Final() {
			t.Errorf("%s: the page says final %t, the code %t", s, says, s.Final())
		}
	}
	if diff := cmp.Diff(Statuses, listed, cmpopts.SortSlices(func(a, b Status) bool { return a < b })); diff != "" {
		t.Errorf("the page (+) lists other states than the code (-):\n%s", diff)
	}
}

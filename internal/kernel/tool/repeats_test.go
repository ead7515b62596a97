package tool

import (
	"fmt"
	"strings"
	"testing"
)

func TestRepeats(t *testing.T) {
	t.Parallel()
	var r Repeats
	for i := 1; i <= repeatsRefused; i++ {
		if res, refused := r.Refuses("search", `{"q":"x"}`); refused {
			t.Fatalf("call %d: %+v", i, res)
		}
		got := r.Note("search", []string{`{"q":"x"}`, ` { "q" : "x" } `}[i%2], "nothing found")
		if noted := got != "nothing found"; noted != (i >= repeatsNoted) || !strings.HasPrefix(got, "nothing found") {
			t.Errorf("result %d: %s", i, got)
		}
	}
	res, refused := r.Refuses("search", `{"q":"x"}`)
	if !refused || !res.Failed || !strings.Contains(res.Output, "20 times") {
		t.Errorf("call 21: %+v, %v", res, refused)
	}
	for _, other := range [][2]string{{"search", `{"q":"y"}`}, {"search", `{"q":"x","n":1}`}, {"find", `{"q":"x"}`}, {"search", `{"q":`}, {"search", ""}} {
		if _, refused := r.Refuses(other[0], other[1]); refused {
			t.Errorf("%v is refused too", other)
		}
	}
}

// A circle of several calls is a loop too. Polling until the result changes is
// not, and calls of long ago do not count.
func TestWhatIsARepeat(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		calls func(i int) (arguments, output string)
		loops bool
	}{
		"circle_of_3":     {func(i int) (string, string) { return fmt.Sprint(i % 3), "same" }, true},
		"changing_result": {func(i int) (string, string) { return "{}", fmt.Sprint(i / 10) }, false},
		"all_differ":      {func(i int) (string, string) { return fmt.Sprint(i), "same" }, false},
		"now_and_then":    {func(i int) (string, string) { return fmt.Sprint(i * min(i%4, 1)), "same" }, false},
	} {
		var r Repeats
		for i := range 61 {
			arguments, output := test.calls(i)
			r.Note("x", arguments, output)
		}
		arguments, _ := test.calls(0)
		if _, refused := r.Refuses("x", arguments); refused != test.loops {
			t.Errorf("%s: refused %v", name, refused)
		}
	}
	var r Repeats
	for range repeatsRefused {
		r.Note("x", "{}", "same")
	}
	for i := range repeatWindow {
		r.Note("y", fmt.Sprint(i), "")
	}
	if _, refused := r.Refuses("x", "{}"); refused {
		t.Error("calls of long ago still count")
	}
}

// A run that resumes after a crash counts the calls in its journal, notes and
// refusals included.
func TestRepeatsFromTheJournal(t *testing.T) {
	t.Parallel()
	var live Repeats
	var journal []string
	for range repeatsRefused + 10 {
		output := "same"
		if res, refused := live.Refuses("x", "{}"); refused {
			output = res.Output
		}
		journal = append(journal, live.Note("x", "{}", output))
	}
	if journal[repeatsRefused] != repeatStop || journal[repeatsRefused-1] != "same"+repeatNote {
		t.Fatalf("%q", journal)
	}
	for n := range journal {
		var resumed Repeats
		for _, output := range journal[:n] {
			resumed.Note("x", "{}", output)
		}
		if _, refused := resumed.Refuses("x", "{}"); refused != (n >= repeatsRefused) {
			t.Errorf("after %d results: refused %v", n, refused)
		}
	}
	if len(live.recent) > repeatWindow {
		t.Errorf("%d calls are remembered", len(live.recent))
	}
}

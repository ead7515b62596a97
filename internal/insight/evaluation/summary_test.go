package evaluation

import (
	"fmt"
	"strings"
	"testing"
)

// sampled makes results of n cases, of which the first passes pass, with their scores.
func sample(n, passes int, score float64) *Samples {
	s := &Samples{map[string]bool{}, map[string]map[string]float64{}, map[string][]float64{}}
	for i := range n {
		id := fmt.Sprint(i)
		s.Passed[id], s.Scores[id] = i < passes, map[string]float64{"exact": score}
		s.byName["exact"] = append(s.byName["exact"], score)
	}
	return s
}

func TestRegressions(t *testing.T) {
	t.Parallel()
	r := &Record{Version: 2, Spec: Spec{MaxDrop: 0.05, Scorers: []NamedConfig{{Name: "exact"}}}}
	base := &Record{EvalRunID: "base", Version: 1}
	for name, c := range map[string]struct {
		now, then *Samples
		reason    string // of the regression; "": none
	}{
		"the same":         {sample(20, 20, 1), sample(20, 20, 1), ""},
		"better":           {sample(20, 20, 1), sample(20, 10, 0.5), ""},
		"a bit worse":      {sample(100, 97, 1), sample(100, 100, 1), ""},
		"much worse":       {sample(20, 18, 1), sample(20, 20, 1), "by more than max_drop"},
		"not by chance":    {sample(1000, 960, 1), sample(1000, 990, 1), "not chance"},
		"scores fell":      {sample(20, 20, 0.9), sample(20, 20, 1), "The mean of exact fell by 0.100"},
		"scores by a bit":  {sample(20, 20, 0.99), sample(20, 20, 1), "not chance"},
		"other cases only": {sample(0, 0, 0), sample(20, 20, 1), ""},
	} {
		got := compare(r, base, c.now, c.then)
		if (len(got.Reasons) > 0) != (c.reason != "") || c.reason != "" && !strings.Contains(strings.Join(got.Reasons, " "), c.reason) {
			t.Errorf("%s: %v", name, got)
		}
	}
	got := compare(r, base, sample(10, 3, 0.25), sample(20, 5, 0.5))
	if got.Cases != 10 || got.Lost != 2 || got.Gained != 0 || got.PassRate != 0.3 || got.BaselineRate != 0.5 || got.ScoreChanges["exact"] != -0.25 ||
		got.Baseline != "base" || got.BaselineVersion != "1" {
		t.Errorf("compared: %+v", got)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	r := &Record{Total: 10, Tally: Tally{Passed: 6, Failed: 3, Errored: 1, DurationMS: 50, Tokens: 7, CostUSD: 0.5}}
	sum := summarize(r, sample(9, 6, 0.5))
	if sum.PassRate != 0.6 || sum.AvgDuration != 5 || sum.AvgScores["exact"] != 0.5 || sum.TotalTokens != 7 || sum.TotalCostUSD != 0.5 {
		t.Errorf("the summary is %+v", sum)
	}
	if sum.PassInterval.Low > 0.32 || sum.PassInterval.High < 0.8 || sum.Intervals["exact"] != (Interval{Low: 0.5, High: 0.5}) {
		t.Errorf("the intervals are %v, %v", sum.PassInterval, sum.Intervals)
	}
	if empty := summarize(&Record{}, sample(0, 0, 0)); empty.PassRate != 0 || empty.PassInterval.High != 1 {
		t.Errorf("of nothing: %+v", empty)
	}
}

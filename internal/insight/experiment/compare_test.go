package experiment

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"agentd/internal/insight/evaluation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// samples returns n results, of which the first passes pass with a score of 1, and the
// others have another score.
func samples(n, passes int, other float64) *evaluation.Samples {
	s := &evaluation.Samples{Passed: map[string]bool{}, Scores: map[string]map[string]float64{}}
	for i := range n {
		id, score := fmt.Sprint(i), other
		if i < passes {
			score = 1
		}
		s.Passed[id], s.Scores[id] = i < passes, map[string]float64{"exact": score}
	}
	return s
}

func TestComparison(t *testing.T) {
	t.Parallel()
	records := func(n int) (all []*evaluation.Record) {
		for i := range n {
			all = append(all, &evaluation.Record{EvalRunID: fmt.Sprint("e", i), Version: int64(i + 1), Status: evaluation.Completed})
		}
		return all
	}
	c := comparison(records(3), []*evaluation.Samples{samples(30, 10, 0), samples(30, 20, 0), samples(30, 28, 0)})
	if c.Winner != "e2" || c.Baseline != "e0" || !c.Variants[1].Against.Significant || c.Variants[2].Against.Gained != 18 {
		t.Errorf("the comparison is %+v", c)
	}
	// Alone, 6 cases that are gained and none that is lost are no chance (p = 0.031); among
	// two variants they may be.
	if c = comparison(records(2), []*evaluation.Samples{samples(20, 10, 0), samples(20, 16, 0)}); c.Winner != "e1" {
		t.Errorf("alone: %+v", c.Variants[1].Against)
	}
	c = comparison(records(3), []*evaluation.Samples{samples(20, 10, 0), samples(20, 16, 0), samples(20, 16, 0)})
	if c.Winner != "" || c.Variants[1].Against.P <= 0.05 || c.Conclusion == "" {
		t.Errorf("of two: %+v", c.Variants[1].Against)
	}
	// What is worse is significant and does not win.
	c = comparison(records(2), []*evaluation.Samples{samples(20, 20, 0), samples(20, 5, 0.5)})
	if d := c.Variants[1].Against; c.Winner != "" || !d.Significant || d.Lost != 15 || d.Scores["exact"].Change != -0.375 || !d.Scores["exact"].Significant {
		t.Errorf("worse: %+v", d)
	}
}

package rollout

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/agents/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample returns n runs of a version, of which some completed, each after a time.
func sample(version int64, n, completed int, ms, usd float64) (all []Sample) {
	for i := range n {
		s := Sample{Version: version, Completed: i < completed, DurationMS: ms + float64(i%7), CostUSD: &usd}
		all = append(all, s)
	}
	return all
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rollout   agent.TrafficRollout
		candidate []Sample
		base      []Sample
		outcome   string
		looks     int
		reason    string
	}{
		"too few":           {agent.TrafficRollout{}, sample(2, 24, 0, 1, 1), sample(1, 24, 24, 1, 1), "", 0, ""},
		"worse at once":     {agent.TrafficRollout{}, sample(2, 25, 5, 1, 1), sample(1, 25, 25, 1, 1), rolledBack, 1, "The candidate is worse."},
		"maybe worse":       {agent.TrafficRollout{}, sample(2, 25, 23, 1, 1), sample(1, 25, 25, 1, 1), "", 1, ""},
		"looked already":    {agent.TrafficRollout{Looks: 1}, sample(2, 30, 5, 1, 1), sample(1, 30, 30, 1, 1), "", 1, ""},
		"better too early":  {agent.TrafficRollout{}, sample(2, 50, 50, 1, 1), sample(1, 50, 10, 1, 1), "", 2, ""},
		"better":            {agent.TrafficRollout{}, sample(2, 100, 100, 1, 1), sample(1, 120, 60, 1, 1), promoted, 3, "success_rate differs by +0.5"},
		"the same":          {agent.TrafficRollout{}, sample(2, 100, 90, 1, 1), sample(1, 100, 90, 1, 1), promoted, 3, "not worse"},
		"the same, careful": {agent.TrafficRollout{Promote: "better"}, sample(2, 100, 90, 1, 1), sample(1, 100, 90, 1, 1), undecided, 3, "neither"},
		"people decide":     {agent.TrafficRollout{Promote: "manual"}, sample(2, 100, 100, 1, 1), sample(1, 100, 60, 1, 1), undecided, 3, ""},
		"worse, no promise": {agent.TrafficRollout{Promote: "manual"}, sample(2, 100, 60, 1, 1), sample(1, 100, 100, 1, 1), rolledBack, 3, ""},
		"faster":            {agent.TrafficRollout{Metric: duration, Promote: "better"}, sample(2, 100, 100, 50, 1), sample(1, 100, 100, 80, 1), promoted, 3, "-30"},
		"slower":            {agent.TrafficRollout{Metric: duration}, sample(2, 100, 100, 80, 1), sample(1, 100, 100, 50, 1), rolledBack, 3, "+30"},
		"cheaper":           {agent.TrafficRollout{Metric: cost, Promote: "better"}, sample(2, 100, 100, 1, 0.5), sample(1, 100, 100, 1, 1), promoted, 3, ""},
		"only one version":  {agent.TrafficRollout{}, sample(2, 100, 100, 1, 1), nil, "", 0, ""},
	} {
		r := c.rollout
		r.Candidate, r.MinRuns = 2, 100
		if r.Metric == "" {
			r.Metric = successRate
		}
		if r.Promote == "" {
			r.Promote = "not_worse"
		}
		by := measure(append(c.candidate, c.base...))
		changed := decide(&r, by[2], by[1])
		if r.Outcome != c.outcome || r.Looks != c.looks || changed != (c.looks != c.rollout.Looks) || !strings.Contains(r.Reason, c.reason) {
			t.Errorf("%s: %+v, changed: %v", name, r, changed)
		}
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	now := time.Unix(9, 0)
	for outcome, want := range map[string][2]float64{promoted: {0, 100}, rolledBack: {100, 0}, undecided: {60, 40}} {
		traffic := &agent.Traffic{
			Entries: []agent.TrafficEntry{{Version: 1, Weight: 60}, {Version: 2, Weight: 40}},
			Rollout: &agent.TrafficRollout{Candidate: 2, Outcome: outcome},
		}
		apply(traffic, now)
		if got := [2]float64{traffic.Entries[0].Weight, traffic.Entries[1].Weight}; got != want || traffic.UpdatedAt.Equal(now) != (outcome != undecided) {
			t.Errorf("%s: %v at %v", outcome, got, traffic.UpdatedAt)
		}
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	all := sample(1, 4, 3, 10, 2)
	all = append(all, Sample{Version: 1, Cancelled: true, DurationMS: 1000}, Sample{Version: 1, Completed: true, DurationMS: 20, Tokens: 10})
	m := measure(all)[1]
	if m.runs != 5 || m.completed != 4 || len(m.costs) != 3 || m.tokens != 10 || rate(m) != 0.8 {
		t.Errorf("measured: %+v", m)
	}
	if v := view(1, m); v.AvgTokens != 2 || *v.AvgCost != 2 || v.SuccessRange.Low > 0.5 {
		t.Errorf("shown: %+v", v)
	}
}

// Package rollout divides new runs of an agent among its versions, compares how the
// versions do, and gives all runs to one of them when that is decided.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/insight/significance"
	kernelwork "agentd/internal/kernel/work"
)

// WorkKind is the kind of work that decides on rollouts; the key is the agent's id.
const WorkKind = "agent.rollout"

const (
	// Every is how often the versions of a rollout are looked at.
	Every = 30 * time.Second
	// maxSample is how many runs of an agent are compared, the newest ones.
	maxSample = 10_000
	// level is the probability by chance below which a difference counts at one of the
	// three looks, so that together they err no more often than one test at 5 %.
	level = significance.Level / 3
)

// The outcomes of rollouts.
const (
	promoted   = "promoted"
	rolledBack = "rolled_back"
	undecided  = "undecided"
)

// The metrics.
const (
	successRate = "success_rate"
	duration    = "duration_ms"
	cost        = "cost_usd"
)

// Sample is a run that ended.
type Sample struct {
	Version    int64
	Completed  bool
	Cancelled  bool // it is left out
	DurationMS float64
	CostUSD    *float64 // nil: it is not known
	Tokens     int64
}

// Options are what rollouts need of others.
type Options struct {
	Agents *agent.Agents
	// HasVersion reports whether a version of an agent is kept. Errors: fault.NotFound.
	HasVersion func(ctx context.Context, tenant, id string, version int64) error
	// Samples returns the newest ended runs of an agent since a time, up to limit, without
	// those of evaluations and tests.
	Samples func(ctx context.Context, tenant, agentID string, since time.Time, limit int) ([]Sample, error)
	Writer  txn.Writer
	Queue   kernelwork.Queue
	Now     func() time.Time
}

// Service is the rollouts of all companies.
type Service struct{ Options }

// New returns the rollouts.
func New(o Options) *Service { return &Service{o} }

// measured is what is known of a version.
type measured struct {
	runs, completed int
	durations       []float64
	costs           []float64
	tokens          int64
}

// measure sorts runs by version.
func measure(all []Sample) map[int64]*measured {
	by := map[int64]*measured{}
	for i := range all {
		s := &all[i]
		if s.Cancelled {
			continue
		}
		m := by[s.Version]
		if m == nil {
			m = &measured{}
			by[s.Version] = m
		}
		m.runs++
		m.tokens += s.Tokens
		if !s.Completed {
			continue
		}
		m.completed++
		m.durations = append(m.durations, s.DurationMS)
		if s.CostUSD != nil {
			m.costs = append(m.costs, *s.CostUSD)
		}
	}
	return by
}

// difference compares a candidate with its baseline by a metric: positive is better. p is
// the probability of such a difference by chance.
func difference(metric string, candidate, base *measured) (better, p float64) {
	switch metric {
	case duration:
		return mean(base.durations) - mean(candidate.durations), significance.Means(candidate.durations, base.durations)
	case cost:
		return mean(base.costs) - mean(candidate.costs), significance.Means(candidate.costs, base.costs)
	}
	return rate(candidate) - rate(base), significance.Shares(candidate.completed, candidate.runs, base.completed, base.runs)
}

func rate(m *measured) float64 {
	if m.runs == 0 {
		return 0
	}
	return float64(m.completed) / float64(m.runs)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// looksAt is how many runs of each version there are at the looks of a rollout: at a
// quarter, a half and all of those that its decision needs.
func looksAt(minRuns int) [3]int { return [3]int{(minRuns + 3) / 4, (minRuns + 1) / 2, minRuns} }

// decide looks at a rollout, and reports whether it changed.
func decide(r *agent.TrafficRollout, candidate, base *measured) bool {
	if candidate == nil || base == nil {
		return false
	}
	n, due := min(candidate.runs, base.runs), r.Looks
	for due < 3 && n >= looksAt(r.MinRuns)[due] {
		due++
	}
	if due == r.Looks {
		return false
	}
	r.Looks = due
	better, p := difference(r.Metric, candidate, base)
	what := fmt.Sprintf("Of %d and %d runs the %s differs by %+.4g (p = %.4f).",
		candidate.runs, base.runs, r.Metric, signed(r.Metric, better), p)
	switch sure := p < level; {
	case sure && better < 0:
		r.Outcome, r.Reason = rolledBack, "The candidate is worse. "+what
	case due < 3:
	case r.Promote == "manual":
		r.Outcome, r.Reason = undecided, "The candidate is not worse. "+what
	case sure && better > 0:
		r.Outcome, r.Reason = promoted, "The candidate is better. "+what
	case r.Promote == "not_worse":
		r.Outcome, r.Reason = promoted, "The candidate is not worse. "+what
	default:
		r.Outcome, r.Reason = undecided, "The candidate is neither better nor worse. "+what
	}
	return true
}

// signed returns a difference as people expect it: of times and costs less is better.
func signed(metric string, better float64) float64 {
	if metric == successRate || better == 0 {
		return better
	}
	return -better
}

// baselineOf returns the other version of a rollout.
func baselineOf(t *agent.Traffic) int64 {
	for _, e := range t.Entries {
		if e.Version != t.Rollout.Candidate {
			return e.Version
		}
	}
	return 0
}

// apply has all new runs use the version that an outcome is for.
func apply(t *agent.Traffic, now time.Time) {
	winner := int64(0)
	switch t.Rollout.Outcome {
	case promoted:
		winner = t.Rollout.Candidate
	case rolledBack:
		winner = baselineOf(t)
	}
	if winner == 0 {
		return
	}
	for i := range t.Entries {
		t.Entries[i].Weight = 0
		if t.Entries[i].Version == winner {
			t.Entries[i].Weight = 100
		}
	}
	t.UpdatedAt = now
}

// errOver is the error of a rollout that was replaced or decided meanwhile.
var errOver = errors.New("rollout: it is over")

// Handle is the work.Handler of WorkKind.
func (s *Service) Handle(ctx context.Context, lease kernelwork.Lease) error {
	finish := func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) }
	g, err := s.Agents.Store().Get(ctx, lease.TenantID, lease.Key)
	if fault.Is(err, fault.NotFound) || err == nil && !going(g.Traffic) {
		return s.Writer.Write(ctx, finish)
	}
	if err != nil {
		return err
	}
	all, err := s.Samples(ctx, lease.TenantID, g.ID, g.Traffic.UpdatedAt, maxSample)
	if err != nil {
		return err
	}
	by := measure(all)
	seen := *g.Traffic.Rollout
	changed := decide(&seen, by[seen.Candidate], by[baselineOf(g.Traffic)])
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		if seen.Outcome != "" {
			if err := finish(tx); err != nil {
				return err
			}
		} else if err := s.Queue.RescheduleTx(tx, lease, s.Now().Add(Every), nil); err != nil {
			return err
		}
		if !changed {
			return nil
		}
		_, err := s.Agents.SetTrafficTx(tx, authz.Caller{TenantID: lease.TenantID}, lease.Key, func(now *agent.Agent) error {
			if !going(now.Traffic) || !now.Traffic.UpdatedAt.Equal(g.Traffic.UpdatedAt) {
				return errOver // what was measured is not of this rollout
			}
			decided := *now.Traffic
			decided.Rollout, decided.Entries = &seen, append([]agent.TrafficEntry{}, now.Traffic.Entries...)
			apply(&decided, s.Now())
			now.Traffic = &decided
			return nil
		})
		return err
	})
	if errors.Is(err, errOver) || fault.Is(err, fault.NotFound) {
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.RescheduleTx(tx, lease, s.Now(), nil) })
	}
	return err
}

// going reports whether a rollout is to be decided.
func going(t *agent.Traffic) bool { return t != nil && t.Rollout != nil && t.Rollout.Outcome == "" }

// total returns the sum of the weights.
func total(entries []agent.TrafficEntry) (sum float64) {
	for _, e := range entries {
		sum += e.Weight
	}
	return math.Round(sum*1e6) / 1e6
}

package evaluation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/insight/significance"
)

// Summary is what an evaluation found.
type Summary struct {
	_ struct{} `json:"-" name:"EvalSummary"`

	TotalCases   int                 `json:"total_cases" required:"true"`
	Passed       int                 `json:"passed" required:"true"`
	Failed       int                 `json:"failed" required:"true"`
	Errored      int                 `json:"errored" required:"true" doc:"Cases without a judgement: the run did not complete, or a scorer gave no score. They count as not passed."`
	PassRate     float64             `json:"pass_rate" required:"true" doc:"Share of all cases that passed."`
	PassInterval Interval            `json:"pass_rate_interval" required:"true" doc:"Where the pass rate lies with 95 % confidence (Wilson)."`
	AvgScores    map[string]float64  `json:"avg_scores" required:"true" doc:"The mean of each scorer."`
	Intervals    map[string]Interval `json:"score_intervals" required:"true" doc:"Where each mean lies with 95 % confidence (bootstrap)."`
	AvgDuration  float64             `json:"avg_duration_ms" required:"true"`
	TotalTokens  int64               `json:"total_tokens" required:"true"`
	TotalCostUSD float64             `json:"total_cost_usd" required:"true" doc:"Of the runs, as far as prices are known."`
	Regressed    bool                `json:"regression_detected" required:"true"`
	Regression   *Comparison         `json:"regression,omitzero" doc:"How it compares with its baseline; absent where there is none."`
}

// Interval is where a value lies with a confidence of 95 %.
type Interval struct {
	_ struct{} `json:"-" name:"EvalInterval"`

	Low  float64 `json:"low" required:"true"`
	High float64 `json:"high" required:"true"`
}

func intervalOf(in significance.Interval) Interval { return Interval{Low: in.Low, High: in.High} }

// Comparison is how an evaluation compares with its baseline, on the cases of both.
type Comparison struct {
	_ struct{} `json:"-" name:"EvalRegression"`

	Baseline        string             `json:"baseline_eval_run_id" format:"uuid" required:"true"`
	BaselineVersion string             `json:"baseline_version" required:"true"`
	Cases           int                `json:"cases" required:"true" doc:"Cases that both have."`
	PassRate        float64            `json:"pass_rate" required:"true"`
	BaselineRate    float64            `json:"baseline_pass_rate" required:"true"`
	Gained          int                `json:"gained" required:"true" doc:"Cases that pass now, and did not in the baseline."`
	Lost            int                `json:"lost" required:"true" doc:"Cases that passed in the baseline, and do not now."`
	P               float64            `json:"p_value" required:"true" doc:"How probable such a difference of passes is by chance (McNemar's exact test)."`
	ScoreChanges    map[string]float64 `json:"score_changes" required:"true" doc:"By how much the mean of each scorer changed."`
	Reasons         []string           `json:"reasons" required:"true" doc:"Why it counts as a regression; empty if it does not."`
	RolledBackTo    string             `json:"rolled_back_to_version,omitzero" doc:"The version whose configuration auto_rollback_on_regression made the newest again."`
	NotRolledBack   string             `json:"not_rolled_back,omitzero" doc:"Why auto_rollback_on_regression changed nothing, although there was a regression."`
}

// Samples are the results of an evaluation, for statistics.
type Samples struct {
	Passed map[string]bool               // by case
	Scores map[string]map[string]float64 // by case and scorer
	byName map[string][]float64
}

// Pair is what two evaluations of the same cases differ in.
type Pair struct {
	Cases         int // that both have
	Passes        int // of the second
	Before        int // passes of the first
	Gained, Lost  int // cases that only the second passes, and only the first
	ScoreChanges  map[string][]float64
	P             float64 // of the passes, by chance
	Rate, WasRate float64 // of passes
}

// PairOf compares two evaluations case by case.
func PairOf(now, then *Samples) Pair {
	p := Pair{ScoreChanges: map[string][]float64{}}
	for id, was := range then.Passed {
		is, both := now.Passed[id]
		if !both {
			continue
		}
		p.Cases++
		switch {
		case is && !was:
			p.Gained++
		case was && !is:
			p.Lost++
		}
		if is {
			p.Passes++
		}
		if was {
			p.Before++
		}
		for name, score := range now.Scores[id] {
			if old, ok := then.Scores[id][name]; ok {
				p.ScoreChanges[name] = append(p.ScoreChanges[name], score-old)
			}
		}
	}
	for _, all := range p.ScoreChanges {
		slices.Sort(all) // the order of a map is no order
	}
	p.P = significance.Flips(p.Gained, p.Lost)
	if p.Cases > 0 {
		p.Rate, p.WasRate = float64(p.Passes)/float64(p.Cases), float64(p.Before)/float64(p.Cases)
	}
	return p
}

// pageOfResults is how many results are read at a time.
const pageOfResults = 1000

// Sampled reads the results of an evaluation.
func (s *Service) Sampled(ctx context.Context, r *Record) (*Samples, error) {
	out := &Samples{map[string]bool{}, map[string]map[string]float64{}, map[string][]float64{}}
	for after := -1; ; {
		part, err := s.Store.ListResults(ctx, r.TenantID, r.EvalRunID, after, pageOfResults)
		if err != nil {
			return nil, err
		}
		for i := range part {
			out.Passed[part[i].CaseID] = part[i].Passed
			out.Scores[part[i].CaseID] = part[i].Scores
			for name, score := range part[i].Scores {
				out.byName[name] = append(out.byName[name], score)
			}
			after = part[i].Seq
		}
		if len(part) < pageOfResults {
			return out, nil
		}
	}
}

// summarize returns what an evaluation found.
func summarize(r *Record, all *Samples) *Summary {
	t := &r.Tally
	n := t.Ended()
	sum := &Summary{
		TotalCases: r.Total, Passed: t.Passed, Failed: t.Failed, Errored: t.Errored, AvgScores: map[string]float64{},
		Intervals: map[string]Interval{}, TotalTokens: t.Tokens, TotalCostUSD: t.CostUSD,
		PassInterval: intervalOf(significance.Share(t.Passed, n)),
	}
	if n > 0 {
		sum.PassRate, sum.AvgDuration = float64(t.Passed)/float64(n), t.DurationMS/float64(n)
	}
	for name, values := range all.byName {
		mean, in := significance.Mean(values)
		sum.AvgScores[name], sum.Intervals[name] = mean, intervalOf(in)
	}
	return sum
}

// maxBaselines is how many evaluations of a dataset are looked at to find a baseline.
const maxBaselines = 50

// baseline returns the evaluation to compare with: the one that was named, or the newest
// that completed before, of another version, with the same scorers. nil: there is none.
func (s *Service) baseline(ctx context.Context, r *Record) (*Record, error) {
	if r.Spec.Baseline != "" {
		base, err := s.Store.Get(ctx, r.TenantID, r.Spec.Baseline)
		if fault.Is(err, fault.NotFound) {
			return nil, nil
		}
		return base, err
	}
	if r.ExperimentID != "" { // it is compared there
		return nil, nil
	}
	earlier, err := s.Store.List(ctx, r.TenantID, Filter{DatasetID: r.DatasetID}, page.Window{Limit: maxBaselines, After: r.EvalRunID})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(earlier, func(e Record) bool {
		return e.Status == Completed && e.AgentID == r.AgentID && e.ExperimentID == "" && e.Version != r.Version &&
			(e.Spec.Model == nil) == (r.Spec.Model == nil) && Comparable(&e, r)
	})
	if at < 0 {
		return nil, nil
	}
	return &earlier[at], nil
}

// compare compares an evaluation with its baseline.
func compare(r, base *Record, now, then *Samples) *Comparison {
	c := &Comparison{
		Baseline: base.EvalRunID, BaselineVersion: itoa(base.Version), ScoreChanges: map[string]float64{}, Reasons: []string{},
	}
	pair := PairOf(now, then)
	c.Cases, c.Gained, c.Lost, c.P, c.PassRate, c.BaselineRate = pair.Cases, pair.Gained, pair.Lost, pair.P, pair.Rate, pair.WasRate
	if c.Cases == 0 {
		return c
	}
	switch {
	case c.BaselineRate-c.PassRate > r.Spec.MaxDrop:
		c.Reasons = append(c.Reasons, fmt.Sprintf("The pass rate fell from %.3f to %.3f, by more than max_drop (%g).",
			c.BaselineRate, c.PassRate, r.Spec.MaxDrop))
	case c.Lost > c.Gained && c.P < significance.Level:
		c.Reasons = append(c.Reasons, fmt.Sprintf("The pass rate fell from %.3f to %.3f, which is not chance (p = %.4f).",
			c.BaselineRate, c.PassRate, c.P))
	}
	for i := range r.Spec.Scorers {
		name := r.Spec.Scorers[i].Name
		all := pair.ScoreChanges[name]
		if len(all) == 0 {
			continue
		}
		mean, _ := significance.Mean(all)
		c.ScoreChanges[name] = mean
		p := significance.Paired(all)
		switch {
		case mean < -r.Spec.MaxDrop:
			c.Reasons = append(c.Reasons, fmt.Sprintf("The mean of %s fell by %.3f, more than max_drop (%g).", name, -mean, r.Spec.MaxDrop))
		case mean < 0 && p < significance.Level:
			c.Reasons = append(c.Reasons, fmt.Sprintf("The mean of %s fell by %.3f, which is not chance (p = %.4f).", name, -mean, p))
		}
	}
	return c
}

// end ends an evaluation: it sums up, compares with the baseline, and rolls the agent back
// where that was asked for.
func (d *drive) end() error {
	// The last results are stored first, so that the statistics have them.
	if d.results != nil {
		if err := d.commit(func(tx txn.Tx) error { return d.Queue.HoldTx(tx, d.lease, d.Lease) }); err != nil {
			return err
		}
	}
	d.r.Status = Completed
	switch {
	case d.r.Cancel:
		d.r.Status, d.r.Error = Cancelled, "The evaluation was cancelled."
	case d.r.Error != "":
		d.r.Status = Failed
	}
	now, err := d.Sampled(d.ctx, d.r)
	if err != nil {
		return err
	}
	d.r.Summary = summarize(d.r, now)
	var base *Record
	if d.r.Status == Completed {
		if base, err = d.baseline(d.ctx, d.r); err != nil {
			return err
		}
	}
	if base != nil {
		then, err := d.Sampled(d.ctx, base)
		if err != nil {
			return err
		}
		c := compare(d.r, base, now, then)
		d.r.Summary.Regression, d.r.Summary.Regressed = c, len(c.Reasons) > 0
	}
	rollBack := d.r.Summary.Regressed && d.r.Spec.AutoRollback && d.canRollBack(base)
	d.r.CompletedAt = d.Clock.Now()
	return d.commit(func(tx txn.Tx) error {
		if err := d.Queue.FinishTx(tx, d.lease); err != nil {
			return err
		}
		if rollBack {
			if err := d.rollBackTx(tx, base); err != nil {
				return err
			}
		}
		if d.onEndTx != nil {
			return d.onEndTx(tx, d.r)
		}
		return nil
	})
}

// canRollBack reports whether the agent can be rolled back to the version of the baseline,
// and notes why not.
func (d *drive) canRollBack(base *Record) bool {
	c := d.r.Summary.Regression
	if base.Version == d.r.Version {
		c.NotRolledBack = "The baseline is of the same version."
		return false
	}
	if err := d.Agents.CheckRollback(d.ctx, d.r.TenantID, d.r.AgentID, base.Version); err != nil {
		c.NotRolledBack = "The version cannot be restored."
		if f := fault.From(err); f != nil && f.Detail != "" {
			c.NotRolledBack = f.Detail
		}
		return false
	}
	return true
}

// rollBackTx rolls the agent back, unless it was changed since.
func (d *drive) rollBackTx(tx txn.Tx, base *Record) error {
	c := d.r.Summary.Regression
	c.RolledBackTo, c.NotRolledBack = "", ""
	made, err := d.Agents.RollbackTx(tx, d.who, d.r.AgentID, d.r.Version, base.Version)
	if fault.Is(err, fault.NotFound) || err == nil && made == 0 {
		c.NotRolledBack = "The evaluated version is not the newest any more."
		return nil
	}
	if err != nil {
		return errors.Join(errors.New("evaluation: rolling back"), err)
	}
	c.RolledBackTo = itoa(base.Version)
	return d.RolledBackTx(tx, d.r.TenantID, d.r.CompletedAt, &Rollback{
		EvalRunID: d.r.EvalRunID, AgentID: d.r.AgentID, DatasetID: d.r.DatasetID, FromVersion: itoa(d.r.Version),
		ToVersion: itoa(base.Version), NewVersion: itoa(made), BaselineEvalRunID: base.EvalRunID,
		PassRate: c.PassRate, BaselinePassRate: c.BaselineRate,
	})
}

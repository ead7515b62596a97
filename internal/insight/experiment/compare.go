package experiment

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/insight/evaluation"
	"agentd/internal/insight/significance"
	kernelwork "agentd/internal/kernel/work"
)

// Comparison is what tells the variants of an experiment apart.
type Comparison struct {
	_ struct{} `json:"-" name:"ExperimentComparison"`

	Baseline   string     `json:"baseline_eval_run_id" required:"true" doc:"The evaluation of the first variant."`
	Variants   []Compared `json:"variants" required:"true" doc:"In the order of the experiment's."`
	Winner     string     `json:"winner_eval_run_id,omitzero" doc:"The evaluation of the variant that is significantly better than the baseline, and passes most; absent where none is."`
	Conclusion string     `json:"conclusion" required:"true" doc:"The same, as a sentence."`
}

// Compared is a variant and how it differs from the baseline.
type Compared struct {
	_ struct{} `json:"-" name:"ExperimentComparedVariant"`

	EvalRunID string              `json:"eval_run_id" required:"true"`
	Version   string              `json:"version" required:"true"`
	Status    evaluation.Status   `json:"status" required:"true" doc:"Of the evaluation. One that did not complete is compared on the cases that it has."`
	Summary   *evaluation.Summary `json:"summary" required:"true" doc:"What the evaluation found."`
	Against   *Difference         `json:"against_baseline,omitzero" doc:"Absent for the baseline."`
}

// Difference is how a variant differs from the baseline, on the cases of both.
type Difference struct {
	_ struct{} `json:"-" name:"ExperimentDifference"`

	Cases       int                   `json:"cases" required:"true" doc:"Cases that both have."`
	PassRate    float64               `json:"pass_rate_change" required:"true"`
	Gained      int                   `json:"gained" required:"true" doc:"Cases that pass, and do not in the baseline."`
	Lost        int                   `json:"lost" required:"true" doc:"Cases that do not pass, and do in the baseline."`
	P           float64               `json:"p_value" required:"true" doc:"How probable such a difference of passes is by chance: McNemar's exact test, corrected for the number of variants (Holm)."`
	Significant bool                  `json:"significant" required:"true" doc:"Whether p_value is below 0.05."`
	Scores      map[string]ScoreShift `json:"scores" required:"true" doc:"By scorer."`
}

// ScoreShift is how the mean of a scorer differs.
type ScoreShift struct {
	_ struct{} `json:"-" name:"ExperimentScoreShift"`

	Change      float64 `json:"change" required:"true"`
	P           float64 `json:"p_value" required:"true" doc:"By a permutation test of the paired differences, corrected for the number of variants (Holm)."`
	Significant bool    `json:"significant" required:"true"`
}

// OnEndTx has the experiment of an evaluation that ends looked at.
func (s *Service) OnEndTx(tx txn.Tx, r *evaluation.Record) error {
	if r.ExperimentID == "" {
		return nil
	}
	return s.Queue.EnqueueTx(tx, s.item(r.TenantID, r.ExperimentID))
}

// Handle is the work.Handler of WorkKind: it compares the variants once all of their
// evaluations have ended.
func (s *Service) Handle(ctx context.Context, lease kernelwork.Lease) error {
	e, err := s.store.Get(ctx, lease.TenantID, lease.Key)
	if fault.Is(err, fault.NotFound) || err == nil && e.Status == completed {
		return s.writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
	}
	if err != nil {
		return err
	}
	var records []*evaluation.Record
	var open []string
	for _, v := range e.Variants {
		r, err := s.Store.Get(ctx, e.TenantID, v.EvalRunID)
		if fault.Is(err, fault.NotFound) { // deleted with the agent, as the experiment will be
			return s.writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
		}
		if err != nil {
			return err
		}
		if !r.Status.Final() {
			open = append(open, r.EvalRunID)
		}
		records = append(records, r)
	}
	if open != nil {
		return s.writer.Write(ctx, func(tx txn.Tx) error { return s.waitTx(tx, lease, open) })
	}
	c, err := s.compare(ctx, records)
	if err != nil {
		return err
	}
	err = s.writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Queue.FinishTx(tx, lease); err != nil {
			return err
		}
		_, err := s.store.UpdateTx(tx, authz.Caller{TenantID: e.TenantID}, e.ID, func(e *Experiment) error {
			e.Status, e.Comparison = completed, c
			return nil
		})
		return err
	})
	if fault.Is(err, fault.NotFound) { // it was deleted meanwhile
		return s.writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
	}
	return err
}

// waitTx lets go of the work until an evaluation ends. One that ended while this worker
// held the work woke nothing.
func (s *Service) waitTx(tx txn.Tx, lease kernelwork.Lease, open []string) error {
	if err := s.Queue.FinishTx(tx, lease); err != nil {
		return err
	}
	for _, id := range open {
		_, ended, err := s.Store.LockTx(tx, lease.TenantID, id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if ended || err != nil {
			return s.Queue.EnqueueTx(tx, s.item(lease.TenantID, lease.Key))
		}
	}
	return nil
}

func (s *Service) compare(ctx context.Context, records []*evaluation.Record) (*Comparison, error) {
	all := make([]*evaluation.Samples, len(records))
	for i, r := range records {
		var err error
		if all[i], err = s.Evaluations.Sampled(ctx, r); err != nil {
			return nil, err
		}
	}
	return comparison(records, all), nil
}

// comparison compares variants with the first one.
func comparison(records []*evaluation.Record, all []*evaluation.Samples) *Comparison {
	c := &Comparison{Baseline: records[0].EvalRunID}
	for i, r := range records {
		one := Compared{EvalRunID: r.EvalRunID, Version: fmt.Sprint(r.Version), Status: r.Status, Summary: r.Summary}
		if i > 0 {
			pair := evaluation.PairOf(all[i], all[0])
			one.Against = &Difference{
				Cases: pair.Cases, PassRate: pair.Rate - pair.WasRate, Gained: pair.Gained, Lost: pair.Lost, P: pair.P, Scores: map[string]ScoreShift{},
			}
			for name, changes := range pair.ScoreChanges {
				mean, _ := significance.Mean(changes)
				one.Against.Scores[name] = ScoreShift{Change: mean, P: significance.Paired(changes)}
			}
		}
		c.Variants = append(c.Variants, one)
	}
	c.correct()
	c.conclude()
	return c
}

// correct corrects the probabilities for the number of variants that are compared.
func (c *Comparison) correct() {
	others := c.Variants[1:]
	p := make([]float64, len(others))
	names := map[string]bool{}
	for i := range others {
		p[i] = others[i].Against.P
		for name := range others[i].Against.Scores {
			names[name] = true
		}
	}
	for i, corrected := range significance.Adjust(p) {
		others[i].Against.P, others[i].Against.Significant = corrected, corrected < significance.Level
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var at []int
		var ofScore []float64
		for i := range others {
			if shift, ok := others[i].Against.Scores[name]; ok {
				at, ofScore = append(at, i), append(ofScore, shift.P)
			}
		}
		for j, corrected := range significance.Adjust(ofScore) {
			shift := others[at[j]].Against.Scores[name]
			shift.P, shift.Significant = corrected, corrected < significance.Level
			others[at[j]].Against.Scores[name] = shift
		}
	}
}

// conclude names the winner, if there is one.
func (c *Comparison) conclude() {
	best := -1
	for i := 1; i < len(c.Variants); i++ {
		d := c.Variants[i].Against
		if d.Significant && d.PassRate > 0 && (best < 0 || d.PassRate > c.Variants[best].Against.PassRate) {
			best = i
		}
	}
	if best < 0 {
		c.Conclusion = "No variant is better than the first one by more than chance. More cases tell smaller differences apart."
		return
	}
	d := c.Variants[best].Against
	c.Winner = c.Variants[best].EvalRunID
	c.Conclusion = fmt.Sprintf("Variant %d (version %s) passes %.1f %% more of the cases than the first one, which is not chance (p = %.4f).",
		best+1, c.Variants[best].Version, 100*d.PassRate, d.P)
}

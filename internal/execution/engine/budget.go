package engine

import (
	"cmp"
	"context"
	"slices"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

const (
	// defaultAnswer is the assumed maximum length of an answer, in tokens, for a
	// run with a budget whose caller sets none and whose model's own is not known.
	defaultAnswer = 4096
	// minAnswer is how many tokens the rest of a budget must pay for, so that a
	// call is worth making.
	minAnswer = 16
)

// reserveBudget reserves what a model call may cost from the run's budgets, and
// limits the answer to what the reservation pays for. The reservation is
// stored with the pending step: a call that is repeated after a crash uses it
// again.
func (j *journal) reserveBudget(ctx context.Context, req *model.Request, fallback *model.Fallback) error {
	budgets := j.rec.Options.Budgets
	if len(budgets) == 0 {
		return nil
	}
	// Estimates are low for text that is not English; half as much again covers it.
	input := model.EstimateInput(*req) * 3 / 2
	rates, known := highestRates(input, req.Target.Price, fallback)
	if !known {
		if lenient(&j.rec.Options) {
			return nil
		}
		return &model.Error{Code: run.CodePricing, Detail: "The run has a max_cost_usd, and the catalogue has no price for its model."}
	}
	if req.MaxTokens == 0 {
		req.MaxTokens = longestAnswer(&req.Target, fallback)
	}
	cost := func(answer int) int64 {
		return run.NanoUSD((rates.Input*float64(input) + rates.Output*float64(answer)) / 1e6)
	}
	granted := j.newest().Reserved
	if granted == 0 {
		var err error
		if granted, err = j.storeReservation(ctx, cost(req.MaxTokens), cost(min(minAnswer, req.MaxTokens))); err != nil {
			return err
		}
	}
	if perToken := rates.Output * 1e3; perToken > 0 { // billionths of a dollar
		paid := int(float64(granted-cost(0)) / perToken)
		req.MaxTokens = max(1, min(req.MaxTokens, paid))
	}
	return nil
}

// lenient reports whether all of the run's budgets are defaults, which no caller set.
func lenient(o *run.Options) bool {
	return !slices.ContainsFunc(o.Budgets, func(id string) bool { return !slices.Contains(o.Lenient, id) })
}

// highestRates returns what a call of a model or its fallback costs at most; not ok
// where the price of either is unknown.
func highestRates(input int, price *model.Price, fallback *model.Fallback) (r model.Rates, ok bool) {
	if price == nil {
		return r, false
	}
	r = price.Highest(input)
	if fallback == nil {
		return r, true
	}
	if fallback.Target.Price == nil {
		return r, false
	}
	other := fallback.Target.Price.Highest(input)
	return model.Rates{Input: max(r.Input, other.Input), Output: max(r.Output, other.Output)}, true
}

// longestAnswer returns the length of the longest answer that a model and its fallback
// can both make, thinking included.
func longestAnswer(t *model.Target, fallback *model.Fallback) int {
	n := t.MaxOutput
	if fallback != nil && fallback.Target.MaxOutput > 0 && (n == 0 || fallback.Target.MaxOutput < n) {
		n = fallback.Target.MaxOutput
	}
	return cmp.Or(n, defaultAnswer)
}

// storeReservation reserves up to want billionths of a dollar, at least
// minimum, and stores the amount with the newest pending step.
func (j *journal) storeReservation(ctx context.Context, want, minimum int64) (granted int64, err error) {
	p := j.newest()
	err = j.e.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		if err = j.e.Queue.HoldTx(tx, j.lease, j.e.Lease); err != nil {
			return err
		}
		granted, err = j.e.Runs.ReserveTx(tx, j.rec.TenantID, j.rec.Options.Budgets, want, minimum)
		if err != nil {
			return err
		}
		p.Reserved = granted
		u := run.UpdateOf(j.rec)
		u.Pause = run.PauseKept
		return j.e.Runs.Update(j.rec.TenantID, j.rec.RunID, u)(tx)
	})
	if err != nil {
		p.Reserved = 0
	}
	return granted, err
}

// settleBudget adds to the next commit that a step's reservation is returned
// and its cost is spent.
func (j *journal) settleBudget(p run.PendingStep, m run.StepMetrics) {
	if p.Reserved == 0 {
		return
	}
	var spent int64
	switch {
	case m.CostUSD != nil:
		spent = run.NanoUSD(*m.CostUSD)
	case j.costUnknown:
		spent = p.Reserved
	}
	j.next.ops = append(j.next.ops, j.e.Runs.Settle(j.rec.TenantID, j.rec.Options.Budgets, p.Reserved, spent))
}

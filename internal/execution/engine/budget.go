package engine

import (
	"context"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// defaultAnswer is how many tokens an answer is taken to have at most where
// nobody says, for a run with a budget: it has to be some number.
const defaultAnswer = 4096

// leastAnswer is how many tokens an answer must be able to have for a call to
// be worth making.
const leastAnswer = 16

// afford reserves what a model call may cost from the run's budgets, and
// limits the answer to what that pays for. The reservation stands in the
// journal: a call that is made again after a crash uses the same.
func (a *attempt) afford(ctx context.Context, req *model.Request, fallback *model.Fallback) error {
	budgets := a.rec.Options.Budgets
	if len(budgets) == 0 {
		return nil
	}
	price := req.Target.Price
	if price != nil && fallback != nil {
		if fallback.Target.Price == nil {
			price = nil
		} else {
			price = &model.Price{Input: max(price.Input, fallback.Target.Price.Input), Output: max(price.Output, fallback.Target.Price.Output)}
		}
	}
	if price == nil {
		return &model.Error{Code: run.CodePricing, Detail: "The run has a max_cost_usd, and the catalogue has no price for its model."}
	}
	// Estimates are low for text that is not English; half as much again covers it.
	input := model.EstimateInput(*req) * 3 / 2
	if req.MaxTokens == 0 {
		req.MaxTokens = defaultAnswer
	}
	cost := func(answer int) int64 {
		return run.NanoUSD(price.Cost(model.Usage{InputTokens: input, OutputTokens: answer}))
	}
	p := &a.rec.Pending[len(a.rec.Pending)-1]
	granted := p.Reserved
	if granted == 0 {
		err := a.e.Writer.Write(ctx, func(tx txn.Tx) (err error) {
			if err = a.e.Queue.HoldTx(tx, a.lease, a.e.Lease); err != nil {
				return err
			}
			granted, err = a.e.Runs.ReserveTx(tx, a.rec.TenantID, budgets, cost(req.MaxTokens), cost(min(leastAnswer, req.MaxTokens)))
			if err != nil {
				return err
			}
			p.Reserved = granted
			u := run.UpdateOf(a.rec)
			u.Pause = run.PauseKept
			return a.e.Runs.Update(a.rec.TenantID, a.rec.RunID, u)(tx)
		})
		if err != nil {
			p.Reserved = 0
			return err
		}
	}
	if perToken := price.Output * 1e3; perToken > 0 { // billionths of a dollar
		paid := int(float64(granted-cost(0)) / perToken)
		req.MaxTokens = max(1, min(req.MaxTokens, paid))
	}
	return nil
}

// settleBudget counts what a step cost in the commit that is being made.
func (a *attempt) settleBudget(p run.PendingStep, m run.StepMetrics) {
	if p.Reserved == 0 {
		return
	}
	var spent int64
	if m.CostUSD != nil {
		spent = run.NanoUSD(*m.CostUSD)
	}
	a.also = append(a.also, a.e.Runs.Settle(a.rec.TenantID, a.rec.Options.Budgets, p.Reserved, spent))
}

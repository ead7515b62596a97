package engine

import (
	"context"
	"errors"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// checkQuota refuses a model call of a tenant that has used up its plan or its
// budget.
func (j *journal) checkQuota(ctx context.Context) error {
	if j.e.Meter == nil {
		return nil
	}
	return j.e.Meter.AllowModelCall(ctx, j.rec.TenantID)
}

// withUsage appends to a commit that its use is counted. It comes last; see
// quota.Meter.
func (j *journal) withUsage(ops []txn.Op) []txn.Op {
	uses := j.next.uses
	if j.rec.Status.Final() && !j.committed.Final() {
		uses = withEnd(slices.Clone(uses), j.rec)
	}
	if j.e.Meter == nil || len(uses) == 0 {
		return ops
	}
	source := j.rec.Source()
	for i := range uses {
		uses[i].AgentID, uses[i].Source, uses[i].KeyID = j.rec.AgentID, source, j.rec.Options.KeyID
	}
	return append(ops, j.e.Meter.Count(j.rec.TenantID, uses...))
}

// withEnd adds that a run ended: to its last use of a model, so that it needs no row of
// its own, and how runs end is known by model.
func withEnd(uses []quota.Use, r *run.Record) []quota.Use {
	end := r.EndUse()
	for i := range slices.Backward(uses) {
		if u := &uses[i]; u.Model != "" {
			u.Completed, u.Failures, u.Cancelled, u.DurationMS = end.Completed, end.Failures, end.Cancelled, end.DurationMS
			return uses
		}
	}
	return append(uses, end)
}

// countModelCall adds a model call to the run's metrics and returns those of
// its step.
func (j *journal) countModelCall(u model.Usage, target model.Target, calls int) run.StepMetrics {
	m := run.StepMetrics{
		InputTokens: int64(u.InputTokens), OutputTokens: int64(u.OutputTokens), ThinkingTokens: int64(u.ThinkingTokens),
		CachedTokens: int64(u.CachedTokens), CacheWriteTokens: int64(u.CacheWriteTokens),
		LLMCalls: 1, ToolCallsCount: int64(calls), Estimated: u.Estimated,
	}
	total := &j.rec.Metrics
	if target.Price != nil {
		cost := target.Price.Cost(u)
		m.CostUSD = &cost
	}
	switch {
	case m.CostUSD == nil:
		total.TotalCostUSD = nil // one call without a price makes the sum unknown
	case total.LLMCallsCount == 0:
		total.TotalCostUSD = m.CostUSD
	case total.TotalCostUSD != nil:
		sum := *total.TotalCostUSD + *m.CostUSD
		total.TotalCostUSD = &sum
	}
	total.LLMCallsCount++
	total.InputTokens += m.InputTokens
	total.OutputTokens += m.OutputTokens
	total.ThinkingTokens += m.ThinkingTokens
	total.CachedTokens += m.CachedTokens
	total.CacheWriteTokens += m.CacheWriteTokens
	j.next.uses = append(j.next.uses, quota.Called(target, u))
	return m
}

// quotaCode returns the error code of a run that a plan or a tenant's budget
// stops; "" for other errors.
func quotaCode(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return ""
	}
	switch f.Code {
	case quota.CodeExceeded, quota.CodeReached:
		return run.CodeQuotaExceeded
	case quota.CodeBudget:
		return run.CodeBudgetExceeded
	}
	return ""
}

// limits returns those of the run, of which max_steps is always set: a model that calls
// tools for ever must end some time.
func (j *journal) limits() run.Limits {
	l := j.rec.ResourceLimits
	if l.MaxSteps == nil {
		n := run.FirstDefaults().MaxSteps
		if j.e.MaxSteps != nil {
			n = j.e.MaxSteps()
		}
		l.MaxSteps = &n
	}
	if j.e.Caps != nil {
		l = l.Narrow(j.e.Caps())
	}
	return l
}

// allowsNone reports whether a limit is set to zero.
func allowsNone(limit *int64) bool { return limit != nil && *limit <= 0 }

func reached(limit *int64, n int64) bool { return limit != nil && n >= *limit }

// exhausted reports whether the run must close now: its steps, tool calls or
// tokens are used up.
func (j *journal) exhausted() bool {
	l, m := j.limits(), j.rec.Metrics
	return reached(l.MaxSteps, m.StepsCount-j.overhead) ||
		reached(l.MaxToolCalls, m.ToolCallsCount) && m.LLMCallsCount > 0 ||
		reached(l.MaxTokensPerRun, m.InputTokens+m.OutputTokens)
}

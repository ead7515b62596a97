package engine

import (
	"context"
	"fmt"
	"slices"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/jsonform"
	"agentd/internal/kernel/model"
)

// formField is the option of a run that sets the form of its answer.
const formField = "response_format"

// repairNote asks a model to answer again in the form that was set.
const repairNote = "Your answer cannot be used: %s. Answer again with nothing but the JSON that was asked for, without any other text."

// formOf returns the form that the caller of a run set for its answer; nil for
// none. A schema that cannot be used was refused before the run was created.
func formOf(o *run.Options) *jsonform.Form {
	form, err := jsonform.OfResponseFormat(o.Extra[formField])
	if err != nil {
		return nil
	}
	return form
}

// inForm checks an answer that ends the run against the form that the caller set.
// The model is asked once to repair an answer that does not have it; if that fails
// too, the result is an error. Nothing of such an answer was published. The calls of
// both are counted. A run with a budget has no repair: its reservation pays for one
// call.
func (a *attempt) inForm(first callResult) (callResult, error) {
	c, j := a.conversation, a.journal
	if c.form == nil || first.err != nil || context.Cause(a.ctx) != nil || !endsRun(first.resp, c.closing) {
		return first, nil
	}
	clean, problem := c.form.Check(first.resp.Text)
	if first.resp.Text = clean; problem == "" {
		return first, nil
	}
	a.countUnusable(first)
	if len(j.rec.Options.Budgets) > 0 {
		return misfit(first, problem, "the run's budget pays for no repair"), nil
	}
	call, err := c.prepareCall(a.ctx)
	if err != nil {
		return first, err
	}
	call.req.Messages = append(slices.Clip(call.req.Messages),
		model.Message{Role: model.Assistant, Text: first.resp.Text},
		model.Message{Role: model.User, Text: fmt.Sprintf(repairNote, problem)})
	second := call.ask(a.ctx, call.req.Target, always)
	if second.err != nil {
		if second, err = call.askFallback(a.ctx, second); second.err != nil || err != nil {
			return second, err
		}
	}
	if !endsRun(second.resp, c.closing) {
		return second, nil
	}
	clean, problem = c.form.Check(second.resp.Text)
	if second.resp.Text = clean; problem == "" {
		return second, nil
	}
	a.countUnusable(second)
	return misfit(second, problem, "it was asked once to repair it"), nil
}

// endsRun reports whether an answer is the run's last and complete.
func endsRun(r model.Response, closing bool) bool {
	return (len(r.ToolCalls) == 0 || closing) && r.FinishReason != model.FinishLength && declined(r.FinishReason) == ""
}

// misfit returns the failure of a call whose answer does not have its form, and is
// counted.
func misfit(r callResult, problem, why string) callResult {
	r.req = nil
	r.err = &model.Error{
		Code: run.CodeOutputMismatch, Status: 200,
		Detail: fmt.Sprintf("The model's answer does not have the form that response_format sets: %s (%s).", problem, why),
	}
	return r
}

// countUnusable counts a call whose answer is not used.
func (a *attempt) countUnusable(r callResult) {
	j := a.journal
	j.unusable = sum(j.unusable, j.countModelCall(r.resp.Usage, r.used, 0))
	j.unended = j.unusable
}

// withUnusable adds the calls of the step whose answers were not used.
func (a *attempt) withUnusable(m run.StepMetrics) run.StepMetrics {
	j := a.journal
	m = sum(j.unusable, m)
	j.unusable = run.StepMetrics{}
	return m
}

// sum adds the metrics of calls. The cost is unknown if that of one is.
func sum(a, b run.StepMetrics) run.StepMetrics {
	if a.LLMCalls == 0 {
		return b
	}
	b.InputTokens += a.InputTokens
	b.OutputTokens += a.OutputTokens
	b.ThinkingTokens += a.ThinkingTokens
	b.CachedTokens += a.CachedTokens
	b.CacheWriteTokens += a.CacheWriteTokens
	b.ToolCallsCount += a.ToolCallsCount
	b.LLMCalls += a.LLMCalls
	b.Estimated = b.Estimated || a.Estimated
	if a.CostUSD == nil || b.CostUSD == nil {
		b.CostUSD = nil
		return b
	}
	cost := *a.CostUSD + *b.CostUSD
	b.CostUSD = &cost
	return b
}

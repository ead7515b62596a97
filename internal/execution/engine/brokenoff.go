package engine

import (
	"context"
	"errors"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// endedByOthers is the cause of an attempt's context whose run others end.
type endedByOthers struct{ why run.Ending }

func (e *endedByOthers) Error() string { return "engine: the run is ended by others: " + e.why.Code }

// countBrokenOff counts a model call whose answer broke off, because providers
// charge what they sent: by the usage that the endpoint reported before, or else by
// estimate. A call of which nothing arrived is not counted. Of an answer that is not
// streamed it is not known how much was written; its input is counted where others
// ended the run meanwhile.
func (a *attempt) countBrokenOff(text sealedText) run.StepMetrics {
	b := a.brokenOff
	if b == nil || b.req == nil {
		return run.StepMetrics{}
	}
	_, asked := errors.AsType[*endedByOthers](context.Cause(a.ctx))
	u := model.EstimateOutput(model.Response{Text: text.text, Thinking: text.thinking})
	reported := b.resp.Usage
	switch {
	case reported.Plausible(&b.used) && 2*reported.OutputTokens >= u.OutputTokens: // not those of its beginning
		u = reported
	case u.OutputTokens == 0 && !(asked && a.conversation.buffered):
		a.journal.costUnknown = asked
		return run.StepMetrics{}
	default:
		u.InputTokens = model.EstimateInput(*b.req)
	}
	return a.journal.countModelCall(u, b.used, 0)
}

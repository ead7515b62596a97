package run

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// FinishCancelled is the finish reason of an answer that broke off because its run was
// cancelled.
const FinishCancelled = "cancelled"

// streamedText is what the log has of an answer whose step has not ended: all but the
// last moments of what was sent.
type streamedText struct {
	step           string // id of the step; "": there is none
	text, thinking string
	usage          model.Usage // by estimate
}

// streamed returns the text of the model call that is under way. Errors: the store's.
func (s *Service) streamed(ctx context.Context, tenant, id string) (t streamedText, err error) {
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil || r.Status != Running || r.Wait.For != "" || len(r.Pending) != 1 || r.Pending[0].Type != StepLLM {
		return t, err
	}
	for after := r.EventSeq; ; {
		const limit = 1000
		events, err := s.Log.Read(ctx, tenant, id, after, limit)
		if err != nil {
			return t, err
		}
		for i := range events {
			var data struct {
				Text string `json:"text"`
			}
			if err := json.Unmarshal(events[i].Data, &data); err != nil {
				return t, err
			}
			switch events[i].Name {
			case "llm.chunk":
				t.text += data.Text
			case "llm.thinking":
				t.thinking += data.Text
			}
			after = events[i].Seq
		}
		if len(events) < limit {
			break
		}
	}
	if t.text == "" && t.thinking == "" {
		return t, nil
	}
	t.step = r.Pending[0].StepID
	steps, err := s.Runs.ListSteps(ctx, tenant, id, 0, 0)
	if err != nil {
		return t, err
	}
	read, err := ConversationAfter(nil, r, steps)
	if err != nil {
		return t, err
	}
	t.usage = model.EstimateOutput(model.Response{Text: t.text, Thinking: t.thinking})
	t.usage.InputTokens = model.EstimateInput(model.Request{Messages: read})
	return t, nil
}

// keep ends the model's step of a run whose worker does not answer with what the log
// has of its text. Its tokens are counted; its cost is not known, so that what was
// reserved for it counts.
func (c *mutation) keep(t streamedText) error {
	if t.step == "" || len(c.r.Pending) != 1 || c.r.Pending[0].StepID != t.step {
		return nil
	}
	p, m := c.r.Pending[0], &c.r.Metrics
	out, err := json.Marshal(LLMOutput{Text: t.text, Thinking: t.thinking, FinishReason: FinishCancelled})
	if err != nil {
		return err
	}
	metrics, err := json.Marshal(StepMetrics{
		InputTokens: int64(t.usage.InputTokens), OutputTokens: int64(t.usage.OutputTokens),
		ThinkingTokens: int64(t.usage.ThinkingTokens), LLMCalls: 1, Estimated: true,
	})
	if err != nil {
		return err
	}
	sentence := "The run ended while the model answered."
	step := &Step{
		StepID: p.StepID, Seq: p.Seq, Type: StepLLM, Status: StepFailed, StartedAt: p.StartedAt, Attempts: p.Attempts,
		Output: schema.Nullable(out), Metrics: schema.Nullable(metrics), Error: &sentence,
	}
	m.LLMCallsCount++
	m.InputTokens += int64(t.usage.InputTokens)
	m.OutputTokens += int64(t.usage.OutputTokens)
	m.ThinkingTokens += int64(t.usage.ThinkingTokens)
	use := quota.Called(model.Target{}, t.usage)
	use.Model = "" // which one it was is known to the worker only
	c.uses = append(c.uses, use)
	if t.text != "" {
		if c.r.Output, err = json.Marshal(Output{Text: t.text, FinishReason: FinishCancelled}); err != nil {
			return err
		}
	}
	return c.endStep(step)
}

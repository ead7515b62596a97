package openai

import (
	"time"

	"agentd/internal/base/route"
	"agentd/internal/kernel/model"
)

// ModelCompletion is a model's completion. Unlike a run's, its finish_reason can be
// length, tool_calls or content_filter.
type ModelCompletion struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []ModelChoice `json:"choices"`
	Usage   Usage         `json:"usage"`
}

// ModelChoice is the only choice of a completion.
type ModelChoice struct {
	Index        int           `json:"index"`
	Message      ChoiceMessage `json:"message"`
	Logprobs     *string       `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
}

func newModelCompletion(id, name string, created time.Time, r *model.Response) *ModelCompletion {
	msg := ChoiceMessage{Role: "assistant", Content: &r.Text, ToolCalls: toolCalls(r.ToolCalls)}
	if r.Text == "" && len(r.ToolCalls) > 0 {
		msg.Content = nil
	}
	u := Usage{
		PromptTokens: int64(r.Usage.InputTokens), CompletionTokens: int64(r.Usage.OutputTokens),
		TotalTokens: int64(r.Usage.InputTokens) + int64(r.Usage.OutputTokens),
	}
	if n := r.Usage.ThinkingTokens; n > 0 {
		u.Details = &UsageDetails{int64(n)}
	}
	if n := r.Usage.CachedTokens; n > 0 {
		u.InputDetails = &InputDetail{int64(n)}
	}
	return &ModelCompletion{
		ID: completionID(id), Object: "chat.completion", Created: created.Unix(), Model: name,
		Choices: []ModelChoice{{Message: msg, FinishReason: finishOf(r)}}, Usage: u,
	}
}

// finishOf returns why an answer ended in the words of OpenAI's API, where a refusal is
// an ordinary end.
func finishOf(r *model.Response) string {
	if r.FinishReason == model.FinishRefusal {
		return model.FinishStop
	}
	return r.FinishReason
}

// events returns a whole answer as the events of a stream.
func (c *chunker) events(done *ModelCompletion, r *model.Response, usage bool) (wire []byte, err error) {
	send := func(chunk []byte) { wire = route.Frame{Data: chunk}.AppendWire(wire) }
	send(c.role())
	if r.Thinking != "" {
		send(c.delta(reasoningMember, quote(r.Thinking)))
	}
	if r.Text != "" {
		send(c.delta(contentMember, quote(r.Text)))
	}
	if calls := done.Choices[0].Message.ToolCalls; len(calls) > 0 {
		b, err := c.calls(calls)
		if err != nil {
			return nil, err
		}
		send(b)
	}
	b, err := c.end(finishOf(r), nil)
	if err != nil {
		return nil, err
	}
	send(b)
	if usage {
		if b, err = c.usage(done.Usage); err != nil {
			return nil, err
		}
		send(b)
	}
	send([]byte("[DONE]"))
	return wire, nil
}

package openai

import (
	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// Completion is the answer to a request that is not streamed.
type Completion struct {
	ID       string     `json:"id" required:"true" doc:"chatcmpl- followed by the run's id."`
	Object   string     `json:"object" required:"true" enum:"chat.completion"`
	Created  int64      `json:"created" required:"true" doc:"Unix seconds."`
	Model    string     `json:"model" required:"true" doc:"As in the request."`
	Choices  []Choice   `json:"choices" required:"true" doc:"Exactly one."`
	Usage    Usage      `json:"usage" required:"true"`
	RunError *ErrorBody `json:"run_error,omitzero" doc:"Why finish_reason is error."`
}

// Choice is the only choice of a completion.
type Choice struct {
	Index        int           `json:"index"`
	Message      ChoiceMessage `json:"message"`
	Logprobs     *string       `json:"logprobs"`
	FinishReason string        `json:"finish_reason" enum:"stop,error"`
}

// ChoiceMessage is the agent's answer.
type ChoiceMessage struct {
	Role      string     `json:"role" enum:"assistant"`
	Content   *string    `json:"content" doc:"Null if there are tool calls and no text."`
	Refusal   *string    `json:"refusal"`
	ToolCalls []ToolCall `json:"tool_calls,omitzero" doc:"Calls of the client's tools. Send the results as messages of role tool."`
}

// Usage counts the tokens of all of the run's model calls.
type Usage struct {
	PromptTokens     int64         `json:"prompt_tokens"`
	CompletionTokens int64         `json:"completion_tokens"`
	TotalTokens      int64         `json:"total_tokens"`
	Details          *UsageDetails `json:"completion_tokens_details,omitzero"`
	InputDetails     *InputDetail  `json:"prompt_tokens_details,omitzero"`
}

// UsageDetails splits completion_tokens.
type UsageDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// completionID returns the id of a run's completion, by which the run can be found.
func completionID(runID string) string { return "chatcmpl-" + runID }

func usage(m *run.Metrics) Usage {
	u := Usage{PromptTokens: m.InputTokens, CompletionTokens: m.OutputTokens, TotalTokens: m.InputTokens + m.OutputTokens}
	if m.ThinkingTokens > 0 {
		u.Details = &UsageDetails{m.ThinkingTokens}
	}
	if m.CachedTokens > 0 {
		u.InputDetails = &InputDetail{m.CachedTokens}
	}
	return u
}

// ending is the end of a run in the terms of chat completions.
type ending struct {
	text    string
	calls   []ToolCall
	finish  string     // stop or error
	failure *ErrorBody // if finish is error
}

// endingOf returns a run's end. The text of a run that failed without any is the
// reason, because many clients show nothing else.
func endingOf(r *run.Run) (ending, error) {
	out, err := outputOf(r)
	if err != nil {
		return ending{}, err
	}
	e := ending{text: out.Text, calls: toolCalls(out.ToolCalls), finish: "stop"}
	if r.Status == run.Completed {
		return e, nil
	}
	e.finish, e.failure = "error", failureOf(r)
	if e.text == "" {
		e.text = e.failure.Message
	}
	return e, nil
}

// mismatch returns the refusal that replaces the answer of a run whose model did not
// keep to response_format; nil for any other run. Clients that parse the answer would
// take the reason for it.
func mismatch(r *run.Run) *fault.Error {
	if r == nil || r.ErrorCode != run.CodeOutputMismatch {
		return nil
	}
	f := fault.New(fault.Invalid, run.CodeOutputMismatch, "%s The run is %s.", failureOf(r).Message, r.RunID)
	f.Fields = []fault.Field{{
		Field: "response_format", Message: "the model did not keep to it; simplify the schema, or use a model that supports schemas",
	}}
	return f
}

// failureOf returns why a run did not complete.
func failureOf(r *run.Run) *ErrorBody {
	f := &ErrorBody{Message: "The run ended as " + string(r.Status) + ".", Type: "run_error", Code: r.ErrorCode}
	if r.Error != nil {
		f.Message = *r.Error
	}
	if f.Code == "" {
		f.Code = string(r.Status)
	}
	return f
}

// NewCompletion renders a run that has ended. model is the name in the request.
func NewCompletion(r *run.Run, model string) (*Completion, error) {
	e, err := endingOf(r)
	if err != nil {
		return nil, err
	}
	msg := ChoiceMessage{Role: "assistant", Content: &e.text, ToolCalls: e.calls}
	if e.text == "" && len(e.calls) > 0 {
		msg.Content = nil
	}
	return &Completion{
		ID: completionID(r.RunID), Object: "chat.completion", Created: r.CreatedAt.Unix(), Model: model,
		Choices: []Choice{{Message: msg, FinishReason: e.finish}}, Usage: usage(&r.Metrics), RunError: e.failure,
	}, nil
}

// toolCalls converts calls. Without any it returns nil, because clients take an
// empty list for calls.
func toolCalls(calls []model.ToolCall) []ToolCall {
	var out []ToolCall
	for _, c := range calls {
		out = append(out, ToolCall{c.ID, "function", CallFunction{c.Name, c.Arguments}})
	}
	return out
}

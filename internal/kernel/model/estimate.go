package model

import "unicode/utf8"

// Endpoints count in tokens of their own, and their tokenizers are not
// available here. These are estimates, the same for every model; how far a model
// is off is learnt from the usage that it reports (contextwindow.Gauge).
const (
	frameTokens = 4     // around each message, call and tool
	imageTokens = 1_000 // of a content part that is not text
)

// EstimateTokens returns about how many tokens a text has, at four characters
// each.
func EstimateTokens(text string) int { return (utf8.RuneCountInString(text) + 3) / 4 }

// EstimateMessage returns about how many tokens a message has: its text, its
// tool calls and the framing. An image counts as imageTokens.
func EstimateMessage(m *Message) int {
	n := frameTokens
	if m.Parts == nil {
		n += EstimateTokens(m.Text)
	}
	for _, part := range m.Parts {
		if text, ok := partText(part); ok {
			n += EstimateTokens(text)
		} else if isTextFile(part) {
			n += len(part) * 3 / 4 / 4
		} else {
			n += imageTokens
		}
	}
	n += len(m.Opaque.Data) / 4
	for _, call := range m.ToolCalls {
		n += frameTokens + EstimateTokens(call.Name) + EstimateTokens(call.Arguments) + len(call.Opaque)/4
	}
	return n
}

// EstimateTools returns about how many tokens the tool definitions have.
func EstimateTools(tools []ToolSpec) int {
	n := 0
	for _, t := range tools {
		n += frameTokens + EstimateTokens(t.Name) + EstimateTokens(t.Description) + len(t.Parameters)/4
	}
	return n
}

// EstimateInput returns about how many tokens a request has.
func EstimateInput(req Request) int {
	n := EstimateTools(req.Tools)
	for i := range req.Messages {
		n += EstimateMessage(&req.Messages[i])
	}
	return n
}

// Plausible reports whether the numbers can be those of a call: there are some, none is
// negative, and they are not far beyond the model's context window. What is configured of
// a window may be less than it is, so several times of it are believed.
func (u *Usage) Plausible(t *Target) bool {
	limit := maxContext
	if t.Context > 0 {
		limit = max(8*t.Context, 8*leastWindow)
	}
	if u.InputTokens == 0 && u.OutputTokens == 0 || u.InputTokens < 0 || u.OutputTokens < 0 {
		return false
	}
	return u.InputTokens <= limit && u.OutputTokens <= limit
}

// leastWindow is the smallest context window in tokens that a model is believed to have.
const leastWindow = 32_000

// EstimateOutput returns about how many tokens an answer has.
func EstimateOutput(r Response) Usage {
	u := Usage{ThinkingTokens: EstimateTokens(r.Thinking), Estimated: true}
	u.OutputTokens = u.ThinkingTokens + EstimateTokens(r.Text)
	for _, call := range r.ToolCalls {
		u.OutputTokens += EstimateTokens(call.Name) + EstimateTokens(call.Arguments)
	}
	return u
}

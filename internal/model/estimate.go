package model

import "unicode/utf8"

// EstimateTokens is about how many tokens a text has: four characters each
// (interface.md section 8).
func EstimateTokens(text string) int { return (utf8.RuneCountInString(text) + 3) / 4 }

// EstimateInput is about how many tokens a request has: its texts, tool calls
// and tools, and a few for the frame of each message.
func EstimateInput(req Request) int {
	const frame = 4
	n := 0
	for _, m := range req.Messages {
		n += frame
		if m.Parts == nil {
			n += EstimateTokens(m.Text)
		}
		for _, part := range m.Parts {
			n += EstimateTokens(partText(part))
		}
		for _, call := range m.ToolCalls {
			n += frame + EstimateTokens(call.Name) + EstimateTokens(call.Arguments)
		}
	}
	for _, t := range req.Tools {
		n += frame + EstimateTokens(t.Name) + EstimateTokens(t.Description) + len(t.Parameters)/4
	}
	return n
}

// EstimateOutput is about how many tokens an answer has.
func EstimateOutput(r Response) Usage {
	u := Usage{ThinkingTokens: EstimateTokens(r.Thinking), Estimated: true}
	u.OutputTokens = u.ThinkingTokens + EstimateTokens(r.Text)
	for _, call := range r.ToolCalls {
		u.OutputTokens += EstimateTokens(call.Name) + EstimateTokens(call.Arguments)
	}
	return u
}

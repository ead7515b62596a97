package modelcall

import "agentd/internal/kernel/model"

// Counts are an endpoint's numbers of tokens. Those that are not there are zero.
type Counts struct {
	Prompt, Completion, Total int
	Cached, Written           int // part of Prompt
	Reasoning                 int
}

// Usage returns the numbers in one meaning. Some endpoints count reasoning beside the
// completion, which shows in their total.
func (c Counts) Usage() model.Usage {
	u := model.Usage{
		InputTokens: c.Prompt, OutputTokens: c.Completion, ThinkingTokens: c.Reasoning, CachedTokens: c.Cached, CacheWriteTokens: c.Written,
	}
	if c.Reasoning > 0 && c.Total == c.Prompt+c.Completion+c.Reasoning {
		u.OutputTokens += c.Reasoning
	}
	return u
}

// Absurd is a usage that cannot be true, for numbers that cannot: it is replaced by an
// estimate.
var Absurd = model.Usage{InputTokens: MaxTokens, OutputTokens: MaxTokens}

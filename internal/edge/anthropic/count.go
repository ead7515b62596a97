package anthropic

import (
	"bytes"
	"unicode/utf8"

	"agentd/internal/kernel/model"
)

const (
	messageTokens = 3     // around each message of the caller's
	imageTokens   = 1_000 // of a picture, whose bytes say nothing of its tokens
)

// Count estimates the tokens of a prompt: four characters each, and 3 for each
// message (interface.md section 4, rule 6). Errors: as of [Request.Ask].
func (p *Prompt) Count() (int, error) {
	t, tools := p.read()
	if err := t.err(); err != nil {
		return 0, err
	}
	return estimate(t.out, tools, len(p.Messages)), nil
}

// estimate counts what a model is given for a number of messages of the
// caller's.
func estimate(messages []model.Message, tools []model.ToolSpec, turns int) int {
	characters, pictures := 0, 0
	for i := range messages {
		m := &messages[i]
		characters += utf8.RuneCountInString(m.Text)
		for _, part := range m.Parts {
			if text, ok := bytes.CutPrefix(part, []byte(textHead)); ok {
				characters += utf8.RuneCount(text) - len(`""}`)
			} else {
				pictures++
			}
		}
		for j := range m.ToolCalls {
			characters += utf8.RuneCountInString(m.ToolCalls[j].Name) + utf8.RuneCountInString(m.ToolCalls[j].Arguments)
		}
	}
	for i := range tools {
		characters += utf8.RuneCountInString(tools[i].Name) + utf8.RuneCountInString(tools[i].Description) + utf8.RuneCount(tools[i].Parameters)
	}
	return (characters+3)/4 + messageTokens*turns + imageTokens*pictures
}

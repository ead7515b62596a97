package anthropic

import (
	"bytes"
	"unicode/utf8"

	"agentd/internal/kernel/model"
)

const (
	messageTokens = 3     // added for each message of the request
	imageTokens   = 1_000 // of an image, whose size in bytes is no measure of its tokens
)

// Count estimates the tokens of a prompt: one per four characters and 3 per message.
// Errors: those of [Request.ToRequest].
func (p *Prompt) Count() (int, error) {
	t, tools := p.read()
	if err := t.err(); err != nil {
		return 0, err
	}
	return estimate(t.out, tools, len(p.Messages)), nil
}

// estimate estimates the tokens of a model's input; turns is the number of messages
// in the request.
func estimate(messages []model.Message, tools []model.ToolSpec, turns int) int {
	characters, images := 0, 0
	for i := range messages {
		m := &messages[i]
		characters += utf8.RuneCountInString(m.Text)
		for _, part := range m.Parts {
			if text, ok := bytes.CutPrefix(part, []byte(textHead)); ok {
				characters += utf8.RuneCount(text) - len(`""}`)
			} else if text, ok := bytes.CutPrefix(part, []byte(textFileHead)); ok {
				characters += len(text) * 3 / 4
			} else {
				images++
			}
		}
		for j := range m.ToolCalls {
			characters += utf8.RuneCountInString(m.ToolCalls[j].Name) + utf8.RuneCountInString(m.ToolCalls[j].Arguments)
		}
	}
	for i := range tools {
		characters += utf8.RuneCountInString(tools[i].Name) + utf8.RuneCountInString(tools[i].Description) + utf8.RuneCount(tools[i].Parameters)
	}
	return (characters+3)/4 + messageTokens*turns + imageTokens*images
}

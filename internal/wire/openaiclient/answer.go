package openaiclient

import (
	"strings"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// answer collects an endpoint's answer.
type answer struct {
	modelcall.Answer
	opaque  opaqueParts
	refused bool // its text is a refusal
}

// decode adds one JSON value, and returns how many choices it has. An error in place
// of an answer is returned as a *modelcall.EndpointError.
func (a *answer) decode(data []byte) (choices int, err error) {
	c, err := parse(data)
	if err != nil {
		return 0, err
	}
	return len(c.Choices), a.add(c)
}

// add adds a chunk or a whole answer. Choices other than the first are ignored: they
// were not requested.
func (a *answer) add(c *completion) error {
	a.SetModel([]byte(c.Model))
	a.addUsage(c.Usage)
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue
		}
		for i := range choice.Message.ToolCalls { // each stands for itself, also if two have the same id
			if call := &choice.Message.ToolCalls[i]; call.Index == nil {
				call.Index = &i
			}
		}
		for _, m := range []*message{&choice.Delta, &choice.Message} {
			if err := a.addMessage(m); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			a.Finish = string(choice.FinishReason)
		}
		if choice.StopReason != "" {
			a.Stop = string(choice.StopReason)
		}
	}
	return nil
}

func (a *answer) addMessage(m *message) error {
	if err := a.AddThinking([]byte(m.thinking())); err != nil {
		return err
	}
	if err := a.addOpaque(m); err != nil {
		return err
	}
	content := m.Content
	if content == "" && m.Refusal != "" {
		content, a.refused = m.Refusal, true
	}
	if err := a.AddText([]byte(content)); err != nil {
		return err
	}
	for i := range m.ToolCalls {
		if err := a.AddCall(m.ToolCalls[i].piece()); err != nil {
			return err
		}
	}
	if len(m.ToolCalls) > 0 {
		a.EmitCalls()
	}
	return nil
}

// response returns the whole answer, with missing members filled in.
func (a *answer) response(req *model.Request) model.Response {
	r := a.Response(req, finishReason(a.Finish))
	if a.refused && r.FinishReason == model.FinishStop {
		r.FinishReason = model.FinishRefusal
	}
	r.Opaque = a.opaque.encode(r.Thinking, len(r.ToolCalls) > 0)
	return r
}

// finishReason maps an endpoint's finish reason to one of the model package's. Whether
// tools are called depends on the calls, not on the reason.
func finishReason(reason string) string {
	switch strings.ToLower(reason) {
	case "length", "max_tokens", "model_length":
		return model.FinishLength
	case "content_filter", "safety", "recitation":
		return model.FinishFilter
	case "refusal":
		return model.FinishRefusal
	}
	return model.FinishStop
}

package openaiclient

import (
	"slices"
	"strings"
	"time"

	"agentd/internal/kernel/model"
)

// answer collects an endpoint's answer, and emits it piece by piece.
type answer struct {
	sink     func(model.Delta)
	detailed bool // the sink receives pieces of calls, and pauses
	began    time.Time
	max      int // bytes of text, thinking and arguments together

	model          string
	text, thinking strings.Builder
	calls          callAssembler
	opaque         opaqueParts
	finish         string
	usage          model.Usage
	size           int
	firstToken     time.Duration
	stop           string // the stop sequence that ended it, as the endpoint reports
	delivered      bool   // the sink received a piece
	unflushed      bool   // and no pause since
}

// emit delivers a piece to the sink.
func (a *answer) emit(d model.Delta) {
	a.delivered, a.unflushed = true, true
	a.sink(d)
}

// flush delivers the empty delta, which means that the next piece may take long.
func (a *answer) flush() {
	if a.unflushed {
		a.unflushed = false
		a.sink(model.Delta{})
	}
}

// addText adds a piece, and emits it without a second copy: it is a slice of the
// builder's text, which only grows.
func (a *answer) addText(piece []byte) error {
	if err := a.addSize(len(piece)); err != nil || len(piece) == 0 {
		return err
	}
	a.text.Write(piece)
	if a.sink != nil {
		s := a.text.String()
		a.emit(model.Delta{Text: s[len(s)-len(piece):]})
	}
	return nil
}

func (a *answer) addThinking(piece []byte) error {
	if err := a.addSize(len(piece)); err != nil || len(piece) == 0 {
		return err
	}
	a.thinking.Write(piece)
	if a.sink != nil {
		s := a.thinking.String()
		a.emit(model.Delta{Thinking: s[len(s)-len(piece):]})
	}
	return nil
}

func (a *answer) addSize(n int) error {
	if a.size += n; a.size > a.max {
		return errTooLong
	}
	if n > 0 && a.firstToken == 0 && a.sink != nil {
		a.firstToken = time.Since(a.began)
	}
	return nil
}

// decode adds one JSON value, and returns how many choices it has. An error in place
// of an answer is returned as an *endpointError.
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
	a.setModel([]byte(c.Model))
	a.addUsage(c.Usage)
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue
		}
		for _, m := range []*message{&choice.Delta, &choice.Message} {
			if err := a.addMessage(m); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			a.finish = string(choice.FinishReason)
		}
		if choice.StopReason != "" {
			a.stop = string(choice.StopReason)
		}
	}
	return nil
}

func (a *answer) addMessage(m *message) error {
	if err := a.addThinking([]byte(m.thinking())); err != nil {
		return err
	}
	if err := a.addOpaque(m); err != nil {
		return err
	}
	content := m.Content
	if content == "" {
		content = m.Refusal
	}
	if err := a.addText([]byte(content)); err != nil {
		return err
	}
	for i := range m.ToolCalls {
		piece := &m.ToolCalls[i]
		if err := a.addSize(len(piece.ID) + len(piece.Function.Name) + len(piece.Function.Arguments) + len(piece.Extra)); err != nil {
			return err
		}
		if err := a.calls.add(piece); err != nil {
			return err
		}
	}
	if len(m.ToolCalls) > 0 && a.detailed {
		a.calls.emit(a.emit, false)
	}
	return nil
}

// setUsage sets the usage unless it is zero: some endpoints send zeros until the end,
// or always.
func (a *answer) setUsage(u model.Usage) {
	if u.InputTokens != 0 || u.OutputTokens != 0 {
		a.usage = u
	}
}

func (a *answer) setModel(name []byte) {
	if len(name) > 0 && string(name) != a.model {
		a.model = string(name)
	}
}

// response returns the whole answer, with missing members filled in.
func (a *answer) response(req *model.Request) model.Response {
	if a.detailed {
		a.calls.emit(a.emit, true)
	}
	r := model.Response{
		Text:       a.text.String(),
		Thinking:   a.thinking.String(),
		ToolCalls:  a.calls.finished(),
		Usage:      a.usage,
		Model:      a.model,
		FirstToken: a.firstToken,
	}
	if r.Model == "" {
		r.Model = req.Target.Model
	}
	if a.stop != "" && slices.Contains(req.Stop, a.stop) {
		r.StopSequence = a.stop
	}
	r.Opaque = a.opaque.encode(r.Thinking, len(r.ToolCalls) > 0)
	r.FinishReason = finishReason(a.finish, len(r.ToolCalls) > 0)
	if !r.Usage.Plausible(&req.Target) {
		r.Usage = model.EstimateOutput(r)
		r.Usage.InputTokens = model.EstimateInput(*req)
	}
	return r
}

// finishReason maps an endpoint's finish reason to one of the model package's. Whether
// tools are called depends on the calls, not on the reason.
func finishReason(reason string, calls bool) string {
	switch strings.ToLower(reason) {
	case "length", "max_tokens", "model_length":
		return model.FinishLength
	case "content_filter", "safety", "recitation":
		return model.FinishFilter
	}
	if calls {
		return model.FinishToolCalls
	}
	return model.FinishStop
}

package openaiclient

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// answer gathers what an endpoint says, and passes it on as it comes.
type answer struct {
	sink     func(model.Delta)
	detailed bool // it wants pieces of calls, and to know of pauses
	began    time.Time
	max      int // bytes of text, thinking and arguments together

	model          string
	text, thinking strings.Builder
	calls          callAssembler
	finish         string
	usage          model.Usage
	size           int
	firstToken     time.Duration
	stop           string // the stop sequence that ended it, as the endpoint says
	delivered      bool   // the sink saw a piece
	unflushed      bool   // and was not told since that no more is at hand
}

// emit passes a piece on.
func (a *answer) emit(d model.Delta) {
	a.delivered, a.unflushed = true, true
	a.sink(d)
}

// flush tells the sink that the next piece may take long.
func (a *answer) flush() {
	if a.unflushed {
		a.unflushed = false
		a.sink(model.Delta{})
	}
}

// addText passes a piece on without copying it again: the piece that the sink
// gets is a slice of the builder's text, which only ever grows.
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

// decode takes in one JSON value, and gives how many choices it has. An error
// that stands in place of an answer is returned as an *endpointError.
func (a *answer) decode(data []byte) (choices int, err error) {
	c, err := parse(data)
	if err != nil {
		return 0, err
	}
	return len(c.Choices), a.add(c)
}

// add takes in a chunk or a whole answer. Choices but the first are passed
// over: they were not asked for.
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
	content := m.Content
	if content == "" {
		content = m.Refusal
	}
	if err := a.addText([]byte(content)); err != nil {
		return err
	}
	for i := range m.ToolCalls {
		piece := &m.ToolCalls[i]
		if err := a.addSize(len(piece.ID) + len(piece.Function.Name) + len(piece.Function.Arguments)); err != nil {
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

// addUsage takes the numbers if there are any; the last ones count.
func (a *answer) addUsage(raw jsontext.Value) {
	if raw.Kind() != '{' {
		return
	}
	var u struct {
		Prompt     float64 `json:"prompt_tokens"`
		Completion float64 `json:"completion_tokens"`
		PromptMore struct {
			Cached float64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionMore struct {
			Reasoning float64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	if json.Unmarshal(raw, &u, lenient) != nil {
		return
	}
	a.setUsage(model.Usage{
		InputTokens:    count(u.Prompt),
		OutputTokens:   count(u.Completion),
		ThinkingTokens: count(u.CompletionMore.Reasoning),
		CachedTokens:   count(u.PromptMore.Cached),
	})
}

// setUsage takes numbers that say anything: some endpoints send zeros until
// the end, or for ever.
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

// count keeps an endpoint's number within what we can add up and bill.
func count(n float64) int { return int(max(0, min(n, 1e12))) }

// response is the whole answer, with what the endpoint left out filled in.
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
	r.FinishReason = finishReason(a.finish, len(r.ToolCalls) > 0)
	if r.Usage == (model.Usage{}) {
		r.Usage = model.EstimateOutput(r)
		r.Usage.InputTokens = model.EstimateInput(*req)
	}
	return r
}

// finishReason maps the names that endpoints use to the four of the contract.
// Whether tools are called is decided by whether there are calls.
func finishReason(said string, calls bool) string {
	switch strings.ToLower(said) {
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

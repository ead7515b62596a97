package modelcall

import (
	"slices"
	"strings"
	"time"

	"agentd/internal/kernel/model"
)

// Answer collects an endpoint's answer, and emits it piece by piece.
type Answer struct {
	Sink     func(model.Delta)
	Detailed bool // the sink receives pieces of calls, and pauses
	Began    time.Time
	Max      int // bytes of text, thinking and arguments together

	Finish    string // the finish reason, as the endpoint names it; "": none yet
	Stop      string // the stop sequence that ended it, as the endpoint reports
	Usage     model.Usage
	Delivered bool // the sink received a piece

	model          string
	text, thinking strings.Builder
	calls          callAssembler
	size           int
	firstToken     time.Duration
	unflushed      bool // pieces were emitted, and no pause since
}

// NewAnswer returns the answer to a request, of at most limit bytes.
func NewAnswer(req *model.Request, sink func(model.Delta), began time.Time, limit int) Answer {
	return Answer{Sink: sink, Detailed: req.Detailed && sink != nil, Began: began, Max: limit}
}

// emit delivers a piece to the sink.
func (a *Answer) emit(d model.Delta) {
	a.Delivered, a.unflushed = true, true
	a.Sink(d)
}

// Flush delivers the empty delta, which means that the next piece may take long.
func (a *Answer) Flush() {
	if a.unflushed {
		a.unflushed = false
		a.Sink(model.Delta{})
	}
}

// AddText adds a piece, and emits it without a second copy: it is a slice of the
// builder's text, which only grows.
func (a *Answer) AddText(piece []byte) error {
	if err := a.AddSize(len(piece)); err != nil || len(piece) == 0 {
		return err
	}
	a.text.Write(piece)
	if a.Sink != nil {
		s := a.text.String()
		a.emit(model.Delta{Text: s[len(s)-len(piece):]})
	}
	return nil
}

// AddThinking adds a piece of readable reasoning.
func (a *Answer) AddThinking(piece []byte) error {
	if err := a.AddSize(len(piece)); err != nil || len(piece) == 0 {
		return err
	}
	a.thinking.Write(piece)
	if a.Sink != nil {
		s := a.thinking.String()
		a.emit(model.Delta{Thinking: s[len(s)-len(piece):]})
	}
	return nil
}

// AddSize counts bytes of an answer. Errors: ErrTooLong.
func (a *Answer) AddSize(n int) error {
	if a.size += n; a.size > a.Max {
		return ErrTooLong
	}
	if n > 0 && a.firstToken == 0 && a.Sink != nil {
		a.firstToken = time.Since(a.Began)
	}
	return nil
}

// AddCall adds a piece of a tool call. EmitCalls emits it. Errors: ErrTooLong,
// ErrTooManyCalls.
func (a *Answer) AddCall(piece CallPiece) error {
	if err := a.AddSize(len(piece.ID) + len(piece.Name) + len(piece.Arguments) + len(piece.Opaque)); err != nil {
		return err
	}
	return a.calls.add(&piece)
}

// EmitCalls emits the calls as far as they are known, to a sink that wants pieces.
func (a *Answer) EmitCalls() {
	if a.Detailed {
		a.calls.emit(a.emit, false)
	}
}

// SetUsage sets the usage unless it is zero: some endpoints send zeros until the end,
// or always.
func (a *Answer) SetUsage(u model.Usage) {
	if u.InputTokens != 0 || u.OutputTokens != 0 {
		a.Usage = u
	}
}

// SetModel sets the model's name, as the endpoint reports it.
func (a *Answer) SetModel(name []byte) {
	if len(name) > 0 && string(name) != a.model {
		a.model = string(name)
	}
}

// Thinking returns the readable reasoning.
func (a *Answer) Thinking() string { return a.thinking.String() }

// Empty reports whether the answer has neither text nor thinking nor calls.
func (a *Answer) Empty() bool {
	return a.text.Len() == 0 && a.thinking.Len() == 0 && len(a.calls.all) == 0
}

// Response returns the whole answer, with missing members filled in. finish is why it
// ended, one of the model package's reasons; model.FinishStop becomes FinishToolCalls if
// there are calls.
func (a *Answer) Response(req *model.Request, finish string) model.Response {
	if a.Detailed {
		a.calls.emit(a.emit, true)
	}
	r := model.Response{
		Text:         a.text.String(),
		Thinking:     a.thinking.String(),
		ToolCalls:    a.calls.finished(),
		FinishReason: finish,
		Usage:        a.Usage,
		Model:        a.model,
		FirstToken:   a.firstToken,
	}
	if r.Model == "" {
		r.Model = req.Target.Model
	}
	if a.Stop != "" && slices.Contains(req.Stop, a.Stop) {
		r.StopSequence = a.Stop
	}
	if finish == model.FinishStop && len(r.ToolCalls) > 0 {
		r.FinishReason = model.FinishToolCalls
	}
	if !r.Usage.Plausible(&req.Target) {
		r.Usage = model.EstimateOutput(r)
		r.Usage.InputTokens = model.EstimateInput(*req)
	}
	return r
}

package openaiclient

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"time"

	"agentd/internal/wire/modelcall"
)

const (
	// afterFinish is how long usage and [DONE] may take once the answer is
	// complete.
	afterFinish = 2 * time.Second
	// afterDone is how long the end of the body may take after [DONE]. The connection
	// can be reused only if it is read.
	afterDone = 250 * time.Millisecond
	// keepScratch is the size up to which the buffer in which texts are unquoted is pooled.
	keepScratch = 2 << 20
)

// stream is the pooled state of reading one answer.
type stream struct {
	events  modelcall.Events
	fast    fastChunk
	scratch []byte
}

var streams = sync.Pool{New: func() any { return &stream{} }}

// getStream returns a pooled stream for an answer of at most limit bytes.
func getStream(in *modelcall.Reader, limit int) *stream {
	s := streams.Get().(*stream)
	s.events.Begin(in, limit)
	return s
}

func (s *stream) put() {
	s.fast = fastChunk{}
	s.events.End()
	if cap(s.scratch) <= keepScratch {
		streams.Put(s)
	}
}

// readAnswer reads a body, streamed or whole depending on its first byte: some
// endpoints answer streamed requests in one piece, and not all declare what they send.
func readAnswer(in *modelcall.Reader, a *answer) error {
	s := getStream(in, a.Max)
	defer s.put()
	first, err := s.events.First()
	if err != nil {
		return err
	}
	return s.readEither(in, first, a)
}

// readEither reads an answer whose first byte is known.
func (s *stream) readEither(in *modelcall.Reader, first byte, a *answer) error {
	switch {
	case first == '{':
		return s.readWhole(a)
	case modelcall.IsEventStart(first):
		return s.readStream(in, a)
	}
	return modelcall.ErrGarbage
}

// readStream reads server-sent events until [DONE] or the end.
func (s *stream) readStream(in *modelcall.Reader, a *answer) error {
	for {
		data, err := s.events.Next()
		if err != nil {
			return a.endOfStream(err)
		}
		if isDone(data) {
			in.LimitRest(afterDone)
			s.events.Drain()
			return nil
		}
		if err := s.addEvent(data, a); err != nil {
			if err == modelcall.ErrGarbage && s.events.Incomplete() {
				return modelcall.ErrTruncated
			}
			return err
		}
		if a.Finish != "" && !in.Limited() {
			in.LimitRest(afterFinish)
		}
	}
}

// endOfStream returns the error, if any, of a stream that ended without [DONE].
func (a *answer) endOfStream(err error) error {
	switch {
	case err == modelcall.ErrTooLong:
		return err
	case a.Finish != "": // complete, though not properly closed
		return nil
	case err == io.EOF:
		return modelcall.ErrTruncated
	}
	return err
}

// addEvent adds one event to the answer.
func (s *stream) addEvent(data []byte, a *answer) error {
	if s.fast.parse(data) {
		if done, err := s.addFast(a); done {
			return err
		}
	}
	if isBlank(data) {
		return nil
	}
	_, err := a.decode(data)
	return err
}

// addFast adds an ordinary chunk; done is false if one of its strings is invalid.
func (s *stream) addFast(a *answer) (done bool, err error) {
	q := &s.fast
	thought := q.thinking
	if len(thought) <= 2 {
		thought = q.reasoning
	}
	thought, text, ok := s.unquoteBoth(thought, q.text)
	if !ok {
		return false, nil
	}
	a.opaque.named(len(q.thinking) > 2, len(q.reasoning) > 2)
	a.SetModel(q.model)
	a.SetUsage(q.usage)
	if err := a.AddThinking(thought); err != nil {
		return true, err
	}
	if err := a.AddText(text); err != nil {
		return true, err
	}
	if len(q.finish) > 0 {
		a.Finish = string(q.finish)
	}
	if len(q.stop) > 0 {
		a.Stop = string(q.stop)
	}
	return true, nil
}

// unquoteBoth unquotes two strings, without a copy if they have no escapes.
func (s *stream) unquoteBoth(thought, text []byte) (a, b []byte, ok bool) {
	if len(thought) <= 2 && len(text) > 2 && isPlain(text[1:len(text)-1]) {
		return nil, text[1 : len(text)-1], true
	}
	both, ok := unquote(slices.Grow(s.scratch[:0], len(thought)+len(text)), thought)
	split := len(both)
	if ok {
		both, ok = unquote(both, text)
	}
	s.scratch = both
	return both[:split], both[split:], ok
}

func isDone(data []byte) bool {
	return len(data) < 16 && bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]"))
}

// readWhole reads an answer that is one JSON value.
func (s *stream) readWhole(a *answer) error {
	body, err := s.events.Rest()
	if err != nil {
		return err
	}
	if s.fast.parse(body) && s.fast.hasChoice {
		if done, err := s.addFast(a); done {
			return err
		}
	}
	choices, err := a.decode(body)
	if err == nil && choices == 0 {
		err = modelcall.ErrEmpty
	}
	return err
}

package openaiclient

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/base/sse"
)

var (
	errGarbage   = errors.New("openaiclient: the answer is not a chat completion")
	errTruncated = errors.New("openaiclient: the stream ended in the middle of the answer")
	errEmpty     = errors.New("openaiclient: the answer has no choice")
	// errTooLong means that an answer, or one event of it, exceeds Config.MaxAnswer.
	errTooLong = sse.ErrTooLong
)

const (
	// afterFinish is how long usage and [DONE] may take once the answer is
	// complete.
	afterFinish = 2 * time.Second
	// afterDone is how long the end of the body may take after [DONE]. The connection
	// can be reused only if it is read.
	afterDone = 250 * time.Millisecond
	// keepBuffer is the size up to which a buffer is pooled.
	keepBuffer = 64 << 10
	// keepScratch is the same for the buffer in which texts are unquoted.
	keepScratch = 2 << 20
)

// stream is the pooled state of reading one answer.
type stream struct {
	events  sse.Reader
	fast    fastChunk
	scratch []byte
}

var streams = sync.Pool{New: func() any { return new(stream) }}

// getStream returns a pooled stream for an answer of at most limit bytes. If the size
// of the answer is known, the buffer is allocated for all of it.
func getStream(in *timedReader, limit int) *stream {
	s := streams.Get().(*stream)
	s.events.Reset(in, max(limit, keepBuffer))
	s.events.KeepLast = true // not every endpoint sends a blank line at the end
	s.events.Grow(in.size)
	return s
}

func (s *stream) put() {
	s.events.Reset(nil, 0)
	s.fast = fastChunk{}
	if s.events.Buffered() > 2*keepBuffer {
		s.events = sse.Reader{}
	}
	if cap(s.scratch) <= keepScratch {
		streams.Put(s)
	}
}

// begin returns the first byte of an answer, which determines its form.
func (s *stream) begin() (first byte, err error) {
	first, err = s.events.Peek()
	if err == io.EOF {
		err = errEmpty
	}
	return first, err
}

// readAnswer reads a body, streamed or whole depending on its first byte: some
// endpoints answer streamed requests in one piece, and not all declare what they send.
func readAnswer(in *timedReader, a *answer) error {
	s := getStream(in, a.max)
	defer s.put()
	first, err := s.begin()
	if err != nil {
		return err
	}
	return s.readEither(in, first, a)
}

// readEither reads an answer whose first byte is known.
func (s *stream) readEither(in *timedReader, first byte, a *answer) error {
	switch {
	case first == '{':
		return s.readWhole(a)
	case isEventStart(first):
		return s.readStream(in, a)
	}
	return errGarbage
}

// isEventStart reports whether an event stream can begin with a byte: that of data,
// event, id, retry or a comment.
func isEventStart(first byte) bool { return strings.IndexByte("deir:", first) >= 0 }

// readStream reads server-sent events until [DONE] or the end.
func (s *stream) readStream(in *timedReader, a *answer) error {
	for {
		data, err := s.events.Next()
		if err != nil {
			return a.endOfStream(err)
		}
		if isDone(data) {
			in.limitRest(afterDone)
			s.drain()
			return nil
		}
		if err := s.addEvent(data, a); err != nil {
			if err == errGarbage && s.events.Incomplete() {
				return errTruncated
			}
			return err
		}
		if a.finish != "" && !in.limited {
			in.limitRest(afterFinish)
		}
	}
}

// endOfStream returns the error, if any, of a stream that ended without [DONE].
func (a *answer) endOfStream(err error) error {
	switch {
	case err == errTooLong:
		return err
	case a.finish != "": // complete, though not properly closed
		return nil
	case err == io.EOF:
		return errTruncated
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
	a.setModel(q.model)
	a.setUsage(q.usage)
	if err := a.addThinking(thought); err != nil {
		return true, err
	}
	if err := a.addText(text); err != nil {
		return true, err
	}
	if len(q.finish) > 0 {
		a.finish = string(q.finish)
	}
	if len(q.stop) > 0 {
		a.stop = string(q.stop)
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

// drain reads on after [DONE], until the end of the body or the timeout.
func (s *stream) drain() {
	for {
		if _, err := s.events.Next(); err != nil {
			return
		}
	}
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
		err = errEmpty
	}
	return err
}

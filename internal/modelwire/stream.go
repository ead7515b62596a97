package modelwire

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

var (
	errGarbage = errors.New("modelwire: that is no chat completion")
	errHalf    = errors.New("modelwire: the stream ended in the middle of the answer")
	errEmpty   = errors.New("modelwire: there is no choice in the answer")
)

const (
	// afterFinish is how long usage and [DONE] may take once the answer is
	// complete.
	afterFinish = 2 * time.Second
	// afterDone is how long the end of the body may take after [DONE]. Seeing
	// it is what lets the connection be used again.
	afterDone = 250 * time.Millisecond
	// keepBuffer is how large a buffer may be to be pooled.
	keepBuffer = 64 << 10
)

// stream is the pooled state of reading one streamed answer.
type stream struct {
	events   eventReader
	text     memo
	thinking memo
	scratch  []byte
}

var streams = sync.Pool{New: func() any {
	return &stream{
		events:   eventReader{buf: make([]byte, 8<<10)},
		text:     memo{keys: [][]byte{[]byte(`"content"`)}},
		thinking: memo{keys: [][]byte{[]byte(`"reasoning_content"`), []byte(`"reasoning"`)}},
	}
}}

func getStream(src io.Reader, max int) *stream {
	s := streams.Get().(*stream)
	s.events = eventReader{src: src, buf: s.events.buf, joined: s.events.joined, max: max}
	s.text.forget()
	s.thinking.forget()
	return s
}

func (s *stream) put() {
	s.events.src = nil
	if len(s.events.buf) <= keepBuffer && cap(s.events.joined) <= keepBuffer && cap(s.scratch) <= keepBuffer {
		streams.Put(s)
	}
}

// readAnswer reads a body, streamed or whole as its first byte tells: endpoints
// that do not stream answer streamed calls too, and not all declare what they
// send.
func readAnswer(in *patientReader, a *answer) error {
	s := getStream(in, max(a.max, keepBuffer))
	defer s.put()
	first, err := s.events.peek()
	switch {
	case err == io.EOF:
		return errEmpty
	case err != nil:
		return err
	case first == '{':
		return s.readWhole(a)
	case bytes.IndexByte([]byte("deir:"), first) >= 0: // data, event, id, retry, a comment
		return s.readStream(in, a)
	}
	return errGarbage
}

// readStream reads server-sent events until [DONE] or the end.
func (s *stream) readStream(in *patientReader, a *answer) error {
	for {
		data, err := s.events.next()
		if err != nil {
			return a.ended(err)
		}
		if isDone(data) {
			in.hurry(afterDone)
			s.drain()
			return nil
		}
		if err := s.take(data, a); err != nil {
			if err == errGarbage && s.events.cut {
				return errHalf
			}
			return err
		}
		if a.finish != "" && !in.hurried {
			in.hurry(afterFinish)
		}
	}
}

// ended judges a stream that ended without [DONE].
func (a *answer) ended(err error) error {
	switch {
	case err == errTooLong:
		return err
	case a.finish != "": // complete, though not properly closed
		return nil
	case err == io.EOF:
		return errHalf
	}
	return err
}

// take takes in one event.
func (s *stream) take(data []byte, a *answer) error {
	var ok bool
	if s.scratch, ok = s.text.read(s.scratch[:0], data); ok {
		return a.addText(s.scratch)
	}
	if s.scratch, ok = s.thinking.read(s.scratch[:0], data); ok {
		return a.addThinking(s.scratch)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	var c completion
	if err := decodeCompletion(data, &c); err != nil {
		return err
	}
	if err := a.add(&c); err != nil {
		return err
	}
	if !c.ordinary() {
		return nil
	}
	if d := &c.Choices[0].Delta; d.Content != "" {
		s.text.learn(data, d.Content)
	} else {
		s.thinking.learn(data, d.thinking())
	}
	return nil
}

// drain reads on after [DONE], to the end of the body or until it takes too
// long.
func (s *stream) drain() {
	for {
		if _, err := s.events.next(); err != nil {
			return
		}
	}
}

func isDone(data []byte) bool {
	return len(data) < 16 && bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]"))
}

// ordinary says whether a chunk carries one piece of text or thinking and
// nothing else.
func (c *completion) ordinary() bool {
	if len(c.Choices) != 1 || c.Usage.Kind() == '{' {
		return false
	}
	first := &c.Choices[0]
	m := &first.Delta
	return first.Index == 0 && first.FinishReason == "" && (m.Content != "") != (m.thinking() != "") &&
		len(m.ToolCalls) == 0 && m.Refusal == "" && first.Message.empty()
}

// decodeCompletion decodes one JSON value. An error that stands in place of an
// answer is returned as an *endpointError.
func decodeCompletion(data []byte, c *completion) error {
	if err := json.Unmarshal(data, c, lenient); err != nil {
		return errGarbage
	}
	if c.Error != nil && c.Error.Kind() != 'n' || c.Object == "error" {
		return parseEndpointError(data)
	}
	return nil
}

// readWhole reads an answer that is one JSON value.
func (s *stream) readWhole(a *answer) error {
	body, err := s.events.rest()
	if err != nil {
		return err
	}
	var c completion
	if err := decodeCompletion(body, &c); err != nil {
		return err
	}
	if len(c.Choices) == 0 {
		return errEmpty
	}
	return a.add(&c)
}

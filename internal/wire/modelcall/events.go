package modelcall

import (
	"errors"
	"io"
	"strings"

	"agentd/internal/base/sse"
)

var (
	// ErrTooLong means that an answer, or one event of it, exceeds Config.MaxAnswer.
	ErrTooLong = sse.ErrTooLong
	// ErrGarbage means that an answer is not of the wire's protocol.
	ErrGarbage = errors.New("modelcall: the answer is none of the protocol")
	// ErrTruncated means that a stream ended in the middle of the answer.
	ErrTruncated = errors.New("modelcall: the stream ended in the middle of the answer")
	// ErrEmpty means that an answer has neither content nor an error.
	ErrEmpty = errors.New("modelcall: the answer has no choice")
)

// keepBuffer is the size up to which a buffer is kept for another answer.
const keepBuffer = 64 << 10

// Events reads the events of an answer, or an answer that is one JSON value. It can be
// pooled.
type Events struct{ sse.Reader }

// Begin prepares to read an answer of at most limit bytes. If the size of the answer is
// known, the buffer is allocated for all of it.
func (e *Events) Begin(in *Reader, limit int) {
	e.Reset(in, max(limit, keepBuffer))
	e.KeepLast = true // not every endpoint sends a blank line at the end
	e.Grow(in.Size)
}

// End releases the source, and large buffers.
func (e *Events) End() {
	e.Reset(nil, 0)
	if e.Buffered() > 2*keepBuffer {
		*e = Events{}
	}
}

// First returns the first byte of an answer that is not white space, without consuming
// it. Errors: ErrEmpty, the source's.
func (e *Events) First() (first byte, err error) {
	first, err = e.Peek()
	if err == io.EOF {
		err = ErrEmpty
	}
	return first, err
}

// Drain reads until the end of the source, or its time-out: only then its connection is
// used again.
func (e *Events) Drain() {
	for {
		if _, err := e.Next(); err != nil {
			return
		}
	}
}

// IsEventStart reports whether an event stream can begin with a byte: that of data,
// event, id, retry or a comment.
func IsEventStart(first byte) bool { return strings.IndexByte("deir:", first) >= 0 }

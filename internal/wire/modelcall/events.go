package modelcall

import (
	"bytes"
	"errors"
	"io"
)

var (
	// ErrTooLong means that an answer exceeds Config.MaxAnswer.
	ErrTooLong = errors.New("modelcall: the answer is too long")
	// ErrGarbage means that an answer is not of the wire's protocol.
	ErrGarbage = errors.New("modelcall: the answer is none of the protocol")
	// ErrTruncated means that a stream ended in the middle of the answer.
	ErrTruncated = errors.New("modelcall: the stream ended in the middle of the answer")
	// ErrEmpty means that an answer has neither content nor an error.
	ErrEmpty = errors.New("modelcall: the answer has no choice")
)

// Events reads the data of server-sent events. Lines end in LF or CRLF.
// Comments and the fields event, id and retry are skipped; data lines of one event are
// joined. Unlike in the standard, the last event needs no blank line, because not
// every endpoint sends one.
type Events struct {
	Cut    bool         // the last event had no blank line: it may be incomplete
	Before func() error // if set, called before the source is read

	src    io.Reader
	buf    []byte // buf[r:w] is read and not yet returned
	r, w   int
	max    int   // bytes of one event
	err    error // of src, returned after the data before it
	joined []byte
}

// Next returns the next event's data, valid until the next call. Errors: io.EOF if the
// stream ended between events or inside the last one, ErrTooLong, the source's.
func (e *Events) Next() ([]byte, error) {
	var (
		at         int // how much of buf[r:w] was scanned
		lines      int // of data
		start, end int // the only line of data, from r
	)
	for {
		length, width, err := e.line(at)
		if err != nil {
			if err == io.EOF && lines > 0 {
				data := e.data(lines, start, end)
				e.r = e.w
				e.Cut = true
				return data, nil
			}
			return nil, err
		}
		line := e.buf[e.r+at : e.r+at+length]
		if length == 0 && lines > 0 {
			data := e.data(lines, start, end)
			e.r += at + width
			return data, nil
		}
		if offset, ok := dataField(line); ok {
			switch lines {
			case 0:
				start, end = at+offset, at+length
			case 1:
				e.joined = append(e.joined[:0], e.buf[e.r+start:e.r+end]...)
				fallthrough
			default:
				e.joined = append(e.joined, '\n')
				e.joined = append(e.joined, line[offset:]...)
			}
			lines++
		}
		at += width
		if lines == 0 {
			e.r += at
			at = 0
		}
	}
}

func (e *Events) data(lines, start, end int) []byte {
	if lines == 1 {
		return e.buf[e.r+start : e.r+end]
	}
	return e.joined
}

// dataField returns where the value of a data line begins.
func dataField(line []byte) (offset int, ok bool) {
	if !bytes.HasPrefix(line, []byte("data")) {
		return 0, false
	}
	switch {
	case len(line) == 4:
		return 4, true
	case line[4] != ':':
		return 0, false
	case len(line) > 5 && line[5] == ' ':
		return 6, true
	}
	return 5, true
}

// line finds the line that begins at offset at: its length without the line ending,
// and its width with it.
func (e *Events) line(at int) (length, width int, err error) {
	seen := at
	for {
		if i := bytes.IndexByte(e.buf[e.r+seen:e.w], '\n'); i >= 0 {
			length = seen + i - at
			width = length + 1
			break
		}
		seen = e.w - e.r
		if err := e.fill(); err != nil {
			if err != io.EOF || seen == at {
				return 0, 0, err
			}
			length, width = seen-at, seen-at
			break
		}
	}
	if length > 0 && e.buf[e.r+at+length-1] == '\r' {
		length--
	}
	return length, width, nil
}

// fill reads more after w, moving and growing the buffer as needed.
func (e *Events) fill() error {
	if e.err != nil {
		return e.err
	}
	if e.r > 0 && e.w == len(e.buf) || e.r == e.w {
		e.w = copy(e.buf, e.buf[e.r:e.w])
		e.r = 0
	}
	if e.w == len(e.buf) {
		if len(e.buf) >= e.max {
			return ErrTooLong
		}
		e.buf = append(e.buf, make([]byte, min(len(e.buf), e.max-len(e.buf)))...)
	}
	if e.Before != nil {
		if e.err = e.Before(); e.err != nil {
			return e.err
		}
	}
	for range 100 {
		var n int
		n, e.err = e.src.Read(e.buf[e.w:])
		e.w += n
		if n > 0 {
			return nil
		}
		if e.err != nil {
			return e.err
		}
	}
	e.err = io.ErrNoProgress
	return e.err
}

// peek returns the first byte that is not white space, without consuming it.
func (e *Events) peek() (byte, error) {
	for {
		for e.r < e.w {
			switch b := e.buf[e.r]; b {
			case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // and a byte order mark
				e.r++
			default:
				return b, nil
			}
		}
		if err := e.fill(); err != nil {
			return 0, err
		}
	}
}

// Rest returns everything up to the end of the source.
func (e *Events) Rest() ([]byte, error) {
	for {
		switch err := e.fill(); err {
		case nil:
		case io.EOF:
			return e.buf[e.r:e.w], nil
		default:
			return nil, err
		}
	}
}

const (
	// firstBuffer is the initial size of a buffer.
	firstBuffer = 8 << 10
	// keepBuffer is the size up to which a buffer is kept for another answer.
	keepBuffer = 64 << 10
)

// Begin prepares to read an answer of at most limit bytes. If the size of the answer is
// known, the buffer is allocated for all of it.
func (e *Events) Begin(in *Reader, limit int) {
	*e = Events{src: in, buf: e.buf, joined: e.joined, max: max(limit, keepBuffer)}
	if e.buf == nil {
		e.buf = make([]byte, firstBuffer)
	}
	if in.Size >= int64(len(e.buf)) && in.Size < int64(e.max) {
		e.buf = make([]byte, in.Size+1) // one more byte, to read the end
	}
}

// End reports whether the buffers are small enough to be kept for another answer.
func (e *Events) End() bool {
	e.src, e.Before = nil, nil
	if len(e.buf) > keepBuffer {
		e.buf = nil
	}
	return cap(e.joined) <= keepBuffer
}

// First returns the first byte of an answer that is not white space, without consuming
// it. Errors: ErrEmpty, the source's.
func (e *Events) First() (first byte, err error) {
	first, err = e.peek()
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
func IsEventStart(first byte) bool { return first != 0 && bytes.IndexByte([]byte("deir:"), first) >= 0 }

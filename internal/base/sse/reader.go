// Package sse reads streams of server-sent events as the HTML standard words
// them: lines that end in LF, CRLF or CR, a byte order mark at the beginning,
// comments, several data lines in one event, unknown fields.
package sse

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// ErrTooLong is the error of an event that exceeds the maximum of its reader.
var ErrTooLong = errors.New("an event of the stream is too long")

// firstBuffer is the initial size of a reader's buffer, in bytes.
const firstBuffer = 8 << 10

// Reader reads one stream. An event is returned as soon as its last byte was read.
type Reader struct {
	// KeepLast makes Next return an event at the end of the stream that has no
	// blank line after it. The standard drops it, but some servers send no blank
	// line there.
	KeepLast bool
	// BeforeRead is called, if set, before more is read from the source. Its error
	// is returned as if the source had returned it.
	BeforeRead func() error

	src    io.Reader
	buf    []byte // buf[r:w] is read and not yet returned
	r, w   int
	max    int    // bytes of one event
	err    error  // of src, returned after the data before it
	joined []byte // the data of an event with several data lines

	begun      bool // the first line was read
	skipLF     bool // the last line ended with CR, whose LF may still come
	incomplete bool
	name, id   []byte
	retry      time.Duration
}

// NewReader returns a reader of events of at most maxEvent bytes each.
func NewReader(src io.Reader, maxEvent int) *Reader {
	r := new(Reader)
	r.Reset(src, maxEvent)
	return r
}

// Reset makes the reader as NewReader returns it, except that it keeps its buffers.
// A nil source releases the old one.
func (e *Reader) Reset(src io.Reader, maxEvent int) {
	*e = Reader{src: src, max: maxEvent, buf: e.buf, joined: e.joined[:0], name: e.name[:0], id: e.id[:0]}
}

// Grow makes room for n bytes, as long as an event may have so many. It is called
// before the first read.
func (e *Reader) Grow(n int64) {
	if n >= int64(len(e.buf)) && n < int64(e.max) {
		e.buf = make([]byte, n+1) // one more byte, to read the end
	}
}

// Buffered returns the bytes of the buffers that Reset keeps.
func (e *Reader) Buffered() int { return len(e.buf) + cap(e.joined) }

// Name returns the name of the event that Next returned last, "" if it had none.
func (e *Reader) Name() string { return string(e.name) }

// ID returns the id of the stream as of the event that Next returned last, which
// need not have had one of its own.
func (e *Reader) ID() string { return string(e.id) }

// Retry returns how long the server asked to wait before a reconnection; 0: it did
// not say.
func (e *Reader) Retry() time.Duration { return e.retry }

// Incomplete reports whether the event that Next returned last had no blank line
// after it, so that a part of it may be missing. Only KeepLast makes that possible.
func (e *Reader) Incomplete() bool { return e.incomplete }

// Next returns the data of the next event, valid until the next call. Errors:
// io.EOF at the end of the stream, ErrTooLong, the source's.
func (e *Reader) Next() ([]byte, error) {
	var (
		at         int // how much of buf[r:w] was scanned
		lines      int // of data
		start, end int // the only line of data, from r
	)
	e.name = e.name[:0]
	for {
		from, to, next, err := e.line(at)
		if err != nil {
			if err == io.EOF && lines > 0 && e.KeepLast {
				data := e.data(lines, start, end)
				e.r = e.w
				e.incomplete = true
				return data, nil
			}
			return nil, err
		}
		line := e.buf[e.r+from : e.r+to]
		if len(line) == 0 {
			if lines > 0 {
				data := e.data(lines, start, end)
				e.r += next
				return data, nil
			}
			e.name = e.name[:0]
		} else if offset, ok := dataField(line); ok {
			switch lines {
			case 0:
				start, end = from+offset, to
			case 1:
				e.joined = append(e.joined[:0], e.buf[e.r+start:e.r+end]...)
				fallthrough
			default:
				e.joined = append(e.joined, '\n')
				e.joined = append(e.joined, line[offset:]...)
			}
			lines++
		} else {
			e.field(line)
		}
		at = next
		if lines == 0 {
			e.r += at
			at = 0
		}
	}
}

func (e *Reader) data(lines, start, end int) []byte {
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

// field takes a line that is not data.
func (e *Reader) field(line []byte) {
	if line[0] == ':' {
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.name = append(e.name[:0], value...)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.id = append(e.id[:0], value...)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			e.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// line finds the line that begins at offset at of buf[r:w], or after the LF there
// that belongs to the line before it. It returns the line's bounds without its
// ending, and where the next one begins. It never waits for the LF of a CRLF.
func (e *Reader) line(at int) (from, to, next int, err error) {
	from, seen := at, at
	for {
		if e.skipLF && e.r+from < e.w {
			e.skipLF = false
			if e.buf[e.r+from] == '\n' {
				from++
				seen = from
			}
		}
		unseen := e.buf[e.r+seen : e.w]
		end := bytes.IndexByte(unseen, '\n')
		if end >= 0 {
			unseen = unseen[:end]
		}
		if cr := bytes.IndexByte(unseen, '\r'); cr >= 0 {
			end = cr
		}
		if end >= 0 {
			to, next = seen+end, seen+end+1
			break
		}
		seen = e.w - e.r
		if err := e.fill(); err != nil {
			if err != io.EOF || seen == from || !e.KeepLast {
				return 0, 0, 0, err
			}
			to, next = seen, seen
			break
		}
	}
	if next > to && e.buf[e.r+to] == '\r' {
		switch {
		case e.r+next == e.w:
			e.skipLF = true
		case e.buf[e.r+next] == '\n':
			next++
		}
	}
	if !e.begun {
		e.begun = true
		from += len(e.buf[e.r+from:e.r+to]) - len(bytes.TrimPrefix(e.buf[e.r+from:e.r+to], []byte("\ufeff")))
	}
	return from, to, next, nil
}

// fill reads more after w, moving and growing the buffer as needed.
func (e *Reader) fill() error {
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
		e.buf = append(e.buf, make([]byte, min(max(len(e.buf), firstBuffer), e.max-len(e.buf)))...)
	}
	if e.BeforeRead != nil {
		if e.err = e.BeforeRead(); e.err != nil {
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

// Peek returns the first byte that is neither white space nor of a byte order mark,
// and consumes those before it. It determines whether a body is a stream at all.
func (e *Reader) Peek() (byte, error) {
	for {
		for e.r < e.w {
			switch b := e.buf[e.r]; b {
			case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF:
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

// Rest returns everything up to the end of the source, for a body that is no stream.
func (e *Reader) Rest() ([]byte, error) {
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

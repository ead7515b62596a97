package openaiclient

import (
	"bytes"
	"errors"
	"io"
)

// errTooLong means that an answer exceeds Config.MaxAnswer.
var errTooLong = errors.New("openaiclient: the answer is too long")

// eventReader reads the data of server-sent events. Lines end in LF or CRLF.
// Comments and the fields event, id and retry are skipped; data lines of one event are
// joined. Unlike in the standard, the last event needs no blank line, because not
// every endpoint sends one.
type eventReader struct {
	src    io.Reader
	buf    []byte // buf[r:w] is read and not yet returned
	r, w   int
	max    int   // bytes of one event
	err    error // of src, returned after the data before it
	cut    bool  // the last event had no blank line: it may be incomplete
	joined []byte
	before func() error // if set, called before src is read
}

// next returns the next event's data, valid until the next call. Errors: io.EOF if the
// stream ended between events or inside the last one, errTooLong, the source's.
func (e *eventReader) next() ([]byte, error) {
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
				e.cut = true
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

func (e *eventReader) data(lines, start, end int) []byte {
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
func (e *eventReader) line(at int) (length, width int, err error) {
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
func (e *eventReader) fill() error {
	if e.err != nil {
		return e.err
	}
	if e.r > 0 && e.w == len(e.buf) || e.r == e.w {
		e.w = copy(e.buf, e.buf[e.r:e.w])
		e.r = 0
	}
	if e.w == len(e.buf) {
		if len(e.buf) >= e.max {
			return errTooLong
		}
		e.buf = append(e.buf, make([]byte, min(len(e.buf), e.max-len(e.buf)))...)
	}
	if e.before != nil {
		if e.err = e.before(); e.err != nil {
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
func (e *eventReader) peek() (byte, error) {
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

// rest returns everything up to the end of the source.
func (e *eventReader) rest() ([]byte, error) {
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

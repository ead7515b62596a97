package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// frameSize is the maximum size of one event of a stream.
const frameSize = 16 << 20

var errFrameSize = errors.New("an event of the stream is too large")

// Frame is one server-sent event. ID is the id of the stream as of this event,
// which need not have brought one of its own.
type Frame struct {
	ID   string
	Name string // "" for a bare data line
	Data []byte
}

// Frames reads a stream of server-sent events as the HTML standard words it:
// any line ending, comments, several data lines, unknown fields.
type Frames struct {
	r      *bufio.Reader
	begun  bool
	skipLF bool   // the last line ended with CR, whose LF may still come
	line   []byte // the line being read
	id     string
	retry  time.Duration
}

// NewFrames reads from r.
func NewFrames(r io.Reader) *Frames { return &Frames{r: bufio.NewReader(r)} }

// Retry is how long the server asked to wait before a reconnection; 0: it did
// not say.
func (f *Frames) Retry() time.Duration { return f.retry }

// Next returns the next event, and io.EOF at the end of the stream. An incomplete
// event at the end is dropped.
func (f *Frames) Next() (Frame, error) {
	var frame Frame
	var data []byte
	got := false
	for {
		line, err := f.readLine()
		if err != nil {
			return Frame{}, err
		}
		if len(line) == 0 {
			if got {
				frame.ID, frame.Data = f.id, bytes.TrimSuffix(data, []byte("\n"))
				return frame, nil
			}
			frame.Name = ""
			continue
		}
		name, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			if len(data)+len(value) > frameSize {
				return Frame{}, errFrameSize
			}
			data, got = append(append(data, value...), '\n'), true
		case "event":
			frame.Name = value
		case "id":
			if !strings.Contains(value, "\x00") {
				f.id = value
			}
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				f.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// readLine returns a line without its ending. It never waits for the LF of a
// CRLF, so that an event is returned as soon as it is complete.
func (f *Frames) readLine() ([]byte, error) {
	f.line = f.line[:0]
	for {
		c, err := f.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if f.skipLF {
			f.skipLF = false
			if c == '\n' {
				continue
			}
		}
		switch c {
		case '\r':
			f.skipLF = true
			return f.text(), nil
		case '\n':
			return f.text(), nil
		}
		if len(f.line) > frameSize {
			return nil, errFrameSize
		}
		f.line = append(f.line, c)
	}
}

func (f *Frames) text() []byte {
	if !f.begun {
		f.begun = true
		return bytes.TrimPrefix(f.line, []byte("\ufeff"))
	}
	return f.line
}

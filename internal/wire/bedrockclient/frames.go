package bedrockclient

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"sync"

	"agentd/internal/wire/modelcall"
)

// pooledFrames are readers that are kept for other answers.
var pooledFrames = sync.Pool{New: func() any { return &frames{src: bufio.NewReaderSize(nil, 16<<10)} }}

// keepFrame is the size up to which the buffer of a frame is kept.
const keepFrame = 64 << 10

// read reads a body, in frames or whole.
func read(in *modelcall.Reader, limit int, to modelcall.Decoder) error {
	d := to.(*decoder)
	f := pooledFrames.Get().(*frames)
	f.src.Reset(in)
	defer func() {
		f.src.Reset(nil)
		if f.buf.Cap() <= keepFrame {
			pooledFrames.Put(f)
		}
	}()
	first, err := f.src.Peek(1)
	switch {
	case err == io.EOF:
		return modelcall.ErrEmpty
	case err != nil:
		return err
	case first[0] != 0: // frames begin with their length, which is below 16 MiB
		return modelcall.ReadAnswer(in.With(f.src), limit, d)
	}
	f.left = limit
	return d.frames(in, f)
}

// frames reads the frames of an event stream.
func (d *decoder) frames(in *modelcall.Reader, from *frames) error {
	for {
		m, err := from.next()
		switch {
		case err == nil:
		case errors.Is(err, modelcall.ErrTooLong):
			return err
		case d.Complete(): // though not properly closed
			return nil
		default:
			return err
		}
		last, err := d.frame(&m)
		if err != nil {
			return err
		}
		if last {
			in.LimitRest(modelcall.AfterEnd)
			_, _ = io.Copy(io.Discard, io.LimitReader(from.src, int64(from.left))) // only then the connection is used again
			return nil
		}
		if d.Complete() && !in.Limited() {
			in.LimitRest(modelcall.AfterFinish)
		}
	}
}

// frames reads frames of Amazon's event streams: two lengths and their checksum, headers,
// a payload, and a checksum of it all.
type frames struct {
	src  *bufio.Reader
	left int // bytes that may be read
	buf  bytes.Buffer
}

const preludeSize, sumSize = 12, 4

// next reads a frame, which is valid until the next call. Errors: ErrTruncated, ErrTooLong,
// ErrGarbage, the source's.
func (f *frames) next() (m frame, err error) {
	prelude, err := f.src.Peek(preludeSize)
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return m, modelcall.ErrTruncated
	case err != nil:
		return m, err
	}
	size, headers := binary.BigEndian.Uint32(prelude), binary.BigEndian.Uint32(prelude[4:])
	switch {
	case crc32.ChecksumIEEE(prelude[:8]) != binary.BigEndian.Uint32(prelude[8:]), size < preludeSize+sumSize,
		headers > size-preludeSize-sumSize:
		return m, modelcall.ErrGarbage
	case int64(size) > int64(f.left):
		return m, modelcall.ErrTooLong
	}
	f.left -= int(size)
	f.buf.Reset()
	n, err := f.buf.ReadFrom(io.LimitReader(f.src, int64(size)))
	switch {
	case err == nil && n < int64(size), errors.Is(err, io.ErrUnexpectedEOF):
		return m, modelcall.ErrTruncated
	case err != nil:
		return m, err
	}
	all := f.buf.Bytes()
	end := len(all) - sumSize
	if crc32.ChecksumIEEE(all[:end]) != binary.BigEndian.Uint32(all[end:]) || !m.read(all[preludeSize:preludeSize+headers]) {
		return m, modelcall.ErrGarbage
	}
	m.payload = all[preludeSize+headers : end]
	return m, nil
}

// frame is an event, or an error in its place.
type frame struct {
	message, event, exception, code, text []byte // values of headers
	payload                               []byte
}

// sizes are how many bytes the values of headers have, by their types; the types 6 and 7,
// bytes and text, begin with their length.
var sizes = [...]int{0, 0, 1, 2, 4, 8, 0, 0, 8, 16}

// read reads the headers, and reports whether they are some.
func (m *frame) read(headers []byte) bool {
	for len(headers) > 0 {
		name := 1 + int(headers[0])
		if len(headers) <= name || int(headers[name]) >= len(sizes) {
			return false
		}
		begin, kind := name+1, headers[name]
		size := sizes[kind]
		if kind == 6 || kind == 7 {
			if len(headers) < begin+2 {
				return false
			}
			size = int(binary.BigEndian.Uint16(headers[begin:]))
			begin += 2
		}
		if len(headers) < begin+size {
			return false
		}
		if kind == 7 {
			m.set(headers[1:name], headers[begin:begin+size])
		}
		headers = headers[begin+size:]
	}
	return true
}

func (m *frame) set(name, value []byte) {
	switch string(name) {
	case ":message-type":
		m.message = value
	case ":event-type":
		m.event = value
	case ":exception-type":
		m.exception = value
	case ":error-code":
		m.code = value
	case ":error-message":
		m.text = value
	}
}

// frame reads a frame: an event, or an error in its place.
func (d *decoder) frame(m *frame) (last bool, err error) {
	switch string(m.message) {
	case "event":
		return d.event(string(m.event), m.payload)
	case "exception":
		reported := modelcall.ParseError(m.payload)
		reported.Type = string(m.exception)
		reported.Code = statusOf(reported.Type)
		return true, reported
	case "error":
		kind := string(m.code)
		return true, &modelcall.EndpointError{Type: kind, Message: string(m.text), Code: statusOf(kind)}
	}
	return false, modelcall.ErrGarbage
}

// statusOf returns the HTTP status that an exception has outside of a stream.
func statusOf(exception string) string {
	for _, known := range []struct{ word, status string }{
		{"throttling", "429"}, {"validation", "400"}, {"serviceunavailable", "503"}, {"modeltimeout", "408"}, {"modelnotready", "503"},
		{"accessdenied", "403"}, {"expiredtoken", "403"}, {"resourcenotfound", "404"},
	} {
		if strings.HasPrefix(strings.ToLower(exception), known.word) {
			return known.status
		}
	}
	return "500" // internalServer, modelStreamError
}

package bedrockclient

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"agentd/internal/wire/modelcall"
)

// read reads a body, in frames or whole.
func read(in *modelcall.Reader, limit int, to modelcall.Decoder) error {
	d := to.(*decoder)
	src := bufio.NewReaderSize(in, 16<<10)
	first, err := src.Peek(1)
	switch {
	case err == io.EOF:
		return modelcall.ErrEmpty
	case err != nil:
		return err
	case first[0] != 0: // frames begin with their length, which is below 16 MiB
		return modelcall.ReadAnswer(in.With(src), limit, d)
	}
	return d.frames(in, src, limit)
}

// frames reads the frames of an event stream.
func (d *decoder) frames(in *modelcall.Reader, src io.Reader, limit int) error {
	frames := eventstream.NewDecoder()
	bounded := &io.LimitedReader{R: src, N: int64(limit)}
	var payload []byte
	for n := 0; ; n++ {
		m, err := frames.Decode(bounded, payload[:0])
		switch {
		case err == nil:
		case bounded.N == 0:
			return modelcall.ErrTooLong
		case d.Complete(): // though not properly closed
			return nil
		default:
			return frameError(err)
		}
		payload = m.Payload
		last, err := d.frame(&m)
		if err != nil {
			return err
		}
		if last {
			in.LimitRest(modelcall.AfterEnd)
			_, _ = io.Copy(io.Discard, bounded) // only then the connection is used again
			return nil
		}
		if d.Complete() && !in.Limited() {
			in.LimitRest(modelcall.AfterFinish)
		}
	}
}

// frameError returns the error of a frame that could not be read.
func frameError(err error) error {
	var length eventstream.LengthError
	var sum eventstream.ChecksumError
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return modelcall.ErrTruncated
	case errors.As(err, &length), errors.As(err, &sum):
		return modelcall.ErrGarbage
	}
	return err
}

// frame reads a frame: an event, or an error in its place.
func (d *decoder) frame(m *eventstream.Message) (last bool, err error) {
	header := func(name string) string {
		if v := m.Headers.Get(name); v != nil {
			return v.String()
		}
		return ""
	}
	switch header(eventstreamType) {
	case "event":
		return d.event(header(":event-type"), m.Payload)
	case "exception":
		reported := modelcall.ParseError(m.Payload)
		reported.Type = header(":exception-type")
		reported.Code = statusOf(reported.Type)
		return true, reported
	case "error":
		kind := header(":error-code")
		return true, &modelcall.EndpointError{Type: kind, Message: header(":error-message"), Code: statusOf(kind)}
	}
	return false, modelcall.ErrGarbage
}

const eventstreamType = ":message-type"

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

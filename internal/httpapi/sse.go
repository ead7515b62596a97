package httpapi

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"agentd/internal/authz"
	"agentd/internal/route"
)

// coalesce is how long a frame may wait for the next one, so that a burst does
// not cost a system call for each. A frame after a pause never waits.
const coalesce = time.Millisecond

// Reasons why a stream ends before its source does.
var (
	errDraining = errors.New("the server stops; the stream can be resumed elsewhere")
	errRevoked  = errors.New("the credential does not count any more")
	errReader   = errors.New("the reader is gone or does not read")
)

// StreamOptions say what kind of stream is opened.
type StreamOptions struct {
	// Resumable streams start with a retry line and end at once when the
	// server stops; others may finish.
	Resumable bool
	// Beat is sent while the stream is silent; nil: a comment.
	Beat []byte
	// Every is how long the silence may last; 0: the server's heartbeat.
	Every time.Duration
}

// Stream writes server-sent events. Send may be called from one goroutine; a
// timer writes heartbeats beside it, so that a silent stream holds no
// goroutine but its source's.
//
// The context of a stream ends when the client goes away, when a frame cannot
// be written in time, when the credential is revoked and when the server stops.
type Stream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	x      *exchange
	wire   *http.ResponseController
	times  streamTimes
	all    *streams
	opts   StreamOptions

	mu      sync.Mutex
	closed  bool
	unsent  bool // bytes wait for a flush
	written time.Time
	flushed time.Time
	allowed time.Time // when the write deadline was set
	beat    *time.Timer
	later   *time.Timer // flushes the end of a burst; nil until there is one
}

// OpenStream starts an event stream as the answer to a Raw route's request.
// The caller closes it.
// Error: fault.Unavailable where the server stops.
func OpenStream(r *http.Request, opts StreamOptions) (*Stream, error) {
	x := exchangeOf(r.Context())
	x.held = nil // a stream is sent as it comes, and cannot be sent again
	st, err := x.server.streams.open(x, opts)
	if err == nil {
		st.start()
	}
	return st, err
}

// Context ends with the stream; its cause says why.
func (s *Stream) Context() context.Context { return s.ctx }

// ReaderGone says whether the stream ended because its reader left or did not
// read, and not because the server or the credential did.
func (s *Stream) ReaderGone() bool {
	cause := context.Cause(s.ctx)
	return errors.Is(cause, errReader) || errors.Is(cause, context.Canceled)
}

// Failed notes for the log why a stream ends early, unless it has ended anyway.
func (s *Stream) Failed(err error) {
	if s.ctx.Err() == nil {
		_, s.x.failed = Classify(err)
	}
}

var (
	eventStream  = []string{"text/event-stream"}
	noCache      = []string{"no-cache"}
	notBuffered  = []string{"no"}
	retryLine    = []byte("retry: 2000\n\n")
	commentFrame = []byte(": keep-alive\n\n")
)

func streamHeaders(h http.Header) {
	h["Content-Type"] = eventStream
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = notBuffered // reverse proxies would hold frames back
}

// start sends the header, so that the client knows that it is connected.
func (s *Stream) start() {
	streamHeaders(s.x.Header())
	s.x.WriteHeader(http.StatusOK)
	s.mu.Lock()
	defer s.mu.Unlock()
	var first []byte
	if s.opts.Resumable {
		first = retryLine
	}
	s.put(time.Now(), first)
	s.beat = time.AfterFunc(s.opts.Every, s.heartbeat)
}

// Send writes a frame. Error: why the stream ended.
func (s *Stream) Send(f route.Frame) error {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	appendFrame(buf, f)
	s.mu.Lock()
	if !s.closed && s.ctx.Err() == nil {
		s.put(time.Now(), buf.Bytes())
	}
	s.mu.Unlock()
	if buf.Cap() <= keepBuffer {
		buffers.Put(buf)
	}
	return context.Cause(s.ctx)
}

// put writes bytes and sees to it that they are flushed. s.mu is held.
func (s *Stream) put(now time.Time, p []byte) {
	if now.Sub(s.allowed) > time.Second { // it costs about what a small write does
		s.allowed = now
		s.x.allow(now, s.times.frame)
	}
	if _, err := s.x.Write(p); err != nil {
		s.cancel(errReader)
		return
	}
	s.written, s.unsent = now, true
	switch {
	case now.Sub(s.flushed) >= coalesce:
		s.flush(now)
	case s.later == nil:
		s.later = time.AfterFunc(coalesce, s.flushBurst)
	default:
		s.later.Reset(coalesce)
	}
}

func (s *Stream) flush(now time.Time) {
	s.flushed, s.unsent = now, false
	if err := s.wire.Flush(); err != nil {
		s.cancel(errReader)
	}
}

func (s *Stream) flushBurst() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsent && !s.closed && s.ctx.Err() == nil {
		s.flush(time.Now())
	}
}

// heartbeat runs on its timer: it breaks the silence, or waits for as long as
// the silence still may last.
func (s *Stream) heartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ctx.Err() != nil {
		return
	}
	now := time.Now()
	silent := now.Sub(s.written)
	if silent >= s.opts.Every {
		s.put(now, s.opts.Beat)
		silent = 0
	}
	s.beat.Reset(s.opts.Every - silent)
}

// Close ends the stream. What was sent is flushed by the server.
func (s *Stream) Close() {
	s.all.remove(s)
	s.mu.Lock()
	s.closed = true
	if s.beat != nil {
		s.beat.Stop()
	}
	if s.later != nil {
		s.later.Stop()
	}
	s.mu.Unlock()
	s.cancel(context.Canceled)
}

// appendFrame writes a frame's lines. Data with line breaks becomes several
// data lines, and a name or id with one is left out: nothing forges a frame.
func appendFrame(buf *bytes.Buffer, f route.Frame) {
	if f.ID != "" && !strings.ContainsAny(f.ID, "\r\n\x00") {
		buf.WriteString("id: ")
		buf.WriteString(f.ID)
		buf.WriteByte('\n')
	}
	if f.Name != "" && !strings.ContainsAny(f.Name, "\r\n") {
		buf.WriteString("event: ")
		buf.WriteString(f.Name)
		buf.WriteByte('\n')
	}
	data := f.Data
	for {
		end := bytes.IndexByte(data, '\n')
		if cr := bytes.IndexByte(data, '\r'); cr >= 0 && (end < 0 || cr < end) {
			end = cr
		}
		buf.WriteString("data: ")
		if end < 0 {
			buf.Write(data)
			break
		}
		buf.Write(data[:end])
		buf.WriteByte('\n')
		data = data[end+1:]
	}
	buf.WriteString("\n\n")
}

type openFunc func(context.Context, authz.Caller, any) (iter.Seq2[route.Frame, error], error)

// serveStream runs a row's stream in the request's goroutine.
func (s *Server) serveStream(x *exchange, r *http.Request, in *binder, open openFunc) error {
	arg, held, err := in.bind(x, r)
	defer held.release()
	if err != nil {
		return err
	}
	st, err := s.streams.open(x, StreamOptions{Resumable: true})
	if err != nil {
		return err
	}
	defer st.Close()
	frames, err := open(st.ctx, x.who, arg)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		streamHeaders(x.Header())
		return nil
	}
	st.start()
	for frame, err := range frames {
		if err != nil {
			st.Failed(err)
			break
		}
		if st.Send(frame) != nil {
			break
		}
	}
	return nil
}

package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"agentd/internal/base/route"
	"agentd/internal/edge/streamconn"
)

const (
	// coalesceFor is how long a frame may wait for the next one, so that a burst
	// does not cost a system call for each. A frame after a pause never waits.
	coalesceFor = time.Millisecond
	// maxBuffered is the maximum of bytes that wait for a flush.
	maxBuffered = 32 << 10
)

// Reasons why a stream ends before its source does.
var (
	errDraining = errors.New("the server is stopping; the stream can be resumed on another")
	errRevoked  = errors.New("the credential is no longer valid")
	errReader   = errors.New("the client left or does not read")
)

// StreamOptions selects the kind of stream that is opened.
type StreamOptions struct {
	// Resumable streams start with a retry line and end at once, with another one,
	// when the server begins to stop; others may finish.
	Resumable bool
	// DeferHeader sends the response header together with the first frame, for
	// sources whose first frame is ready.
	DeferHeader bool
	// Heartbeat is sent while the stream is silent; nil: a comment.
	Heartbeat []byte
	// HeartbeatEvery is how long the silence may last; 0: the server's interval.
	HeartbeatEvery time.Duration
}

// Stream writes server-sent events. Send may be called from one goroutine; a
// timer writes heartbeats beside it, so that a silent stream holds no
// goroutine but its source's.
//
// The context of a stream ends when the client leaves, when a frame cannot be
// written in time, when the credential is revoked and when the server stops.
type Stream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	x      *exchange        // the request that the stream belongs to
	out    *exchange        // written to, or with conn set only counted in
	conn   *streamconn.Conn // the hijacked connection; nil: out writes
	all    *streams
	opts   StreamOptions

	mu        sync.Mutex
	closed    bool
	ending    bool // the next frame is the last one
	unsent    bool // bytes wait for a flush
	written   time.Time
	flushed   time.Time
	deadline  time.Time // when the write deadline was last set
	heartbeat *time.Timer
	burstEnd  *time.Timer // flushes the end of a burst; nil until the first burst
}

// OpenStream starts an event stream as the answer to a Raw route's request.
// The caller closes it.
// Errors: fault.Unavailable where the server stops, fault.Limited where the
// tenant has too many.
func OpenStream(r *http.Request, opts StreamOptions) (*Stream, error) {
	x := exchangeOf(r.Context())
	x.held = nil // a stream is sent as it comes, and cannot be sent again
	st, err := x.server.streams.open(x, x, opts)
	if err == nil {
		st.out = x
		st.start()
	}
	return st, err
}

// Context ends with the stream; its cause is the reason.
func (s *Stream) Context() context.Context { return s.ctx }

// ReaderGone reports whether the stream ended because its client left or did not
// read, and not because of the server or the credential.
func (s *Stream) ReaderGone() bool {
	cause := context.Cause(s.ctx)
	return errors.Is(cause, errReader) || errors.Is(cause, context.Canceled)
}

// Failed records for the log why a stream ends early, unless it has ended anyway.
func (s *Stream) Failed(err error) {
	if s.ctx.Err() == nil {
		_, s.out.failed = Classify(err)
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

// start sends the header, so that the client sees at once that it is connected.
func (s *Stream) start() {
	streamHeaders(s.out.Header())
	s.out.WriteHeader(http.StatusOK)
	s.begin(nil)
}

// begin sends what comes before the first frame, and starts the heartbeat.
func (s *Stream) begin(head []byte) {
	if s.opts.Resumable {
		head = append(head, retryLine...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opts.DeferHeader {
		s.put(time.Now(), head, false)
	}
	s.heartbeat = time.AfterFunc(s.opts.HeartbeatEvery, s.beat)
}

// Send writes a frame. Its error is the reason why the stream ended.
func (s *Stream) Send(f route.Frame) error {
	wire := f.Wire
	var buf *bytes.Buffer
	if wire == nil {
		buf = buffers.Get().(*bytes.Buffer)
		buf.Reset()
		buf.Write(f.AppendWire(buf.AvailableBuffer()))
		wire = buf.Bytes()
	}
	s.mu.Lock()
	if !s.closed && s.ctx.Err() == nil {
		s.put(time.Now(), wire, f.More)
	}
	s.mu.Unlock()
	if buf != nil && buf.Cap() <= keepBuffer {
		buffers.Put(buf)
	}
	return context.Cause(s.ctx)
}

// SendLast is Send for the last frame of a stream: it is sent together with the
// end of the response, or at the end of a burst where that takes longer.
func (s *Stream) SendLast(f route.Frame) error {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	return s.Send(f)
}

// put writes bytes and makes sure that they are flushed; more reports that others
// follow at once. s.mu is held.
func (s *Stream) put(now time.Time, p []byte, more bool) {
	s.written = now
	pause := !s.ending && now.Sub(s.flushed) >= coalesceFor
	if s.conn != nil && s.conn.Buffered() == 0 && pause && !more {
		s.flushed = now
		s.count(s.conn.Write(now, p, s.all.times.frame))
		return
	}
	full := s.buffer(now, p)
	if s.ctx.Err() != nil {
		return
	}
	s.unsent = true
	switch {
	case more && !full:
	case more || pause:
		s.flush(now)
	case s.burstEnd == nil:
		s.burstEnd = time.AfterFunc(coalesceFor, s.flushBurst)
	default:
		s.burstEnd.Reset(coalesceFor)
	}
}

// buffer keeps bytes until they are flushed, and reports whether enough of them
// are kept. On net/http's connection its own buffer keeps them.
func (s *Stream) buffer(now time.Time, p []byte) (full bool) {
	if s.conn != nil {
		return s.conn.Buffer(p) >= maxBuffered
	}
	if now.Sub(s.deadline) > min(time.Second, s.all.times.frame/4) { // setting one costs about what a small write does
		s.deadline = now
		s.out.extendDeadline(now, s.all.times.frame)
	}
	if _, err := s.out.Write(p); err != nil {
		s.cancel(errReader)
	}
	return false
}

// count adds what was written to the request's bytes, and ends the stream where
// writing failed.
func (s *Stream) count(n int, err error) {
	s.out.bytes += int64(n)
	if err != nil {
		s.cancel(errReader)
	}
}

func (s *Stream) flush(now time.Time) {
	s.flushed, s.unsent = now, false
	if s.conn != nil {
		s.count(s.conn.Flush(now, s.all.times.frame))
		return
	}
	if err := http.NewResponseController(s.out.w).Flush(); err != nil {
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

// beat is called by the heartbeat's timer: it sends a heartbeat after a silence of
// full length, and otherwise sets the timer to the rest of the silence.
func (s *Stream) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ctx.Err() != nil {
		return
	}
	now := time.Now()
	silent := now.Sub(s.written)
	if silent >= s.opts.HeartbeatEvery {
		s.put(now, s.opts.Heartbeat, false)
		silent = 0
	}
	s.heartbeat.Reset(s.opts.HeartbeatEvery - silent)
}

// reconnectFrame has the client reconnect after one to four seconds at random, so
// that the readers of a server that stops do not all arrive elsewhere at once.
func reconnectFrame() []byte {
	return fmt.Appendf(nil, "retry: %d\n\n", 1000+rand.N(3000))
}

// Close ends the stream. What was sent is flushed: here on a hijacked connection,
// otherwise by net/http.
func (s *Stream) Close() {
	s.all.remove(s)
	s.mu.Lock()
	if s.opts.Resumable && !s.closed && s.heartbeat != nil && errors.Is(context.Cause(s.ctx), errDraining) {
		s.buffer(time.Now(), reconnectFrame())
	}
	s.closed = true
	if s.heartbeat != nil {
		s.heartbeat.Stop()
	}
	if s.burstEnd != nil {
		s.burstEnd.Stop()
	}
	if s.conn != nil {
		s.closeConn()
	}
	s.mu.Unlock()
	s.cancel(context.Canceled)
}

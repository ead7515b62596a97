package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"agentd/internal/base/route"
)

const (
	// coalesce is how long a frame may wait for the next one, so that a burst
	// does not cost a system call for each. A frame after a pause never waits.
	coalesce = time.Millisecond
	// gathered is how much waits at most.
	gathered = 32 << 10
)

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
	// Joined streams send their header with the first frame, which is there
	// already.
	Joined bool
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
	x      *exchange // whose the stream is
	out    *exchange // what is written to, or at least counted in
	conn   net.Conn  // taken over from the server; nil: out writes
	all    *streams
	opts   StreamOptions

	mu      sync.Mutex
	closed  bool
	ending  bool          // nothing follows but the end
	unsent  bool          // bytes wait for a flush
	buf     *bytes.Buffer // those bytes, where the connection is ours; nil: none
	written time.Time
	flushed time.Time
	allowed time.Time // when the write deadline was set
	beat    *time.Timer
	later   *time.Timer // flushes the end of a burst; nil until there is one
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

// start sends the header, so that the client knows that it is connected.
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
	if !s.opts.Joined {
		s.put(time.Now(), head, false)
	}
	s.beat = time.AfterFunc(s.opts.Every, s.heartbeat)
}

// Send writes a frame. Error: why the stream ended.
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

// SendLast is Send for what ends the stream: it goes out together with the end
// of the answer, or, where that takes long, as the end of a burst does.
func (s *Stream) SendLast(f route.Frame) error {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	return s.Send(f)
}

// put writes bytes and sees to it that they are flushed; more says that others
// follow at once. s.mu is held.
func (s *Stream) put(now time.Time, p []byte, more bool) {
	s.written = now
	pause := !s.ending && now.Sub(s.flushed) >= coalesce
	if s.conn != nil && s.buf == nil && pause && !more {
		s.flushed = now
		s.write(now, p)
		return
	}
	if s.gather(now, p); s.ctx.Err() != nil {
		return
	}
	s.unsent = true
	switch {
	case more && (s.buf == nil || s.buf.Len() < gathered):
	case more || pause:
		s.flush(now)
	case s.later == nil:
		s.later = time.AfterFunc(coalesce, s.flushBurst)
	default:
		s.later.Reset(coalesce)
	}
}

// gather keeps bytes until they are flushed.
func (s *Stream) gather(now time.Time, p []byte) {
	if s.conn == nil {
		s.allow(now)
		if _, err := s.out.Write(p); err != nil {
			s.cancel(errReader)
		}
		return
	}
	if s.buf == nil {
		s.buf = buffers.Get().(*bytes.Buffer)
		s.buf.Reset()
	}
	s.buf.Write(p)
}

// allow gives the reader some time to take what is written next.
func (s *Stream) allow(now time.Time) {
	if now.Sub(s.allowed) <= min(time.Second, s.all.times.frame/4) { // it costs about what a small write does
		return
	}
	s.allowed = now
	if s.conn == nil {
		s.out.allow(now, s.all.times.frame)
		return
	}
	_ = s.conn.SetWriteDeadline(now.Add(s.all.times.frame)) // a closed connection fails at the write
}

// write hands bytes to the connection.
func (s *Stream) write(now time.Time, p []byte) {
	s.allow(now)
	n, err := s.conn.Write(p)
	s.out.bytes += int64(n)
	if err != nil {
		s.cancel(errReader)
	}
}

func (s *Stream) flush(now time.Time) {
	s.flushed, s.unsent = now, false
	if s.conn == nil {
		if err := http.NewResponseController(s.out.w).Flush(); err != nil {
			s.cancel(errReader)
		}
		return
	}
	if s.buf == nil {
		return
	}
	s.write(now, s.buf.Bytes())
	if s.buf.Cap() <= keepBuffer {
		buffers.Put(s.buf)
	}
	s.buf = nil
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
		s.put(now, s.opts.Beat, false)
		silent = 0
	}
	s.beat.Reset(s.opts.Every - silent)
}

// Close ends the stream. What was sent is flushed, on a connection that is not
// ours by the server.
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
	if s.conn != nil {
		s.hangUp()
	}
	s.mu.Unlock()
	s.cancel(context.Canceled)
}

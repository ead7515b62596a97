package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/model"
)

// stream answers with events as the model writes. The status waits for the first
// piece, so that a model that refuses is a refusal with its own status; but not
// for long, because clients want to see that something happens.
func (m *Messages) stream(r *http.Request, call *modelproxy.Call, req *Request, ask model.Request) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	buf := answerBuffers.Get().(*[]byte)
	s := &streamWriter{
		r: r, cancel: cancel, name: req.Model, tokens: estimate(ask.Messages, ask.Tools, len(req.Messages)),
		opts:   httpapi.StreamOptions{DeferHeader: true, Heartbeat: []byte(pingFrame), HeartbeatEvery: cmp.Or(m.Ping, defaultPing)},
		frames: frames{buf: (*buf)[:0], thinking: req.ShowsThinking()},
	}
	defer func() {
		*buf = s.frames.buf
		putBuffer(buf)
	}()
	s.timer = time.AfterFunc(cmp.Or(m.StatusWait, defaultStatusWait), s.openLate)
	defer s.close()
	ask.Detailed = true
	resp, err := call.Generate(ctx, ask, s.addPiece)
	return s.finish(&resp, err)
}

// streamWriter says what a model says, in events. All of it but late belongs to the
// goroutine of the request.
type streamWriter struct {
	r      *http.Request
	cancel context.CancelCauseFunc // ends the model's call
	name   string
	tokens int
	opts   httpapi.StreamOptions
	timer  *time.Timer

	timerStopped bool        // out is there, or err, and late is over
	unbind       func() bool // the call from the stream's end

	mu      sync.Mutex // while late may run
	out     *httpapi.Stream
	err     error // why there is no out
	settled bool  // nothing is opened any more
	frames  frames
}

// open begins the answer. s.mu is held, or late is over.
func (s *streamWriter) open() {
	if s.out, s.err = httpapi.OpenStream(s.r, s.opts); s.err != nil {
		s.cancel(s.err)
		return
	}
	// A reader that leaves, a key that is revoked: the model need not go on.
	s.unbind = context.AfterFunc(s.out.Context(), func() { s.cancel(context.Cause(s.out.Context())) })
	s.frames.start(newID(), s.name, s.tokens)
}

// openLate runs on its timer, where the model has said nothing for long.
func (s *streamWriter) openLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil || s.settled || s.err != nil {
		return
	}
	if s.open(); s.out != nil {
		s.send()
	}
}

// stopTimer ends the time in which late may run; the answer begins now at the
// latest if it is to.
func (s *streamWriter) stopTimer(begin bool) {
	if s.timerStopped {
		return
	}
	s.timerStopped = true
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
	if begin && s.out == nil && s.err == nil {
		s.open()
	}
}

// maxBuffered is how much waits at most for the rest of what is at hand.
const maxBuffered = 16 << 10

// addPiece takes a piece of the answer.
func (s *streamWriter) addPiece(d model.Delta) {
	s.stopTimer(true)
	if s.out == nil {
		return
	}
	if d == (model.Delta{}) {
		s.send()
		return
	}
	s.frames.addDelta(d)
	if len(s.frames.buf) >= maxBuffered {
		s.send()
	}
}

// send sends what was rendered. A stream that cannot be written to ends its
// context, and with it the call.
func (s *streamWriter) send() {
	if len(s.frames.buf) > 0 {
		_ = s.out.Send(route.Frame{Wire: s.frames.buf})
		s.frames.buf = s.frames.buf[:0]
	}
}

// finish says how the answer ended. Errors: refusals, where nothing was sent.
func (s *streamWriter) finish(resp *model.Response, err error) error {
	s.stopTimer(err == nil)
	switch {
	case s.err != nil:
		return s.err
	case s.out == nil:
		return err
	case err == nil:
		s.frames.end(resp)
	default:
		_, e := httpapi.Classify(err)
		s.out.Failed(err)
		s.frames.fail(e, httpapi.RequestID(s.r.Context()))
	}
	_ = s.out.SendLast(route.Frame{Wire: s.frames.buf}) // as send does
	return nil
}

// close ends the stream.
func (s *streamWriter) close() {
	s.stopTimer(false)
	if s.unbind != nil {
		s.unbind()
	}
	if s.out != nil {
		s.out.Close()
	}
}

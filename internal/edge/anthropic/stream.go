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

// stream answers with events while the model writes. The status waits for the first
// piece, so that an error of the model gets its own status, but not longer than
// StatusWait, because clients expect a sign of life.
func (m *Messages) stream(r *http.Request, call *modelproxy.Call, req *Request, modelReq model.Request) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	buf := answerBuffers.Get().(*[]byte)
	s := &streamWriter{
		r: r, cancel: cancel, name: req.Model, tokens: estimate(modelReq.Messages, modelReq.Tools, len(req.Messages)),
		opts:   httpapi.StreamOptions{DeferHeader: true, Heartbeat: []byte(pingFrame), HeartbeatEvery: cmp.Or(m.Ping, defaultPing)},
		frames: frames{buf: (*buf)[:0], thinking: req.ShowsThinking()},
	}
	defer func() {
		*buf = s.frames.buf
		putBuffer(buf)
	}()
	s.timer = time.AfterFunc(cmp.Or(m.StatusWait, defaultStatusWait), s.openLate)
	defer s.close()
	modelReq.Detailed = true
	resp, err := call.Generate(ctx, modelReq, s.addPiece)
	return s.finish(&resp, call, err)
}

// streamWriter writes a model's answer as events. All methods but openLate run on the
// goroutine of the request.
type streamWriter struct {
	r      *http.Request
	cancel context.CancelCauseFunc // cancels the model's call
	name   string
	tokens int
	opts   httpapi.StreamOptions
	timer  *time.Timer

	timerStopped bool        // out or err is set, or will not be; openLate does nothing any more
	unbind       func() bool // detaches the call from the stream's end

	mu      sync.Mutex // guards what follows while openLate may run
	out     *httpapi.Stream
	err     error // why out could not be opened
	settled bool  // openLate must not open the stream any more
	frames  frames
}

// open opens the stream. s.mu is held.
func (s *streamWriter) open() {
	if s.out, s.err = httpapi.OpenStream(s.r, s.opts); s.err != nil {
		s.cancel(s.err)
		return
	}
	// When the client leaves or its key is revoked, the model's call is cancelled.
	s.unbind = context.AfterFunc(s.out.Context(), func() { s.cancel(context.Cause(s.out.Context())) })
	s.frames.start(newID(), s.name, s.tokens)
}

// openLate opens the stream when the model has sent nothing for StatusWait.
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

// stopTimer ends the time in which openLate may open the stream, and opens it now
// unless open is false or it is open already.
func (s *streamWriter) stopTimer(open bool) {
	if s.timerStopped {
		return
	}
	s.timerStopped = true
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
	if open && s.out == nil && s.err == nil {
		s.open()
	}
}

// maxBuffered is how many bytes wait for the rest of a batch of pieces.
const maxBuffered = 16 << 10

// addPiece adds a piece of the answer; the empty one ends a batch.
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

// send sends the rendered events. A failure ends the stream's context, and with it
// the call.
func (s *streamWriter) send() {
	if len(s.frames.buf) > 0 {
		_ = s.out.Send(route.Frame{Wire: s.frames.buf})
		s.frames.buf = s.frames.buf[:0]
	}
}

// finish sends the end of the answer. It returns the error if nothing was sent yet.
func (s *streamWriter) finish(resp *model.Response, call *modelproxy.Call, err error) error {
	s.stopTimer(err == nil)
	switch {
	case s.err != nil:
		return s.err
	case s.out == nil:
		return err
	case err == nil:
		from := call.Target()
		s.frames.end(resp, sealOpaque(resp, &from))
	default:
		_, e := httpapi.Classify(err)
		s.out.Failed(err)
		s.frames.fail(e, httpapi.RequestID(s.r.Context()))
	}
	_ = s.out.SendLast(route.Frame{Wire: s.frames.buf}) // a failure ends the context, as in send
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

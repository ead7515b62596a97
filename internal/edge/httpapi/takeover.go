package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// A stream that lasts takes its connection over from net/http (docs/adr/0028):
// the goroutine that served the request ends, with the deep stack of its
// chain, its buffers and its headers, and two small ones remain: that of the
// source, and one that waits for the reader to leave.

type openFunc func(context.Context, authz.Caller, any) (iter.Seq2[route.Frame, error], error)

type frameSeq = iter.Seq2[route.Frame, error]

// serveStream answers with a row's stream.
func (s *Server) serveStream(x *exchange, r *http.Request, in *binder, open openFunc) error {
	arg, held, err := in.bind(x, r)
	defer held.release()
	if err != nil {
		return err
	}
	apart := x.apart()
	st, err := s.streams.open(context.WithoutCancel(apart), apart, StreamOptions{Resumable: true})
	if err != nil {
		return err
	}
	st.out = x
	here := context.AfterFunc(r.Context(), func() { st.cancel(context.Canceled) })
	frames, err := open(st.ctx, x.who, arg)
	if err != nil {
		here()
		st.Close()
		return err
	}
	if r.Method == http.MethodHead {
		streamHeaders(x.Header())
		here()
		st.Close()
		return nil
	}
	if here() && st.takeOver(x, r, frames) {
		return nil
	}
	context.AfterFunc(r.Context(), func() { st.cancel(context.Canceled) })
	defer st.Close()
	st.start()
	st.pump(frames)
	return nil
}

// pump sends what the source gives.
func (s *Stream) pump(frames frameSeq) {
	for frame, err := range frames {
		if err != nil {
			s.Failed(err)
			return
		}
		if s.Send(frame) != nil {
			return
		}
	}
}

// apart is an exchange that outlives the request: it holds nothing of the
// connection, and its context is the server's. The request's own stays as it
// is, because others may still look at it, who were given it as a context.
func (x *exchange) apart() *exchange {
	base := x.server.base
	if x.server.tracer != nil {
		base = trace.ContextWithSpan(base, trace.SpanFromContext(x.Context))
	}
	return &exchange{Context: base, server: x.server, id: x.id, start: x.start, op: x.op, who: x.who}
}

// takeOver says whether the stream goes on by itself, on a connection of its
// own. It does not where the connection carries more than this answer: HTTP/2,
// or a body on its way in.
func (s *Stream) takeOver(x *exchange, r *http.Request, frames frameSeq) bool {
	if r.ContentLength != 0 || r.Method != http.MethodGet {
		return false
	}
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return false
	}
	head := head(x.Header())
	x.detached = &detached{method: r.Method, path: r.URL.Path}
	routings.Put(x.routed)
	x.routed = nil
	s.x.status, s.x.detached = http.StatusOK, x.detached
	s.out, s.conn = s.x, conn
	s.all.running.Add(2)
	go s.listen()
	go s.speak(head, frames)
	return true
}

// head is the beginning of the answer. It ends where the connection does, so
// that the frames can stand on the wire as they are.
func head(h http.Header) []byte {
	streamHeaders(h)
	h.Set("Connection", "close")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	buf := bytes.NewBuffer(make([]byte, 0, 1024))
	buf.WriteString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(buf)
	buf.WriteString("\r\n")
	return buf.Bytes()
}

// detached is what is remembered of the request of a stream that goes on by
// itself.
type detached struct{ method, path string }

// speak sends the stream. It is a goroutine, which ends with the source.
func (s *Stream) speak(head []byte, frames frameSeq) {
	defer s.all.running.Done()
	defer func() {
		panicked := recover()
		if panicked != nil {
			_, s.x.failed = Classify(fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()))
		}
		s.Close()
		s.x.server.conclude(s.x, s.x.detached.method, s.x.detached.path)
	}()
	s.begin(head)
	s.pump(frames)
}

const (
	// chatter is how much a reader may say, who has nothing to say.
	chatter = 4 << 10
	// farewell is how long the end of a stream may take to arrive.
	farewell = 500 * time.Millisecond
)

// listen waits for the reader to leave. It is a goroutine, which ends when
// the connection does, and then closes it.
func (s *Stream) listen() {
	defer s.all.running.Done()
	defer s.conn.Close()
	buf := make([]byte, 16)
	for heard := 0; heard < chatter; {
		n, err := s.conn.Read(buf)
		heard += n
		if err != nil {
			break
		}
	}
	s.cancel(errReader)
}

// hangUp sends what is left and says that nothing follows; listen closes the
// connection when the reader has seen that. s.mu is held.
func (s *Stream) hangUp() {
	if s.ctx.Err() != nil && s.ReaderGone() {
		_ = s.conn.Close()
		return
	}
	now := time.Now()
	s.flush(now)
	half, ok := s.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		_ = s.conn.Close()
		return
	}
	_ = s.conn.SetReadDeadline(now.Add(farewell))
}

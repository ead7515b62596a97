package httpapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/edge/streamconn"
)

// A stream that lasts takes its connection from net/http (package streamconn):
// the goroutine that served the request ends, with the deep stack of its chain,
// its buffers and its headers, and two small ones remain: one runs the source,
// and one waits for the client to leave.

type openFunc func(context.Context, authz.Caller, any) (iter.Seq2[route.Frame, error], error)

type frameSeq = iter.Seq2[route.Frame, error]

// serveStream answers with a row's stream.
func (s *Server) serveStream(x *exchange, r *http.Request, in *binder, open openFunc) error {
	arg, held, err := in.bind(x, r)
	defer held.release()
	if err != nil {
		return err
	}
	detached := x.detachedCopy()
	st, err := s.streams.open(context.WithoutCancel(detached), detached, StreamOptions{Resumable: true})
	if err != nil {
		return err
	}
	st.out = x
	stop := context.AfterFunc(r.Context(), func() { st.cancel(context.Canceled) })
	frames, err := open(st.ctx, x.who, arg)
	if err != nil {
		stop()
		st.Close()
		if instead, ok := errors.AsType[route.Instead](err); ok {
			return JSON(x, http.StatusOK, instead.Value)
		}
		return err
	}
	if r.Method == http.MethodHead {
		streamHeaders(x.Header())
		stop()
		st.Close()
		return nil
	}
	if stop() && st.hijack(x, r, frames) {
		return nil
	}
	context.AfterFunc(r.Context(), func() { st.cancel(context.Canceled) })
	defer st.Close()
	st.start()
	st.pump(frames)
	return nil
}

// pump sends the frames of the source until one of the two ends.
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

// detachedCopy returns an exchange that outlives the request: it holds nothing
// of the connection, and its context is the server's. The original stays as it
// is, because code that was given it as its context may still use it.
func (x *exchange) detachedCopy() *exchange {
	base := x.server.base
	if x.server.tracer != nil {
		base = trace.ContextWithSpan(base, trace.SpanFromContext(x.Context))
	}
	return &exchange{Context: base, server: x.server, id: x.id, start: x.start, op: x.op, who: x.who, origin: x.origin, page: x.page}
}

// hijack moves the stream to a connection of its own and reports whether it did;
// see [streamconn.Hijack] for where that is not possible.
func (s *Stream) hijack(x *exchange, r *http.Request, frames frameSeq) bool {
	conn, ok := streamconn.Hijack(x.w, r)
	if !ok {
		return false
	}
	streamHeaders(x.Header())
	head := streamconn.Head(x.Header())
	x.detached = &detached{method: r.Method, path: r.URL.Path}
	routings.Put(x.routed)
	x.routed = nil
	s.x.status, s.x.detached = http.StatusOK, x.detached
	s.out, s.conn = s.x, conn
	s.all.running.Add(2)
	go s.watchClient()
	go s.run(head, frames)
	return true
}

// detached is what is kept of the request of a hijacked stream, for its log line.
type detached struct{ method, path string }

// run sends the stream. It is a goroutine, which ends with the source.
func (s *Stream) run(head []byte, frames frameSeq) {
	defer s.all.running.Done()
	defer func() {
		panicked := recover()
		if panicked != nil {
			_, s.x.failed = Classify(fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()))
		}
		s.Close()
		s.x.server.finishRequest(s.x, s.x.detached.method, s.x.detached.path)
	}()
	s.begin(head)
	s.pump(frames)
}

// watchClient ends the stream when the client leaves. It is a goroutine, which
// ends with the connection.
func (s *Stream) watchClient() {
	defer s.all.running.Done()
	s.conn.WaitForClient()
	s.cancel(errReader)
}

// closeConn sends what is buffered and ends the response. s.mu is held.
func (s *Stream) closeConn() {
	if s.ctx.Err() != nil && s.ReaderGone() {
		s.conn.Abort()
		return
	}
	now := time.Now()
	s.flush(now)
	s.conn.Close(now)
}

package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// source adds a stream at /api/v1/source.
func source(of func(ctx context.Context, yield func(route.Frame, error) bool)) func(*Config) {
	return func(c *Config) {
		c.Routes = append(c.Routes, route.Stream(route.Row{Method: "GET", Path: "/api/v1/source", ID: "source"},
			func(ctx context.Context, _ authz.Caller, _ *nilIn) (iter.Seq2[route.Frame, error], error) {
				return func(yield func(route.Frame, error) bool) { of(ctx, yield) }, nil
			}))
	}
}

const sourcePath = "/api/v1/source"

// dial sends a request as it stands.
func (w *world) dial(t *testing.T, request string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn
}

func requestFor(path, proto string) string {
	return "GET " + path + " " + proto + "\r\nHost: x\r\nAuthorization: Bearer " + ownerKey + "\r\n\r\n"
}

// whole returns all that a connection sends until its end, which must come soon.
func whole(t *testing.T, conn net.Conn) string {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func hello(_ context.Context, yield func(route.Frame, error) bool) {
	yield(route.Frame{Data: []byte("hello")}, nil)
}

// The head of the answer is one that any HTTP/1 client understands, and has
// all that the chain sets.
func TestHeadOfAStream(t *testing.T) {
	t.Parallel()
	w := start(t, source(hello))
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
		res, err := http.ReadResponse(bufio.NewReader(w.dial(t, requestFor(sourcePath, proto))), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || string(body) != "retry: 2000\n\ndata: hello\n\n" {
			t.Errorf("%s: %q, %v", proto, body, err)
		}
		if !res.Close || res.ContentLength != -1 || len(res.TransferEncoding) > 0 {
			t.Errorf("%s: the answer does not end with its connection: %v", proto, res)
		}
		for _, name := range []string{"Date", "X-Request-Id", "X-Api-Version", "X-Content-Type-Options", "Cache-Control"} {
			if len(res.Header[name]) != 1 {
				t.Errorf("%s: %s is %q", proto, name, res.Header[name])
			}
		}
	}
}

// What cannot leave the server's connection is served on it all the same: a
// request with a body, and a writer that gives no connection away.
func TestStreamsThatStayOnTheServersConnection(t *testing.T) {
	t.Parallel()
	w := start(t, source(hello))
	res := w.stream(t, sourcePath, func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
		r.Header.Set("Content-Type", "application/json")
	})
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "retry: 2000\n\ndata: hello\n\n" {
		t.Errorf("with a body: %q, %v", body, err)
	}
	rec, req := httptest.NewRecorder(), httptest.NewRequest("GET", sourcePath, nil)
	req.Header.Set("Authorization", "Bearer "+ownerKey)
	w.edge.ServeHTTP(rec, req)
	if rec.Body.String() != "retry: 2000\n\ndata: hello\n\n" {
		t.Errorf("without a connection: %q", rec.Body)
	}
}

func TestHeadRequestOpensNoStream(t *testing.T) {
	t.Parallel()
	w := start(t, source(func(context.Context, func(route.Frame, error) bool) { t.Error("the source was asked") }))
	res, body := w.call(t, "HEAD", sourcePath, "")
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || body != "" {
		t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
	}
	if got := w.edge.streams.count(); got != 0 {
		t.Errorf("%d streams are left", got)
	}
}

// A client that goes, half or whole, or that talks, ends its source.
func TestReadersThatEndTheirStream(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(net.Conn){
		"leaves":      func(c net.Conn) { _ = c.Close() },
		"half closes": func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() },
		"resets": func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		},
		"talks": func(c net.Conn) { _, _ = c.Write(make([]byte, 8<<10)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			w := start(t, source(func(ctx context.Context, yield func(route.Frame, error) bool) {
				yield(route.Frame{Data: []byte("x")}, nil)
				<-ctx.Done()
				ended <- context.Cause(ctx)
			}))
			conn := w.dial(t, requestFor(sourcePath, "HTTP/1.1"))
			in := bufio.NewReader(conn)
			for line := ""; line != "data: x\n"; {
				var err error
				if line, err = in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			act(conn)
			select {
			case err := <-ended:
				if !errors.Is(err, errReader) {
					t.Errorf("the source heard %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the source goes on")
			}
			w.waitForLog(t, `"route":"/api/v1/source"`)
		})
	}
}

// A source that fails or panics ends its own stream, in which everything that
// was sent arrives, and the log says why.
func TestSourcesThatFail(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(yield func(route.Frame, error) bool){
		"fails":  func(yield func(route.Frame, error) bool) { yield(route.Frame{}, errors.New("out of order")) },
		"panics": func(func(route.Frame, error) bool) { panic("out of order") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, source(func(_ context.Context, yield func(route.Frame, error) bool) {
				for range 3 {
					yield(route.Frame{Data: []byte("x"), More: true}, nil)
				}
				fail(yield)
			}))
			got := whole(t, w.dial(t, requestFor(sourcePath, "HTTP/1.1")))
			if !strings.HasSuffix(got, "\r\n\r\nretry: 2000\n\n"+strings.Repeat("data: x\n\n", 3)) {
				t.Errorf("%q", got)
			}
			w.waitForLog(t, "out of order")
			if text := metricsText(t, w); !strings.Contains(text, "agentd_http_requests_in_flight 1\n") ||
				!strings.Contains(text, "agentd_http_streams_open 0\n") {
				t.Error("the stream is still counted")
			}
		})
	}
}

// Frames that follow at once go out together, and those that were rendered
// before as they are.
func TestFramesGoOutTogether(t *testing.T) {
	t.Parallel()
	wire := route.Frame{ID: "1", Data: []byte("shared")}.AppendWire(nil)
	w := start(t, source(func(_ context.Context, yield func(route.Frame, error) bool) {
		for i := range 3000 {
			if !yield(route.Frame{Wire: wire, More: i%1000 != 999}, nil) {
				return
			}
		}
	}))
	got := whole(t, w.dial(t, requestFor(sourcePath, "HTTP/1.1")))
	if _, body, _ := strings.Cut(got, "retry: 2000\n\n"); body != strings.Repeat(string(wire), 3000) {
		t.Errorf("%d bytes arrived, %d were sent", len(body), 3000*len(wire))
	}
}

// One reader that does not read slows nobody else, and is cut.
func TestAStalledReaderSlowsNobody(t *testing.T) {
	t.Parallel()
	cut := make(chan error, 1)
	w := start(
		t,
		func(c *Config) { c.FrameTimeout = 300 * time.Millisecond },
		source(func(ctx context.Context, yield func(route.Frame, error) bool) {
			for data := make([]byte, 1<<20); yield(route.Frame{Data: data}, nil); {
			}
			cut <- context.Cause(ctx)
		}),
	)
	w.dial(t, requestFor(sourcePath, "HTTP/1.1")) // nobody reads from it
	lines := bufio.NewReader(w.stream(t, eventsPath).Body)
	expectLines(t, lines, "retry: 2000", "")
	for stalled := false; !stalled; {
		begin := time.Now()
		w.frames <- route.Frame{Data: []byte("x")}
		expectLines(t, lines, "data: x", "")
		if took := time.Since(begin); took > 250*time.Millisecond {
			t.Errorf("another reader's event took %v", took)
		}
		select {
		case err := <-cut:
			stalled = true
			if !errors.Is(err, errReader) {
				t.Errorf("it was cut for %v", err)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestStreamsOfATenantAreLimited(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.TenantStreams = func() int { return 2 } })
	first := w.stream(t, eventsPath)
	second := w.stream(t, eventsPath)
	res, body := w.call(t, "GET", eventsPath, "")
	p := problemOf(t, res, body)
	if res.StatusCode != 429 || p["code"] != "STREAM_LIMIT" || res.Header.Get("Retry-After") != "5" ||
		!strings.Contains(fmt.Sprint(p["detail"]), "2 event streams") {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
	}
	if !strings.Contains(metricsText(t, w), "agentd_http_streams_refused_total 1\n") {
		t.Error("the refusal is not counted")
	}
	// An answer that is streamed, and ends by itself, is not one of them.
	if _, body := w.call(t, "POST", "/v1/stream", ""); !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("%q", body)
	}
	first.Body.Close()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if w.edge.streams.count() == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the stream that was left is still counted")
		}
	}
	if res := w.stream(t, eventsPath); res.StatusCode != 200 {
		t.Errorf("after one has ended: %d", res.StatusCode)
	}
	_ = second
}

func TestStreamHealth(t *testing.T) {
	t.Parallel()
	var broken error
	w := start(t, func(c *Config) { c.SelfTest = func(context.Context) error { return broken } })
	get := func() (*http.Response, string) {
		return w.call(t, "GET", "/health/sse", "", header("Authorization", ""))
	}
	res, body := get()
	var names []string
	for line := range strings.Lines(body) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" ||
		strings.Join(
			names,
			" ",
		) != "connected ping done" || strings.Count(body, "\n\n") != 4 || !strings.HasSuffix(body, "\n\ndata: [DONE]\n\n") {
		t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
	}
	broken = errors.New("nothing came back")
	if res, body := get(); res.StatusCode != 503 || problemOf(t, res, body)["code"] == "" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	broken = nil
	w.edge.streams.drain(true)
	if res, _ := get(); res.StatusCode != 503 {
		t.Errorf("while the server stops: %d", res.StatusCode)
	}
}

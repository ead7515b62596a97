package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// stream opens an event stream as the owner.
func (w *world) stream(t *testing.T, path string, change ...func(*http.Request)) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", w.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+ownerKey)
	for _, f := range change {
		f(req)
	}
	res, err := w.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); res.Body.Close() })
	return res
}

const eventsPath = "/api/v1/toys/" + toyID + "/events"

func TestStream(t *testing.T) {
	t.Parallel()
	w := start(t)
	res := w.stream(t, eventsPath)
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	go func() {
		for _, f := range []route.Frame{
			{ID: "1", Name: "llm.chunk", Data: []byte(`{"text":"a"}`)},
			{ID: "2", Name: "forged\nevent", Data: []byte("one\ntwo\r\n\nid: 9")},
			{Data: []byte("[DONE]")},
		} {
			w.frames <- f
		}
		close(w.frames)
	}()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	want := "retry: 2000\n\n" +
		"id: 1\nevent: llm.chunk\ndata: {\"text\":\"a\"}\n\n" +
		"id: 2\ndata: one\ndata: two\ndata: \ndata: \ndata: id: 9\n\n" +
		"data: [DONE]\n\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
}

// The header and every frame after a pause arrive although nothing follows.
func TestStreamIsFlushed(t *testing.T) {
	t.Parallel()
	w := start(t)
	lines := bufio.NewReader(w.stream(t, eventsPath).Body)
	expectLines(t, lines, "retry: 2000", "")
	for _, burst := range []int{1, 3} {
		for range burst {
			w.frames <- route.Frame{Data: []byte("x")}
		}
		for range burst {
			expectLines(t, lines, "data: x", "")
		}
	}
}

func expectLines(t *testing.T, r *bufio.Reader, want ...string) {
	t.Helper()
	for _, line := range want {
		got, err := r.ReadString('\n')
		if err != nil || strings.TrimSuffix(got, "\n") != line {
			t.Fatalf("got %q, %v; want %q", got, err, line)
		}
	}
}

func TestHeartbeatsBreakTheSilence(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.Heartbeat = 20 * time.Millisecond })
	lines := bufio.NewReader(w.stream(t, eventsPath).Body)
	expectLines(t, lines, "retry: 2000", "", ": keep-alive", "", ": keep-alive", "")
}

func TestRawStreamHasItsOwnBeat(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, body := w.call(t, "POST", "/v1/stream", "")
	if !strings.HasPrefix(body, "event: ping\ndata: {}\n\n") || !strings.HasSuffix(body, "\n\ndata: [DONE]\n\n") {
		t.Errorf("%q", body)
	}
}

func TestStreamResumes(t *testing.T) {
	t.Parallel()
	w := start(t)
	for path, last := range map[string]string{eventsPath: "7", eventsPath + "?last_event_id=8": ""} {
		res := w.stream(t, path, header("Last-Event-ID", last))
		lines := bufio.NewReader(res.Body)
		want := "data: 7"
		if last == "" {
			want = "data: 8"
		}
		expectLines(t, lines, "retry: 2000", "", "event: resumed", want)
	}
}

func TestStreamIsRefusedWithAProblem(t *testing.T) {
	t.Parallel()
	w := start(t)
	res, body := w.call(t, "GET", eventsPath, "", header("Last-Event-ID", "unknown"))
	if problemOf(t, res, body); res.StatusCode != 404 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if got := w.edge.streams.count(); got != 0 {
		t.Errorf("%d streams are left open", got)
	}
}

func TestQueryTokenOpensAStream(t *testing.T) {
	t.Parallel()
	w := start(t)
	res := w.stream(t, eventsPath+"?token="+ownerKey, header("Authorization", ""), header("Accept", "text/event-stream"))
	if res.StatusCode != 200 {
		t.Errorf("%d", res.StatusCode)
	}
	close(w.frames)
	_, _ = io.ReadAll(res.Body)
	w.waitForLog(t, `"route":"/api/v1/toys/{toyId}/events"`)
	if strings.Contains(w.log.String(), "svc_") {
		t.Errorf("the log has the token: %s", w.log)
	}
}

func TestRevokedKeyEndsItsStreamsOnly(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.RecheckEvery = 10 * time.Millisecond })
	revoked := w.stream(t, eventsPath, header("Authorization", "Bearer "+readerKey))
	other := bufio.NewReader(w.stream(t, eventsPath).Body)
	expectLines(t, other, "retry: 2000", "")
	w.keys.revoke(readerKey)
	if got, err := io.ReadAll(revoked.Body); err != nil || string(got) != "retry: 2000\n\n" {
		t.Errorf("%q, %v", got, err)
	}
	w.frames <- route.Frame{Data: []byte("still here")}
	expectLines(t, other, "data: still here")
}

func TestStreamsSurviveACheckThatFails(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.RecheckEvery = 5 * time.Millisecond })
	lines := bufio.NewReader(w.stream(t, eventsPath).Body)
	w.keys.mu.Lock()
	w.keys.down = true
	w.keys.mu.Unlock()
	w.waitForLog(t, "could not be checked")
	w.frames <- route.Frame{Data: []byte("still here")}
	expectLines(t, lines, "retry: 2000", "", "data: still here")
}

// A client that does not read is disconnected, and its source is notified.
func TestStalledReaderIsCut(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.FrameTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET "+eventsPath+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+ownerKey+"\r\n\r\n")
	data, sent := bytes.Repeat([]byte("x"), 1<<20), 0
	for !strings.Contains(w.log.String(), "events") {
		select {
		case w.frames <- route.Frame{Data: data}:
			sent++
		case <-time.After(10 * time.Millisecond):
		}
		if sent > 64 {
			t.Fatal("64 MiB were taken for a reader that does not read")
		}
	}
	if got := w.edge.streams.count(); got != 0 {
		t.Errorf("%d streams are left", got)
	}
}

// What limits the writing of a stream does not limit the next answer on the
// same connection; a stream that may last takes its connection with it.
func TestConnectionIsGoodAfterAStream(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.FrameTimeout = 200 * time.Millisecond })
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	ask := func(method, path string) (string, bool) {
		_, _ = io.WriteString(conn, method+" "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nAuthorization: Bearer "+ownerKey+"\r\n\r\n")
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body), res.Close
	}
	if got, last := ask("POST", "/v1/stream"); !strings.HasSuffix(got, "data: [DONE]\n\n") || last {
		t.Errorf("stream: %q, closes: %v", got, last)
	}
	time.Sleep(250 * time.Millisecond) // the deadline of the stream passes
	if got, last := ask("GET", "/api/v1/public"); got != `"hello"` || last {
		t.Errorf("next answer: %q, closes: %v", got, last)
	}
	close(w.frames)
	if got, last := ask("GET", eventsPath); got != "retry: 2000\n\n" || !last {
		t.Errorf("stream that may last: %q, closes: %v", got, last)
	}
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("after its end: %v", err)
	}
}

func TestClientThatLeavesEndsTheSource(t *testing.T) {
	t.Parallel()
	w := start(t)
	res := w.stream(t, eventsPath)
	res.Body.Close()
	w.waitForLog(t, `"route":"/api/v1/toys/{toyId}/events"`)
	if got := w.edge.streams.count(); got != 0 {
		t.Errorf("%d streams are left", got)
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	entered, proceed := make(chan struct{}), make(chan struct{})
	w := start(t, func(c *Config) {
		c.Raw = append(c.Raw, Raw{
			Row: route.Row{Method: "GET", Path: "/slow", Public: true},
			Serve: func(w http.ResponseWriter, _ *http.Request, _ authz.Caller) error {
				close(entered)
				<-proceed
				return JSON(w, 200, "done")
			},
		})
	})
	open := w.stream(t, eventsPath)
	answered := make(chan string, 1)
	go func() {
		_, body := w.call(t, "GET", "/slow", "")
		answered <- body
	}()
	<-entered
	stopped := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() { stopped <- w.edge.Shutdown(ctx) }()
	if got, err := io.ReadAll(open.Body); err != nil || !regexp.MustCompile(`^retry: 2000\n\nretry: [1-3]\d{3}\n\n$`).Match(got) {
		t.Errorf("the stream did not end cleanly: %q, %v", got, err)
	}
	select {
	case err := <-stopped:
		t.Errorf("did not wait for the request: %v", err)
	default:
	}
	close(proceed)
	if got := <-answered; got != `"done"` {
		t.Errorf("the request was not finished: %s", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestShutdownCutsWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	w := start(t)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", w.URL+"/api/v1/waits", nil)
		req.Header.Set("Authorization", "Bearer "+ownerKey)
		if res, err := w.Client().Do(req); err == nil {
			res.Body.Close()
		}
	}()
	for w.edge.http.Handler == nil || !strings.Contains(metricsText(t, w), "agentd_http_requests_in_flight 2") {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.edge.Shutdown(ctx); err == nil {
		t.Error("want the context's error")
	}
	w.waitForLog(t, `"route":"/api/v1/waits"`)
}

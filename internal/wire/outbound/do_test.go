package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/base/fault"
)

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestDoBoundsBodies(t *testing.T) {
	t.Parallel()
	base, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chunked" {
			http.NewResponseController(w).Flush()
		}
		io.WriteString(w, strings.Repeat("x", 1000))
	})
	c := client(t, "127.0.0.1:"+port)
	for path, most := range map[string]int64{"/": 0, "/exact": 1000, "/one-less": 999, "/few": 10, "/chunked": 999} {
		resp, err := c.Do(request(t, "GET", base+path), Limits{Bytes: most})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_, again := resp.Body.Read(make([]byte, 1))
		resp.Body.Close()
		if most == 0 || most == 1000 {
			if err != nil || len(body) != 1000 || again != io.EOF {
				t.Errorf("%s: %d bytes, %v, then %v", path, len(body), err, again)
			}
			continue
		}
		if !errors.Is(err, ErrTooLarge) || int64(len(body)) != most || !errors.Is(again, ErrTooLarge) {
			t.Errorf("%s: %d bytes of %d, %v, then %v", path, len(body), most, err, again)
		}
	}
}

// The time counts for everything, and the rest of it for the body alone where
// that is asked for.
func TestDoEndsInTime(t *testing.T) {
	t.Parallel()
	base, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			io.WriteString(w, "begins")
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	c := client(t, "127.0.0.1:"+port)
	began := time.Now()
	if _, err := c.Do(request(t, "GET", base+"/headers"), Limits{Time: 50 * time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no headers: %v", err)
	}
	for name, l := range map[string]Limits{"time": {Time: 50 * time.Millisecond}, "rest": {Rest: 50 * time.Millisecond}} {
		resp, err := c.Do(request(t, "GET", base+"/body"), l)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil || string(body) != "begins" {
			t.Errorf("%s: %q, %v", name, body, err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestDoFollowsWhatItMay(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	other, otherPort := serve(t, func(_ http.ResponseWriter, r *http.Request) { got.Store(r.Header.Clone()) })
	base, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other+"/there", http.StatusFound)
		case "/near":
			http.Redirect(w, r, "/there#part", http.StatusPermanentRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusSeeOther)
		case "/nowhere":
			w.WriteHeader(http.StatusFound)
		case "/there":
			got.Store(r.Header.Clone())
		}
	})
	c := client(t, "127.0.0.1:"+port+",127.0.0.1:"+otherPort)
	ask := func(method, path string, hops int) (*http.Response, error) {
		got.Store(http.Header{})
		req := request(t, method, base+path)
		for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "User-Agent", "Accept"} {
			req.Header.Set(name, "mine")
		}
		resp, err := c.Do(req, Limits{Hops: hops})
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	tests := []struct {
		method, path string
		hops, status int
		err          error
		sent         string // of Authorization, at the end of the way
	}{
		{"GET", "/near", 0, 308, nil, ""},
		{"GET", "/near", 1, 200, nil, "mine"},
		{"HEAD", "/near", 1, 200, nil, "mine"},
		{"POST", "/near", 3, 308, nil, ""},
		{"GET", "/away", 1, 200, nil, ""},
		{"GET", "/nowhere", 1, 302, nil, ""},
		{"GET", "/loop", 4, 0, ErrRedirects, ""},
	}
	for _, test := range tests {
		resp, err := ask(test.method, test.path, test.hops)
		if !errors.Is(err, test.err) || err == nil && resp.StatusCode != test.status {
			t.Errorf("%s %s: %v, %v", test.method, test.path, resp, err)
			continue
		}
		h := got.Load().(http.Header)
		if h.Get("Authorization") != test.sent || h.Get("Cookie") != test.sent || h.Get("X-Api-Key") != test.sent {
			t.Errorf("%s %s: sent %v", test.method, test.path, h)
		}
		if test.status == 200 && h.Get("User-Agent") != "mine" {
			t.Errorf("%s %s: the user agent is lost", test.method, test.path)
		}
		if test.path == "/near" && test.status == 200 && resp.Request.URL.String() != base+"/there" {
			t.Errorf("it ends at %s", resp.Request.URL)
		}
	}
	for _, wrong := range []string{"ftp://example.com", "http://u:p@example.com", "http://2130706433/", "http:///"} {
		req := request(t, "POST", wrong)
		closed := &closing{Reader: strings.NewReader("x")}
		req.Body = closed
		if _, err := c.Do(req, Limits{}); !fault.Is(err, fault.Invalid) || !closed.closed {
			t.Errorf("%s: %v, body closed: %v", wrong, err, closed.closed)
		}
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// Over HTTP/2 a body that nobody reads stays with its sender, but for a window.
func TestUnreadBodiesAreNotBuffered(t *testing.T) {
	t.Parallel()
	sent := make(chan int64, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int64
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		for block := make([]byte, 16<<10); n < 64<<20; {
			wrote, err := w.Write(block)
			n += int64(wrote)
			if err != nil {
				break
			}
		}
		sent <- n
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	allow, err := ParseAllow("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for _, old := range []bool{false, true} {
		c := New(Config{Allow: allow, Roots: roots, HTTP1: old})
		resp, err := c.Do(request(t, "GET", server.URL), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		n := <-sent
		resp.Body.Close()
		c.Close()
		if want := map[bool]int{false: 2, true: 1}[old]; resp.ProtoMajor != want {
			t.Errorf("it speaks HTTP/%d, not %d", resp.ProtoMajor, want)
		}
		if !old && n > 1<<20 {
			t.Errorf("%d bytes left the server unread", n)
		}
	}
}

// Not parallel: the environment is the process's.
func TestNoProxyOfAnyKind(t *testing.T) {
	proxy, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, proxy)
	}
	t.Setenv("NO_PROXY", "")
	c, _ := dialled(t)
	for _, url := range []string{"http://example.com/", "https://example.com/", "http://8.8.8.8/", "https://8.8.8.8/"} {
		if resp, err := c.Do(request(t, "GET", url), Limits{}); err == nil {
			resp.Body.Close()
			t.Errorf("%s answers", url)
		}
	}
}

// A host that answers each request, but with more and more headers, or with
// informational answers only, is left.
func TestEndlessHeaders(t *testing.T) {
	t.Parallel()
	base, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		piece := "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"
		if r.URL.Path == "/headers" {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			piece = "X-More: and more\r\n"
		}
		for err == nil {
			_, err = io.WriteString(conn, piece)
		}
	})
	c := client(t, "127.0.0.1:"+port)
	for _, path := range []string{"/headers", "/hints"} {
		_, err := c.Do(request(t, "GET", base+path), Limits{Time: 10 * time.Second})
		if err == nil || Reason(err) != "The host's answer has more headers than are read." {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestReasonTellsNothing(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		fmt.Errorf("lookup db.corp on 10.1.2.3:53: server misbehaving"), errors.New("dial tcp 10.0.0.1:80: socket: too many open files"),
		errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1"), ErrTooLarge, ErrRedirects, io.EOF, context.DeadlineExceeded,
	} {
		reason := Reason(err)
		if reason == "" || strings.ContainsAny(reason, "0123456789") || strings.Contains(reason, "corp") || !strings.HasSuffix(reason, ".") {
			t.Errorf("%v: %q", err, reason)
		}
	}
}

// The body of a 101 is the connection itself, which no deadline ends.
func TestNobodySwitchesProtocols(t *testing.T) {
	t.Parallel()
	base, port := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	c := client(t, "127.0.0.1:"+port)
	for name, call := range map[string]func() (*http.Response, error){
		"do":     func() (*http.Response, error) { return c.Do(request(t, "GET", base), Limits{}) },
		"bare":   func() (*http.Response, error) { return c.Transport().RoundTrip(request(t, "GET", base)) },
		"client": func() (*http.Response, error) { return c.HTTP().Do(request(t, "GET", base)) },
	} {
		resp, err := call()
		if err == nil {
			resp.Body.Close()
		}
		if !errors.Is(err, errSwitched) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

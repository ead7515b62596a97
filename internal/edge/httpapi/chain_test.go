package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
)

func TestEveryAnswerCarriesTheChainsHeaders(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, path := range []string{"/api/v1/toys/" + toyID, "/api/v1/nothing", "/api/v1/panic", "/healthz", "/api/v1/openapi.json", "/metrics", "//x"} {
		res, _ := w.call(t, "GET", path, "")
		for name, want := range map[string]string{
			"X-Api-Version": "2026-09-10", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if id := res.Header.Get("X-Request-Id"); !ident.Valid(id) {
			t.Errorf("%s: request id %q", path, id)
		}
	}
}

func TestRequestIDIsKeptIfItIsOne(t *testing.T) {
	t.Parallel()
	w := start(t)
	tests := map[string]bool{
		"abcdefgh": true, "a.b_c:d-e": true, "Z2345678": true, strings.Repeat("a", 128): true,
		"short": false, strings.Repeat("a", 129): false, ".bcdefgh": false, "abcdefg!": false, "abc defgh": false,
	}
	for sent, kept := range tests {
		res, _ := w.call(t, "GET", "/healthz", "", header("X-Request-Id", sent))
		if got := res.Header.Get("X-Request-Id"); (got == sent) != kept {
			t.Errorf("%q became %q", sent, got)
		}
	}
}

func TestSuccess(t *testing.T) {
	t.Parallel()
	w := start(t)
	tests := map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"nothing escaped, nil slices are []": {
			"GET",
			"/api/v1/toys/" + toyID,
			"",
			200,
			`{"toy_id":"` + toyID + `","name":"<b>&","kind":"car","tags":[]}`,
		},
		"default and 201": {
			"POST",
			"/api/v1/toys",
			`{"name":"Bo"}`,
			201,
			`{"toy_id":"` + toyID + `","name":"Bo","kind":"car","tags":[]}`,
		},
		"raw body": {"PUT", "/api/v1/toys/" + toyID + "/raw", `{"a" : 1}`, 200, `{"a" : 1}`},
		"partial": {
			"PATCH",
			"/api/v1/toys/" + toyID,
			`{}`,
			200,
			`{"toy_id":"` + toyID + `","name":"","kind":"","tags":[]}`,
		},
		"204":                  {"DELETE", "/api/v1/toys/" + toyID, "", 204, ``},
		"optional body absent": {"POST", "/api/v1/toys/" + toyID + "/wind", "", 200, `{"turns":0}`},
		"optional body there":  {"POST", "/api/v1/toys/" + toyID + "/wind", `{"turns":3}`, 200, `{"turns":3}`},
		"no body":              {"POST", "/api/v1/toys/" + toyID + "/stop", "", 200, `{"stopped":true}`},
		"id of any form":       {"GET", "/api/v1/names/a%2Fb%20c", "", 200, `{"name":"a/b c"}`},
		"number in the path":   {"GET", "/api/v1/pages/7", "", 200, `7`},
		"query tolerates": {
			"GET",
			"/api/v1/toys?limit=%00&last_event_id=%ff",
			"",
			200,
			`{"Limit":"\u0000","Order":"desc","Days":0,"Deep":false,"Types":[],"After":"�"}`,
		},
		"query": {
			"GET",
			"/api/v1/toys?limit=x&days=3&deep=true&type=car&type=doll&order=",
			"",
			200,
			`{"Limit":"x","Order":"desc","Days":3,"Deep":true,"Types":["car","doll"],"After":""}`,
		},
		"public": {"GET", "/api/v1/public", "", 200, `"hello"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, body := w.call(t, tt.method, tt.path, tt.body)
			if res.StatusCode != tt.status || body != tt.want {
				t.Errorf("got %d %s\nwant %d %s", res.StatusCode, body, tt.status, tt.want)
			}
			if tt.want == "" {
				return
			}
			if got := res.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
			if res.ContentLength != int64(len(body)) {
				t.Errorf("content length %d", res.ContentLength)
			}
		})
	}
	res, _ := w.call(t, "PUT", "/api/v1/toys/"+toyID+"/raw", `1`)
	if got := res.Header.Get("ETag"); got != `"7"` {
		t.Errorf("ETag %s", got)
	}
	res, body := w.call(t, "PATCH", "/api/v1/toys/"+toyID, `{}`, header("If-Match", "x"))
	if !strings.Contains(body, `"kind":"x"`) {
		t.Errorf("header not bound: %d %s", res.StatusCode, body)
	}
	res, body = w.call(t, "GET", "/api/v1/toys?last_event_id=q", "", header("Last-Event-ID", "h"))
	if !strings.Contains(body, `"After":"h"`) {
		t.Errorf("the header goes before the query: %d %s", res.StatusCode, body)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := start(t)
	tests := map[string]struct {
		method, path, body string
		status             int
		title, code        string
		change             func(*http.Request)
	}{
		"unknown path":       {"GET", "/api/v1/nothing", "", 404, "Not Found", "NOT_FOUND", nil},
		"double slash":       {"GET", "//x", "", 404, "Not Found", "NOT_FOUND", nil},
		"double slash known": {"GET", "//api/v1/toys", "", 404, "Not Found", "NOT_FOUND", nil},
		"trailing slash":     {"GET", "/api/v1/toys/", "", 404, "Not Found", "NOT_FOUND", nil},
		"dots":               {"GET", "/api/v1/../v1/toys", "", 404, "Not Found", "NOT_FOUND", nil},
		"sub-path":           {"GET", "/api/v1/toys/" + toyID + "/more", "", 404, "Not Found", "NOT_FOUND", nil},
		"wrong verb":         {"DELETE", "/api/v1/toys", "", 405, "Method Not Allowed", "METHOD_NOT_ALLOWED", nil},
		"unknown verb":       {"BREW", "/api/v1/toys", "", 405, "Method Not Allowed", "METHOD_NOT_ALLOWED", nil},
		"unknown verb, path": {"BREW", "/api/v1/x", "", 404, "Not Found", "NOT_FOUND", nil},
		"malformed id":       {"GET", "/api/v1/toys/7", "", 404, "Not Found", "NOT_FOUND", nil},
		"upper-case id":      {"GET", "/api/v1/toys/" + strings.ToUpper(toyID), "", 404, "Not Found", "NOT_FOUND", nil},
		"no number":          {"GET", "/api/v1/pages/x", "", 404, "Not Found", "NOT_FOUND", nil},
		"bad name":           {"GET", "/api/v1/names/%00", "", 404, "Not Found", "NOT_FOUND", nil},
		"id before body":     {"PATCH", "/api/v1/toys/7", "{", 404, "Not Found", "NOT_FOUND", nil},
		"panic":              {"GET", "/api/v1/panic", "", 500, "Internal Server Error", "INTERNAL_ERROR", nil},
		"foreign error":      {"GET", "/api/v1/broken", "", 500, "Internal Server Error", "INTERNAL_ERROR", nil},
		"limited":            {"GET", "/api/v1/limited", "", 429, "Too Many Requests", "quota_exceeded", nil},
		"syntax":             {"POST", "/api/v1/toys", `{"name":}`, 400, "Bad Request", "INVALID_REQUEST", nil},
		"syntax of raw":      {"PUT", "/api/v1/toys/" + toyID + "/raw", `{"a":1,"a":2}`, 400, "Bad Request", "INVALID_REQUEST", nil},
		"no body":            {"POST", "/api/v1/toys", "", 400, "Bad Request", "MISSING_BODY", nil},
		"wrong field":        {"POST", "/api/v1/toys", `{"kind":"cat"}`, 422, "Validation Error", "VALIDATION_ERROR", nil},
		"order":              {"GET", "/api/v1/toys?order=up", "", 400, "Bad Request", "INVALID_QUERY", nil},
		"days":               {"GET", "/api/v1/toys?days=0", "", 400, "Bad Request", "INVALID_QUERY", nil},
		"one of many":        {"GET", "/api/v1/toys?type=car&type=cat", "", 400, "Bad Request", "INVALID_QUERY", nil},
		"query escapes":      {"GET", "/api/v1/toys?limit=%zz", "", 400, "Bad Request", "INVALID_QUERY", nil},
		"text": {
			"POST",
			"/api/v1/toys",
			`{}`,
			415,
			"Unsupported Media Type",
			"UNSUPPORTED_MEDIA_TYPE",
			header("Content-Type", "text/plain"),
		},
		"form": {
			"POST",
			"/api/v1/toys",
			`a=b`,
			415,
			"Unsupported Media Type",
			"UNSUPPORTED_MEDIA_TYPE",
			header("Content-Type", "application/x-www-form-urlencoded"),
		},
		"latin": {
			"POST",
			"/api/v1/toys",
			`{}`,
			415,
			"Unsupported Media Type",
			"UNSUPPORTED_MEDIA_TYPE",
			header("Content-Type", "application/json; charset=latin1"),
		},
		"gzip": {
			"POST",
			"/api/v1/toys",
			`{}`,
			415,
			"Unsupported Media Type",
			"UNSUPPORTED_MEDIA_TYPE",
			header("Content-Encoding", "gzip"),
		},
		"chunked":         {"POST", "/api/v1/toys", `{"name":"a"}`, 411, "Length Required", "LENGTH_REQUIRED", unknownLength},
		"chunked, unread": {"POST", "/api/v1/toys/" + toyID + "/stop", `{}`, 411, "Length Required", "LENGTH_REQUIRED", unknownLength},
		"too large": {
			"POST",
			"/api/v1/toys",
			`{"name":"` + strings.Repeat("a", MaxBody) + `"}`,
			413,
			"Payload Too Large",
			"PAYLOAD_TOO_LARGE",
			nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var change []func(*http.Request)
			if tt.change != nil {
				change = append(change, tt.change)
			}
			res, body := w.call(t, tt.method, tt.path, tt.body, change...)
			doc := problemOf(t, res, body)
			if res.StatusCode != tt.status || doc["title"] != tt.title || doc["code"] != tt.code {
				t.Errorf("got %d %s", res.StatusCode, body)
			}
			if _, told := doc["errors"]; told != (tt.status == 422) {
				t.Errorf("errors belong to a body that failed validation: %s", body)
			}
			for _, leak := range []string{"SELECT", "private", "goroutine", ".go:"} {
				if strings.Contains(body, leak) {
					t.Errorf("%s leaks %s", body, leak)
				}
			}
			if tt.status == 405 && res.Header.Get("Allow") != "GET, HEAD, POST, OPTIONS" {
				t.Errorf("Allow: %s", res.Header.Get("Allow"))
			}
		})
	}
	res, body := w.call(t, "GET", "/api/v1/limited", "")
	doc := problemOf(t, res, body)
	if res.Header.Get("Retry-After") != "2" || cmp.Diff(map[string]any{"kind": "runs"}, doc["quota"]) != "" {
		t.Errorf("Retry-After %q, body %s", res.Header.Get("Retry-After"), body)
	}
}

func unknownLength(r *http.Request) {
	r.ContentLength = -1
	r.Body = io.NopCloser(io.MultiReader(r.Body))
}

func TestBodiesThatAreAccepted(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, contentType := range []string{"", "application/json", "application/json; charset=UTF-8", "Application/JSON", "application/merge-patch+json"} {
		if res, body := w.call(t, "POST", "/api/v1/toys", `{"name":"a"}`, header("Content-Type", contentType)); res.StatusCode != 201 {
			t.Errorf("%q: %d %s", contentType, res.StatusCode, body)
		}
	}
	big := `{"name":"a","more":"` + strings.Repeat("a", MaxBody-22) + `"}`
	if len(big) != MaxBody {
		t.Fatal(len(big))
	}
	if res, body := w.call(t, "POST", "/api/v1/toys", big); res.StatusCode != 201 {
		t.Errorf("exactly the limit: %d %s", res.StatusCode, body)
	}
}

func TestHeadAndOptions(t *testing.T) {
	t.Parallel()
	w := start(t)
	res, body := w.call(t, "HEAD", "/api/v1/toys/"+toyID, "")
	if res.StatusCode != 200 || body != "" || res.ContentLength <= 0 {
		t.Errorf("HEAD: %d %q %d", res.StatusCode, body, res.ContentLength)
	}
	res, _ = w.call(t, "HEAD", "/api/v1/toys/"+toyID+"/events", "")
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD of a stream: %d %v", res.StatusCode, res.Header)
	}
	res, _ = w.call(t, "OPTIONS", "/api/v1/toys/"+toyID, "", header("Authorization", ""), header("Origin", "https://evil.example"))
	if got := res.Header.Get("Allow"); res.StatusCode != 204 || got != "GET, HEAD, PATCH, DELETE, OPTIONS" {
		t.Errorf("OPTIONS: %d %s", res.StatusCode, got)
	}
	for name := range res.Header {
		if strings.HasPrefix(name, "Access-Control") {
			t.Errorf("%s is sent", name)
		}
	}
}

func TestDeprecatedRow(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, key := range []string{"Bearer " + ownerKey, "Bearer wrong"} {
		res, _ := w.call(t, "GET", "/api/v1/old-toys/"+toyID, "", header("Authorization", key))
		if res.Header.Get("Deprecation") != "true" || res.Header.Get("X-API-Deprecation-Info") != "old-toys" {
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
		if got, want := res.Header.Get("Link"), `</api/v1/toys/`+toyID+`>; rel="successor-version"`; got != want {
			t.Errorf("Link %s", got)
		}
	}
}

// raw sends bytes and gives the first answer and whether the connection was
// closed after it.
func (w *world) raw(t *testing.T, request string) (status int, closed bool) {
	t.Helper()
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = conn.SetReadDeadline(time.Now().Add(drainIdle + 2*time.Second))
	_, err = reader.Peek(1)
	return res.StatusCode, err == io.EOF
}

func TestFraming(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.BodyTimeout = 50 * time.Millisecond })
	head := "Host: x\r\nAuthorization: Bearer " + ownerKey + "\r\nContent-Type: application/json\r\n"
	tests := map[string]struct {
		request string
		status  int
		closed  bool
	}{
		"no length at all": {"POST /api/v1/toys HTTP/1.1\r\n" + head + "\r\n", 411, false},
		"length and chunks": {"POST /api/v1/toys HTTP/1.1\r\n" + head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n", 411, true},
		"length and chunks on a read": {
			"GET /api/v1/public HTTP/1.1\r\n" + head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			200,
			true,
		},
		"slow body":                 {"POST /api/v1/toys HTTP/1.1\r\n" + head + "Content-Length: 12\r\n\r\n{\"na", 408, true},
		"slow unauthenticated body": {"POST /api/v1/toys HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n{}", 401, true},
		"declared too large": {
			"POST /api/v1/toys HTTP/1.1\r\n" + head + fmt.Sprintf("Content-Length: %d\r\n\r\n", MaxBody+1),
			413,
			false,
		},
		"asterisk": {"OPTIONS * HTTP/1.1\r\n" + head + "\r\n", 404, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, closed := w.raw(t, tt.request)
			if status != tt.status || tt.closed && !closed {
				t.Errorf("got %d, closed: %v", status, closed)
			}
		})
	}
}

// Many clients read no answer before they have sent everything.
func TestRefusalReachesWhoeverIsStillSending(t *testing.T) {
	t.Parallel()
	w := start(t)
	body := strings.Repeat("a", MaxBody+1)
	key := "Host: x\r\nAuthorization: Bearer " + ownerKey + "\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
	chunks := "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n", len(body))
	for name, tt := range map[string]struct {
		request string
		status  int
	}{
		"too large":            {"POST /api/v1/toys HTTP/1.1\r\n" + key + length, 413},
		"too large and closes": {"POST /api/v1/toys HTTP/1.1\r\nConnection: close\r\n" + key + length, 413},
		"chunked":              {"POST /api/v1/toys HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n" + key + chunks, 411},
		"unauthenticated":      {"POST /api/v1/toys HTTP/1.1\r\nConnection: close\r\nHost: x\r\n" + length, 401},
		"nowhere":              {"POST /nowhere HTTP/1.1\r\nConnection: close\r\n" + key + length, 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, closed := w.raw(t, tt.request+body); status != tt.status || !closed && strings.Contains(tt.request, "Content-Length") {
				t.Errorf("got %d, closed: %v", status, closed)
			}
		})
	}
}

func TestClientThatGoesAwayIsNoServerError(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", w.URL+"/api/v1/waits", nil)
	req.Header.Set("Authorization", "Bearer "+ownerKey)
	if _, err := w.Client().Do(req); err == nil {
		t.Fatal("answered")
	}
	w.waitForLog(t, `"status":499`)
	if strings.Contains(w.log.String(), `"status":5`) {
		t.Errorf("logged as a server error: %s", w.log)
	}
}

func (w *world) waitForLog(t *testing.T, part string) {
	t.Helper()
	for range 500 {
		if strings.Contains(w.log.String(), part) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("the log lacks %s:\n%s", part, w.log)
}

func TestOneLogLineWithoutCredentials(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.call(t, "GET", "/api/v1/broken?token="+ownerKey, "", header("X-Request-Id", "my-request-1"), header("Cookie", keyCookie+"="+readerKey))
	w.waitForLog(t, "my-request-1")
	got := w.log.String()
	if strings.Count(got, "\n") != 1 || strings.Contains(got, "svc_") {
		t.Errorf("log: %s", got)
	}
	for _, part := range []string{
		`"level":"ERROR"`, `"method":"GET"`, `"route":"/api/v1/broken"`, `"status":500`, `"duration_us":`, `"bytes":`, `"tenant":"t1"`,
		`"key_id":"k1"`, `"request_id":"my-request-1"`, `"code":"INTERNAL_ERROR"`, `"cause":"SELECT secret FROM table"`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%s lacks %s", got, part)
		}
	}
	w.call(t, "GET", "/api/v1/panic", "")
	w.waitForLog(t, "panic: a private reason")
}

func TestLevelsOfRequestLines(t *testing.T) {
	t.Parallel()
	answers := map[string]error{
		"INFO":  fault.NewNotFound("toy"),
		"WARN":  fault.New(fault.Unavailable, "", "All places are taken; retry shortly.").Because(errors.New("full")),
		"ERROR": errors.New("nil map"),
	}
	w := start(t, func(c *Config) {
		for level, err := range answers {
			c.Routes = append(c.Routes, route.Action(route.Row{Method: "GET", Path: "/api/v1/" + level, ID: level},
				func(context.Context, authz.Caller, *nilIn) (int, error) { return 0, err }))
		}
	})
	for level := range answers {
		w.call(t, "GET", "/api/v1/"+level, "", header("X-Request-Id", "request-"+level))
		w.waitForLog(t, "request-"+level)
		for line := range strings.Lines(w.log.String()) {
			if strings.Contains(line, "request-"+level) && !strings.Contains(line, `"level":"`+level+`"`) {
				t.Errorf("level of %s", line)
			}
		}
	}
}

func TestBigBodiesShareABudget(t *testing.T) {
	t.Parallel()
	reading, proceed := make(chan struct{}, 8), make(chan struct{})
	w := start(t, func(c *Config) {
		c.BodyBudget = 256 << 10
		c.Routes = append(c.Routes, route.Action(route.Row{Method: "POST", Path: "/api/v1/big", ID: "big"},
			func(context.Context, authz.Caller, *rawIn) (int, error) {
				reading <- struct{}{}
				<-proceed
				return 0, nil
			}))
	})
	body := `"` + strings.Repeat("a", 100<<10) + `"`
	done := make(chan int, 4)
	for range 4 {
		go func() {
			res, _ := w.call(t, "POST", "/api/v1/big", body)
			done <- res.StatusCode
		}()
	}
	<-reading
	<-reading
	select {
	case <-reading:
		t.Error("three bodies of 100 KiB are held at once in a budget of 256 KiB")
	case <-time.After(100 * time.Millisecond):
	}
	if res, _ := w.call(t, "POST", "/api/v1/toys", `{"name":"small"}`); res.StatusCode != 201 {
		t.Errorf("a small body had to wait: %d", res.StatusCode)
	}
	close(proceed)
	for range 4 {
		if status := <-done; status != 200 {
			t.Errorf("status %d", status)
		}
	}
}

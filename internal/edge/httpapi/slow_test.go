package httpapi

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/internal/kernel/ratelimit"
)

// trickle sends the beginning of a request at once and the rest a byte at a
// time, until the server answers or closes. It gives the status, 0 for none,
// and how long the connection was held.
func trickle(t testing.TB, address, begin, rest string, every time.Duration) (status int, held time.Duration) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	defer conn.Close()
	began := time.Now()
	_ = conn.SetDeadline(began.Add(20 * time.Second))
	var sender sync.WaitGroup
	sender.Go(func() {
		if _, err := io.WriteString(conn, begin); err != nil {
			return
		}
		for i := range len(rest) {
			if _, err := io.WriteString(conn, rest[i:i+1]); err != nil {
				return
			}
			time.Sleep(every)
		}
	})
	reader := bufio.NewReader(conn)
	if res, err := http.ReadResponse(reader, nil); err == nil {
		status = res.StatusCode
		_, _ = io.Copy(io.Discard, res.Body)
	}
	_, err = reader.ReadByte()
	held = time.Since(began)
	if err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection is still held: %v", err)
	}
	_ = conn.Close()
	sender.Wait()
	return status, held
}

// A client that always sends a little more is cut off all the same.
func TestTrickle(t *testing.T) {
	t.Parallel()
	const patience = 200 * time.Millisecond
	limits, err := ratelimit.Parse("endpoint=1/h")
	if err != nil {
		t.Fatal(err)
	}
	edge, err := New(Config{
		Routes: toys(nil), Raw: raws(), Auth: newKeys(), Log: slog.New(slog.DiscardHandler), BodyTimeout: patience,
		Limiter: ratelimit.New(limits),
	})
	if err != nil {
		t.Fatal(err)
	}
	if edge.http.ReadHeaderTimeout <= 0 || edge.http.ReadHeaderTimeout > 10*time.Second {
		t.Fatalf("headers may take %v", edge.http.ReadHeaderTimeout)
	}
	edge.http.ReadHeaderTimeout = patience
	server := httptest.NewUnstartedServer(edge)
	server.Config = edge.http
	server.Start()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()

	key := "Host: x\r\nContent-Type: application/json\r\nAuthorization: Bearer "
	body := `{"name":"` + strings.Repeat("a", 4000) + `"}`
	tests := map[string]struct {
		begin, rest string
		status      int
	}{
		"request line":    {"G", "ET /" + strings.Repeat("a", 4000), 400},
		"headers":         {"GET /healthz HTTP/1.1\r\nHost: x\r\n", "X: " + strings.Repeat("a", 4000), 0},
		"body":            {"POST /api/v1/toys HTTP/1.1\r\n" + key + ownerKey + "\r\nContent-Length: 4011\r\n\r\n", body, 408},
		"raw body":        {"POST /v1/messages HTTP/1.1\r\n" + key + ownerKey + "\r\nContent-Length: 4011\r\n\r\n", body, 408},
		"unauthenticated": {"POST /api/v1/toys HTTP/1.1\r\n" + key + "x\r\nContent-Length: 4011\r\n\r\n", body, 401},
		"missing scope":   {"PATCH /api/v1/toys/" + toyID + " HTTP/1.1\r\n" + key + readerKey + "\r\nContent-Length: 4011\r\n\r\n", body, 403},
		"unread":          {"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 4011\r\n\r\n", body, 200},
		"chunks": {
			"POST /api/v1/toys/" + toyID + "/wind HTTP/1.1\r\n" + key + ownerKey + "\r\nTransfer-Encoding: chunked\r\n\r\n",
			strings.Repeat("1\r\na\r\n", 700),
			411,
		},
	}
	var all sync.WaitGroup
	for name, tt := range tests {
		all.Go(func() {
			status, held := trickle(t, address, tt.begin, tt.rest, 5*time.Millisecond)
			if status != tt.status {
				t.Errorf("%s: %d, want %d", name, status, tt.status)
			}
			if held > drainTime+5*time.Second {
				t.Errorf("%s: held for %v", name, held)
			}
		})
	}
	all.Wait()

	// A request beyond its limit is refused before its body is read.
	status, _ := trickle(t, address, tests["body"].begin, body, 5*time.Millisecond)
	if status != http.StatusTooManyRequests {
		t.Errorf("beyond the limit: %d", status)
	}
}

// A client that sends all of its body before it looks for an answer finds the
// refusal, also where the connection ends with it.
func TestRefusedWhileSending(t *testing.T) {
	t.Parallel()
	w := start(t, func(*Config) {})
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const pieces, size = 16, 1000
	head := "POST /api/v1/toys HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(
		pieces*size,
	) + "\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	for range pieces {
		time.Sleep(60 * time.Millisecond) // together longer than net/http waits before it closes
		if _, err := io.WriteString(conn, strings.Repeat("a", size)); err != nil {
			t.Fatalf("cut off while sending: %v", err)
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d", res.StatusCode)
	}
}

// A hundred slow clients do not keep others waiting.
func TestSlowClientsHinderNobody(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.BodyTimeout = time.Second })
	head := "POST /api/v1/toys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + ownerKey + "\r\nContent-Length: 60000\r\n\r\n"
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if status, held := trickle(t, w.Listener.Addr().String(), head, strings.Repeat(" ", 2000), 25*time.Millisecond); status != http.StatusRequestTimeout ||
				held > 10*time.Second {
				t.Errorf("%d after %v", status, held)
			}
		})
	}
	for range 50 {
		began := time.Now()
		if res, body := w.call(t, "POST", "/api/v1/toys", `{"name":"a"}`); res.StatusCode != 201 || time.Since(began) > 5*time.Second {
			t.Errorf("%d after %v: %s", res.StatusCode, time.Since(began), body)
		}
	}
	all.Wait()
}

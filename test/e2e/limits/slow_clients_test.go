package limits

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// sendSlowly sends the beginning of a request, and then a byte a second of a body
// that has no end. It gives the status of the answer, 0 where the connection is
// cut without one, and how long that took.
func sendSlowly(p *apptest.Process, begin string) (status int, took time.Duration) {
	p.T.Helper()
	conn, err := net.Dial("tcp", p.Address)
	if err != nil {
		p.T.Error(err)
		return -1, 0
	}
	defer conn.Close()
	from := time.Now()
	if _, err := io.WriteString(conn, begin); err != nil {
		p.T.Error(err)
		return -1, 0
	}
	ended := make(chan struct{})
	var dripping sync.WaitGroup
	dripping.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
			}
		}
	})
	_ = conn.SetReadDeadline(from.Add(3 * time.Minute)) // a connection has deadlines
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	took = time.Since(from)
	close(ended)
	dripping.Wait()
	if err != nil {
		return 0, took
	}
	defer resp.Body.Close()
	return resp.StatusCode, took
}

// Who sends slowly, or reads nothing, is cut after a while, holds little
// meanwhile, and keeps nobody else from being answered.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	if os.Getenv("AGENTD_TEST_BURDEN") == "" {
		t.Skip("waits for a minute and a half: set AGENTD_TEST_BURDEN")
	}
	p := apptest.BuildProcess(t, modeltest.New(t))
	p.Start()
	large := p.Expect(201, "POST", "/api/v1/agents", filled(`{"name":"x","metadata":{"v":[`, "0,", `]}}`))["agent_id"].(string)
	head := func(method, path string, size int) string {
		return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", method, path, p.Key, size)
	}
	var wg sync.WaitGroup
	slow := func(n int, name, begin string, statuses map[int]bool, most time.Duration) {
		for range n {
			wg.Go(func() {
				status, took := sendSlowly(p, begin)
				if !statuses[status] || took > most {
					t.Errorf("%s: %d after %v", name, status, took)
				}
			})
		}
	}
	// Time is allowed by size: 20 s and a second for each 256 KiB. A large body
	// may have to wait for its turn first, or be refused with 503 and Retry-After.
	slow(30, "a large body", head("POST", "/api/v1/agents", maxBody), map[int]bool{408: true, 503: true}, 110*time.Second)
	slow(30, "a small body", head("POST", "/api/v1/agents", 1000), map[int]bool{408: true}, 35*time.Second)
	slow(10, "a chat", head("POST", "/v1/chat/completions", 1000), map[int]bool{408: true}, 35*time.Second)
	slow(30, "headers", "GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-A: ", map[int]bool{0: true, 400: true, 408: true}, 20*time.Second)
	slow(10, "a body that nobody reads", head("POST", "/api/v1/nothing", 1000), map[int]bool{404: true, 408: true}, 35*time.Second)

	deaf := func(path string) {
		wg.Go(func() {
			conn, err := net.Dial("tcp", p.Address)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+p.Key+"\r\n\r\n"); err != nil {
				t.Error(err)
				return
			}
			<-time.After(90 * time.Second)
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // a connection has deadlines
			if n, err := io.Copy(io.Discard, conn); n > maxBody {
				t.Errorf("%s: all of it was kept for a reader that did not read: %d bytes, %v", path, n, err)
			}
		})
	}
	for range 20 {
		deaf("/api/v1/agents/" + large)
	}
	// The others go on.
	for range 20 {
		<-time.After(time.Second)
		begin := time.Now()
		if r := p.Do("POST", "/api/v1/agents", `{"name":"quick"}`); r.StatusCode != 201 || time.Since(begin) > 5*time.Second {
			t.Errorf("beside slow clients: %d after %v: %s", r.StatusCode, time.Since(begin), r.Body)
		}
	}
	checkResponsive(p, "twenty seconds of slow clients")
	wg.Wait()
	checkResponsive(p, "slow clients")
	if r := p.Do("POST", "/api/v1/agents", `{"name":"`+strings.Repeat("a", 100)+`"}`); r.StatusCode != 201 {
		t.Errorf("after slow clients: %d %s", r.StatusCode, r.Body)
	}
}

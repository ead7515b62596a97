package protocol

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// Pages of other origins may not read answers, and what debuggers offer is not
// there.
func TestNothingForOtherOrigins(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	for _, method := range []string{"OPTIONS", "GET", "POST"} {
		r := n.SendHeaders(method, "/api/v1/agents", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "authorization", "Authorization", "Bearer "+n.Key)
		for name := range r.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s answers with %s: %s", method, name, r.Header.Get(name))
			}
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/debug", "/.git/config", "/.env", "/server-status"} {
		if r := n.Do("GET", path, nil); r.StatusCode != 404 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

// Paths that are no paths are refused, and tell nothing of what is inside.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	for _, path := range []string{
		"/api/v1/../../../etc/passwd", "/api/v1/%2e%2e/%2e%2e/etc/passwd", "/api/v1/files/..%2f..%2fsecret.key", "/api/v1/agents/%00",
		"/api/v1/agents/%ff%fe", "//api//v1//agents", "/api/v1/agents/'%20OR%201=1--", `/api/v1/agents/..%5c..%5cx`, "/api/v1/agents/{agentId}",
		"/api/v1/agents?limit=1;DROP%20TABLE%20agents", "/api/v1/" + strings.Repeat("a", 8000), "/%", "/api/v1/agents/%zz", "*", "http://[::1",
	} {
		answer := rawRequest(t, n, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+n.Key+"\r\nConnection: close\r\n\r\n")
		status, body, _ := strings.Cut(answer, "\r\n")
		if code := strings.Fields(status + " 000 000")[1]; code < "200" || code >= "500" {
			t.Errorf("%.80s: %s", path, status)
		}
		for _, word := range []string{"goroutine", "SQL", "sqlite", ".go:", "root:", n.Config.Storage.DataDir} {
			if strings.Contains(body, word) {
				t.Errorf("%.80s tells %s: %s", path, word, body)
			}
		}
	}
}

func rawRequest(t *testing.T, n *apptest.Server, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", n.App.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	var answer bytes.Buffer
	_, _ = answer.ReadFrom(c) // the server may cut the connection
	return answer.String()
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// What callers write cannot end a line of the log and begin one of its own.
func TestWordsForgeNoLogLines(t *testing.T) {
	t.Parallel()
	var log lines
	n := apptest.StartLogging(t, &log, modeltest.New(t, apptest.HangingModel))
	const forged = "x\ntime=2030-01-01T00:00:00Z level=ERROR msg=forged\r\n\x1b[31mred"
	agent := n.Do("POST", "/api/v1/agents", apptest.Object{"name": forged, "description": forged})
	n.Do("POST", "/api/v1/mcp/servers", apptest.Object{"name": forged, "transport": "http", "url": "https://does-not-resolve.invalid/" + "a%0Ab"})
	n.SendHeaders("GET", "/api/v1/agents/%0Atime=2030%20msg=forged", "", "User-Agent", "x\ttime=2030 msg=forged", "X-Request-Id", "x time=2030 msg=forged")
	if id, ok := agent.JSON["agent_id"].(string); ok {
		n.StartRun(id, forged, nil)
	}
	n.Stop()
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.text.Len() == 0 {
		t.Fatal("nothing is logged")
	}
	for line := range strings.Lines(log.text.String()) {
		if strings.HasPrefix(line, "time=2030") || strings.Contains(line, "\x1b") || !strings.HasPrefix(line, "time=") {
			t.Errorf("a forged line: %q", line)
		}
	}
}

// What agentd keeps is for its own user alone.
func TestFilesAreForTheirOwner(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	n.CreateAgent(nil)
	r := n.SendHeaders("POST", "/api/v1/agents", `{"name":"x"}`, "Content-Type", "application/json", "Authorization", "Bearer "+n.Key)
	if r.StatusCode != http.StatusCreated {
		t.Fatal(r.StatusCode)
	}
	err := filepath.WalkDir(n.Config.Storage.DataDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %o", d.Name(), info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

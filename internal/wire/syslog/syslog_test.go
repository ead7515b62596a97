package syslog

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/audit"
)

// receive takes connections and returns the messages of each.
func receive(t *testing.T, config *tls.Config, hold bool) (address string, got <-chan []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	all, end, done := make(chan []string, 8), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all <- frames(conn)
			if hold {
				<-end
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); close(end); <-done })
	return l.Addr().String(), all
}

// frames reads messages that are framed by their length.
func frames(r io.Reader) (all []string) {
	buf := bufio.NewReader(r)
	for {
		var n int
		if _, err := fmt.Fscanf(buf, "%d ", &n); err != nil {
			return all
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(buf, text); err != nil {
			return append(all, "cut off")
		}
		all = append(all, string(text))
	}
}

func lines() []audit.Line {
	at := time.Date(2026, 9, 10, 12, 0, 0, 123456000, time.UTC)
	return []audit.Line{
		audit.LineOf(audit.Record{EntryID: "1", TenantID: "t", Action: "api_key.created", Details: []byte(`{"name":"a\nb"}`), At: at}),
		audit.LineOf(audit.Record{EntryID: "2", TenantID: "t", Action: "a b\n<13>1 " + strings.Repeat("x", 50), Details: []byte(`{}`), At: at}),
	}
}

var form = regexp.MustCompile(`^<110>1 2026-09-10T12:00:00\.123456Z [!-~]+ agentd [0-9]+ ([!-~]{1,32}) - (\{[^\n]*\})$`)

func check(t *testing.T, got []string) {
	t.Helper()
	if len(got) != 2 {
		t.Fatalf("%q", got)
	}
	for i, m := range got {
		parts := form.FindStringSubmatch(m)
		var line audit.Line
		if parts == nil || json.Unmarshal([]byte(parts[2]), &line) != nil || line.EntryID != fmt.Sprint(i+1) || line.Cursor == "" {
			t.Errorf("%q", m)
		}
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]bool{"closes": false, "stays_open": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, got := receive(t, nil, hold)
			r, err := New("syslog+tcp://"+address, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.linger = 50 * time.Millisecond
			if err := r.Push(t.Context(), lines()); err != nil {
				t.Fatal(err)
			}
			check(t, <-got)
		})
	}
}

func TestPushOverTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	address, got := receive(t, &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12}, false)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	r, err := New("syslog+tls://"+address, roots)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Push(t.Context(), lines()); err != nil {
		t.Fatal(err)
	}
	check(t, <-got)
	untrusting, err := New("syslog+tls://"+address, x509.NewCertPool())
	if err != nil {
		t.Fatal(err)
	}
	if err := untrusting.Push(t.Context(), lines()); err == nil || len(<-got) > 0 {
		t.Error("entries are sent to a receiver whose certificate is not trusted")
	}
}

func TestPushFails(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, err := New("syslog+tcp://"+l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Push(ctx, lines()); err == nil {
		t.Error("a cancelled push is no error")
	}
	l.Close()
	if err := r.Push(t.Context(), lines()); err == nil {
		t.Error("a receiver that is away is no error")
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"syslog+tcp://siem.example.com":       "siem.example.com:601",
		"syslog+tls://siem.example.com":       "siem.example.com:6514",
		"syslog+tls://[2001:db8::1]:1514/":    "[2001:db8::1]:1514",
		"syslog+udp://siem.example.com":       "",
		"syslog+tcp://":                       "",
		"syslog+tcp://siem.example.com/path":  "",
		"syslog+tcp://user@siem.example.com/": "",
	} {
		r, err := New(address, nil)
		if want == "" && err == nil || want != "" && (err != nil || r.address != want) {
			t.Errorf("%s: %+v, %v", address, r, err)
		}
	}
}

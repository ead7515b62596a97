package webhookhttp_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/delivery/webhook"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

// receiver listens, and leaves each connection to a function, whose return ends
// it. The connections end with the test.
type receiver struct {
	addr     string
	accepted atomic.Int32
	sent     atomic.Int64
}

func receive(t *testing.T, serve func(conn net.Conn, r *receiver)) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{addr: l.Addr().String()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.accepted.Add(1)
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			wg.Go(func() { defer conn.Close(); serve(conn, r) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return r
}

// asked reads a request to its end.
func asked(conn net.Conn) bool {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// pour writes a piece until the connection fails.
func (r *receiver) pour(conn net.Conn, piece []byte) {
	for {
		n, err := conn.Write(piece)
		r.sent.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// drip writes a text byte by byte.
func drip(conn net.Conn, text string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range len(text) {
		<-tick.C
		if _, err := conn.Write([]byte{text[i]}); err != nil {
			return
		}
	}
}

func hang(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func after(text string, then func(net.Conn, *receiver)) func(net.Conn, *receiver) {
	return func(conn net.Conn, r *receiver) {
		if asked(conn) {
			if _, err := io.WriteString(conn, text); err == nil && then != nil {
				then(conn, r)
			}
		}
	}
}

const (
	inTime     = "The host did not answer in time."
	closedIt   = "The host closed the connection before its answer was complete."
	headers    = "The host's answer has more headers than are read."
	noHTTP     = "The host's answer is not HTTP."
	noTLS      = "The host does not speak TLS at this port; check https and http in the URL."
	untrusted  = "The host's certificate cannot be trusted: it must be signed by a public authority, and sent with its chain."
	expired    = "The host's certificate has expired, or is not valid yet."
	otherName  = "The host's certificate is for another name."
	noCommon   = "The host and agentd did not agree on TLS; TLS 1.2 or newer is spoken."
	notPublic  = "The host has no address on the public internet: it is unknown, or private."
	refusesIt  = "The host refused the connection."
	brokenOff  = "The delivery was interrupted before a response came."
	megabyte   = 1 << 20
	testLimit  = 400 * time.Millisecond
	testAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

// sender sends to one receiver, in less time than usual.
func sender(t *testing.T, allow string) webhookhttp.Caller {
	t.Helper()
	c := caller(t, allow)
	c.Timeout = testLimit
	return c
}

func attempt(url string) webhook.Request {
	return webhook.Request{URL: url, Secret: "whsec_c2VjcmV0", DeliveryID: "d", EventID: "e", EventType: "run.completed", Body: []byte(`{"event_id":"e"}`)}
}

// Whatever a receiver does, the attempt ends in its time with an outcome that
// its owner understands.
func TestBadReceivers(t *testing.T) {
	t.Parallel()
	ok := "HTTP/1.1 200 OK\r\n"
	pourX := func(conn net.Conn, r *receiver) { r.pour(conn, bytes.Repeat([]byte("x"), 64<<10)) }
	hangs := func(conn net.Conn, _ *receiver) { hang(conn) }
	self := certificate(t, time.Now().Add(time.Hour), "127.0.0.1")
	secure := func(cert tls.Certificate, maxVersion uint16) func(net.Conn, *receiver) {
		return func(conn net.Conn, r *receiver) {
			s := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS10, MaxVersion: maxVersion})
			after(testAnswer, nil)(s, r)
		}
	}
	tests := []struct {
		name, scheme string
		serve        func(net.Conn, *receiver)
		status       int
		failure      string
	}{
		{"never_answers", "http", hangs, 0, inTime},
		{"never_reads", "http", func(conn net.Conn, _ *receiver) { drip(conn, strings.Repeat(" ", 1000)) }, 0, inTime},
		{"answers_nothing", "http", after("", nil), 0, closedIt},
		{"closes_at_once", "http", func(net.Conn, *receiver) {}, 0, closedIt},
		{"resets_at_once", "http", func(conn net.Conn, _ *receiver) { conn.(*net.TCPConn).SetLinger(0) }, 0, closedIt},
		{"closes_within_status", "http", after("HTTP/1.1 2", nil), 0, noHTTP},
		{"closes_within_headers", "http", after(ok+"X-Cut: 1\r\n", nil), 0, closedIt},
		{"closes_within_header", "http", after(ok+"X-Cu", nil), 0, noHTTP},
		{"drips_headers", "http", after("", func(conn net.Conn, _ *receiver) { drip(conn, ok+strings.Repeat("X-Slow: 1\r\n", 100)) }), 0, inTime},
		{"hangs_within_headers", "http", after(ok+"X-Slow: ", hangs), 0, inTime},
		{"endless_headers", "http", after(ok, func(conn net.Conn, r *receiver) { r.pour(conn, []byte(strings.Repeat("X-More: more\r\n", 1000))) }), 0, headers},
		{"endless_header", "http", after(ok+"X-Long: ", pourX), 0, headers},
		{"endless_status", "http", after("HTTP/1.1 200 ", pourX), 0, headers},
		{"early_hints_without_end", "http", after("", func(conn net.Conn, r *receiver) {
			r.pour(conn, []byte(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 100)))
		}), 0, headers},
		{"expects_nothing_but_continues", "http", after("HTTP/1.1 100 Continue\r\n\r\n"+testAnswer, nil), 200, ""},
		{"switches_protocols", "http", after("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", hangs), 0, noHTTP},
		{"speaks_http_0.9", "http", after("hello there, this is no status line\r\n", nil), 0, noHTTP},
		{"speaks_ssh", "http", func(conn net.Conn, _ *receiver) { io.WriteString(conn, "SSH-2.0-OpenSSH_9.9\r\n"); hang(conn) }, 0, noHTTP},
		{"garbage", "http", after("\x00\x01\x02\xff\xfe\r\n\r\n", nil), 0, noHTTP},
		{"bad_header", "http", after(ok+"no colon here\r\n\r\n", nil), 0, noHTTP},
		{"bad_status", "http", after("HTTP/1.1 two hundred\r\n\r\n", nil), 0, noHTTP},
		{"two_lengths", "http", after(ok+"Content-Length: 1\r\nContent-Length: 2\r\n\r\nok", nil), 0, noHTTP},
		{"negative_length", "http", after(ok+"Content-Length: -1\r\n\r\n", nil), 0, noHTTP},
		{"unknown_coding", "http", after(ok+"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", nil), 0, noHTTP},

		{"no_content", "http", after("HTTP/1.1 204 No Content\r\n\r\n", hangs), 204, ""},
		{"drips_body", "http", after(ok+"Content-Length: 1000\r\n\r\n", func(conn net.Conn, _ *receiver) { drip(conn, strings.Repeat("x", 1000)) }), 200, ""},
		{"hangs_within_body", "http", after(ok+"Content-Length: 1000\r\n\r\nbegins", hangs), 200, ""},
		{"closes_within_body", "http", after(ok+"Content-Length: 1000\r\n\r\nbegins", nil), 200, ""},
		{"closes_within_failure", "http", after("HTTP/1.1 500 Oh\r\nContent-Length: 1000\r\n\r\nbegins", nil), 500, "The endpoint responded with status 500."},
		{"announces_a_gigabyte", "http", after(ok+"Content-Length: 1073741824\r\n\r\n", pourX), 200, ""},
		{"pours_without_end", "http", after(ok+"\r\n", pourX), 200, ""},
		{"pours_chunks", "http", after(ok+"Transfer-Encoding: chunked\r\n\r\n", func(conn net.Conn, r *receiver) {
			r.pour(conn, []byte("8000\r\n"+strings.Repeat("x", 0x8000)+"\r\n"))
		}), 200, ""},
		{"chunks_of_garbage", "http", after(ok+"Transfer-Encoding: chunked\r\n\r\nzz\r\n!!\r\n", nil), 200, ""},
		{"chunk_of_nearly_all", "http", after(ok+"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff0\r\nx", hangs), 200, ""},
		{"chunk_extensions", "http", after(ok+"Transfer-Encoding: chunked\r\n\r\n", func(conn net.Conn, r *receiver) {
			r.pour(conn, []byte(strings.Repeat("1;"+strings.Repeat("e", 1000)+"\r\nx\r\n", 30)))
		}), 200, ""},
		{"endless_trailer", "http", after(ok+"Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n", func(conn net.Conn, r *receiver) {
			r.pour(conn, []byte(strings.Repeat("X: y\r\n", 1000)))
		}), 200, ""},
		{"gzip_bomb", "http", after(ok+"Content-Encoding: gzip\r\n\r\n", func(conn net.Conn, r *receiver) {
			w := gzip.NewWriter(conn)
			w.Write(make([]byte, 64*megabyte))
			w.Close()
		}), 200, ""},

		{"redirects_inside", "http", after("HTTP/1.1 307 T\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n", nil), 307, "The endpoint responded with a redirect (status 307); redirects are not followed."},
		{"redirects_to_itself", "http", after("HTTP/1.1 302 F\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", nil), 302, "The endpoint responded with a redirect (status 302); redirects are not followed."},
		{"is_gone", "http", after("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", nil), 410, "The endpoint responded with status 410."},
		{"is_a_teapot_and_hangs", "http", after("HTTP/1.1 418 T\r\nContent-Length: 9\r\n\r\n", hangs), 418, "The endpoint responded with status 418."},
		{"status_of_nothing", "http", after("HTTP/1.1 000 N\r\nContent-Length: 0\r\n\r\n", nil), 0, "The endpoint responded with status 0."},
		{"status_999", "http", after("HTTP/1.1 999 N\r\nContent-Length: 0\r\n\r\n", nil), 999, "The endpoint responded with status 999."},

		{"plain_where_tls_is_due", "https", func(conn net.Conn, _ *receiver) { io.WriteString(conn, testAnswer); hang(conn) }, 0, noTLS},
		{"tls_where_plain_is_due", "http", secure(self, tls.VersionTLS13), 0, closedIt},
		{"hangs_within_handshake", "https", hangs, 0, inTime},
		{"closes_within_handshake", "https", func(conn net.Conn, _ *receiver) { conn.Read(make([]byte, 100)) }, 0, closedIt},
		{"self_signed", "https", secure(self, tls.VersionTLS13), 0, untrusted},
		{"expired", "https", secure(certificate(t, time.Now().Add(-time.Hour), "127.0.0.1"), tls.VersionTLS13), 0, expired},
		{"of_another_name", "https", secure(certificate(t, time.Now().Add(time.Hour), "192.0.2.1"), tls.VersionTLS13), 0, otherName},
		{"tls_1.0_only", "https", secure(self, tls.VersionTLS10), 0, noCommon},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, test.serve)
			c := sender(t, r.addr)
			o := c.Send(t.Context(), attempt(test.scheme+"://"+r.addr+"/hook"))
			failure := o.Failure
			if test.name == "tls_where_plain_is_due" && failure == noHTTP {
				failure = closedIt // which of the two depends on who is first
			}
			if o.Status != test.status || failure != test.failure || o.Latency <= 0 || o.Latency > 20*testLimit {
				t.Errorf("%+v; want status %d, %q", o, test.status, test.failure)
			}
			if n := r.accepted.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
			// The kernel buffers some megabytes for a sender that is not read.
			if n := r.sent.Load(); n > 16*megabyte {
				t.Errorf("%d bytes were taken", n)
			}
		})
	}
}

// Nothing that a receiver sends ends up in memory: a thousandth of it is
// allocated at most.
func TestBadReceiversCostNoMemory(t *testing.T) {
	r := receive(t, after("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", func(conn net.Conn, r *receiver) {
		r.pour(conn, make([]byte, 64<<10))
	}))
	c := sender(t, r.addr)
	c.Send(t.Context(), attempt("http://"+r.addr))
	var before, then runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 20
	for range times {
		if o := c.Send(t.Context(), attempt("http://"+r.addr)); o.Status != 200 || o.Failure != "" {
			t.Fatalf("%+v", o)
		}
	}
	runtime.ReadMemStats(&then)
	if each := (then.TotalAlloc - before.TotalAlloc) / times; each > 256<<10 {
		t.Errorf("%d bytes for each answer", each)
	}
}

func TestReceiversThatAreNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(free)
	c, guarded := sender(t, free), sender(t, "")
	inside := receive(t, after(testAnswer, nil))
	_, insidePort, _ := net.SplitHostPort(inside.addr)
	for _, test := range []struct {
		c            webhookhttp.Caller
		url, failure string
	}{
		{c, "http://" + free, refusesIt},
		{guarded, "http://" + inside.addr, notPublic},
		{guarded, "http://localhost:" + insidePort, notPublic},
		{guarded, "http://[::ffff:127.0.0.1]:" + insidePort, notPublic},
		{guarded, "http://169.254.169.254/latest", notPublic},
		{guarded, "http://nothing.invalid:" + port, notPublic},
		{guarded, "http://2130706433:" + insidePort, "The URL's host is a number; write the address as four decimal numbers, or a name."},
		{guarded, "not a url", "The URL must begin with https:// or http://."},
		{guarded, "http://[", "The host could not be reached."},
	} {
		o := test.c.Send(t.Context(), attempt(test.url))
		if o.Status != 0 || o.Failure != test.failure && !(strings.Contains(test.url, ".invalid") && o.Failure == "The host's name could not be looked up.") {
			t.Errorf("%s: %+v", test.url, o)
		}
	}
	if n := inside.accepted.Load(); n != 0 {
		t.Errorf("%d connections inside", n)
	}
}

func TestSendIsBrokenOff(t *testing.T) {
	t.Parallel()
	r := receive(t, func(conn net.Conn, _ *receiver) { hang(conn) })
	c := caller(t, r.addr)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if o := c.Send(ctx, attempt("http://"+r.addr)); o.Status != 0 || o.Failure != brokenOff || o.Latency > 5*time.Second {
		t.Errorf("%+v", o)
	}
}

// A server that closes its idle connections just when the next event comes is
// no failure of the delivery.
func TestClosedConnectionsAreNoFailures(t *testing.T) {
	t.Parallel()
	r := receive(t, func(conn net.Conn, _ *receiver) {
		if asked(conn) {
			io.WriteString(conn, testAnswer)
			conn.Read(make([]byte, 1)) // closes when the next request begins to arrive
		}
	})
	c := sender(t, r.addr)
	for i := range 5 {
		if o := c.Send(t.Context(), attempt("http://"+r.addr)); o.Status != 200 || o.Failure != "" {
			t.Errorf("event %d: %+v", i, o)
		}
	}
}

func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	r := receive(t, func(conn net.Conn, _ *receiver) {
		in := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			io.WriteString(conn, "HTTP/1.1 500 Oh\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat("x", 60000))
		}
	})
	c := sender(t, r.addr)
	for range 10 {
		if o := c.Send(t.Context(), attempt("http://"+r.addr)); o.Status != 500 {
			t.Errorf("%+v", o)
		}
	}
	if n := r.accepted.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TLS works with a certificate of a trusted authority.
func TestSendOverTLS(t *testing.T) {
	t.Parallel()
	cert := certificate(t, time.Now().Add(time.Hour), "127.0.0.1")
	r := receive(t, func(conn net.Conn, r *receiver) {
		after(testAnswer, nil)(tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}}), r)
	})
	allow, err := outbound.ParseAllow(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	cfg := webhookhttp.ClientConfig(allow)
	cfg.Roots = x509.NewCertPool()
	cfg.Roots.AddCert(cert.Leaf)
	client := outbound.New(cfg)
	t.Cleanup(client.Close)
	if o := (webhookhttp.Caller{Client: client, Clock: clock.System{}}).Send(t.Context(), attempt("https://"+r.addr)); o.Status != 200 || o.Failure != "" {
		t.Errorf("%+v", o)
	}
}

// certificate is signed by itself, for an address.
func certificate(t *testing.T, until time.Time, address string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "receiver"}, NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

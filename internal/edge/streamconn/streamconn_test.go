package streamconn

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// pair returns both ends of a TCP connection.
func pair(t *testing.T) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return &Conn{conn: server}, client.(*net.TCPConn)
}

// waiting runs WaitForClient and returns a channel that is closed when it returns.
func waiting(c *Conn) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.WaitForClient()
	}()
	return done
}

func ended(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("WaitForClient did not return")
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	head := string(Head(http.Header{"Content-Type": {"text/event-stream"}})) + "data: x\n\n"
	res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head)), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != "data: x\n\n" || !res.Close || res.Header.Get("Date") == "" ||
		res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v %q %v", err, body, res)
	}
}

func TestHijackRefusals(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*http.Request{
		"recorder": httptest.NewRequest("GET", "/", nil),
		"body":     httptest.NewRequest("GET", "/", strings.NewReader("x")),
		"POST":     httptest.NewRequest("POST", "/", nil),
	} {
		if _, ok := Hijack(httptest.NewRecorder(), r); ok {
			t.Errorf("%s: hijacked", name)
		}
	}
}

func TestBufferedBytesArriveBeforeTheEnd(t *testing.T) {
	t.Parallel()
	c, client := pair(t)
	done := waiting(c)
	now := time.Now()
	if n := c.Buffer([]byte("one ")); n != 4 || c.Buffered() != 4 {
		t.Errorf("%d bytes are buffered", n)
	}
	c.Buffer([]byte("two "))
	if n, err := c.Flush(now, time.Second); n != 8 || err != nil || c.Buffered() != 0 {
		t.Errorf("flushed %d: %v", n, err)
	}
	if n, err := c.Flush(now, time.Second); n != 0 || err != nil {
		t.Errorf("an empty flush: %d, %v", n, err)
	}
	if _, err := c.Write(now, []byte("three"), time.Second); err != nil {
		t.Error(err)
	}
	c.Close(now)
	got, err := io.ReadAll(client)
	if string(got) != "one two three" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	client.Close()
	ended(t, done)
}

// A client that does not close its half is disconnected after closeTimeout.
func TestCloseDoesNotWaitForTheClientForever(t *testing.T) {
	t.Parallel()
	c, _ := pair(t)
	done := waiting(c)
	begin := time.Now()
	c.Close(begin)
	ended(t, done)
	if took := time.Since(begin); took < closeTimeout {
		t.Errorf("closed after %v", took)
	}
}

func TestAClientThatSendsTooMuchIsDisconnected(t *testing.T) {
	t.Parallel()
	c, client := pair(t)
	done := waiting(c)
	_, _ = client.Write(make([]byte, 2*maxClientBytes))
	ended(t, done)
}

func TestAClientThatDoesNotReadFailsAtTheDeadline(t *testing.T) {
	t.Parallel()
	c, _ := pair(t)
	for chunk := make([]byte, 1<<20); ; {
		_, err := c.Write(time.Now(), chunk, 100*time.Millisecond)
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

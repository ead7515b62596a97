// Package streamconn carries one event stream on a connection that was taken
// from net/http (docs/adr/0028).
//
// Serving a stream inside its HTTP handler keeps the stack of the whole
// middleware chain, several buffers and two copies of the headers alive for
// hours. After a hijack only the connection itself remains. The response head is
// therefore written here, by hand; it has neither a length nor chunks and says
// Connection: close, so that the bytes of an event on the wire are exactly the
// bytes that were rendered for it.
//
// A Conn starts no goroutine. [Conn.WaitForClient] blocks and is meant to run in
// one of its own; Write, Flush and Close are called under the caller's lock.
package streamconn

import (
	"bytes"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxClientBytes is how much a client may send before it is disconnected: a
	// reader of events has nothing to send after its request.
	maxClientBytes = 4 << 10
	// closeTimeout is how long the client has to receive the end of the stream.
	closeTimeout = 500 * time.Millisecond
	// maxPooled is the capacity up to which a write buffer is kept for reuse.
	maxPooled = 64 << 10
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Conn is a connection that carries the rest of one response.
type Conn struct {
	conn net.Conn

	buf      *bytes.Buffer // bytes not yet written; nil: none
	deadline time.Time     // when the write deadline was last set
}

// Hijack takes the connection of a request over. It reports false where the
// connection carries more than this response: HTTP/2, a request body, or a
// ResponseWriter that cannot be hijacked.
func Hijack(w http.ResponseWriter, r *http.Request) (*Conn, bool) {
	if r.ContentLength != 0 || r.Method != http.MethodGet {
		return nil, false
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, false
	}
	return &Conn{conn: conn}, true
}

// Head renders the status line and headers of a 200 response that ends with its
// connection. It adds Connection and Date to h.
func Head(h http.Header) []byte {
	h.Set("Connection", "close")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	buf := bytes.NewBuffer(make([]byte, 0, 1024))
	buf.WriteString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(buf) // a bytes.Buffer does not fail
	buf.WriteString("\r\n")
	return buf.Bytes()
}

// WaitForClient returns when the client has left, has sent more than
// maxClientBytes, or the connection was closed. The connection is closed then.
func (c *Conn) WaitForClient() {
	defer c.conn.Close()
	buf := make([]byte, 16)
	for total := 0; total < maxClientBytes; {
		n, err := c.conn.Read(buf)
		total += n
		if err != nil {
			return
		}
	}
}

// Write sends p at once. The client has about timeout to take it.
func (c *Conn) Write(now time.Time, p []byte, timeout time.Duration) (int, error) {
	// Setting a deadline costs about as much as a small write, so that it is
	// renewed only when a good part of it has passed.
	if now.Sub(c.deadline) > min(time.Second, timeout/4) {
		c.deadline = now
		_ = c.conn.SetWriteDeadline(now.Add(timeout)) // a closed connection fails at the write
	}
	return c.conn.Write(p)
}

// Buffer keeps p until the next Flush and returns how many bytes are kept.
func (c *Conn) Buffer(p []byte) int {
	if c.buf == nil {
		c.buf = buffers.Get().(*bytes.Buffer)
		c.buf.Reset()
	}
	c.buf.Write(p)
	return c.buf.Len()
}

// Buffered returns how many bytes are kept.
func (c *Conn) Buffered() int {
	if c.buf == nil {
		return 0
	}
	return c.buf.Len()
}

// Flush sends the bytes that are kept.
func (c *Conn) Flush(now time.Time, timeout time.Duration) (int, error) {
	if c.buf == nil {
		return 0, nil
	}
	n, err := c.Write(now, c.buf.Bytes(), timeout)
	if c.buf.Cap() <= maxPooled {
		buffers.Put(c.buf)
	}
	c.buf = nil
	return n, err
}

// Abort closes the connection without sending what is kept.
func (c *Conn) Abort() { _ = c.conn.Close() }

// Close ends the response: it closes the sending half, so that the client sees
// the end only after everything before it. WaitForClient closes the rest when the
// client has answered with its own close, or after closeTimeout.
func (c *Conn) Close(now time.Time) {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		c.Abort()
		return
	}
	_ = c.conn.SetReadDeadline(now.Add(closeTimeout))
}

package httpapi

import (
	"io"
	"net/http"
	"time"
)

const (
	// drainTime and drainBytes bound what is still read of a refused body;
	// drainIdle is how long its next bytes are waited for.
	drainTime  = 5 * time.Second
	drainBytes = MaxUpload
	drainIdle  = 500 * time.Millisecond
	// drainedByServer is how much of an unread body net/http reads by itself, unless
	// the connection ends with the answer: then it reads nothing, and waits half a
	// second before it closes.
	drainedByServer = 256 << 10
)

// drain reads what a client is still sending after it was refused. Clients that
// send their whole body before they read the answer would otherwise get a reset
// connection instead of it: net/http closes with bytes unread, at once where the
// client asked for Connection: close.
func (x *exchange) drain(r *http.Request) {
	closing := r.Close || x.Header().Get("Connection") == "close"
	byServer := r.ContentLength > 0 && r.ContentLength <= drainedByServer && !closing
	if x.status < 400 || r.ContentLength == 0 || byServer || r.Header.Get("Expect") != "" {
		return
	}
	rest := deadlineReader{body: r.Body, conn: http.NewResponseController(x.w), until: time.Now().Add(drainTime)}
	if rest.conn.Flush() == nil {
		_, _ = io.CopyN(io.Discard, rest, drainBytes) // the client may have left
	}
}

// deadlineReader reads a body until its sender pauses for drainIdle, or until a
// point in time.
type deadlineReader struct {
	body  io.Reader
	conn  *http.ResponseController
	until time.Time
}

// Read implements io.Reader.
func (d deadlineReader) Read(b []byte) (int, error) {
	deadline := time.Now().Add(drainIdle)
	if deadline.After(d.until) {
		deadline = d.until
	}
	if err := d.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	return d.body.Read(b)
}

package httpapi

import (
	"io"
	"net/http"
	"time"
)

const (
	// lingerTime and lingerBytes bound what is still read of a refused body.
	lingerTime  = 5 * time.Second
	lingerBytes = MaxUpload
	// readAnyway is what net/http reads of a body that its handler did not, unless
	// the connection ends with the answer: then it reads nothing, and waits half a
	// second before it closes.
	readAnyway = 256 << 10
)

// linger reads what a client is still sending after it was refused. Clients
// that send their whole body before they look for an answer would otherwise
// get a reset connection in place of the refusal: net/http closes with bytes
// unread, at once where the client asked for Connection: close.
func (x *exchange) linger(r *http.Request) {
	ending := r.Close || x.Header().Get("Connection") == "close"
	if x.status < 400 || r.ContentLength == 0 || r.ContentLength > 0 && r.ContentLength <= readAnyway && !ending || r.Header.Get("Expect") != "" {
		return
	}
	conn := http.NewResponseController(x.w)
	if conn.Flush() != nil || conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, lingerBytes) // the client may be gone
}

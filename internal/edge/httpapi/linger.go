package httpapi

import (
	"io"
	"net/http"
	"time"
)

const (
	// lingerTime and lingerBytes bound what is still read of a refused body, and
	// lingerSilence how long its next bytes are waited for.
	lingerTime    = 5 * time.Second
	lingerBytes   = MaxUpload
	lingerSilence = 500 * time.Millisecond
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
	rest := patient{body: r.Body, conn: http.NewResponseController(x.w), until: time.Now().Add(lingerTime)}
	if rest.conn.Flush() == nil {
		_, _ = io.CopyN(io.Discard, rest, lingerBytes) // the client may be gone
	}
}

// patient reads a body until its sender falls silent, or a moment is reached.
type patient struct {
	body  io.Reader
	conn  *http.ResponseController
	until time.Time
}

func (p patient) Read(b []byte) (int, error) {
	by := time.Now().Add(lingerSilence)
	if by.After(p.until) {
		by = p.until
	}
	if err := p.conn.SetReadDeadline(by); err != nil {
		return 0, err
	}
	return p.body.Read(b)
}

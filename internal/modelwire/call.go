package modelwire

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentd/internal/model"
)

// NewTransport is made for many calls to few endpoints: connections are kept,
// HTTP/1.1 gives each stream its own, and no proxy stands between.
func NewTransport() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		Protocols:              &protocols,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// newCall makes the HTTP request of one attempt.
func newCall(ctx context.Context, req *model.Request, body *payload, stream bool) (*http.Request, error) {
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, req.Target.BaseURL+"/chat/completions", nil)
	if err != nil || call.URL.Host == "" {
		return nil, &model.Error{Code: codeNotConfigured, Detail: "The model's endpoint is not a URL like https://host/v1.", Cause: err}
	}
	call.ContentLength = int64(len(body.bytes))
	call.Body = body.reader()
	call.GetBody = func() (io.ReadCloser, error) { return body.reader(), nil }
	accept := "application/json"
	if stream {
		accept = "text/event-stream"
	}
	call.Header = http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {accept},
		"User-Agent":   {"agentd"},
	}
	if key := req.Target.APIKey; !key.Empty() {
		call.Header["Authorization"] = []string{"Bearer " + key.Reveal()}
	}
	return call, nil
}

// payload is an encoded request in a pooled buffer. The transport may read a
// body after RoundTrip returned, until it closes it, so the buffer goes back to
// the pool when the call and all its readers have let go of it.
type payload struct {
	bytes   []byte
	holders atomic.Int32
}

const keepPayload = 1 << 20 // larger buffers are left to the collector

var payloads = sync.Pool{New: func() any { return &payload{bytes: make([]byte, 0, 4<<10)} }}

func newPayload() *payload {
	p := payloads.Get().(*payload)
	p.bytes = p.bytes[:0]
	p.holders.Store(1)
	return p
}

func (p *payload) release() {
	if p.holders.Add(-1) == 0 && cap(p.bytes) <= keepPayload {
		payloads.Put(p)
	}
}

func (p *payload) reader() *payloadReader {
	p.holders.Add(1)
	return &payloadReader{from: p}
}

// payloadReader reads a payload until it is closed. The transport may close it
// from one goroutine while another reads.
type payloadReader struct {
	mu   sync.Mutex
	from *payload
	at   int
}

func (r *payloadReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.from == nil {
		return 0, os.ErrClosed
	}
	if r.at == len(r.from.bytes) {
		return 0, io.EOF
	}
	n := copy(b, r.from.bytes[r.at:])
	r.at += n
	return n, nil
}

func (r *payloadReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.from != nil {
		r.from.release()
		r.from = nil
	}
	return nil
}

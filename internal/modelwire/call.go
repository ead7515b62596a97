package modelwire

import (
	"bytes"
	"context"
	"net"
	"net/http"
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
func newCall(ctx context.Context, req *model.Request, body []byte, stream bool) (*http.Request, error) {
	accept := "application/json"
	if stream {
		accept = "text/event-stream"
	}
	return newPost(ctx, &req.Target, "/chat/completions", body, accept)
}

// newPost makes a request to an endpoint. The body is a bytes.Reader, which
// net/http sends in one write with the headers; any other kind of reader, one
// over a pooled buffer too, costs a second write and a third of the speed.
func newPost(ctx context.Context, to *model.Target, path string, body []byte, accept string) (*http.Request, error) {
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, to.BaseURL+path, bytes.NewReader(body))
	if err != nil || call.URL.Host == "" {
		return nil, &model.Error{Code: codeNotConfigured, Detail: "The model's endpoint is not a URL like https://host/v1.", Cause: err}
	}
	call.Header = http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {accept},
		"User-Agent":   {"agentd"},
	}
	if key := to.APIKey; !key.Empty() {
		call.Header["Authorization"] = []string{"Bearer " + key.Reveal()}
	}
	return call, nil
}

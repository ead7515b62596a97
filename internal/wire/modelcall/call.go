package modelcall

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/kernel/model"
)

// NewTransport returns a transport for many calls to few endpoints: connections are
// kept, HTTP/1.1 gives each stream its own, and no proxy is used.
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

// Call is a request without its endpoint.
type Call struct {
	Path     string // below the base URL
	Base     string // another base URL than the target's; "": that one
	Body     []byte // nil: a GET
	Kind     string // content type of the body; "": JSON
	Accept   string // "": JSON
	Timeouts Timeouts
	API      string // what the endpoint must speak, for errors; "": an OpenAI-compatible API
	// Sign adds the target's key and what else the wire's requests have; nil: the key is
	// a bearer token. Errors: *model.Error, the context's.
	Sign func(*http.Request) error
}

const jsonType = "application/json"

// Request returns the HTTP request of one attempt. The body is a bytes.Reader, which
// net/http sends in one write with the headers; any other reader, even over a pooled
// buffer, costs a second write and a third of the throughput.
func (q *Call) Request(ctx context.Context, to *model.Target) (*http.Request, error) {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if q.Body != nil {
		method, body = http.MethodPost, bytes.NewReader(q.Body)
	}
	if to.Guarded {
		ctx = authz.WithTenant(ctx, to.TenantID)
	}
	call, err := http.NewRequestWithContext(ctx, method, cmp.Or(q.Base, to.BaseURL)+q.Path, body)
	if err != nil || call.URL.Host == "" {
		return nil, &model.Error{Code: CodeNotConfigured, Detail: "The model's endpoint is not a URL like https://host/v1.", Cause: err}
	}
	call.Header = http.Header{"Accept": {cmp.Or(q.Accept, jsonType)}, "User-Agent": {"agentd"}}
	if q.Body != nil {
		call.Header["Content-Type"] = []string{cmp.Or(q.Kind, jsonType)}
	}
	if q.Sign != nil {
		return call, q.Sign(call)
	}
	if key := to.APIKey; !key.Empty() {
		call.Header["Authorization"] = []string{"Bearer " + key.Reveal()}
	}
	return call, nil
}

// Timeouts bound an endpoint's time: to begin, between two pieces, in total.
type Timeouts struct{ Begin, Idle, All time.Duration }

// Within returns the time-outs of a call that may take that long, including any silence.
func Within(d time.Duration) Timeouts { return Timeouts{d, d, d} }

// Transport returns the transport for an endpoint.
func (c *Caller) Transport(to *model.Target) (http.RoundTripper, error) {
	transport := c.Operator
	switch {
	case to.Guarded:
		transport = c.Guarded
	case to.Screened:
		transport = c.Screened
	}
	if transport == nil {
		return nil, &model.Error{Code: CodeNotConfigured, Detail: "Models at an agent's own endpoint_url are disabled on this deployment."}
	}
	return transport, nil
}

// Attempt calls an endpoint once, and calls read with its answer.
func (c *Caller) Attempt(ctx context.Context, req *model.Request, q Call, read func(*Reader) error) error {
	transport, err := c.Transport(&req.Target)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := NewWatchdog(cancel, q.Timeouts.All)
	defer watch.Stop()

	call, err := q.Request(ctx, &req.Target)
	if err != nil {
		return err
	}
	watch.Arm(q.Timeouts.Begin)
	resp, err := transport.RoundTrip(call)
	if err != nil {
		return DialError(ctx, err)
	}
	defer resp.Body.Close()
	if req.OnRate != nil {
		ObserveRate(req.OnRate, resp.Header)
	}
	in := &Reader{Size: resp.ContentLength, src: resp.Body, watch: watch, idle: q.Timeouts.Idle}
	if resp.StatusCode != http.StatusOK {
		return StatusError(resp, in, req)
	}
	if err := read(in); err != nil {
		return ReadError(ctx, err, req, q.API)
	}
	return nil
}

// Fetch calls an endpoint once and returns its answer, which may have limit bytes.
// Errors: *model.Error; the context's.
func (c *Caller) Fetch(ctx context.Context, to *model.Target, q Call, limit int) (raw []byte, err error) {
	err = c.Attempt(ctx, &model.Request{Target: *to}, q, func(in *Reader) (err error) {
		raw, err = io.ReadAll(io.LimitReader(in, int64(limit)+1))
		if err == nil && len(raw) > limit {
			err = ErrTooLong
		}
		return err
	})
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return raw, nil
}

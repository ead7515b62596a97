package openaiclient

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

// endpointRequest is a request without its endpoint.
type endpointRequest struct {
	path     string // below the base URL
	body     []byte // nil: a GET
	kind     string // content type of the body; "": JSON
	accept   string // "": JSON
	timeouts timeouts
}

const jsonType = "application/json"

// request returns the HTTP request of one attempt. The body is a bytes.Reader, which
// net/http sends in one write with the headers; any other reader, even over a pooled
// buffer, costs a second write and a third of the throughput.
func (q *endpointRequest) request(ctx context.Context, to *model.Target) (*http.Request, error) {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if q.body != nil {
		method, body = http.MethodPost, bytes.NewReader(q.body)
	}
	if to.Guarded {
		ctx = authz.WithTenant(ctx, to.TenantID)
	}
	call, err := http.NewRequestWithContext(ctx, method, to.BaseURL+q.path, body)
	if err != nil || call.URL.Host == "" {
		return nil, &model.Error{Code: codeNotConfigured, Detail: "The model's endpoint is not a URL like https://host/v1.", Cause: err}
	}
	call.Header = http.Header{"Accept": {cmp.Or(q.accept, jsonType)}, "User-Agent": {"agentd"}}
	if q.body != nil {
		call.Header["Content-Type"] = []string{cmp.Or(q.kind, jsonType)}
	}
	if key := to.APIKey; !key.Empty() {
		call.Header["Authorization"] = []string{"Bearer " + key.Reveal()}
	}
	return call, nil
}

// timeouts bound an endpoint's time: to begin, between two pieces, in total.
type timeouts struct{ begin, idle, all time.Duration }

// transport returns the transport for an endpoint.
func (c *Client) transport(to *model.Target) (http.RoundTripper, error) {
	transport := c.Operator
	if to.Guarded {
		transport = c.Guarded
	}
	if transport == nil {
		return nil, &model.Error{Code: codeNotConfigured, Detail: "Models at an agent's own endpoint_url are disabled on this deployment."}
	}
	return transport, nil
}

// attempt calls an endpoint once, and calls read with its answer.
func (c *Client) attempt(ctx context.Context, req *model.Request, q endpointRequest, read func(*timedReader) error) error {
	transport, err := c.transport(&req.Target)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := newWatchdog(cancel)
	watch.end = time.Now().Add(q.timeouts.all)
	defer watch.stop()

	call, err := q.request(ctx, &req.Target)
	if err != nil {
		return err
	}
	watch.arm(q.timeouts.begin)
	resp, err := transport.RoundTrip(call)
	if err != nil {
		return dialError(ctx, err)
	}
	defer resp.Body.Close()
	if req.OnRate != nil {
		observeRate(req.OnRate, resp.Header)
	}
	in := &timedReader{src: resp.Body, size: resp.ContentLength, watch: watch, idle: q.timeouts.idle}
	if resp.StatusCode != http.StatusOK {
		return statusError(resp, in, req)
	}
	if err := read(in); err != nil {
		return readError(ctx, err, req)
	}
	return nil
}

// fetch calls an endpoint once and returns its answer, which may have limit bytes.
// Errors: *model.Error; the context's.
func (c *Client) fetch(ctx context.Context, to *model.Target, q endpointRequest, limit int) (raw []byte, err error) {
	err = c.attempt(ctx, &model.Request{Target: *to}, q, func(in *timedReader) (err error) {
		raw, err = io.ReadAll(io.LimitReader(in, int64(limit)+1))
		if err == nil && len(raw) > limit {
			err = errTooLong
		}
		return err
	})
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return raw, nil
}

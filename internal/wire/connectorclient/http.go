// Package connectorclient makes the calls of integrations: HTTP requests, queries of
// databases, and email. Tenants choose all addresses, so that each connection goes
// through the guarded client.
package connectorclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/delivery/integration"
	"agentd/internal/wire/outbound"
)

// httpTime bounds an HTTP call, from its start to the end of the answer.
const httpTime = 45 * time.Second

// HTTP implements integration.HTTP.
type HTTP struct {
	Guarded *outbound.Client
}

var _ integration.HTTP = HTTP{}

// Do implements integration.HTTP.
func (h HTTP) Do(ctx context.Context, r *integration.Request, maxBody int64) (*integration.Response, error) {
	var body io.Reader
	if len(r.Body) > 0 {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "The address of the service is not valid.").Because(err)
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	resp, err := h.Guarded.Do(req, outbound.Limits{Time: httpTime, Bytes: maxBody + 1})
	if err != nil {
		return nil, unreached(err)
	}
	defer resp.Body.Close()
	out := &integration.Response{Status: resp.StatusCode, Link: resp.Header.Get("Link")}
	if out.Type, _, err = mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil {
		out.Type = ""
	}
	out.Body, err = io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, outbound.ErrTooLarge) {
		return nil, unreached(err)
	}
	if int64(len(out.Body)) > maxBody {
		out.Body, out.Cut = out.Body[:maxBody], true
	}
	return out, nil
}

// unreached returns the error for people about a connection. It has no URL, which may
// hold a credential.
func unreached(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e // the address is refused
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return fault.New(fault.Unavailable, "HOST_UNKNOWN", "The host name of the service does not exist.").Because(err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fault.New(fault.Unavailable, "EXTERNAL_SERVICE_ERROR", "The service did not answer in time.").Because(err)
	}
	return fault.New(fault.Unavailable, "EXTERNAL_SERVICE_ERROR", "The service cannot be reached, or broke the connection off.").Because(err)
}

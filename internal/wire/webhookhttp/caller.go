// Package webhookhttp sends requests to webhooks: it calls those of guardrails
// and returns their response, posts notifications, and sends the deliveries of
// subscriptions. All are signed POSTs of JSON.
//
// An endpoint may be slow, broken or hostile: each call has a time limit, reads a
// limited part of the response, and follows no redirects.
package webhookhttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"agentd/internal/agents/guardrail"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/wire/outbound"
)

// ClientConfig returns the configuration for the client of a Caller. It uses
// HTTP/1.1 only: so deliveries of several tenants to one host share no connection,
// and data that an endpoint sends unasked stays in its own socket. Many idle
// connections are kept, because each new one costs a name lookup and a handshake.
func ClientConfig(allow outbound.Allow) outbound.Config {
	return outbound.Config{
		Allow: allow, HTTP1: true, TLSTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 32 << 10, MaxIdle: 2048, MaxIdlePerHost: 256,
	}
}

// Caller makes calls with a client that guards which addresses it connects to,
// because tenants choose the URLs. It is safe for concurrent use.
type Caller struct {
	Client *outbound.Client
	Clock  clock.Clock
	// Timeout limits a delivery from its first packet to the end of the response
	// [10 s].
	Timeout time.Duration
	// TimeoutNow takes the place of Timeout, if not nil, and may change.
	TimeoutNow func() time.Duration
}

var _ guardrail.Hooks = Caller{}

// Call implements [guardrail.Hooks]. It does not retry, because a run waits for
// the response. A response over [guardrail.Call.MaxAnswer] is outbound.ErrTooLarge.
func (c Caller) Call(ctx context.Context, call guardrail.Call) (guardrail.Reply, error) {
	h := signedHeader(call.Body, call.Secret, c.Clock.Now())
	h["Accept"] = []string{"application/json"}
	ctx = authz.WithTenant(ctx, call.TenantID)
	if call.Key != "" {
		h["Idempotency-Key"] = []string{call.Key}
	}
	resp, err := c.post(ctx, call.URL, h, call.Body, outbound.Limits{Time: call.Timeout, Bytes: call.MaxAnswer})
	if err != nil {
		return guardrail.Reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return guardrail.Reply{}, err
	}
	return guardrail.Reply{Status: resp.StatusCode, Body: body}, nil
}

// post sends a request. The body is a bytes.Reader, which net/http sends in one
// write with the headers, and can send again on a new connection.
func (c Caller) post(ctx context.Context, url string, h http.Header, body []byte, l outbound.Limits) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h
	return c.Client.Do(req, l)
}

// Package hookwire speaks to webhooks: it calls those of guardrails, whose
// answer decides something, posts notifications, and sends the deliveries of
// subscriptions. All are signed POSTs of JSON (interface.md section 6).
//
// A receiver is anybody's program, and may be slow, broken or hostile: each call
// ends in its time, reads what it may of the answer, and follows nothing.
package webhookhttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"agentd/internal/agents/guardrail"
	"agentd/internal/base/clock"
	"agentd/internal/wire/outbound"
)

// ClientConfig is how the client of a Caller should be made. It speaks HTTP/1.1
// only: deliveries of several tenants to one host share no connection then, and
// what a receiver sends unasked stays in its own socket. Many connections are
// kept, as each attempt that needs a new one pays for a name and a handshake.
func ClientConfig(allow outbound.Allow) outbound.Config {
	return outbound.Config{
		Allow: allow, HTTP1: true, TLSTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 32 << 10, MaxIdle: 2048, MaxIdlePerHost: 256,
	}
}

// Caller makes calls with a client, which guards what it reaches: addresses are
// the tenants' choice. Safe for concurrent use.
type Caller struct {
	Client *outbound.Client
	Clock  clock.Clock
	// Timeout is what a delivery may take from its first packet to the end of its
	// answer [10 s].
	Timeout time.Duration
}

var _ guardrail.Hooks = Caller{}

// Call implements [guardrail.Hooks]. It calls once: who waits for a verdict
// cannot wait for a second try. An answer over [guardrail.Call.Most] is
// outbound.ErrTooLarge.
func (c Caller) Call(ctx context.Context, call guardrail.Call) (guardrail.Reply, error) {
	h := head(call.Body, call.Secret, c.Clock.Now())
	h["Accept"] = []string{"application/json"}
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
// write with the headers, and can send again.
func (c Caller) post(ctx context.Context, url string, h http.Header, body []byte, l outbound.Limits) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h
	return c.Client.Do(req, l)
}

package webhookhttp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/webhook"
	"agentd/internal/wire/outbound"
)

var (
	_ notification.Poster = Caller{}
	_ webhook.Sender      = Caller{}
)

// The limits of a delivery.
const (
	deliveryTime  = 10 * time.Second
	deliveryBytes = 64 << 10
	// deliveryRest limits the wait for the body of a response. The status alone is
	// the outcome; the body is read only so that the connection can be reused.
	deliveryRest = time.Second
)

// Send implements [webhook.Sender]. The response's status is the outcome; an error
// while its body is read does not change it.
func (c Caller) Send(ctx context.Context, r webhook.Request) webhook.Outcome {
	start := time.Now()
	now := c.Clock.Now()
	h := signedHeader(r.Body, r.Secret, now)
	h[headerType] = []string{r.EventType}
	h[headerEvent] = []string{r.EventID}
	h[headerDelivery] = []string{r.DeliveryID}
	addStandardHeaders(h, r.EventID, r.Body, r.Secret, now)
	for name, value := range r.Header {
		h.Set(name, value)
	}
	status, err := c.deliver(authz.WithTenant(ctx, r.TenantID), r.URL, h, r.Body)
	o := webhook.Outcome{Status: status, Latency: time.Since(start)}
	switch {
	case ctx.Err() != nil && err != nil:
		o.Failure = "The delivery was interrupted before a response came."
	case err != nil:
		o.Failure = outbound.Reason(err)
	case status >= 300 && status < 400:
		o.Failure = fmt.Sprintf("The endpoint responded with a redirect (status %d); redirects are not followed.", status)
	case status < 200 || status > 299:
		o.Failure = fmt.Sprintf("The endpoint responded with status %d.", status)
	}
	return o
}

// Post implements [notification.Poster].
func (c Caller) Post(ctx context.Context, p notification.Post) (status int, err error) {
	h := signedHeader(p.Body, p.Secret, c.Clock.Now())
	h[headerType] = []string{p.Type}
	h[headerEvent] = []string{p.EventID}
	h[headerDelivery] = []string{ident.New()}
	return c.deliver(authz.WithTenant(ctx, p.TenantID), p.URL, h, p.Body)
}

// deliver sends an event. It may be sent twice if an idle connection turns out to
// be closed, which is common: many servers close theirs after a few seconds. That
// is safe, because endpoints recognize repeats by the event's id.
func (c Caller) deliver(ctx context.Context, url string, h http.Header, body []byte) (status int, err error) {
	h["Idempotency-Key"] = []string{} // makes net/http retry such requests; an empty header is not sent
	timeout := c.Timeout
	if c.TimeoutNow != nil {
		timeout = c.TimeoutNow()
	}
	limits := outbound.Limits{Time: cmp.Or(timeout, deliveryTime), Rest: deliveryRest, Bytes: deliveryBytes - 1}
	resp, err := c.post(ctx, url, h, body, limits)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // the outcome is decided
	return resp.StatusCode, nil
}

package webhookhttp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"agentd/internal/base/ident"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/webhook"
	"agentd/internal/wire/outbound"
)

var (
	_ notification.Poster = Caller{}
	_ webhook.Sender      = Caller{}
)

// Limits of a delivery (interface.md section 6; decisions.md D9).
const (
	deliveryTime  = 10 * time.Second
	deliveryBytes = 64 << 10
	// deliveryRest is how long an answer's body is waited for. Its status has said
	// everything; the body is read only so that the connection can be used again.
	deliveryRest = time.Second
)

// Send implements [webhook.Sender]. The status is the outcome as soon as it is
// there: what becomes of the answer's body changes nothing.
func (c Caller) Send(ctx context.Context, a webhook.Attempt) webhook.Outcome {
	began := time.Now()
	now := c.Clock.Now()
	h := head(a.Body, a.Secret, now)
	h[headerType] = []string{a.EventType}
	h[headerEvent] = []string{a.EventID}
	h[headerDelivery] = []string{a.DeliveryID}
	standard(h, a.EventID, a.Body, a.Secret, now)
	status, err := c.deliver(ctx, a.URL, h, a.Body)
	o := webhook.Outcome{Status: status, Latency: time.Since(began)}
	switch {
	case ctx.Err() != nil && err != nil:
		o.Failure = "The delivery was broken off before an answer came."
	case err != nil:
		o.Failure = outbound.Reason(err)
	case status >= 300 && status < 400:
		o.Failure = fmt.Sprintf("The receiver answered with a redirect (status %d), which is not followed.", status)
	case status < 200 || status > 299:
		o.Failure = fmt.Sprintf("The receiver answered with status %d.", status)
	}
	return o
}

// Post implements [notification.Poster].
func (c Caller) Post(ctx context.Context, p notification.Post) (status int, err error) {
	h := head(p.Body, p.Secret, c.Clock.Now())
	h[headerType] = []string{p.Type}
	h[headerEvent] = []string{p.EventID}
	h[headerDelivery] = []string{ident.New()}
	return c.deliver(ctx, p.URL, h, p.Body)
}

// deliver sends an event. Receivers tell repeats by the event's id, so it may be
// sent once more where a kept connection turns out to be closed: many servers
// close theirs after a few seconds, just when the next event comes.
func (c Caller) deliver(ctx context.Context, url string, h http.Header, body []byte) (status int, err error) {
	h["Idempotency-Key"] = []string{} // tells net/http that, and is not sent
	resp, err := c.post(ctx, url, h, body, outbound.Limits{Time: cmp.Or(c.Timeout, deliveryTime), Rest: deliveryRest, Bytes: deliveryBytes - 1})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // all that it can fail at is ours to ignore
	return resp.StatusCode, nil
}

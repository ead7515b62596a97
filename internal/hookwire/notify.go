package hookwire

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"agentd/internal/guardrail"
	"agentd/internal/ident"
	"agentd/internal/notification"
)

var _ notification.Poster = Caller{}

// Limits of a delivery (interface.md section 6; decisions.md D9).
const (
	postTime = 10 * time.Second
	postRead = 64 << 10
)

// Post implements [notification.Poster].
func (c Caller) Post(ctx context.Context, p notification.Post) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(p.Body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "agentd")
	req.Header.Set("X-SVC-Event-Type", p.Type)
	req.Header.Set("X-SVC-Event-Id", p.EventID)
	req.Header.Set("X-SVC-Delivery-Id", ident.New())
	c.sign(req.Header, guardrail.Call{Secret: p.Secret, Body: p.Body})
	resp, err := c.Transport.RoundTrip(req) // which follows no redirect
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	// Read, so that the connection can be used again; what it says is nothing to us.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, postRead))
	return resp.StatusCode, err
}

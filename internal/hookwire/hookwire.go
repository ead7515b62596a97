// Package hookwire calls the webhooks of guardrails: a signed POST of JSON
// whose answer decides something (interface.md section 6 for the signatures).
package hookwire

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"

	"agentd/internal/clock"
	"agentd/internal/guardrail"
)

// Caller makes calls over a transport, which guards what it reaches: addresses
// are the tenants' choice. Safe for concurrent use.
type Caller struct {
	Transport http.RoundTripper
	Clock     clock.Clock
}

var _ guardrail.Hooks = Caller{}

// ErrTooLarge is given by [Caller.Call] for an answer over [guardrail.Call.Most].
var ErrTooLarge = errors.New("hookwire: the answer is larger than asked for")

// Call implements [guardrail.Hooks]. It calls once: who waits for a verdict
// cannot wait for a second try.
func (c Caller) Call(ctx context.Context, call guardrail.Call) (guardrail.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return guardrail.Reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "agentd")
	c.sign(req.Header, call)
	resp, err := c.Transport.RoundTrip(req) // which follows no redirect
	if err != nil {
		return guardrail.Reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, call.Most+1))
	switch {
	case err != nil:
		return guardrail.Reply{}, err
	case int64(len(body)) > call.Most:
		return guardrail.Reply{}, ErrTooLarge
	}
	return guardrail.Reply{Status: resp.StatusCode, Body: body}, nil
}

// sign sets the timestamp and, where there is a secret, both signatures.
func (c Caller) sign(h http.Header, call guardrail.Call) {
	at := strconv.FormatInt(c.Clock.Now().UnixMilli(), 10)
	h.Set("X-SVC-Timestamp", at)
	if call.Secret == "" {
		return
	}
	h.Set("X-SVC-Signature-V2", "t="+at+",v1=sha256="+digest(call.Secret, []byte(at+"."), call.Body))
	h.Set("X-SVC-Signature", "sha256="+digest(call.Secret, call.Body))
}

func digest(secret string, parts ...[]byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	for _, p := range parts {
		mac.Write(p)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// Package captcha verifies answers to captchas, as Turnstile, hCaptcha and reCAPTCHA
// have it: a form with the secret and the answer, and JSON with success.
package captcha

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/wire/outbound"
)

const (
	timeout   = 10 * time.Second
	maxAnswer = 64 << 10
)

// Verifier asks a service whether a captcha was solved. The operator chose its address
// while the program runs, so that the client is a guarded one.
type Verifier struct{ Client *outbound.Client }

// Verify reports whether the answer of a visitor solves a captcha. The error is that of the
// service, or of the way to it.
func (v Verifier) Verify(ctx context.Context, verifyURL, secret, answer, address string) (bool, error) {
	form := url.Values{"secret": {secret}, "response": {answer}, "remoteip": {address}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, verifyURL, strings.NewReader(form.Encode()))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := v.Client.Do(req, outbound.Limits{Time: timeout, Bytes: maxAnswer})
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("captcha: the service answered %s", resp.Status)
	}
	var out struct {
		Success bool `json:"success"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return false, fmt.Errorf("captcha: the service sent no JSON: %w", err)
	}
	return out.Success, nil
}

// Package stripeclient calls the few operations of Stripe's API that billing needs. The
// API is forms with brackets, and JSON; docs/adr/0120 says why Stripe's own library is not
// used.
package stripeclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/operation/billing"
)

const (
	// BaseURL is Stripe's own address.
	BaseURL = "https://api.stripe.com"
	// version pins the shapes of answers.
	version   = "2025-03-31.basil"
	timeout   = 20 * time.Second
	maxAnswer = 1 << 20
)

// Client implements billing.Gateway. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

var _ billing.Gateway = (*Client)(nil)

// New returns a client. An empty base is Stripe's own address. The operator chose it, so
// that it may be a private one.
func New(base string) *Client {
	if base == "" {
		base = BaseURL
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}
	return &Client{strings.TrimRight(base, "/"), &http.Client{
		Timeout: timeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Checkout implements billing.Gateway.
func (c *Client) Checkout(ctx context.Context, key string, s billing.Session) (string, error) {
	form := url.Values{
		"mode": {"subscription"}, "line_items[0][price]": {s.Price}, "line_items[0][quantity]": {"1"},
		"success_url": {s.SuccessURL}, "cancel_url": {s.CancelURL}, "client_reference_id": {s.TenantID},
	}
	for _, at := range []string{"metadata", "subscription_data[metadata]"} {
		form.Set(at+"[tenant_id]", s.TenantID)
		form.Set(at+"[plan_id]", s.Plan)
	}
	if s.CustomerID != "" {
		form.Set("customer", s.CustomerID)
	}
	if s.TrialDays > 0 {
		form.Set("subscription_data[trial_period_days]", strconv.FormatInt(s.TrialDays, 10))
	}
	return c.page(ctx, key, "/v1/checkout/sessions", form)
}

// Portal implements billing.Gateway.
func (c *Client) Portal(ctx context.Context, key, customer, returnURL string) (string, error) {
	return c.page(ctx, key, "/v1/billing_portal/sessions", url.Values{"customer": {customer}, "return_url": {returnURL}})
}

// CreatePrice implements billing.Gateway.
func (c *Client) CreatePrice(ctx context.Context, key string, p billing.NewPrice) (price, product string, err error) {
	var out struct {
		ID      string `json:"id"`
		Product string `json:"product"`
	}
	err = c.call(ctx, http.MethodPost, key, "/v1/prices", url.Values{
		"unit_amount": {strconv.FormatInt(p.Amount, 10)}, "currency": {p.Currency}, "recurring[interval]": {p.Interval},
		"product_data[name]": {p.Product}, "product_data[metadata][plan_id]": {p.Plan}, "metadata[plan_id]": {p.Plan},
	}, &out)
	if err == nil && (out.ID == "" || len(out.ID) > 255 || len(out.Product) > 255) {
		err = unusable(errors.New("/v1/prices answered without an id"))
	}
	return out.ID, out.Product, err
}

// page creates a page of Stripe.
func (c *Client) page(ctx context.Context, key, path string, form url.Values) (string, error) {
	var out struct {
		URL string `json:"url"`
	}
	if err := c.call(ctx, http.MethodPost, key, path, form, &out); err != nil {
		return "", err
	}
	if u, err := url.Parse(out.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return "", unusable(fmt.Errorf("%s answered without a url", path))
	}
	return out.URL, nil
}

// Account implements billing.Gateway.
func (c *Client) Account(ctx context.Context, key string) (id string, live bool, err error) {
	var out struct {
		ID string `json:"id"`
	}
	err = c.call(ctx, http.MethodGet, key, "/v1/account", nil, &out)
	return out.ID, strings.HasPrefix(key, "sk_live_") || strings.HasPrefix(key, "rk_live_"), err
}

func (c *Client) call(ctx context.Context, method, key, path string, form url.Values, into any) error {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Stripe-Version", version)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Idempotency-Key", ident.New())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return refused(resp.StatusCode, data)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return unusable(err)
	}
	return nil
}

// refused returns the error of an answer that is no success. Stripe's own sentence is for
// the operator's log: it may name keys and prices.
func refused(status int, data []byte) error {
	var out struct {
		Error struct {
			Type    string `json:"type"`
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &out) // a proxy's answer has none
	cause := fmt.Errorf("stripe: %d %s %s: %s", status, out.Error.Type, out.Error.Code, out.Error.Message)
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fault.New(fault.Upstream, "",
			"Stripe does not take the secret key of this deployment. Its operator must set another one.").Because(cause)
	case status == http.StatusTooManyRequests || status >= 500:
		return fault.New(fault.Upstream, "", "Stripe cannot answer at this time. Try again in a minute.").Because(cause)
	}
	return fault.New(fault.Upstream, "", "Stripe refused the request. The operator's log says why.").Because(cause)
}

func unreachable(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fault.New(fault.UpstreamTimeout, "", "Stripe did not answer in time. Try again in a minute.").Because(err)
	}
	return fault.New(fault.Upstream, "", "Stripe cannot be reached. Try again in a minute.").Because(err)
}

func unusable(err error) error {
	return fault.New(fault.Upstream, "", "Stripe's answer cannot be used. Try again in a minute.").Because(err)
}

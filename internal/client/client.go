// Package client is a small typed client of agentd's HTTP API: what the
// command line for a person needs, and no more.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
)

const (
	answerTime = 30 * time.Second // for a call that is no stream
	answerSize = 64 << 20         // bytes of an answer that are read
)

// Client talks to one server with one key. It is safe for concurrent use.
type Client struct {
	base  string
	key   secret.String
	http  *http.Client
	retry retryPolicy

	// tenant is the company that every request is meant for: the one that was
	// chosen, or that of the first answer.
	tenant atomic.Value // string
}

// tenantHeader names the company that a request is meant for, and in answers the
// one that the key belongs to.
const tenantHeader = "X-Tenant-Id"

// Option configures a Client.
type Option func(*Client)

// InTenant makes every request one for a company, also the first. The server
// refuses them if the key belongs to another. Without an ID the option does
// nothing.
func InTenant(id string) Option {
	return func(c *Client) {
		if id != "" {
			c.tenant.Store(id)
		}
	}
}

// New makes a client. base is the server's address, as in AGENTD_URL.
func New(base string, key secret.String, options ...Option) (*Client, error) {
	at, err := url.Parse(base)
	if err != nil || at.Host == "" || (at.Scheme != "http" && at.Scheme != "https") {
		return nil, errors.New("the server's address must be like http://127.0.0.1:8080")
	}
	c := &Client{
		base: strings.TrimRight(at.String(), "/"),
		key:  key,
		http: &http.Client{
			// A redirect would take the key to wherever it points.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		retry: defaultRetryPolicy,
	}
	for _, set := range options {
		set(c)
	}
	return c, nil
}

// Doc is an answer in both forms: as the server sent it, and read.
type Doc[T any] struct {
	Value T
	Raw   jsontext.Value
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Doc[T]) UnmarshalJSON(text []byte) error {
	d.Raw = bytes.Clone(text)
	return json.Unmarshal(text, &d.Value)
}

// call sends one request and reads its answer. Errors: *Problem where the
// server refused; others where it could not be reached or understood.
func call[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (T, error) {
	var answer T
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	res, err := c.send(ctx, method, path, query, nil, body)
	if err != nil {
		return answer, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, answerSize))
	if err != nil {
		return answer, fmt.Errorf("the answer of %s broke off: %w", c.base, err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("%s answered something that agentd would not; is AGENTD_URL right? (%w)", c.base, err)
	}
	return answer, nil
}

// send sends a request and returns the response if it is a success.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, header http.Header, body any) (*http.Response, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("the request cannot be written as JSON: %w", err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if !c.key.Empty() {
		req.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	if tenant, ok := c.tenant.Load().(string); ok {
		req.Header.Set(tenantHeader, tenant)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &Unreachable{Base: c.base, cause: err}
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, readProblem(res)
	}
	if tenant := res.Header.Get(tenantHeader); tenant != "" {
		c.tenant.CompareAndSwap(nil, tenant)
	}
	return res, nil
}

// Unreachable is the error of a server that did not answer.
type Unreachable struct {
	Base  string
	cause error
}

func (e *Unreachable) Error() string {
	cause := e.cause
	if u, ok := errors.AsType[*url.Error](cause); ok {
		cause = u.Err // without the method and address that it repeats
	}
	return fmt.Sprintf("no answer from %s: %v", e.Base, cause)
}

func (e *Unreachable) Unwrap() error { return e.cause }

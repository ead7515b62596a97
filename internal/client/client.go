// Package client is a client of agentd's HTTP API: one call for any operation
// ([Client.Do]), one walk over the pages of any list ([List]), and event streams
// that survive a lost connection ([Client.Watch]).
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

// Client calls one server with one key. It is safe for concurrent use.
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

// Do sends a request and reads its answer into out, which may be nil. path begins
// with /api/v1 and may have a query; body is nil or becomes JSON. It waits for
// half a minute unless ctx has a deadline. Errors: *Problem where the server refused,
// *Unreachable where it did not answer.
func (c *Client) Do(ctx context.Context, method, path string, body, out any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("the request cannot be written as JSON: %w", err)
		}
		content = bytes.NewReader(text)
	}
	if _, set := ctx.Deadline(); !set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerTime)
		defer cancel()
	}
	res, err := c.Send(ctx, method, path, content, nil)
	if err != nil {
		return err
	}
	return c.read(res, out)
}

// read reads an answer into out, which may be nil.
func (c *Client) read(res *http.Response, out any) error {
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, answerSize))
	if err != nil {
		return fmt.Errorf("the answer of %s broke off: %w", c.base, err)
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s answered something that agentd would not; is AGENTD_URL right? (%w)", c.base, err)
	}
	return nil
}

// Get reads what a path answers, in both forms.
func Get[T any](ctx context.Context, c *Client, path string) (Doc[T], error) {
	var doc Doc[T]
	err := c.Do(ctx, http.MethodGet, path, nil, &doc)
	return doc, err
}

// Send sends a request and returns the answer as it comes if it is a success;
// the caller closes its body. A body is JSON unless header says otherwise.
func (c *Client) Send(ctx context.Context, method, path string, body io.Reader, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if known, ok := body.(sized); ok {
		req.ContentLength = known.size
	}
	if !c.key.Empty() {
		req.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	if tenant, ok := c.tenant.Load().(string); ok {
		req.Header.Set(tenantHeader, tenant)
	}
	maps.Copy(req.Header, header)
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

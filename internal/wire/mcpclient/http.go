package mcpclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
)

// roundTripper sends the requests of one connection, with the server's credential and
// with bounded answers. A rejected credential is mcp.ErrUnauthorized. The credential
// goes only to the server's own URL, because redirects are not followed.
type roundTripper struct {
	base          http.RoundTripper
	target        *mcp.Target
	maxMessage    int64
	streamTimeout time.Duration
	onBroken      func(error)
}

// streamMessages is how many messages of maximum size a stream may carry before it is
// closed and the SDK resumes it.
const streamMessages = 8

// RoundTrip implements http.RoundTripper.
func (rt *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && req.Header.Get("Last-Event-ID") == "" {
		return rt.openNotifications(req)
	}
	resp, err := rt.authorized(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, left: rt.maxBytes(resp), onOverflow: rt.onBroken}
	return resp, nil
}

func (rt *roundTripper) maxBytes(resp *http.Response) int64 {
	if resp.Header.Get("Content-Type") == "application/json" {
		return rt.maxMessage
	}
	return streamMessages * rt.maxMessage
}

// openNotifications opens the stream of notifications, which is optional: if it cannot
// be opened in time, it answers 405 in place of the server.
func (rt *roundTripper) openNotifications(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	late := time.AfterFunc(rt.streamTimeout, cancel)
	resp, err := rt.authorized(req.WithContext(ctx))
	if !late.Stop() || err != nil || resp.StatusCode != http.StatusOK {
		cancel()
		if resp != nil {
			resp.Body.Close()
		}
		return &http.Response{
			Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: http.NoBody, Request: req,
		}, nil
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, left: streamMessages * rt.maxMessage, onOverflow: func(error) {}, onClose: cancel}
	return resp, nil
}

// authorized sends a request with the credential, and again with another token if the
// first one is rejected.
func (rt *roundTripper) authorized(req *http.Request) (*http.Response, error) {
	token, err := rt.token(req.Context(), "")
	if err != nil {
		return nil, err
	}
	resp, err := rt.send(req, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	resp.Body.Close()
	if rt.target.Tokens == nil || token == "" {
		return nil, rt.unauthorized()
	}
	next, err := rt.token(req.Context(), token)
	if err != nil {
		return nil, err
	}
	if next == "" || next == token {
		return nil, rt.unauthorized()
	}
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	if resp, err = rt.send(again, next); err == nil && resp.StatusCode == http.StatusUnauthorized {
		resp.Body.Close()
		return nil, rt.unauthorized()
	}
	return resp, err
}

func (rt *roundTripper) token(ctx context.Context, rejected string) (string, error) {
	if rt.target.Tokens == nil {
		return "", nil
	}
	token, err := rt.target.Tokens.Token(ctx, rejected)
	if errors.Is(err, mcp.ErrUnauthorized) {
		return "", rt.unauthorized()
	}
	return token, err
}

func (rt *roundTripper) unauthorized() error {
	rt.onBroken(mcp.ErrUnauthorized)
	return mcp.ErrUnauthorized
}

func (rt *roundTripper) send(req *http.Request, token string) (*http.Response, error) {
	req = req.Clone(authz.WithTenant(req.Context(), rt.target.TenantID))
	if rt.target.Header != "" {
		req.Header.Set(rt.target.Header, rt.target.HeaderValue.Reveal())
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return rt.base.RoundTrip(req)
}

// limitedBody is a body that is read up to the maximum size of messages.
type limitedBody struct {
	io.ReadCloser
	left       int64
	onOverflow func(error)
	onClose    func()
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.onOverflow(errTooBig)
		return 0, errTooBig
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Close implements io.Closer.
func (b *limitedBody) Close() error {
	if b.onClose != nil {
		b.onClose()
	}
	return b.ReadCloser.Close()
}

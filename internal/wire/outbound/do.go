package outbound

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Limits of one call, from its start to the end of its answer's body. Zero
// values mean the defaults in brackets.
type Limits struct {
	Time time.Duration // in all: names, connections, redirects, headers, body [30 s]
	// Rest is the time for the body alone, for callers that need only the headers [the
	// rest of Time].
	Rest  time.Duration
	Bytes int64 // of the body; reading more is ErrTooLarge [1 MiB]
	Hops  int   // redirects of a GET or HEAD that are followed [none]
}

// Errors of [Client.Do] and of the bodies that it returns.
var (
	ErrTooLarge  = errors.New("outbound: the answer is larger than may be read")
	ErrRedirects = errors.New("outbound: there are more redirects than may be followed")
)

// Do makes a call within limits. Without hops it returns a redirect. With hops it
// checks each address as [CheckURL] does, and sends other hosts than the first none of
// the headers that could hold a credential; [http.Response.Request] has the last
// address. The body must be closed; if it was not read to its end, that closes the
// connection.
// Errors: those of [http.Transport], of [CheckURL], ErrRedirects, and denials
// ([IsDenied]).
func (c *Client) Do(req *http.Request, l Limits) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), cmp.Or(l.Time, 30*time.Second))
	resp, err := c.follow(req.WithContext(ctx), l.Hops)
	if err != nil {
		cancel()
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, left: cmp.Or(l.Bytes, 1<<20), cancel: cancel}
	if l.Rest > 0 && resp.ContentLength != 0 {
		b.timer = time.AfterFunc(l.Rest, cancel)
	}
	resp.Body = b
	return resp, nil
}

// follow makes a call and follows its redirects.
func (c *Client) follow(req *http.Request, hops int) (*http.Response, error) {
	if _, _, err := check(req.URL); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	for hop := 0; ; hop++ {
		resp, err := c.transport.RoundTrip(req)
		if err != nil || hops == 0 || req.Method != http.MethodGet && req.Method != http.MethodHead {
			return resp, err
		}
		to, found := location(resp)
		if !found {
			return resp, nil
		}
		resp.Body.Close()
		if hop == hops {
			return nil, ErrRedirects
		}
		if err := CheckURL(to.String()); err != nil {
			return nil, err
		}
		req = redirectRequest(req, to)
	}
}

// location returns the target of a redirect. A redirect without a valid target is
// treated like any other answer.
func location(resp *http.Response) (*url.URL, bool) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, false
	}
	to, err := resp.Location()
	if err != nil {
		return nil, false
	}
	to.Fragment, to.RawFragment = "", ""
	return to, true
}

// safeHeaders are the headers that are sent to another origin. All others may contain a
// credential.
var safeHeaders = []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"}

func redirectRequest(req *http.Request, to *url.URL) *http.Request {
	next := req.Clone(req.Context())
	next.URL, next.Host = to, ""
	if to.Scheme == req.URL.Scheme && to.Host == req.URL.Host {
		return next
	}
	next.Header = http.Header{}
	for _, name := range safeHeaders {
		if values := req.Header[name]; values != nil {
			next.Header[name] = values
		}
	}
	return next
}

// body bounds an answer's body by the call's limits.
type body struct {
	io.ReadCloser
	left     int64
	exceeded bool
	timer    *time.Timer
	cancel   context.CancelFunc
}

// Read implements io.Reader. It reads one byte more than allowed, to distinguish a
// body that ends at the limit from a longer one.
func (b *body) Read(p []byte) (int, error) {
	if b.exceeded {
		return 0, ErrTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if int64(n) > b.left {
		b.exceeded = true
		return int(b.left), ErrTooLarge
	}
	b.left -= int64(n)
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	if b.timer != nil {
		b.timer.Stop()
	}
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

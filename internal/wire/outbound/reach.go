package outbound

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// How long a call waits before it tries again to reach its host; it doubles.
const (
	firstReach = 250 * time.Millisecond
	maxReach   = 2 * time.Second
)

// IsUnsent reports whether a call failed before anything of it was sent, for a reason
// that may pass: no connection could be made, or the name could not be looked up just
// now. A denial and an unknown name do not pass.
func IsUnsent(err error) bool {
	if IsDenied(err) {
		return false
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return !name.IsNotFound
	}
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

// DoOnceReachable is [Client.Do] for a request without a body, repeated for up to
// reach while the host cannot be reached. It ends with the request's context.
func (c *Client) DoOnceReachable(req *http.Request, reach time.Duration, l Limits) (*http.Response, error) {
	return OnceReachable(req, reach, func() (*http.Response, error) { return c.Do(req, l) })
}

// OnceReachable makes a call, again and again for up to reach while the host cannot be
// reached. req is the call's request, which has no body.
func OnceReachable(req *http.Request, reach time.Duration, call func() (*http.Response, error)) (*http.Response, error) {
	ctx, end := req.Context(), time.Now().Add(reach)
	for wait := firstReach; ; wait = min(2*wait, maxReach) {
		resp, err := call()
		if err == nil || !IsUnsent(err) || ctx.Err() != nil || time.Now().Add(wait).After(end) {
			return resp, err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Now().Add(wait).After(deadline) {
			return nil, err // what it failed for says more than that its time is over
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

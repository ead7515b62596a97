package mcpclient

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/base/fault"
)

// How long a call waits before it tries again to reach its server; it doubles.
const (
	firstReach = 250 * time.Millisecond
	maxReach   = 5 * time.Second
)

// IdleTimeout is how long transports keep connections that are not used. Many servers
// close theirs after 5 seconds. A call that is sent at that moment is lost, and
// whether it took effect is unknown; a new connection costs less.
const IdleTimeout = 4 * time.Second

// unsentError is the failure of a request of which nothing was sent, so that it can
// be made again.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// unsentIf marks err where passing is true.
func unsentIf(passing bool, err error) error {
	if passing {
		return unsentError{err}
	}
	return err
}

// isDial reports whether a connection could not be made.
func isDial(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

// isPassing reports whether a session that could not be opened may be opened later:
// the server was not reached, did not answer, or is left alone after such failures.
func isPassing(err error) bool {
	if f, ok := errors.AsType[*fault.Error](err); ok && (f.RetryAfter > 0 || f.Code == codeTimeout) {
		return true
	}
	for _, broken := range []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF, sdk.ErrConnectionClosed,
	} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return isDial(err)
}

// doOnceReachable is do, repeated while the server cannot be reached, within
// ReachTimeout and the time that the caller has. A request that was sent is not
// repeated.
func (c *conn) doOnceReachable(ctx context.Context, limit time.Duration, request func(context.Context, *session) error) error {
	end := time.Now().Add(c.m.ReachTimeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	for wait := firstReach; ; wait = min(2*wait, maxReach) {
		err := c.do(ctx, limit, request)
		unsent, ok := errors.AsType[unsentError](err)
		if !ok {
			return err
		}
		pause := wait
		if f, ok := errors.AsType[*fault.Error](err); ok {
			pause = max(pause, f.RetryAfter)
		}
		if time.Now().Add(pause).After(end) {
			return unsent.error
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return unsent.error
		}
	}
}

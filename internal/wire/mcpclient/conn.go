package mcpclient

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/breaker"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/tool"
)

// protocol is the requested version: the newest one with a handshake. Few servers
// speak a version without it, and requesting that costs others a request or crashes
// them.
const protocol = "2025-11-25"

// When a server that fails is left alone, and for how long.
const (
	tolerated  = 3 // failures in a row that are followed by another try at once
	firstPause = 5 * time.Second
	maxPause   = 5 * time.Minute
)

// conn is the state of one target: its session, its last list of tools and its
// failures. The session is opened when it is needed, and again after it broke.
type conn struct {
	m       *Manager
	target  *mcp.Target
	breaker breaker.Breaker
	stale   atomic.Bool // the list of tools changed

	opening ctxMutex // held while a session is opened
	listing ctxMutex // held while tools are listed

	mu       sync.Mutex
	session  *session
	closed   bool
	listed   *mcp.Listing
	listedAt time.Time

	busy int       // guarded by m.mu
	used time.Time // guarded by m.mu
}

// ctxMutex is a mutex whose lock can be cancelled by a context.
type ctxMutex chan struct{}

func (g ctxMutex) lock(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g ctxMutex) unlock() { <-g }

func newConn(m *Manager, t *mcp.Target) *conn {
	return &conn{
		m: m, target: t, breaker: breaker.Breaker{After: tolerated, First: firstPause, Max: maxPause, MaxTrial: firstPause},
		opening: make(ctxMutex, 1), listing: make(ctxMutex, 1), used: time.Now(),
	}
}

// session is an open connection.
type session struct {
	*sdk.ClientSession
	transport *trackedTransport
	ended     chan struct{}
}

func (s *session) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// close cancels the requests in progress, so that a hanging server blocks no caller.
func (s *session) close() {
	s.transport.close()
	s.ClientSession.Close()
	<-s.ended
}

// trackedTransport is a transport that keeps its connection and why it broke.
type trackedTransport struct {
	sdk.Transport
	mu   sync.Mutex
	conn sdk.Connection
	err  error
}

// Connect implements sdk.Transport.
func (w *trackedTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := w.Transport.Connect(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = c
	return c, err
}

func (w *trackedTransport) close() {
	w.mu.Lock()
	c := w.conn
	w.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// markBroken records the cause, which the SDK reports only as text.
func (w *trackedTransport) markBroken(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = why
	}
}

func (w *trackedTransport) cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// running reports whether the connection has a process.
func (c *conn) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.target.Transport == mcp.STDIO && c.session != nil && c.session.alive()
}

func (c *conn) close() {
	c.mu.Lock()
	s := c.session
	c.session, c.closed = nil, true
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// open returns an open session.
func (c *conn) open(ctx context.Context) (*session, error) {
	if err := c.opening.lock(ctx); err != nil {
		return nil, err
	}
	defer c.opening.unlock()
	c.mu.Lock()
	s, closed := c.session, c.closed
	c.mu.Unlock()
	if s != nil && s.alive() {
		return s, nil
	}
	if closed {
		return nil, errStopped
	}
	if _, wait := c.breaker.Allow(time.Now()); wait > 0 {
		return nil, leftAlone(c.target.Name, c.breaker.State().Failures, wait)
	}
	s, err := c.connect(ctx)
	if err != nil {
		return nil, c.failed(ctx, err, nil)
	}
	c.mu.Lock()
	old, closed := c.session, c.closed
	if !closed {
		c.session = s
	}
	c.mu.Unlock()
	if old != nil {
		old.close()
	}
	if closed { // during the connection
		s.close()
		return nil, errStopped
	}
	return s, nil
}

func (c *conn) connect(parent context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(parent, c.m.ConnectTimeout)
	defer cancel()
	w := &trackedTransport{}
	w.Transport = c.transport(w)
	client := sdk.NewClient(&sdk.Implementation{Name: "agentd", Version: c.m.Version}, &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{}, // no roots, sampling or elicitation: nothing answers them
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { c.stale.Store(true) },
	})
	cs, err := client.Connect(ctx, w, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		w.close()
		if why := w.cause(); why != nil {
			return nil, why
		}
		if ctx.Err() != nil && parent.Err() == nil {
			return nil, timeoutError(c.target.Name, c.m.ConnectTimeout)
		}
		return nil, err
	}
	s := &session{ClientSession: cs, transport: w, ended: make(chan struct{})}
	watch := func() {
		defer close(s.ended)
		_ = cs.Wait() // the calls that it ended return the cause
		w.close()
	}
	if !c.m.spawn(watch) {
		w.close()
		watch()
		return nil, errStopped
	}
	return s, nil
}

func (c *conn) transport(w *trackedTransport) sdk.Transport {
	if c.target.Transport == mcp.STDIO {
		return &process{m: c.m, target: c.target, onBroken: w.markBroken}
	}
	return &sdk.StreamableClientTransport{
		Endpoint:     c.target.URL,
		MaxRetries:   2,
		MaxEventSize: int(c.m.MaxMessage),
		HTTPClient: &http.Client{
			Transport: &roundTripper{base: c.m.Transport, target: c.target, maxMessage: c.m.MaxMessage, streamTimeout: c.m.StreamTimeout,
				onBroken: w.markBroken},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// do makes one request. If the server has dropped the session, or it had ended, the
// request had no effect and is repeated once in another session.
func (c *conn) do(parent context.Context, limit time.Duration, request func(context.Context, *session) error) error {
	for try := 0; ; try++ {
		s, err := c.open(parent)
		if err != nil {
			return unsentIf(isPassing(err), err)
		}
		ctx, cancel := context.WithTimeout(parent, limit)
		err = request(ctx, s)
		cancel()
		if err == nil {
			c.breaker.Report(time.Now(), true, breaker.Alive)
			return nil
		}
		if try == 0 && (errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, sdk.ErrConnectionClosed)) {
			s.close()
			continue
		}
		if parent.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = timeoutError(c.target.Name, limit)
		}
		return unsentIf(isDial(err) || isDial(s.transport.cause()), c.failed(parent, err, s))
	}
}

// failed returns the error with a sentence for people, and counts failures of the
// connection.
func (c *conn) failed(ctx context.Context, err error, s *session) error {
	if s != nil {
		if why := s.transport.cause(); why != nil && !isServerError(err) {
			err = why
		}
	}
	switch {
	case errors.Is(err, mcp.ErrUnauthorized):
		return mcp.ErrUnauthorized
	case isServerError(err):
		c.breaker.Report(time.Now(), true, breaker.Alive)
		return err
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err // the caller cancelled
	}
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != codeBusy {
		if c.breaker.Report(time.Now(), true, breaker.Failed) && s != nil {
			c.m.spawn(s.close) // an open session that does not answer is useless
		}
	}
	return publicError(c.target.Name, err)
}

func (c *conn) callTool(ctx context.Context, name string, arguments jsontext.Value, key mcp.CallKey) (result tool.Result, err error) {
	params := &sdk.CallToolParams{Name: name, Arguments: arguments}
	if key.StepID != "" {
		params.Meta = sdk.Meta{"agentd/idempotency_key": key.StepID, "agentd/run_id": key.RunID}
	}
	err = c.doOnceReachable(ctx, c.m.CallTimeout, func(ctx context.Context, s *session) error {
		res, err := s.CallTool(ctx, params)
		if err == nil {
			result = resultOf(res)
		}
		return err
	})
	if sentence, ok := serverMessage(err); ok {
		c.stale.Store(true) // the tool may have been removed
		return tool.Failure("The MCP server " + c.target.Name + " refused the call: " + sentence), nil
	}
	return result, err
}

func (c *conn) readResource(ctx context.Context, uri string) (result tool.Result, err error) {
	err = c.doOnceReachable(ctx, c.m.CallTimeout, func(ctx context.Context, s *session) error {
		res, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		if err == nil {
			var r rendering
			for _, content := range res.Contents {
				r.resource(content)
			}
			result = r.result(false)
		}
		return err
	})
	if sentence, ok := serverMessage(err); ok {
		return tool.Failure("The MCP server " + c.target.Name + " refused the read: " + sentence), nil
	}
	return result, err
}

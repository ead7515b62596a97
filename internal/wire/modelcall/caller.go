// Package modelcall holds what the clients of all wires to language models share: HTTP
// calls with their time-outs and retries, reading of event streams, assembling of
// answers, and what errors of endpoints mean. It is on the hot path of every run: a call
// starts no goroutine of its own.
package modelcall

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"agentd/internal/kernel/model"
)

// Config of a client. Zero values mean the defaults in brackets.
type Config struct {
	Operator      http.RoundTripper // to the operator's endpoints [NewTransport()]
	Guarded       http.RoundTripper // to tenants' endpoints [nil: these are refused]
	Screened      http.RoundTripper // to endpoints that the operator added by the API [nil: these are refused]
	MaxAnswer     int               // bytes of one answer, as text and on the wire [16 MiB]
	MaxAttempts   int               // attempts for one answer [3]
	PlainTimeout  time.Duration     // until a whole answer begins to arrive [10 min]
	HeaderTimeout time.Duration     // until a streamed answer begins [2 min]
	IdleTimeout   time.Duration     // between two pieces of an answer [2 min]
	AnswerTimeout time.Duration     // until an answer is complete [1 h]
	Backoff       time.Duration     // upper bound of the wait before the first retry; doubles [500 ms]
	MaxBackoff    time.Duration     // where the doubling ends [8 s]
	MaxRetryAfter time.Duration     // a longer Retry-After ends the attempts [30 s]
	Tracer        trace.Tracer      // [nil: no spans]
}

// Caller calls endpoints. Safe for concurrent use.
type Caller struct{ Config }

// New returns a caller.
func New(c Config) Caller {
	if c.Operator == nil {
		c.Operator = NewTransport()
	}
	c.MaxAnswer = cmp.Or(c.MaxAnswer, 16<<20)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 3)
	c.PlainTimeout = cmp.Or(c.PlainTimeout, 10*time.Minute)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, 2*time.Minute)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 2*time.Minute)
	c.AnswerTimeout = cmp.Or(c.AnswerTimeout, time.Hour)
	c.Backoff = cmp.Or(c.Backoff, 500*time.Millisecond)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, 8*time.Second)
	c.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, 30*time.Second)
	return Caller{c}
}

// Completion returns the time-outs of a call of a model. budget bounds its whole time;
// 0: the configured ones.
func (c *Caller) Completion(stream bool, budget time.Duration) Timeouts {
	switch {
	case budget > 0:
		return Within(budget)
	case stream:
		return Timeouts{Begin: c.HeaderTimeout, Idle: c.IdleTimeout, All: c.AnswerTimeout}
	}
	return Timeouts{Begin: c.PlainTimeout, Idle: c.IdleTimeout, All: c.AnswerTimeout}
}

// Retry makes a call until it succeeds or a further attempt cannot help. It retries if
// the endpoint failed before any of its answer was delivered, and in another dialect
// if the endpoint rejected the request's. A dialect is how requests are written for an
// endpoint; adapt returns the one to try after a rejection, and false if another one
// would not help.
func Retry[D comparable](
	ctx context.Context, c *Caller, known *Dialects[D], req *model.Request,
	adapt func(D, *model.Error) (D, bool), try func(D) (delivered bool, err error),
) error {
	began := time.Now()
	style := known.of(&req.Target, began)
	initial := style
	for attempt := 1; ; attempt++ {
		delivered, err := try(style)
		if err == nil {
			if style != initial {
				known.learn(&req.Target, style, began)
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failure := AsError(err)
		if delivered {
			failure.Retryable = false
		}
		if other, ok := adapt(style, failure); ok && !delivered {
			style = other
			attempt--
			continue
		}
		if errors.Is(err, ErrIdle) || errors.Is(err, ErrDeadline) {
			return failure
		}
		if err := c.WaitRetry(ctx, attempt, failure, req.MaxRetryAfter); err != nil {
			return err
		}
	}
}

const (
	knownFor = 24 * time.Hour // the endpoint may be changed
	maxKnown = 4096
)

// Dialects caches the endpoints with another dialect than the default, which is the zero
// value, so that not every call is rejected first. It is safe for concurrent use.
type Dialects[D comparable] struct {
	mu    sync.RWMutex
	known map[endpointKey]knownDialect[D]
}

type endpointKey struct{ url, model string }

type knownDialect[D any] struct {
	dialect D
	until   time.Time
}

// of returns the dialect to start with.
func (d *Dialects[D]) of(t *model.Target, now time.Time) (style D) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if s, ok := d.known[endpointKey{t.BaseURL, t.Model}]; ok && now.Before(s.until) {
		return s.dialect
	}
	return style
}

// learn records a dialect in which a call succeeded. A rejection alone is not recorded,
// because callers can provoke any message of an endpoint.
func (d *Dialects[D]) learn(t *model.Target, style D, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[endpointKey]knownDialect[D]{}
	}
	if len(d.known) >= maxKnown {
		clear(d.known) // they are learned again
	}
	d.known[endpointKey{t.BaseURL, t.Model}] = knownDialect[D]{style, now.Add(knownFor)}
}

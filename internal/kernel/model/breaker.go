package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"agentd/internal/base/breaker"
	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
)

// When the breaker opens, and for how long at first and at most.
const (
	maxFailures = 5
	firstPause  = 5 * time.Second
	maxPause    = time.Minute
	// maxCircuits bounds the number of endpoints whose state is kept.
	maxCircuits = 10_000
)

// Breaker is a client that stops calling endpoints that do not answer: after
// five calls in a row without an answer it refuses further ones at once, so that
// callers do not wait and fallbacks are called without delay. After a pause one
// call may try again; if that fails too the next pause is twice as long. A request
// with Probe does not wait for the end of the pause.
//
// Only a missing answer counts: failed connections, time-outs and the statuses
// of gateways (502, 503, 504, 529). An error that the endpoint itself answers,
// even a 500, may be due to the request: otherwise a caller could open the
// breaker for others with unusual requests. Tenants' own keys and endpoints have
// breakers separate from the operator's.
//
// It is safe for concurrent use.
type Breaker struct {
	Next interface {
		Client
		Forwarder
		AudioClient
		ImageClient
	}
	Clock clock.Clock
	// Tuning returns after how many failures in a row an endpoint is left alone, and for
	// how long at first and at most. It may change, which closes all breakers. Nil: five,
	// five seconds, a minute.
	Tuning func() (failures int, first, most time.Duration)
	// Observe is called at the end of each call, for metrics. Nil: nobody counts.
	Observe func(Call)

	mu       sync.RWMutex
	circuits map[circuitKey]*breaker.Breaker
	tuned    tuning // of circuits
}

type tuning struct {
	failures    int
	first, most time.Duration
}

func (b *Breaker) tuning() tuning {
	if b.Tuning == nil {
		return tuning{maxFailures, firstPause, maxPause}
	}
	failures, first, most := b.Tuning()
	return tuning{failures, first, most}
}

// Call is a call of a model that has ended.
type Call struct {
	Target  *Target
	Outcome string // one of the outcomes
	Took    time.Duration
	Usage   Usage  // of chat completions
	Err     *Error // nil: none, or the context's
}

// Outcomes of calls.
const (
	CallDone      = "done"
	CallRefused   = "refused"   // the endpoint answered with an error
	CallFailed    = "failed"    // it did not answer
	CallCancelled = "cancelled" // the caller gave up, or nothing was sent
	CallNotMade   = "not_made"  // the breaker is open
	CallLimited   = "limited"   // a limit of the provider did not allow it in time
)

func (b *Breaker) observe(t *Target, outcome string, took time.Duration, out any, err error) {
	if b.Observe == nil {
		return
	}
	c := Call{Target: t, Outcome: outcome, Took: took}
	c.Err, _ = errors.AsType[*Error](err)
	switch answer := out.(type) {
	case *Response:
		c.Usage = answer.Usage
	case *Forwarded:
		c.Usage = answer.Usage
	}
	b.Observe(c)
}

// outcomeOf names what the breaker's judgement of a call means.
func outcomeOf(o breaker.Outcome, err error) string {
	switch {
	case err == nil:
		return CallDone
	case o == breaker.Alive:
		return CallRefused
	case o == breaker.Failed:
		return CallFailed
	}
	return CallCancelled
}

// Open returns how many breakers of each of the operator's providers are open.
func (b *Breaker) Open() map[string]int {
	b.mu.RLock()
	all := maps.Clone(b.circuits)
	b.mu.RUnlock()
	open := map[string]int{}
	for key, c := range all {
		if key.key.Empty() {
			open[key.provider] += 0
			if c.State().Open {
				open[key.provider]++
			}
		}
	}
	return open
}

type circuitKey struct {
	provider, model, url string
	key                  secret.String // of tenants
}

func (b *Breaker) circuit(t *Target) *breaker.Breaker {
	key := circuitKey{provider: t.Provider, model: t.Model, url: t.BaseURL}
	if t.Guarded {
		key.key = t.APIKey
	}
	now := b.tuning()
	b.mu.RLock()
	c, same := b.circuits[key], b.tuned == now
	b.mu.RUnlock()
	if c != nil && same {
		return c
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tuned != now {
		b.tuned, b.circuits = now, nil
	}
	if c := b.circuits[key]; c != nil {
		return c
	}
	if b.circuits == nil || len(b.circuits) >= maxCircuits {
		b.circuits = map[circuitKey]*breaker.Breaker{}
	}
	c = &breaker.Breaker{After: now.failures, First: now.first, Max: now.most}
	b.circuits[key] = c
	return c
}

// Generate implements [Client].
func (b *Breaker) Generate(ctx context.Context, req Request, sink func(Delta)) (Response, error) {
	allow := (*breaker.Breaker).Allow
	if req.Probe {
		allow = (*breaker.Breaker).AllowTrial
	}
	return guardedBy(ctx, b, allow, &req.Target, func() (Response, error) { return b.Next.Generate(ctx, req, sink) })
}

// Forward implements [Forwarder].
func (b *Breaker) Forward(ctx context.Context, f Forward, sink func([]byte) error) (Forwarded, error) {
	return guarded(ctx, b, &f.Target, func() (Forwarded, error) { return b.Next.Forward(ctx, f, sink) })
}

// Speak implements [AudioClient]. A call is answered once the speech begins.
func (b *Breaker) Speak(ctx context.Context, req SpeechRequest) (*Speech, error) {
	return guarded(ctx, b, &req.Target, func() (*Speech, error) { return b.Next.Speak(ctx, req) })
}

// Transcribe implements [AudioClient].
func (b *Breaker) Transcribe(ctx context.Context, req TranscriptionRequest) (Transcription, error) {
	return guarded(ctx, b, &req.Target, func() (Transcription, error) { return b.Next.Transcribe(ctx, req) })
}

// Image implements [ImageClient].
func (b *Breaker) Image(ctx context.Context, req ImageRequest) (Image, error) {
	return guarded(ctx, b, &req.Target, func() (Image, error) { return b.Next.Image(ctx, req) })
}

// Embedder returns e, whose calls go to the target t, behind the breaker.
func (b *Breaker) Embedder(e Embedder, t Target) Embedder { return guardedEmbedder{e, b, t} }

type guardedEmbedder struct {
	Embedder
	breaker *Breaker
	target  Target
}

// Embed implements [Embedder].
func (g guardedEmbedder) Embed(ctx context.Context, texts []string) (Embedded, error) {
	return guarded(ctx, g.breaker, &g.target, func() (Embedded, error) { return g.Embedder.Embed(ctx, texts) })
}

func guarded[T any](ctx context.Context, b *Breaker, t *Target, call func() (T, error)) (T, error) {
	return guardedBy(ctx, b, (*breaker.Breaker).Allow, t, call)
}

func guardedBy[T any](
	ctx context.Context, b *Breaker, allow func(*breaker.Breaker, time.Time) (bool, time.Duration), t *Target, call func() (T, error),
) (T, error) {
	c := b.circuit(t)
	trial, wait := allow(c, b.Clock.Now())
	if wait > 0 {
		b.observe(t, CallNotMade, 0, nil, nil)
		return *new(T), &Error{
			Code: "model_error", Status: 503, Retryable: true, Passing: true, NotMade: true, RetryAfter: wait,
			Detail: fmt.Sprintf("The model endpoint did not answer %d calls in a row and is left alone for %.0f seconds.",
				c.State().Failures, wait.Seconds()),
		}
	}
	outcome := breaker.Undecided // also if the call panics
	defer func() { c.Report(b.Clock.Now(), trial, outcome) }()
	start := time.Now()
	out, err := call()
	outcome = judge(ctx, err)
	b.observe(t, outcomeOf(outcome, err), time.Since(start), &out, err)
	return out, err
}

func judge(ctx context.Context, err error) breaker.Outcome {
	if err == nil {
		return breaker.Alive
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok || ctx.Err() != nil || e.Code == "provider_not_configured":
		return breaker.Undecided // the caller disconnected, or was refused before the call
	case e.Status == 0 && !e.Retryable:
		return breaker.Undecided // the guarded client did not connect
	case e.Status == 0, e.Status == 502, e.Status == 503, e.Status == 504, e.Status == 529:
		return breaker.Failed
	}
	return breaker.Alive
}

// States of a provider's health.
const (
	HealthUnknown  = "unknown"  // it was not called yet
	HealthOK       = "ok"       // all recent calls were answered
	HealthDegraded = "degraded" // some recent calls were not answered, or the breakers of some models are open
	HealthDown     = "down"     // the breakers of all models that were called are open
)

// Health returns the health of an operator's provider, as far as this process
// called it, and since when; the zero time with HealthUnknown.
func (b *Breaker) Health(provider string) (status string, since time.Time) {
	b.mu.RLock()
	all := maps.Clone(b.circuits)
	b.mu.RUnlock()
	n, down, failing := 0, 0, 0
	for key, c := range all {
		if key.provider != provider || !key.key.Empty() {
			continue
		}
		state := c.State()
		n++
		if state.Open {
			down++
		} else if state.Failures > 0 {
			failing++
		}
		if state.Since.After(since) {
			since = state.Since
		}
	}
	switch {
	case n == 0:
		return HealthUnknown, time.Time{}
	case down == n:
		return HealthDown, since
	case down+failing > 0:
		return HealthDegraded, since
	}
	return HealthOK, since
}

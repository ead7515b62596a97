package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
)

// When an endpoint is left alone, and for how long at first and at most.
const (
	breakAfter = 5
	restFirst  = 5 * time.Second
	restMost   = time.Minute
	// mostCircuits bounds of how many endpoints something is known.
	mostCircuits = 10_000
)

// Breaker is a client that leaves endpoints alone which do not answer: after
// five calls in a row that were not answered it refuses further ones at once,
// so that nobody waits and fallbacks are asked without delay. After a rest one
// call may try again; if that fails too the next rest is twice as long.
//
// Only silence counts: connections that fail, time-outs and the statuses of
// gateways (502, 503, 504, 529). An answer that says what is wrong, a 500 too,
// may be about what was asked: nobody can have an endpoint be left alone by
// asking it odd things. Tenants' own keys and endpoints stand apart from the
// operator's.
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

	mu       sync.RWMutex
	circuits map[circuitKey]*circuit
}

type circuitKey struct {
	provider, model, url string
	key                  secret.String // of tenants
}

// circuit is what is known of a model at an endpoint.
type circuit struct {
	mu       sync.Mutex
	failures int // in a row
	rest     time.Duration
	until    time.Time // calls are refused until then; zero: none are
	trying   bool      // one call finds out whether it is over
	since    time.Time // of the present state
}

func (b *Breaker) circuit(t *Target) *circuit {
	key := circuitKey{provider: t.Provider, model: t.Model, url: t.BaseURL}
	if t.Guarded {
		key.key = t.APIKey
	}
	b.mu.RLock()
	c := b.circuits[key]
	b.mu.RUnlock()
	if c != nil {
		return c
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.circuits[key]; c != nil {
		return c
	}
	if b.circuits == nil || len(b.circuits) >= mostCircuits {
		b.circuits = map[circuitKey]*circuit{}
	}
	c = &circuit{since: b.Clock.Now()}
	b.circuits[key] = c
	return c
}

// Generate implements [Client].
func (b *Breaker) Generate(ctx context.Context, req Request, sink func(Delta)) (Response, error) {
	return guarded(ctx, b, &req.Target, func() (Response, error) { return b.Next.Generate(ctx, req, sink) })
}

// Forward implements [Forwarder].
func (b *Breaker) Forward(ctx context.Context, f Forward, sink func([]byte) error) (Forwarded, error) {
	return guarded(ctx, b, &f.Target, func() (Forwarded, error) { return b.Next.Forward(ctx, f, sink) })
}

// Speak implements [AudioClient]. What counts is whether the endpoint began.
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

// Embedder has the calls of an embedder, which asks a target, pass the breaker.
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
	c := b.circuit(t)
	trial, err := c.enter(b.Clock.Now())
	if err != nil {
		var none T
		return none, err
	}
	found := undecided // also where it panics
	defer func() { c.leave(b.Clock.Now(), trial, found) }()
	out, err := call()
	found = judge(ctx, err)
	return out, err
}

// verdict is what a call says of its endpoint.
type verdict int

const (
	undecided verdict = iota
	alive
	silent
)

func judge(ctx context.Context, err error) verdict {
	if err == nil {
		return alive
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok || ctx.Err() != nil || e.Code == "provider_not_configured":
		return undecided // the caller went away, or was refused before the call
	case e.Status == 0 && !e.Retryable:
		return undecided // the guarded client did not connect
	case e.Status == 0, e.Status == 502, e.Status == 503, e.Status == 504, e.Status == 529:
		return silent
	}
	return alive
}

// enter lets a call through, or refuses it. A trial is the one that finds out
// whether the rest was long enough.
func (c *circuit) enter(now time.Time) (trial bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until.IsZero() {
		return false, nil
	}
	if now.Before(c.until) || c.trying {
		wait := max(c.until.Sub(now), time.Second)
		return false, &Error{
			Code: "model_error", Status: 503, Retryable: true, RetryAfter: wait,
			Detail: fmt.Sprintf("The model endpoint did not answer %d calls in a row and is left alone for %.0f seconds.", c.failures, wait.Seconds()),
		}
	}
	c.trying = true
	return true, nil
}

func (c *circuit) leave(now time.Time, trial bool, v verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if trial {
		c.trying = false
	}
	switch {
	case v == alive && c.failures > 0:
		c.failures, c.rest, c.until, c.since = 0, 0, time.Time{}, now
	case v != silent, !trial && !c.until.IsZero(): // a call that was under way when others failed tells nothing new
	case trial:
		c.rest = min(2*c.rest, restMost)
		c.until = now.Add(c.rest)
	default:
		c.failures++
		if c.failures == 1 || c.failures == breakAfter {
			c.since = now
		}
		if c.failures >= breakAfter {
			c.rest = restFirst
			c.until = now.Add(c.rest)
		}
	}
}

// States of a provider's health.
const (
	HealthUnknown  = "unknown"  // it was not called yet
	HealthOK       = "ok"       //
	HealthDegraded = "degraded" // some calls were not answered lately, or some models are left alone
	HealthDown     = "down"     // every model that was called is left alone
)

// Health says how an operator's provider is, as far as this process called it,
// and since when; the zero time with HealthUnknown.
func (b *Breaker) Health(provider string) (status string, since time.Time) {
	b.mu.RLock()
	all := maps.Clone(b.circuits)
	b.mu.RUnlock()
	n, down, failing := 0, 0, 0
	for key, c := range all {
		if key.provider != provider || !key.key.Empty() {
			continue
		}
		c.mu.Lock()
		n++
		if !c.until.IsZero() {
			down++
		} else if c.failures > 0 {
			failing++
		}
		if c.since.After(since) {
			since = c.since
		}
		c.mu.Unlock()
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

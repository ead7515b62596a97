// Package openaiclient calls OpenAI-compatible endpoints over HTTP: chat completions,
// plain and streamed, embeddings, images, audio and lists of models. It is on the hot
// path of every run: a call starts no goroutine of its own, read buffers are pooled,
// requests are written by appending, and ordinary chunks are read by a scanner of
// their own (see fastChunk), all others by the general decoder.
//
// Endpoints differ from the original and from each other. Accepted are tool calls in
// pieces or whole, with or without ids and indexes; reasoning_content and reasoning;
// usage in the last chunk, in every chunk or never; an error inside a stream or in a
// 200; a missing [DONE] or a missing finish reason. A stream that ends without either
// of the two is broken, and its partial answer is an error.
package openaiclient

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"agentd/internal/kernel/model"
)

// Config of a client. Zero values mean the defaults in brackets.
type Config struct {
	Operator      http.RoundTripper // to the operator's endpoints [NewTransport()]
	Guarded       http.RoundTripper // to tenants' endpoints [nil: these are refused]
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

// Client implements model.Client over HTTP. Safe for concurrent use.
type Client struct {
	Config
	dialects dialects
}

var _ model.Client = (*Client)(nil)

// New returns a client.
func New(c Config) *Client {
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
	return &Client{Config: c}
}

// Generate implements [model.Client]. The response of a failed call is empty.
func (c *Client) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	ctx, span := startSpan(ctx, c.Tracer, &req)
	resp, err := c.generate(ctx, &req, sink)
	endSpan(span, &resp, err)
	return resp, err
}

// generate calls the endpoint, with retries.
func (c *Client) generate(ctx context.Context, req *model.Request, sink func(model.Delta)) (resp model.Response, err error) {
	began := time.Now()
	err = c.retry(ctx, req, func(style dialect) (bool, error) {
		a := answer{sink: sink, detailed: req.Detailed && sink != nil, began: began, max: c.MaxAnswer}
		err := c.attempt(ctx, req, c.completions(encode(req, sink != nil, style), sink != nil, req.Budget), func(in *timedReader) error {
			if a.detailed {
				in.pause = a.flush
			}
			return readAnswer(in, &a)
		})
		if err == nil {
			resp = a.response(req)
			resp.Dropped = style.droppedOf(req)
		} else {
			resp = model.Response{Usage: a.usage}
		}
		return a.delivered, err
	})
	return resp, err
}

// retry makes a call until it succeeds or a further attempt cannot help. It retries if
// the endpoint failed before any of its answer was delivered, and in another dialect
// if the endpoint rejected the request's.
func (c *Client) retry(ctx context.Context, req *model.Request, try func(dialect) (delivered bool, err error)) error {
	began := time.Now()
	style := c.dialects.of(&req.Target, began)
	initial := style
	for attempt := 1; ; attempt++ {
		delivered, err := try(style)
		if err == nil {
			if style != initial {
				c.dialects.learn(&req.Target, style, began)
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failure := asError(err)
		if delivered {
			failure.Retryable = false
		}
		if other, ok := style.adapt(failure, req); ok && !delivered {
			style = other
			attempt--
			continue
		}
		if errors.Is(err, errIdle) || errors.Is(err, errDeadline) {
			return failure
		}
		if err := c.waitRetry(ctx, attempt, failure, req.MaxRetryAfter); err != nil {
			return err
		}
	}
}

// completions returns the request for a chat completion. budget bounds its whole time;
// 0: the client's timeouts.
func (c *Client) completions(body []byte, stream bool, budget time.Duration) endpointRequest {
	q := endpointRequest{path: "/chat/completions", body: body, timeouts: timeouts{c.PlainTimeout, c.IdleTimeout, c.AnswerTimeout}}
	if stream {
		q.accept, q.timeouts.begin = "text/event-stream", c.HeaderTimeout
	}
	if budget > 0 {
		q.timeouts = timeouts{budget, budget, budget}
	}
	return q
}

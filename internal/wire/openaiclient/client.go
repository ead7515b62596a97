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
	"context"
	"time"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// Config of a client.
type Config = modelcall.Config

// Client implements model.Client over HTTP. Safe for concurrent use.
type Client struct {
	modelcall.Caller
	// Place, if set, changes a call for endpoints with other paths and keys.
	Place    func(to model.Target, q modelcall.Call) modelcall.Call
	dialects modelcall.Dialects[dialect]
}

var _ model.Client = (*Client)(nil)

// New returns a client.
func New(c Config) *Client { return &Client{Caller: modelcall.New(c)} }

// Generate implements [model.Client]. The response of a failed call is empty.
func (c *Client) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	ctx, span := modelcall.StartSpan(ctx, c.Tracer, &req)
	resp, err := c.generate(ctx, &req, sink)
	modelcall.EndSpan(span, &resp, err)
	return resp, err
}

// generate calls the endpoint, with retries.
func (c *Client) generate(ctx context.Context, req *model.Request, sink func(model.Delta)) (resp model.Response, err error) {
	began := time.Now()
	err = c.retry(ctx, req, func(style dialect) (bool, error) {
		a := answer{Answer: modelcall.NewAnswer(req, sink, began, c.MaxAnswer)}
		q := c.completions(&req.Target, encode(req, sink != nil, style), sink != nil, req.Budget)
		err := c.Attempt(ctx, req, q, func(in *modelcall.Reader) error {
			if a.Detailed {
				in.Pause = a.Flush
			}
			return readAnswer(in, &a)
		})
		if err == nil {
			resp = a.response(req)
			resp.Dropped = style.droppedOf(req)
		} else {
			resp = model.Response{Usage: a.Usage}
		}
		return a.Delivered, err
	})
	return resp, err
}

// retry makes a call until it succeeds or a further attempt cannot help.
func (c *Client) retry(ctx context.Context, req *model.Request, try func(dialect) (delivered bool, err error)) error {
	adapt := func(style dialect, failure *model.Error) (dialect, bool) { return style.adapt(failure, req) }
	return modelcall.Retry(ctx, &c.Caller, &c.dialects, req, adapt, try)
}

// completions returns the request for a chat completion. budget bounds its whole time;
// 0: the client's time-outs.
func (c *Client) completions(to *model.Target, body []byte, stream bool, budget time.Duration) modelcall.Call {
	q := modelcall.Call{Path: "/chat/completions", Body: body, Timeouts: c.Completion(stream, budget)}
	if stream {
		q.Accept = "text/event-stream"
	}
	if c.Place != nil {
		q = c.Place(*to, q)
	}
	return q
}

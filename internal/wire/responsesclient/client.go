// Package responsesclient calls models over OpenAI's Responses API, at OpenAI and at
// endpoints that speak it. Nothing is stored there: the conversation is sent with every
// call, and reasoning goes back encrypted.
package responsesclient

import (
	"context"
	"net/url"
	"strings"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

const api = "OpenAI's Responses API"

// Client implements model.Client over HTTP. Safe for concurrent use.
type Client struct{ modelcall.Adapter[dialect] }

var _ model.Adapter = (*Client)(nil)

// New returns a client.
func New(c modelcall.Config) *Client {
	return &Client{modelcall.NewAdapter(c, modelcall.Protocol[dialect]{
		Encode: prepare, Adapt: dialect.adapt,
		Decoder: func(a modelcall.Answer) modelcall.AnswerDecoder { return &decoder{Answer: a} },
	})}
}

func prepare(req *model.Request, style dialect, stream bool) (modelcall.Encoded, error) {
	e := encoder{req: req, style: style}
	body, err := e.encode(stream)
	if err != nil {
		return modelcall.Encoded{}, err
	}
	q := call(&req.Target, "/responses", body)
	if stream {
		q.Accept = "text/event-stream"
	}
	return modelcall.Encoded{Call: q, Dropped: e.dropped()}, nil
}

// ListModels implements [model.Lister].
func (c *Client) ListModels(ctx context.Context, to model.Target) ([]model.Listed, error) {
	return c.List(ctx, &to, call(&to, "/models", nil))
}

// call returns a request without time-outs. An address that is nothing but a host has its
// API below /v1.
func call(to *model.Target, path string, body []byte) modelcall.Call {
	base := to.BaseURL
	if u, err := url.Parse(base); err == nil && strings.Trim(u.Path, "/") == "" && u.Host != "" {
		base = strings.TrimRight(base, "/") + "/v1"
	}
	return modelcall.Call{Base: base, Path: path, Body: body, API: api}
}

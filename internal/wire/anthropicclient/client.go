// Package anthropicclient calls models over Anthropic's Messages API, at Anthropic and at
// endpoints that speak it.
package anthropicclient

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"time"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

const api = "Anthropic's Messages API"

// Client implements model.Client over HTTP. Safe for concurrent use.
type Client struct {
	modelcall.Caller
	dialects modelcall.Dialects[dialect]
}

var _ model.Adapter = (*Client)(nil)

// New returns a client.
func New(c modelcall.Config) *Client { return &Client{Caller: modelcall.New(c)} }

// Generate implements [model.Client].
func (c *Client) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	ctx, span := modelcall.StartSpan(ctx, c.Tracer, &req)
	resp, err := c.generate(ctx, &req, sink)
	modelcall.EndSpan(span, &resp, err)
	return resp, err
}

func (c *Client) generate(ctx context.Context, req *model.Request, sink func(model.Delta)) (resp model.Response, err error) {
	began := time.Now()
	adapt := func(style dialect, failure *model.Error) (dialect, bool) { return style.adapt(failure, req) }
	err = modelcall.Retry(ctx, &c.Caller, &c.dialects, req, adapt, func(style dialect) (bool, error) {
		e := encoder{req: req, style: style}
		body, err := e.encode(sink != nil)
		if err != nil {
			return false, err
		}
		d := decoder{Answer: modelcall.NewAnswer(req, sink, began, c.MaxAnswer)}
		q := call(&req.Target, "/messages", body)
		q.Timeouts = c.Completion(sink != nil, req.Budget)
		err = c.Attempt(ctx, req, q, func(in *modelcall.Reader) error {
			if d.Detailed {
				in.Pause = d.Flush
			}
			return modelcall.ReadAnswer(in, c.MaxAnswer, &d)
		})
		if err == nil {
			resp = d.response(req)
			resp.Dropped = e.dropped()
		} else {
			resp = model.Response{Usage: d.Usage}
		}
		return d.Delivered, err
	})
	return resp, err
}

// ListModels implements [model.Lister].
func (c *Client) ListModels(ctx context.Context, to model.Target) ([]model.Listed, error) {
	q := call(&to, "/models?limit=1000", nil)
	q.Timeouts = modelcall.Within(modelcall.ListTimeout)
	raw, err := c.Fetch(ctx, &to, q, modelcall.MaxList)
	if err != nil {
		return nil, err
	}
	return modelcall.ReadList(raw, &model.Request{Target: to})
}

// versioned reports whether an address has the version of its API.
var versioned = regexp.MustCompile(`/v[0-9]+$`)

// call returns a request without time-outs. Addresses work with and without /v1.
func call(to *model.Target, path string, body []byte) modelcall.Call {
	if !versioned.MatchString(to.BaseURL) {
		path = "/v1" + path
	}
	return modelcall.Call{Path: path, Body: body, API: api, Sign: func(r *http.Request) error {
		r.Header["Anthropic-Version"] = []string{"2023-06-01"}
		if key := to.APIKey; !key.Empty() {
			r.Header["X-Api-Key"] = []string{key.Reveal()}
		}
		return nil
	}}
}

// maxTokens returns the output cap of a request, which the API requires.
func maxTokens(req *model.Request, style dialect) int {
	n := cmp.Or(req.MaxTokens, req.Target.MaxOutput, defaultMaxTokens)
	if style.maxTokens > 0 {
		n = min(n, style.maxTokens)
	}
	return n
}

// defaultMaxTokens is the output cap of a model whose own is not known.
const defaultMaxTokens = 8192

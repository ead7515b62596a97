// Package geminiclient calls models over Gemini's generateContent.
package geminiclient

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

const api = "Gemini's API"

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
	at := *req
	at.Target.BaseURL = base(req.Target.BaseURL)
	method := ":generateContent"
	if sink != nil {
		method = ":streamGenerateContent?alt=sse"
	}
	adapt := func(style dialect, failure *model.Error) (dialect, bool) { return style.adapt(failure, req) }
	err = modelcall.Retry(ctx, &c.Caller, &c.dialects, req, adapt, func(style dialect) (bool, error) {
		e := encoder{req: req, style: style}
		body, err := e.encode()
		if err != nil {
			return false, err
		}
		d := decoder{Answer: modelcall.NewAnswer(req, sink, began, c.MaxAnswer)}
		q := call(&req.Target, "/models/"+url.PathEscape(strings.TrimPrefix(req.Target.Model, "models/"))+method, body)
		q.Timeouts = c.Completion(sink != nil, req.Budget)
		err = c.Attempt(ctx, &at, q, func(in *modelcall.Reader) error {
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
	q := call(&to, "/models?pageSize=1000", nil)
	q.Timeouts = modelcall.Within(modelcall.ListTimeout)
	to.BaseURL = base(to.BaseURL)
	raw, err := c.Fetch(ctx, &to, q, modelcall.MaxList)
	if err != nil {
		return nil, err
	}
	listed, err := modelcall.ReadList(raw, &model.Request{Target: to})
	for i := range listed {
		listed[i].ID = strings.TrimPrefix(listed[i].ID, "models/")
	}
	return listed, err
}

// versioned reports whether an address has the version of its API.
var versioned = regexp.MustCompile(`/v[0-9]+[a-z0-9]*$`)

// base returns the address that models are below. Addresses work with and without their
// version, and as that of Gemini's compatibility with OpenAI.
func base(endpoint string) string {
	endpoint = strings.TrimSuffix(endpoint, "/openai")
	if versioned.MatchString(endpoint) {
		return endpoint
	}
	return endpoint + "/v1beta"
}

// call returns a request without time-outs.
func call(to *model.Target, path string, body []byte) modelcall.Call {
	return modelcall.Call{Path: path, Body: body, API: api, Sign: func(r *http.Request) error {
		if key := to.APIKey; !key.Empty() {
			r.Header["X-Goog-Api-Key"] = []string{key.Reveal()}
		}
		return nil
	}}
}

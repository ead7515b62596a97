// Package geminiclient calls models over Gemini's generateContent.
package geminiclient

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

const api = "Gemini's API"

// Client implements model.Client over HTTP. Safe for concurrent use.
type Client struct{ modelcall.Adapter[dialect] }

var _ model.Adapter = (*Client)(nil)

// New returns a client.
func New(c modelcall.Config) *Client {
	return &Client{modelcall.NewAdapter(c, modelcall.Protocol[dialect]{
		Encode: prepare, Adapt: dialect.adapt,
		Count:   count,
		Decoder: func(a modelcall.Answer) modelcall.AnswerDecoder { return &decoder{Answer: a} },
	})}
}

func prepare(req *model.Request, style dialect, stream bool) (modelcall.Encoded, error) {
	method := ":generateContent"
	if stream {
		method = ":streamGenerateContent?alt=sse"
	}
	e := encoder{req: req, style: style}
	body, err := e.encode()
	if err != nil {
		return modelcall.Encoded{}, err
	}
	return modelcall.Encoded{Call: call(&req.Target, pathOf(req, method), body), Dropped: e.dropped()}, nil
}

func pathOf(req *model.Request, method string) string {
	return "/models/" + url.PathEscape(name(req)) + method
}

func name(req *model.Request) string { return strings.TrimPrefix(req.Target.Model, "models/") }

// counted is a request whose tokens the API counts, with what stands beside the contents.
type counted struct {
	Request struct {
		Model string `json:"model"`
		request
	} `json:"generateContentRequest"`
}

func count(req *model.Request, style dialect) (modelcall.Call, string, error) {
	e := encoder{req: req, style: style}
	r, err := e.build()
	if err != nil {
		return modelcall.Call{}, "", err
	}
	var c counted
	c.Request.Model, c.Request.request = "models/"+name(req), *r
	body, err := json.Marshal(&c, lenient)
	return call(&req.Target, pathOf(req, ":countTokens"), body), "totalTokens", err
}

// ListModels implements [model.Lister].
func (c *Client) ListModels(ctx context.Context, to model.Target) ([]model.Listed, error) {
	listed, err := c.List(ctx, &to, call(&to, "/models?pageSize=1000", nil))
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
	return modelcall.Call{Base: base(to.BaseURL), Path: path, Body: body, API: api, Sign: func(r *http.Request) error {
		if key := to.APIKey; !key.Empty() {
			r.Header["X-Goog-Api-Key"] = []string{key.Reveal()}
		}
		return nil
	}}
}

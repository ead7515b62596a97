// Package anthropicclient calls models over Anthropic's Messages API, at Anthropic and at
// endpoints that speak it.
package anthropicclient

import (
	"cmp"
	"context"
	"net/http"
	"regexp"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

const api = "Anthropic's Messages API"

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
	e := encoder{req: req, style: style}
	body, err := e.encode(stream)
	if err != nil {
		return modelcall.Encoded{}, err
	}
	return modelcall.Encoded{Call: call(&req.Target, "/messages", body), Dropped: e.dropped()}, nil
}

// counted is what the API counts of a request.
type counted struct {
	Model      string      `json:"model"`
	System     []block     `json:"system,omitzero"`
	Messages   []message   `json:"messages"`
	Tools      []tool      `json:"tools,omitzero"`
	ToolChoice *toolChoice `json:"tool_choice,omitzero"`
	Thinking   *thinking   `json:"thinking,omitzero"`
}

func count(req *model.Request, style dialect) (modelcall.Call, string, error) {
	e := encoder{req: req, style: style}
	r, err := e.build(false)
	if err != nil {
		return modelcall.Call{}, "", err
	}
	body, err := json.Marshal(&counted{r.Model, r.System, r.Messages, r.Tools, r.ToolChoice, r.Thinking}, lenient)
	return call(&req.Target, "/messages/count_tokens", body), "input_tokens", err
}

// ListModels implements [model.Lister].
func (c *Client) ListModels(ctx context.Context, to model.Target) ([]model.Listed, error) {
	return c.List(ctx, &to, call(&to, "/models?limit=1000", nil))
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

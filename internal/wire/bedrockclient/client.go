// Package bedrockclient calls models over Amazon Bedrock's Converse and ConverseStream.
package bedrockclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

const (
	api     = "Amazon Bedrock's Converse API"
	service = "bedrock"
)

// Client implements model.Client over HTTP. Safe for concurrent use.
type Client struct {
	modelcall.Adapter[dialect]
	signer *v4.Signer
	ring   *keyring
}

var _ model.Adapter = (*Client)(nil)

// New returns a client without an identity of the machine's own.
func New(c modelcall.Config) *Client { return NewOn(Machine{}, c) }

// NewOn returns a client on a machine, whose identity the operator's providers can use.
func NewOn(m Machine, c modelcall.Config) *Client {
	client := &Client{signer: v4.NewSigner()}
	client.Adapter = modelcall.NewAdapter(c, modelcall.Protocol[dialect]{
		Encode: client.prepare, Adapt: dialect.adapt, Read: read,
		Count:   client.count,
		Decoder: func(a modelcall.Answer) modelcall.AnswerDecoder { return &decoder{Answer: a} },
	})
	client.ring = newKeyring(m, &client.Caller, client.signer, time.Now)
	return client
}

func (c *Client) prepare(req *model.Request, style dialect, stream bool) (modelcall.Encoded, error) {
	e := encoder{req: req, style: style}
	body, err := e.encode()
	if err != nil {
		return modelcall.Encoded{}, err
	}
	method := "/converse"
	if stream {
		method = "/converse-stream"
	}
	q := c.call(&req.Target, path(req.Target.Model, method), body)
	if stream {
		q.Accept = "application/vnd.amazon.eventstream"
	}
	return modelcall.Encoded{Call: q, Dropped: e.dropped()}, nil
}

// path returns the path of a model's method. An id may be that of an inference profile
// over regions, or an ARN with colons and slashes, which the signature wants escaped.
func path(id, method string) string {
	return "/model/" + strings.ReplaceAll(url.QueryEscape(id), "+", "%20") + method
}

// counted is what the API counts of a request.
type counted struct {
	Input struct {
		Converse struct {
			Messages   []message      `json:"messages"`
			System     []block        `json:"system,omitzero"`
			Tools      *toolConfig    `json:"toolConfig,omitzero"`
			Additional map[string]any `json:"additionalModelRequestFields,omitzero"`
		} `json:"converse"`
	} `json:"input"`
}

// profile matches the beginning of an inference profile's id.
var profile = regexp.MustCompile(`^(us|us-gov|eu|apac|jp|au|ca|global)\.`)

// count writes the request for a count, which the API makes by models only, not by their
// inference profiles.
func (c *Client) count(req *model.Request, style dialect) (modelcall.Call, string, error) {
	e := encoder{req: req, style: style}
	r, err := e.build()
	if err != nil {
		return modelcall.Call{}, "", err
	}
	var out counted
	in := &out.Input.Converse
	in.Messages, in.System, in.Tools, in.Additional = r.Messages, r.System, r.Tools, r.Additional
	body, err := json.Marshal(&out, lenient)
	return c.call(&req.Target, path(profile.ReplaceAllString(req.Target.Model, ""), "/count-tokens"), body), "inputTokens", err
}

// call returns a request without time-outs, which is signed, or has a key of Bedrock's own.
func (c *Client) call(to *model.Target, path string, body []byte) modelcall.Call {
	return modelcall.Call{Path: path, Body: body, API: api, Sign: func(r *http.Request) error {
		if to.Access.AWS == nil {
			if !to.APIKey.Empty() {
				r.Header["Authorization"] = []string{"Bearer " + to.APIKey.Reveal()}
			}
			return nil
		}
		region := cmp.Or(to.Access.Region, model.AWSRegion(to.BaseURL))
		if region == "" {
			return &model.Error{
				Code:   modelcall.CodeNotConfigured,
				Detail: "The provider's region is not known: its address does not name one, and region is not set.",
			}
		}
		credentials, err := c.ring.keys(r.Context(), to, region)
		if err != nil {
			return err
		}
		hash := sha256.Sum256(body)
		err = c.signer.SignHTTP(r.Context(), credentials, r, hex.EncodeToString(hash[:]), service, region, time.Now())
		if err != nil {
			const detail = "The call could not be signed; check the provider's AWS keys."
			return &model.Error{Code: modelcall.CodeNotConfigured, Detail: detail, Cause: err}
		}
		return nil
	}}
}

// runtime matches the addresses of Amazon's endpoints that serve models. The lists of
// models are served by others of the same region.
var runtime = regexp.MustCompile(`^https://bedrock-runtime(-fips)?\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// lists returns the address that lists the models of an endpoint.
func lists(endpoint string) string {
	return runtime.ReplaceAllString(endpoint, "https://bedrock$1.$2.amazonaws.com$3")
}

// ListModels implements [model.Lister].
func (c *Client) ListModels(ctx context.Context, to model.Target) ([]model.Listed, error) {
	q := c.call(&to, "/foundation-models", nil)
	q.Base = lists(to.BaseURL)
	q.Timeouts = modelcall.Within(modelcall.ListTimeout)
	raw, err := c.Fetch(ctx, &to, q, modelcall.MaxList)
	if err != nil {
		return nil, err
	}
	var list struct {
		Models []struct {
			ID   modelcall.Text `json:"modelId"`
			Name modelcall.Text `json:"modelName"`
		} `json:"modelSummaries"`
	}
	if err := modelcall.Decode(raw, &list); err != nil {
		return nil, modelcall.ReadError(ctx, err, &model.Request{Target: to}, api)
	}
	type entry struct {
		ID   string `json:"id"`
		Name string `json:"display_name"`
	}
	all := make([]entry, 0, len(list.Models))
	for _, m := range list.Models {
		all = append(all, entry{string(m.ID), string(m.Name)})
	}
	return modelcall.ReadList(modelcall.MustMarshal(all), &model.Request{Target: to})
}

package modelwire

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/model"
)

// Bounds of an answer to the question which models an endpoint has.
const (
	listTimeout = 10 * time.Second
	maxList     = 4 << 20
	maxListed   = 5000
	maxName     = 300 // characters of an id or name
)

var _ model.Lister = (*Client)(nil)

var errNoList = errors.New("modelwire: the answer is no list of models")

// ListModels implements [model.Lister] by GET {base}/models. It asks once.
func (c *Client) ListModels(ctx context.Context, to model.Target) ([]model.Listed, error) {
	transport, err := c.way(to)
	if err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errSilent)
	defer cancel()
	call, err := http.NewRequestWithContext(ctx, http.MethodGet, to.BaseURL+"/models", nil)
	if err != nil || call.URL.Host == "" {
		return nil, &model.Error{Code: codeNotConfigured, Detail: "The provider's endpoint is not a URL like https://host/v1.", Cause: err}
	}
	call.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"agentd"}}
	if key := to.APIKey; !key.Empty() {
		call.Header["Authorization"] = []string{"Bearer " + key.Reveal()}
	}
	asked := &model.Request{Target: to}
	resp, err := transport.RoundTrip(call)
	if err != nil {
		return nil, cmp.Or(outer.Err(), error(unreachable(ctx, err)))
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return nil, &model.Error{Code: codeModel, Status: resp.StatusCode, Detail: "The model endpoint does not list its models; check its address."}
	default:
		return nil, refused(resp, resp.Body, asked)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	switch {
	case err != nil:
		return nil, cmp.Or(outer.Err(), error(broken(ctx, err, asked)))
	case len(raw) > maxList:
		return nil, noList(errTooLong)
	}
	return readList(raw, asked)
}

// way is how an endpoint is reached.
func (c *Client) way(to model.Target) (http.RoundTripper, error) {
	transport := c.Operator
	if to.Guarded {
		transport = c.Guarded
	}
	if transport == nil {
		return nil, &model.Error{Code: codeNotConfigured, Detail: "Models at an agent's own endpoint_url are switched off on this deployment."}
	}
	return transport, nil
}

func noList(cause error) *model.Error {
	return &model.Error{
		Code: codeModel, Status: http.StatusOK, Cause: cause,
		Detail: "The model endpoint sent something that is no list of models; check that its address is that of an OpenAI-compatible API.",
	}
}

// readList reads the forms that are in use: {"data": [...]}, {"models": [...]},
// and a bare array. What has no id is left out.
func readList(raw []byte, asked *model.Request) ([]model.Listed, error) {
	var answer struct {
		Data   jsontext.Value `json:"data"`
		Models jsontext.Value `json:"models"`
		Error  jsontext.Value `json:"error"`
	}
	list := jsontext.Value(raw)
	if list.Kind() != '[' {
		if err := json.Unmarshal(raw, &answer, lenient); err != nil {
			return nil, noList(err)
		}
		list = answer.Data
		if list.Kind() != '[' {
			list = answer.Models
		}
	}
	if list.Kind() != '[' {
		if kind := answer.Error.Kind(); kind == '{' || kind == '"' {
			return nil, classify(http.StatusOK, parseEndpointError(raw), asked)
		}
		return nil, noList(errNoList)
	}
	var entries []struct {
		ID      text           `json:"id"`
		Name    text           `json:"name"`
		Display text           `json:"display_name"`
		Created jsontext.Value `json:"created"`
		Length  jsontext.Value `json:"context_length"`
		Window  jsontext.Value `json:"context_window"`
		Most    jsontext.Value `json:"max_model_len"`
	}
	if err := json.Unmarshal(list, &entries, lenient); err != nil {
		return nil, noList(err)
	}
	models := make([]model.Listed, 0, min(len(entries), maxListed))
	for _, e := range entries {
		id := string(cmp.Or(e.ID, e.Name))
		if id == "" || len(id) > maxName || len(models) == maxListed {
			continue
		}
		m := model.Listed{ID: id, Name: string(cmp.Or(e.Display, e.Name)), Created: number(e.Created, 1<<40)}
		if m.Name == id || len(m.Name) > maxName {
			m.Name = ""
		}
		m.Context = int(cmp.Or(number(e.Length, maxTokens), number(e.Window, maxTokens), number(e.Most, maxTokens)))
		models = append(models, m)
	}
	return models, nil
}

const maxTokens = 1 << 30

// number reads a whole number from 1 to most; 0: it is none.
func number(raw jsontext.Value, most int64) int64 {
	var n float64
	if raw.Kind() != '0' || json.Unmarshal(raw, &n) != nil || !(n >= 1 && n <= float64(most)) {
		return 0
	}
	return int64(n)
}

package openaiclient

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// Limits of a list of models.
const (
	listTimeout = 10 * time.Second
	maxList     = 4 << 20
	maxListed   = 5000
	maxName     = 300 // characters of an id or name
)

var _ model.Lister = (*Client)(nil)

var errNoList = errors.New("openaiclient: the answer is not a list of models")

// ListModels implements [model.Lister] by GET {base}/models, without retries.
func (c *Client) ListModels(ctx context.Context, to model.Target) ([]model.Listed, error) {
	raw, err := c.Fetch(ctx, &to, modelcall.Call{Path: "/models", Timeouts: modelcall.Within(listTimeout)}, maxList)
	if err == nil {
		return readList(raw, &model.Request{Target: to})
	}
	if e, ok := errors.AsType[*model.Error](err); ok && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed) {
		e.Code, e.Detail = modelcall.CodeModel, "The model endpoint does not list its models; check its address."
	}
	return nil, err
}

func listError(cause error) *model.Error {
	return &model.Error{
		Code: modelcall.CodeModel, Status: http.StatusOK, Cause: cause,
		Detail: "The model endpoint sent something that is no list of models; check that its address is that of an OpenAI-compatible API.",
	}
}

// readList reads the forms that are in use: {"data": [...]}, {"models": [...]},
// and a bare array. What has no id is left out, and what was listed before.
func readList(raw []byte, asked *model.Request) ([]model.Listed, error) {
	var answer struct {
		Data   jsontext.Value `json:"data"`
		Models jsontext.Value `json:"models"`
		Error  jsontext.Value `json:"error"`
	}
	list := jsontext.Value(raw)
	if list.Kind() != '[' {
		if err := json.Unmarshal(raw, &answer, modelcall.Lenient); err != nil {
			return nil, listError(err)
		}
		list = answer.Data
		if list.Kind() != '[' {
			list = answer.Models
		}
	}
	if list.Kind() != '[' {
		if kind := answer.Error.Kind(); kind == '{' || kind == '"' {
			return nil, modelcall.Classify(http.StatusOK, modelcall.ParseError(raw), asked)
		}
		return nil, listError(errNoList)
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
	if err := json.Unmarshal(list, &entries, modelcall.Lenient); err != nil {
		return nil, listError(err)
	}
	models := make([]model.Listed, 0, min(len(entries), maxListed))
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		id := string(cmp.Or(e.ID, e.Name))
		if id == "" || len(id) > maxName || len(models) == maxListed || seen[id] {
			continue
		}
		seen[id] = true
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

// number returns a whole number from 1 to limit, 0 for any other value.
func number(raw jsontext.Value, limit int64) int64 {
	var n float64
	if raw.Kind() != '0' || json.Unmarshal(raw, &n) != nil || !(n >= 1 && n <= float64(limit)) {
		return 0
	}
	return int64(n)
}

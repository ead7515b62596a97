package openaiclient

import (
	"context"
	"errors"
	"net/http"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

var _ model.Lister = (*Client)(nil)

// ListModels implements [model.Lister] by GET {base}/models, without retries.
func (c *Client) ListModels(ctx context.Context, to model.Target) ([]model.Listed, error) {
	q := modelcall.Call{Path: "/models", Timeouts: modelcall.Within(modelcall.ListTimeout)}
	if c.Place != nil {
		q = c.Place(to, q)
	}
	raw, err := c.Fetch(ctx, &to, q, modelcall.MaxList)
	if err == nil {
		return modelcall.ReadList(raw, &model.Request{Target: to})
	}
	if e, ok := errors.AsType[*model.Error](err); ok && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed) {
		e.Code, e.Detail = modelcall.CodeModel, "The model endpoint does not list its models; check its address."
	}
	return nil, err
}

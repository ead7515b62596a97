package resource

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// CreateFrom is the creation of a resource by a request's body.
func CreateFrom[T any](ctx context.Context, s *Store[T], who authz.Caller, body jsontext.Value) (*route.Reply, error) {
	return (&api[T]{s}).createFrom(ctx, who, body)
}

package model

import (
	"context"
	"errors"
)

// Router is the client of everything: builtin targets are answered here, all
// others by Wire.
type Router struct {
	Wire Client
}

// Generate implements [Client].
func (r Router) Generate(ctx context.Context, req Request, sink func(Delta)) (Response, error) {
	if req.Target.Provider == Builtin {
		return Echo{}.Generate(ctx, req, sink)
	}
	return r.Wire.Generate(ctx, req, sink)
}

// GenerateWithFallback asks the request's target and, where that fails before
// its first piece, the fallback (nil: none). A fallback is not asked after the
// context ended, nor once a piece was shown: two models' words do not mix. It
// gives the target that answered, whose price counts. Where both fail the
// error is the first one's, and the fallback's is among its causes.
func GenerateWithFallback(ctx context.Context, c Client, req Request, fallback *Target, sink func(Delta)) (Response, Target, error) {
	if fallback == nil {
		resp, err := c.Generate(ctx, req, sink)
		return resp, req.Target, err
	}
	started := false
	watched := sink
	if sink != nil {
		watched = func(d Delta) {
			started = true
			sink(d)
		}
	}
	resp, err := c.Generate(ctx, req, watched)
	first, failed := errors.AsType[*Error](err)
	if !failed || started || ctx.Err() != nil {
		return resp, req.Target, err
	}
	primary := req.Target
	req.Target = *fallback
	resp, second := c.Generate(ctx, req, sink)
	if second == nil || ctx.Err() != nil {
		return resp, req.Target, second
	}
	both := *first
	both.Cause = errors.Join(first.Cause, second)
	return Response{}, primary, &both
}

package model

import (
	"context"
	"errors"
)

// Router is the client of all targets: it answers for builtin ones itself, and
// passes all others to Wire.
type Router struct {
	Wire     Client
	Forwards Forwarder // of everything else; nil: nothing is passed on
}

// Generate implements [Client].
func (r Router) Generate(ctx context.Context, req Request, sink func(Delta)) (Response, error) {
	if req.Target.Provider == Builtin {
		return Echo{}.Generate(ctx, req, sink)
	}
	return generate(ctx, r.Wire, req, sink)
}

// Fallback is the target to call if another fails.
type Fallback struct {
	Target Target
	After  func(*Error) bool // which failures; nil: all
}

// GenerateWithFallback calls the request's target and, if that fails before its
// first piece, the fallback (nil: none). The fallback is not called after the
// context ended, nor once a piece was passed on: the words of two models must not
// mix. It returns the target that answered, even if it broke off, since its price
// applies. If neither answered, the error is that of the first target, with the
// fallback's among its causes.
func GenerateWithFallback(ctx context.Context, c Client, req Request, fallback *Fallback, sink func(Delta)) (Response, Target, error) {
	started := false
	watched := sink
	if sink != nil && fallback != nil {
		watched = func(d Delta) {
			started = true
			sink(d)
		}
	}
	return withFallback(ctx, req.Target, fallback, &started, func(to Target) (Response, error) {
		req.Target = to
		return c.Generate(ctx, req, watched)
	})
}

func withFallback[T any](
	ctx context.Context, primary Target, fallback *Fallback, started *bool, try func(Target) (T, error),
) (T, Target, error) {
	out, err := try(primary)
	first, failed := errors.AsType[*Error](err)
	if fallback == nil || !failed || *started || ctx.Err() != nil || fallback.After != nil && !fallback.After(first) {
		return out, primary, err
	}
	out, second := try(fallback.Target)
	if second == nil || *started || ctx.Err() != nil {
		return out, fallback.Target, second
	}
	both := *first
	both.Cause = errors.Join(first.Cause, second)
	var none T
	return none, primary, &both
}

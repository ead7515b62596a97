package model

import (
	"context"
	"errors"
)

// ErrCannotCount is returned where a wire has no call that counts tokens.
var ErrCannotCount = errors.New("model: the wire does not count tokens")

// Counter counts the input of requests as their model does, without an answer.
type Counter interface {
	// CountTokens returns how many tokens a request's input has. Errors: ErrCannotCount;
	// *Error; the context's.
	CountTokens(ctx context.Context, req Request) (int, error)
}

// CountTokens implements [Counter].
func (w *Wires) CountTokens(ctx context.Context, req Request) (int, error) {
	a, err := w.adapter(&req.Target)
	if err != nil {
		return 0, err
	}
	if counter, ok := a.(Counter); ok {
		return counter.CountTokens(ctx, req)
	}
	return 0, ErrCannotCount
}

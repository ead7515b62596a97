package app

import (
	"context"
	"fmt"

	"agentd/internal/ratelimit"
)

// buildLimits makes what counts requests, together with the other nodes.
func (a *App) buildLimits() (*ratelimit.Limiter, error) {
	limits, err := ratelimit.Parse(a.cfg.Server.RateLimits)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_RATE_LIMITS: %w", err)
	}
	limiter := ratelimit.New(limits)
	a.serve(func(ctx context.Context) { limiter.Share(ctx, a.node, a.hub) })
	return limiter, nil
}

package app

import (
	"context"
	"fmt"
	"net/netip"

	"agentd/internal/kernel/ratelimit"
)

// buildLimits makes what counts requests, together with the other nodes, and
// says whose word about client addresses counts.
func (a *App) buildLimits() (*ratelimit.Limiter, []netip.Prefix, error) {
	limits, err := ratelimit.Parse(a.cfg.Server.RateLimits)
	if err != nil {
		return nil, nil, fmt.Errorf("AGENTD_RATE_LIMITS: %w", err)
	}
	proxies, err := a.cfg.Server.Proxies()
	if err != nil {
		return nil, nil, fmt.Errorf("AGENTD_TRUSTED_PROXIES: %w", err)
	}
	limiter := ratelimit.New(limits)
	a.serve(func(ctx context.Context) { limiter.Share(ctx, a.node, a.hub) })
	return limiter, proxies, nil
}

package app

import (
	"context"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/base/config"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/idempotency"
	"agentd/internal/kernel/ratelimit"
	"agentd/internal/store/idempotencysql"
)

// newServer makes the HTTP server for the routes of all parts, and the part of
// what it runs in the background.
func newServer(p *platform, accounts *accounts, members *members, parts []part) (*httpapi.Server, part, error) {
	keeper := newIdempotency(p)
	routes, endpoints := routesOf(parts)
	p.config.Connect(p.limiter, operations(routes), served(features, routes))
	server, err := httpapi.New(httpapi.Config{
		Routes: routes, Raw: endpoints, Families: compatFamilies(), Auth: accounts.identity, Ready: p.db.Ready, Idempotency: keeper,
		Limiter: p.limiter, ProxiesNow: p.config.Proxies, MaxBodyNow: p.config.MaxBody,
		Fresh: members.signIn.Fresh, Held: accounts.tenants.UnderHold,
		TenantNames: accounts.identity.TenantNames,
		Watch:       p.watch.Note,
		Origins:     p.config.AllowedOrigins, TenantStreams: p.config.StreamsPerTenant, Heartbeats: p.config.Heartbeat,
		Feature: p.config.FeatureOf, SelfTest: p.hub.SelfTest, Degraded: p.disk.degraded,
		Log: p.log, Metrics: p.metrics, Tracer: p.tracer("agentd/http"), PublicURL: p.cfg.Server.PublicURL,
		TLS: p.cfg.Server.TLSCert != "", HideMetrics: p.cfg.Server.MetricsListen != "",
		HideBuild: p.cfg.Server.MetricsListen != "" || !config.Loopback(p.cfg.Server.Listen),
	})
	return server, part{name: "server", services: []service{
		background(func(ctx context.Context) { p.limiter.Share(ctx, p.node, p.hub) }),
		background(keeper.Serve),
	}}, err
}

// newLimiter makes the limiter of requests.
func newLimiter(p *platform) (*ratelimit.Limiter, error) {
	limits, err := ratelimit.Parse(p.cfg.Server.RateLimits)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_RATE_LIMITS: %w", err)
	}
	return ratelimit.New(limits), nil
}

// newIdempotency makes the keeper of the answers to writes that clients may
// repeat.
func newIdempotency(p *platform) *idempotency.Manager {
	kept := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_idempotency_answers_total",
		Help: "Answers kept for writes with an Idempotency-Key, by whether that was in the transaction of the write's effect.",
	}, []string{"with_effect"})
	p.metrics.MustRegister(kept)
	return idempotency.NewManager(idempotency.Config{
		Store: idempotencysql.New(p.db), Writer: p.db, Box: p.box, Clock: p.clock, Log: p.log,
		Window:   p.config.IdempotencyWindow,
		OnStored: func(withEffect bool) { kept.WithLabelValues(strconv.FormatBool(withEffect)).Inc() },
	})
}

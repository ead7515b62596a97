package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"agentd/internal/base/route"
	kernelegress "agentd/internal/kernel/egress"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/ratelimit"
	"agentd/internal/operation/opconfig"
	"agentd/internal/teams/bridge"
)

// features are the parts of the service that the operator may switch off. Those without
// an operation in this version are left out.
var features = []opconfig.Feature{
	{Name: "public_chat", Paths: []string{"/api/v1/public"}},
	{Name: "marketplace", Paths: []string{"/api/v1/marketplace"}},
	{Name: "governance", Paths: []string{"/api/v1/governance"}},
	{Name: "a2a", Paths: []string{"/api/v1/a2a", "/a2a"}},
	{Name: "bridge", Paths: []string{"/api/v1/bridge"}},
	{Name: "commerce", Paths: []string{"/api/v1/commerce"}},
	{Name: "missions", Paths: []string{"/api/v1/missions"}},
}

// newOperatorConfig adds the operator's settings with the program's configuration as
// their initial values.
func newOperatorConfig(p *platform, plans *quota.Plans) error {
	limits, err := ratelimit.Parse(p.cfg.Server.RateLimits)
	if err != nil {
		return fmt.Errorf("AGENTD_RATE_LIMITS: %w", err)
	}
	waits, err := p.cfg.Webhooks.Waits()
	if err != nil {
		return fmt.Errorf("AGENTD_WEBHOOK_RETRY_WAITS: %w", err)
	}
	if _, err := p.cfg.Server.Proxies(); err != nil {
		return fmt.Errorf("AGENTD_TRUSTED_PROXIES: %w", err)
	}
	p.config = opconfig.New(opconfig.Deps{
		Settings: p.settings, Plans: plans, Features: features, RateLimits: limits, Origins: p.cfg.Server.Origins(),
		StreamsPerTenant: int64(p.cfg.Server.StreamsPerTenant), Signup: p.cfg.SignIn.Signup == "on", Waits: waits,
		LogLevel: levelName(p.cfg.Observability.Level()), SetLogLevel: p.setLogLevel,
		Machinery: p.machinery(), BridgeHeartbeat: bridge.HeartbeatEvery, Providers: p.clientProviders,
	})
	return nil
}

// configPart serves the settings.
func (p *platform) configPart() part {
	return part{name: "config", routes: slices.Concat(p.config.Routes(), p.settings.DocumentRoutes())}
}

// checkWebhook is check, and refuses what the operator does not let webhooks go to.
func (p *platform) checkWebhook(check kernelegress.CheckFunc) kernelegress.CheckFunc {
	return func(ctx context.Context, tenant, url string) error {
		return errors.Join(p.config.CheckWebhook(url), check(ctx, tenant, url))
	}
}

// webhookURL returns where sensors are reached, without a slash at the end.
func (p *platform) webhookURL() string {
	if url := p.config.WebhookURL(); url != "" {
		return url
	}
	return p.publicURL()
}

// operations returns a function that reports whether there is an operation of an id.
func operations(routes []route.Route) func(id string) bool {
	return func(id string) bool {
		return slices.ContainsFunc(routes, func(r route.Route) bool { return r.ID == id })
	}
}

// levelHandler is a handler of logs whose least level can be set; before that it is that
// of the handler behind it.
type levelHandler struct {
	next  slog.Handler
	least *atomic.Pointer[slog.Level]
}

func newLevelHandler(next slog.Handler) *levelHandler {
	return &levelHandler{next, &atomic.Pointer[slog.Level]{}}
}

// Enabled implements slog.Handler.
func (h *levelHandler) Enabled(ctx context.Context, level slog.Level) bool {
	if least := h.least.Load(); least != nil {
		return level >= *least
	}
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *levelHandler) Handle(ctx context.Context, r slog.Record) error { return h.next.Handle(ctx, r) }

// WithAttrs implements slog.Handler.
func (h *levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &levelHandler{h.next.WithAttrs(attrs), h.least}
}

// WithGroup implements slog.Handler.
func (h *levelHandler) WithGroup(name string) slog.Handler {
	return &levelHandler{h.next.WithGroup(name), h.least}
}

// setLogLevel has the log contain entries from a level on; "" or the level of the
// program's configuration: what its handler says.
func (p *platform) setLogLevel(name string) {
	var level slog.Level
	if name == levelName(p.cfg.Observability.Level()) || level.UnmarshalText([]byte(name)) != nil {
		p.level.least.Store(nil)
		return
	}
	p.level.least.Store(&level)
}

func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	}
	return "error"
}

// served returns the features of which something is served.
func served(all []opconfig.Feature, routes []route.Route) []opconfig.Feature {
	return slices.DeleteFunc(slices.Clone(all), func(f opconfig.Feature) bool {
		return !slices.ContainsFunc(routes, func(r route.Route) bool { return f.Has(r.Path) })
	})
}

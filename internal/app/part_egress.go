package app

import (
	"fmt"

	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

// egress is the ways out for calls whose address a tenant chooses.
type egress struct {
	allow   outbound.Allow
	guarded *outbound.Client
	hooks   *outbound.Client // for webhooks
}

func newEgress(p *platform) (*egress, error) {
	allow, err := outbound.ParseAllow(p.cfg.Security.EgressAllow)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_EGRESS_ALLOW: %w", err)
	}
	if text := allow.String(); text != "" {
		p.log.Warn("calls to addresses that tenants choose may reach these private ones", "allowed", text)
	}
	e := &egress{allow: allow, guarded: outbound.New(outbound.Config{Allow: allow}), hooks: outbound.New(webhookhttp.ClientConfig(allow))}
	p.onStop(e.guarded.Close)
	p.onStop(e.hooks.Close)
	return e, nil
}

// caller returns the client of webhooks.
func (e *egress) caller(p *platform) webhookhttp.Caller {
	return webhookhttp.Caller{Client: e.hooks, Clock: p.clock}
}

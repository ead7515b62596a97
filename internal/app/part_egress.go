package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/internal/accounts/tenantadmin/tenantadminsql"
	"agentd/internal/base/authz"
	"agentd/internal/base/cache"
	"agentd/internal/base/fault"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

// signalEgress makes every node read the egress rules of a tenant again.
const signalEgress = "egress"

// egress is the ways out for calls whose address a tenant chooses.
type egress struct {
	allow   outbound.Allow
	rules   *cache.Cache[string, *outbound.Rules] // of tenants
	store   *tenantadminsql.Store
	guarded *outbound.Client
	hooks   *outbound.Client // for webhooks
	// screened is guarded, by no tenant's rules: for addresses that the operator sets while
	// the program runs.
	screened *outbound.Client
	checker  *outbound.Checker
}

func newEgress(p *platform) (*egress, error) {
	allow, err := outbound.ParseAllow(p.cfg.Security.EgressAllow)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_EGRESS_ALLOW: %w", err)
	}
	if text := allow.String(); text != "" {
		p.log.Warn("calls to addresses that tenants choose may reach these private ones", "allowed", text)
	}
	start := time.Now()
	e := &egress{
		allow: allow, store: tenantadminsql.New(p.db),
		// The rules hold within 2 s, also while nodes cannot signal to each other.
		rules: cache.New(cache.Options[string, *outbound.Rules]{
			Most: 10_000, Lasts: cache.For[*outbound.Rules](time.Second), Elapsed: func() time.Duration { return time.Since(start) },
		}),
	}
	e.guarded, e.checker = outbound.New(e.config()), outbound.NewChecker(e.config())
	e.screened = outbound.New(outbound.Config{Allow: allow})
	p.kernel.Egress = e.checkURL
	hooks := webhookhttp.ClientConfig(allow)
	hooks.Rules = e.rulesOf
	e.hooks = outbound.New(hooks)
	p.onStop(e.guarded.Close)
	p.onStop(e.screened.Close)
	p.onStop(e.hooks.Close)
	return e, nil
}

// checkURL implements egress.CheckFunc.
func (e *egress) checkURL(ctx context.Context, tenant, url string) error {
	return e.checker.Check(authz.WithTenant(ctx, tenant), url)
}

// checkSecureURL is checkURL for confidential content.
func (e *egress) checkSecureURL(ctx context.Context, tenant, url string) error {
	if err := outbound.CheckSecureURL(url, e.allow); err != nil {
		return err
	}
	return e.checkURL(ctx, tenant, url)
}

// config is the configuration of guarded clients.
func (e *egress) config() outbound.Config { return outbound.Config{Allow: e.allow, Rules: e.rulesOf} }

// rulesOf implements outbound.RulesFunc.
func (e *egress) rulesOf(ctx context.Context, tenant string) (*outbound.Rules, error) {
	return e.rules.Load(ctx, tenant, func(ctx context.Context, tenant string) (*outbound.Rules, error) {
		entries, err := e.store.GetEgress(ctx, tenant)
		if err != nil {
			return nil, err
		}
		return outbound.ParseRules(entries, e.allow)
	})
}

// check returns what is wrong with the entries of an allowlist.
func (e *egress) check(entries []string) []fault.Field {
	_, err := outbound.ParseRules(entries, e.allow)
	if bad, ok := errors.AsType[*outbound.RuleError](err); ok {
		return []fault.Field{{Field: fmt.Sprintf("egress_allowlist[%d]", bad.Index), Message: bad.Reason}}
	}
	return nil
}

// part drops the rules that changed on another node.
func (e *egress) part(p *platform) part {
	return part{name: "egress", services: []service{p.onSignal(signalEgress, e.rules.Drop)}}
}

// caller returns the client of webhooks.
func (e *egress) caller(p *platform) webhookhttp.Caller {
	return webhookhttp.Caller{Client: e.hooks, Clock: p.clock, TimeoutNow: p.config.DeliveryTimeout}
}

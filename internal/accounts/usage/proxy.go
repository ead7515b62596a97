package usage

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
)

// storeDelay is how long uses of the model proxy are collected before they are
// stored in one transaction. A crash loses at most this much.
const storeDelay = 100 * time.Millisecond

// proxyMeter counts the use of the model proxy.
type proxyMeter struct {
	tenants *tenantCache
	meter   *meter
	store   Store
	writer  txn.Writer
	clock   clock.Clock
	logger  *slog.Logger
	pending pendingUses
}

// pendingUses are uses of the model proxy that are not stored yet.
type pendingUses struct {
	mu       sync.Mutex
	uses     map[useKey]quota.Use
	requests map[string]struct{} // tenants with requests to store
	some     chan struct{}       // has an element if there is anything to store
}

type useKey struct{ tenant, agent, model, source, key string }

// CountProxyCall implements quota.Proxy.
func (p *proxyMeter) CountProxyCall(tenant string, use quota.Use) {
	use.AgentID = cmp.Or(use.AgentID, noAgent)
	key := useKey{tenant, use.AgentID, use.Model, use.Source, use.KeyID}
	g := &p.pending
	g.mu.Lock()
	if g.uses == nil {
		g.uses = map[useKey]quota.Use{}
	}
	if before, ok := g.uses[key]; ok {
		use = Sum(before, use)
	}
	g.uses[key] = use
	g.mu.Unlock()
	g.wake()
}

// addRequests marks a tenant's requests to be stored.
func (g *pendingUses) addRequests(tenant string) {
	g.mu.Lock()
	if g.requests == nil {
		g.requests = map[string]struct{}{}
	}
	g.requests[tenant] = struct{}{}
	g.mu.Unlock()
	g.wake()
}

func (g *pendingUses) wake() {
	select {
	case g.some <- struct{}{}:
	default:
	}
}

// pendingOf is what is pending for one tenant.
type pendingOf struct {
	uses     []quota.Use
	requests bool // there are requests to store
}

// drain removes and returns everything that is pending, by tenant.
func (g *pendingUses) drain() map[string]pendingOf {
	g.mu.Lock()
	defer g.mu.Unlock()
	tenants := map[string]pendingOf{}
	for tenant := range g.requests {
		tenants[tenant] = pendingOf{requests: true}
	}
	for key, use := range g.uses {
		t := tenants[key.tenant]
		t.uses = append(t.uses, use)
		tenants[key.tenant] = t
	}
	g.uses, g.requests = nil, nil
	return tenants
}

// Serve stores pending uses until ctx ends, and then once more.
func (p *proxyMeter) Serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			p.flush(context.WithoutCancel(ctx))
			return
		case <-p.pending.some:
			wait := time.NewTimer(storeDelay)
			select {
			case <-ctx.Done():
			case <-wait.C:
			}
			wait.Stop()
			p.flush(context.WithoutCancel(ctx))
		}
	}
}

// flush stores what is pending, in one transaction per tenant. What cannot be
// written stays pending.
func (p *proxyMeter) flush(ctx context.Context) {
	for tenant, t := range p.pending.drain() {
		var requests map[string]int64
		var counters requestCounters
		if t.requests {
			requests, counters = p.tenants.state(tenant).unstored()
		}
		err := p.writer.Write(ctx, func(tx txn.Tx) error {
			if len(t.uses) > 0 {
				if err := p.meter.Count(tenant, t.uses...)(tx); err != nil {
					return err
				}
			}
			return p.store.IncrementRequestsTx(tx, tenant, requests)
		})
		if err == nil {
			p.tenants.state(tenant).markStored(counters)
			continue
		}
		p.logger.Warn("could not count calls of the model proxy; will retry", "tenant", tenant, "err", err)
		if t.requests {
			p.pending.addRequests(tenant)
		}
		for _, use := range t.uses {
			p.CountProxyCall(tenant, use)
		}
	}
}

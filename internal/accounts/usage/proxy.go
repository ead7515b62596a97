package usage

import (
	"cmp"
	"context"
	"sync"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
)

var _ quota.Proxy = (*Service)(nil)

// gatherFor is how long uses of the model proxy are gathered before they are
// stored in one transaction: what a crash can leave uncounted.
const gatherFor = 100 * time.Millisecond

// gathered is what is not stored yet of the model proxy.
type gathered struct {
	mu       sync.Mutex
	uses     map[gatheredKey]quota.Use
	requests map[string]struct{} // tenants whose requests are to be stored
	some     chan struct{}       // has an element where there is anything
}

type gatheredKey struct{ tenant, agent, model, source, key string }

// Proxied implements quota.Proxy.
func (s *Service) Proxied(tenant string, use quota.Use) {
	use.AgentID = cmp.Or(use.AgentID, noAgent)
	key := gatheredKey{tenant, use.AgentID, use.Model, use.Source, use.KeyID}
	g := &s.gathered
	g.mu.Lock()
	if g.uses == nil {
		g.uses = map[gatheredKey]quota.Use{}
	}
	if before, ok := g.uses[key]; ok {
		use = Sum(before, use)
	}
	g.uses[key] = use
	g.mu.Unlock()
	g.wake()
}

// asked notes that a tenant's requests are to be stored.
func (g *gathered) asked(tenant string) {
	g.mu.Lock()
	if g.requests == nil {
		g.requests = map[string]struct{}{}
	}
	g.requests[tenant] = struct{}{}
	g.mu.Unlock()
	g.wake()
}

func (g *gathered) wake() {
	select {
	case g.some <- struct{}{}:
	default:
	}
}

// taken is what there is of a tenant.
type taken struct {
	uses     []quota.Use
	requests bool // are to be stored
}

// take gives what there is, by tenant.
func (g *gathered) take() map[string]taken {
	g.mu.Lock()
	defer g.mu.Unlock()
	tenants := map[string]taken{}
	for tenant := range g.requests {
		tenants[tenant] = taken{requests: true}
	}
	for key, use := range g.uses {
		t := tenants[key.tenant]
		t.uses = append(t.uses, use)
		tenants[key.tenant] = t
	}
	g.uses, g.requests = nil, nil
	return tenants
}

// Serve stores what was gathered until ctx ends, and then what is left.
func (s *Service) Serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.store(context.WithoutCancel(ctx))
			return
		case <-s.gathered.some:
			wait := time.NewTimer(gatherFor)
			select {
			case <-ctx.Done():
			case <-wait.C:
			}
			wait.Stop()
			s.store(context.WithoutCancel(ctx))
		}
	}
}

// store writes what was gathered, a transaction for each tenant. What cannot be
// written is kept for the next time.
func (s *Service) store(ctx context.Context) {
	for tenant, t := range s.gathered.take() {
		var requests map[string]int64
		var was tallies
		if t.requests {
			requests, was = s.of(tenant).unstored()
		}
		err := s.Writer.Write(ctx, func(tx txn.Tx) error {
			if len(t.uses) > 0 {
				if err := s.Count(tenant, t.uses...)(tx); err != nil {
					return err
				}
			}
			return s.Store.IncrementRequestsTx(tx, tenant, requests)
		})
		if err == nil {
			s.of(tenant).storedNow(was)
			continue
		}
		s.Logger.Warn("calls of the model proxy could not be counted yet", "tenant", tenant, "err", err)
		if t.requests {
			s.gathered.asked(tenant)
		}
		for _, use := range t.uses {
			s.Proxied(tenant, use)
		}
	}
}

package usage

import (
	"cmp"
	"context"
	"sync"
	"time"

	"agentd/internal/model"
	"agentd/internal/quota"
)

var _ quota.Proxy = (*Service)(nil)

// gatherFor is how long uses of the model proxy are gathered before they are
// stored in one transaction: what a crash can leave uncounted.
const gatherFor = 100 * time.Millisecond

// gathered are uses that are not stored yet, merged as they come.
type gathered struct {
	mu   sync.Mutex
	uses map[gatheredKey]quota.Use
	some chan struct{} // has an element where there are any
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
	select {
	case g.some <- struct{}{}:
	default:
	}
}

// MayProxy implements quota.Proxy.
func (s *Service) MayProxy(ctx context.Context, tenant string, _ model.Target) error {
	return s.MayAsk(ctx, tenant)
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
			s.store(ctx)
		}
	}
}

// store writes what was gathered, a transaction for each tenant. What cannot be
// written is kept for the next time.
func (s *Service) store(ctx context.Context) {
	g := &s.gathered
	g.mu.Lock()
	uses := g.uses
	g.uses = nil
	g.mu.Unlock()
	tenants := map[string][]quota.Use{}
	for key, use := range uses {
		tenants[key.tenant] = append(tenants[key.tenant], use)
	}
	for tenant, uses := range tenants {
		if err := s.Writer.Write(context.WithoutCancel(ctx), s.Count(tenant, uses...)); err != nil {
			s.Logger.Warn("calls of the model proxy could not be counted yet", "tenant", tenant, "err", err)
			for _, use := range uses {
				s.Proxied(tenant, use)
			}
		}
	}
}

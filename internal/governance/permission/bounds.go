package permission

import (
	"context"
	"math"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

type boundsKey struct {
	tenant, agent string
	version       int64
}

// bounds are what binds an agent: its set, and those of the agents above it. They are
// never changed.
type bounds struct {
	sets   []*Set // the agent's own first; empty: it has none
	policy SpawnPolicy
}

// reader reads a set, nil if there is none.
type reader func(id string) (*Set, error)

func optional(s *Set, err error) (*Set, error) {
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return s, err
}

// chain returns the sets that bind an agent. Errors: one of a chain that does not end.
func chain(id string, read reader) (sets []*Set, err error) {
	for id != "" {
		s, err := read(id)
		if err != nil || s == nil {
			return sets, err
		}
		if len(sets) > maxChain {
			return nil, fault.New(fault.Internal, "", "The agents above an agent are too many, or go round in a circle.")
		}
		sets = append(sets, s)
		id = s.parent()
	}
	return sets, nil
}

// boundsOf returns what binds an agent, as the company's sets are now; nil: nothing does.
func (p *Permissions) boundsOf(ctx context.Context, tenant, agent string) (*bounds, error) {
	version, err := p.Versions.PermissionsVersion(ctx, tenant)
	if err != nil || version == 0 {
		return nil, err
	}
	b, err := p.bounds.Load(ctx, boundsKey{tenant, agent, version}, func(ctx context.Context, k boundsKey) (*bounds, error) {
		sets, err := chain(k.agent, func(id string) (*Set, error) { return optional(p.sets.Get(ctx, k.tenant, id)) })
		if err != nil || len(sets) == 0 {
			return &bounds{}, err
		}
		spawning, err := p.spawnPolicy(ctx, k.tenant)
		return &bounds{sets, spawning}, err
	})
	if err != nil || len(b.sets) == 0 {
		return nil, err
	}
	return b, nil
}

// boundsTx is boundsOf within a transaction, which has locked the company's sets.
func (p *Permissions) boundsTx(tx txn.Tx, tenant, agent string) (*bounds, error) {
	sets, err := chain(agent, func(id string) (*Set, error) { return optional(p.sets.GetTx(tx, tenant, id)) })
	if err != nil {
		return nil, err
	}
	spawning, err := p.spawnPolicyTx(tx, tenant)
	return &bounds{sets, spawning}, err
}

// levels returns how many levels of agents may be below the agent. An agent without a
// set has as many as one whose set was just written.
func (b *bounds) levels() int64 {
	left := int64(math.MaxInt64)
	for i, s := range b.sets {
		left = min(left, s.MaxSpawnDepth-int64(i))
	}
	if len(b.sets) == 0 {
		return firstDepth
	}
	return left
}

// budget is what a run of an agent may spend on models.
type budget struct {
	usd     float64
	bounded bool
	lenient bool // nobody asked for it: it does not bind models without a price
}

// budget returns what a run of the agent may spend: no more than its own set and, for
// a child, the policy's share of what its parent may.
func (b *bounds) budget() (most budget) {
	for _, s := range slices.Backward(b.sets) {
		if s.ParentAgentID != nil {
			switch ratio := b.policy.ChildBudgetRatio; {
			case ratio == 0:
				most = budget{bounded: true}
			case most.bounded:
				most.usd *= ratio
			}
		}
		if own := s.MaxBudgetPerRunUSD; own > 0 && (!most.bounded || own < most.usd) {
			lenient := s.BudgetIsDefault && (!most.bounded || most.lenient)
			most = budget{own, true, lenient}
		}
	}
	return most
}

// Budget returns what a run of an agent may spend on models, in US dollars; not bounded
// where its permissions set no cap. A lenient budget was never asked for: it does not
// bind models without a price.
func (p *Permissions) Budget(ctx context.Context, tenant, agent string) (usd float64, bounded, lenient bool, err error) {
	b, err := p.boundsOf(ctx, tenant, agent)
	if err != nil || b == nil {
		return 0, false, false, err
	}
	most := b.budget()
	return most.usd, most.bounded, most.lenient, nil
}

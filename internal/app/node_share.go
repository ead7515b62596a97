package app

import (
	"context"
	"sync"
	"time"

	"agentd/internal/kernel/model"
	"agentd/internal/store/worksql"
)

// shares passes on which part of the limits of providers this node may use.
type shares struct {
	mu   sync.Mutex
	now  model.Share
	each []func(model.Share)
}

// onShare calls f with the present share of this node, and with each later one.
func (p *platform) onShare(f func(model.Share)) {
	p.shares.mu.Lock()
	defer p.shares.mu.Unlock()
	p.shares.each = append(p.shares.each, f)
	f(p.shares.now)
}

func (s *shares) set(share model.Share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if share == s.now {
		return
	}
	s.now = share
	for _, f := range s.each {
		f(share)
	}
}

const (
	// joinAfter is how long a node beside others uses none of their limits: until
	// they have seen it, and use less.
	joinAfter = 2 * worksql.HeartbeatEvery
	// leaveAfter is how long a node uses its share without a heartbeat. It is shorter
	// than the time after which others take the share.
	leaveAfter = worksql.DeadAfter - 2*worksql.HeartbeatEvery
)

// updateShare computes this node's share from the nodes that run.
func (n *node) updateShare(ctx context.Context) {
	if time.Since(n.seen) > leaveAfter {
		n.shares.set(model.NoShare)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, worksql.HeartbeatEvery)
	defer cancel()
	index, of, err := n.nodes.Rank(ctx, n.Node)
	switch {
	case err != nil:
	case of > 1 && time.Since(n.opened) < joinAfter:
		n.shares.set(model.NoShare)
	default:
		n.shares.set(model.Share{Index: index, Of: of})
	}
}

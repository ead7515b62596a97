package work

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agentd/internal/base/lasting"
)

// probeEvery is how often a database that is away is asked whether it is back.
const probeEvery = time.Second

// Gate keeps the runners of a node from asking a database that is away, each for
// its own kind: they wait while one probe asks. Leases stay what they are
// meanwhile; handlers go on, and the leases are renewed before anything is claimed
// again. It logs the outage, once for all kinds. A Gate is safe for concurrent use.
type Gate struct {
	probe  func(context.Context) error
	onOpen func()
	state  *lasting.State

	failed chan struct{} // capacity 1: the database did not answer
	mu     sync.Mutex
	back   chan struct{} // closed when the database is back; nil: it answers
}

// NewGate returns an open gate. probe asks the database, and onOpen, which may be
// nil, is called when it is back, before the runners go on.
func NewGate(log *slog.Logger, probe func(context.Context) error, onOpen func()) *Gate {
	return &Gate{probe: probe, onOpen: onOpen, state: lasting.New(log, "the database is away"), failed: make(chan struct{}, 1)}
}

// Close records that the database did not answer. It is open again when the probe
// of Serve is answered.
func (g *Gate) Close(err error) {
	g.mu.Lock()
	if g.back == nil {
		g.back = make(chan struct{})
	}
	g.mu.Unlock()
	g.state.Notice("err", err)
	select {
	case g.failed <- struct{}{}:
	default:
	}
}

// opened is a channel that is closed.
var opened = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// whenOpen returns a channel that is closed when the database answers. A nil Gate
// is open.
func (g *Gate) whenOpen() <-chan struct{} {
	if g == nil {
		return opened
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.back == nil {
		return opened
	}
	return g.back
}

// Serve asks a database that is away until ctx ends.
func (g *Gate) Serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.failed:
		}
		for err := g.probe(ctx); err != nil; err = g.probe(ctx) {
			g.state.Notice("err", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(probeEvery):
			}
		}
		if g.onOpen != nil {
			g.onOpen()
		}
		g.mu.Lock()
		if g.back != nil {
			close(g.back)
			g.back = nil
		}
		g.mu.Unlock()
		g.state.End()
	}
}

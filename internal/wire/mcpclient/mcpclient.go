// Package mcpclient calls MCP servers over streamable HTTP, and over the standard
// streams of processes that the operator allows. It implements the ports of package
// mcp on the official SDK.
//
// Servers are untrusted: their time, the size of their messages and the number of
// their tools are bounded, and whatever they do ends in a result or an error with a
// sentence for people.
package mcpclient

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/breaker"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/tool"
	"agentd/internal/wire/sandbox"
)

// Config of a manager. Zero values mean the defaults in brackets.
type Config struct {
	Transport http.RoundTripper // guarded, because tenants choose the targets; see IdleTimeout
	Logger    *slog.Logger
	Version   string // of this program, sent to servers

	Sandbox  *sandbox.Sandbox           // runs Commands; nil where there are none
	Commands map[string]sandbox.Command // by the name that targets have

	ConnectTimeout time.Duration // until a server has answered the handshake [10 s]
	CallTimeout    time.Duration // of a call, unless the caller's context is shorter [2 min]
	ReachTimeout   time.Duration // for how long a call tries to reach its server before anything is sent [30 s]
	StreamTimeout  time.Duration // until a server has begun its stream of notifications [5 s]
	FreshFor       time.Duration // how long a list of tools is cached [60 s]
	IdleFor        time.Duration // how long an unused connection is kept [5 min]
	MaxMessage     int64         // bytes of one message [8 MiB]
	MaxConnections int           // open connections [1024]
	MaxProcesses   int           // running processes [32]
	// Bounds takes the place of IdleFor, MaxProcesses and PerTenant, if
	// not nil, and may change.
	Bounds    func() Bounds
	PerTenant int // processes of one tenant [8]
}

// Manager shares connections to servers. Safe for concurrent use.
type Manager struct {
	Config
	versions atomic.Uint64
	closing  sync.WaitGroup

	mu        sync.Mutex
	conns     map[key]*conn
	processes map[string]int // by tenant
	stopped   bool
}

var _ mcp.Remote = (*Manager)(nil)

// key identifies a connection; changed settings make another one.
type key struct{ tenant, server, print string }

// Bounds of connections.
type Bounds struct {
	IdleFor                 time.Duration
	MaxProcesses, PerTenant int
}

func (m *Manager) bounds() Bounds {
	if m.Bounds != nil {
		return m.Bounds()
	}
	return Bounds{IdleFor: m.IdleFor, MaxProcesses: m.MaxProcesses, PerTenant: m.PerTenant}
}

// New returns a manager. Idle connections are closed while Serve runs.
func New(c Config) *Manager {
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 10*time.Second)
	c.CallTimeout = cmp.Or(c.CallTimeout, 2*time.Minute)
	c.ReachTimeout = cmp.Or(c.ReachTimeout, 30*time.Second)
	c.StreamTimeout = cmp.Or(c.StreamTimeout, 5*time.Second)
	c.FreshFor = cmp.Or(c.FreshFor, time.Minute)
	c.IdleFor = cmp.Or(c.IdleFor, 5*time.Minute)
	c.MaxMessage = cmp.Or(c.MaxMessage, 8<<20)
	c.MaxConnections = cmp.Or(c.MaxConnections, 1024)
	c.MaxProcesses = cmp.Or(c.MaxProcesses, 32)
	c.PerTenant = cmp.Or(c.PerTenant, 8)
	return &Manager{Config: c, conns: map[key]*conn{}, processes: map[string]int{}}
}

// Serve closes idle connections until ctx ends; then it closes all connections, ends
// all processes and waits for that.
func (m *Manager) Serve(ctx context.Context) {
	tick := time.NewTicker(min(max(m.IdleFor/10, time.Millisecond), time.Second))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			m.closeIdle(now)
		case <-ctx.Done():
			m.stop()
			return
		}
	}
}

func (m *Manager) closeIdle(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	idle := m.bounds().IdleFor
	for k, c := range m.conns {
		if c.busy == 0 && now.Sub(c.used) > idle {
			delete(m.conns, k)
			m.retire(c)
		}
	}
}

func (m *Manager) stop() {
	m.mu.Lock()
	m.stopped = true
	for k, c := range m.conns {
		delete(m.conns, k)
		m.retire(c)
	}
	m.mu.Unlock()
	m.closing.Wait()
}

// spawn runs f on a goroutine that stop waits for; false if stop was called.
func (m *Manager) spawn(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return false
	}
	m.closing.Go(f)
	return true
}

// retire closes a connection that was removed from conns. m.mu is held.
func (m *Manager) retire(c *conn) {
	m.closing.Go(c.close)
}

// Forget implements mcp.Remote.
func (m *Manager) Forget(tenant, server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, c := range m.conns {
		if k.tenant == tenant && k.server == server {
			delete(m.conns, k)
			m.retire(c)
		}
	}
}

var errStopped = fault.New(fault.Unavailable, "", "agentd is stopping.")

// acquire returns the connection of a target, which must be released.
func (m *Manager) acquire(t *mcp.Target) (*conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return nil, errStopped
	}
	k := key{t.TenantID, t.ServerID, t.Fingerprint}
	c := m.conns[k]
	if c == nil {
		if len(m.conns) >= m.MaxConnections && !m.evict(func(*conn) bool { return true }) {
			return nil, fault.New(fault.Unavailable, "", "Too many MCP servers are in use at the moment.")
		}
		c = newConn(m, t)
		m.conns[k] = c
	}
	c.busy++
	return c, nil
}

func (m *Manager) release(c *conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.busy--
	c.used = time.Now()
}

// evict closes the connection that was unused for longest among those that may be
// closed. m.mu is held.
func (m *Manager) evict(may func(*conn) bool) bool {
	var oldest *conn
	var at key
	for k, c := range m.conns {
		if c.busy == 0 && may(c) && (oldest == nil || c.used.Before(oldest.used)) {
			oldest, at = c, k
		}
	}
	if oldest == nil {
		return false
	}
	delete(m.conns, at)
	m.retire(oldest)
	return true
}

// List implements mcp.Remote.
func (m *Manager) List(ctx context.Context, t *mcp.Target) (*mcp.Listing, error) {
	c, err := m.acquire(t)
	if err != nil {
		return nil, err
	}
	defer m.release(c)
	return c.list(ctx)
}

// Probe implements mcp.Remote. It uses a separate connection, so that those in use are
// not disturbed; if it works their breaker is reset.
func (m *Manager) Probe(ctx context.Context, t *mcp.Target) (*mcp.Listing, error) {
	c := newConn(m, t)
	defer func() {
		if !m.spawn(c.close) {
			c.close()
		}
	}()
	l, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if shared := m.conns[key{t.TenantID, t.ServerID, t.Fingerprint}]; shared != nil {
		shared.breaker.Report(time.Now(), true, breaker.Alive)
		shared.stale.Store(true)
	}
	return l, nil
}

// Call implements mcp.Remote.
func (m *Manager) Call(ctx context.Context, t *mcp.Target, name string, arguments jsontext.Value, key mcp.CallKey) (tool.Result, error) {
	c, err := m.acquire(t)
	if err != nil {
		return tool.Result{}, err
	}
	defer m.release(c)
	return c.callTool(ctx, name, arguments, key)
}

// Read implements mcp.Remote.
func (m *Manager) Read(ctx context.Context, t *mcp.Target, uri string) (tool.Result, error) {
	c, err := m.acquire(t)
	if err != nil {
		return tool.Result{}, err
	}
	defer m.release(c)
	return c.readResource(ctx, uri)
}

// startProcess counts a process against the limits.
func (m *Manager) startProcess(tenant string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	bounds := m.bounds()
	if m.processes[tenant] >= bounds.PerTenant {
		m.evict(func(c *conn) bool { return c.target.TenantID == tenant && c.running() })
		return fault.New(fault.Unavailable, "", "This company already runs %d MCP servers as processes; try again shortly.", bounds.PerTenant)
	}
	total := 0
	for _, n := range m.processes {
		total += n
	}
	if total >= bounds.MaxProcesses {
		m.evict((*conn).running)
		return fault.New(fault.Unavailable, "", "Too many MCP servers run as processes at the moment; try again shortly.")
	}
	m.processes[tenant]++
	return nil
}

func (m *Manager) processEnded(tenant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.processes[tenant]--; m.processes[tenant] == 0 {
		delete(m.processes, tenant)
	}
}

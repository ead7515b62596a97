// Package mcp is what agents reach over the Model Context Protocol: servers
// that a tenant registers, their credentials and authorizations, and the tools
// that agents get from them (behaviours section 21; the mcp field of agents).
// The protocol itself is an adapter's, package mcpclient.
package mcp

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
)

// Target is a server as it is reached: everything that a connection is made
// of, secrets included. Targets with the same Print share a connection.
type Target struct {
	TenantID    string
	ServerID    string
	Name        string // for people
	Fingerprint string // of everything below

	Transport string // STDIO or HTTP
	URL       string
	Command   string
	Args      []string
	Env       map[string]string

	// Header carries HeaderValue with every request; "" for none.
	Header      string
	HeaderValue secret.String
	Tokens      Tokens // nil: the server is not authorized by people
}

// Tokens gives access tokens for one server.
type Tokens interface {
	// Token gives the token to call with, "" where there is none. rejected is
	// one that the server refused just now: another is given, or
	// ErrUnauthorized.
	Token(ctx context.Context, rejected string) (string, error)
}

// Remote is the port to servers. It shares connections, and bounds how long a
// server may take and how much it may say. Errors: ErrUnauthorized where the
// server wants another credential; else a *fault.Error whose Detail says what
// is wrong with the server.
type Remote interface {
	// List gives what a server offers, as it was at most a minute ago.
	List(ctx context.Context, t *Target) (*Listing, error)
	// Probe connects anew and asks.
	Probe(ctx context.Context, t *Target) (*Listing, error)
	// Call calls a tool by the server's own name for it.
	Call(ctx context.Context, t *Target, name string, arguments jsontext.Value) (tool.Result, error)
	// Read reads a resource.
	Read(ctx context.Context, t *Target, uri string) (tool.Result, error)
	// Forget ends the connections to a server.
	Forget(tenant, server string)
}

// Listing is what a server offers. It does not change.
type Listing struct {
	Version      uint64 // differs from that of every other Listing of the process
	Tools        []RemoteTool
	Capabilities []string // tools, resources, prompts and the like, sorted
}

// RemoteTool is a tool as its server describes it.
type RemoteTool struct {
	Name        string
	Description string
	Schema      jsontext.Value // of the arguments
	ReadOnly    bool
	Idempotent  bool
}

// Agents is the port to the agents that servers are assigned to.
type Agents interface {
	// Check fails with fault.NotFound where there is no such agent.
	Check(ctx context.Context, tenant, id string) error
}

// Waiting is the port to the runs that wait until a server is authorized.
type Waiting interface {
	// Authorized sets them going again.
	Authorized(ctx context.Context, tenant, serverID string) error
}

// Config is what the service is made of.
type Config struct {
	Kernel   resource.Deps
	Remote   Remote
	OAuth    OAuth
	Grants   Grants
	Registry *tool.Registry
	Clock    clock.Clock
	Logger   *slog.Logger

	CheckURL func(url string) error // says why a URL cannot be called; without looking it up
	Commands []string               // absolute paths of what stdio servers may run
	Base     func() string          // where clients reach this deployment, without a slash at the end
}

// Service keeps servers and gives agents their tools.
type Service struct {
	Config
	agents  Agents
	waiting Waiting // nil: nothing waits

	store   *resource.Store[Server]
	servers *serverCache
	sets    *toolsetCache
}

// New makes the service. Connect completes it.
func New(c Config) *Service {
	s := &Service{Config: c, servers: newServerCache(), sets: newToolsetCache()}
	s.store = resource.NewStore(s.kind(), c.Kernel)
	return s
}

// Connect sets the agents and the runs that wait for an authorization, which are
// built after the service because they need it. It is called once, before the
// first request; waiting may be nil where no runs wait.
func (s *Service) Connect(agents Agents, waiting Waiting) { s.agents, s.waiting = agents, waiting }

// connectTimeout bounds a connection that somebody waits for, and the listing
// of what the server offers.
const connectTimeout = 10 * time.Second

func (s *Service) write(ctx context.Context, do func(txn.Tx) error) error {
	return s.Kernel.Writer.Write(ctx, do)
}

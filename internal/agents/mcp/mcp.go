// Package mcp gives agents tools over the Model Context Protocol: the servers
// that a tenant registers or an agent's mcp field configures, their credentials
// and authorizations, and the tools that agents get from them. The protocol
// itself is implemented by the adapter mcpclient.
package mcp

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
)

// Target is a server as it is reached: everything that a connection depends on,
// secrets included. Targets of a server with the same Fingerprint share a
// connection.
type Target struct {
	TenantID    string
	ServerID    string
	Name        string // for people
	Fingerprint string // of everything below; a test wants each field in it

	Transport string // STDIO or HTTP
	URL       string
	Command   string
	Args      []string
	Env       map[string]string

	// Header carries HeaderValue with every request; "" for none.
	Header      string
	HeaderValue secret.String
	Tokens      Tokens // nil: the server is not authorized by people
	HonoursKeys bool   // a call that is made again with the same key has the effect of one
}

// Tokens provides access tokens for one server.
type Tokens interface {
	// Token returns the token to call with, "" if none is stored. rejected is a
	// token that the server has just refused: Token returns another one, or
	// ErrUnauthorized.
	Token(ctx context.Context, rejected string) (string, error)
}

// Remote is the port to servers. It shares connections, and bounds how long a
// server may take and how much it may send. Errors: ErrUnauthorized if the
// server demands another credential; otherwise a *fault.Error whose Detail names
// what is wrong with the server.
type Remote interface {
	// List returns what a server offers, at most a minute old.
	List(ctx context.Context, t *Target) (*Listing, error)
	// Probe lists over a new connection.
	Probe(ctx context.Context, t *Target) (*Listing, error)
	// Call calls a tool by the server's own name for it. key identifies the call to
	// the server, so that it can recognize one that is made again.
	Call(ctx context.Context, t *Target, name string, arguments jsontext.Value, key CallKey) (tool.Result, error)
	// Read reads a resource.
	Read(ctx context.Context, t *Target, uri string) (tool.Result, error)
	// Forget closes the connections to a server.
	Forget(tenant, server string)
}

// CallKey identifies a call. It is the same when the call is made again after a
// crash.
type CallKey struct {
	StepID string
	RunID  string
}

// Listing is what a server offers. It is immutable.
type Listing struct {
	Version      uint64 // unique among the Listings of the process
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
	// Check returns fault.NotFound if the agent does not exist.
	Check(ctx context.Context, tenant, id string) error
}

// Waiting is the port to the runs that wait until a server is authorized.
type Waiting interface {
	// Authorized resumes them.
	Authorized(ctx context.Context, tenant, serverID string) error
}

// Config holds what the service depends on.
type Config struct {
	Kernel   resource.Deps
	Remote   Remote
	OAuth    OAuth
	Grants   Grants
	Registry *tool.Registry
	Clock    clock.Clock
	Logger   *slog.Logger

	CheckURL func(url string) error // returns why a URL cannot be called; without DNS
	Commands map[string]Command     // what stdio servers may run, by the name that tenants write
	Base     func() string          // the public URL of this deployment, without a trailing slash
	// Names returns the names of a tenant and of a member, each "" if there is none.
	Names func(ctx context.Context, tenant, user string) (company, person string)
}

// Command is a program that the operator allows tenants to run as a server.
type Command interface {
	// AllowsArg reports whether tenants may pass an argument.
	AllowsArg(arg string) bool
	// AllowsVariable reports whether tenants may set an environment variable.
	AllowsVariable(name string) bool
}

// Service serves MCP in parts: Servers keeps what tenants register, Toolsets gives
// agents the tools of their servers, Authorizer lets people authorize servers.
type Service struct {
	*Servers
	*Toolsets
	*Authorizer
}

// New returns a service, which Connect completes.
func New(c Config) *Service {
	v := &validator{commands: c.Commands, checkURL: c.CheckURL}
	creds := &credentials{writer: c.Kernel.Writer, grants: c.Grants, oauth: c.OAuth, box: c.Kernel.Box, clock: c.Clock}
	links := &links{box: c.Kernel.Box, clock: c.Clock, base: c.Base}
	targets := &targets{validator: v, credentials: creds}
	servers := newServers(c, v, targets, links)
	return &Service{
		Servers: servers,
		Toolsets: &Toolsets{
			remote: c.Remote, registry: c.Registry, logger: c.Logger, servers: servers.cache, cache: newToolsetCache(),
			validator: v, targets: targets, credentials: creds, links: links,
		},
		Authorizer: &Authorizer{
			servers: servers, credentials: creds, links: links, oauth: c.OAuth, remote: c.Remote, clock: c.Clock, logger: c.Logger, base: c.Base,
			names: c.Names,
		},
	}
}

// Connect sets the ports to the agents and to the runs that wait for an
// authorization, which are built after the service because they need it. It is
// called once, before the first request; w may be nil where no runs wait.
func (s *Service) Connect(agents Agents, w Waiting) { s.Servers.agents, s.waiting = agents, w }

// connectTimeout bounds a connection that a request waits for, and the listing
// of what the server offers.
const connectTimeout = 10 * time.Second

// Package integration connects agents with other services: a tenant stores an
// integration (a connector, its settings and its credential) and links it to agents,
// which get the connector's operations as tools. Connectors are data: most are a list
// of HTTP operations in the folder connectors, one makes its operations from any
// OpenAPI document. The calls themselves are made by adapters.
package integration

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
)

// Request is an HTTP call of a connector.
type Request struct {
	Method string
	URL    string
	Header map[string]string // may hold a credential
	Body   []byte
}

// Response is the answer to a Request. Body is cut after maxAnswer bytes.
type Response struct {
	Status int
	Type   string // media type
	Link   string // the header, as it came
	Body   []byte
	Cut    bool // the body was longer
}

// HTTP is the port to services with an HTTP API. Errors: a *fault.Error whose Detail
// says why there is no answer.
type HTTP interface {
	Do(ctx context.Context, r *Request, maxBody int64) (*Response, error)
}

// Database is a PostgreSQL database as it is reached.
type Database struct {
	Host     string
	Port     int
	Name     string
	User     string
	Password secret.String
	TLS      string // tlsOff, tlsOn or tlsVerify
}

// Rows are the first rows of a query's result.
type Rows struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	More    bool     `json:"more"` // there were more rows than are shown
}

// Databases is the port to databases. A query can only read. Errors: a *fault.Error
// whose Detail says what is wrong with the database or the query.
type Databases interface {
	Query(ctx context.Context, d *Database, sql string, args []any, maxRows int) (*Rows, error)
}

// MailServer is an SMTP server as it is reached.
type MailServer struct {
	Host     string
	Port     int
	TLS      string // tlsOff, tlsStart or tlsOn
	User     string
	Password secret.String
	From     string
}

// Letter is an email to one recipient, in plain text.
type Letter struct {
	ID      string // the same when it is sent again
	To      string
	Subject string
	Text    string
}

// Mailer is the port to mail servers. Errors: a *fault.Error whose Detail says what
// the server objects to.
type Mailer interface {
	Send(ctx context.Context, s *MailServer, l *Letter) error
	// Check connects and signs in, and sends nothing.
	Check(ctx context.Context, s *MailServer) error
}

// Documents is the port to stored OpenAPI documents.
type Documents interface {
	// Get returns the document of an integration, nil if it has none.
	Get(ctx context.Context, tenant, id string) ([]byte, error)
	PutTx(tx txn.Tx, tenant, id string, document []byte) error
	DeleteTx(tx txn.Tx, tenant, id string) error
}

// Agents is the port to the agents that integrations are linked to.
type Agents interface {
	// Check returns fault.NotFound if the agent does not exist.
	Check(ctx context.Context, tenant, id string) error
}

// Client is the operator's OAuth client at a provider.
type Client struct {
	ID           string
	Secret       string
	AuthorizeURL string // "": that of the provider
	TokenURL     string // "": that of the provider
}

// Operator is the port to what the operator sets.
type Operator interface {
	// Client returns the operator's OAuth client at a provider.
	Client(provider string) (Client, bool)
	// Disabled reports whether the operator switched a connector off.
	Disabled(connector string) bool
}

// Deps holds what the service depends on.
type Deps struct {
	Kernel    resource.Deps
	HTTP      HTTP
	Databases Databases
	Mailer    Mailer
	Documents Documents
	OAuth     mcp.OAuth
	Grants    mcp.Grants
	Operator  Operator
	Registry  *tool.Registry
	Clock     clock.Clock
	Logger    *slog.Logger
	Audit     audit.Recorder

	CheckURL func(url string) error // returns why a URL cannot be called; without DNS
	Base     func() string          // the public URL of this deployment, without a trailing slash
	// OnChange notifies the other nodes of a change of a tenant's integrations: they
	// call Forget.
	OnChange func(tenant string)
}

// core is what the parts of the service share.
type core struct {
	Deps

	store     *resource.Store[Integration]
	recent    *resource.RecentList[Integration]
	vault     *mcp.Vault
	catalogue *catalogue
	agents    Agents
}

// Integrations keeps the integrations that tenants create.
type Integrations struct{ *core }

// Toolsets provides agents with the tools of their integrations.
type Toolsets struct {
	*core
	compiled *compiledCache
}

// Authorizer lets people authorize integrations at their providers: authorization code
// with PKCE. Only the person who began an authorization completes it, with a credential
// of their own: a person who opens the link of another cannot complete that authorization.
type Authorizer struct{ *core }

// Service serves integrations in parts.
type Service struct {
	*Integrations
	*Toolsets
	*Authorizer

	core *core
}

// unnoticed is how long a node may use what it knows of a tenant's integrations when a
// notification of another node was lost.
const unnoticed = 10 * time.Second

// New returns a service, which Connect completes.
func New(d Deps) *Service {
	c := &core{Deps: d, catalogue: builtIn}
	c.vault = mcp.NewVault(d.Kernel.Writer, d.Grants, d.OAuth, d.Kernel.Box, d.Clock)
	c.store = resource.NewStore(c.kind(), d.Kernel)
	c.recent = resource.NewRecentList(c.store, maxIntegrations, unnoticed, func(v *Integration) bool { return v.Enabled })
	return &Service{&Integrations{c}, &Toolsets{c, newCompiledCache()}, &Authorizer{c}, c}
}

// Connect sets the port to the agents. It is called once, before the first request.
func (s *Service) Connect(agents Agents) { s.core.agents = agents }

// Forget is called when another node changed a tenant's integrations.
func (s *Service) Forget(tenant string) { s.core.recent.Forget(tenant) }

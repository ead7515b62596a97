package mcp

import (
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/resource"
)

// The transports. StreamableHTTP is another name of HTTP.
const (
	STDIO          = "stdio"
	HTTP           = "http"
	StreamableHTTP = "streamable_http"
)

// The statuses of a server.
const (
	StatusActive       = "active"        // the last connection worked, or none was tried
	StatusError        = "error"         // the last connection failed
	StatusAuthRequired = "auth_required" // the last connection failed until a person authorizes the server
	StatusDisabled     = "disabled"      // by the tenant
)

// The kinds of authorization.
const (
	authNone   = "none" // no credential, until the server demands OAuth
	authAPIKey = "api_key"
	authBearer = "bearer"
	authOAuth  = "oauth"
)

// Server is a registered server as it is stored. Clients receive a view. The tag
// reconnects reports whether a change of a field affects how the server is reached:
// then agentd connects to it before the change is stored. Such a field belongs
// to the fingerprint of a Target, and to movesSecret if it decides where a
// secret is sent.
type Server struct {
	resource.Meta `json:"-" reconnects:"false"`

	Name         string     `json:"name" reconnects:"false"`
	Transport    string     `json:"transport" reconnects:"true"`
	URL          string     `json:"url,omitzero" reconnects:"true"`
	Command      string     `json:"command,omitzero" reconnects:"true"`
	Args         []string   `json:"args,omitempty" reconnects:"true"`
	Env          string     `json:"env,omitzero" secret:"true" reconnects:"true"` // a JSON object
	EnvCount     int        `json:"env_count" reconnects:"false"`
	Auth         Auth       `json:"auth" reconnects:"true"`
	Secret       string     `json:"secret,omitzero" secret:"true" reconnects:"true"`
	ClientSecret string     `json:"client_secret,omitzero" secret:"true" reconnects:"true"`
	APIKeyRef    string     `json:"api_key_ref,omitzero" reconnects:"true"`
	Assigned     []string   `json:"assigned_agent_ids" reconnects:"false"`
	Egress       []Egress   `json:"egress_allowlist,omitempty" reconnects:"false"`
	Enabled      bool       `json:"enabled" reconnects:"false"`
	HonoursKeys  bool       `json:"honours_idempotency_keys,omitzero" reconnects:"false"`
	Capabilities []string   `json:"capabilities" reconnects:"false"`
	Failure      string     `json:"failure,omitzero" reconnects:"false"`    // of the last connection
	NeedsAuth    bool       `json:"needs_auth,omitzero" reconnects:"false"` // Failure is that a person must authorize it
	LastSynced   *time.Time `json:"last_synced,omitzero" reconnects:"false"`
}

// Auth is how a server is authorized, without the secret.
type Auth struct {
	Type     string `json:"type"`
	Header   string `json:"header,omitzero"`
	Prefix   string `json:"prefix,omitzero"`
	EnvKey   string `json:"env_key,omitzero"`
	ClientID string `json:"client_id,omitzero"`
}

// Egress allows one destination of a server.
type Egress struct {
	_ struct{} `json:"-" name:"McpEgressRule"`

	HostPattern string `json:"host_pattern" required:"true" minLength:"1" maxLength:"253" doc:"A host, or *. and a domain, which matches every host below it."`
	Ports       []int  `json:"ports,omitempty" doc:"Default: 443."`
	Protocol    string `json:"protocol,omitzero" enum:"https,http" doc:"Default: https."`
}

func (s *Server) env() map[string]string {
	if s.Env == "" {
		return nil
	}
	var env map[string]string
	if json.Unmarshal([]byte(s.Env), &env) != nil {
		return nil // agentd wrote it; an unreadable value counts as absent
	}
	return env
}

func (s *Server) setEnv(env map[string]string) error {
	s.Env, s.EnvCount = "", len(env)
	if len(env) == 0 {
		return nil
	}
	text, err := json.Marshal(env, json.Deterministic(true))
	s.Env = string(text)
	return err
}

func (s *Server) status() string {
	switch {
	case !s.Enabled:
		return StatusDisabled
	case s.NeedsAuth:
		return StatusAuthRequired
	case s.Failure != "":
		return StatusError
	}
	return StatusActive
}

// view is a server as clients receive it, without secrets.
type view struct {
	_ struct{} `json:"-" name:"McpServer"`

	ID           string     `json:"id" required:"true" format:"uuid"`
	TenantID     string     `json:"tenant_id" required:"true"`
	Name         string     `json:"name" required:"true"`
	Transport    string     `json:"transport" required:"true" enum:"stdio,http,streamable_http"`
	URL          string     `json:"url,omitzero"`
	Command      string     `json:"command,omitzero"`
	Args         []string   `json:"args,omitempty"`
	APIKeyRef    string     `json:"api_key_ref,omitzero" doc:"The entry of env that holds the secret."`
	Auth         authView   `json:"auth" required:"true"`
	Assigned     []string   `json:"assigned_agent_ids" required:"true" doc:"The agents that get its tools."`
	EnvCount     int        `json:"env_count" required:"true" doc:"Number of variables in env; they are never shown."`
	Egress       []Egress   `json:"egress_allowlist,omitempty"`
	Enabled      bool       `json:"enabled" required:"true"`
	HonoursKeys  bool       `json:"honours_idempotency_keys" required:"true" doc:"A call that is made again with the same _meta agentd/idempotency_key has the effect of one."`
	Capabilities []string   `json:"capabilities" required:"true" doc:"What the server declared at the last connection."`
	Status       string     `json:"status" required:"true" enum:"active,error,auth_required,disabled" doc:"auth_required: a person must authorize the server."`
	LastSynced   *time.Time `json:"last_synced,omitzero" doc:"Time of the last successful connection."`
	ConnectError string     `json:"connect_error,omitzero" doc:"Why the last connection failed."`
	CreatedAt    time.Time  `json:"created_at" required:"true"`
	UpdatedAt    time.Time  `json:"updated_at" required:"true"`
}

// Editable implements route.Editable.
func (v view) Editable() any {
	v.Capabilities, v.Status, v.LastSynced, v.ConnectError, v.UpdatedAt = nil, "", nil, "", time.Time{}
	type settings view
	return settings(v)
}

type authView struct {
	_ struct{} `json:"-" name:"McpServerAuth"`

	Type      string `json:"type" required:"true" enum:"none,api_key,bearer,oauth"`
	Header    string `json:"header,omitzero"`
	Prefix    string `json:"prefix,omitzero"`
	EnvKey    string `json:"env_key,omitzero"`
	ClientID  string `json:"client_id,omitzero"`
	HasSecret bool   `json:"has_secret" required:"true" doc:"A secret is stored."`
}

func viewOf(s *Server) view {
	return view{
		ID: s.ID, TenantID: s.TenantID, Name: s.Name, Transport: s.Transport, URL: s.URL, Command: s.Command, Args: s.Args,
		APIKeyRef: s.APIKeyRef, Assigned: nonNil(s.Assigned), EnvCount: s.EnvCount, Egress: s.Egress, Enabled: s.Enabled,
		HonoursKeys: s.HonoursKeys,
		Auth: authView{
			Type: s.Auth.Type, Header: s.Auth.Header, Prefix: s.Auth.Prefix, EnvKey: s.Auth.EnvKey, ClientID: s.Auth.ClientID,
			HasSecret: s.Secret != "",
		},
		Capabilities: nonNil(s.Capabilities), Status: s.status(), LastSynced: s.LastSynced, ConnectError: s.Failure,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// maxServers is how many servers a tenant may have; a list returns them all.
const maxServers = 200

// kind configures the kernel's store of servers. The kind's routes are not
// mounted, because no client may see what is stored. What clients send is
// validated earlier, so that a server whose command the operator no longer allows
// can still be unassigned.
func (s *Servers) kind() resource.Kind[Server] {
	return resource.Kind[Server]{
		Name: "mcp_server", Noun: "McpServer", Path: "/api/v1/mcp/servers", IDField: "id", Param: "serverId", Tag: "MCP",
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Default: func(v *Server) {
			v.Enabled, v.Auth.Type, v.Assigned, v.Capabilities = true, authNone, []string{}, []string{}
		},
		Label:  func(v *Server) string { return v.Name },
		Before: s.before,
		After:  s.after,
	}
}

func (s *Servers) before(e *resource.Edit[Server]) error {
	if e.Old != nil {
		return nil
	}
	existing, err := s.store.ListTx(e.Tx, e.Who.TenantID, resource.Find{Limit: maxServers})
	if err == nil && len(existing) == maxServers {
		err = fault.New(fault.Invalid, "limit_reached", "A company can have at most %d MCP servers; delete one first.", maxServers)
	}
	return err
}

// after makes a change effective in this process at once, and deletes the grant of
// a server that was deleted or moved to another origin.
func (s *Servers) after(e *resource.Edit[Server]) error {
	v := e.Old
	if v == nil {
		v = e.New
	}
	tenant, server := v.TenantID, v.ID
	unreachable := e.New == nil || !e.New.Enabled
	if e.Old != nil && (e.New == nil || origin(e.Old.URL) != origin(e.New.URL)) {
		if err := s.grants.DeleteTx(e.Tx, tenant, server); err != nil {
			return err
		}
	}
	e.Tx.AfterCommit(func() {
		s.cache.forget(tenant)
		if unreachable {
			s.remote.Forget(tenant, server)
		}
	})
	return nil
}

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

// The states that a server shows.
const (
	StatusActive   = "active"   // the last connection worked, or none was tried
	StatusError    = "error"    // the last connection failed
	StatusDisabled = "disabled" // by its owner
)

// The kinds of authorization.
const (
	authNone   = "none" // nothing is sent, until the server asks for OAuth
	authAPIKey = "api_key"
	authBearer = "bearer"
	authOAuth  = "oauth"
)

// Server is a registered server as it is stored. Clients see a view.
type Server struct {
	resource.Meta `json:"-"`

	Name         string     `json:"name"`
	Transport    string     `json:"transport"`
	URL          string     `json:"url,omitzero"`
	Command      string     `json:"command,omitzero"`
	Args         []string   `json:"args,omitempty"`
	Env          string     `json:"env,omitzero" secret:"true"` // a JSON object
	EnvCount     int        `json:"env_count"`
	Auth         Auth       `json:"auth"`
	Secret       string     `json:"secret,omitzero" secret:"true"`
	ClientSecret string     `json:"client_secret,omitzero" secret:"true"`
	APIKeyRef    string     `json:"api_key_ref,omitzero"`
	Assigned     []string   `json:"assigned_agent_ids"`
	Egress       []Egress   `json:"egress_allowlist,omitempty"`
	Enabled      bool       `json:"enabled"`
	Capabilities []string   `json:"capabilities"`
	Failure      string     `json:"failure,omitzero"` // of the last connection
	LastSynced   *time.Time `json:"last_synced,omitzero"`
}

// Auth says how a server is authorized, without the secret.
type Auth struct {
	Type     string `json:"type"`
	Header   string `json:"header,omitzero"`
	Prefix   string `json:"prefix,omitzero"`
	EnvKey   string `json:"env_key,omitzero"`
	ClientID string `json:"client_id,omitzero"`
}

// Egress is a place that a server may be reached at.
type Egress struct {
	_ struct{} `json:"-" name:"McpEgressRule"`

	HostPattern string `json:"host_pattern" required:"true" minLength:"1" maxLength:"253" doc:"A host, or *. and a domain for every host below it."`
	Ports       []int  `json:"ports,omitempty" doc:"Left out: 443."`
	Protocol    string `json:"protocol,omitzero" enum:"https,http" doc:"Left out: https."`
}

func (s *Server) env() map[string]string {
	if s.Env == "" {
		return nil
	}
	var env map[string]string
	if json.Unmarshal([]byte(s.Env), &env) != nil {
		return nil // we wrote it; what cannot be read is as if it were not there
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
	case s.Failure != "":
		return StatusError
	}
	return StatusActive
}

// view is a server as clients see it. No secret is in it.
type view struct {
	_ struct{} `json:"-" name:"McpServer"`

	ID           string     `json:"id" required:"true" format:"uuid"`
	TenantID     string     `json:"tenant_id" required:"true"`
	Name         string     `json:"name" required:"true"`
	Transport    string     `json:"transport" required:"true" enum:"stdio,http,streamable_http"`
	URL          string     `json:"url,omitzero"`
	Command      string     `json:"command,omitzero"`
	Args         []string   `json:"args,omitempty"`
	APIKeyRef    string     `json:"api_key_ref,omitzero" doc:"Names the entry of env that is the secret."`
	Auth         authView   `json:"auth" required:"true"`
	Assigned     []string   `json:"assigned_agent_ids" required:"true" doc:"The agents that get its tools. Empty: none."`
	EnvCount     int        `json:"env_count" required:"true" doc:"How many variables env has; they are never shown."`
	Egress       []Egress   `json:"egress_allowlist,omitempty"`
	Enabled      bool       `json:"enabled" required:"true"`
	Capabilities []string   `json:"capabilities" required:"true" doc:"What the server said it has when it was last connected to."`
	Status       string     `json:"status" required:"true" enum:"active,error,disabled"`
	LastSynced   *time.Time `json:"last_synced,omitzero" doc:"When it was last connected to with success."`
	ConnectError string     `json:"connect_error,omitzero" doc:"Why the last connection failed."`
	CreatedAt    time.Time  `json:"created_at" required:"true"`
	UpdatedAt    time.Time  `json:"updated_at" required:"true"`
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

func show(s *Server) view {
	return view{
		ID: s.ID, TenantID: s.TenantID, Name: s.Name, Transport: s.Transport, URL: s.URL, Command: s.Command, Args: s.Args,
		APIKeyRef: s.APIKeyRef, Assigned: nonNil(s.Assigned), EnvCount: s.EnvCount, Egress: s.Egress, Enabled: s.Enabled,
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

// maxServers is how many servers a tenant may have; a list has them all.
const maxServers = 200

// kind is how the kernel keeps servers. Its routes are not mounted, as no
// client may see what is stored; what clients send is validated before it comes
// here, so that what the operator allows no more can still be unassigned.
func (s *Service) kind() resource.Kind[Server] {
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

func (s *Service) before(e *resource.Edit[Server]) error {
	if e.Old != nil {
		return nil
	}
	there, err := s.store.ListTx(e.Tx, e.Who.TenantID, resource.Find{Limit: maxServers})
	if err == nil && len(there) == maxServers {
		err = fault.New(fault.Invalid, "limit_reached", "A company may have %d MCP servers; delete one first.", maxServers)
	}
	return err
}

// after has this process see a change at once, and ends what was authorized
// for a place that the server is not at any more.
func (s *Service) after(e *resource.Edit[Server]) error {
	id := e.Old
	if id == nil {
		id = e.New
	}
	tenant, server := id.TenantID, id.ID
	gone := e.New == nil || !e.New.Enabled
	if e.Old != nil && (e.New == nil || origin(e.Old.URL) != origin(e.New.URL)) {
		if err := s.Grants.DeleteTx(e.Tx, tenant, server); err != nil {
			return err
		}
	}
	e.Tx.AfterCommit(func() {
		s.servers.forget(tenant)
		if gone {
			s.Remote.Forget(tenant, server)
		}
	})
	return nil
}

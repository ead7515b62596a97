package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/egress"
)

// Field is the mcp field of an agent: its inline servers, and what it may use of
// all its servers. Unknown members are kept, and have no effect.
type Field struct {
	_ struct{} `json:"-" name:"AgentMcp"`

	Servers   []InlineServer `json:"servers,omitzero" nullable:"true" doc:"Servers of this agent alone, up to 20. Servers of the company are registered with POST /api/v1/mcp-servers."`
	Tools     []string       `json:"allowed_tools,omitzero" nullable:"true" doc:"The tools that it may use, of all its servers. Empty: all."`
	Resources []string       `json:"allowed_resources,omitzero" nullable:"true" doc:"The resources that it may read, of all its servers. Empty: none."`
}

// InlineServer is a server in an agent's configuration. Its env can be read like the
// rest of the configuration; a server with a secret should be registered instead.
type InlineServer struct {
	_ struct{} `json:"-" name:"AgentMcpServer"`

	ID        string            `json:"id,omitzero" nullable:"true" doc:"Identifier of the server, unique within the agent."`
	Name      string            `json:"name,omitzero" nullable:"true" doc:"Default: its id."`
	Transport string            `json:"transport,omitzero" nullable:"true" doc:"http, streamable_http, or stdio for commands that the operator allows."`
	URL       string            `json:"url,omitzero" nullable:"true" doc:"Of the transports over HTTP."`
	Command   string            `json:"command,omitzero" nullable:"true" doc:"Of the transport stdio."`
	Args      []string          `json:"args,omitzero" nullable:"true" doc:"Arguments of the command."`
	Env       map[string]string `json:"env,omitzero" nullable:"true" doc:"Variables of the command. Whoever may read the agent reads them."`
	APIKeyRef string            `json:"api_key_ref,omitzero" nullable:"true" doc:"The entry of env that holds the secret."`
	Egress    []Egress          `json:"egress_allowlist,omitzero" nullable:"true" doc:"Destinations of an http server. Empty: any public address."`
	Enabled   *bool             `json:"enabled,omitzero" nullable:"true" doc:"Default: true."`

	HonoursKeys bool `json:"honours_idempotency_keys,omitzero" nullable:"true" doc:"Whether the server honours idempotency keys, so that its tools may be called again after a crash."`
}

// maxInline is how many inline servers an agent may have.
const maxInline = 20

func parseField(raw schema.Object) (Field, error) {
	var f Field
	if len(raw) <= len("{}") {
		return f, nil
	}
	return f, json.Unmarshal(raw, &f)
}

// CheckField returns the errors in the mcp field of an agent.
func (t *Toolsets) CheckField(raw schema.Object) []fault.Field {
	var c fieldErrors
	f, err := parseField(raw)
	if err != nil {
		c.add("mcp", "its servers, allowed_tools or allowed_resources cannot be read")
		return c
	}
	if len(f.Servers) > maxInline {
		c.add("mcp.servers", "at most %d servers; register more with POST %s", maxInline, collection)
		return c
	}
	for i := range f.Servers {
		at := fmt.Sprintf("mcp.servers[%d]", i)
		if id := f.Servers[i].ID; slices.ContainsFunc(f.Servers[:i], func(other InlineServer) bool { return id != "" && other.ID == id }) {
			c.add(at+".id", "another server in the list has the same id")
		}
		for _, e := range t.validator.checkInline(&f.Servers[i]) {
			c.add(at+"."+e.Field, "%s", e.Message)
		}
	}
	return c
}

// Addresses returns the URLs in the mcp field of an agent.
func (t *Toolsets) Addresses(raw schema.Object) (all []egress.Address) {
	f, err := parseField(raw)
	if err != nil {
		return nil
	}
	for i := range f.Servers {
		if at := f.Servers[i].URL; at != "" {
			all = append(all, egress.Address{Field: fmt.Sprintf("mcp.servers[%d].url", i), URL: at})
		}
	}
	return all
}

func (r *validator) checkInline(in *InlineServer) []fault.Field {
	v, err := in.server()
	if err != nil {
		return []fault.Field{{Field: "env", Message: "it cannot be read"}}
	}
	fields := r.validate(v)
	if !slices.Contains([]string{STDIO, HTTP, StreamableHTTP}, in.Transport) {
		fields = append(fields, fault.Field{Field: "transport", Message: "expected one of: stdio, http, streamable_http"})
	}
	return fields
}

// server returns an inline server in the form of a registered one.
func (in *InlineServer) server() (*Server, error) {
	v := &Server{
		Name: in.Name, Transport: in.Transport, URL: in.URL, Command: in.Command, Args: in.Args, APIKeyRef: in.APIKeyRef,
		Egress: in.Egress, Enabled: in.Enabled == nil || *in.Enabled, Auth: Auth{Type: authNone},
		HonoursKeys: in.HonoursKeys,
	}
	if strings.TrimSpace(v.Name) == "" {
		v.Name = in.ID
	}
	return v, v.setEnv(in.Env)
}

// ofInline returns the target of an inline server. It has no id by which a person
// could authorize it.
func (s *targets) ofInline(tenant, agent string, in *InlineServer) (*Target, error) {
	if fields := s.validator.checkInline(in); len(fields) > 0 {
		return nil, fault.BadFields(fields...)
	}
	v, err := in.server()
	if err != nil {
		return nil, err
	}
	v.TenantID = tenant
	t, err := s.of(v)
	if err != nil {
		return nil, err
	}
	t.ServerID = agent + "/" + in.ID
	return t, nil
}

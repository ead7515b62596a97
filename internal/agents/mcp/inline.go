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

// agentField is the mcp field of an agent: its inline servers, and what it may use
// of all its servers. Unknown members are ignored.
type agentField struct {
	Servers   []inlineServer `json:"servers"`
	Tools     []string       `json:"allowed_tools"`     // empty: all
	Resources []string       `json:"allowed_resources"` // empty: none
}

// inlineServer is a server in an agent's configuration. Its env can be read like the
// rest of the configuration; a server with a secret should be registered instead.
type inlineServer struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Transport string            `json:"transport"`
	URL       string            `json:"url"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	APIKeyRef string            `json:"api_key_ref"`
	Egress    []Egress          `json:"egress_allowlist"`
	Enabled   *bool             `json:"enabled"`

	HonoursKeys bool `json:"honours_idempotency_keys"`
}

// maxInline is how many inline servers an agent may have.
const maxInline = 20

func parseField(raw schema.Object) (agentField, error) {
	var f agentField
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
		if id := f.Servers[i].ID; slices.ContainsFunc(f.Servers[:i], func(other inlineServer) bool { return id != "" && other.ID == id }) {
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

func (r *validator) checkInline(in *inlineServer) []fault.Field {
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
func (in *inlineServer) server() (*Server, error) {
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
func (s *targets) ofInline(tenant, agent string, in *inlineServer) (*Target, error) {
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

package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
)

// agentField is the mcp field of an agent: servers of its own, and what it may use
// of all servers. Members that are not known are somebody else's.
type agentField struct {
	Servers   []inlineServer `json:"servers"`
	Tools     []string       `json:"allowed_tools"`     // empty: all
	Resources []string       `json:"allowed_resources"` // empty: none
}

// inlineServer is a server that is part of an agent's configuration. Its env is as
// readable as the rest of it; a server with a secret is better registered.
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
}

// maxInline is how many servers an agent may have of its own.
const maxInline = 20

func parseField(raw schema.Object) (agentField, error) {
	var f agentField
	if len(raw) <= len("{}") {
		return f, nil
	}
	return f, json.Unmarshal(raw, &f)
}

// CheckField says what is wrong with the mcp field of an agent.
func (s *Service) CheckField(raw schema.Object) []fault.Field {
	var c fieldErrors
	f, err := parseField(raw)
	if err != nil {
		c.add("mcp", "its servers, allowed_tools or allowed_resources cannot be read")
		return c
	}
	if len(f.Servers) > maxInline {
		c.add("mcp.servers", "at most %d servers; register more under %s", maxInline, collection)
		return c
	}
	for i := range f.Servers {
		at := fmt.Sprintf("mcp.servers[%d]", i)
		if id := f.Servers[i].ID; slices.ContainsFunc(f.Servers[:i], func(other inlineServer) bool { return id != "" && other.ID == id }) {
			c.add(at+".id", "another server of the list has it")
		}
		for _, wrong := range s.checkInline(&f.Servers[i]) {
			c.add(at+"."+wrong.Field, "%s", wrong.Message)
		}
	}
	return c
}

func (s *Service) checkInline(in *inlineServer) []fault.Field {
	v, err := in.server()
	if err != nil {
		return []fault.Field{{Field: "env", Message: "it cannot be read"}}
	}
	wrong := s.validate(v)
	if !slices.Contains([]string{STDIO, HTTP, StreamableHTTP}, in.Transport) {
		wrong = append(wrong, fault.Field{Field: "transport", Message: "expected one of: stdio, http, streamable_http"})
	}
	return wrong
}

// server gives an inline server in the form of a registered one.
func (in *inlineServer) server() (*Server, error) {
	v := &Server{
		Name: in.Name, Transport: in.Transport, URL: in.URL, Command: in.Command, Args: in.Args, APIKeyRef: in.APIKeyRef,
		Egress: in.Egress, Enabled: in.Enabled == nil || *in.Enabled, Auth: Auth{Type: authNone},
	}
	if strings.TrimSpace(v.Name) == "" {
		v.Name = in.ID
	}
	return v, v.setEnv(in.Env)
}

// inlineTarget gives an agent's own server as it is reached. It has no id that
// a person could authorize it by.
func (s *Service) inlineTarget(tenant, agent string, in *inlineServer) (*Target, error) {
	if wrong := s.checkInline(in); len(wrong) > 0 {
		return nil, fault.BadFields(wrong...)
	}
	v, err := in.server()
	if err != nil {
		return nil, err
	}
	v.TenantID = tenant
	t, err := s.target(v)
	if err != nil {
		return nil, err
	}
	t.ServerID = agent + "/" + in.ID
	return t, nil
}

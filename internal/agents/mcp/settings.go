package mcp

import (
	"slices"

	"agentd/internal/base/difftag"
)

// Settings are the members that a client may set and change. Absent ones keep their
// value.
type Settings struct {
	URL       *string            `json:"url,omitzero" format:"uri" doc:"Of an http server."`
	Command   *string            `json:"command,omitzero" doc:"Of a stdio server: absolute path of a command that the operator allows."`
	Args      *[]string          `json:"args,omitzero" doc:"Arguments of the command of a stdio server."`
	Env       *map[string]string `json:"env,omitzero" doc:"Environment of a stdio server. Stored encrypted, never shown; replaced as a whole, {} clears it."`
	Auth      *AuthSettings      `json:"auth,omitzero" doc:"How agentd authenticates to the server."`
	APIKeyRef *string            `json:"api_key_ref,omitzero" doc:"Name of the env variable (MCP_…) that holds the secret. An empty string clears it."`
	Assigned  *[]string          `json:"assigned_agent_ids,omitzero" doc:"The agents that get its tools."`
	Enabled   *bool              `json:"enabled,omitzero" doc:"Whether agents get the server's tools. Default: true."`

	HonoursKeys *bool     `json:"honours_idempotency_keys,omitzero" doc:"The server recognizes a call that is made again by its _meta agentd/idempotency_key: its calls are repeated after a crash."`
	Egress      *[]Egress `json:"egress_allowlist,omitzero" doc:"Destinations of an http server. Empty: any public address."`
}

// AuthSettings set how a server is authorized. Absent members keep their value;
// changing the type deletes the stored secret.
type AuthSettings struct {
	_ struct{} `json:"-" name:"McpServerAuthSettings"`

	Type         *string `json:"type,omitzero" enum:"none,api_key,bearer,oauth" doc:"none uses OAuth if the server demands it."`
	Header       *string `json:"header,omitzero" doc:"Header of an api_key. Default: Authorization."`
	Prefix       *string `json:"prefix,omitzero" doc:"Prefix of an api_key in the header, such as Token."`
	EnvKey       *string `json:"env_key,omitzero" doc:"Environment variable of a stdio server that carries an api_key."`
	Secret       *string `json:"secret,omitzero" maxLength:"16384" doc:"Key or token. Stored encrypted, never shown. An empty string clears it."`
	ClientID     *string `json:"client_id,omitzero" maxLength:"2048" doc:"OAuth client registered by hand. Absent: agentd registers itself."`
	ClientSecret *string `json:"client_secret,omitzero" maxLength:"16384" doc:"Stored encrypted, never shown."`
}

type createBody struct {
	_ struct{} `json:"-" name:"McpServerCreate"`

	Name      string `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the server, as people see it."`
	Transport string `json:"transport" required:"true" enum:"stdio,http,streamable_http" doc:"streamable_http is an alias of http."`
	Settings
}

type changeBody struct {
	_ struct{} `json:"-" name:"McpServerChange"`

	Name   *string `json:"name,omitzero" minLength:"1" maxLength:"200" doc:"Name of the server, as people see it."`
	Status *string `json:"status,omitzero" enum:"active,disabled" doc:"Sets enabled."`
	Settings
}

// set assigns a value that is present.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (in *changeBody) apply(s *Server) error {
	set(&s.Name, in.Name)
	if in.Status != nil {
		s.Enabled = *in.Status == StatusActive
	}
	return in.Settings.apply(s)
}

func (in *Settings) apply(s *Server) error {
	set(&s.URL, in.URL)
	set(&s.Command, in.Command)
	set(&s.Args, in.Args)
	set(&s.APIKeyRef, in.APIKeyRef)
	set(&s.Enabled, in.Enabled)
	set(&s.HonoursKeys, in.HonoursKeys)
	set(&s.Egress, in.Egress)
	if in.Assigned != nil {
		s.Assigned = distinct(*in.Assigned)
	}
	if in.Auth != nil {
		in.Auth.apply(s)
	}
	if in.Env != nil {
		return s.setEnv(*in.Env)
	}
	return nil
}

func (in *AuthSettings) apply(s *Server) {
	if in.Type != nil && *in.Type != s.Auth.Type {
		s.Auth, s.Secret, s.ClientSecret = Auth{Type: *in.Type}, "", ""
	}
	set(&s.Auth.Header, in.Header)
	set(&s.Auth.Prefix, in.Prefix)
	set(&s.Auth.EnvKey, in.EnvKey)
	set(&s.Auth.ClientID, in.ClientID)
	set(&s.Secret, in.Secret)
	set(&s.ClientSecret, in.ClientSecret)
}

func distinct(list []string) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// movesSecret reports whether a change would send a stored secret elsewhere: to
// another origin, command or arguments, without the secret in the request.
func (in *Settings) movesSecret(old, changed *Server) bool {
	if origin(old.URL) == origin(changed.URL) && old.Command == changed.Command && slices.Equal(old.Args, changed.Args) {
		return false
	}
	auth := in.Auth
	if auth == nil {
		auth = new(AuthSettings)
	}
	return changed.Secret != "" && auth.Secret == nil ||
		changed.ClientSecret != "" && auth.ClientSecret == nil ||
		changed.Env != "" && in.Env == nil
}

// reconnectTag is the tag of Server's fields.
const reconnectTag = "reconnects"

// reconnects reports whether a change affects how the server is reached.
func reconnects(old, changed *Server) bool {
	return !old.Enabled || difftag.Changed(reconnectTag, old, changed)
}

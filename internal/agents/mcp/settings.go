package mcp

import "slices"

// Settings are what a client may set and change. What is absent stays.
type Settings struct {
	URL       *string            `json:"url,omitzero" format:"uri" doc:"Of an http server."`
	Command   *string            `json:"command,omitzero" doc:"Of a stdio server: the absolute path of a command that the operator allowed."`
	Args      *[]string          `json:"args,omitzero"`
	Env       *map[string]string `json:"env,omitzero" doc:"Stored encrypted and never shown; replaced as a whole, and {} clears it. A stdio server gets it as its environment."`
	Auth      *AuthSettings      `json:"auth,omitzero"`
	APIKeyRef *string            `json:"api_key_ref,omitzero" doc:"Names the entry of env, MCP_ and more, that is the secret. An empty text clears it."`
	Assigned  *[]string          `json:"assigned_agent_ids,omitzero" doc:"The agents that get its tools. None: nobody does."`
	Enabled   *bool              `json:"enabled,omitzero"`
	Egress    *[]Egress          `json:"egress_allowlist,omitzero" doc:"Where an http server may be reached. None: anywhere public."`
}

// AuthSettings say how a server is authorized. Members that are absent stay;
// another type drops the secret that was stored.
type AuthSettings struct {
	_ struct{} `json:"-" name:"McpServerAuthSettings"`

	Type         *string `json:"type,omitzero" enum:"none,api_key,bearer,oauth" doc:"none asks for OAuth where the server does."`
	Header       *string `json:"header,omitzero" doc:"The header of an api_key. Left out: Authorization."`
	Prefix       *string `json:"prefix,omitzero" doc:"What stands before an api_key, such as Token."`
	EnvKey       *string `json:"env_key,omitzero" doc:"The variable that a stdio server gets an api_key in."`
	Secret       *string `json:"secret,omitzero" maxLength:"16384" doc:"The key or token; stored encrypted and never shown. An empty text clears it."`
	ClientID     *string `json:"client_id,omitzero" maxLength:"2048" doc:"Of oauth: a client that was registered by hand. Left out: agentd registers itself."`
	ClientSecret *string `json:"client_secret,omitzero" maxLength:"16384" doc:"Stored encrypted and never shown."`
}

type createBody struct {
	_ struct{} `json:"-" name:"McpServerCreate"`

	Name      string `json:"name" required:"true" minLength:"1" maxLength:"200"`
	Transport string `json:"transport" required:"true" enum:"stdio,http,streamable_http" doc:"streamable_http is another name of http."`
	Settings
}

type changeBody struct {
	_ struct{} `json:"-" name:"McpServerChange"`

	Name   *string `json:"name,omitzero" minLength:"1" maxLength:"200"`
	Status *string `json:"status,omitzero" enum:"active,disabled" doc:"The same as enabled."`
	Settings
}

// set takes over what is present.
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

// movesSecret says whether a change would take a secret that is stored to another
// place: to another origin, or to another command or other arguments, while
// the secret was not sent along.
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

// reconnects says whether a change is one of how the server is reached.
func reconnects(old, changed *Server) bool {
	return !old.Enabled || old.URL != changed.URL || old.Command != changed.Command || !slices.Equal(old.Args, changed.Args) ||
		old.Env != changed.Env || old.Auth != changed.Auth || old.Secret != changed.Secret ||
		old.ClientSecret != changed.ClientSecret || old.APIKeyRef != changed.APIKeyRef
}

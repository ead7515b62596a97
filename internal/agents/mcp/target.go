package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
)

// targets makes the targets of servers.
type targets struct {
	validator   *validator
	credentials *credentials
}

// of returns the target of a server. Errors: fault.Invalid if api_key_ref names
// no variable, or the operator no longer allows the command, its arguments or its
// variables.
func (s *targets) of(v *Server) (*Target, error) {
	t := &Target{TenantID: v.TenantID, ServerID: v.ID, Name: v.Name, Transport: v.Transport, URL: v.URL, Command: v.Command, Args: v.Args}
	t.HonoursKeys = v.HonoursKeys
	env, key := v.env(), v.Secret
	if v.APIKeyRef != "" && key == "" {
		if key = env[v.APIKeyRef]; key == "" {
			return nil, fault.New(fault.Invalid, "", "api_key_ref names %s, but env has no such variable.", v.APIKeyRef)
		}
	}
	if v.Transport == STDIO {
		var c fieldErrors // the operator may have changed what is allowed since the server was stored
		if s.validator.checkCommand(&c, v); len(c) > 0 {
			return nil, fault.New(fault.Invalid, "", "The server cannot run any more: %s: %s.", c[0].Field, c[0].Message)
		}
		t.Env = env
		if v.Auth.Type == authAPIKey && key != "" {
			t.Env = maps.Clone(env)
			if t.Env == nil {
				t.Env = map[string]string{}
			}
			t.Env[v.Auth.EnvKey] = key
		}
	} else {
		t.Transport = HTTP
		t.authorize(v.Auth, key)
		if key == "" && (v.Auth.Type == authNone || v.Auth.Type == authOAuth) && v.ID != "" {
			t.Tokens = &tokens{s.credentials, v.TenantID, v.ID, origin(v.URL)}
		}
	}
	t.Fingerprint = t.fingerprint()
	return t, nil
}

// authorize sets the header that carries a key.
func (t *Target) authorize(a Auth, key string) {
	if key == "" {
		return
	}
	t.Header = "Authorization"
	prefix := "Bearer"
	if a.Type == authAPIKey {
		prefix = a.Prefix
		if a.Header != "" {
			t.Header = a.Header
		} else if prefix == "" {
			prefix = "Bearer"
		}
	}
	t.HeaderValue = secret.New(strings.TrimLeft(prefix+" "+key, " "))
}

// fingerprint identifies a connection without revealing its secrets.
func (t *Target) fingerprint() string {
	text, err := json.Marshal([]any{
		t.Transport, t.URL, t.Command, t.Args, t.Env, t.Header, t.HeaderValue.Reveal(), t.Tokens != nil, t.HonoursKeys,
	}, json.Deterministic(true))
	if err != nil {
		panic(err) // strings always encode
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// oauth reports whether people authorize the server.
func (t *Target) oauth() bool { return t.Tokens != nil }

package mcp

import (
	"reflect"
	"slices"
	"testing"

	"agentd/internal/base/difftag"
	"agentd/internal/base/secret"
)

func TestEveryFieldSaysWhetherItReconnects(t *testing.T) {
	t.Parallel()
	server := reflect.TypeFor[Server]()
	for _, name := range difftag.Undecided(reconnectTag, server) {
		t.Errorf("Server.%s does not say whether a change of it affects how the server is reached: add the tag reconnects", name)
	}
	// Where secrets are sent, and the secrets themselves, which may move with the
	// place; see movesSecret. The transport cannot be changed.
	known := []string{"URL", "Command", "Args", "Env", "Auth", "Secret", "ClientSecret", "APIKeyRef", "Transport"}
	for f := range server.Fields() {
		if f.Tag.Get(reconnectTag) == "true" && !slices.Contains(known, f.Name) {
			t.Errorf("Server.%s affects how the server is reached: if it decides where secrets are sent add it to movesSecret, and list it here", f.Name)
		}
	}
}

func TestReconnects(t *testing.T) {
	t.Parallel()
	old := Server{Enabled: true, URL: "https://a", Args: []string{"x"}, Auth: Auth{Type: authBearer}}
	for name, change := range map[string]func(*Server){
		"url": func(s *Server) { s.URL = "https://b" }, "args": func(s *Server) { s.Args = []string{"y"} },
		"env": func(s *Server) { s.Env = "{}" }, "auth": func(s *Server) { s.Auth.Header = "X" },
		"secret": func(s *Server) { s.Secret = "s" }, "key": func(s *Server) { s.APIKeyRef = "K" },
	} {
		changed := old
		if change(&changed); !reconnects(&old, &changed) {
			t.Errorf("a change of %s does not reconnect", name)
		}
	}
	changed := old
	changed.Name, changed.Assigned, changed.Failure, changed.Version = "b", []string{"a"}, "f", 2
	if reconnects(&old, &changed) {
		t.Error("a change of the name reconnects")
	}
	if old.Enabled = false; !reconnects(&old, &changed) {
		t.Error("enabling does not reconnect")
	}
}

// A connection is shared by its fingerprint: a field that is not in it would
// have calls go out over a connection with the former value.
func TestFingerprintHasEveryField(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"Transport": HTTP, "URL": "https://b", "Command": "/b", "Args": []string{"b"}, "Env": map[string]string{"B": "b"},
		"Header": "X", "HeaderValue": secret.New("b"), "Tokens": Tokens(&tokens{}), "HonoursKeys": true,
	}
	none := (&Target{}).fingerprint()
	for f := range reflect.TypeFor[Target]().Fields() {
		if slices.Contains([]string{"TenantID", "ServerID", "Name", "Fingerprint"}, f.Name) { // the first two are in the key beside it
			continue
		}
		value, ok := values[f.Name]
		if !ok {
			t.Errorf("Target.%s: add it to the fingerprint and a value for it to this test", f.Name)
			continue
		}
		var changed Target
		reflect.ValueOf(&changed).Elem().FieldByName(f.Name).Set(reflect.ValueOf(value))
		if changed.fingerprint() == none {
			t.Errorf("Target.%s is not in the fingerprint", f.Name)
		}
	}
}

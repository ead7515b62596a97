// Package mcptest is MCP servers for tests, over real HTTP: a plain one with a
// few tools, and one that people authorize, with its authorization server.
package mcptest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// New is a server with the tools echo {message}, read only, fail, and write
// {message}, which counts its calls.
func New() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	type in struct {
		Message string `json:"message"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Says it again.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
			return Text("you said " + in.Message), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no such city"}}}, nil, nil
	})
	return s
}

// Text is a result of one text.
func Text(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// Handler serves a server over streamable HTTP until the test ends.
func Handler(tb testing.TB, s *mcp.Server) http.Handler {
	tb.Helper()
	tb.Cleanup(func() { // of clients that left without a word
		for session := range s.Sessions() {
			session.Close()
		}
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
}

// Serve serves a handler until the test ends, and gives the URL of /mcp.
func Serve(tb testing.TB, h http.Handler) string {
	tb.Helper()
	server := httptest.NewServer(h)
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/mcp"
}

// Protected is a server that wants an access token, and the authorization
// server that gives it: RFC 9728, RFC 8414, RFC 7591, authorization code with
// PKCE, rotating refresh tokens. A person who is sent there agrees at once.
type Protected struct {
	URL string // of the MCP server

	base string
	mcp  http.Handler

	mu        sync.Mutex
	count     int
	clients   map[string]string // redirect URI by client id
	codes     map[string]code
	access    map[string]bool
	refresh   map[string]bool
	refreshes int
	spent     bool // a refresh token was used twice
	deny      bool
}

type code struct{ client, redirect, challenge, resource string }

// NewProtected starts one that ends with the test.
func NewProtected(tb testing.TB, s *mcp.Server) *Protected {
	tb.Helper()
	p := &Protected{mcp: Handler(tb, s), clients: map[string]string{}, codes: map[string]code{}, access: map[string]bool{}, refresh: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", p.resource)
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		send(w, 200, map[string]any{"resource": p.URL, "authorization_servers": []string{p.base}, "scopes_supported": []string{"tools"}})
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		send(w, 200, map[string]any{
			"issuer": p.base, "authorization_endpoint": p.base + "/authorize", "token_endpoint": p.base + "/token",
			"registration_endpoint": p.base + "/register", "response_types_supported": []string{"code"}, "jwks_uri": p.base + "/jwks",
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
			"authorization_response_iss_parameter_supported": true,
		})
	})
	mux.HandleFunc("POST /register", p.register)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.URL = Serve(tb, mux)
	p.base = strings.TrimSuffix(p.URL, "/mcp")
	return p
}

// Expire has no access token count any more; refresh tokens still do.
func (p *Protected) Expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.access)
}

// Revoke has no token count any more.
func (p *Protected) Revoke() {
	p.Expire()
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.refresh)
}

// Deny has the person refuse from now on.
func (p *Protected) Deny() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deny = true
}

// Refreshes is how often a token was refreshed; spent says that a refresh
// token came twice.
func (p *Protected) Refreshes() (n int, spent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refreshes, p.spent
}

func send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.MarshalWrite(w, body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (p *Protected) resource(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	good := p.access[token]
	p.mu.Unlock()
	if !good {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+p.base+`/.well-known/oauth-protected-resource/mcp", scope="tools"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	p.mcp.ServeHTTP(w, r)
}

func (p *Protected) next(prefix string) string {
	p.count++
	return prefix + "-" + base64.RawURLEncoding.EncodeToString([]byte{byte(p.count >> 8), byte(p.count)})
}

func (p *Protected) register(w http.ResponseWriter, r *http.Request) {
	var in struct {
		RedirectURIs []string `json:"redirect_uris"`
	}
	if json.UnmarshalRead(r.Body, &in) != nil || len(in.RedirectURIs) != 1 {
		send(w, 400, map[string]any{"error": "invalid_redirect_uri"})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.next("client")
	p.clients[id] = in.RedirectURIs[0]
	send(w, 201, map[string]any{"client_id": id, "redirect_uris": in.RedirectURIs, "token_endpoint_auth_method": "none"})
}

func (p *Protected) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	redirect := q.Get("redirect_uri")
	if p.clients[q.Get("client_id")] != redirect || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("resource") != p.URL || q.Get("scope") != "tools" {
		http.Error(w, "this is no request that we answer: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	answer := url.Values{"state": {q.Get("state")}, "iss": {p.base}}
	if p.deny {
		answer.Set("error", "access_denied")
	} else {
		c := p.next("code")
		p.codes[c] = code{q.Get("client_id"), redirect, q.Get("code_challenge"), q.Get("resource")}
		answer.Set("code", c)
	}
	http.Redirect(w, r, redirect+"?"+answer.Encode(), http.StatusFound)
}

func (p *Protected) token(w http.ResponseWriter, r *http.Request) {
	if r.ParseForm() != nil {
		send(w, 400, map[string]any{"error": "invalid_request"})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	good := false
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		c, known := p.codes[r.Form.Get("code")]
		delete(p.codes, r.Form.Get("code"))
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		good = known && base64.RawURLEncoding.EncodeToString(sum[:]) == c.challenge && c.client == r.Form.Get("client_id") &&
			c.redirect == r.Form.Get("redirect_uri") && c.resource == r.Form.Get("resource")
	case "refresh_token":
		valid, known := p.refresh[r.Form.Get("refresh_token")]
		good = valid
		p.spent = p.spent || known && !valid
		p.refreshes++
		if known {
			p.refresh[r.Form.Get("refresh_token")] = false
		}
	}
	if !good {
		send(w, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	access, refresh := p.next("access"), p.next("refresh")
	p.access[access], p.refresh[refresh] = true, true
	send(w, 200, map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600})
}

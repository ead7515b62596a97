// Package mcpserver serves the platform as an MCP server: agents are its tools,
// within the scopes of the caller's key. It speaks streamable HTTP without
// sessions. It also serves the two pages on which people authorize the MCP
// servers that agents use.
package mcpserver

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/runstream"
)

// Path is the path of the endpoint.
const Path = "/api/v1/mcp"

// agentHeader narrows a call to one agent.
const agentHeader = "X-SVC-Agent-Id"

// Agents lists the agents that can be called.
type Agents interface {
	// List returns every agent of a tenant that accepts runs, in a stable order.
	List(ctx context.Context, tenant string) ([]Agent, error)
	// Get returns one of them. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (Agent, error)
}

// Agent is an agent that is offered as a tool.
type Agent struct {
	ID, Name, Description string
}

// Authorizations serves the pages on which people authorize MCP servers;
// *mcp.Authorizer.
type Authorizations interface {
	Ask(ctx context.Context, who authz.Caller, state string) (mcp.Consent, error)
	Begin(ctx context.Context, who authz.Caller, token, browser string) (location string, err error)
	Finish(ctx context.Context, p mcp.CallbackParams) (server string, err error)
}

// Server serves the endpoint and the pages.
type Server struct {
	Runner         *runstream.Runner
	Agents         Agents
	Version        string
	Authorizations Authorizations
	PublicURL      func() string // of browsers
}

// Routes returns the routes of the endpoint and the pages.
func (s *Server) Routes() []httpapi.Raw {
	endpoint := route.Row{Path: Path, Tag: "MCP", Scopes: []authz.Scope{"agents:read"}}
	post, get := endpoint, endpoint
	post.Method, post.ID, post.Summary = "POST", "callMcp", "Send a JSON-RPC message to the MCP endpoint"
	post.Doc = "The platform is an MCP server whose tools are its agents. Listing them needs agents:read; calling one also needs " +
		"runs:create and the role developer, starts a run and returns its text. The header " + agentHeader +
		" limits both to one agent. Errors are JSON-RPC errors."
	post.BodyOf, post.AnswerOf, post.Also = reflect.TypeFor[request](), reflect.TypeFor[response](), []int{http.StatusAccepted}
	post.Outside = true // a run that answers at once
	post.Errors = []int{400, 404, 422, 503}
	get.Method, get.ID, get.Summary = "GET", "listenMcp", "Open the event stream of the MCP endpoint"
	get.Doc = "The endpoint keeps no sessions and sends no messages of its own: the stream carries only its heartbeat."
	get.Errors = []int{400, 404, 503}

	page := route.Row{Tag: "MCP", Errors: []int{400, 404, 409, 503}}
	start, back := page, page
	start.Method, start.Path, start.ID = "GET", mcp.StartPath, "startMcpAuthorization"
	start.Summary = "Ask a person to authorize an MCP server"
	start.Doc = "A page that names the company, the server and who asked, with a button. The URL comes from authorizeMcpServer, or from " +
		"a run with the status auth_required. Only a browser session of a member of that company sees the page."
	start.Scopes, start.Role = []authz.Scope{"agents:write"}, authz.Developer
	approve := start
	approve.Method, approve.ID, approve.Status = "POST", "approveMcpAuthorization", http.StatusSeeOther
	approve.Summary = "Redirect a person who consented to the authorization server"
	approve.Doc = "The button of the page sends this. It sets a cookie that binds the authorization to the browser."
	back.Method, back.Path, back.ID = "GET", mcp.CallbackPath, "finishMcpAuthorization"
	back.Summary = "Complete the authorization of an MCP server"
	back.Doc = "The authorization server redirects the person here. Only the browser that began can complete the authorization."
	back.Public = true
	return []httpapi.Raw{
		{Row: post, MayStream: true, Serve: s.handleMessage, Fail: failAsRPC, FailOf: reflect.TypeFor[response]()},
		{Row: get, Serve: s.openStream, Fail: failAsRPC, FailOf: reflect.TypeFor[response]()},
		{Row: start, Serve: s.askConsent, Fail: s.failAsPage},
		{Row: approve, Serve: s.beginAuthorization, Fail: s.failAsPage},
		{Row: back, Serve: s.finishAuthorization, Fail: s.failAsPage},
	}
}

// versions are the protocol versions that the endpoint speaks, newest first.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26"}

// handleMessage serves one message.
func (s *Server) handleMessage(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if v := r.Header.Get("Mcp-Protocol-Version"); v != "" && !slices.Contains(versions, v) {
		return fault.New(fault.Malformed, "", "MCP-Protocol-Version %.20q is not supported; supported are %s.", v, strings.Join(versions, ", "))
	}
	body, release, err := httpapi.ReadBody(r)
	if err != nil {
		return err
	}
	req, err := decodeRequest(body)
	release()
	if err != nil {
		return err
	}
	if len(req.ID) == 0 || req.Method == "" {
		w.WriteHeader(http.StatusAccepted) // a notification, or a response to a request that we never send
		return nil
	}
	agents, err := s.scopeOf(r, who)
	if err != nil {
		return err
	}
	var result any
	switch req.Method {
	case "initialize":
		result, err = s.initialize(req.Params)
	case "ping":
		result = struct{}{}
	case "tools/list":
		result, err = s.listTools(r.Context(), who, agents)
	case "tools/call":
		return s.callTool(w, r, who, agents, req)
	default:
		err = &rpcError{Code: codeNoMethod, Message: "This method is not supported; supported are initialize, ping, tools/list and tools/call."}
	}
	return writeReply(w, req.ID, result, err)
}

// writeReply answers with a result, or with an *rpcError as the message's error;
// it returns any other error.
func writeReply(w http.ResponseWriter, id jsontext.Value, result any, err error) error {
	res := (*response)(nil)
	if e, ok := err.(*rpcError); ok { //nolint:errorlint // it is ours and never wrapped
		res = errorResponse(id, e)
	} else if err == nil {
		res, err = resultResponse(id, result)
	}
	if res == nil || err != nil && res.Error == nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, res)
}

// agentScope is the set of agents that a message can reach.
type agentScope struct {
	one *Agent // nil: all of the tenant's
}

func (s *Server) scopeOf(r *http.Request, who authz.Caller) (agentScope, error) {
	id := r.Header.Get(agentHeader)
	if id == "" {
		return agentScope{}, nil
	}
	if !ident.Valid(id) {
		return agentScope{}, fault.New(fault.Malformed, "", "The header %s is not a valid agent id.", agentHeader)
	}
	g, err := s.Agents.Get(r.Context(), who.TenantID, id)
	return agentScope{&g}, err
}

type serverInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

type initializeResult struct {
	ProtocolVersion string         `json:"protocolVersion"`
	Capabilities    map[string]any `json:"capabilities"`
	ServerInfo      serverInfo     `json:"serverInfo"`
	Instructions    string         `json:"instructions"`
}

func (s *Server) initialize(params jsontext.Value) (any, error) {
	var in struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if json.Unmarshal(orEmpty(params), &in) != nil {
		return nil, &rpcError{Code: codeInvalidParams, Message: "The parameters of initialize cannot be read."}
	}
	v := in.ProtocolVersion
	if !slices.Contains(versions, v) {
		v = versions[0]
	}
	return initializeResult{
		ProtocolVersion: v, Capabilities: map[string]any{"tools": struct{}{}},
		ServerInfo:   serverInfo{Name: "agentd", Title: "agentd: agents as tools", Version: s.Version},
		Instructions: "Every tool is an agent. A call runs the agent with a message and returns its answer.",
	}, nil
}

func orEmpty(params jsontext.Value) jsontext.Value {
	if len(params) == 0 {
		return jsontext.Value("{}")
	}
	return params
}

// openStream keeps a client's event stream open until the client leaves.
func (s *Server) openStream(_ http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if _, err := s.scopeOf(r, who); err != nil {
		return err
	}
	out, err := httpapi.OpenStream(r, httpapi.StreamOptions{Resumable: true})
	if err != nil {
		return err
	}
	defer out.Close()
	<-out.Context().Done()
	return nil
}

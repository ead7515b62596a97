package compat

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// keyed sends a key with every request of an MCP client.
type keySender struct {
	key, agent string
}

// RoundTrip implements http.RoundTripper.
func (k keySender) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	if k.agent != "" {
		r.Header.Set("X-SVC-Agent-Id", k.agent)
	}
	return apptest.HTTPClient.Transport.RoundTrip(r)
}

// connectMCP is the official SDK's client of the node as an MCP server.
func connectMCP(n *apptest.Server, agent string, opts *sdk.ClientOptions) *sdk.ClientSession {
	n.T.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(n.T.Context(), &sdk.StreamableClientTransport{
		Endpoint: n.URL + "/api/v1/mcp", HTTPClient: &http.Client{Transport: keySender{n.Key, agent}},
	}, nil)
	if err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() { session.Close() })
	return session
}

func toolNames(t *testing.T, s *sdk.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

func contentOf(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	if len(r.Content) != 1 {
		t.Fatalf("content = %+v", r.Content)
	}
	return r.Content[0].(*sdk.TextContent).Text
}

// Agents are tools for whoever speaks MCP.
func TestAgentsAreMCPTools(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		return modeltest.Answer{Text: "You asked: " + r.Chat().Last("user")}
	})))
	first := n.CreateAgent(object{"name": "Travel agent!", "description": "Books journeys."})
	twin := n.CreateAgent(object{"name": "Travel agent?"})
	n.CreateAgent(object{"name": "Chef"})
	suspended := n.CreateAgent(object{"name": "Asleep"})
	n.Expect(200, "POST", "/api/v1/agents/"+suspended+"/suspend", object{})

	var progress atomic.Int64
	session := connectMCP(n, "", &sdk.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { progress.Add(1) },
	})
	want := []string{"Chef", "Travel_agent_" + first[len(first)-8:], "Travel_agent_" + twin[len(twin)-8:]}
	slices.Sort(want)
	if got := toolNames(t, session); !slices.Equal(got, want) {
		t.Errorf("tools = %v, want %v", got, want)
	}
	params := &sdk.CallToolParams{Name: "Chef", Arguments: object{"message": "What is for dinner?"}}
	params.SetProgressToken("p1")
	res, err := session.CallTool(t.Context(), params)
	if err != nil || res.IsError || contentOf(t, res) != "You asked: What is for dinner?" {
		t.Fatalf("call = %+v, %v", res, err)
	}
	run := n.Expect(200, "GET", "/api/v1/runs/"+res.Meta["run_id"].(string), nil)
	if run["status"] != "completed" || run["metadata"].(object)["source"] != "mcp" {
		t.Errorf("the run is %v", run)
	}
	apptest.Eventually(t, func() bool { return progress.Load() > 0 })

	for name, c := range map[string]struct {
		tool      string
		arguments any
		says      string
	}{
		"no_message":   {"Chef", object{}, "message is required"},
		"unknown_tool": {"Nobody", object{"message": "x"}, "No tool"},
		"suspended":    {suspended, object{"message": "x"}, "No tool"},
	} {
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: c.tool, Arguments: c.arguments})
		said := fmt.Sprint(err)
		if err == nil {
			said = contentOf(t, res)
		}
		if err == nil && !res.IsError || !strings.Contains(said, c.says) {
			t.Errorf("%s: %q, %v", name, said, err)
		}
	}

	one := connectMCP(n, first, nil)
	if got := toolNames(t, one); !slices.Equal(got, []string{"Travel_agent"}) {
		t.Errorf("of one agent: %v", got)
	}
	if _, err := one.CallTool(t.Context(), &sdk.CallToolParams{Name: "Chef", Arguments: object{"message": "x"}}); err == nil {
		t.Error("another agent's tool is called")
	}
}

// A run that fails is a failed call, and one that waits for a person ends it.
func TestMCPCallsThatFail(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Status: 400, Error: "out of order"})))
	n.CreateAgent(object{"name": "Broken"})
	session := connectMCP(n, "", nil)
	res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "Broken", Arguments: object{"message": "x"}})
	if err != nil || !res.IsError || res.Meta["status"] != "failed" {
		t.Errorf("a run that fails: %+v, %v", res, err)
	}

	n = apptest.Start(t, modeltest.New(t, apptest.CallTool("calculator", `{"expression":"6*7"}`)))
	n.CreateAgent(object{"name": "Careful", "built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"}})
	session = connectMCP(n, "", nil)
	res, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "Careful", Arguments: object{"message": "x"}})
	if err != nil || !res.IsError || res.Meta["status"] != "awaiting_approval" || !strings.Contains(contentOf(t, res), "to be approved") {
		t.Fatalf("a run that waits: %+v, %v", res, err)
	}
	run := res.Meta["run_id"].(string)
	n.Expect(200, "POST", "/api/v1/runs/"+run+"/approve", object{})
	if got := apptest.OutputText(n.WaitRun(run)); got != "It says: 42" {
		t.Errorf("it goes on with %q", got)
	}
}

// Without an event stream the answer is one JSON document; what is refused is a
// JSON-RPC error.
func TestMCPEndpointByHand(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	agent := n.CreateAgent(object{"name": "Chef"})
	post := func(n *apptest.Server, body string, headers ...string) apptest.Reply {
		return n.Do("POST", "/api/v1/mcp", body, headers...)
	}
	call := `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"` + agent + `","arguments":{"message":"x"}}}`
	list := `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`

	r := post(n, call)
	if r.StatusCode != 200 || r.JSON["id"] != "c" || r.Header.Get("X-Run-Id") == "" || r.JSON["result"].(object)["isError"] != false {
		t.Errorf("a call: %d %s", r.StatusCode, r.Body)
	}
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	if r := post(n, hello); r.JSON["result"].(object)["protocolVersion"] != "2025-06-18" {
		t.Errorf("initialize: %s", r.Body)
	}
	if r := post(n, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.StatusCode != 202 || len(r.Body) != 0 {
		t.Errorf("a notification: %d %s", r.StatusCode, r.Body)
	}
	for name, c := range map[string]struct {
		r      apptest.Reply
		status int
		code   float64
	}{
		"no_key":           {post(n.WithKey("svc_aaaaaaaa_"+strings.Repeat("b", 32)), list), 401, -32001},
		"no_scope_to_list": {post(n.WithScopes("runs:create"), list), 403, -32001},
		"no_scope_to_call": {post(n.WithScopes("agents:read"), call), 403, -32001},
		"no_json":          {post(n, `{"jsonrpc"`), 400, -32600},
		"a_batch":          {post(n, `[`+list+`]`), 422, -32600},
		"another_version":  {post(n, `{"jsonrpc":"1.0","id":1,"method":"ping"}`), 422, -32600},
		"a_null_id":        {post(n, `{"jsonrpc":"2.0","id":null,"method":"ping"}`), 400, -32600},
		"bad_protocol":     {post(n, list, "MCP-Protocol-Version", "1999-01-01"), 400, -32600},
		"bad_agent":        {post(n, list, "X-SVC-Agent-Id", "me"), 400, -32600},
		"unknown_agent":    {post(n, list, "X-SVC-Agent-Id", ident.New()), 404, -32602},
		"unknown_method":   {post(n, `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`), 200, -32601},
		"bad_params":       {post(n, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`), 200, -32602},
	} {
		failure, _ := c.r.JSON["error"].(object)
		if c.r.StatusCode != c.status || failure["code"] != c.code || failure["message"] == "" {
			t.Errorf("%s: %d %s", name, c.r.StatusCode, c.r.Body)
		}
	}
	if r := post(n.WithScopes("agents:read"), list); len(r.JSON["result"].(object)["tools"].([]any)) != 1 {
		t.Errorf("who may read may list: %s", r.Body)
	}
}

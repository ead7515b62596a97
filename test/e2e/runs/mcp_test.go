package runs

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp/mcptest"
	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// local lets tenants reach the servers of the tests.
func local(c *config.Config) { c.Security.EgressAllow = "127.0.0.0/8" }

// An agent uses the tools of a server that is assigned to it, and of one in
// its own configuration, and no others.
func TestMCPToolsInARun(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, apptest.CallTool("echo", `{"message":"hello"}`))
	n := apptest.Start(t, sim, local)
	url := mcptest.Serve(t, mcptest.Handler(t, mcptest.New()))
	server := n.CreateMCPServer(object{"url": url})
	if server["status"] != "active" || server["connect_error"] != nil || server["last_synced"] == nil || !slices.Contains(server["capabilities"].([]any), any("tools")) {
		t.Errorf("the server is %v", server)
	}
	agent := n.CreateAgent(nil)
	if got := apptest.OutputText(n.WaitRun(n.StartRun(agent, "x", nil))); !strings.Contains(got, "There is no tool") {
		t.Errorf("a server that is not the agent's: %q", got)
	}
	path := "/api/v1/agents/" + agent + "/mcp-servers"
	set := n.Expect(200, "PUT", path, object{"server_ids": []any{server["id"]}})
	if got := fmt.Sprint(set["connected"], set["disconnected"]); got != fmt.Sprintf("[%v] []", server["id"]) {
		t.Errorf("assigned: %v", set)
	}
	if got := apptest.OutputText(n.WaitRun(n.StartRun(agent, "x", nil))); got != "It says: you said hello" {
		t.Errorf("the answer is %q", got)
	}
	if list := n.Expect(200, "GET", path, nil); list["total"] != 1.0 {
		t.Errorf("the agent's servers: %v", list)
	}

	own := n.CreateAgent(object{"mcp": object{"servers": []object{{"id": "w", "name": "W", "transport": "http", "url": url}}, "allowed_tools": []string{"ec*"}}})
	if got := apptest.OutputText(n.WaitRun(n.StartRun(own, "x", nil))); got != "It says: you said hello" {
		t.Errorf("with a server of its own: %q", got)
	}
	var offered []string
	requests := sim.Requests()
	for _, tool := range requests[len(requests)-1].Chat().Tools {
		offered = append(offered, tool.Function.Name)
	}
	if !slices.Equal(offered, []string{"echo"}) {
		t.Errorf("allowed_tools lets through %v", offered)
	}

	n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
	apptest.Eventually(t, func() bool {
		return len(n.Expect(200, "GET", "/api/v1/mcp/servers/"+server["id"].(string), nil)["assigned_agent_ids"].([]any)) == 0
	})
}

// A tool of a server that has the name of a built-in one gets another.
func TestMCPToolLikeABuiltin(t *testing.T) {
	t.Parallel()
	s := mcptest.New()
	s.AddTool(&sdk.Tool{Name: "calculator", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return mcptest.Text("I am not a calculator"), nil
	})
	for tool, want := range map[string]string{"calculator": "It says: 42", "weather_calculator": "It says: I am not a calculator"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			n := apptest.Start(t, modeltest.New(t, apptest.CallTool(tool, `{"expression":"6*7"}`)), local)
			agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
			n.CreateMCPServer(object{"url": mcptest.Serve(t, mcptest.Handler(t, s)), "assigned_agent_ids": []string{agent}})
			if got := apptest.OutputText(n.WaitRun(n.StartRun(agent, "x", nil))); got != want {
				t.Errorf("%s: %q", tool, got)
			}
		})
	}
}

// An MCP server that dies in a call costs the call, not the run.
func TestMCPServerThatDiesInACall(t *testing.T) {
	t.Parallel()
	s := mcptest.New()
	var stop func()
	s.AddTool(&sdk.Tool{Name: "die", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		stop()
		return mcptest.Text("never"), nil
	})
	server := httptest.NewServer(mcptest.Handler(t, s))
	defer server.Close()
	stop = server.CloseClientConnections
	n := apptest.Start(t, modeltest.New(t, apptest.CallTool("die", `{}`)), local)
	agent := n.CreateAgent(nil)
	n.CreateMCPServer(object{"url": server.URL, "assigned_agent_ids": []string{agent}})
	r := n.WaitRun(n.StartRun(agent, "x", nil))
	if r["status"] != "completed" || !strings.Contains(apptest.OutputText(r), "The MCP server Weather cannot be used") {
		t.Errorf("%v: %q", r["status"], apptest.OutputText(r))
	}
}

// A run that meets a server which a person must authorize waits, and goes on
// after that; whether the model knew the server's tools by then or not.
func TestMCPAuthorization(t *testing.T) {
	t.Parallel()
	eachEngineWith(t, func() *modeltest.Server { return modeltest.New(t, apptest.CallTool("weather_connect", `{}`)) }, func(t *testing.T, n *apptest.Server) {
		p := mcptest.NewProtected(t, mcptest.New())
		agent := n.CreateAgent(nil)
		server := n.CreateMCPServer(object{"url": p.URL, "assigned_agent_ids": []string{agent}})
		if server["status"] != "auth_required" || !strings.Contains(server["connect_error"].(string), "/authorize") {
			t.Errorf("a server that wants authorization: %v", server)
		}
		path := "/api/v1/mcp/servers/" + server["id"].(string)

		run := n.StartRun(agent, "x", nil)
		waits := n.WaitStatus(run, "auth_required")["pending_auth"].(object)
		if waits["server_id"] != server["id"] || waits["name"] != "Weather" {
			t.Errorf("it waits for %v", waits)
		}
		person := newPerson(t, n)
		status, page := person.authorize(waits["authorization_url"].(string))
		if status != 200 || !strings.Contains(page, "Weather is authorized") {
			t.Fatalf("the person comes back to %d %s", status, page)
		}
		r := n.WaitRun(run)
		if r["status"] != "completed" || apptest.OutputText(r) != "It says: Connected to Weather. It has the tools: echo, fail." {
			t.Errorf("%v: %q", r["status"], apptest.OutputText(r))
		}
		if got := n.Expect(200, "GET", path, nil); got["status"] != "active" || got["connect_error"] != nil {
			t.Errorf("afterwards the server is %v", got)
		}

		// Tokens are refreshed by themselves, once for all that need them.
		p.Expire()
		if got := n.Expect(200, "POST", path+"/test", nil); got["ok"] != true || got["tool_count"] != 2.0 || got["latency_ms"] == nil {
			t.Errorf("the test says %v", got)
		}
		if n, spent := p.Refreshes(); n != 1 || spent {
			t.Errorf("%d refreshes, spent %t", n, spent)
		}
		// An authorization that counts no more is asked for again.
		p.Revoke()
		failed := n.Expect(200, "POST", path+"/test", nil)
		if failed["ok"] != false || failed["status"] != "auth_required" || failed["error"] == nil || failed["authorization_url"] == nil {
			t.Errorf("the test of a revoked authorization says %v", failed)
		}
		link := n.Expect(200, "POST", path+"/authorize", nil)["authorization_url"].(string)
		if status, page := person.authorize(link); status != 200 {
			t.Errorf("a second time: %d %s", status, page)
		}
		if got := n.Expect(200, "POST", path+"/test", nil); got["ok"] != true {
			t.Errorf("after the second time: %v", got)
		}
		p.Deny()
		if status, page := person.authorize(link); status != 400 || !strings.Contains(page, "access_denied") {
			t.Errorf("a person who refuses: %d %s", status, page)
		}
	})
}

// eachEngineWith is eachEngine with a model, and tenants that may call local
// servers.
func eachEngineWith(t *testing.T, sim func() *modeltest.Server, test func(t *testing.T, n *apptest.Server)) {
	t.Helper()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, apptest.Start(t, sim(), apptest.OnEngine(t, engine), local))
		})
	}
}

// A known tool whose authorization ran out makes the run wait as well, and the
// call is made then.
func TestMCPAuthorizationRunsOut(t *testing.T) {
	t.Parallel()
	p := mcptest.NewProtected(t, mcptest.New())
	n := apptest.Start(t, modeltest.New(t, apptest.CallTool("echo", `{"message":"hello"}`)), local)
	agent := n.CreateAgent(nil)
	server := n.CreateMCPServer(object{"url": p.URL, "assigned_agent_ids": []string{agent}})
	path := "/api/v1/mcp/servers/" + server["id"].(string)
	newPerson(t, n).authorize(n.Expect(200, "POST", path+"/authorize", nil)["authorization_url"].(string))
	if got := apptest.OutputText(n.WaitRun(n.StartRun(agent, "x", nil))); got != "It says: you said hello" {
		t.Fatalf("the answer is %q", got)
	}
	p.Revoke()
	run := n.StartRun(agent, "x", nil)
	waits := n.WaitStatus(run, "auth_required")["pending_auth"].(object)
	n.Stop() // it waits without us
	n = apptest.Restart(t, n.Config)
	address, err := url.Parse(waits["authorization_url"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if status, page := newPerson(t, n).authorize(n.URL + address.RequestURI()); status != 200 {
		t.Fatalf("%d %s", status, page)
	}
	if got := apptest.OutputText(n.WaitRun(run)); got != "It says: you said hello" {
		t.Errorf("after the authorization: %q", got)
	}
}

// Secrets go in and never come out, and do not move to another place.
func TestMCPSecrets(t *testing.T) {
	t.Parallel()
	inner := mcptest.Handler(t, mcptest.New())
	guarded := mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "Token hush-hush" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	n := apptest.Start(t, nil, local)
	server := n.CreateMCPServer(object{
		"url": guarded, "env": object{"MCP_OTHER": "hidden-value"},
		"auth": object{"type": "api_key", "header": "X-Api-Key", "prefix": "Token", "secret": "hush-hush"},
	})
	if server["status"] != "active" || server["env_count"] != 1.0 || server["auth"].(object)["has_secret"] != true {
		t.Errorf("the server is %v", server)
	}
	path := "/api/v1/mcp/servers/" + server["id"].(string)
	elsewhere := mcptest.Serve(t, inner)
	refused := n.Do("PATCH", path, object{"url": elsewhere})
	if refused.StatusCode != 409 || refused.JSON["code"] != "secret_would_move" {
		t.Errorf("a secret moves: %d %s", refused.StatusCode, refused.Body)
	}
	if r := n.Do("PATCH", path, object{"url": elsewhere, "auth": object{"secret": "other"}}); r.StatusCode != 409 {
		t.Errorf("env moves: %d %s", r.StatusCode, r.Body)
	}
	n.Expect(200, "PATCH", path, object{"url": guarded + "?page=2", "name": "Same place"})
	moved := n.Expect(200, "PATCH", path, object{"url": elsewhere, "auth": object{"type": "none"}, "env": object{}})
	if moved["status"] != "active" || moved["env_count"] != 0.0 || moved["auth"].(object)["has_secret"] != false {
		t.Errorf("moved without secrets: %v", moved)
	}

	byRef := n.CreateMCPServer(object{"url": guarded, "api_key_ref": "MCP_KEY", "env": object{"MCP_KEY": "hush-hush"}, "auth": object{"type": "api_key", "header": "X-Api-Key", "prefix": "Token"}})
	if byRef["status"] != "active" || byRef["api_key_ref"] != "MCP_KEY" {
		t.Errorf("by reference: %v", byRef)
	}
	wrong := n.CreateMCPServer(object{"url": guarded, "auth": object{"type": "bearer", "secret": "wrong-one"}})
	if wrong["status"] != "error" || !strings.Contains(wrong["connect_error"].(string), "rejects the stored credential") {
		t.Errorf("with a wrong key: %v", wrong)
	}
	all := string(n.Do("GET", "/api/v1/mcp/servers", nil).Body)
	stored := fmt.Sprint(n.Admin().Query(`SELECT * FROM documents`))
	for _, secret := range []string{"hush-hush", "hidden-value", "wrong-one"} {
		if strings.Contains(all, secret) || strings.Contains(stored, secret) {
			t.Errorf("%s can be read", secret)
		}
	}
}

// What cannot work is refused with every wrong field; what might is kept.
func TestMCPServersThatAreRefused(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil) // private addresses are refused
	for name, c := range map[string]struct {
		body   object
		fields string
	}{
		"nothing":          {object{}, "name transport"},
		"no_url":           {object{"name": "x", "transport": "http"}, "url"},
		"no_http":          {object{"name": "x", "transport": "http", "url": "ftp://example.com"}, "url"},
		"a_number":         {object{"name": "x", "transport": "http", "url": "http://2130706433/"}, "url"},
		"private":          {object{"name": "x", "transport": "http", "url": "http://127.0.0.1:9/"}, "url"},
		"metadata_service": {object{"name": "x", "transport": "http", "url": "http://169.254.169.254/latest"}, "url"},
		"unknown_host":     {object{"name": "x", "transport": "http", "url": "http://no-such-host.invalid/"}, "url"},
		"stdio":            {object{"name": "x", "transport": "stdio", "command": "/bin/sh", "url": "http://example.com"}, "transport url"},
		"unknown_agent":    {object{"name": "x", "transport": "http", "url": "http://127.0.0.1:9/", "assigned_agent_ids": []string{ident.New(), "x"}}, "assigned_agent_ids[0] assigned_agent_ids[1]"},
		"key_for_ref":      {object{"name": "x", "transport": "http", "url": "http://example.com", "api_key_ref": "sk-123", "enabled": false}, "api_key_ref"},
		"auth":             {object{"name": "x", "transport": "http", "url": "http://example.com", "enabled": false, "auth": object{"type": "api_key", "header": "Host", "secret": "a\nb"}}, "auth.header auth.secret"},
		"egress":           {object{"name": "x", "transport": "http", "url": "http://example.com", "enabled": false, "egress_allowlist": []object{{"host_pattern": "*.example.org"}}}, "url"},
		"env":              {object{"name": "x", "transport": "http", "url": "http://example.com", "enabled": false, "env": object{"a b": "c"}}, "env"},
		"types":            {object{"name": 1, "transport": "carrier pigeon", "args": "x", "env": []string{}, "enabled": "yes"}, "args enabled env name transport"},
	} {
		t.Run(name, func(t *testing.T) {
			r := n.Do("POST", "/api/v1/mcp/servers", c.body)
			var fields []string
			wrong, _ := r.JSON["errors"].([]any)
			for _, e := range wrong {
				fields = append(fields, e.(object)["field"].(string))
			}
			slices.Sort(fields)
			want := strings.Fields(c.fields)
			slices.Sort(want)
			if r.StatusCode != 422 || !slices.Equal(fields, want) {
				t.Errorf("%d %v, want %v: %s", r.StatusCode, fields, want, r.Body)
			}
		})
	}
	for field, body := range map[string]object{
		"mcp.servers":              {"servers": 7},
		"mcp.servers[0].transport": {"servers": []object{{"id": "a", "name": "a", "url": "https://example.com"}}},
		"mcp.servers[0].url":       {"servers": []object{{"id": "a", "name": "a", "transport": "http", "url": "x"}}},
		"mcp.servers[1].id":        {"servers": []object{{"id": "a", "name": "a", "transport": "http", "url": "https://example.com"}, {"id": "a", "name": "b", "transport": "http", "url": "https://example.com"}}},
	} {
		r := n.Do("POST", "/api/v1/agents", object{"name": "x", "mcp": body})
		if r.StatusCode != 422 || !strings.Contains(string(r.Body), `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", field, r.StatusCode, r.Body)
		}
	}
	kept := n.CreateMCPServer(object{"url": "https://example.com/mcp", "enabled": false})
	if kept["status"] != "disabled" {
		t.Errorf("a disabled server is %v", kept)
	}
	path := "/api/v1/mcp/servers/" + kept["id"].(string)
	r := n.Do("PUT", "/api/v1/agents/"+n.CreateAgent(nil)+"/mcp-servers", object{"server_ids": []any{kept["id"], ident.New()}})
	if r.StatusCode != 422 || len(n.Expect(200, "GET", path, nil)["assigned_agent_ids"].([]any)) != 0 {
		t.Errorf("a set with an unknown server: %d %s", r.StatusCode, r.Body)
	}
	agent := n.CreateAgent(nil)
	n.Expect(200, "PATCH", path, object{"assigned_agent_ids": []string{agent}, "transport": "stdio", "id": ident.New()})
	gone := n.Expect(200, "DELETE", path, nil)
	if got := fmt.Sprint(gone); got != fmt.Sprintf("map[cascade:map[agent_ids:[%s] agents_with_stale_ref:1] ok:true]", agent) {
		t.Errorf("deleted: %s", got)
	}
	n.Expect(404, "DELETE", path, nil)
}

// What could not be connected to is kept, with the reason.
func TestMCPServerThatIsDown(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, local)
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	server := n.CreateMCPServer(object{"url": down.URL})
	if server["status"] != "error" || server["connect_error"] != "The MCP server Weather cannot be used: it refuses connections." {
		t.Errorf("it is %v", server)
	}
	got := n.Expect(200, "POST", "/api/v1/mcp/servers/"+server["id"].(string)+"/test", nil)
	if got["ok"] != false || got["status"] != "error" || got["error"] == "" || got["tool_count"] != 0.0 {
		t.Errorf("the test says %v", got)
	}
}

// The operator says which commands tenants may run, and what they may set of
// them.
func TestMCPOverStandardStreams(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.CallTool("echo", `{"message":"hello"}`)), apptest.AllowStdioCommand(t),
		func(c *config.Config) { c.Security.MCPStdio = "/bin/true" })
	for says, body := range map[string]object{
		"AGENTD_MCP_STDIO": {"command": "/bin/sh"},
		"args[0]":          {"command": "/bin/true", "args": []string{"-c"}},
		"SHELLOPTS":        {"command": "/bin/true", "env": object{"SHELLOPTS": "xtrace"}},
		"PS4":              {"command": apptest.StdioCommand, "env": object{"PS4": "+$(id)", "MCP_TOKEN": "x"}},
		"BASH_ENV":         {"command": apptest.StdioCommand, "auth": object{"type": "api_key", "env_key": "BASH_ENV", "secret": "/tmp/x"}},
	} {
		body["name"], body["transport"] = "x", "stdio"
		if r := n.Do("POST", "/api/v1/mcp/servers", body); r.StatusCode != 422 || !strings.Contains(string(r.Body), says) {
			t.Errorf("%v: %d %s", body, r.StatusCode, r.Body)
		}
	}
	agent := n.CreateAgent(nil)
	server := n.CreateMCPServer(object{
		"transport": "stdio", "command": apptest.StdioCommand, "args": []string{"--metric"}, "env": object{"MCP_TOKEN": "x"},
		"assigned_agent_ids": []string{agent},
	})
	if server["status"] != "active" {
		t.Fatalf("the server is %v", server)
	}
	if got := apptest.OutputText(n.WaitRun(n.StartRun(agent, "x", nil))); got != "It says: you said hello" {
		t.Errorf("the answer is %q", got)
	}
}

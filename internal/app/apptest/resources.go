package apptest

import (
	"maps"
	"time"

	"agentd/internal/execution/schedule"
)

// TenantID returns the ID of the key's tenant.
func (n *Server) TenantID() string {
	n.T.Helper()
	return n.Expect(200, "GET", "/api/v1/me", nil)["tenant"].(Object)["tenant_id"].(string)
}

// Me returns the IDs of the tenant and the user of the key.
func (n *Server) Me() (tenant, user string) {
	who := n.Expect(200, "GET", "/api/v1/me", nil)
	return who["tenant"].(Object)["tenant_id"].(string), who["user"].(Object)["user_id"].(string)
}

// CreateGuardrail creates a guardrail and returns its ID.
func (n *Server) CreateGuardrail(fields Object) string {
	n.T.Helper()
	if fields["name"] == nil {
		fields["name"] = "guard"
	}
	return n.Expect(201, "POST", "/api/v1/guardrails", fields)["guardrail_id"].(string)
}

// CreateGuardedAgent creates an agent with guardrails and returns its ID.
func (n *Server) CreateGuardedAgent(guardrails Object) string {
	n.T.Helper()
	return n.CreateAgent(Object{"guardrails": guardrails, "built_in_tools": []string{"calculator"}})
}

// GuardrailRef is a list of guardrails of an agent, with one in it.
func GuardrailRef(id string) []Object { return []Object{{"guardrail_id": id}} }

// CreateAgent creates an agent and returns its ID. Without a name in the fields it
// is called tester.
func (n *Server) CreateAgent(fields Object) string {
	n.T.Helper()
	if fields == nil {
		fields = Object{}
	}
	if fields["name"] == nil {
		fields["name"] = "tester"
	}
	return n.Expect(201, "POST", "/api/v1/agents", fields)["agent_id"].(string)
}

// StartRun creates a run and returns its ID.
func (n *Server) StartRun(agent, message string, fields Object) string {
	n.T.Helper()
	body := Object{"agent_id": agent, "input": Object{"message": message}}
	maps.Copy(body, fields)
	return n.Expect(202, "POST", "/api/v1/runs", body)["run_id"].(string)
}

// WaitRun waits until a run has ended and returns it.
func (n *Server) WaitRun(id string) Object {
	n.T.Helper()
	return n.Expect(200, "GET", "/api/v1/runs/"+id+"/wait?timeout_sec=60", nil)
}

// WaitStatus waits until a run has a status that is not final, and returns it.
func (n *Server) WaitStatus(id, status string) (r Object) {
	n.T.Helper()
	Eventually(n.T, func() bool {
		r = n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
		return r["status"] == status
	})
	return r
}

// KnowledgeBasesPath is the path of knowledge bases.
const KnowledgeBasesPath = "/api/v1/knowledge-bases"

// CreateMCPServer creates an MCP server and returns it; HTTP where the fields name
// no transport.
func (n *Server) CreateMCPServer(fields Object) Object {
	n.T.Helper()
	if fields["name"] == nil {
		fields["name"] = "Weather"
	}
	if fields["transport"] == nil {
		fields["transport"] = "http"
	}
	return n.Expect(201, "POST", "/api/v1/mcp/servers", fields)
}

// ResponsesPath is the path of the responses API.
const ResponsesPath = "/v1/responses"

// KeysPath is the path of API keys.
const KeysPath = "/api/v1/tenants/me/keys"

// MakeScheduleDue makes the next fire of an agent's schedule due now, as if its time
// had come, and returns that time.
func (n *Server) MakeScheduleDue(agent string) time.Time {
	n.T.Helper()
	fire := time.Now().UTC().Truncate(time.Minute)
	a := n.Admin()
	a.Exec(`UPDATE schedules SET next_run_at = ? WHERE agent_id = ?`, fire.UnixMicro(), agent)
	a.Exec(`UPDATE work SET due_at = ? WHERE kind = ? AND work_key = ?`, fire.UnixMicro(), schedule.WorkKind, agent)
	return fire
}

// ListRuns returns the runs of an agent.
func (n *Server) ListRuns(agent string) []any {
	n.T.Helper()
	return n.Expect(200, "GET", "/api/v1/runs?limit=100&agent_id="+agent, nil)["items"].([]any)
}

// WithScopes creates a key with these scopes and returns the server, called with it.
func (n *Server) WithScopes(scopes ...string) *Server {
	n.T.Helper()
	return n.WithKey(n.Expect(201, "POST", "/api/v1/tenants/me/keys", Object{"name": "k", "scopes": scopes})["raw_key"].(string))
}

// CreateSession creates a session and returns its ID.
func (n *Server) CreateSession(agent string, fields Object) string {
	n.T.Helper()
	body := Object{"agent_id": agent}
	maps.Copy(body, fields)
	return n.Expect(201, "POST", "/api/v1/sessions", body)["session_id"].(string)
}

// SendMessage sends a message and returns the ID of the run that answers.
func (n *Server) SendMessage(session, content string) string {
	n.T.Helper()
	return n.Expect(202, "POST", "/api/v1/sessions/"+session+"/messages", Object{"content": content})["run_id"].(string)
}

// TenantsPath is the path of the operator's administration of tenants.
const TenantsPath = "/api/v1/admin/tenants"

// CreateTenant creates a tenant as the operator and returns its ID and the server,
// called with its owner's key.
func (n *Server) CreateTenant(fields Object) (id string, its *Server) {
	n.T.Helper()
	made := n.Expect(201, "POST", TenantsPath, fields)
	return made["tenant_id"].(string), n.WithKey(made["raw_key"].(string))
}

// RunTool runs an agent that has a tool, and returns its text and the tool's step.
func (n *Server) RunTool(tool string) (text string, step Object) {
	n.T.Helper()
	id := n.StartRun(n.CreateAgent(Object{"built_in_tools": []string{tool}}), "Go.", nil)
	r := n.WaitRun(id)
	if r["status"] != "completed" {
		n.T.Fatalf("the run is %v: %v", r["status"], r["error"])
	}
	for _, s := range n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any) {
		if s.(Object)["type"] == "tool" {
			step = s.(Object)
		}
	}
	return r["output"].(Object)["text"].(string), step
}

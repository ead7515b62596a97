package apptest

import (
	"maps"
	"time"

	"agentd/internal/execution/schedule"
)

func (n *Server) TenantID() string {
	n.T.Helper()
	return n.Expect(200, "GET", "/api/v1/me", nil)["tenant"].(Object)["tenant_id"].(string)
}

// Me is who the node's key belongs to.
func (n *Server) Me() (tenant, user string) {
	who := n.Expect(200, "GET", "/api/v1/me", nil)
	return who["tenant"].(Object)["tenant_id"].(string), who["user"].(Object)["user_id"].(string)
}

// CreateGuardrail makes a guardrail and gives its id.
func (n *Server) CreateGuardrail(fields Object) string {
	n.T.Helper()
	if fields["name"] == nil {
		fields["name"] = "guard"
	}
	return n.Expect(201, "POST", "/api/v1/guardrails", fields)["guardrail_id"].(string)
}

// CreateGuardedAgent makes an agent that has guardrails.
func (n *Server) CreateGuardedAgent(guardrails Object) string {
	n.T.Helper()
	return n.CreateAgent(Object{"guardrails": guardrails, "built_in_tools": []string{"calculator"}})
}

func GuardrailRef(id string) []Object { return []Object{{"guardrail_id": id}} }

// CreateAgent makes an agent and gives its id.
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

// StartRun starts a run and gives its id.
func (n *Server) StartRun(agent, message string, fields Object) string {
	n.T.Helper()
	body := Object{"agent_id": agent, "input": Object{"message": message}}
	maps.Copy(body, fields)
	return n.Expect(202, "POST", "/api/v1/runs", body)["run_id"].(string)
}

// WaitRun waits for a run's end and gives the run.
func (n *Server) WaitRun(id string) Object {
	n.T.Helper()
	return n.Expect(200, "GET", "/api/v1/runs/"+id+"/wait?timeout_sec=60", nil)
}

// WaitStatus waits for a run to be in a state that is no end.
func (n *Server) WaitStatus(id, status string) (r Object) {
	n.T.Helper()
	Eventually(n.T, func() bool {
		r = n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
		return r["status"] == status
	})
	return r
}

const KnowledgeBasesPath = "/api/v1/knowledge-bases"

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

const ResponsesPath = "/v1/responses"

const KeysPath = "/api/v1/tenants/me/keys"

// MakeScheduleDue makes a schedule's next fire one that is due now, as if the clock
// had come there. It gives the time of the fire.
func (n *Server) MakeScheduleDue(agent string) time.Time {
	n.T.Helper()
	fire := time.Now().UTC().Truncate(time.Minute)
	a := n.Admin()
	a.Exec(`UPDATE schedules SET next_run_at = ? WHERE agent_id = ?`, fire.UnixMicro(), agent)
	a.Exec(`UPDATE work SET due_at = ? WHERE kind = ? AND work_key = ?`, fire.UnixMicro(), schedule.WorkKind, agent)
	return fire
}

// ListRuns lists an agent's runs.
func (n *Server) ListRuns(agent string) []any {
	n.T.Helper()
	return n.Expect(200, "GET", "/api/v1/runs?limit=100&agent_id="+agent, nil)["items"].([]any)
}

// WithScopes makes a key with these scopes for the owner.
func (n *Server) WithScopes(scopes ...string) *Server {
	n.T.Helper()
	return n.WithKey(n.Expect(201, "POST", "/api/v1/tenants/me/keys", Object{"name": "k", "scopes": scopes})["raw_key"].(string))
}

// CreateSession begins a conversation and gives its id.
func (n *Server) CreateSession(agent string, fields Object) string {
	n.T.Helper()
	body := Object{"agent_id": agent}
	maps.Copy(body, fields)
	return n.Expect(201, "POST", "/api/v1/sessions", body)["session_id"].(string)
}

// SendMessage sends a message and gives the run that answers.
func (n *Server) SendMessage(session, content string) string {
	n.T.Helper()
	return n.Expect(202, "POST", "/api/v1/sessions/"+session+"/messages", Object{"content": content})["run_id"].(string)
}

const TenantsPath = "/api/v1/admin/tenants"

// CreateTenant makes a company through the API.
func (n *Server) CreateTenant(fields Object) (id string, its *Server) {
	n.T.Helper()
	made := n.Expect(201, "POST", TenantsPath, fields)
	return made["tenant_id"].(string), n.WithKey(made["raw_key"].(string))
}

// said runs an agent with a tool, and gives its text and the tool's step.
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

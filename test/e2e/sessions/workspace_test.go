package sessions

import (
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// TestWorkspaceOfAMessage: the file tools of the run that answers a message work in the
// workspace that the message names.
func TestWorkspaceOfAMessage(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Script(
		modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c1", Name: "write_file", Arguments: `{"path":"a.txt","content":"here"}`}}},
		modeltest.Answer{Text: "Done."},
	)))
	agent := n.CreateAgent(object{"built_in_tools": []string{"write_file"}})
	session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"].(string)
	workspace := n.Expect(201, "POST", "/api/v1/workspaces", object{"name": "w"})["workspace_id"].(string)
	messages := "/api/v1/sessions/" + session + "/messages"
	apptest.CheckCode(t, n.Do("POST", messages, object{"content": "Write.", "workspace_id": ident.New()}), 404, "NOT_FOUND")
	apptest.CheckCode(t, n.WithScopes("sessions:write").Do("POST", messages, object{"content": "Write.", "workspace_id": workspace}), 403, "MISSING_SCOPE")

	id := n.Expect(202, "POST", messages, object{"content": "Write.", "workspace_id": workspace})["run_id"].(string)
	if r := n.WaitRun(id); r["status"] != "completed" {
		t.Fatalf("%v", r)
	}
	if got := n.Do("GET", "/api/v1/workspaces/"+workspace+"/files/content?path=a.txt", nil); string(got.Body) != "here" {
		t.Errorf("the workspace has %d %s", got.StatusCode, got.Body)
	}
	own := n.Expect(200, "GET", "/api/v1/agents/"+agent+"/workspace/files", nil)
	if files := own["files"].([]any); len(files) != 0 {
		t.Errorf("the agent's own has %v", files)
	}
}

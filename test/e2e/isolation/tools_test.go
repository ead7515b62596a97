package isolation

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// obedient is a model that calls the tool that the message says, and repeats
// its result.
var obedient = modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
	messages := r.Chat().Messages
	last := messages[len(messages)-1]
	if last.Role != "user" {
		return modeltest.Answer{Text: "It says: " + last.Text()}
	}
	name, arguments, _ := strings.Cut(last.Text(), " ")
	return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: name, Arguments: arguments}}}
})

// toolReferences say what the arguments of built-in tools name.
var toolReferences = map[string]string{
	"delegate_to_agent agent_id": "agentId", "delegate_to_worker agent_id": "agentId",
	"read_file workspace_id": "workspaceId", "list_files workspace_id": "workspaceId",
}

// Whatever a model is talked into asking a tool for, what belongs to another
// company is not there.
func TestToolsOfIntruders(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, obedient))
	beside := n.Admin()
	g, err := beside.Tenants.Create(t.Context(), "Walrus and Sons", "")
	if err != nil {
		t.Fatal(err)
	}
	theirs := n.WithKey(string(g.RawKey))
	ids := map[string]string{
		"agentId":     theirs.CreateAgent(object{"name": "walrus"}),
		"workspaceId": theirs.Expect(201, "POST", "/api/v1/workspaces", object{"name": "walrus"})["workspace_id"].(string),
	}
	theirs.Expect(201, "PUT", "/api/v1/workspaces/"+ids["workspaceId"]+"/files?path=x", "walrus", "Content-Type", "text/plain")
	apptest.Eventually(t, func() bool { return len(beside.Query(`SELECT kind FROM work WHERE tenant_id = ?`, g.TenantID)) == 0 })
	before := rowsOf(beside, g.TenantID)
	tried := 0
	for _, entry := range n.Expect(200, "GET", "/api/v1/admin/tools", nil)["tools"].([]any) {
		tool := entry.(object)["name"].(string)
		for name, s := range entry.(object)["parameters"].(object)["properties"].(object) {
			if !naming.MatchString(name) {
				continue
			}
			target, known := toolReferences[tool+" "+name]
			if !known || ids[target] == "" {
				t.Errorf("no test knows what the argument %s of the tool %s names: add it to toolReferences in test/e2e/isolation/tools_test.go, and to ids here", name, tool)
				continue
			}
			tried++
			agent := n.CreateAgent(object{"built_in_tools": []string{tool}})
			said := map[string]string{}
			for whose, id := range map[string]string{"theirs": ids[target], "nobody's": ident.New()} {
				arguments := object{}
				for other := range entry.(object)["parameters"].(object)["properties"].(object) {
					arguments[other] = "x"
				}
				if s.(object)["type"] == "array" {
					arguments[name] = []string{id}
				} else {
					arguments[name] = id
				}
				text, err := json.Marshal(arguments)
				if err != nil {
					t.Fatal(err)
				}
				run := n.WaitRun(n.StartRun(agent, tool+" "+string(text), nil))
				if run["status"] != "completed" {
					t.Errorf("%s: %v %v", tool, run["status"], run["error"])
					continue
				}
				said[whose] = strings.ReplaceAll(run["output"].(object)["text"].(string), id, "<id>")
			}
			if diff := cmp.Diff(said["nobody's"], said["theirs"]); diff != "" || strings.Contains(said["theirs"], "walrus") || said["theirs"] == "" {
				t.Errorf("%s tells another company's thing from one that nobody has: %v\n%s", tool, said, diff)
			}
		}
	}
	if tried == 0 {
		t.Error("no tool was tried")
	}
	if diff := cmp.Diff(before, rowsOf(beside, g.TenantID)); diff != "" {
		t.Errorf("something of the other company changed:\n%s", diff)
	}
}

// The token of a run that can go on is good for that run alone.
func TestContinuationsOfOthers(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "Enough."})))
	g, err := n.Admin().Tenants.Create(t.Context(), "Walrus and Sons", "")
	if err != nil {
		t.Fatal(err)
	}
	theirs := n.WithKey(string(g.RawKey))
	truncated := func(n *apptest.Server) (run, token string) {
		run = n.StartRun(n.CreateAgent(nil), "Go.", object{"resource_limits": object{"max_steps": 0}})
		return run, n.WaitRun(run)["output"].(object)["continuation_token"].(string)
	}
	mine, own := truncated(n)
	another, same := truncated(n)
	foreign, token := truncated(theirs)
	for name, wrong := range map[string]string{"theirs": token, "of_another_run": same, "none": "none"} {
		r := n.Do("POST", "/api/v1/runs/"+mine+"/continue", object{"continuation_token": wrong})
		apptest.CheckCode(t, r, 422, "VALIDATION_ERROR")
		if strings.Contains(string(r.Body), wrong) && wrong != "none" {
			t.Errorf("%s: the token is in %s", name, r.Body)
		}
	}
	apptest.CheckCode(t, n.Do("POST", "/api/v1/runs/"+foreign+"/continue", object{"continuation_token": token}), 404, "NOT_FOUND")
	n.Expect(202, "POST", "/api/v1/runs/"+mine+"/continue", object{"continuation_token": own})
	n.Expect(202, "POST", "/api/v1/runs/"+another+"/continue", object{"continuation_token": same})
}

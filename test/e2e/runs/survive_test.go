package runs

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp/mcptest"
	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// A run that waits for a person keeps the version of its agent, however often the
// agent is edited meanwhile (rule D25-versions).
func TestEditsEndNoRun(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, calls("ask_user", `{"question":"Which?"}`)))
	agent := n.CreateAgent(object{"built_in_tools": []string{"ask_user"}})
	path := "/api/v1/agents/" + agent
	n.Expect(200, "PATCH", path, object{"description": "second"})
	kept := func(version int) bool { // comparing a version that is not kept is 404
		return n.Do("GET", fmt.Sprintf("%s/versions/%d/diff?compare_to=%d", path, version, version), nil).StatusCode == 200
	}
	id := n.StartRun(agent, "Go", nil)
	n.WaitStatus(id, "paused")
	for i := range 60 {
		n.Expect(200, "PATCH", path, object{"description": fmt.Sprint("edit ", i)})
	}
	if !kept(2) || kept(1) {
		t.Errorf("version 2 is kept: %v, version 1: %v", kept(2), kept(1))
	}
	if got := n.Expect(200, "POST", "/api/v1/runs/"+id+"/respond", object{"response": "That one."}); got["accepted"] != true {
		t.Errorf("%v", got)
	}
	if r := n.WaitRun(id); r["status"] != "completed" || r["agent_version"] != 2.0 {
		t.Errorf("the run is %v, %v, of version %v", r["status"], r["error"], r["agent_version"])
	}
	for i := range 10 { // then the version goes too
		n.Expect(200, "PATCH", path, object{"description": fmt.Sprint("later ", i)})
	}
	if kept(2) {
		t.Error("version 2 is kept though no run uses it")
	}
}

// A server that honours keys is called again with the same key where it is unknown
// whether the first call took effect (rule D22-keys).
func TestKeysAreHonoured(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string][]any{}
	server := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "pay"},
		func(ctx context.Context, r *mcp.CallToolRequest, in struct {
			Message string `json:"message"`
		}) (*mcp.CallToolResult, any, error) {
			mu.Lock()
			keys[in.Message] = append(keys[in.Message], r.Params.Meta["agentd/idempotency_key"])
			first := len(keys[in.Message]) == 1
			mu.Unlock()
			if first {
				<-ctx.Done()
			}
			return mcptest.Text("paid"), nil, nil
		})
	url := mcptest.Serve(t, mcptest.Handler(t, server))
	for _, honours := range []bool{true, false} {
		message := fmt.Sprint(honours)
		n := apptest.Start(t, modeltest.New(t, apptest.CallTool("pay", `{"message":"`+message+`"}`)), local)
		agent := n.CreateAgent(object{"mcp": object{"servers": []object{
			{"id": "b", "name": "Bank", "transport": "http", "url": url, "honours_idempotency_keys": honours},
		}}})
		late := n.StartRun(agent, "Pay.", object{"resource_limits": object{"max_duration_ms": 1500}})
		if r := n.WaitRun(late); r["status"] != "timeout" {
			t.Fatalf("the run is %v: %v", r["status"], r["error"])
		}
		r := n.WaitRun(n.Expect(202, "POST", "/api/v1/runs/"+late+"/continue", object{})["run_id"].(string))
		mu.Lock()
		got := keys[message]
		mu.Unlock()
		switch {
		case r["status"] != "completed":
			t.Errorf("honours %v: the run is %v: %v", honours, r["status"], r["error"])
		case honours && (len(got) != 2 || got[0] != got[1] || got[0] == nil):
			t.Errorf("the keys are %v", got)
		case !honours && len(got) != 1:
			t.Errorf("a server that honours no keys is called with %v", got)
		}
	}
}

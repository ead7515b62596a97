package runs

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// calls is a model that asks for one call and then answers with its result.
func calls(name, arguments string) modeltest.Option {
	return modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		messages := req.Chat().Messages
		if last := messages[len(messages)-1]; last.Role == "tool" {
			return modeltest.Answer{Text: "The result is: " + last.Text()}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: name, Arguments: arguments}}}
	})
}

// The inbox lists pending approvals; each is decided once and survives a
// restart (docs/approvals.md).
func TestApprovalInbox(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := apptest.Start(t, modeltest.New(t, calls("calculator", `{"expression":"6*7"}`)), adjust)
		agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}, "policies": object{
			"tool_approvals": []object{{"tool_name": "calculator", "approval": "when", "condition": `arguments.expression.contains("*")`}},
		}})
		first := n.StartRun(agent, "One", nil)
		n.WaitStatus(first, "awaiting_approval")
		second := n.StartRun(agent, "Two", nil) // later: the inbox is in the order of asking
		n.WaitStatus(second, "awaiting_approval")
		n.Stop()
		n = apptest.Restart(t, n.Config)

		inbox := n.Expect(200, "GET", "/api/v1/approvals?status=pending", nil)["items"].([]any)
		if len(inbox) != 2 || inbox[1].(object)["run_id"] != first || inbox[0].(object)["tool_name"] != "calculator" {
			t.Fatalf("the inbox: %v", inbox)
		}
		page := n.Expect(200, "GET", "/api/v1/approvals?status=pending&limit=1", nil)
		rest := n.Expect(200, "GET", "/api/v1/approvals?status=pending&limit=1&cursor="+page["cursor"].(string), nil)
		if page["has_more"] != true || rest["has_more"] != false || rest["items"].([]any)[0].(object)["run_id"] != first {
			t.Errorf("pages: %v, %v", page, rest)
		}
		approve := "/api/v1/runs/" + first + "/approve"
		for body, status := range map[string]int{
			`{"approved":false}`: 422, `{"arguments":[]}`: 422, `{"approval_id":"x"}`: 422,
			`{"approval_id":"` + inbox[0].(object)["approval_id"].(string) + `"}`: 404,
		} {
			n.Expect(status, "POST", approve, body)
		}
		for _, a := range n.Expect(200, "GET", "/api/v1/approvals?status=pending&fields=summary", nil)["items"].([]any) {
			if row := a.(object); row["arguments"] != nil || row["agent_name"] == nil || row["tool_name"] == nil {
				t.Errorf("the approval is %v", row)
			}
		}
		n.Expect(400, "GET", "/api/v1/approvals?status=sometimes", nil)
		n.Expect(409, "POST", "/api/v1/runs/"+first+"/resume", nil)
		n.Expect(409, "POST", "/api/v1/runs/"+first+"/respond", object{"response": "x"})

		if got := n.Expect(200, "POST", approve, object{"arguments": object{"expression": "1+1"}, "response": "Smaller."}); got["approved"] != true {
			t.Errorf("%v", got)
		}
		end := n.WaitRun(first)
		if text := end["output"].(object)["text"].(string); !strings.HasPrefix(text, "The result is: 2") || !strings.Contains(text, "Smaller.") {
			t.Errorf("%q", text)
		}
		n.Expect(409, "POST", approve, nil)
		n.Expect(200, "POST", "/api/v1/runs/"+second+"/reject", object{"reason": "No."})
		if end := n.WaitRun(second); end["status"] != "rejected" || end["error"] != "No." || end["error_code"] != "approval_rejected" {
			t.Errorf("%v", end)
		}
		one := n.Expect(200, "GET", "/api/v1/approvals/"+inbox[1].(object)["approval_id"].(string), nil)
		if one["status"] != "approved" || one["edited_arguments"].(object)["expression"] != "1+1" || one["decided_by"] == nil {
			t.Errorf("%v", one)
		}
		names := map[string]int{}
		for _, f := range n.ReadStream("/api/v1/runs/"+first+"/events", "", nil) {
			names[f.Name]++
		}
		for _, name := range []string{"approval.requested", "run.awaiting_approval", "approval.resolved", "run.resumed", "done"} {
			if names[name] != 1 {
				t.Errorf("%d events %s", names[name], name)
			}
		}
	})
}

// A rule that nobody could follow is refused where the agent is written.
func TestApprovalRulesAreChecked(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	for _, c := range []struct {
		policies object
		want     []string
	}{
		{
			object{"approval_timeout_ms": 0, "tool_approvals": []object{{"approval": "sometimes"}}},
			[]string{"policies.approval_timeout_ms", "policies.tool_approvals[0].approval", "policies.tool_approvals[0].tool_name"},
		},
		{
			object{"tool_approvals": []object{
				{"tool_name": "x", "approval": "when", "condition": "arguments."}, {"tool_name": "x", "approval": "never", "condition": "true"},
			}},
			[]string{"policies.tool_approvals[0].condition", "policies.tool_approvals[1].condition"},
		},
	} {
		r := n.Do("POST", "/api/v1/agents", object{"name": "a", "policies": c.policies})
		var fields []string
		for _, e := range r.JSON["errors"].([]any) {
			fields = append(fields, e.(object)["field"].(string))
		}
		if diff := cmp.Diff(c.want, fields); r.StatusCode != 422 || diff != "" {
			t.Errorf("%d %s", r.StatusCode, diff)
		}
	}
}

func TestQuestionsOverHTTP(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := apptest.Start(t, modeltest.New(t, calls("ask_user", `{"question":"Which?"}`)), adjust)
		id := n.StartRun(n.CreateAgent(object{"built_in_tools": []string{"ask_user"}}), "Go", nil)
		r := n.WaitStatus(id, "paused")
		if q := r["pending_input"].(object); q["question"] != "Which?" || q["input_id"] == nil {
			t.Errorf("%v", q)
		}
		n.Expect(400, "POST", "/api/v1/runs/"+id+"/respond", object{"response": "  "})
		n.Expect(422, "POST", "/api/v1/runs/"+id+"/respond", object{})
		n.Expect(409, "POST", "/api/v1/runs/"+id+"/resume", nil)
		n.Expect(200, "POST", "/api/v1/runs/"+id+"/respond", object{"response": "This one."})
		if end := n.WaitRun(id); end["output"].(object)["text"] != "The result is: This one." || end["pending_input"] != nil {
			t.Errorf("%v", end)
		}
		n.Expect(409, "POST", "/api/v1/runs/"+id+"/respond", object{"response": "late"})
	})
}

func TestPauseOverHTTP(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "Done.", TTFT: 300 * time.Millisecond})))
	id := n.StartRun(n.CreateAgent(nil), "Go", nil)
	if got := n.Expect(200, "POST", "/api/v1/runs/"+id+"/pause", nil); got["paused"] != true || got["run_id"] != id {
		t.Errorf("%v", got)
	}
	if r := n.WaitStatus(id, "paused"); r["output"] != nil {
		t.Errorf("the answer is not held: %v", r["output"])
	}
	n.Expect(422, "POST", "/api/v1/runs/"+id+"/resume", object{"input": object{"note": 1}})
	n.Expect(202, "POST", "/api/v1/runs/"+id+"/resume", object{"input": object{"note": "Again, please."}})
	if end := n.WaitRun(id); end["status"] != "completed" || end["metrics"].(object)["llm_calls_count"] != 2.0 {
		t.Errorf("%v", end)
	}
	steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
	if len(steps) != 3 || steps[1].(object)["type"] != "input" {
		t.Errorf("%v", steps)
	}
}

// What a limit cut off goes on in a new run, which knows the conversation.
func TestContinue(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(modeltest.ToolRounds(2, modeltest.Answer{Text: "Half."})))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	id := n.StartRun(agent, "Work.", object{"resource_limits": object{"max_tool_calls": 1}})
	out := n.WaitRun(id)["output"].(object)
	token, _ := out["continuation_token"].(string)
	if out["truncated"] != true || token == "" {
		t.Fatalf("%v", out)
	}
	other := n.StartRun(agent, "Work.", object{"resource_limits": object{"max_tool_calls": 1}})
	n.WaitRun(other)
	n.Expect(422, "POST", "/api/v1/runs/"+other+"/continue", object{"continuation_token": token})
	n.Expect(422, "POST", "/api/v1/runs/"+id+"/continue", object{"continuation_token": "x"})
	next := n.Expect(202, "POST", "/api/v1/runs/"+id+"/continue", object{"continuation_token": token})
	if next["run_id"] == id || next["continued"] != true {
		t.Errorf("%v", next)
	}
	end := n.WaitRun(next["run_id"].(string))
	if end["status"] != "completed" || end["metadata"].(object)["continued_from"] != id {
		t.Errorf("%v", end)
	}
	requests := sim.Requests()
	var told []string
	for _, m := range requests[len(requests)-1].Chat().Messages {
		told = append(told, m.Role)
	}
	if strings.Join(told[:5], " ") != "user assistant tool assistant user" {
		t.Errorf("the conversation: %v", told)
	}
}

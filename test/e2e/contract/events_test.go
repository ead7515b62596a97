package contract

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/agents/mcp/mcptest"
	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// unseenEvents are published events that this test does not provoke, and why.
var unseenEvents = map[string]string{
	"error": "sent only when the database fails while a stream is open",
}

// The events of a stream are as the document publishes them, both live and when
// they are read again from the database (rule X-events-published).
func TestEventsAreAsPublished(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	sim := modeltest.New(t, modeltest.Respond(breaksOnce(answerByMessage)))
	n := apptest.Start(t, nil, apptest.WithModels(t, sim, `[{"id":"sim-model","context_window":1500}]`),
		func(c *config.Config) { c.Security.EgressAllow = "127.0.0.0/8" })
	e := &eventChecker{n: n, op: contracttest.Operations(n)[0], seen: map[string]bool{}}
	for name, provoke := range map[string]func(*testing.T, *eventChecker){
		"approval": approvalEvents, "input": inputEvents, "pause": pauseEvents, "guardrail": guardrailEvents,
		"memory": memoryEvents, "ends": endEvents, "authorization": authorizationEvents, "session": sessionEvents,
		"rules": ruleEvents, "machine": machineEvents, "outcome": outcomeEvents,
	} {
		t.Run(name, func(t *testing.T) { provoke(t, e) })
	}
	for _, union := range []string{"RunEvent", "SessionEvent"} {
		for name := range e.union(union).Kinds.Mapping {
			if seen := e.seen[union+" "+name] || e.seen["RunEvent "+name] && union == "SessionEvent"; seen == (unseenEvents[name] != "") {
				t.Errorf("%s %s: seen is %t, the reason not to see it is %q", union, name, seen, unseenEvents[name])
			}
		}
	}
}

// breaksOnce is a model whose first answer to the message "break" breaks off.
func breaksOnce(answer func(modeltest.Request) modeltest.Answer) func(modeltest.Request) modeltest.Answer {
	var broken atomic.Bool
	return func(req modeltest.Request) modeltest.Answer {
		if req.Chat().Last(model.User) == "break" && broken.CompareAndSwap(false, true) {
			return modeltest.Answer{Text: "one two three", BreakAfter: 2}
		}
		return answer(req)
	}
}

// answerByMessage is a model that does what the user's first message asks for.
func answerByMessage(req modeltest.Request) modeltest.Answer {
	chat := req.Chat()
	call := func(tool, arguments string) modeltest.Answer {
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: tool, Arguments: arguments}}}
	}
	last := chat.Messages[len(chat.Messages)-1]
	if last.Role != "user" {
		return modeltest.Answer{Text: "It says: " + last.Text()}
	}
	switch last.Text() {
	case "calculate":
		return call("calculator", `{"expression":"6*7"}`)
	case "ask":
		return call("ask_user", `{"question":"Which?"}`)
	case "connect":
		return call("weather_connect", `{}`)
	case "slowly":
		return modeltest.Answer{Text: "At last.", TTFT: 300 * time.Millisecond}
	case "fail":
		return modeltest.Answer{Status: 400, Error: "no"}
	case "hang":
		return modeltest.Answer{HangFirst: true}
	}
	return modeltest.Answer{Thinking: "hm", Text: "one two"}
}

// eventChecker compares the frames of streams with their published schemas.
type eventChecker struct {
	n    *apptest.Server
	op   *contracttest.Operation
	seen map[string]bool // by union and name
}

// union returns the published schema of the events of a stream.
func (e *eventChecker) union(name string) *contracttest.Schema {
	return e.op.Resolve(&contracttest.Schema{Ref: "#/components/schemas/" + name})
}

// check compares the frames of a stream with the schemas of a union.
func (e *eventChecker) check(t *testing.T, union string, frames []apptest.Frame) {
	t.Helper()
	kinds := e.union(union).Kinds
	for _, f := range frames {
		if f.Data == "[DONE]" {
			continue
		}
		o := f.Object(t)
		ref := kinds.Mapping[f.Name]
		if o[kinds.PropertyName] != f.Name || ref == "" {
			t.Errorf("the event %q is published as %q: %s", f.Name, ref, f.Data)
			continue
		}
		e.seen[union+" "+f.Name] = true
		for _, complaint := range compareWithSchema(e.op, &contracttest.Schema{Ref: ref}, o, f.Name) {
			t.Errorf("%s: %s\n%s", union, complaint, f.Data)
		}
	}
}

// run starts a run, follows it while act does something about it, and checks its
// events, live and replayed.
func (e *eventChecker) run(t *testing.T, agent, message string, fields object, act func(path string)) {
	t.Helper()
	id := e.n.StartRun(agent, message, fields)
	path := "/api/v1/runs/" + id
	live := make(chan []apptest.Frame, 1)
	go func() { live <- e.n.ReadStream(path+"/events", "", nil) }()
	if act != nil {
		act(path)
	}
	e.n.WaitRun(id)
	e.check(t, "RunEvent", <-live)
	e.check(t, "RunEvent", e.n.ReadStream(path+"/events", "nonsense", nil)) // begins with a gap
}

// waitFor waits until a run has a status that is not final.
func (e *eventChecker) waitFor(path, status string) object {
	return e.n.WaitStatus(strings.TrimPrefix(path, "/api/v1/runs/"), status)
}

func approvalEvents(t *testing.T, e *eventChecker) {
	agent := e.n.CreateAgent(object{"built_in_tools": []string{"calculator"}, "policies": object{
		"tool_approvals": []object{{"tool_name": "calculator", "approval": "always"}},
	}})
	decide := func(how string, body object) func(string) {
		return func(path string) {
			e.waitFor(path, "awaiting_approval")
			e.n.Expect(200, "POST", path+how, body)
		}
	}
	e.run(t, agent, "calculate", nil, decide("/approve", nil))
	e.run(t, agent, "calculate", nil, decide("/approve", object{"arguments": object{"expression": "1+1"}, "response": "Smaller."}))
	e.run(t, agent, "calculate", nil, decide("/reject", object{"reason": "No."}))
}

func inputEvents(t *testing.T, e *eventChecker) {
	e.run(t, e.n.CreateAgent(object{"built_in_tools": []string{"ask_user"}}), "ask", nil, func(path string) {
		e.waitFor(path, "paused")
		e.n.Expect(200, "POST", path+"/respond", object{"response": "This one."})
	})
}

func pauseEvents(t *testing.T, e *eventChecker) {
	e.run(t, e.n.CreateAgent(nil), "slowly", nil, func(path string) {
		e.n.Expect(200, "POST", path+"/pause", nil)
		e.waitFor(path, "paused")
		e.n.Expect(202, "POST", path+"/resume", object{"input": object{"note": "Again, please."}})
	})
}

func guardrailEvents(t *testing.T, e *eventChecker) {
	rule := e.n.CreateGuardrail(object{"name": "no bombs", "kind": "keyword", "stage": "both", "config": object{"keywords": []string{"bomb"}}})
	e.run(t, e.n.CreateGuardedAgent(object{"input": apptest.GuardrailRef(rule)}), "a bomb", nil, nil)
	e.run(t, e.n.CreateGuardedAgent(object{"built_in": []string{"pii"}}), "I am jane@example.com", nil, nil)
}

func ruleEvents(t *testing.T, e *eventChecker) {
	agent := e.n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	e.n.Expect(200, "PUT", "/api/v1/governance/constitution", object{"rules": []object{{
		"rule_id": "sums", "principle": "No sums.", "action": "tool:calculator", "scope": "agent", "scope_targets": []string{agent},
	}}})
	e.run(t, agent, "calculate", nil, nil)
}

func outcomeEvents(t *testing.T, e *eventChecker) {
	agent := e.n.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
	e.run(t, agent, "Pass the salt.", object{"outcome": object{"criteria": []object{{"name": "polite", "description": `It says "please".`}}}}, nil)
}

func memoryEvents(t *testing.T, e *eventChecker) {
	agent := e.n.CreateAgent(object{"memory": object{"enabled": true}})
	e.n.Expect(201, "POST", "/api/v1/agents/"+agent+"/memory", object{"content": "The cat is called Mia."})
	e.run(t, agent, "What is my cat called?", nil, nil)
}

// endEvents are those of a long conversation, and of runs that do not complete.
func endEvents(t *testing.T, e *eventChecker) {
	agent := e.n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	var history []object
	for i := range 30 {
		history = append(history, object{"role": "user", "text": fmt.Sprint(i, strings.Repeat(" word", 60))}, object{"role": "assistant", "text": "yes"})
	}
	e.run(t, e.n.CreateAgent(nil), "", object{"input": object{"message": "And now?", "history": history}}, nil)
	e.run(t, agent, "calculate", nil, nil)
	e.run(t, agent, "fail", nil, nil)
	e.run(t, agent, "break", nil, nil)
	e.run(t, agent, "hang", object{"resource_limits": object{"max_duration_ms": 1000}}, nil)
	e.run(t, agent, "hang", nil, func(path string) { e.n.Expect(200, "POST", path+"/cancel", nil) })
}

func authorizationEvents(t *testing.T, e *eventChecker) {
	p := mcptest.NewProtected(t, mcptest.New())
	agent := e.n.CreateAgent(nil)
	e.n.CreateMCPServer(object{"url": p.URL, "assigned_agent_ids": []string{agent}})
	e.run(t, agent, "connect", nil, func(path string) {
		e.waitFor(path, "auth_required")
		e.n.Expect(200, "POST", path+"/cancel", nil)
	})
}

func machineEvents(t *testing.T, e *eventChecker) {
	agent := e.n.Expect(201, "POST", "/api/v1/bridge/register", object{
		"machine_id": "build-7", "capabilities": []string{"read_file"}, "working_directory": "/work", "version": "1",
	})["agent_id"].(string)
	e.run(t, agent, "work", nil, func(path string) {
		apptest.Eventually(t, func() bool { return e.n.Expect(200, "GET", path, nil)["waiting_for"] == "machine" })
		for _, event := range []object{
			{"type": "status", "status": "working"}, {"type": "metrics", "metrics": object{"tool_calls_count": 1}},
			{"type": "completed", "message": "Done."},
		} {
			event["timestamp"] = "2026-11-27T12:00:00Z"
			e.n.Expect(200, "POST", "/api/v1/bridge/tasks/"+strings.TrimPrefix(path, "/api/v1/runs/")+"/events", event)
		}
	})
}

func sessionEvents(t *testing.T, e *eventChecker) {
	id := e.n.CreateSession(e.n.CreateAgent(nil), nil)
	path := "/api/v1/sessions/" + id
	live := make(chan []apptest.Frame, 1)
	go func() { live <- e.n.ReadStream(path+"/events", "", nil) }()
	e.n.WaitRun(e.n.SendMessage(id, "Hello?"))
	e.n.Expect(200, "DELETE", path, nil)
	e.check(t, "SessionEvent", <-live)
	frames := e.n.ReadStream(path+"/events", "nonsense", nil)
	e.check(t, "SessionEvent", frames)
	if names := apptest.FrameNames(frames); !slices.Contains(names, "gap") || !slices.Contains(names, "done") {
		t.Errorf("the stream of the session is %v", names)
	}
}

package agui

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// Whatever a page sends is converted, or refused with the fields that are wrong.
func FuzzInput(f *testing.F) {
	f.Add(`{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"url","value":"https://a/b"}}]}],"state":{"a":[1]}}`)
	f.Add(`{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":[{"type":"binary","mimeType":"image/png","data":"aaaa"}]},{"id":"a","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"n","arguments":"{"}}]},{"id":"t","role":"tool","toolCallId":"c","content":null}],"tools":[{"name":"n"}]}`)
	f.Add(`{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"i","status":"resolved","payload":{"approved":true}}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		in, err := schema.Decode[RunInput]([]byte(body))
		if err != nil {
			return
		}
		page, err := in.page("agent")
		if err != nil {
			if f := fault.From(err); f.Kind != fault.Invalid || len(f.Fields) == 0 {
				t.Errorf("%v", err)
			}
			return
		}
		for _, m := range page.Messages {
			if m.Role == model.Tool && m.CallID == "" {
				t.Errorf("a result of no call: %+v", m)
			}
			for _, p := range m.Parts {
				if !p.IsValid() {
					t.Errorf("a part %q", p)
				}
			}
		}
		waiting := &run.Run{PendingApprovals: []run.PendingApproval{{ApprovalID: "i"}}}
		if r, err := in.resumption(waiting); err == nil && len(r.answers) == 1 && r.answers[0].Approved {
			if payload := in.Resume[0].Payload; payload.Kind() != '{' {
				t.Errorf("%s approves", payload)
			}
		}
	})
}

func TestOnlyTheFormThatWasAskedForApproves(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]bool{
		`{"approved":true}`: true, `{"approved":true,"reason":"yes"}`: true, `{"approved":false}`: true,
		`{"approved":1}`: false, `{"approved":true,"edits":{}}`: false, `{}`: false, `null`: false, `true`: false, `"yes"`: false, `[]`: false, ``: false,
	} {
		_, wrong := (&Resume{InterruptID: "i", Payload: jsontext.Value(payload)}).answer("tool_call")
		if (wrong == "") != want {
			t.Errorf("%s: %q", payload, wrong)
		}
	}
}

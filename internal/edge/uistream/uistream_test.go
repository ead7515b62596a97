package uistream

import (
	"testing"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
)

// Whatever a chat sends is converted, or refused with the fields that are wrong.
func FuzzInput(f *testing.F) {
	f.Add(`{"id":"c","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"},{"type":"file","mediaType":"image/png","url":"data:image/png;base64,aaaa"}]}]}`)
	f.Add(`{"id":"c","tools":{"paint":{"inputSchema":{}}},"messages":[{"id":"a","role":"assistant","parts":[{"type":"step-start"},{"type":"tool-paint","toolCallId":"k","state":"output-available","input":{},"output":[1]},{"type":"text","text":"x"}]}]}`)
	f.Add(`{"id":"c","messages":[{"id":"a","role":"assistant","parts":[{"type":"dynamic-tool","toolName":"x","toolCallId":"k","state":"approval-responded","approval":{"id":"i","approved":true}}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		in, err := schema.Decode[ChatInput]([]byte(body))
		if err != nil {
			return
		}
		req, err := in.read("agent")
		if err != nil {
			if f := fault.From(err); f.Kind != fault.Invalid || len(f.Fields) == 0 {
				t.Errorf("%v", err)
			}
			return
		}
		for _, m := range req.Messages {
			if m.Role == model.Assistant && m.Reply != m.ID {
				t.Errorf("an answer without an id: %+v", m)
			}
			for _, p := range m.Parts {
				if !p.IsValid() {
					t.Errorf("a part %q", p)
				}
			}
		}
	})
}

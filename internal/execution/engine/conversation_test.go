package engine

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// The agent's prompt comes first, and the caller's instructions come before the
// user's last message.
func TestOpening(t *testing.T) {
	t.Parallel()
	const instructions = "Instructions of the caller:\nRhyme."
	user := func(text string) model.Message { return model.Message{Role: model.User, Text: text} }
	system := model.Message{Role: model.System, Text: "You are the agent."}
	calls := model.Message{Role: model.Assistant, ToolCalls: []model.ToolCall{{ID: "c", Name: "t", Arguments: "{}"}}}
	result := model.Message{Role: model.Tool, ToolCallID: "c", Text: "42"}
	image := jsontext.Value(`{"type":"image_url","image_url":{"url":"x"}}`)
	for _, tt := range []struct {
		name string
		in   run.Input
		want []model.Message
	}{
		{"message", run.Input{Message: "One?"}, []model.Message{system, user("One?")}},
		{"instructed", run.Input{Message: "One?", Instructions: "Rhyme."}, []model.Message{system, user(instructions + "\n\nOne?")}},
		{"only-instructions", run.Input{Instructions: "Rhyme."}, []model.Message{system, user(instructions)}},
		{"nothing", run.Input{}, []model.Message{system, user("")}},
		{
			"conversation", run.Input{Message: "Two?", Instructions: "Rhyme.", History: []model.Message{user("One?"), {Role: model.Assistant, Text: "One."}}},
			[]model.Message{system, user("One?"), {Role: model.Assistant, Text: "One."}, user(instructions + "\n\nTwo?")},
		},
		{
			"tool-result", run.Input{Instructions: "Rhyme.", History: []model.Message{user("One?"), calls, result}},
			[]model.Message{system, user(instructions + "\n\nOne?"), calls, result},
		},
		{
			"no-user", run.Input{Instructions: "Rhyme.", History: []model.Message{calls, result}},
			[]model.Message{system, calls, result, user(instructions)},
		},
		{
			"image", run.Input{Message: "What?", Instructions: "Rhyme.", Parts: []jsontext.Value{image}},
			[]model.Message{system, {Role: model.User, Text: "What?", Parts: []jsontext.Value{
				jsontext.Value(`{"type":"text","text":"Instructions of the caller:\nRhyme."}`), image,
			}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rec := &run.Record{Parsed: &tt.in}
			c := &conversation{j: &journal{rec: rec}, spec: &run.AgentSpec{System: "You are the agent."}}
			for range 2 { // the parsed input is not changed: it may be needed again
				if diff := cmp.Diff(tt.want, c.opening(rec.ParsedInput(), nil, nil)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

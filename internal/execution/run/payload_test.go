package run_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// The text of a chunk is in both places that clients read, whatever is in it.
func TestTextOfChunksIsInBothPlaces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, data string
		both       bool
	}{
		{"llm.chunk", `{"text":"Hello"}`, true},
		{"llm.thinking", `{"text":""}`, true},
		{"llm.chunk", `{"text":"a \"quoted\" \\ \u2028 word\n","step_id":"s"}`, true},
		{"llm.completed", `{"tool_calls":[]}`, false},
		{"llm.completed", `{"text":null}`, false},
		{"tool.call", `{"text":"x"}`, false},
		{"llm.chunk", `{}`, false},
	} {
		f := run.EventFrame("r", "s", event.Event{Seq: 1, Name: tt.name, Data: jsontext.Value(tt.data)})
		var got struct {
			Text    jsontext.Value
			Payload *struct{ Delta jsontext.Value }
		}
		if err := json.Unmarshal(f.Data, &got, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatalf("%s: %v", f.Data, err)
		}
		if both := got.Payload != nil && string(got.Payload.Delta) == string(got.Text); both != tt.both {
			t.Errorf("%s %s became %s", tt.name, tt.data, f.Data)
		}
	}
}

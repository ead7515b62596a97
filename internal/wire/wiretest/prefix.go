package wiretest

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/model"
)

// prefix: the body of each call begins as that of the call before and has all of it, but for
// the marks of what is to be cached: over a loop of tools, and with the next message (rule
// D23-layout).
func (s *suite) prefix(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		thought := append([]Block{{Thinking: "I need three.", Signature: "c2lnbmVk"}, {Text: "Let me see."}}, three()...)
		e := s.endpoint(t, Reply{Answer: Answer{Blocks: thought}}, say("Rain everywhere."), say("You are welcome."))
		req := hello()
		req.Tools, req.CacheKey = []model.ToolSpec{weather}, "k"
		client, target := s.new(), s.p.Target(e.URL)
		for _, next := range []string{"Thanks.", "", ""} {
			resp, _, err := e.Call(t, client, req, stream)
			if err != nil {
				t.Fatal(err)
			}
			req.Messages = append(req.Messages, model.Message{
				Role: model.Assistant, Text: resp.Text, ToolCalls: resp.ToolCalls, Opaque: model.Opaque{Source: target.Source(), Data: resp.Opaque},
			})
			for _, c := range resp.ToolCalls {
				req.Messages = append(req.Messages, model.Message{Role: model.Tool, ToolCallID: c.ID, Name: c.Name, Text: "rain"})
			}
			if resp.ToolCalls == nil {
				req.Messages = append(req.Messages, model.Message{Role: model.User, Text: "Thanks. " + next})
			}
		}
		asked := e.Asked()
		if len(asked) != 3 {
			t.Fatalf("%d calls", len(asked))
		}
		for i := range asked[1:] {
			before, conversation := promptOf(t, asked[i].Body)
			after, longer := promptOf(t, asked[i+1].Body)
			if !reflect.DeepEqual(before, after) {
				t.Errorf("call %d differs beside the conversation:\n%v\n%v", i+2, before, after)
			}
			if n := len(conversation); n == 0 || len(longer) <= n || !reflect.DeepEqual(conversation, longer[:n]) {
				t.Errorf("call %d does not begin as the one before:\n%v\n%v", i+2, conversation, longer)
			}
		}
	})
}

// promptOf returns the body of a call without its conversation, and the conversation, both
// without marks of what is to be cached.
func promptOf(t *testing.T, body string) (rest map[string]any, conversation []any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &rest); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"messages", "contents", "input"} {
		if list, ok := rest[name].([]any); ok {
			conversation = unmarked(list).([]any)
			delete(rest, name)
		}
	}
	return unmarked(rest).(map[string]any), conversation
}

// unmarked returns a value without cache_control and without blocks that are a cachePoint.
func unmarked(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		delete(out, "cache_control")
		for name := range out {
			out[name] = unmarked(out[name])
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			if m, ok := item.(map[string]any); !ok || m["cachePoint"] == nil {
				out = append(out, unmarked(item))
			}
		}
		return slices.Clip(out)
	}
	return v
}

package visitor

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/route"
	"agentd/internal/execution/run"
)

// inside is the data of an event with everything that events of a company have.
const inside = `{"event":"x","session_id":"s","run_id":"r","seq":3,"timestamp":"2026-09-10T12:00:00Z","stream_type":"tool","status":"STATUS",
	"text":"TEXT","payload":{"delta":"TEXT","more":"SECRET"},"question":"QUESTION","input_id":"SECRET","step_id":"SECRET","step_seq":4,
	"tool_call_id":"SECRET","name":"SECRET","arguments":{"a":"SECRET"},"output":OUTPUT,"metrics":{"total_cost_usd":1},"cost_usd":1,
	"error":"SECRET","error_code":"SECRET","approval_id":"SECRET","response":"SECRET","entries":["SECRET"],"reason":"SECRET",
	"code":"SECRET","detail":"SECRET","dropped":2,"active_branch":"SECRET","branch_id":"SECRET","turn":7,"attempt":3,"model":"SECRET",
	"usage":{"input_tokens":5},"finish_reason":"SECRET","server_id":"SECRET","guardrail_id":"SECRET","decided_by":"SECRET"}`

// Every event of a company's stream becomes a frame of members that are listed here, or
// none.
func TestNothingOfTheInsideGetsOut(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"event", "session_id", "run_id", "status", "text", "payload", "question", "output", "dropped", "code", "detail", "stream_type", "timestamp",
	}
	outside := map[string]bool{}
	names := []string{"session.connected", "run_added", "session_closed", "gap", "error", "unknown.event", ""}
	for _, e := range run.Events.Of {
		names = append(names, e.Name)
	}
	for _, name := range names {
		for _, output := range []string{`"SECRET"`, `{"text":"ANSWER","sources":["SECRET"],"tool_calls":[{"name":"SECRET"}]}`, `null`} {
			for _, status := range []string{"completed", "failed", "guardrail_blocked", "cancelled", "awaiting_approval"} {
				data := strings.NewReplacer("OUTPUT", output, "STATUS", status).Replace(inside)
				f, ok := outwardFrame(route.Frame{ID: "r:3", Name: name, Data: []byte(data), Wire: []byte("SECRET")})
				if !ok {
					continue
				}
				outside[name] = true
				var members map[string]any
				if err := json.Unmarshal(f.Data, &members); err != nil {
					t.Fatal(err)
				}
				for member := range members {
					if !slices.Contains(allowed, member) {
						t.Errorf("%s has %s", name, member)
					}
				}
				if strings.Contains(string(f.Data)+f.Name+string(f.Wire), "SECRET") || members["event"] != f.Name || f.ID != "r:3" {
					t.Errorf("%s: %s %s", name, f.Name, f.Data)
				}
				if f.Name == "done" && strings.Contains(string(f.Data), "ANSWER") && status != "completed" && status != "cancelled" {
					t.Errorf("what a run that is %s said gets out: %s", status, f.Data)
				}
			}
		}
	}
	for _, name := range []string{"tool.call", "tool.result", "llm.thinking", "memory.retrieved", "governance.decided", "approval.requested", "unknown.event"} {
		if outside[name] {
			t.Errorf("%s gets out", name)
		}
	}
	if !outside["llm.chunk"] || !outside["done"] || !outside["input.requested"] {
		t.Errorf("what gets out: %v", outside)
	}
	if _, ok := outwardFrame(route.Frame{Name: "llm.chunk", Data: []byte("no JSON")}); ok {
		t.Error("data that cannot be read gets out")
	}
}

// The published events are those that are sent, with the members that they have.
func TestPublishedEvents(t *testing.T) {
	t.Parallel()
	published := map[string]bool{}
	for _, e := range events.Of {
		published[e.Name] = true
		f, ok := outwardFrame(route.Frame{ID: "r:3", Name: e.Name, Data: []byte(strings.NewReplacer("OUTPUT", `{"text":"ANSWER"}`, "STATUS", "completed").Replace(inside))})
		if !ok {
			t.Errorf("%s is published and never sent", e.Name)
			continue
		}
		known := []string{"event"}
		for _, of := range []reflect.Type{events.Common, e.Data} {
			for field := range of.Fields() {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				known = append(known, name)
			}
		}
		var members map[string]any
		if err := json.Unmarshal(f.Data, &members); err != nil {
			t.Fatal(err)
		}
		for member := range members {
			if !slices.Contains(known, member) {
				t.Errorf("%s sends %s, which is not published", e.Name, member)
			}
		}
	}
	for _, name := range outwardName {
		if !published[name] {
			t.Errorf("%s is sent and not published", name)
		}
	}
}

func TestImageType(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, head := range []string{
		"\x89PNG\r\n\x1a\n...", "\xff\xd8\xff\xe0", "GIF89a;", "RIFF....WEBPVP8 ", "RIFF....WAVE", "<svg xmlns", "%PDF-1.7", "",
	} {
		got[head] = imageType([]byte(head))
	}
	if diff := cmp.Diff(map[string]string{
		"\x89PNG\r\n\x1a\n...": "image/png", "\xff\xd8\xff\xe0": "image/jpeg", "GIF89a;": "image/gif", "RIFF....WEBPVP8 ": "image/webp",
		"RIFF....WAVE": "", "<svg xmlns": "", "%PDF-1.7": "", "": "",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzOutwardFrame(f *testing.F) {
	f.Add("llm.chunk", `{"text":"a"}`)
	f.Add("done", `{"status":"completed","output":{"text":"x"}}`)
	f.Fuzz(func(t *testing.T, name, data string) {
		if out, ok := outwardFrame(route.Frame{Name: name, Data: []byte(data)}); ok {
			var read frame
			if err := json.Unmarshal(out.Data, &read, json.RejectUnknownMembers(true)); err != nil {
				t.Errorf("%s: %v", out.Data, err)
			}
		}
	})
}

package a2a

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func text(s string) Part { return Part{Type: TextPart, Text: s} }

func says(parts ...Part) Message { return Message{Role: User, Parts: parts} }

func sent(name, kind, data string) Part {
	return Part{Type: FilePart, File: &File{Name: name, MimeType: kind, Data: base64.StdEncoding.EncodeToString([]byte(data))}}
}

func TestInput(t *testing.T) {
	t.Parallel()
	in, err := input([]Message{
		says(text("one")), {Role: Agent, Parts: []Part{text("two")}},
		says(text("three"), Part{Type: DataPart, Data: jsontext.Value(`{"k":1}`)}, sent("a.txt", "text/plain", "content"),
			Part{Type: FilePart, File: &File{Name: "far", URI: "https://example.com/far"}}, sent("b.bin", "application/x", "\xff\x00")),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"three", `{"k":1}`, `"a.txt" was sent`, "content", "https://example.com/far; it was not fetched", "application/x, 2 bytes"} {
		if !strings.Contains(in.Message, want) {
			t.Errorf("%q is missing in %q", want, in.Message)
		}
	}
	if len(in.History) != 2 || in.History[0].Role != model.User || in.History[1].Role != model.Assistant || in.History[1].Text != "two" || in.Parts != nil {
		t.Errorf("%+v", in)
	}
	in, err = input([]Message{says(text("look"), sent("p.png", "image/png", "png"), sent("d.pdf", "application/pdf", "pdf"))})
	if err != nil || in.Message != "look" || len(in.Parts) != 3 {
		t.Fatalf("%+v, %v", in, err)
	}
	if got := string(in.Parts[1]) + string(in.Parts[2]); !strings.Contains(got, "data:image/png;base64,") || !strings.Contains(got, `"filename":"d.pdf"`) {
		t.Errorf("%s", got)
	}
	many := make([]Message, maxMessages+1)
	for name, bad := range map[string][]Message{
		"none": nil, "too many": many, "a role": {{Role: "x", Parts: []Part{text("a")}}}, "the agent is last": {{Role: Agent, Parts: []Part{text("a")}}},
		"blank": {says(text(" "))}, "no parts": {says()}, "only an address": {says(Part{Type: FilePart, File: &File{URI: "https://example.com"}})},
		"no file": {says(Part{Type: FilePart})}, "no content": {says(Part{Type: FilePart, File: &File{}})}, "no data": {says(Part{Type: DataPart})},
		"no type": {says(Part{})}, "no base64": {says(Part{Type: FilePart, File: &File{Data: "%"}})},
		"too large": {says(text(strings.Repeat("x", maxText+1)))}, "too many parts": {says(make([]Part, maxParts+1)...)},
	} {
		if _, err := input(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	why := "Why."
	for _, status := range run.Statuses {
		want := map[run.Status]State{
			run.Queued: Submitted, run.Running: Working, run.Completed: Completed, run.Cancelled: Canceled, run.Paused: Working,
			run.AwaitingApproval: InputRequired, run.AuthRequired: InputRequired,
		}[status]
		if want == "" {
			want = Failed
		}
		got, message := stateOf(&run.Run{Status: status, Error: &why}, nil)
		if got != want || got.Final() != status.Final() || want == Failed && message != why {
			t.Errorf("%s is %s, %q", status, got, message)
		}
	}
	if got, message := stateOf(&run.Run{Status: run.Paused}, &run.PendingInput{Question: "Which?"}); got != InputRequired || message != "Which?" {
		t.Errorf("%s, %q", got, message)
	}
}

// Whatever a peer sends as a part is content for a model or a refusal that names it.
func FuzzContent(f *testing.F) {
	f.Add("user", "text", "hello", "", "", "", "")
	f.Add("user", "file", "", "a", "image/png", "aGk=", "")
	f.Add("agent", "file", "", "\xff", "text/plain;charset=x", "/w==", "http://x")
	f.Fuzz(func(t *testing.T, role, kind, words, name, mime, data, uri string) {
		m := Message{Role: role, Parts: []Part{{Type: kind, Text: words, File: &File{Name: name, MimeType: mime, Data: data, URI: uri}, Data: jsontext.Value(data)}}}
		got, parts, err := content("m", &m)
		if err != nil {
			if f := fault.From(err); f.Kind != fault.Invalid {
				t.Errorf("%v", err)
			}
			return
		}
		for _, p := range parts {
			if !p.IsValid(jsontext.AllowInvalidUTF8(true)) {
				t.Errorf("%q", p)
			}
		}
		if got == "" && len(parts) == 0 {
			t.Errorf("%+v has no content", m)
		}
	})
}

package openai

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/run"
	"agentd/internal/goldentest"
)

// Every file of testdata/requests is a request; the file .want beside it is the
// run that it becomes, or how it is refused.
func TestRequests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d requests: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out, refused := readTranscript(t, body)
			if refused != strings.HasPrefix(name, "refused-") {
				t.Errorf("refused: %t", refused)
			}
			goldentest.Check(t, "testdata/requests/"+name+".want", out)
		})
	}
}

// read decodes a body as the handler does.
func read(body []byte) (*ChatRequest, run.Request, error) {
	req, err := schema.Decode[ChatRequest](body)
	if err != nil {
		return nil, run.Request{}, err
	}
	start, err := req.RunRequest()
	return req, start, err
}

func readTranscript(t *testing.T, body []byte) (out []byte, refused bool) {
	t.Helper()
	req, start, err := read(body)
	if err != nil {
		status, e := httpapi.Classify(err)
		return fmt.Appendf(nil, "%d\n%s", status, pretty(t, newEnvelope(e))), true
	}
	return pretty(t, struct {
		Model    string        `json:"model"`
		Streams  bool          `json:"streams"`
		Usage    bool          `json:"include_usage"`
		Input    schema.Object `json:"input"`
		Metadata schema.Object `json:"metadata"`
		Options  run.Options   `json:"options"`
	}{req.Model, req.Streams(), req.IncludeUsage(), start.Input, start.Metadata, start.Options}), false
}

func TestEverythingIsSaidToTheRun(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 300<<10)
	_, start, err := read([]byte(`{"model":"m","messages":[{"role":"user","content":"` + body + `"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var in run.Input
	if err := json.Unmarshal(start.Input, &in); err != nil || in.Message != body {
		t.Errorf("%d bytes arrived: %v", len(in.Message), err)
	}
}

// Whatever bytes come, they are refused as a caller's fault or become a run
// whose parts can be stored and read again.
func FuzzChatRequest(f *testing.F) {
	goldentest.Seed(f, "testdata/requests/*.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		req, start, err := read(body)
		if err != nil {
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Kind != fault.Malformed && e.Kind != fault.Invalid {
				t.Fatalf("refused as %v", err)
			}
			if _, err := encodeEnvelope(e); err != nil {
				t.Fatalf("the refusal cannot be sent: %v", err)
			}
			return
		}
		var in run.Input
		if err := json.Unmarshal(start.Input, &in); err != nil {
			t.Fatalf("the input %s: %v", start.Input, err)
		}
		if in.Message == "" && in.Parts == nil && in.History == nil && in.Instructions == "" {
			t.Fatalf("an empty run from %s", body)
		}
		if !jsontext.Value(start.Metadata).IsValid() {
			t.Fatalf("the metadata %s", start.Metadata)
		}
		if _, err := json.Marshal(start.Options); err != nil {
			t.Fatalf("the options: %v", err)
		}
		// What was understood is understood again.
		again, err := json.Marshal(req)
		if err != nil {
			t.Fatalf("the request: %v", err)
		}
		_, second, err := read(again)
		if err != nil || string(second.Input) != string(start.Input) {
			t.Fatalf("%s became %s, and %s became %s: %v", body, start.Input, again, second.Input, err)
		}
	})
}

// What costs memory of its own is counted, however little of the body it is.
func TestConversationsAreBounded(t *testing.T) {
	t.Parallel()
	message := func(content string) string { return `{"role":"user","content":` + content + `}` }
	conversation := func(messages ...string) string {
		return `{"model":"x","messages":[` + strings.Join(messages, ",") + `]}`
	}
	many := func(n int, item string) []string { return slices.Repeat([]string{item}, n) }
	list := func(items []string) string { return "[" + strings.Join(items, ",") + "]" }
	const text, image = `{"type":"text","text":"a"}`, `{"type":"image_url","image_url":{"url":"data:"}}`
	for name, c := range map[string]struct {
		body, field string // "": it is taken
	}{
		"messages":      {conversation(many(10_000, message(`"a"`))...), ""},
		"more_messages": {conversation(many(10_001, message(`"a"`))...), "messages"},
		"parts":         {conversation(message(list(many(1000, text)))), ""},
		"more_parts":    {conversation(message(`"a"`), message(list(many(1001, text)))), "messages[1].content"},
		"all_parts":     {conversation(many(10, message(list(many(1000, image))))...), ""},
		"more_in_all":   {conversation(append(many(10, message(list(many(1000, image)))), message("["+image+"]"))...), "messages[10].content"},
		"no_list":       {conversation(message(`[1`)), "body"},
		"tools":         {`{"model":"x","messages":[` + message(`"a"`) + `],"tools":` + list(many(1001, `{"function":{"name":"f"}}`)) + `}`, "tools"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := read([]byte(c.body))
			f := fault.From(err)
			switch {
			case c.field == "":
				if err != nil {
					t.Error(err)
				}
			case c.field == "body":
				if !fault.Is(err, fault.Malformed) {
					t.Errorf("got %v", err)
				}
			case f == nil || len(f.Fields) != 1 || f.Fields[0].Field != c.field:
				t.Errorf("got %v, want a complaint of %s", err, c.field)
			}
		})
	}
}

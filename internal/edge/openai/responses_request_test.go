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
	"agentd/internal/kernel/model"
)

// left are calls that the response before left to the caller.
var left = []model.ToolCall{{ID: "open_1", Name: "weather"}, {ID: "open_2", Name: "weather"}}

// recalled knows the items of one response.
func recalled(id string) (OutputItem, bool) {
	items := []OutputItem{messageItem(messagePrefix+runID, stateCompleted, "It is 42."), callItem(callPrefix+runID, &weather[0])}
	i := slices.IndexFunc(items, func(i OutputItem) bool { return i.ID == id })
	if i < 0 {
		return OutputItem{}, false
	}
	return items[i], true
}

// readResponse decodes a body as the handler does.
func readResponse(body []byte) (*ResponseRequest, runStart, error) {
	req, err := schema.Decode[ResponseRequest](body)
	if err != nil {
		return nil, runStart{}, err
	}
	var open []model.ToolCall
	if req.Previous != nil {
		open = left
	}
	c, err := req.runStart(open, recalled)
	return req, c, err
}

// Every file of testdata/responses is a request; the file .want beside it is
// the run that it becomes, or how it is refused.
func TestResponseRequests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/responses/*.json")
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
			var out []byte
			req, c, err := readResponse(body)
			if (err != nil) != strings.HasPrefix(name, "refused-") {
				t.Errorf("refused: %v", err)
			}
			if err != nil {
				status, e := httpapi.Classify(err)
				out = fmt.Appendf(nil, "%d\n%s", status, pretty(t, struct {
					Envelope Envelope      `json:"envelope"`
					Fields   []fault.Field `json:"fields"`
				}{newEnvelope(e), e.Fields}))
			} else {
				out = pretty(t, struct {
					Model    string        `json:"model"`
					Streams  bool          `json:"streams"`
					Input    schema.Object `json:"input"`
					Standing string        `json:"standing"`
					Metadata schema.Object `json:"metadata"`
					Options  run.Options   `json:"options"`
					Asked    echoedParams  `json:"asked"`
				}{req.Model, req.Streams(), c.Input, c.standing, c.Metadata, c.Options, req.echoed()})
			}
			goldentest.Check(t, "testdata/responses/"+name+".want", out)
		})
	}
}

// What costs memory of its own is counted, however little of the body it is.
func TestInputsAreBounded(t *testing.T) {
	t.Parallel()
	item := func(content string) string { return `{"role":"user","content":` + content + `}` }
	input := func(items []string) string { return `{"model":"x","input":[` + strings.Join(items, ",") + `]}` }
	many := func(n int, item string) []string { return slices.Repeat([]string{item}, n) }
	parts := func(n int) string {
		return item("[" + strings.Join(many(n, `{"type":"input_text","text":"a"}`), ",") + "]")
	}
	for name, c := range map[string]struct {
		body, field string // "": it is taken
	}{
		"items":       {input(many(10_000, item(`"a"`))), ""},
		"more_items":  {input(many(10_001, item(`"a"`))), "input"},
		"parts":       {input([]string{parts(1000)}), ""},
		"more_parts":  {input([]string{item(`"a"`), parts(1001)}), "input[1].content"},
		"all_parts":   {input(many(10, parts(1000))), ""},
		"more_in_all": {input(append(many(10, parts(1000)), parts(1))), "input[10].content"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := readResponse([]byte(c.body))
			f := fault.From(err)
			switch {
			case c.field == "":
				if err != nil {
					t.Error(err)
				}
			case f == nil || len(f.Fields) != 1 || f.Fields[0].Field != c.field:
				t.Errorf("got %v, want a complaint of %s", err, c.field)
			}
		})
	}
}

// Whatever bytes come, they are refused as a caller's fault or become a run
// whose history every endpoint takes: results follow the calls that they answer.
func FuzzResponseRequest(f *testing.F) {
	goldentest.Seed(f, "testdata/responses/*.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		req, c, err := readResponse(body)
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
		if err := json.Unmarshal(c.Input, &in); err != nil {
			t.Fatalf("the input %s: %v", c.Input, err)
		}
		if in.Message == "" && in.Parts == nil && in.History == nil && in.Instructions == "" {
			t.Fatalf("an empty run from %s", body)
		}
		answerable(t, in.History, req.Previous != nil)
		if _, err := json.Marshal(c.Options); err != nil {
			t.Fatalf("the options: %v", err)
		}
		r := &run.Run{RunID: runID, Metadata: c.Metadata, CreatedAt: made}
		shown := mustMarshal(inProgress(r, &echo{req.echoed(), c.Options.Follows, c.Options.Tools, nil, clientMetadata(r)}))
		if !jsontext.Value(shown).IsValid() {
			t.Fatalf("the response is %s", shown)
		}
	})
}

// answerable checks that each turn with calls is followed by its results.
func answerable(t *testing.T, history []model.Message, chained bool) {
	t.Helper()
	due := []string{}
	if chained {
		due = []string{"open_1", "open_2"}
	}
	for i, m := range history {
		if m.Role == model.Tool {
			at := slices.Index(due, m.ToolCallID)
			if at < 0 {
				t.Fatalf("message %d answers nothing: %+v", i, history)
			}
			due = due[at+1:]
			continue
		}
		if len(due) > 0 && (!chained || i > 0 && history[i-1].Role != model.Tool) {
			t.Fatalf("before message %d a call is not answered: %+v", i, history)
		}
		due, chained = due[:0:0], false
		for _, c := range m.ToolCalls {
			due = append(due, c.ID)
		}
	}
	if len(due) > 0 && !chained {
		t.Fatalf("the last calls are not answered: %+v", history)
	}
}

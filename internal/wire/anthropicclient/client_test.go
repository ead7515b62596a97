package anthropicclient

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/wiretest"
	"agentd/internal/wire/wiretest/anthropictest"
)

func client(c modelcall.Config) model.Client { return New(c) }

// The wire behaves as all wires do (rule D23-wires).
func TestWire(t *testing.T) {
	wiretest.Run(t, client, anthropictest.Messages{}, wiretest.Features{NoFilter: true})
}

func refusing(word, why string) wiretest.Reply {
	return wiretest.Reply{
		Answer: wiretest.Answer{Blocks: []wiretest.Block{{Text: "So."}}, Usage: wiretest.Usage{Input: 1, Output: 1}},
		Refuses: func(a wiretest.Asked) string {
			if word != "" && strings.Contains(a.Body, word) {
				return why
			}
			return ""
		},
	}
}

// What a model does not take is learnt, and its thinking is requested as it takes it.
func TestDialects(t *testing.T) {
	t.Parallel()
	effort := map[string]jsontext.Value{"reasoning_effort": jsontext.Value(`"high"`)}
	budget := map[string]jsontext.Value{"thinking": jsontext.Value(`{"type":"enabled","budget_tokens":4000}`)}
	for name, tt := range map[string]struct {
		extra   map[string]jsontext.Value
		reply   wiretest.Reply
		has     string
		hasNot  string
		dropped []string
	}{
		"adaptive":             {effort, refusing("", ""), `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}`, "", nil},
		"a model of before":    {effort, refusing(`"adaptive"`, "adaptive thinking is not supported on this model"), `"thinking":{"type":"enabled","budget_tokens":16384}`, "output_config", nil},
		"no effort":            {effort, refusing(`"effort"`, "output_config.effort: Extra inputs are not permitted"), `"adaptive"`, "effort", nil},
		"a budget":             {budget, refusing("", ""), `"budget_tokens":4000`, "adaptive", nil},
		"a model without":      {budget, refusing(`budget_tokens`, "thinking.type enabled is not supported by this model; use adaptive"), `"adaptive"`, "budget_tokens", nil},
		"a model not thinking": {effort, refusing(`"thinking"`, "thinking: this model does not support thinking"), "", `"thinking"`, []string{"reasoning_effort"}},
		"no effort at all":     {map[string]jsontext.Value{"reasoning_effort": jsontext.Value(`"none"`)}, refusing("", ""), "", "thinking", nil},
		"no schema":            {map[string]jsontext.Value{"response_format": jsontext.Value(`{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}`)}, refusing(`output_config`, "output_config.format: not supported"), "JSON Schema", "output_config", nil},
		"a seed":               {map[string]jsontext.Value{"seed": jsontext.Value("1")}, refusing("", ""), "", "seed", []string{"seed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := wiretest.NewEndpoint(t, anthropictest.Messages{}, wiretest.Features{}, tt.reply)
			resp, _, err := e.Call(t, New(wiretest.Config()), model.Request{Messages: []model.Message{{Role: model.User, Text: "Hi"}}, Extra: tt.extra}, false)
			if err != nil {
				t.Fatal(err)
			}
			body := e.Asked()[0].Body
			if !strings.Contains(body, tt.has) || tt.hasNot != "" && strings.Contains(body, tt.hasNot) {
				t.Errorf("sent %s", body)
			}
			if diff := cmp.Diff(tt.dropped, resp.Dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

// A model's largest answer is learnt, and addresses need no version.
func TestOutputCap(t *testing.T) {
	t.Parallel()
	e := wiretest.NewEndpoint(t, anthropictest.Messages{}, wiretest.Features{}, refusing("", ""))
	target := anthropictest.Messages{}.Target(e.URL + "/v1")
	_, err := New(wiretest.Config()).Generate(t.Context(), model.Request{Target: target, MaxTokens: 100_000, Messages: []model.Message{{Role: model.User, Text: "Hi"}}}, nil)
	if err != nil || e.Asked()[0].MaxTokens != 64000 {
		t.Errorf("%v, %+v", err, e.Asked())
	}
}

// Blocks go back in the order in which they came, with every signature.
func TestOrderOfBlocks(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		call := func(id string) wiretest.Block {
			return wiretest.Block{Call: &model.ToolCall{ID: id, Name: "weather", Arguments: `{"n":1}`}}
		}
		e := wiretest.NewEndpoint(t, anthropictest.Messages{}, wiretest.Features{}, wiretest.Reply{Answer: wiretest.Answer{Blocks: []wiretest.Block{
			{Thinking: "a", Signature: "s1"}, {Text: "First. "}, {Thinking: "b", Signature: "s2"}, call("x"), {Thinking: "c", Signature: "s3"}, call("y"),
		}}}, refusing("", ""))
		client := New(wiretest.Config())
		req := model.Request{Messages: []model.Message{{Role: model.User, Text: "Hi"}}, CacheKey: "k"}
		resp, _, err := e.Call(t, client, req, stream)
		if err != nil {
			t.Fatal(err)
		}
		target := anthropictest.Messages{}.Target(e.URL)
		req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Text: resp.Text, ToolCalls: resp.ToolCalls,
			Opaque: model.Opaque{Source: target.Source(), Data: resp.Opaque}}, model.Message{Role: model.User, Text: "Go on"})
		if _, _, err := e.Call(t, client, req, stream); err != nil {
			t.Fatal(err)
		}
		want := []string{"user: Hi", "thinking: s1", "model: First. ", "thinking: s2", `call: weather {"n":1}`, "thinking: s3", `call: weather {"n":1}`}
		if diff := cmp.Diff(want, e.Asked()[1].Lines[:7]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := strings.Count(e.Asked()[1].Body, "cache_control"); n != 2 { // before the newest message, and at the end
			t.Errorf("%d places are kept in caches: %s", n, e.Asked()[1].Body)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range (anthropictest.Messages{}).Stream(wiretest.Answer{Blocks: []wiretest.Block{{Thinking: "a b", Signature: "c"}, {Call: &model.ToolCall{ID: "1", Name: "n", Arguments: `{"a":1}`}}}}) {
		_, data, _ := strings.Cut(string(seed), "data: ")
		f.Add([]byte(data), []byte(data))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		req := &model.Request{}
		d := decoder{Answer: modelcall.NewAnswer(req, func(model.Delta) {}, time.Now(), 1<<20)}
		for _, data := range [][]byte{first, second, first} {
			if _, err := d.Event(data); err != nil {
				return
			}
		}
		r := d.Result(req)
		if r.Usage.InputTokens < 0 || r.Usage.OutputTokens < 0 || !utf8.ValidString(r.Opaque) {
			t.Errorf("%+v", r)
		}
	})
}

package wiretest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// suite is the tests of one wire.
type suite struct {
	client func(modelcall.Config) model.Client
	p      Protocol
	f      Features
}

// Run runs the tests that every wire passes.
func Run(t *testing.T, client func(modelcall.Config) model.Client, p Protocol, f Features) {
	t.Parallel()
	if f.StreamType == "" {
		f.StreamType = "text/event-stream"
	}
	s := &suite{client, p, f}
	for name, test := range map[string]func(*testing.T){
		"text": s.text, "thinking": s.thinking, "calls": s.calls, "odd calls": s.oddCalls, "results": s.results, "media": s.media, "foreign media": s.foreignMedia,
		"usage": s.usage, "endings": s.endings, "failures": s.failures, "broken streams": s.brokenStreams, "cancel": s.cancel,
		"settings": s.settings, "form": s.form, "choice": s.choice, "counts": s.counts, "prefix": s.prefix,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// both runs a test with whole and with streamed answers.
func both(t *testing.T, test func(t *testing.T, stream bool)) {
	for _, stream := range []bool{false, true} {
		t.Run(map[bool]string{false: "whole", true: "streamed"}[stream], func(t *testing.T) { test(t, stream) })
	}
}

func (s *suite) endpoint(t *testing.T, replies ...Reply) *Endpoint {
	return NewEndpoint(t, s.p, s.f, replies...)
}

func (s *suite) new() model.Client { return s.client(Config()) }

func hello() model.Request {
	return model.Request{Messages: []model.Message{{Role: model.System, Text: "Be brief."}, {Role: model.User, Text: "Hello"}}}
}

var weather = model.ToolSpec{
	Name: "weather", Description: "The weather of a place.",
	Parameters: jsontext.Value(`{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}`),
}

func say(text string) Reply {
	return Reply{Answer: Answer{Blocks: []Block{{Text: text}}, Usage: Usage{Input: 10, Output: 3}}}
}

func (s *suite) text(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		e := s.endpoint(t, say("Good day, you \"there\" – ünïcode\n."))
		resp, deltas, err := e.Call(t, s.new(), hello(), stream)
		if err != nil {
			t.Fatal(err)
		}
		want := "Good day, you \"there\" – ünïcode\n."
		if resp.Text != want || resp.FinishReason != model.FinishStop || resp.Usage.InputTokens != 10 || resp.Usage.OutputTokens != 3 || resp.Usage.Estimated {
			t.Errorf("%+v", resp)
		}
		streamed := ""
		for _, d := range deltas {
			streamed += d.Text
		}
		if stream && (streamed != want || len(deltas) < 2) {
			t.Errorf("%d pieces: %q", len(deltas), streamed)
		}
		a := e.Asked()[0]
		if diff := cmp.Diff([]string{"user: Hello"}, a.Lines); diff != "" || a.System != "Be brief." {
			t.Errorf("system %q, lines (-want +got):\n%s", a.System, diff)
		}
	})
}

// thinking comes back with the next call, where it came from, and to no other model.
func (s *suite) thinking(t *testing.T) {
	if s.f.NoSignatures {
		t.Skip("the wire has none")
	}
	both(t, func(t *testing.T, stream bool) {
		e := s.endpoint(t, Reply{Answer: Answer{Blocks: []Block{
			{Thinking: "Rain, probably.", Signature: "c2lnbmVk"}, {Text: "Let me see. "},
			{Call: &model.ToolCall{ID: "call_1", Name: "weather", Arguments: `{"place":"Oslo"}`}},
		}}}, say("Rain."))
		req := hello()
		req.Tools = []model.ToolSpec{weather}
		req.Extra = map[string]jsontext.Value{"reasoning_effort": jsontext.Value(`"low"`)}
		client := s.new()
		resp, _, err := e.Call(t, client, req, stream)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Thinking != "Rain, probably." || resp.Text != "Let me see. " || len(resp.ToolCalls) != 1 || resp.FinishReason != model.FinishToolCalls || resp.OpaqueSize() == 0 {
			t.Fatalf("%+v", resp)
		}
		target := s.p.Target(e.URL)
		said := model.Message{Role: model.Assistant, Text: resp.Text, ToolCalls: resp.ToolCalls, Opaque: model.Opaque{Source: target.Source(), Data: resp.Opaque}}
		req.Messages = append(req.Messages, said, model.Message{Role: model.Tool, ToolCallID: resp.ToolCalls[0].ID, Name: "weather", Text: "rain"})
		if _, _, err := e.Call(t, client, req, stream); err != nil {
			t.Fatal(err)
		}
		want := []string{"user: Hello", "thinking: c2lnbmVk", "model: Let me see. ", `call: weather {"place":"Oslo"}`, "result: rain"}
		if diff := cmp.Diff(want, e.Asked()[1].Lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		req.Messages[2].Opaque.Source = "another"
		if _, _, err := e.Call(t, client, req, stream); err != nil {
			t.Fatal(err)
		}
		for _, line := range e.Asked()[2].Lines {
			if strings.HasPrefix(line, "thinking: c2") {
				t.Errorf("another model's: %s", line)
			}
		}
	})
}

func three() []Block {
	var blocks []Block
	for i, place := range []string{"Oslo", "Rome", "Bern"} {
		blocks = append(blocks, Block{Call: &model.ToolCall{ID: fmt.Sprintf("call_%d", i), Name: "weather", Arguments: fmt.Sprintf(`{"place":%q}`, place)}})
	}
	return blocks
}

// calls that are made at once come in order, also where their pieces are mixed.
func (s *suite) calls(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		for _, mixed := range []bool{false, true} {
			e := s.endpoint(t, Reply{Answer: Answer{Blocks: three(), Interleave: mixed}})
			req := hello()
			req.Tools, req.Detailed = []model.ToolSpec{weather}, true
			resp, deltas, err := e.Call(t, s.new(), req, stream)
			if err != nil {
				t.Fatal(err)
			}
			if len(resp.ToolCalls) != 3 || resp.FinishReason != model.FinishToolCalls {
				t.Fatalf("%+v", resp)
			}
			var pieces []string
			for _, d := range deltas {
				if d.Call.Name != "" {
					pieces = append(pieces, "")
				}
				if n := len(pieces); n > 0 {
					pieces[n-1] += d.Call.Arguments
				}
			}
			for i, c := range resp.ToolCalls {
				if c.ID == "" || c.Name != "weather" || !strings.Contains(c.Arguments, []string{"Oslo", "Rome", "Bern"}[i]) {
					t.Errorf("call %d: %+v", i, c)
				}
				if stream && (len(pieces) != 3 || pieces[i] != c.Arguments) {
					t.Errorf("mixed %t: the pieces are %q", mixed, pieces)
				}
			}
			if diff := cmp.Diff([]string{"weather"}, e.Asked()[0].Tools); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
		}
	})
}

// oddCalls have the same id, or arguments that are no JSON: both go back so that the
// endpoint takes them.
func (s *suite) oddCalls(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		blocks := three()[:2]
		blocks[1].Call.ID = blocks[0].Call.ID
		if !s.f.NoBroken {
			blocks[1].Call.Arguments = `{"place": "Ro`
		}
		e := s.endpoint(t, Reply{Answer: Answer{Blocks: blocks}}, say("So."))
		req := hello()
		req.Tools = []model.ToolSpec{weather}
		client := s.new()
		resp, _, err := e.Call(t, client, req, stream)
		if err != nil || len(resp.ToolCalls) != 2 || resp.ToolCalls[0].ID == resp.ToolCalls[1].ID {
			t.Fatalf("%v, %+v", err, resp)
		}
		req.Messages = append(req.Messages, model.Message{Role: model.Assistant, ToolCalls: resp.ToolCalls})
		for _, c := range resp.ToolCalls {
			req.Messages = append(req.Messages, model.Message{Role: model.Tool, ToolCallID: c.ID, Name: c.Name, Text: "fine"})
		}
		if _, _, err := e.Call(t, client, req, stream); err != nil {
			t.Fatal(err)
		}
	})
}

// results are arranged as the endpoint wants them, whatever the history is like.
func (s *suite) results(t *testing.T) {
	call := func(id string) model.ToolCall {
		return model.ToolCall{ID: id, Name: "weather", Arguments: `{"place":"Oslo"}`}
	}
	for name, messages := range map[string][]model.Message{
		"in another order": {
			{Role: model.User, Text: "Hi"}, {Role: model.Assistant, ToolCalls: []model.ToolCall{call("a"), call("b")}},
			{Role: model.Tool, ToolCallID: "b", Text: "2"}, {Role: model.Tool, ToolCallID: "a", Text: "1"},
		},
		"one missing": {
			{Role: model.User, Text: "Hi"}, {Role: model.Assistant, ToolCalls: []model.ToolCall{call("a"), call("b")}},
			{Role: model.Tool, ToolCallID: "a", Text: "1"}, {Role: model.User, Text: "And?"},
		},
		"all missing":    {{Role: model.User, Text: "Hi"}, {Role: model.Assistant, ToolCalls: []model.ToolCall{call("a")}}, {Role: model.User, Text: "And?"}},
		"without a call": {{Role: model.User, Text: "Hi"}, {Role: model.Tool, ToolCallID: "x", Text: "1"}, {Role: model.User, Text: "And?"}},
		"the model first": {
			{Role: model.Assistant, Text: "Welcome."}, {Role: model.User, Text: "Hi"}, {Role: model.Assistant, Text: "a"}, {Role: model.Assistant, Text: "b"},
			{Role: model.User, Text: "c"}, {Role: model.System, Text: "Remember: d"}, {Role: model.User, Text: "e"},
		},
		"empty texts":       {{Role: model.User, Text: ""}, {Role: model.Assistant, Text: ""}, {Role: model.User, Text: "Hi"}},
		"odd ids":           {{Role: model.User, Text: "Hi"}, {Role: model.Assistant, ToolCalls: []model.ToolCall{call("functions.weather:0"), call("")}}, {Role: model.Tool, ToolCallID: "functions.weather:0", Text: "1"}, {Role: model.Tool, ToolCallID: "", Text: "2"}},
		"a call and a call": {{Role: model.User, Text: "Hi"}, {Role: model.Assistant, ToolCalls: []model.ToolCall{call("a")}}, {Role: model.Assistant, Text: "Hm."}, {Role: model.User, Text: "So?"}},
		"an empty result":   {{Role: model.User, Text: "Hi"}, {Role: model.Assistant, ToolCalls: []model.ToolCall{call("a")}}, {Role: model.Tool, ToolCallID: "a"}},
		"only the system":   {{Role: model.System, Text: "Begin."}},
	} {
		if _, chat := s.p.(interface{ KeepsHistory() }); chat {
			continue // its histories go as they are
		}
		t.Run(name, func(t *testing.T) {
			e := s.endpoint(t, say("So."))
			req := model.Request{Messages: messages, Tools: []model.ToolSpec{weather}}
			if _, _, err := e.Call(t, s.new(), req, true); err != nil {
				t.Fatal(err)
			}
		})
	}
}

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

func (s *suite) media(t *testing.T) {
	e := s.endpoint(t, say("A dot."))
	image := jsontext.Value(`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + onePixel + `"}}`)
	file := jsontext.Value(`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}`)
	req := hello()
	req.Messages[1] = model.Message{Role: model.User, Parts: []jsontext.Value{model.TextPart("What is it?"), image}}
	want := []string{"user: What is it?", "image: image/png " + onePixel}
	if !s.f.NoDocuments {
		req.Messages[1].Parts = append(req.Messages[1].Parts, file)
		want = append(want, "document: application/pdf JVBERi0=")
	}
	if _, _, err := e.Call(t, s.new(), req, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, e.Asked()[0].Lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// foreignMedia of earlier messages, which another model was asked with, are named in words;
// those of the newest message are refused.
func (s *suite) foreignMedia(t *testing.T) {
	if _, chat := s.p.(interface{ KeepsHistory() }); chat {
		t.Skip("its histories go as they are")
	}
	medium := jsontext.Value(`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`)
	if s.f.Audio { // nearly all media are taken, but for one without data
		medium = jsontext.Value(`{"type":"input_audio","input_audio":{"data":"","format":"wav"}}`)
	}
	e := s.endpoint(t, say("So."))
	req := hello()
	asked := model.Message{Role: model.User, Parts: []jsontext.Value{model.TextPart("What is it?"), medium}}
	req.Messages = append(req.Messages[:1:1], asked)
	_, _, err := e.Call(t, s.new(), req, false)
	if failed, ok := errors.AsType[*model.Error](err); !ok || !strings.Contains(failed.Detail, "it takes") || len(e.Asked()) != 0 {
		t.Errorf("the newest message: %v", err)
	}
	req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Text: "A recording."}, model.Message{Role: model.User, Text: "Thanks."})
	if _, _, err := e.Call(t, s.new(), req, false); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(e.Asked()[0].Lines, "\n"); !strings.Contains(all, "which this model cannot read") {
		t.Errorf("sent %s", all)
	}
}

func (s *suite) usage(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		whole := Usage{Input: 100, Output: 30, Cached: 60, Written: 20, Thinking: 12}
		want := model.Usage{InputTokens: 100, OutputTokens: 30, CachedTokens: 60, CacheWriteTokens: 20, ThinkingTokens: 12}
		if s.f.NoWritten {
			whole.Written, want.CacheWriteTokens = 0, 0
		}
		if s.f.NoThinking {
			whole.Thinking, want.ThinkingTokens = 0, 0
		}
		words := []Block{{Text: "Four words and more. "}}
		for name, tt := range map[string]struct {
			answer    Answer
			want      model.Usage
			estimated bool
		}{
			"parts":    {Answer{Blocks: words, Usage: whole}, want, false},
			"missing":  {Answer{Blocks: words, NoUsage: true}, model.Usage{}, true},
			"negative": {Answer{Blocks: words, Usage: Usage{Input: -5, Output: 3}}, model.Usage{}, true},
			"absurd":   {Answer{Blocks: words, Usage: Usage{Input: 900_000_000, Output: 3}}, model.Usage{}, true},
		} {
			e := s.endpoint(t, Reply{Answer: tt.answer})
			req := hello()
			req.Target.Context = 100_000
			resp, _, err := e.Call(t, s.new(), req, stream)
			if err != nil {
				t.Fatal(name, err)
			}
			if tt.estimated {
				if !resp.Usage.Estimated || resp.Usage.InputTokens <= 0 || resp.Usage.InputTokens > 1000 || resp.Usage.OutputTokens <= 0 {
					t.Errorf("%s: %+v", name, resp.Usage)
				}
			} else if diff := cmp.Diff(tt.want, resp.Usage); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", name, diff)
			}
		}
	})
}

func (s *suite) endings(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		for finish, want := range map[string]string{
			model.FinishLength: model.FinishLength, model.FinishFilter: model.FinishFilter, model.FinishRefusal: model.FinishRefusal, "unknown": model.FinishStop,
		} {
			if finish == model.FinishFilter && s.f.NoFilter || finish == model.FinishRefusal && s.f.NoRefusal {
				continue
			}
			e := s.endpoint(t, Reply{Answer: Answer{Blocks: []Block{{Text: "I was saying "}}, Finish: finish}})
			resp, _, err := e.Call(t, s.new(), hello(), stream)
			if err != nil || resp.FinishReason != want || resp.Text != "I was saying " {
				t.Errorf("%s: %+v, %v", finish, resp, err)
			}
		}
	})
}

func (s *suite) failures(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		for name, tt := range map[string]struct {
			reply   Reply
			code    string
			passing bool
			calls   int
		}{
			"limit":        {Reply{Status: 429, Message: "Slow down", RetryAfter: "120"}, "model_rate_limited", true, 1},
			"key":          {Reply{Status: 401, Message: "Bad key"}, "provider_auth_failed", false, 1},
			"forbidden":    {Reply{Status: 403, Message: "No"}, "provider_auth_failed", false, 1},
			"too long":     {Reply{Status: 400, Message: "prompt is too long: 210000 tokens > 200000 maximum"}, model.CodeContextLength, false, 1},
			"bad":          {Reply{Status: 400, Message: "messages: wrong"}, "model_error", false, 1},
			"unknown":      {Reply{Status: 404, Message: "no such model"}, "model_error", false, 1},
			"broken":       {Reply{Status: 500, Message: "oops"}, "model_error", true, 3},
			"overloaded":   {Reply{Status: 529, Message: "Overloaded"}, "model_error", true, 3},
			"unavailable":  {Reply{Status: 503, Message: "later"}, "model_error", true, 3},
			"a page":       {Reply{Raw: "<html>Welcome</html>"}, "model_error", false, 1},
			"nothing":      {Reply{Raw: " "}, "model_error", true, 1},
			"a list":       {Reply{Raw: `{"hello":"world"}`}, "model_error", false, 1},
			"error in 200": {Reply{Message: "The server had an error"}, "model_error", false, 0},
		} {
			if s.f.Binary && stream && (name == "a page" || name == "nothing" || name == "a list") {
				continue // its frames are checked by themselves
			}
			e := s.endpoint(t, tt.reply)
			resp, _, err := e.Call(t, s.new(), hello(), stream)
			failed, ok := errors.AsType[*model.Error](err)
			if !ok || failed.Code != tt.code || failed.Detail == "" || strings.Contains(failed.Detail, "secret") {
				t.Errorf("%s: %+v, %v", name, resp, err)
				continue
			}
			if name != "error in 200" && name != "a list" && failed.Passing != tt.passing {
				t.Errorf("%s: passing %t", name, failed.Passing)
			}
			if tt.calls > 0 && len(e.Asked()) != tt.calls {
				t.Errorf("%s: %d calls", name, len(e.Asked()))
			}
			if name == "limit" && failed.RetryAfter != 2*time.Minute {
				t.Errorf("%s: again after %v", name, failed.RetryAfter)
			}
		}
	})
}

// brokenStreams end in the middle, or with an error: after the first piece nothing is
// called again.
func (s *suite) brokenStreams(t *testing.T) {
	long := Answer{Blocks: []Block{{Text: "One two three four five six seven eight nine ten."}}}
	n := len(s.p.Stream(long))
	for name, reply := range map[string]Reply{
		"cut": {Answer: long, CutAfter: n - 4}, "error": {Answer: long, Message: "Overloaded"},
	} {
		e := s.endpoint(t, reply)
		_, deltas, err := e.Call(t, s.new(), hello(), true)
		failed, ok := errors.AsType[*model.Error](err)
		if !ok || failed.Retryable || len(deltas) == 0 || len(e.Asked()) != 1 {
			t.Errorf("%s: %d pieces, %d calls, %v", name, len(deltas), len(e.Asked()), err)
		}
	}
}

func (s *suite) cancel(t *testing.T) {
	e := s.endpoint(t, Reply{Answer: Answer{Blocks: []Block{{Text: "One two three."}}}, HangAfter: max(1, len(s.p.Stream(Answer{Blocks: []Block{{Text: "One two three."}}}))-4)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := hello()
	req.Target = s.p.Target(e.URL)
	_, err := s.new().Generate(ctx, req, func(model.Delta) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// settings reach the endpoint; what the model refuses is left out, and named.
func (s *suite) settings(t *testing.T) {
	e := s.endpoint(t, Reply{Answer: say("So.").Answer, Refuses: func(a Asked) string {
		if a.Temperature != nil {
			return "temperature is not supported with this model"
		}
		return ""
	}})
	req := hello()
	req.Temperature, req.MaxTokens, req.Stop = new(.5), 77, []string{"END"}
	dropped := []string{"temperature"}
	if s.f.NoStop {
		dropped = append(dropped, "stop")
	}
	client := s.new()
	for range 2 {
		resp, _, err := e.Call(t, client, req, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(dropped, resp.Dropped); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
	}
	a := e.Asked()[0]
	if a.MaxTokens != 77 || !s.f.NoStop && !cmp.Equal(a.Stop, []string{"END"}) {
		t.Errorf("%+v", a)
	}
}

func (s *suite) form(t *testing.T) {
	const schema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`
	e := s.endpoint(t, say(`{"name":"Ada"}`))
	req := hello()
	req.Extra = map[string]jsontext.Value{"response_format": jsontext.Value(`{"type":"json_schema","json_schema":{"name":"person","strict":true,"schema":` + schema + `}}`)}
	resp, _, err := e.Call(t, s.new(), req, false)
	if err != nil || resp.Text != `{"name":"Ada"}` {
		t.Fatal(resp, err)
	}
	if got := e.Asked()[0].Form; got != schema {
		t.Errorf("the form is %s", got)
	}
}

func (s *suite) choice(t *testing.T) {
	for choice, want := range map[string]string{
		`"none"`: "none", `"required"`: "required", `{"type":"function","function":{"name":"weather"}}`: "weather", `"auto"`: "auto",
	} {
		e := s.endpoint(t, say("So."))
		req := hello()
		req.Tools, req.ToolChoice = []model.ToolSpec{weather}, jsontext.Value(choice)
		if _, _, err := e.Call(t, s.new(), req, false); err != nil {
			t.Fatal(err)
		}
		if got := e.Asked()[0].Choice; got != want {
			t.Errorf("%s becomes %q", choice, got)
		}
	}
}

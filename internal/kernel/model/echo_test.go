package model_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
)

var echo = model.Router{} // with no wire: builtin targets need none

func echoRequest(messages ...model.Message) model.Request {
	return model.Request{
		Target:   model.Target{Provider: model.Builtin, Model: "echo"},
		Messages: messages,
		Tools:    []model.ToolSpec{{Name: "calculator"}, {Name: "current_time"}},
	}
}

func user(text string) model.Message { return model.Message{Role: model.User, Text: text} }

func TestEchoAnswers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	pieces := 0
	resp, err := echo.Generate(t.Context(), echoRequest(user("first"), user("good morning to you")), func(d model.Delta) {
		b.WriteString(d.Text)
		pieces++
	})
	if err != nil || b.String() != resp.Text || pieces < 5 {
		t.Fatalf("%d pieces %q of %q, %v", pieces, b.String(), resp.Text, err)
	}
	if !strings.Contains(resp.Text, "no language model") || !strings.HasSuffix(resp.Text, "You said: good morning to you") {
		t.Errorf("Text = %q", resp.Text)
	}
	if !resp.Usage.Estimated || resp.Usage.OutputTokens == 0 || resp.Usage.InputTokens == 0 || resp.FinishReason != model.FinishStop {
		t.Errorf("%+v", resp)
	}
}

func TestEchoCallsTools(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"calculate 2+3*4":                        `calculator {"expression":"2+3*4"}`,
		"Please calculate sqrt(2) * (1 - 0.5).":  `calculator {"expression":"sqrt(2) * (1 - 0.5)"}`,
		"what is 7/2?":                           `calculator {"expression":"7/2"}`,
		"What time is it?":                       "current_time {}",
		"tell me the current time":               "current_time {}",
		"what is love":                           "",
		"hello":                                  "",
		"I calculated":                           "",
		"what is the weather in 5 days":          "",
		"calculate nothing, then tell me a joke": "",
	} {
		resp, err := echo.Generate(t.Context(), echoRequest(user(text)), nil)
		got := ""
		if len(resp.ToolCalls) == 1 && resp.FinishReason == model.FinishToolCalls && resp.Text == "" {
			got = resp.ToolCalls[0].Name + " " + resp.ToolCalls[0].Arguments
		}
		if err != nil || got != want || want == "" && len(resp.ToolCalls) > 0 {
			t.Errorf("%q calls %q (%+v, %v), want %q", text, got, resp, err, want)
		}
	}
	untooled := echoRequest(user("calculate 1+1"))
	untooled.Tools = nil
	if resp, _ := echo.Generate(t.Context(), untooled, nil); len(resp.ToolCalls) > 0 {
		t.Error("calls a tool that is not offered")
	}
}

// After the tool's result comes an answer, not the same call again.
func TestEchoEndsTheLoop(t *testing.T) {
	t.Parallel()
	req := echoRequest(user("calculate 1+1"),
		model.Message{Role: model.Assistant, ToolCalls: []model.ToolCall{{ID: "1", Name: "calculator"}}},
		model.Message{Role: model.Tool, Name: "calculator", ToolCallID: "1", Text: "2"})
	resp, err := echo.Generate(t.Context(), req, nil)
	if err != nil || len(resp.ToolCalls) > 0 || !strings.Contains(resp.Text, "The calculator answered: 2") {
		t.Errorf("%+v, %v", resp, err)
	}
	req.Messages = append(req.Messages, user("calculate 2+2"))
	if resp, _ := echo.Generate(t.Context(), req, nil); len(resp.ToolCalls) != 1 {
		t.Errorf("the next turn calls no tool: %+v", resp)
	}
}

func TestEchoBounds(t *testing.T) {
	t.Parallel()
	resp, err := echo.Generate(t.Context(), echoRequest(user(strings.Repeat("ä", 1<<20))), nil)
	if err != nil || len(resp.Text) > 5000 {
		t.Errorf("%d bytes, %v", len(resp.Text), err)
	}
	parts := echoRequest(model.Message{Role: model.User, Parts: []jsontext.Value{jsontext.Value(`{"type":"text","text":"see "}`), jsontext.Value(`{"type":"image_url"}`), jsontext.Value(`{"type":"text","text":"this"}`)}})
	parts.MaxTokens = 1
	if resp, _ := echo.Generate(t.Context(), parts, nil); resp.Text != "This" || resp.FinishReason != model.FinishLength {
		t.Errorf("%+v", resp)
	}
	parts.MaxTokens = 0
	if resp, _ := echo.Generate(t.Context(), parts, nil); !strings.HasSuffix(resp.Text, "You said: see this") {
		t.Errorf("%+v", resp)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = echo.Generate(ctx, echoRequest(user("a b c d e")), func(model.Delta) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := echo.Generate(t.Context(), echoRequest(), nil); err != nil {
		t.Errorf("no message: %v", err)
	}
}

// wire is a client that does what a test says, by the target's model.
type wire map[string]func(sink func(model.Delta)) (model.Response, error)

func (w wire) Generate(_ context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	return w[req.Target.Model](sink)
}

func TestFallback(t *testing.T) {
	t.Parallel()
	failed := func(code string) func(func(model.Delta)) (model.Response, error) {
		return func(func(model.Delta)) (model.Response, error) {
			return model.Response{}, &model.Error{Code: code, Detail: code}
		}
	}
	says := func(text string) func(func(model.Delta)) (model.Response, error) {
		return func(sink func(model.Delta)) (model.Response, error) {
			sink(model.Delta{Text: text})
			return model.Response{Text: text}, nil
		}
	}
	half := func(sink func(model.Delta)) (model.Response, error) {
		sink(model.Delta{Text: "hal"})
		return model.Response{}, &model.Error{Code: "model_error", Detail: "broke"}
	}
	only := func(code string) func(*model.Error) bool { return func(e *model.Error) bool { return e.Code == code } }
	tests := map[string]struct {
		first, second func(func(model.Delta)) (model.Response, error)
		none          bool
		after         func(*model.Error) bool
		seen, by      string
		code          string
	}{
		"first-answers":     {first: says("one"), second: says("two"), seen: "one", by: "first"},
		"second-answers":    {first: failed("model_error"), second: says("two"), seen: "two", by: "second"},
		"both-fail":         {first: failed("model_rate_limited"), second: failed("model_error"), by: "first", code: "model_rate_limited"},
		"half-an-answer":    {first: half, second: says("two"), seen: "hal", by: "first", code: "model_error"},
		"no-fallback":       {first: failed("model_error"), none: true, by: "first", code: "model_error"},
		"not-after-that":    {first: failed("model_rate_limited"), second: says("two"), after: only("model_error"), by: "first", code: "model_rate_limited"},
		"after-that":        {first: failed("model_error"), second: says("two"), after: only("model_error"), seen: "two", by: "second"},
		"second-breaks-off": {first: failed("model_error"), second: half, seen: "hal", by: "second", code: "model_error"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := ""
			fallback := &model.Fallback{Target: model.Target{Model: "second"}, After: test.after}
			if test.none {
				fallback = nil
			}
			c := model.Router{Wire: wire{"first": test.first, "second": test.second}}
			_, by, err := model.GenerateWithFallback(t.Context(), c, model.Request{Target: model.Target{Model: "first"}}, fallback, func(d model.Delta) { seen += d.Text })
			code := ""
			if e, ok := errors.AsType[*model.Error](err); ok {
				code = e.Code
			}
			if diff := cmp.Diff([]string{test.seen, test.by, test.code}, []string{seen, by.Model, code}); diff != "" {
				t.Errorf("seen, by, code (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := model.Router{Wire: wire{"first": func(func(model.Delta)) (model.Response, error) {
		cancel()
		return model.Response{}, ctx.Err()
	}}}
	if _, _, err := model.GenerateWithFallback(ctx, c, model.Request{Target: model.Target{Model: "first"}}, &model.Fallback{Target: model.Target{Model: "second"}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context ended: %v", err)
	}
}

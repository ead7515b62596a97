package model_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/jsonform"
	"agentd/internal/kernel/model"
)

func TestEchoDirectives(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, asked            string
		call, thinking, wanted string
		fails                  int
	}{
		{name: "a call", asked: `call calculator {"expression": "6*7"}`, call: `calculator {"expression": "6*7"}`},
		{name: "a call without arguments", asked: "Please do this:\nCall current_time", call: "current_time {}"},
		{name: "a tool that is not offered", asked: "call delete_all {}", wanted: "There is no tool delete_all here; there are: calculator, current_time."},
		{name: "no JSON", asked: "call calculator {oops", wanted: "You said: call calculator {oops"},
		{name: "a sentence", asked: "call me later", wanted: "You said: call me later"},
		{name: "thinking", asked: "think: hm, well\nhello", thinking: "hm, well", wanted: "You said: hello"},
		{name: "exact words", asked: "say: Yes.", wanted: "Yes."},
		{name: "a failure", asked: "fail", fails: 400},
		{name: "a passing failure", asked: "fail: 503", fails: 503},
		{name: "failing is a subject", asked: "fail fast", wanted: "You said: fail fast"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp, err := echo.Generate(t.Context(), echoRequest(user(tt.asked)), nil)
			if failed, ok := errors.AsType[*model.Error](err); tt.fails != 0 {
				if !ok || failed.Status != tt.fails || failed.Passing != (tt.fails >= 500) {
					t.Errorf("%v", err)
				}
				return
			}
			call := ""
			if len(resp.ToolCalls) == 1 {
				call = resp.ToolCalls[0].Name + " " + resp.ToolCalls[0].Arguments
			}
			if err != nil || call != tt.call || resp.Thinking != tt.thinking || !strings.HasSuffix(resp.Text, tt.wanted) {
				t.Errorf("%+v, %v", resp, err)
			}
		})
	}
}

// Several calls are made one after the other, and then answered.
func TestEchoCallsInOrder(t *testing.T) {
	t.Parallel()
	req := echoRequest(user("call calculator {\"expression\":\"1\"}\ncall current_time"))
	var called []string
	for range 3 {
		resp, err := echo.Generate(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.ToolCalls {
			called = append(called, c.Name)
			req.Messages = append(req.Messages, model.Message{Role: model.Assistant, ToolCalls: resp.ToolCalls},
				model.Message{Role: model.Tool, Name: c.Name, ToolCallID: c.ID, Text: "result of " + c.Name})
		}
		if len(resp.ToolCalls) == 0 {
			called = append(called, resp.Text)
		}
	}
	want := []string{"calculator", "current_time", "This is agentd's builtin echo, which is no language model. " +
		"The calculator answered: result of calculator The current_time answered: result of current_time"}
	if diff := cmp.Diff(want, called); diff != "" {
		t.Error(diff)
	}
}

func TestEchoSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, words := time.Now(), 0
		resp, err := echo.Generate(t.Context(), echoRequest(user("slowly: one two three")), func(model.Delta) { words++ })
		if want := time.Duration(words) * 100 * time.Millisecond; err != nil || words < 5 || time.Since(began) != want {
			t.Errorf("%d words in %v: %v", words, time.Since(began), err)
		}
		if !strings.HasSuffix(resp.Text, "You said: one two three") || resp.FirstToken != 100*time.Millisecond {
			t.Errorf("%+v", resp)
		}
	})
}

// What echo answers fits the schema of the request.
func TestEchoForms(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"object":      `{"type":"object","required":["name","age"],"properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":18}},"additionalProperties":false}`,
		"nested":      `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array","minItems":2,"items":{"type":"boolean"}}},"required":["b"]}},"required":["a"]}`,
		"choice":      `{"type":"object","properties":{"kind":{"enum":["x","y"]},"fixed":{"const":7}},"required":["kind","fixed"]}`,
		"nullable":    `{"type":"object","properties":{"a":{"type":["null","string"]}},"required":["a"]}`,
		"references":  `{"$defs":{"p":{"type":"object","properties":{"n":{"type":"string"}},"required":["n"]}},"type":"object","properties":{"p":{"$ref":"#/$defs/p"}},"required":["p"]}`,
		"of itself":   `{"type":"object","properties":{"v":{"type":"string"},"next":{"$ref":"#"}},"required":["v"]}`,
		"any of":      `{"anyOf":[{"type":"string"},{"type":"null"}]}`,
		"bounds":      `{"type":"object","properties":{"a":{"type":"number","exclusiveMinimum":3,"maximum":9},"b":{"type":"integer","maximum":-2},"c":{"type":"integer","multipleOf":5,"minimum":12}},"required":["a","b","c"]}`,
		"lengths":     `{"type":"object","properties":{"a":{"type":"string","minLength":40},"b":{"type":"string","maxLength":3}},"required":["a","b"]}`,
		"formats":     `{"type":"object","properties":{"d":{"type":"string","format":"date"},"e":{"type":"string","format":"email"}},"required":["d","e"]}`,
		"undescribed": `{"required":["x"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			format := jsontext.Value(`{"type":"json_schema","json_schema":{"name":"x","schema":` + schema + `}}`)
			req := echoRequest(user("Ada is 36"))
			req.Extra = map[string]jsontext.Value{"response_format": format}
			resp, err := echo.Generate(t.Context(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			form, err := jsonform.OfResponseFormat(format)
			if err != nil {
				t.Fatal(err)
			}
			if _, problem := form.Check(resp.Text); problem != "" {
				t.Errorf("%s: %s", resp.Text, problem)
			}
		})
	}
	req := echoRequest(user("hello"))
	req.Extra = map[string]jsontext.Value{"response_format": jsontext.Value(`{"type":"json_object"}`)}
	if resp, err := echo.Generate(t.Context(), req, nil); err != nil || resp.Text != `{"message":"hello"}` {
		t.Errorf("%+v, %v", resp, err)
	}
	req.Messages[0].Text = "say: nothing like JSON"
	if resp, _ := echo.Generate(t.Context(), req, nil); resp.Text != "nothing like JSON" {
		t.Errorf("%+v", resp)
	}
}

package compat

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"agentd/internal/app/apptest"
)

var personSchema = map[string]any{
	"type": "object", "required": []string{"name", "age"}, "additionalProperties": false,
	"properties": map[string]any{"name": map[string]any{"type": "string"}, "age": map[string]any{"type": "integer", "minimum": 0}},
}

// Answers on the compatible routes fit the schema of the request, with builtin/echo
// too, or the request fails with a clear error.
func TestResponseFormat(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"name": "forms"})
	c := openAIClient(n)
	chat := openai.ChatCompletionNewParams{
		Model: agent, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Ada is 36")},
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "person", Schema: personSchema, Strict: openai.Bool(true)},
		}},
	}
	const want = `{"age":1,"name":"Ada is 36"}`
	answer, err := c.Chat.Completions.New(t.Context(), chat)
	if err != nil || answer.Choices[0].Message.Content != want {
		t.Fatalf("chat: %v %v", answer, err)
	}
	stream, text := c.Chat.Completions.NewStreaming(t.Context(), chat), ""
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text += choice.Delta.Content
		}
	}
	if stream.Err() != nil || text != want {
		t.Errorf("a stream of chat: %q %v", text, stream.Err())
	}
	form := responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{
		OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "person", Schema: personSchema},
	}}
	response, err := c.Responses.New(t.Context(), responses.ResponseNewParams{
		Model: agent, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Ada is 36")}, Text: form,
	})
	if err != nil || response.OutputText() != want {
		t.Errorf("responses: %v %v", response, err)
	}

	// builtin/echo says what it is asked to, until it is asked to repair it.
	chat.Messages[0] = openai.UserMessage("say: not JSON")
	if answer, err = c.Chat.Completions.New(t.Context(), chat); err != nil || !strings.HasPrefix(answer.Choices[0].Message.Content, `{"age":1,`) {
		t.Errorf("a repair: %v %v", answer, err)
	}
}

func TestResponseFormatThatIsNotKept(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"name": "forms"})
	// builtin/echo does not follow patterns.
	schema := object{"type": "object", "required": []string{"a"}, "properties": object{"a": object{"type": "string", "pattern": "^impossible$"}}}
	body := object{
		"model": agent, "messages": []object{{"role": "user", "content": "hello"}},
		"response_format": object{"type": "json_schema", "json_schema": object{"name": "x", "schema": schema}},
	}
	refused := n.Expect(422, "POST", "/v1/chat/completions", body)["error"].(object)
	if refused["code"] != "output_schema_mismatch" || !strings.Contains(refused["message"].(string), "/a") {
		t.Errorf("chat: %v", refused)
	}
	c := openAIClient(n)
	stream := c.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
		Model: agent, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "x", Schema: schema},
		}},
	})
	text := ""
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text += choice.Delta.Content
		}
	}
	if stream.Err() == nil || text != "" || !strings.Contains(stream.Err().Error(), "response_format") {
		t.Errorf("a stream: %q %v", text, stream.Err())
	}
	response := n.Expect(200, "POST", "/v1/responses", object{
		"model": agent, "input": "hello", "text": object{"format": object{"type": "json_schema", "name": "x", "schema": schema}},
	})
	if failed, _ := response["error"].(object); response["status"] != "failed" || failed["code"] != "output_schema_mismatch" {
		t.Errorf("responses: %v", response)
	}
}

// A schema that answers cannot be checked against is refused before a run starts.
func TestResponseFormatThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"name": "forms"})
	for name, schema := range map[string]object{
		"no type":   {"type": "objekt"},
		"elsewhere": {"$ref": "https://example.com/schema.json"},
	} {
		refused := n.Expect(422, "POST", "/v1/chat/completions", object{
			"model": agent, "messages": []object{{"role": "user", "content": "hello"}},
			"response_format": object{"type": "json_schema", "json_schema": object{"name": "x", "schema": schema}},
		})["error"].(object)
		if !strings.Contains(refused["message"].(string), "response_format.json_schema.schema") {
			t.Errorf("%s by chat: %v", name, refused)
		}
		refused = n.Expect(422, "POST", "/v1/responses", object{
			"model": agent, "input": "hello", "text": object{"format": object{"type": "json_schema", "name": "x", "schema": schema}},
		})["error"].(object)
		if !strings.Contains(refused["message"].(string), "text.format.schema") {
			t.Errorf("%s by responses: %v", name, refused)
		}
	}
	if runs := n.ListRuns(agent); len(runs) != 0 {
		t.Errorf("%d runs were started", len(runs))
	}
}

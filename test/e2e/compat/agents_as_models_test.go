package compat

import (
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// A client names an agent by its id or by a name that no other agent has.
func TestAgentsAreNamedByName(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "At your service."})))
	id := n.CreateAgent(object{"name": "Chef de cuisine"})
	c := openAIClient(n)
	for _, name := range []string{id, "agent/" + id, "Chef de cuisine", "agent/Chef de cuisine"} {
		answer, err := c.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
			Model: name, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello?")},
		})
		if err != nil || answer.Choices[0].Message.Content != "At your service." || answer.Model != name {
			t.Errorf("%s by chat completions: %v %v", name, answer, err)
		}
		response, err := c.Responses.New(t.Context(), responses.ResponseNewParams{
			Model: name, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello?")},
		})
		if err != nil || response.OutputText() != "At your service." {
			t.Errorf("%s by responses: %v %v", name, response, err)
		}
	}
	if got := n.Expect(200, "GET", "/v1/models/Chef%20de%20cuisine", nil); got["id"] != id || got["name"] != "Chef de cuisine" {
		t.Errorf("the model: %v", got)
	}
	// Names follow the agent, and of two agents with one name each has its id.
	n.Expect(200, "PATCH", "/api/v1/agents/"+id, object{"name": "Sous-chef"})
	n.Expect(404, "GET", "/v1/models/Chef%20de%20cuisine", nil)
	twin := n.CreateAgent(object{"name": "Sous-chef"})
	refused := n.Expect(404, "GET", "/v1/models/Sous-chef", nil)["error"].(object)
	for _, want := range []string{id, twin, "Several agents"} {
		if !strings.Contains(refused["message"].(string), want) {
			t.Errorf("the refusal lacks %s: %v", want, refused)
		}
	}
	n.Expect(200, "DELETE", "/api/v1/agents/"+twin, nil)
	if got := n.Expect(200, "GET", "/v1/models/Sous-chef", nil); got["id"] != id {
		t.Errorf("the one that is left: %v", got)
	}
	// Another company's agent has no name here.
	_, other := n.CreateTenant(object{"name": "Other"})
	other.Expect(404, "GET", "/v1/models/Sous-chef", nil)
}

// An agent that is named as the model of a message runs, with its prompt, tools and
// limits, and the answer is the run's.
func TestMessagesOfAgents(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(modeltest.ToolRounds(1, modeltest.Answer{Text: "It is 42."})))
	n := apptest.Start(t, sim)
	id := n.CreateAgent(object{"name": "Counter", "prompts": object{"system": "You count."}, "built_in_tools": []string{"calculator"}})
	c := anthropicClient(n)
	both(t, func(t *testing.T, stream bool) {
		for _, name := range []string{id, "agent/" + id, "agent/Counter"} {
			params := saying(userSays("One?"), anthropic.NewAssistantMessage(anthropic.NewTextBlock("One.")), userSays("What is 6*7?"))
			params.Model = name
			params.System = []anthropic.TextBlockParam{{Text: "Be brief."}}
			got := sendMessage(t, c, params, stream)
			last := got.Content[len(got.Content)-1]
			if last.Text != "It is 42." || got.StopReason != "end_turn" || got.Model != name || got.Usage.OutputTokens == 0 {
				t.Errorf("%s answers %s", name, got.RawJSON())
			}
			r := n.Expect(200, "GET", "/api/v1/runs/"+strings.TrimPrefix(got.ID, "msg_"), nil)
			if r["agent_id"] != id || r["status"] != "completed" || r["metadata"].(object)["source"] != "messages" {
				t.Errorf("the run: %v", r)
			}
			asked := sim.Requests()
			if body := string(asked[len(asked)-1].Body); !strings.Contains(body, "You count.") || !strings.Contains(body, "Be brief.") ||
				!strings.Contains(body, "One?") {
				t.Errorf("the model is asked %s", body)
			}
		}
	})
	var refused *anthropic.Error
	params := saying(userSays("Hello?"))
	params.Model = "agent/Nobody"
	if _, err := c.Messages.New(t.Context(), params); !errors.As(err, &refused) || refused.StatusCode != 404 {
		t.Errorf("an agent that does not exist: %v", err)
	}
}

// The client's own tools are called by an agent as by a model.
func TestMessagesOfAgentsWithTools(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(modeltest.ToolRounds(1, modeltest.Answer{Text: "Sunny."}))))
	id := n.CreateAgent(nil)
	both(t, func(t *testing.T, stream bool) {
		params := saying(userSays("How is the weather?"))
		params.Model = id
		params.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name: "weather", Description: param.NewOpt("Returns the weather."),
			InputSchema: anthropic.ToolInputSchemaParam{Properties: object{"city": object{"type": "string"}}},
		}}}
		got := sendMessage(t, anthropicClient(n), params, stream)
		if got.StopReason != "tool_use" || got.Content[len(got.Content)-1].Name != "weather" {
			t.Fatalf("no call: %s", got.RawJSON())
		}
		call := got.Content[len(got.Content)-1].ID
		params.Messages = append(params.Messages, got.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(call, "sunny", false)))
		if got := sendMessage(t, anthropicClient(n), params, stream); got.Content[0].Text != "Sunny." || got.StopReason != "end_turn" {
			t.Errorf("after the result: %s", got.RawJSON())
		}
	})
}

// A run that does not complete is an error, before the first event or as the last.
func TestMessagesOfAgentsThatFail(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Status: 400, Raw: []byte(`{"error":{"message":"no"}}`)}))
	n := apptest.Start(t, sim)
	params := saying(userSays("Hello?"))
	params.Model = n.CreateAgent(nil)
	c := anthropicClient(n)
	var refused *anthropic.Error
	if _, err := c.Messages.New(t.Context(), params); !errors.As(err, &refused) || refused.StatusCode != 502 {
		t.Errorf("plain: %v", err)
	}
	events := c.Messages.NewStreaming(t.Context(), params)
	defer events.Close()
	for events.Next() {
		if events.Current().Type == "message_stop" {
			t.Error("the failed run's answer looks complete")
		}
	}
	if events.Err() == nil {
		t.Error("streamed: no error")
	}
}

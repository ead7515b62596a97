package compat

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// openAIClient is OpenAI's own client for a node.
func openAIClient(n *apptest.Server, opts ...option.RequestOption) *openai.Client {
	c := openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(n.URL + "/v1/"), option.WithAPIKey(n.Key), option.WithHTTPClient(apptest.HTTPClient), option.WithMaxRetries(0),
	}, opts...)...)
	return &c
}

func asking(agent string, messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: agent, Messages: messages}
}

// streamed asks for a stream and gives what the SDK makes of it.
func streamed(t *testing.T, c *openai.Client, params openai.ChatCompletionNewParams) (*openai.ChatCompletionAccumulator, []openai.ChatCompletionChunk) {
	t.Helper()
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	var chunks []openai.ChatCompletionChunk
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatalf("a chunk does not fit: %s", stream.Current().RawJSON())
		}
		chunks = append(chunks, stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return &acc, chunks
}

func TestSDKCompletion(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{
		Text: `{"answer":42}`, Thinking: "Hm.", Usage: &model.Usage{InputTokens: 12, OutputTokens: 9, ThinkingTokens: 4},
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"name": "helper", "prompts": object{"system": "Be brief."}})
	params := asking("agent/"+agent, openai.SystemMessage("Answer in English."), openai.UserMessage("What is 6*7?"))
	params.Temperature, params.TopP = openai.Float(0.5), openai.Float(0.9)
	params.MaxCompletionTokens = openai.Int(64)
	params.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{"END"}}
	params.Metadata = shared.Metadata{"ticket": "7"}
	params.Seed, params.User = openai.Int(3), openai.String("ann")
	params.PresencePenalty, params.ReasoningEffort, params.Store = openai.Float(0.25), shared.ReasoningEffortLow, openai.Bool(true) // the last is ignored
	params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONObject: &shared.ResponseFormatJSONObjectParam{}}
	params.N = openai.Int(2) // there is one choice all the same
	var resp *http.Response
	got, err := openAIClient(n).Chat.Completions.New(t.Context(), params, option.WithResponseInto(&resp))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Choices) != 1 || got.Choices[0].Message.Content != `{"answer":42}` || got.Choices[0].FinishReason != "stop" ||
		got.Choices[0].Message.Role != "assistant" || len(got.Choices[0].Message.ToolCalls) != 0 {
		t.Errorf("the answer is %s", got.RawJSON())
	}
	if u := got.Usage; u.PromptTokens != 12 || u.CompletionTokens != 9 || u.TotalTokens != 21 || u.CompletionTokensDetails.ReasoningTokens != 4 {
		t.Errorf("usage %s", u.RawJSON())
	}
	if got.Model != "agent/"+agent || string(got.Object) != "chat.completion" || got.Created == 0 {
		t.Errorf("the answer is %s", got.RawJSON())
	}

	// It is an ordinary run.
	id := resp.Header.Get("X-Run-Id")
	if got.ID != "chatcmpl-"+id {
		t.Errorf("the completion %s is of the run %s", got.ID, id)
	}
	r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
	wantMeta := object{"source": "chat_completions", "client_metadata": object{"ticket": "7"}, "client_user": "ann"}
	if diff := cmp.Diff(wantMeta, r["metadata"]); r["status"] != "completed" || diff != "" {
		t.Errorf("the run is %v", r)
	}

	asked := sim.Requests()[0].Chat()
	if got := asked.Messages[0].Text(); asked.Messages[0].Role != "system" || got != "Be brief." {
		t.Errorf("the agent's own prompt became %q", got)
	}
	if got := asked.Last("user"); !strings.Contains(got, "Answer in English.") || !strings.HasSuffix(got, "What is 6*7?") {
		t.Errorf("the model is asked %q", got)
	}
	for _, want := range []string{`"temperature":0.5`, `"top_p":0.9`, `"stop":["END"]`, `:64`, `"seed":3`, `"presence_penalty":0.25`, `"reasoning_effort":"low"`, `"response_format":{"type":"json_object"}`} {
		if !strings.Contains(string(sim.Requests()[0].Body), want) {
			t.Errorf("%s did not reach the model: %s", want, sim.Requests()[0].Body)
		}
	}
}

func TestSDKStream(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(25)})))
	agent := n.CreateAgent(nil)
	params := asking(agent, openai.UserMessage("Hello?"))
	acc, chunks := streamed(t, openAIClient(n), params)
	if len(acc.Choices) != 1 || acc.Choices[0].Message.Content != modeltest.Tokens(25) || acc.Choices[0].FinishReason != "stop" {
		t.Errorf("the answer is %+v", acc.Choices)
	}
	if pieces := len(chunks) - 2; pieces != 25 {
		t.Errorf("25 tokens came in %d pieces", pieces)
	}
	if acc.Usage.TotalTokens != 0 {
		t.Errorf("nobody asked for usage %+v", acc.Usage)
	}

	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	acc, chunks = streamed(t, openAIClient(n), params)
	last := chunks[len(chunks)-1]
	if len(last.Choices) != 0 || last.Usage.PromptTokens != 10 || last.Usage.CompletionTokens != 25 || last.Usage.TotalTokens != 35 {
		t.Errorf("the last chunk is %s", last.RawJSON())
	}
	if acc.Choices[0].Message.Content != modeltest.Tokens(25) {
		t.Errorf("the answer is %+v", acc.Choices)
	}
}

// A model that is faster than its reader must not cost the reader a word.
func TestSDKLongStream(t *testing.T) {
	t.Parallel()
	const tokens = 8_000
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(tokens)})))
	acc, _ := streamed(t, openAIClient(n), asking(n.CreateAgent(nil), openai.UserMessage("Hello?")))
	if got, want := acc.Choices[0].Message.Content, modeltest.Tokens(tokens); got != want {
		t.Errorf("%d bytes came, want %d", len(got), len(want))
	}
}

// weather is a tool of the caller's own.
var weather = openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
	Name: "weather", Description: openai.String("Tells the weather."),
	Parameters: shared.FunctionParameters{"type": "object", "properties": object{"city": object{"type": "string"}}},
})

// The caller's tools: the model calls one, the caller runs it and asks again.
// The agent's own tool is run in between, unseen.
func TestSDKTools(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "streamed"}[stream], func(t *testing.T) {
			t.Parallel()
			sim := modeltest.New(t, modeltest.Script(
				modeltest.Answer{Text: "Let me see.", ToolCalls: []model.ToolCall{{ID: "own_1", Name: "calculator", Arguments: `{"expression":"6*7"}`}}},
				modeltest.Answer{ToolCalls: []model.ToolCall{
					{ID: "call_1", Name: "weather", Arguments: `{"city":"Bern"}`},
					{ID: "call_2", Name: "weather", Arguments: `{"city":"Rome"}`},
				}},
				modeltest.Answer{Text: "Sun and rain."},
			))
			n := apptest.Start(t, sim)
			agent := n.CreateAgent(object{"name": "tooled", "built_in_tools": []string{"calculator"}})
			params := asking(agent, openai.SystemMessage("Use tools."), openai.UserMessage("The weather?"))
			params.Tools = []openai.ChatCompletionToolUnionParam{weather}
			ask := func() openai.ChatCompletionChoice {
				if stream {
					acc, _ := streamed(t, openAIClient(n), params)
					return acc.Choices[0]
				}
				got, err := openAIClient(n).Chat.Completions.New(t.Context(), params)
				if err != nil {
					t.Fatal(err)
				}
				return got.Choices[0]
			}

			first := ask()
			calls := first.Message.ToolCalls
			if len(calls) != 2 || first.FinishReason != "stop" || calls[0].ID != "call_1" || calls[0].Type != "function" ||
				calls[0].Function.Name != "weather" || calls[1].Function.Arguments != `{"city":"Rome"}` {
				t.Fatalf("the answer is %+v", first)
			}
			if want := map[bool]string{true: "Let me see."}[stream]; first.Message.Content != want {
				t.Errorf("the text beside the calls is %q, want %q", first.Message.Content, want)
			}
			params.Messages = append(params.Messages, first.Message.ToParam(),
				openai.ToolMessage("sun", calls[0].ID), openai.ToolMessage("rain", calls[1].ID))
			if got := ask(); got.Message.Content != "Sun and rain." || len(got.Message.ToolCalls) != 0 {
				t.Errorf("the second answer is %+v", got)
			}

			asked := sim.Requests()
			if tools := asked[0].Chat().Tools; len(tools) != 2 || tools[1].Function.Name != "weather" ||
				!strings.Contains(string(tools[1].Function.Parameters), `"city"`) {
				t.Errorf("the model is offered %v", tools)
			}
			if got := asked[1].Chat().Last(model.Tool); got != "42" {
				t.Errorf("the agent's own tool gave %q", got)
			}
			var roles []string
			last := asked[2].Chat()
			for _, m := range last.Messages {
				roles = append(roles, m.Role)
			}
			if diff := cmp.Diff([]string{"user", "assistant", "tool", "tool"}, roles); diff != "" {
				t.Errorf("the model sees (-want +got):\n%s", diff)
			}
			if got := last.Last(model.User); !strings.Contains(got, "Use tools.") || !strings.HasSuffix(got, "The weather?") {
				t.Errorf("the caller's instructions are lost: %q", got)
			}
		})
	}
}

// What the caller says with a picture stays with it, instructions included.
func TestSDKImage(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim)
	_, err := openAIClient(n).Chat.Completions.New(t.Context(), asking(n.CreateAgent(nil), openai.SystemMessage("Look closely."),
		openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.TextContentPart("What is this?"),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,iVBORw0KGgo="}),
		})))
	if err != nil {
		t.Fatal(err)
	}
	messages := sim.Requests()[0].Chat().Messages
	got := string(messages[len(messages)-1].Content)
	for _, want := range []string{"Look closely.", "What is this?", `"image_url"`, "iVBORw0KGgo="} {
		if !strings.Contains(got, want) {
			t.Errorf("%s did not reach the model: %s", want, got)
		}
	}
}

func TestSDKErrors(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	agent := n.CreateAgent(nil)
	resting := n.CreateAgent(object{"name": "resting"})
	n.Expect(200, "POST", "/api/v1/agents/"+resting+"/suspend", nil)
	reader := n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "reader", "scopes": []string{"runs:read"}})["raw_key"].(string)
	hello := openai.UserMessage("Hello?")
	hot := asking(agent, hello)
	hot.Temperature = openai.Float(3)
	for _, tt := range []struct {
		name    string
		node    *apptest.Server
		params  openai.ChatCompletionNewParams
		status  int
		kind    string
		code    string
		param   string
		message string
	}{
		{"unknown-agent", n, asking("01990000-0000-7000-8000-00000000000a", hello), 404, "invalid_request_error", "model_not_found", "", "No agent"},
		{"name-of-a-model", n, asking("gpt-5", hello), 404, "invalid_request_error", "model_not_found", "", `"gpt-5"`},
		{"team", n, asking("team/"+agent, hello), 404, "invalid_request_error", "model_not_found", "", "No agent"},
		{"wrong-key", n.WithKey("svc_wrong"), asking(agent, hello), 401, "authentication_error", "AUTH_ERROR", "", "Authorization"},
		{"missing-scope", n.WithKey(reader), asking(agent, hello), 403, "permission_error", "MISSING_SCOPE", "", "runs:create"},
		{"out-of-range", n, hot, 422, "invalid_request_error", "VALIDATION_ERROR", "temperature", "at most 2"},
		{"no-messages", n, asking(agent), 422, "invalid_request_error", "VALIDATION_ERROR", "messages", "messages"},
		{"suspended", n, asking(resting, hello), 409, "invalid_request_error", "INVALID_STATE_TRANSITION", "", "suspended"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: "-streamed"}[stream], func(t *testing.T) {
				t.Parallel()
				tries := 0
				c := openAIClient(tt.node, option.WithMaxRetries(2), option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
					tries++
					return next(r)
				}))
				var err error
				if stream {
					s := c.Chat.Completions.NewStreaming(t.Context(), tt.params)
					for s.Next() {
						t.Errorf("a chunk: %s", s.Current().RawJSON())
					}
					err = s.Err()
				} else {
					_, err = c.Chat.Completions.New(t.Context(), tt.params)
				}
				e, ok := errors.AsType[*openai.Error](err)
				if !ok {
					t.Fatalf("the error is %v", err)
				}
				if e.StatusCode != tt.status || e.Type != tt.kind || e.Code != tt.code || e.Param != tt.param || !strings.Contains(e.Message, tt.message) {
					t.Errorf("the error is %d %s", e.StatusCode, e.RawJSON())
				}
				if tries != 1 {
					t.Errorf("the client tried %d times", tries)
				}
			})
		}
	}
}

// A run that fails is an answer all the same: HTTP knows no error by then.
func TestSDKFailedRun(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Status: 400, Error: "no such model"})))
	params := asking(n.CreateAgent(nil), openai.UserMessage("Hello?"))
	got, err := openAIClient(n).Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	plain := got.Choices[0]
	acc, chunks := streamed(t, openAIClient(n), params)
	whole := acc.Choices[0]
	if plain.FinishReason != "error" || whole.FinishReason != "error" || plain.Message.Content == "" || plain.Message.Content != whole.Message.Content {
		t.Errorf("the answers are %s and %+v", got.RawJSON(), whole)
	}
	for _, raw := range []string{got.JSON.ExtraFields["run_error"].Raw(), chunks[len(chunks)-1].JSON.ExtraFields["run_error"].Raw()} {
		if !strings.Contains(raw, `"model_error"`) {
			t.Errorf("the reason is %s", raw)
		}
	}
}

func TestSDKModels(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	first := n.CreateAgent(object{"name": "first"})
	second := n.CreateAgent(object{"name": "second"})
	n.Expect(200, "POST", "/api/v1/agents/"+first+"/suspend", nil)
	c := openAIClient(n)
	page, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, m := range page.Data {
		names[m.ID] = m.JSON.ExtraFields["display_name"].Raw()
		if string(m.Object) != "model" || m.Created == 0 || m.OwnedBy == "" {
			t.Errorf("an entry is %s", m.RawJSON())
		}
	}
	if diff := cmp.Diff(map[string]string{first: `"first"`, second: `"second"`}, names); diff != "" {
		t.Errorf("the models (-want +got):\n%s", diff)
	}
	for _, id := range []string{second, "agent/" + second} {
		m, err := c.Models.Get(t.Context(), id)
		if err != nil || m.ID != second {
			t.Errorf("%s: %v, %v", id, m, err)
		}
	}
	for _, id := range []string{"gpt-5", "01990000-0000-7000-8000-00000000000a", "team/" + first} {
		_, err := c.Models.Get(t.Context(), id)
		if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 404 || e.Code != "model_not_found" {
			t.Errorf("%s: %v", id, err)
		}
	}
}

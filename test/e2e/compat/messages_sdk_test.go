package compat

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/app"
	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// anthropicClient is Anthropic's own client for a node; the key goes in x-api-key.
func anthropicClient(n *apptest.Server, opts ...anthropicoption.RequestOption) *anthropic.Client {
	c := anthropic.NewClient(append([]anthropicoption.RequestOption{
		anthropicoption.WithBaseURL(n.URL), anthropicoption.WithAPIKey(n.Key),
		anthropicoption.WithHTTPClient(apptest.HTTPClient), anthropicoption.WithMaxRetries(0),
	}, opts...)...)
	return &c
}

func saying(messages ...anthropic.MessageParam) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: "claude-sonnet-4-5", MaxTokens: 512, Messages: messages}
}

func userSays(text string) anthropic.MessageParam {
	return anthropic.NewUserMessage(anthropic.NewTextBlock(text))
}

// sendMessage sends a request, streamed or not, and returns the message that the SDK
// decodes.
func sendMessage(t *testing.T, c *anthropic.Client, params anthropic.MessageNewParams, stream bool) anthropic.Message {
	t.Helper()
	if !stream {
		got, err := c.Messages.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		return *got
	}
	events := c.Messages.NewStreaming(t.Context(), params)
	defer events.Close()
	var acc anthropic.Message
	last := ""
	for events.Next() {
		if err := acc.Accumulate(events.Current()); err != nil {
			t.Fatalf("an event does not fit: %v: %s", err, events.Current().RawJSON())
		}
		last = events.Current().Type
	}
	if err := events.Err(); err != nil {
		t.Fatal(err)
	}
	if last != "message_stop" {
		t.Errorf("the last event is %q", last)
	}
	return acc
}

// both runs a test plain and streamed.
func both(t *testing.T, test func(t *testing.T, stream bool)) {
	for _, stream := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "streamed"}[stream], func(t *testing.T) { test(t, stream) })
	}
}

func TestMessagesBySDK(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{
		Text: "It is\n42.", Thinking: "Hm. Well.", Usage: &model.Usage{InputTokens: 12, OutputTokens: 9, ThinkingTokens: 4, CachedTokens: 5},
	}))
	n := apptest.Start(t, sim)
	params := saying(userSays("What is 6*7?"))
	params.System = []anthropic.TextBlockParam{{Text: "Be brief."}, {Text: "Answer in English."}}
	params.Temperature, params.TopP, params.StopSequences = param.NewOpt(0.5), param.NewOpt(0.9), []string{"END"}
	params.Metadata = anthropic.MetadataParam{UserID: param.NewOpt("ann")}
	both(t, func(t *testing.T, stream bool) {
		got := sendMessage(t, anthropicClient(n), params, stream)
		if len(got.Content) != 1 || got.Content[0].Text != "It is\n42." || got.StopReason != "end_turn" || got.StopSequence != "" ||
			got.Role != "assistant" || got.Model != "claude-sonnet-4-5" || !strings.HasPrefix(got.ID, "msg_") || got.Type != "message" {
			t.Errorf("the answer is %s", got.RawJSON())
		}
		if u := got.Usage; u.InputTokens != 7 || u.CacheReadInputTokens != 5 || u.OutputTokens != 9 || u.CacheCreationInputTokens != 0 {
			t.Errorf("usage %+v", u)
		}
		asked := sim.Requests()
		sent := asked[len(asked)-1]
		if c := sent.Chat(); c.Model != "sim-model" || len(c.Messages) != 2 || c.Messages[0].Role != "system" ||
			c.Messages[0].Text() != "Be brief.\n\nAnswer in English." || c.Last(model.User) != "What is 6*7?" {
			t.Errorf("the model is asked %s", sent.Body)
		}
		for _, want := range []string{`"temperature":0.5`, `"top_p":0.9`, `"stop":["END"]`, `"max_tokens":512`} {
			if !strings.Contains(string(sent.Body), want) {
				t.Errorf("%s did not reach the model: %s", want, sent.Body)
			}
		}
		if strings.Contains(string(sent.Body), "ann") || sent.Stream != stream {
			t.Errorf("stream %t, or the user's id left the platform: %s", sent.Stream, sent.Body)
		}

		thinking := params
		thinking.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
		got = sendMessage(t, anthropicClient(n), thinking, stream)
		if len(got.Content) != 2 || got.Content[0].Thinking != "Hm. Well." || got.Content[0].Signature == "" || got.Content[1].Text != "It is\n42." {
			t.Errorf("the answer with thinking is %+v", got.Content)
		}
		// What was thought goes back and is dropped.
		thinking.Messages = append(thinking.Messages, got.ToParam(), userSays("Sure?"))
		sendMessage(t, anthropicClient(n), thinking, stream)
		asked = sim.Requests()
		if c := asked[len(asked)-1].Chat(); len(c.Messages) != 4 || c.Messages[2].Text() != "It is\n42." {
			t.Errorf("the model is asked %s", asked[len(asked)-1].Body)
		}
	})

	// All of it was counted, with its source and for no agent.
	calls := float64(sim.Calls())
	apptest.Eventually(t, func() bool {
		got := n.Expect(200, "GET", "/api/v1/usage?breakdown=source", nil)
		return got["input_tokens"] == 12*calls && got["output_tokens"] == 9*calls && strings.Contains(string(must(json.Marshal(got["by_source"]))), "messages")
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// Tools: the model calls two at once, the caller answers with texts and a
// picture, and asks again.
func TestMessagesToolsBySDK(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, stream bool) {
		t.Parallel()
		sim := modeltest.New(t, modeltest.Script(
			modeltest.Answer{Text: "Let me see.", ToolCalls: []model.ToolCall{
				{ID: "call_1", Name: "weather", Arguments: `{"city":"Bern","days":[1,2]}`},
				{ID: "call_2", Name: "camera", Arguments: `{}`},
			}},
			modeltest.Answer{Text: "Sun."},
		))
		n := apptest.Start(t, sim)
		params := saying(userSays("The weather?"))
		params.Tools = []anthropic.ToolUnionParam{
			{OfTool: &anthropic.ToolParam{Name: "weather", Description: param.NewOpt("Tells the weather."), InputSchema: anthropic.ToolInputSchemaParam{Properties: object{"city": object{"type": "string"}}}}},
			{OfTool: &anthropic.ToolParam{Name: "camera", InputSchema: anthropic.ToolInputSchemaParam{}}},
			{OfWebSearchTool20250305: &anthropic.WebSearchTool20250305Param{}}, // which we do not have
		}
		params.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{DisableParallelToolUse: param.NewOpt(true)}}
		first := sendMessage(t, anthropicClient(n), params, stream)
		if len(first.Content) != 3 || first.StopReason != "tool_use" || first.Content[0].Text != "Let me see." ||
			first.Content[1].ID != "call_1" || first.Content[1].Name != "weather" || first.Content[2].Name != "camera" {
			t.Fatalf("the answer is %s", first.RawJSON())
		}
		var input object
		if err := json.Unmarshal(first.Content[1].Input, &input); err != nil || !cmp.Equal(input, object{"city": "Bern", "days": []any{1.0, 2.0}}) {
			t.Errorf("the input is %s", first.Content[1].Input)
		}
		if string(first.Content[2].Input) != "{}" {
			t.Errorf("the input is %s", first.Content[2].Input)
		}
		params.Messages = append(params.Messages, first.ToParam(), anthropic.NewUserMessage(
			anthropic.ContentBlockParamUnion{OfToolResult: &anthropic.ToolResultBlockParam{ToolUseID: "call_2", Content: []anthropic.ToolResultBlockParamContentUnion{
				{OfText: &anthropic.TextBlockParam{Text: "click"}},
				{OfImage: &anthropic.ImageBlockParam{Source: anthropic.ImageBlockParamSourceUnion{OfBase64: &anthropic.Base64ImageSourceParam{MediaType: "image/png", Data: pixel}}}},
			}}},
			anthropic.NewToolResultBlock("call_1", "no such city", true),
			anthropic.NewTextBlock("What do you see?"),
			anthropic.NewDocumentBlock(anthropic.PlainTextSourceParam{Data: "the plain text"}),
			anthropic.NewDocumentBlock(anthropic.Base64PDFSourceParam{Data: "JVBERi0="}),
			anthropic.NewDocumentBlock(anthropic.ContentBlockSourceParam{Content: anthropic.ContentBlockSourceContentUnionParam{OfString: param.NewOpt("the content")}}),
			anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: "https://pictures.example/a.png"}),
		))
		params.ToolChoice = anthropic.ToolChoiceParamOfTool("weather")
		if got := sendMessage(t, anthropicClient(n), params, stream); len(got.Content) != 1 || got.Content[0].Text != "Sun." || got.StopReason != "end_turn" {
			t.Errorf("the second answer is %s", got.RawJSON())
		}
		asked := sim.Requests()
		if tools := asked[0].Chat().Tools; len(tools) != 2 || tools[0].Function.Name != "weather" || tools[0].Function.Description != "Tells the weather." ||
			!strings.Contains(string(tools[0].Function.Parameters), `"city"`) {
			t.Errorf("the model is offered %v", tools)
		}
		for i, want := range []string{`"tool_choice":"required"`, `"tool_choice":{"type":"function","function":{"name":"weather"}}`} {
			if !strings.Contains(string(asked[i].Body), want) || strings.Contains(string(asked[i].Body), `"parallel_tool_calls":false`) != (i == 0) {
				t.Errorf("call %d: %s", i, asked[i].Body)
			}
		}
		var roles []string
		messages := asked[1].Chat().Messages
		for _, m := range messages {
			roles = append(roles, m.Role+m.ToolCallID)
		}
		if diff := cmp.Diff([]string{"user", "assistant", "toolcall_2", "toolcall_1", "user"}, roles); diff != "" {
			t.Fatalf("the messages:\n%s", diff)
		}
		if calls := messages[1].ToolCalls; messages[1].Text() != "Let me see." || len(calls) != 2 || !strings.Contains(calls[0].Function.Arguments, `"Bern"`) {
			t.Errorf("the assistant's turn: %+v", messages[1])
		}
		if messages[3].Text() != "Error: no such city" || !strings.HasPrefix(messages[2].Text(), "click") {
			t.Errorf("the results: %q, %q", messages[2].Text(), messages[3].Text())
		}
		last := string(messages[4].Content)
		for _, want := range []string{"data:image/png;base64," + pixel, "What do you see?", "the plain text", "the content",
			`"file_data":"data:application/pdf;base64,JVBERi0="`, "https://pictures.example/a.png"} {
			if !strings.Contains(last, want) {
				t.Errorf("%s is not in %s", want, last)
			}
		}
	})
}

// unheard asks for what is refused, and gives the refusal.
func unheard(t *testing.T, n *apptest.Server, params anthropic.MessageNewParams, stream bool) error {
	t.Helper()
	if !stream {
		_, err := anthropicClient(n).Messages.New(t.Context(), params)
		return err
	}
	events := anthropicClient(n).Messages.NewStreaming(t.Context(), params)
	for events.Next() {
		t.Errorf("an event before the refusal: %s", events.Current().RawJSON())
	}
	return events.Err()
}

// checkRefusal checks what Anthropic's client raises. A kind of "" is a refusal of the
// API's own form, before the request is read.
func checkRefusal(t *testing.T, err error, status int, kind, says string) {
	t.Helper()
	e, ok := errors.AsType[*anthropic.Error](err)
	if !ok || e.StatusCode != status || string(e.Type()) != kind || !strings.Contains(e.RawJSON(), says) {
		t.Fatalf("got %v", err)
	}
	if e.RequestID == "" && kind != "" && status != 401 && status != 403 {
		t.Errorf("no id of the request in %v", e.Response.Header)
	}
	if kind != "" && !strings.Contains(e.RawJSON(), `"request_id":"`+e.Response.Header.Get("X-Request-Id")+`"`) {
		t.Errorf("no request_id: %s", e.RawJSON())
	}
	wantType := map[bool]string{true: "application/problem+json", false: "application/json"}[kind == ""]
	if got := e.Response.Header.Get("Content-Type"); got != wantType {
		t.Errorf("Content-Type %s, want %s", got, wantType)
	}
}

// A model's limit of rate is the client's 429, and so is each further request until
// the time that the model named; the model is not asked meanwhile. Other models are.
func TestMessagesRateOfTheModel(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if strings.HasPrefix(r.Chat().Model, "busy-") {
			return modeltest.Answer{Status: 429, Error: "slow down", RetryAfter: "60"}
		}
		return modeltest.Answer{Text: "fine"}
	}))
	n := apptest.Start(t, sim)
	both(t, func(t *testing.T, stream bool) {
		params := saying(userSays("hi"))
		params.Model = fmt.Sprint("busy-", stream)
		before := sim.Calls()
		for _, says := range []string{"limits the rate", "accepts no further calls"} {
			err := unheard(t, n, params, stream)
			checkRefusal(t, err, 429, "rate_limit_error", says)
			e, _ := errors.AsType[*anthropic.Error](err)
			if after, err := strconv.Atoi(e.Response.Header.Get("Retry-After")); err != nil || after < 30 || after > 60 {
				t.Errorf("%s: Retry-After %q", says, e.Response.Header.Get("Retry-After"))
			}
			if calls := sim.Calls() - before; calls != 1 {
				t.Errorf("%s: the model was asked %d times", says, calls)
			}
		}
		sendMessage(t, anthropicClient(n), saying(userSays("hi")), stream)
	})
}

// Refusals as Anthropic's client raises them.
func TestMessagesErrorsBySDK(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		switch r.Chat().Last(model.User) {
		case "odd":
			return modeltest.Answer{Status: 400, Error: "that is odd"}
		case "break":
			return modeltest.Answer{Text: "a b c d", BreakAfter: 3}
		}
		return modeltest.Answer{Text: "fine"}
	}))
	g := &apptest.RoleKeys{Server: apptest.Start(t, sim), Keys: map[string]string{}}
	g.Admin = g.Server.Admin()
	made, err := g.Admin.Tenants.Create(t.Context(), "Gate", "")
	if err != nil {
		t.Fatal(err)
	}
	g.Tenant = made.TenantID
	owner := g.KeyFor(authz.Owner, "*")
	for _, c := range []struct {
		name, key, model, text string
		status                 int
		kind                   string
		says                   string
	}{
		{"no such key", "svc_aaaaaaaa_" + strings.Repeat("b", 32), "claude-x", "hi", 401, "authentication_error", "credential"},
		{"unknown model", owner, "nobody/nothing-at-all", "hi", 0, "", ""}, // the default provider may have it
		{"echo", owner, "builtin/echo", "hi", 0, "", ""},
		{"no model", owner, "", "hi", 422, "invalid_request_error", "model: "},
		{"refused by the model", owner, "claude-x", "odd", 400, "invalid_request_error", "that is odd"},
		{"missing scope", g.KeyFor(authz.Owner, "runs:create"), "claude-x", "hi", 403, "", "agents:read"},
		{"missing other scope", g.KeyFor(authz.Owner, "agents:read"), "claude-x", "hi", 403, "", "runs:create"},
		{"role", g.KeyFor(authz.Viewer, "*"), "claude-x", "hi", 403, "", "role"},
		{"suspended", apptest.SuspendedTenant(t, g.Admin), "claude-x", "hi", 403, "permission_error", "suspended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, stream bool) {
				n := g.WithKey(c.key)
				params := saying(userSays(c.text))
				params.Model = c.model
				if c.status == 0 {
					if got := sendMessage(t, anthropicClient(n), params, stream); len(got.Content) != 1 || got.Model != c.model {
						t.Errorf("%s", got.RawJSON())
					}
					return
				}
				checkRefusal(t, unheard(t, n, params, stream), c.status, c.kind, c.says)
			})
		})
	}

	// After its first event a stream ends with an event.
	events := anthropicClient(g.WithKey(owner)).Messages.NewStreaming(t.Context(), saying(userSays("break")))
	text := ""
	for events.Next() {
		text += events.Current().Delta.Text
	}
	if err := events.Err(); err == nil || !strings.Contains(err.Error(), "api_error") || text != "a b c " {
		t.Errorf("after %q: %v", text, err)
	}

	// The key as a Bearer token, as coding agents send it.
	bearer := anthropicClient(g.WithKey(owner), anthropicoption.WithAuthToken(owner), anthropicoption.WithHeaderDel("x-api-key"))
	sendMessage(t, bearer, saying(userSays("hi")), false)
	// Both: Authorization decides.
	both := anthropicClient(g.WithKey(owner), anthropicoption.WithAuthToken("wrong"))
	if _, err := both.Messages.New(t.Context(), saying(userSays("hi"))); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong token beside a right x-api-key: %v", err)
	}

	// count_tokens takes any key, and asks nobody.
	calls := sim.Calls()
	counted, err := anthropicClient(g.WithKey(g.KeyFor(authz.Viewer))).Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: "claude-x", System: anthropic.MessageCountTokensParamsSystemUnion{OfString: param.NewOpt(strings.Repeat("s", 40))},
		Messages: []anthropic.MessageParam{userSays(strings.Repeat("u", 400)), anthropic.NewAssistantMessage(anthropic.NewTextBlock("okay"))},
	})
	if err != nil || counted.InputTokens != 111+2*3 || sim.Calls() != calls {
		t.Errorf("counted %+v, %v", counted, err)
	}
}

// Which model serves the reserved names is checked at the start.
func TestMessagesModel(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim, func(c *config.Config) { c.Models.MessagesModel = "default/big-model" })
	for name, want := range map[string]string{"claude-opus-4-1": "big-model", "sim-model": "sim-model", "default/other": "other"} {
		params := saying(userSays("hi"))
		params.Model = name
		if got := sendMessage(t, anthropicClient(n), params, false); got.Model != name {
			t.Errorf("the answer's model is %s", got.Model)
		}
		asked := sim.Requests()
		if got := asked[len(asked)-1].Chat().Model; got != want {
			t.Errorf("%s was served by %s, want %s", name, got, want)
		}
	}
	offline := apptest.Start(t, nil, func(c *config.Config) { c.Server.RateLimits = "tenant=100/m,key=2/m" })
	if got := sendMessage(t, anthropicClient(offline), saying(userSays("hi")), true); len(got.Content) != 1 || !strings.Contains(got.Content[0].Text, "echo") {
		t.Errorf("%s", got.RawJSON())
	}
	params := saying(userSays("hi"))
	params.Model = "default/other"
	_, err := anthropicClient(offline).Messages.New(t.Context(), params)
	if e, ok := errors.AsType[*anthropic.Error](err); !ok || e.StatusCode != 400 || e.Type() != "invalid_request_error" {
		t.Errorf("a model that is none: %v", err)
	}
	// The limit of requests keeps the problem document.
	apptest.CheckCode(t, offline.Do("POST", "/v1/messages", "{}"), 429, "rate_limit_exceeded")

	wrong := config.Config{}
	wrong.Server.Listen, wrong.Storage.DataDir = "127.0.0.1:0", t.TempDir()
	wrong.Models.MessagesModel = "nobody/big-model"
	if _, err := app.Start(t.Context(), wrong, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "AGENTD_MESSAGES_MODEL") {
		t.Errorf("a start with a wrong model: %v", err)
	}
}

package compat

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// responding asks an agent for a response.
func responding(agent, message string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: agent, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(message)}}
}

func inputOf(items ...responses.ResponseInputItemUnionParam) responses.ResponseNewParamsInputUnion {
	return responses.ResponseNewParamsInputUnion{OfInputItemList: items}
}

func createResponse(n *apptest.Server, params responses.ResponseNewParams, opts ...option.RequestOption) *responses.Response {
	n.T.Helper()
	got, err := openAIClient(n).Responses.New(n.T.Context(), params, opts...)
	if err != nil {
		n.T.Fatal(err)
	}
	return got
}

// streamResponse asks for a stream, checks its grammar, and gives the last
// event's response.
func streamResponse(n *apptest.Server, params responses.ResponseNewParams) (*responses.Response, []responses.ResponseStreamEventUnion) {
	n.T.Helper()
	stream := openAIClient(n).Responses.NewStreaming(n.T.Context(), params)
	defer stream.Close()
	var events []responses.ResponseStreamEventUnion
	for stream.Next() {
		events = append(events, stream.Current())
	}
	if err := stream.Err(); err != nil {
		n.T.Fatal(err)
	}
	return grammatical(n.T, events), events
}

// grammatical checks what any client may expect of a response's stream: numbers
// without a hole, items that begin before they go on and end once, texts that
// are what their pieces say, and a last event that has them all.
func grammatical(t testing.TB, events []responses.ResponseStreamEventUnion) *responses.Response {
	t.Helper()
	if len(events) < 3 || events[0].Type != "response.created" || events[1].Type != "response.in_progress" {
		t.Fatalf("the stream begins with %v", events)
	}
	texts := map[string]string{}
	done := []json.RawMessage{}
	open := map[string]bool{}
	for i, e := range events {
		if e.SequenceNumber != int64(i) {
			t.Errorf("event %d has the number %d", i, e.SequenceNumber)
		}
		switch {
		case e.Type == "response.output_item.added":
			if open[e.Item.ID] = true; int(e.OutputIndex) != len(done) {
				t.Errorf("the item %s has the index %d, after %d", e.Item.ID, e.OutputIndex, len(done))
			}
		case strings.HasSuffix(e.Type, ".delta"):
			if !open[e.ItemID] {
				t.Errorf("the item %s is not open: %s", e.ItemID, e.RawJSON())
			}
			texts[e.ItemID] += e.Delta
		case e.Type == "response.output_item.done":
			if !open[e.Item.ID] || int(e.OutputIndex) != len(done) {
				t.Errorf("the item %s ends out of turn", e.Item.ID)
			}
			delete(open, e.Item.ID)
			done = append(done, json.RawMessage(e.Item.RawJSON()))
			said := e.Item.Arguments.OfString
			if e.Item.Type == "message" {
				said = e.Item.Content[0].Text
			} else if e.Item.Type == "reasoning" {
				said = e.Item.Summary[0].Text
			}
			if said != texts[e.Item.ID] {
				t.Errorf("the item %s says %q, its pieces %q", e.Item.ID, said, texts[e.Item.ID])
			}
		}
	}
	last := events[len(events)-1]
	if !slices.Contains([]string{"response.completed", "response.incomplete", "response.failed"}, last.Type) {
		t.Fatalf("the stream ends with %s", last.RawJSON())
	}
	output := []json.RawMessage{}
	for _, item := range last.Response.Output {
		output = append(output, json.RawMessage(item.RawJSON()))
	}
	if diff := cmp.Diff(done, output); diff != "" || len(open) > 0 {
		t.Errorf("the response has other items than the stream (-stream +response), open %v:\n%s", open, diff)
	}
	return &last.Response
}

// checkReadBack reads a response, and checks that it says what was said before.
func checkReadBack(n *apptest.Server, was *responses.Response) {
	n.T.Helper()
	got, err := openAIClient(n).Responses.Get(n.T.Context(), was.ID, responses.ResponseGetParams{})
	if err != nil {
		n.T.Fatal(err)
	}
	if diff := cmp.Diff(objectOf(n.T, was.RawJSON()), objectOf(n.T, got.RawJSON())); diff != "" {
		n.T.Errorf("what is read back differs (-said +read):\n%s", diff)
	}
}

func objectOf(t testing.TB, raw string) (o object) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSDKResponse(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{
		Text: "It is 42.", Thinking: "Hm.", Usage: &model.Usage{InputTokens: 12, OutputTokens: 9, ThinkingTokens: 4},
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"name": "helper", "prompts": object{"system": "Be brief."}})
	params := responding("agent/"+agent, "What is 6*7?")
	params.Instructions = openai.String("Answer in English.")
	params.Temperature, params.TopP, params.MaxOutputTokens = openai.Float(0.5), openai.Float(0.9), openai.Int(64)
	params.Metadata = shared.Metadata{"ticket": "7"}
	params.User, params.Truncation = openai.String("ann"), "auto" // ignored
	for _, ask := range []func() *responses.Response{
		func() *responses.Response { return createResponse(n, params) },
		func() *responses.Response { got, _ := streamResponse(n, params); return got },
	} {
		got := ask()
		if got.OutputText() != "It is 42." || got.Status != "completed" || len(got.Output) != 2 || got.Output[0].Summary[0].Text != "Hm." || got.Output[1].Role != "assistant" {
			t.Errorf("the answer is %s", got.RawJSON())
		}
		if u := got.Usage; u.InputTokens != 12 || u.OutputTokens != 9 || u.TotalTokens != 21 || u.OutputTokensDetails.ReasoningTokens != 4 {
			t.Errorf("usage %s", u.RawJSON())
		}
		if got.Model != "agent/"+agent || string(got.Object) != "response" || got.CreatedAt == 0 || got.Metadata["ticket"] != "7" ||
			got.Instructions.OfString != "Answer in English." || got.Temperature != 0.5 || got.MaxOutputTokens != 64 {
			t.Errorf("the answer is %s", got.RawJSON())
		}
		checkReadBack(n, got)
		r := n.Expect(200, "GET", "/api/v1/runs/"+got.ID, nil)
		wantMeta := object{"source": "responses", "client_metadata": object{"ticket": "7"}}
		if diff := cmp.Diff(wantMeta, r["metadata"]); r["status"] != "completed" || diff != "" {
			t.Errorf("the run is %v", r)
		}
	}
	asked := sim.Requests()[0].Chat()
	if got := asked.Messages[0].Text(); asked.Messages[0].Role != "system" || got != "Be brief." {
		t.Errorf("the agent's own prompt became %q", got)
	}
	if got := asked.Last("user"); !strings.Contains(got, "Answer in English.") || !strings.HasSuffix(got, "What is 6*7?") {
		t.Errorf("the model is asked %q", got)
	}
	for _, want := range []string{`"temperature":0.5`, `"top_p":0.9`, `:64`} {
		if !strings.Contains(string(sim.Requests()[0].Body), want) {
			t.Errorf("%s did not reach the model: %s", want, sim.Requests()[0].Body)
		}
	}
}

// A chain of thirty responses: every call has all earlier messages, in order,
// and only its own instructions. The chain continues after a restart.
func TestSDKResponseChain(t *testing.T) {
	t.Parallel()
	const turns = 30
	answers := make([]modeltest.Answer, turns)
	for i := range answers {
		answers[i].Text = "answer " + strconv.Itoa(i)
	}
	sim := modeltest.New(t, modeltest.Script(answers...))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	var want []string
	last := ""
	for i := range turns {
		params := responding(agent, "question "+strconv.Itoa(i))
		params.Instructions = openai.String("instruction " + strconv.Itoa(i) + ".")
		if last != "" {
			params.PreviousResponseID = openai.String(last)
		}
		var got *responses.Response
		if i%2 == 0 {
			got = createResponse(n, params)
		} else {
			got, _ = streamResponse(n, params)
		}
		if got.PreviousResponseID != last || got.OutputText() != answers[i].Text {
			t.Fatalf("response %d is %s", i, got.RawJSON())
		}
		last = got.ID
		asked := sim.Requests()[i]
		said := []string{}
		for _, m := range asked.Chat().Messages {
			said = append(said, m.Role+": "+m.Text())
		}
		now := "user: Instructions of the caller:\ninstruction " + strconv.Itoa(i) + ".\n\nquestion " + strconv.Itoa(i)
		if diff := cmp.Diff(append(slices.Clone(want), now), said); diff != "" {
			t.Fatalf("call %d has (-want +got):\n%s", i, diff)
		}
		want = append(want, "user: question "+strconv.Itoa(i), "assistant: "+answers[i].Text)
		if i == turns/2 {
			n.Stop()
			n = apptest.Restart(t, n.Config)
			checkReadBack(n, got)
		}
	}
	// No run has what another one stores.
	r := n.Do("GET", "/api/v1/runs/"+last, nil)
	if strings.Contains(string(r.Body), "question 28") {
		t.Errorf("the last run stores what was said before it: %s", r.Body)
	}
}

// The caller's tools in a chain: the answer comes by previous_response_id, and
// the agent's own tool is run in between, unseen.
func TestSDKResponseTools(t *testing.T) {
	t.Parallel()
	script := []modeltest.Answer{
		{Text: "Let me see.", ToolCalls: []model.ToolCall{{ID: "own_1", Name: "calculator", Arguments: `{"expression":"6*7"}`}}},
		{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "weather", Arguments: `{"city":"Bern"}`}, {ID: "call_2", Name: "weather", Arguments: `{"city":"Rome"}`}}},
		{Text: "Sun and rain."},
		{Text: "Bye."},
	}
	sim := modeltest.New(t, modeltest.Script(slices.Concat(script, script)...))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"name": "tooled", "built_in_tools": []string{"calculator"}})
	tools := []responses.ToolUnionParam{
		{OfFunction: &responses.FunctionToolParam{Name: "weather", Parameters: map[string]any{"type": "object", "properties": object{"city": object{"type": "string"}}}, Strict: openai.Bool(false)}},
		{OfWebSearch: &responses.WebSearchToolParam{Type: "web_search"}}, // left out
	}
	for round, ask := range []func(p responses.ResponseNewParams) *responses.Response{
		func(p responses.ResponseNewParams) *responses.Response { return createResponse(n, p) },
		func(p responses.ResponseNewParams) *responses.Response { got, _ := streamResponse(n, p); return got },
	} {
		params := responding(agent, "The weather?")
		params.Tools = tools
		params.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "weather"}}
		first := ask(params)
		if len(first.Output) != 3 || first.OutputText() != "Let me see." || first.Output[1].CallID != "call_1" || first.Output[1].Name != "weather" ||
			first.Output[2].Arguments.OfString != `{"city":"Rome"}` || first.Status != "completed" || len(first.Tools) != 1 {
			t.Fatalf("the answer is %s", first.RawJSON())
		}
		checkReadBack(n, first)
		next := responses.ResponseNewParams{Model: agent, Tools: tools, PreviousResponseID: openai.String(first.ID), Input: inputOf(
			result("call_2", "rain"), result("call_1", "sun"))}
		second := ask(next)
		if second.OutputText() != "Sun and rain." {
			t.Errorf("the second answer is %s", second.RawJSON())
		}
		bye := responding(agent, "Bye.")
		bye.PreviousResponseID = openai.String(second.ID)
		ask(bye)
		asked := sim.Requests()[round*4:]
		if tools := asked[0].Chat().Tools; len(tools) != 2 || tools[1].Function.Name != "weather" {
			t.Errorf("the model is offered %v", tools)
		}
		if !strings.Contains(string(asked[0].Body), `"tool_choice":{"type":"function","function":{"name":"weather"}}`) {
			t.Errorf("the choice is lost: %s", asked[0].Body)
		}
		want := []string{"user The weather?", "assistant Let me see. own_1", "tool 42 own_1", "assistant  call_1 call_2", "tool sun call_1", "tool rain call_2"}
		if diff := cmp.Diff(want, linesOf(asked[2])); diff != "" {
			t.Errorf("the model sees (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(append(want, "assistant Sun and rain.", "user Bye."), linesOf(asked[3])); diff != "" {
			t.Errorf("the model sees (-want +got):\n%s", diff)
		}
	}
}

// linesOf is a conversation as a model got it, a line for each message.
func linesOf(r modeltest.Request) (lines []string) {
	for _, m := range r.Chat().Messages {
		line := m.Role + " " + m.Text()
		for _, c := range m.ToolCalls {
			line += " " + c.ID
		}
		if m.ToolCallID != "" {
			line += " " + m.ToolCallID
		}
		lines = append(lines, line)
	}
	return lines
}

func TestSDKResponseErrors(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	agent := n.CreateAgent(nil)
	ordinary := n.StartRun(agent, "hello", object{"metadata": object{"source": "responses"}})
	n.WaitRun(ordinary)
	var chat *http.Response
	if _, err := openAIClient(n).Chat.Completions.New(t.Context(), asking(agent, openai.UserMessage("Hello?")), option.WithResponseInto(&chat)); err != nil {
		t.Fatal(err)
	}
	own := createResponse(n, responding(agent, "hello")).ID
	_, other := n.CreateTenant(object{"name": "other"})
	foreign := createResponse(other, responding(other.CreateAgent(nil), "hello")).ID
	after := func(id string) responses.ResponseNewParams {
		p := responding(agent, "hello")
		p.PreviousResponseID = openai.String(id)
		return p
	}
	for _, tt := range []struct{ name, id string }{
		{"malformed", "resp_123"}, {"absent", "01990000-0000-7000-8000-00000000000a"}, {"ordinary-run", ordinary},
		{"chat", chat.Header.Get("X-Run-Id")}, {"another-tenants", foreign},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				_, err := openAIClient(n).Responses.New(t.Context(), after(tt.id), option.WithJSONSet("stream", stream))
				e, ok := errors.AsType[*openai.Error](err)
				if !ok || e.StatusCode != 404 || e.Code != "previous_response_not_found" || e.Param != "previous_response_id" || e.Type != "invalid_request_error" {
					t.Errorf("the error is %v", err)
				}
			}
			_, err := openAIClient(n).Responses.Get(t.Context(), tt.id, responses.ResponseGetParams{})
			if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 404 || e.Code != "NOT_FOUND" {
				t.Errorf("reading it: %v", err)
			}
		})
	}
	if got := createResponse(n, after(own)); got.PreviousResponseID != own {
		t.Errorf("the answer is %s", got.RawJSON())
	}
	for _, tt := range []struct {
		name   string
		params responses.ResponseNewParams
		status int
		code   string
		param  string
	}{
		{"unknown-agent", responding("01990000-0000-7000-8000-00000000000a", "hello"), 404, "model_not_found", ""},
		{"name-of-a-model", responding("gpt-5", "hello"), 404, "model_not_found", ""},
		{"nothing", responding(agent, ""), 422, "VALIDATION_ERROR", "input"},
		{"no-call", responses.ResponseNewParams{Model: agent, Input: inputOf(result("call_9", "x"))}, 422, "VALIDATION_ERROR", "input[0].call_id"},
		{"another-tenants-item", responses.ResponseNewParams{Model: agent, Input: inputOf(responses.ResponseInputItemParamOfItemReference("msg_" + foreign))}, 422, "VALIDATION_ERROR", "input[0].id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := openAIClient(n).Responses.New(t.Context(), tt.params)
			if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != tt.status || e.Code != tt.code || e.Param != tt.param {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// What was said can be named by its id, as clients do that keep no texts.
func TestSDKResponseReferences(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Script(modeltest.Answer{Text: "one", Thinking: "Hm."}, modeltest.Answer{Text: "two"}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	first := createResponse(n, responding(agent, "first"))
	var items []responses.ResponseInputItemUnionParam
	items = append(items, responses.ResponseInputItemParamOfMessage("You are terse.", "developer"), responses.ResponseInputItemParamOfMessage("first", "user"))
	for _, item := range first.Output {
		items = append(items, responses.ResponseInputItemParamOfItemReference(item.ID))
	}
	items = append(items, responses.ResponseInputItemParamOfMessage("second", "user"))
	params := responses.ResponseNewParams{Model: agent, Input: inputOf(items...)}
	second := createResponse(n, params)
	want := []string{"user first", "assistant one", "user Instructions of the caller:\nYou are terse.\n\nsecond"}
	if diff := cmp.Diff(want, linesOf(sim.Requests()[1])); diff != "" {
		t.Errorf("the model sees (-want +got):\n%s", diff)
	}
	// What a developer says within the input stays in the chain.
	third := responding(agent, "third")
	third.PreviousResponseID = param.NewOpt(second.ID)
	createResponse(n, third)
	if diff := cmp.Diff(append(want, "assistant two", "user third"), linesOf(sim.Requests()[2])); diff != "" {
		t.Errorf("the model sees (-want +got):\n%s", diff)
	}
}

// result answers a call.
func result(call, output string) responses.ResponseInputItemUnionParam {
	item := responses.ResponseInputItemParamOfFunctionCallOutput(output)
	item.OfFunctionCallOutput.CallID = openai.String(call)
	return item
}

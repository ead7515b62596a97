package compat

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

func getResponse(n *apptest.Server, id string) *responses.Response {
	n.T.Helper()
	got, err := openAIClient(n).Responses.Get(n.T.Context(), id, responses.ResponseGetParams{})
	if err != nil {
		n.T.Fatal(err)
	}
	return got
}

// A response that is made in the background, or waits for somebody, is in
// progress and has an empty text; what goes on from it is refused until then.
func TestResponsesInProgress(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Script(
		modeltest.Answer{Text: "I will reckon.", ToolCalls: []model.ToolCall{{ID: "own_1", Name: "calculator", Arguments: `{"expression":"6*7"}`}}},
		modeltest.Answer{Text: "It is 42."}))
	n := apptest.Start(t, sim)
	careful := n.CreateAgent(object{"built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"}})
	params := responding(careful, "What is 6*7?")
	params.Background = openai.Bool(true)
	made := createResponse(n, params)
	if made.Status != "queued" || made.OutputText() != "" || !made.Background {
		t.Errorf("the answer is %s", made.RawJSON())
	}
	approval := n.WaitStatus(made.ID, "awaiting_approval")["pending_approvals"].([]any)[0].(object)["approval_id"].(string)
	got := getResponse(n, made.ID)
	if got.Status != "in_progress" || got.OutputText() != "" || len(got.Output) != 1 || got.Output[0].Content[0].Text != "" || got.Usage.TotalTokens != 0 {
		t.Errorf("read back: %s", got.RawJSON())
	}
	next := responding(careful, "And then?")
	next.PreviousResponseID = openai.String(made.ID)
	_, err := openAIClient(n, option.WithMaxRetries(2)).Responses.New(t.Context(), next)
	if e, ok := asAPIError(err); !ok || e.StatusCode != 409 || e.Code != "INVALID_STATE_TRANSITION" || !strings.Contains(e.Message, "awaiting_approval") {
		t.Errorf("going on from it: %v", err)
	}

	// Its stream can be read all the same, and goes on to the end.
	stream := openAIClient(n).Responses.GetStreaming(t.Context(), made.ID, responses.ResponseGetParams{}, option.WithQuery("stream", "true"))
	defer stream.Close()
	var events []responses.ResponseStreamEventUnion
	for stream.Next() {
		if events = append(events, stream.Current()); len(events) == 2 {
			n.Expect(200, "POST", "/api/v1/runs/"+made.ID+"/approve", object{"approval_id": approval})
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	last := grammatical(t, events)
	if last.Status != "completed" || last.OutputText() != "I will reckon.It is 42." || len(last.Output) != 2 || last.Usage.TotalTokens == 0 {
		t.Errorf("the response is %s", last.RawJSON())
	}
	checkReadBack(n, last)
}

func asAPIError(err error) (*openai.Error, bool) {
	return errors.AsType[*openai.Error](err)
}

// Whatever the model's endpoint does, a response ends well-formed, and is read
// back as it was given.
func TestResponsesOfOddEndpoints(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	for _, stream := range []bool{false, true} {
		all := modeltest.Oddities(stream)
		answers := map[string]modeltest.Answer{}
		for _, o := range all {
			answers[o.Name] = o.Answer
		}
		n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer { return answers[r.Chat().Last(model.User)] })))
		agent := n.CreateAgent(object{"model_retry": object{"max_elapsed_ms": 0}})
		for _, o := range all {
			t.Run(strings.ReplaceAll(o.Name, " ", "_")+map[bool]string{true: "-streamed"}[stream], func(t *testing.T) {
				params := responding(agent, o.Name)
				params.Tools = []responses.ToolUnionParam{
					{OfFunction: &responses.FunctionToolParam{Name: "weather"}}, {OfFunction: &responses.FunctionToolParam{Name: "time"}},
				}
				n := n.WithT(t)
				var got *responses.Response
				if stream {
					got, _ = streamResponse(n, params)
				} else {
					got = createResponse(n, params)
				}
				checkReadBack(n, got)
				status := map[bool]responses.ResponseStatus{true: "failed", false: "completed"}[o.Fails]
				if o.Cut {
					status = "incomplete"
				}
				var calls []model.ToolCall
				for _, item := range got.Output {
					if item.Type == "function_call" {
						calls = append(calls, model.ToolCall{ID: item.CallID, Name: item.Name, Arguments: item.Arguments.OfString})
					}
				}
				for i := range min(len(calls), len(o.Calls)) {
					if o.Calls[i].ID == "" && calls[i].ID != "" {
						calls[i].ID = ""
					}
				}
				if diff := cmp.Diff(o.Calls, calls); got.Status != status || got.OutputText() != o.Text || diff != "" || o.Fails != (got.Error.Message != "") {
					t.Errorf("the response is %s\n%s", got.RawJSON(), diff)
				}
			})
		}
	}
}

// A chain that is longer than the model's context goes on: what is old is
// summarized once, and stands by its summary in later calls.
func TestLongChain(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if apptest.AsksForSummary(req) {
			return modeltest.Answer{Text: "Facts: the colour is green."}
		}
		return modeltest.Answer{Text: strings.Repeat("reply ", 40)}
	}))
	n := apptest.Start(t, nil, apptest.WithModels(t, sim, `[{"id":"sim-model","context_window":1500}]`))
	agent := n.CreateAgent(object{"prompts": object{"system": "Be brief."}})
	previous := ""
	for i := range 24 {
		params := responding(agent, fmt.Sprintf("turn %d: %s", i, strings.Repeat("word ", 40)))
		if previous != "" {
			params.PreviousResponseID = openai.String(previous)
		}
		got := createResponse(n, params)
		if got.Status != "completed" {
			t.Fatalf("turn %d: %s", i, got.RawJSON())
		}
		previous = got.ID
	}
	summaries := 0
	requests := sim.Requests()
	for i, req := range requests {
		size := 0
		for _, m := range req.Chat().Messages {
			size += 4 + model.EstimateTokens(m.Text())
		}
		if size > 1500 {
			t.Errorf("request %d has %d tokens", i, size)
		}
		if apptest.AsksForSummary(req) {
			summaries++
		}
	}
	last := requests[len(requests)-1].Chat().Messages
	if summaries < 2 || summaries > 12 || !strings.Contains(last[1].Text(), "<summary>\nFacts: the colour is green.\n</summary>") ||
		last[0].Text() != "Be brief." || !strings.HasPrefix(last[len(last)-1].Text(), "turn 23") {
		t.Errorf("after %d summaries the model is told %+v", summaries, last)
	}
}

// What a guardrail took out of a message is not told in later calls either, and
// a run that goes on from a truncated response has the chain before it.
func TestChainsOfOtherKinds(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		said := r.Chat().Last(model.User)
		return modeltest.Answer{Text: "You said: " + said, Finish: map[string]string{"cut off": "length"}[said]}
	}))
	n := apptest.Start(t, sim)
	mask := n.CreateGuardrail(object{"kind": "regex", "stage": "input", "action": "redact", "config": object{"pattern": "[0-9]{4}"}})
	guarded := n.CreateGuardedAgent(object{"input": apptest.GuardrailRef(mask)})
	first := createResponse(n, responding(guarded, "My number is 4111."))
	second := responding(guarded, "Say it.")
	second.PreviousResponseID = openai.String(first.ID)
	createResponse(n, second)
	for i, r := range sim.Requests() {
		if strings.Contains(string(r.Body), "4111") {
			t.Errorf("request %d has what was taken out: %s", i, r.Body)
		}
	}
	if got := linesOf(sim.Requests()[1]); len(got) != 3 || !strings.HasPrefix(got[0], "user My number is ") {
		t.Errorf("the model is told %q", got)
	}

	agent := n.CreateAgent(object{"resource_limits": object{"max_tokens_per_run": 100_000}})
	opening := createResponse(n, responding(agent, "first"))
	cut := responding(agent, "cut off")
	cut.PreviousResponseID = openai.String(opening.ID)
	got := createResponse(n, cut)
	if got.Status != "incomplete" || got.IncompleteDetails.Reason != "max_output_tokens" {
		t.Fatalf("the response is %s", got.RawJSON())
	}
	token := n.Expect(200, "GET", "/api/v1/runs/"+got.ID, nil)["output"].(object)["continuation_token"]
	n.WaitRun(n.Expect(202, "POST", "/api/v1/runs/"+got.ID+"/continue", object{"continuation_token": token, "message": "third"})["run_id"].(string))
	third := responding(n.CreateAgent(nil), "fourth") // another agent may go on
	third.PreviousResponseID = openai.String(got.ID)
	createResponse(n, third)
	requests := sim.Requests()
	for i, last := range []string{"user third", "user fourth"} {
		want := []string{"user first", "assistant You said: first", "user cut off", "assistant You said: cut off", last}
		if diff := cmp.Diff(want, linesOf(requests[len(requests)-2+i])); diff != "" {
			t.Errorf("the model is told (-want +got):\n%s", diff)
		}
	}
}

// A run of its own goes on without the client that asked for it.
func TestAResponseGoesOnWithoutItsClient(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(20), Delay: 20 * time.Millisecond}))
	n := apptest.Start(t, sim, func(*config.Config) {})
	stream := openAIClient(n).Responses.NewStreaming(t.Context(), responding(n.CreateAgent(nil), "hello"))
	stream.Next()
	id := stream.Current().Response.ID
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	if r := n.WaitRun(id); r["status"] != "completed" {
		t.Errorf("the run is %v", r)
	}
	if got := getResponse(n, id); got.OutputText() != modeltest.Tokens(20) {
		t.Errorf("the response is %s", got.RawJSON())
	}
	if r := n.Do(http.MethodGet, apptest.ResponsesPath+"/"+id+"?stream=true&starting_after=100000", nil); r.StatusCode != 200 || strings.Contains(string(r.Body), "data:") {
		t.Errorf("after its end: %d %s", r.StatusCode, r.Body)
	}
}

// How the answer is to look, and how hard to think about it, reaches the model.
func TestResponsesSettings(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim)
	n.Expect(200, "POST", apptest.ResponsesPath, object{
		"model": n.CreateAgent(nil), "input": "hi", "parallel_tool_calls": false, "reasoning": object{"effort": "high"},
		"tools": []object{{"type": "function", "name": "f", "strict": true}},
		"text":  object{"format": object{"type": "json_schema", "name": "a", "schema": object{"type": "object"}, "strict": true}},
	})
	body := string(sim.Requests()[0].Body)
	for _, want := range []string{`"response_format":{"type":"json_schema","json_schema":{"name":"a"`, `"reasoning_effort":"high"`, `"parallel_tool_calls":false`, `"strict":true`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}

// A response in the background can be cancelled.
func TestAResponseIsCancelled(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{HangFirst: true}))
	n := apptest.Start(t, sim)
	inBackground := responding(n.CreateAgent(nil), "hello")
	inBackground.Background = openai.Bool(true)
	made := createResponse(n, inBackground)
	for range 2 { // again is the same
		got, err := openAIClient(n).Responses.Cancel(t.Context(), made.ID)
		if err != nil || got.Status != "cancelled" || got.ID != made.ID || got.Error.Message == "" {
			t.Fatalf("%v: %s", err, got.RawJSON())
		}
	}
	if r := n.WaitRun(made.ID); r["status"] != "cancelled" {
		t.Errorf("the run is %v", r)
	}
	if got := getResponse(n, made.ID); got.Status != "cancelled" {
		t.Errorf("read back it is %s", got.RawJSON())
	}
	for _, id := range []string{"x", "01990000-0000-7000-8000-00000000000a"} {
		if r := n.Do("POST", apptest.ResponsesPath+"/"+id+"/cancel", nil); r.StatusCode != 404 || !strings.Contains(string(r.Body), `"code":"NOT_FOUND"`) {
			t.Errorf("%s: %d %s", id, r.StatusCode, r.Body)
		}
	}
}

package compat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/openai/openai-go/v3"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// Whatever the model's endpoint does, OpenAI's client gets an answer that ends
// as answers do.
func TestChatOfOddEndpoints(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	for _, stream := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "streamed"}[stream]
		oddities := map[string]modeltest.Oddity{}
		for _, o := range modeltest.Oddities(stream) {
			oddities[o.Name] = o
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
				return oddities[r.Chat().Last(model.User)].Answer
			})))
			agent := n.CreateAgent(object{"model_retry": object{"max_elapsed_ms": 0}})
			for _, o := range oddities {
				t.Run(strings.ReplaceAll(o.Name, " ", "_"), func(t *testing.T) {
					t.Parallel()
					params := asking(agent, openai.UserMessage(o.Name))
					params.Tools = []openai.ChatCompletionToolUnionParam{weather}
					if len(o.Calls) > 1 {
						clock := *weather.OfFunction
						clock.Function.Name = o.Calls[1].Name
						params.Tools = append(params.Tools, openai.ChatCompletionToolUnionParam{OfFunction: &clock})
					}
					checkAnswered(n, t, o, params, stream)
				})
			}
		})
	}
}

func checkAnswered(n *apptest.Server, t *testing.T, o modeltest.Oddity, params openai.ChatCompletionNewParams, stream bool) {
	t.Helper()
	var choice openai.ChatCompletionChoice
	if stream {
		acc, chunks := streamed(t, openAIClient(n), params)
		choice = acc.Choices[0]
		last := chunks[len(chunks)-1]
		if failed := last.JSON.ExtraFields["run_error"].Raw() != ""; failed != o.Fails {
			t.Errorf("the last chunk is %s", last.RawJSON())
		}
	} else {
		got, err := openAIClient(n).Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		choice = got.Choices[0]
		if failed := got.JSON.ExtraFields["run_error"].Raw() != ""; failed != o.Fails {
			t.Errorf("the answer is %s", got.RawJSON())
		}
		if u := got.Usage; !o.Fails && u.TotalTokens == 0 {
			t.Errorf("usage %s", u.RawJSON())
		}
	}
	said := choice.Message.Content
	if want := map[bool]string{false: "stop", true: "error"}[o.Fails]; choice.FinishReason != want {
		t.Errorf("the finish reason is %q", choice.FinishReason)
	}
	if o.Fails && said == "" || o.Fails && !strings.HasPrefix(said, o.Text) || !o.Fails && said != o.Text {
		t.Errorf("%q was said, want %q", said, o.Text)
	}
	var calls []model.ToolCall
	for i, c := range choice.Message.ToolCalls {
		if i < len(o.Calls) && o.Calls[i].ID == "" && c.ID != "" {
			c.ID = ""
		}
		calls = append(calls, model.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	if diff := cmp.Diff(o.Calls, calls, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the calls (-want +got):\n%s", diff)
	}
}

package apptest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// Embedding configures the simulated model for embeddings, speech and transcription
// too.
func Embedding(c *config.Config) {
	c.Models.EmbeddingModel, c.Models.SpeechModel, c.Models.TranscriptionModel = "sim-embedding", "sim-speech", "sim-transcription"
}

// HangingModel is a model that keeps runs running until they are cancelled. Where
// the message begins with the name of a tool, it calls that tool, so that the run
// waits. Requests by another model name than agents use are answered.
var HangingModel = modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
	messages := req.Chat().Messages
	if len(messages) == 0 {
		return modeltest.Answer{Status: 400, Error: "no messages"}
	}
	if req.Chat().Model != "sim-model" {
		return modeltest.Answer{Text: "Hello."}
	}
	switch last := messages[len(messages)-1]; {
	case last.Role != "user":
	case strings.HasPrefix(last.Text(), "calculator"):
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "calculator", Arguments: `{"expression":"1+1"}`}}}
	case strings.HasPrefix(last.Text(), "slowly"):
		return modeltest.Answer{Text: "At last.", TTFT: 500 * time.Millisecond}
	case strings.HasPrefix(last.Text(), "ask_user"):
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "ask_user", Arguments: `{"question":"Which?"}`}}}
	}
	return modeltest.Answer{HangFirst: true}
})

// WithModels configures the operator's models by a providers file.
func WithModels(t *testing.T, sim *modeltest.Server, models string) func(*config.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "providers.json")
	text := fmt.Sprintf(`{"providers":[{"name":"default","base_url":%q,"models":%s}]}`, sim.URL, models)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *config.Config) { c.Models.Providers, c.Models.Model = file, "sim-model" }
}

// AsksForSummary reports whether a request is that of a compaction.
func AsksForSummary(req modeltest.Request) bool {
	return strings.HasPrefix(req.Chat().Messages[0].Text(), "You write the record")
}

// RepeatModel is a model that repeats the user's message.
var RepeatModel = modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
	return modeltest.Answer{Text: "You said: " + r.Chat().Last(model.User)}
})

// OutputText returns the text of a run's output.
func OutputText(r Object) string {
	out, _ := r["output"].(Object)
	said, _ := out["text"].(string)
	return said
}

// CallTool is a model that calls a tool and then repeats its result.
func CallTool(tool, arguments string) modeltest.Option {
	return modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if got := r.Chat().Last("tool"); got != "" {
			return modeltest.Answer{Text: "It says: " + got}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: tool, Arguments: arguments}}}
	})
}

// EchoModel is the model of agents that answer without an endpoint.
var EchoModel = Object{"provider": "custom", "model_ref": "builtin/echo"}

// CallOnce is a model that calls a tool once, and whose answer is the tool's result
// alone.
func CallOnce(name, arguments string) func(modeltest.Request) modeltest.Answer {
	return func(r modeltest.Request) modeltest.Answer {
		if result := r.Chat().Last(model.Tool); result != "" {
			return modeltest.Answer{Text: result}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: name, Arguments: arguments}}}
	}
}

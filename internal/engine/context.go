package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/model"
	"agentd/internal/run"
	"agentd/internal/schema"
)

// closingNote asks for an end when a limit is hit (decisions.md D6). It is
// never stored: whether it applies follows from the run's metrics.
const closingNote = "The limit of this run is reached. Do not call tools. Give your best final answer now, with what you know so far."

// opening is what a conversation with the model begins with: the agent's own
// prompt, the earlier turns, and the message, with the caller's instructions
// in front of it.
func (a *attempt) opening() []model.Message {
	in := a.rec.Parsed
	if in == nil {
		in = new(run.Input)
		// Input that is not of this shape was refused when the run was made, or
		// is a trigger's own payload, whose message is what counts.
		_ = json.Unmarshal(a.rec.Input, in)
	}
	var turns []model.Message
	if a.spec.System != "" {
		turns = append(turns, model.Message{Role: model.System, Text: a.spec.System})
	}
	turns = append(turns, in.History...)
	if in.Message != "" || len(in.Parts) > 0 || len(in.History) == 0 {
		turns = append(turns, model.Message{Role: model.User, Text: in.Message, Parts: in.Parts})
	}
	// Else the history ends with what is to be answered: a tool's result.
	return instruct(turns, in.Instructions)
}

// instruct puts the caller's instructions in front of the last message of the
// user. A conversation without one gets them as one.
func instruct(turns []model.Message, instructions string) []model.Message {
	if instructions == "" {
		return turns
	}
	text := "Instructions of the caller:\n" + instructions
	for i := range slices.Backward(turns) {
		m := &turns[i]
		switch {
		case m.Role != model.User:
			continue
		case m.Parts != nil: // which replace the text
			m.Parts = append([]jsontext.Value{textPart(text)}, m.Parts...)
		case m.Text == "":
			m.Text = text
		default:
			m.Text = text + "\n\n" + m.Text
		}
		return turns
	}
	return append(turns, model.Message{Role: model.User, Text: text})
}

func textPart(text string) jsontext.Value {
	return encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text})
}

func assistantMessage(out run.LLMOutput) model.Message {
	return model.Message{Role: model.Assistant, Text: out.Text, ToolCalls: out.ToolCalls}
}

// withoutCalls takes back tool calls that will not be run: endpoints refuse a
// conversation with calls that have no results.
func withoutCalls(messages []model.Message) []model.Message {
	last := &messages[len(messages)-1]
	last.ToolCalls = nil
	if strings.TrimSpace(last.Text) == "" {
		return messages[:len(messages)-1]
	}
	return messages
}

func (a *attempt) request(target model.Target) model.Request {
	o := a.rec.Options
	req := model.Request{
		Target: target, Messages: a.messages,
		MaxTokens: o.MaxTokens, Temperature: o.Temperature, TopP: o.TopP, Stop: o.Stop,
	}
	if limit := a.limits().MaxTokensPerRun; limit != nil && !a.closing {
		used := a.rec.Metrics.InputTokens + a.rec.Metrics.OutputTokens + int64(model.EstimateInput(req))
		left := int(max(1, *limit-used))
		if req.MaxTokens == 0 || left < req.MaxTokens {
			req.MaxTokens = left
		}
	}
	if a.closing {
		req.Messages = append(slices.Clip(a.messages), model.Message{Role: model.User, Text: closingNote})
		return req
	}
	if none(a.limits().MaxToolCalls) {
		return req
	}
	req.Tools = slices.DeleteFunc(a.tools.Specs(), func(t model.ToolSpec) bool {
		return o.HasTool(t.Name) // of two with one name the caller's counts
	})
	for _, t := range o.Tools {
		req.Tools = append(req.Tools, model.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	if len(req.Tools) > 0 {
		req.ToolChoice = o.ToolChoice
	}
	return req
}

// llmInput is what a step of type llm shows as its input: how much of the
// conversation it saw. The conversation itself is the steps before it.
func (a *attempt) llmInput() schema.Nullable {
	return schema.Nullable(encode(struct {
		Messages int `json:"messages"`
	}{len(a.messages)}))
}

// replay rebuilds the conversation from the journal, and finds out what was
// under way when the last worker died: a model call, which is simply made
// again, or tool calls, which may have happened.
func (a *attempt) replay(ctx context.Context) error {
	steps, err := a.e.Runs.Steps(ctx, a.rec.TenantID, a.rec.RunID, 0, 0)
	if err != nil {
		return err
	}
	if a.spec == nil { // the agent is gone: the run only needs an end
		return nil
	}
	a.messages = a.opening()
	results := map[string]bool{}
	var asked []model.ToolCall
	for _, s := range steps {
		switch s.Type {
		case run.StepLLM:
			var out run.LLMOutput
			if err := json.Unmarshal(s.Output, &out); err != nil {
				return err
			}
			asked = out.ToolCalls
			a.messages = append(a.messages, assistantMessage(out))
		case run.StepTool:
			var in run.ToolInput
			var out run.ToolOutput
			if err := json.Unmarshal(s.Input, &in); err != nil {
				return err
			}
			if err := json.Unmarshal(s.Output, &out); err != nil {
				return err
			}
			results[in.ToolCallID] = true
			a.messages = append(a.messages, toolMessage(in, out))
		}
	}
	pendingModel := false
	for _, p := range a.rec.Pending {
		pendingModel = pendingModel || p.Type == run.StepLLM
	}
	for _, c := range asked {
		if !results[c.ID] && !pendingModel {
			a.calls = append(a.calls, c)
		}
	}
	if pendingModel && unanswered(asked, results) { // a limit was hit: they were not to be run
		a.messages = withoutCalls(a.messages)
	}
	a.interrupted = len(a.calls) > 0
	return nil
}

func unanswered(asked []model.ToolCall, results map[string]bool) bool {
	for _, c := range asked {
		if !results[c.ID] {
			return true
		}
	}
	return false
}

func toolMessage(in run.ToolInput, out run.ToolOutput) model.Message {
	return model.Message{Role: model.Tool, Text: out.Content, ToolCallID: in.ToolCallID, Name: in.Name}
}

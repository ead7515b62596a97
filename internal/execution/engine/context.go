package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// closingNote asks for an end when a limit is hit (decisions.md D6). It is
// never stored: whether it applies follows from the run's metrics.
const closingNote = "The limit of this run is reached. Do not call tools. Give your best final answer now, with what you know so far."

// input is what the run was asked.
func (a *attempt) input() *run.Input { return a.rec.ParsedInput() }

// opening is what a conversation with the model begins with: the agent's own
// prompt, what it remembers, the earlier turns, and the message, with the
// caller's instructions in front of it.
func (a *attempt) opening(in *run.Input, earlier []model.Message) []model.Message {
	var turns []model.Message
	if a.spec.System != "" {
		turns = append(turns, model.Message{Role: model.System, Text: a.spec.System})
	}
	if a.past != nil && a.past.Recalled != nil && *a.past.Recalled != "" {
		turns = append(turns, model.Message{Role: model.System, Text: *a.past.Recalled})
	}
	turns = append(append(turns, earlier...), in.History...)
	if in.Message != "" || len(in.Parts) > 0 || len(in.History) == 0 {
		turns = append(turns, model.Message{Role: model.User, Text: in.Message, Parts: in.Parts, From: a.origin(0)})
	}
	// Else the history ends with what is to be answered: a tool's result.
	return run.WithInstructions(turns, in.Instructions)
}

func (a *attempt) request(target model.Target) model.Request {
	o := a.rec.Options
	req := model.Request{
		Target: target, Messages: a.view(target),
		MaxTokens: o.MaxTokens, Temperature: o.Temperature, TopP: o.TopP, Stop: o.Stop,
		Extra: extra(a.spec, a.phaseOf(), target.Capabilities, o.Extra),
	}
	if limit := a.limits().MaxTokensPerRun; limit != nil && !a.closing {
		used := a.rec.Metrics.InputTokens + a.rec.Metrics.OutputTokens + int64(a.tokens)
		left := int(max(1, *limit-used))
		if req.MaxTokens == 0 || left < req.MaxTokens {
			req.MaxTokens = left
		}
	}
	if a.closing {
		req.Messages = append(slices.Clip(req.Messages), model.Message{Role: model.User, Text: closingNote})
		return req
	}
	if none(a.limits().MaxToolCalls) {
		return req
	}
	if req.Tools = a.offered(); len(req.Tools) > 0 {
		req.ToolChoice = o.ToolChoice
		if parallel := o.Extra[parallelCalls]; parallel != nil {
			req.Extra[parallelCalls] = parallel
		}
	}
	return req
}

// offered are the tools that a model may call.
func (a *attempt) offered() []model.ToolSpec {
	o := &a.rec.Options
	tools := slices.DeleteFunc(a.tools.Specs(), func(t model.ToolSpec) bool {
		return o.HasTool(t.Name) // of two with one name the caller's counts
	})
	for _, t := range o.Tools {
		tools = append(tools, model.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict})
	}
	return tools
}

// llmInput is what a step of type llm shows as its input: how much of the
// conversation it saw. The conversation itself is the steps before it.
func (a *attempt) llmInput() schema.Nullable {
	return schema.Nullable(encode(struct {
		Messages int `json:"messages"`
	}{cmp.Or(a.shown, len(a.messages))}))
}

// origin is a step of this run.
func (a *attempt) origin(step int64) model.Origin {
	return model.Origin{RunID: a.rec.RunID, StepSeq: step}
}

// replay reads the journal, and finds out what was under way when the last
// worker died: a model call, which is simply made again, or tool calls, which
// may have happened.
func (a *attempt) replay(ctx context.Context) error {
	steps, err := a.e.Runs.ListSteps(ctx, a.rec.TenantID, a.rec.RunID, 0, 0)
	if err != nil {
		return err
	}
	if a.past, err = run.Transcribe(steps); err != nil {
		return err
	}
	for _, s := range steps {
		if s.Type == run.StepTool {
			if err := a.remember(&s); err != nil {
				return err
			}
		}
	}
	a.interrupted = map[string]bool{}
	for i := range a.rec.Pending {
		p := &a.rec.Pending[i]
		if p.Type == run.StepLLM { // a limit was hit: what was asked for was not to be run
			a.past.CloseTurn()
		}
		if p.Tool != nil {
			a.interrupted[p.Tool.ToolCallID] = !p.Held
			p.Held = false
		}
	}
	if a.rec.Wait.Approvals == 0 {
		return nil
	}
	all, err := a.e.Runs.ListApprovalsByRun(ctx, nil, a.rec.TenantID, a.rec.RunID)
	if err != nil {
		return err
	}
	for i := range all {
		a.approvals[all[i].ToolCallID] = &all[i]
	}
	return nil
}

// remember has the detector of repeated calls know a call of the journal.
func (a *attempt) remember(s *run.Step) error {
	var in run.ToolInput
	var out run.ToolOutput
	if err := json.Unmarshal(s.Input, &in); err != nil {
		return err
	}
	if err := json.Unmarshal(s.Output, &out); err != nil {
		return err
	}
	a.repeats.Note(in.Name, in.Arguments, out.Content)
	return nil
}

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/model"
	"agentd/internal/run"
	"agentd/internal/schema"
	"agentd/internal/tool"
)

// interruptedNote is the result of a call that was in flight when its worker
// died and that cannot safely be made again (decisions.md D6).
const interruptedNote = "interrupted: outcome unknown. The call may or may not have taken effect."

// split parts the platform's tools from the caller's own, which the platform
// cannot run.
func (a *attempt) split(calls []model.ToolCall) (own, callers []model.ToolCall) {
	for _, c := range calls {
		if a.rec.Options.HasTool(c.Name) {
			callers = append(callers, c)
		} else {
			own = append(own, c)
		}
	}
	return own, callers
}

// beginTools notes the calls that are about to be made, before any is made.
func (a *attempt) beginTools() {
	for _, c := range a.calls {
		a.beginStep(run.StepTool, &run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: c.Arguments})
		a.emit("tool.call", toolCallData{ToolCallID: c.ID, Name: c.Name, Arguments: argumentsJSON(c.Arguments)})
	}
}

// argumentsJSON shows what a model wrote: as the JSON it should be, or as a
// string where it is not.
func argumentsJSON(s string) jsontext.Value {
	v := jsontext.Value(s)
	if v.IsValid() && v.Compact() == nil {
		return v
	}
	return encode(s)
}

type outcome struct {
	seq  int64
	in   run.ToolInput
	out  run.ToolOutput
	took time.Duration
}

// runTools makes the calls that the model asked for, side by side, and commits
// each result as it comes, those that come together in one commit.
func (a *attempt) runTools() error {
	var todo []run.Intent
	for _, p := range a.rec.Pending {
		if p.Tool != nil {
			todo = append(todo, p)
		}
	}
	room := len(todo)
	if limit := a.limits().MaxToolCalls; limit != nil {
		room = int(max(0, min(int64(room), *limit-a.rec.Metrics.ToolCallsCount)))
	}
	done := make(chan outcome, len(todo))
	for i, p := range todo {
		go func() {
			start := time.Now()
			out := run.ToolOutput{IsError: true, Content: "not called: the run's limit of tool calls is reached"}
			if i < room {
				out = a.call(a.ctx, *p.Tool)
			}
			done <- outcome{p.Seq, *p.Tool, out, time.Since(start)}
		}()
	}
	results := make(map[string]model.Message, len(todo))
	for n := 0; n < len(todo); {
		batch := []outcome{}
		select {
		case o := <-done:
			batch = append(batch, o)
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
		for len(done) > 0 {
			batch = append(batch, <-done)
		}
		if context.Cause(a.ctx) != nil {
			return context.Cause(a.ctx)
		}
		for _, o := range batch {
			a.record(o)
			results[o.in.ToolCallID] = toolMessage(o.in, o.out)
		}
		if n += len(batch); n == len(todo) {
			a.beginStep(run.StepLLM, nil)
		}
		if err := a.commit(a.ctx, false); err != nil {
			return err
		}
	}
	for _, p := range todo { // in the order of the calls, whatever finished first
		a.messages = append(a.messages, results[p.Tool.ToolCallID])
	}
	a.calls, a.interrupted = nil, false
	return nil
}

// record adds a tool's result to the commit that is being made.
func (a *attempt) record(o outcome) {
	status, stepStatus := "done", run.StepCompleted
	step := &run.Step{Seq: o.seq, Type: run.StepTool, Input: schema.Nullable(encode(o.in)), Output: schema.Nullable(encode(o.out))}
	if o.out.IsError {
		status, stepStatus = "error", run.StepFailed
		step.Error = &o.out.Content
	}
	step.Status = stepStatus
	a.emitResult(toolResultData{
		ToolCallID: o.in.ToolCallID, Name: o.in.Name, Status: status,
		Output: encode(o.out.Content), DurationMS: milliseconds(o.took),
	}, o.seq)
	a.rec.Metrics.ToolCallsCount++
	a.endStep(step, run.StepMetrics{ToolCallsCount: 1})
}

// call makes one call. Whatever goes wrong is a result that the model can
// read; nothing that a tool does ends the run. A cancelled run's result is
// never looked at.
func (a *attempt) call(ctx context.Context, in run.ToolInput) run.ToolOutput {
	if t, known := a.tools.Lookup(in.Name); known && a.interrupted && !t.Repeatable() {
		return run.ToolOutput{IsError: true, Content: interruptedNote}
	}
	verdict, err := a.e.Gate.BeforeTool(ctx, subject(a.rec), in.Name, in.Arguments)
	if err != nil {
		return run.ToolOutput{IsError: true, Content: "the call could not be checked against policy; it was not made"}
	}
	if verdict.Refused {
		return run.ToolOutput{IsError: true, Content: fmt.Sprintf("refused by policy (%s): %s", verdict.Code, verdict.Reason)}
	}
	res, err := a.tools.Call(ctx, tool.Call{
		TenantID: a.rec.TenantID, AgentID: a.rec.AgentID, RunID: a.rec.RunID, SessionID: deref(a.rec.SessionID),
		ID: in.ToolCallID, Name: in.Name, Arguments: in.Arguments,
	})
	if err != nil {
		return run.ToolOutput{IsError: true, Content: "the run ended before the tool did"}
	}
	if res.Cause != nil {
		a.e.Logger.Warn("a tool failed", "run", a.rec.RunID, "tenant", a.rec.TenantID, "tool", in.Name, "err", res.Cause)
	}
	return run.ToolOutput{Content: res.Output, IsError: res.Failed}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

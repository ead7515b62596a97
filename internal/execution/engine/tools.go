package engine

import (
	"context"
	"fmt"
	"time"

	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/tool"
)

// interruptedNote is the result of a call that was in flight when its worker
// died and that cannot safely be made again (decisions.md D6).
const interruptedNote = "interrupted: outcome unknown. The call may or may not have taken effect."

// outcome is what came of a call.
type outcome struct {
	seq   int64
	in    run.ToolInput
	out   run.ToolOutput
	took  time.Duration
	found []policy.Verdict // of the guardrails
	keep  txn.Op           // makes the call's files artifacts; nil where there are none
	needs *run.PendingAuth // the call was not made: it needs this first
}

// runTools makes the calls that were begun, side by side, and commits each
// result as it comes, those that come together in one commit.
func (a *attempt) runTools() error {
	var todo []run.PendingStep
	for _, p := range a.rec.Pending {
		if p.Tool != nil {
			todo = append(todo, p)
		}
	}
	room := len(todo)
	if limit := a.limits().MaxToolCalls; limit != nil {
		room = int(max(0, min(int64(room), *limit-a.rec.Metrics.ToolCallsCount)))
	}
	if a.e.Meter != nil {
		if err := a.e.Meter.MayCall(a.ctx, a.rec.TenantID, len(todo)); err != nil {
			return err
		}
	}
	done := make(chan outcome, len(todo))
	for i, p := range todo {
		interrupted := a.interrupted[p.Tool.ToolCallID] // record changes the map meanwhile
		go func() {
			start := time.Now()
			o := outcome{in: *p.Tool, out: run.ToolOutput{IsError: true, Content: "not called: the run's limit of tool calls is reached"}}
			if i < room {
				o = a.call(a.ctx, p.StepID, *p.Tool, interrupted)
			}
			o.seq, o.took = p.Seq, time.Since(start)
			done <- o
		}()
	}
	var needs *run.PendingAuth
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
			if o.needs != nil {
				needs = o.needs
				a.hold(o.seq)
				continue
			}
			a.record(o)
		}
		n += len(batch)
		pause := run.PauseKept // others are still under way
		if n == len(todo) {
			pause = run.PauseAborts
			if needs != nil {
				a.awaitAuth(needs)
			} else if err := a.next(); err != nil {
				return err
			}
		}
		if err := a.commit(a.ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// hold marks a call that was begun as not made.
func (a *attempt) hold(seq int64) {
	for i := range a.rec.Pending {
		if a.rec.Pending[i].Seq == seq {
			a.rec.Pending[i].Held = true
		}
	}
}

// record adds a tool's result to the commit that is being made.
func (a *attempt) record(o outcome) {
	if ap := a.approvals[o.in.ToolCallID]; ap != nil && ap.Response != "" && !o.out.IsError {
		o.out.Content += "\n\n[The person who approved the call says: " + ap.Response + "]"
	}
	o.out.Content = a.repeats.Note(o.in.Name, o.in.Arguments, o.out.Content)
	for _, v := range o.found {
		a.judged(v)
	}
	status, stepStatus := "done", run.StepCompleted
	step := &run.Step{Seq: o.seq, Type: run.StepTool, CallOf: a.callOf(o.in.ToolCallID, o.in.Arguments), Input: schema.Nullable(encode(o.in)), Output: schema.Nullable(encode(o.out))}
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
	a.used = append(a.used, quota.Use{ToolCalls: 1})
	if o.keep != nil {
		a.also = append(a.also, o.keep)
	}
	a.endStep(step, run.StepMetrics{ToolCallsCount: 1})
	m := run.ToolMessage(o.in, o.out)
	m.From = a.origin(o.seq)
	a.past.Results[o.in.ToolCallID] = m
}

// call makes one call. Whatever goes wrong is a result that the model can
// read; nothing that a tool does ends the run. A cancelled run's result is
// never looked at. An interrupted call was under way when the last worker died.
func (a *attempt) call(ctx context.Context, step string, in run.ToolInput, interrupted bool) (o outcome) {
	o.in = in
	failed := func(format string, args ...any) outcome {
		o.out = run.ToolOutput{IsError: true, Content: fmt.Sprintf(format, args...)}
		return o
	}
	if t, known := a.tools.Lookup(in.Name); known && interrupted && !t.Repeatable() {
		return failed(interruptedNote)
	}
	if res, often := a.repeats.Refuses(in.Name, in.Arguments); often {
		return failed("%s", res.Output)
	}
	who := subject(a.rec, a.spec)
	verdict, err := a.e.Gate.BeforeTool(ctx, who, in.Name, in.Arguments)
	if err != nil {
		a.e.Logger.Warn("a call could not be checked", "run", a.rec.RunID, "tenant", a.rec.TenantID, "tool", in.Name, "err", err)
		return failed("the call could not be checked against policy; it was not made")
	}
	o.found = append(o.found, verdict)
	if verdict.Refused {
		return failed("refused by policy (%s): %s", verdict.Code, verdict.Reason)
	}
	arguments := in.Arguments
	if verdict.Changed {
		arguments = verdict.Text
	}
	res, err := a.tools.Call(ctx, tool.Call{
		TenantID: a.rec.TenantID, AgentID: a.rec.AgentID, RunID: a.rec.RunID, SessionID: ptr.Value(a.rec.SessionID),
		StepID: step, ID: in.ToolCallID, Name: in.Name, Arguments: arguments,
	})
	if err != nil {
		return failed("the run ended before the tool did")
	}
	if res.Cause != nil {
		a.e.Logger.Warn("a tool failed", "run", a.rec.RunID, "tenant", a.rec.TenantID, "tool", in.Name, "err", res.Cause)
	}
	if n := res.Authorize; n != nil {
		o.needs = &run.PendingAuth{ServerID: n.ServerID, Name: n.Name, AuthorizationURL: n.URL}
		return o
	}
	if a.watch.Tool {
		verdict, err := a.e.Gate.AfterTool(ctx, who, in.Name, res.Output)
		if err != nil {
			a.e.Logger.Warn("a result could not be checked", "run", a.rec.RunID, "tenant", a.rec.TenantID, "tool", in.Name, "err", err)
			return failed("the call was made, and its result is withheld: it could not be checked")
		}
		o.found = append(o.found, verdict)
		switch {
		case verdict.Refused:
			return failed("the call was made, and its result is withheld (%s): %s", verdict.Code, verdict.Reason)
		case verdict.Changed:
			res.Output = verdict.Text
		}
		// What was looked at is the text alone, and no more of it than the model
		// gets: files would go around the guardrails.
		if len(res.Files) > 0 {
			res.Files = nil
			res.Output += "\n[the call's files are not kept: guardrails watch the tools of this agent]"
		}
	}
	o.out = run.ToolOutput{Content: res.Output, IsError: res.Failed}
	if len(res.Files) > 0 && a.e.Artifacts != nil {
		o.keep, err = a.keep(ctx, res.Files, &o.out)
		if err != nil {
			a.e.Logger.Warn("a tool's files could not be stored", "run", a.rec.RunID, "tenant", a.rec.TenantID, "tool", in.Name, "err", err)
			o.out.Content += "\n[the call's files could not be stored]"
		}
	}
	return o
}

// keep stores a call's files.
func (a *attempt) keep(ctx context.Context, files []tool.File, out *run.ToolOutput) (txn.Op, error) {
	kept, op, err := a.e.Artifacts.Save(ctx, a.rec.TenantID, a.rec.RunID, files)
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		out.Artifacts = append(out.Artifacts, k.ArtifactID)
	}
	if left := len(files) - len(kept); left > 0 {
		out.Content += fmt.Sprintf("\n[%d of the call's files are not kept: the run has as many as it may have]", left)
	}
	return op, nil
}

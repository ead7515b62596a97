package engine

import (
	"context"
	"fmt"
	"time"

	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/tool"
)

// interruptedNote is the result of a call that was in flight when its worker
// died and that cannot safely be repeated (rule D6-in-flight).
const interruptedNote = "interrupted: outcome unknown. The call may or may not have taken effect."

// outcome is the result of one tool call.
type outcome struct {
	step     run.StepRef
	in       run.ToolInput
	out      run.ToolOutput
	took     time.Duration
	verdicts []policy.Verdict // of the guardrails
	ruling   policy.Ruling    // of the company's rules
	save     txn.Op           // makes the call's files artifacts; nil where there are none
	needs    *run.PendingAuth // the call was not made: it needs this authorization first
	awaits   *tool.Await      // the call goes on without a worker, and is made again later
}

// fail makes text the call's result, as an error that the model reads.
func (o *outcome) fail(format string, args ...any) {
	o.out = run.ToolOutput{IsError: true, Content: fmt.Sprintf(format, args...)}
}

// runTools makes the calls that were begun, in parallel, and commits results as
// they arrive. Results that arrive together share a commit.
func (t *turn) runTools(ctx context.Context) error {
	calls := t.j.pendingTools()
	if t.e.Meter != nil {
		if err := t.e.Meter.AllowToolCalls(ctx, t.j.rec.TenantID, countNew(calls)); err != nil {
			return err
		}
	}
	recorded, err := t.recorded(ctx)
	if err != nil {
		return err
	}
	outcomes := t.startCalls(ctx, calls, recorded)
	var needs *run.PendingAuth
	var awaits []*tool.Await
	for n := 0; n < len(calls); {
		batch, err := receive(ctx, outcomes)
		if err != nil {
			return err
		}
		for _, o := range batch {
			if o.needs != nil {
				needs = o.needs
				t.j.hold(o.step.StepSeq)
				continue
			}
			if o.awaits != nil {
				awaits = append(awaits, o.awaits)
				t.recordAwait(o)
				continue
			}
			t.record(o)
			if o.ruling.Effect == policy.Terminate {
				return &governedError{"A call was refused: " + reasonOf(o.ruling)}
			}
		}
		n += len(batch)
		pause := run.PauseKept // other calls are still under way
		if n == len(calls) {
			pause = run.PauseAborts
			switch {
			case needs != nil:
				t.awaitAuth(needs)
			case awaits != nil:
				t.awaitRuns(awaits)
			default:
				t.next(ctx)
			}
		}
		if err := t.j.commit(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// startCalls makes each call in a goroutine of its own. Calls beyond the run's
// limit fail without being made.
func (t *turn) startCalls(ctx context.Context, calls []run.PendingStep, recorded *recordedResults) <-chan outcome {
	t.read = t.conv.sources
	allowed := len(calls)
	if limit := t.j.limits().MaxToolCalls; limit != nil {
		allowed = int(max(0, min(int64(allowed), *limit-t.j.rec.Metrics.ToolCallsCount)))
	}
	outcomes := make(chan outcome, len(calls))
	for i, p := range calls {
		if recorded != nil {
			o := outcome{in: *p.Tool, step: p.Ref()}
			recorded.take(&o)
			outcomes <- o
			continue
		}
		interrupted := t.interrupted[p.Tool.ToolCallID]
		go func() {
			start := time.Now()
			o := outcome{in: *p.Tool}
			if i < allowed || p.Awaits != nil {
				o = t.call(ctx, &p, interrupted)
			} else {
				o.fail("not called: the run's limit of tool calls is reached")
			}
			o.step, o.took = p.Ref(), time.Since(start)
			if p.Awaits != nil {
				o.took = t.e.Clock.Now().Sub(p.StartedAt)
			}
			outcomes <- o
		}()
	}
	return outcomes
}

// receive waits for an outcome and returns it with all others that have
// arrived. Once ctx has ended it returns its cause.
func receive(ctx context.Context, outcomes <-chan outcome) (batch []outcome, err error) {
	select {
	case o := <-outcomes:
		batch = append(batch, o)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for len(outcomes) > 0 {
		batch = append(batch, <-outcomes)
	}
	return batch, context.Cause(ctx)
}

// record adds a tool's result to the next commit.
func (t *turn) record(o outcome) {
	if a := t.approvals[o.in.ToolCallID]; a != nil && a.Response != "" && !o.out.IsError {
		o.out.Content += "\n\n[The person who approved the call says: " + a.Response + "]"
	}
	o.out.Content = t.repeats.Note(o.in.Name, o.in.Arguments, o.out.Content)
	for _, v := range o.verdicts {
		t.j.recordVerdict(o.step, v)
	}
	if !t.awaited(o.step.StepSeq) { // otherwise it was recorded when the wait began
		t.j.recordRuling(t.spec, o.step, o.in.ToolCallID, o.ruling)
	}
	o.out.Rulings = o.ruling.Findings
	step := &run.Step{
		Seq: o.step.StepSeq, Type: run.StepTool, Status: run.StepCompleted, CallOf: t.askedBy(o.in.ToolCallID, o.in.Arguments),
		Input: schema.Nullable(encode(o.in)), Output: schema.Nullable(encode(o.out)),
	}
	status := "done"
	if o.out.IsError {
		status, step.Status, step.Error = "error", run.StepFailed, &o.out.Content
	}
	t.j.emitResult(toolResultData{
		StepRef: o.step, ToolCallID: o.in.ToolCallID, Name: o.in.Name, Status: status,
		Output: encode(o.out.Content), DurationMS: milliseconds(o.took),
	}, o.step.StepSeq)
	if t.e.Observer.ToolDone != nil {
		t.e.Observer.ToolDone(o.in.Name, o.out.IsError, o.took)
	}
	t.j.rec.Metrics.ToolCallsCount++
	use := quota.Use{ToolCalls: 1}
	if o.out.IsError {
		use.ToolErrors = 1
	}
	t.j.next.uses = append(t.j.next.uses, use)
	if o.save != nil {
		t.j.next.ops = append(t.j.next.ops, o.save)
	}
	t.j.endStep(step, run.StepMetrics{ToolCallsCount: 1})
	t.conv.sources = model.JoinSources(t.conv.sources, o.out.Sources)
	t.conv.citations = model.JoinCitations(t.conv.citations, o.out.Citations)
	m := run.ToolMessage(o.in, o.out)
	m.From = t.j.origin(o.step.StepSeq)
	t.transcript.Results[o.in.ToolCallID] = m
}

// call makes one call. Every failure is a result that the model can read:
// nothing that a tool does ends the run. The result of a cancelled run is
// never used. interrupted: the call was under way when the last worker died.
func (t *turn) call(ctx context.Context, p *run.PendingStep, interrupted bool) outcome {
	in := *p.Tool
	o := outcome{step: p.Ref(), in: in}
	if p.Killed {
		o.fail(killedNote)
		return o
	}
	if in.Redacted && p.Awaits == nil {
		o.fail(redactedNote)
		return o
	}
	if known, ok := t.conv.tools.Lookup(in.Name); ok && interrupted && !known.Repeatable() {
		o.fail(interruptedNote)
		return o
	}
	arguments := in.Arguments
	if p.Awaits != nil { // it was checked and judged when it was made
		o.ruling.Findings = p.Rulings
	} else {
		var ok bool
		if arguments, ok = t.mayCall(ctx, &o); !ok {
			return o
		}
	}
	rec := t.j.rec
	res, err := t.conv.tools.Call(ctx, tool.Call{
		TenantID: rec.TenantID, AgentID: rec.AgentID, RunID: rec.RunID, SessionID: ptr.Value(rec.SessionID),
		WorkspaceID: rec.Options.WorkspaceID, KnowledgeBases: rec.Options.KnowledgeBases,
		StepID: p.StepID, ID: in.ToolCallID, Name: in.Name, Arguments: arguments, Awaits: p.Awaits, Sources: t.read,
	})
	if err != nil {
		o.fail("the run ended before the tool did")
		return o
	}
	if res.Cause != nil {
		t.warn("a tool failed", in.Name, res.Cause)
	}
	if n := res.Authorize; n != nil && t.sandboxed() {
		o.fail(sandboxNote, "a person would have to authorize it first")
		return o
	} else if n != nil {
		o.needs = &run.PendingAuth{ServerID: n.ServerID, Name: n.Name, AuthorizationURL: n.URL}
		return o
	}
	if o.awaits = res.Await; o.awaits != nil {
		return o
	}
	if t.watch.Tool && !t.checkResult(ctx, &o, &res) {
		return o
	}
	o.out = run.ToolOutput{Content: res.Output, IsError: res.Failed, Sources: res.Sources, Citations: res.Citations}
	if len(res.Files) > 0 && t.e.Artifacts != nil {
		if err := t.saveFiles(ctx, &o, res.Files); err != nil {
			t.warn("a tool's files could not be stored", in.Name, err)
			o.out.Content += "\n[the call's files could not be stored]"
		}
	}
	return o
}

// mayCall checks and judges a call right before it is made, and returns its
// arguments. If it may not be made, that is its result, and ok is false.
func (t *turn) mayCall(ctx context.Context, o *outcome) (arguments string, ok bool) {
	if res, refused := t.repeats.Refuses(o.in.Name, o.in.Arguments); refused {
		o.fail("%s", res.Output)
		return "", false
	}
	if !t.mayInSandbox(o) {
		return "", false
	}
	if arguments, ok = t.checkCall(ctx, o); !ok {
		return "", false
	}
	return arguments, t.govern(ctx, o, arguments)
}

func (t *turn) warn(message, tool string, err error) {
	t.e.Logger.Warn(message, "run", t.j.rec.RunID, "tenant", t.j.rec.TenantID, "tool", tool, "err", err)
}

// checkCall asks policy whether a call may be made. It returns the arguments as
// policy has them, or not ok with the refusal as the call's result.
func (t *turn) checkCall(ctx context.Context, o *outcome) (arguments string, ok bool) {
	verdict, err := t.e.Gate.BeforeTool(ctx, ofStep(subject(t.j.rec, t.spec), o.step), o.in.Name, o.in.Arguments)
	if err != nil {
		t.warn("a call could not be checked", o.in.Name, err)
		o.fail("the call could not be checked against policy; it was not made")
		return "", false
	}
	o.verdicts = append(o.verdicts, verdict)
	switch {
	case verdict.Refused:
		o.fail("refused by policy (%s): %s", verdict.Code, verdict.Reason)
		return "", false
	case verdict.Changed:
		return verdict.Text, true
	}
	return o.in.Arguments, true
}

// checkResult has guardrails check a tool's output, and changes it as they
// say. Where it is withheld, that is the call's result and ok is false.
func (t *turn) checkResult(ctx context.Context, o *outcome, res *tool.Result) (ok bool) {
	verdict, err := t.e.Gate.AfterTool(ctx, ofStep(subject(t.j.rec, t.spec), o.step), o.in.Name, res.Output)
	if err != nil {
		t.warn("a result could not be checked", o.in.Name, err)
		o.fail("the call was made, and its result is withheld: it could not be checked")
		return false
	}
	o.verdicts = append(o.verdicts, verdict)
	switch {
	case verdict.Refused:
		o.fail("the call was made, and its result is withheld (%s): %s", verdict.Code, verdict.Reason)
		return false
	case verdict.Changed:
		res.Output, res.Citations = verdict.Text, nil // which would quote what the guardrails removed
	}
	// The guardrails checked only the text that the model gets. Files would
	// bypass them.
	if len(res.Files) > 0 {
		res.Files = nil
		res.Output += "\n[the call's files are not kept: guardrails watch the tools of this agent]"
	}
	return true
}

// saveFiles stores a call's files.
func (t *turn) saveFiles(ctx context.Context, o *outcome, files []tool.File) error {
	saved, op, err := t.e.Artifacts.Save(ctx, t.j.rec.TenantID, t.j.rec.RunID, files)
	if err != nil {
		return err
	}
	for _, artifact := range saved {
		o.out.Artifacts = append(o.out.Artifacts, artifact.ArtifactID)
	}
	if dropped := len(files) - len(saved); dropped > 0 {
		o.out.Content += fmt.Sprintf("\n[%d of the call's files are not kept: the run has as many as it may have]", dropped)
	}
	o.save = op
	return nil
}

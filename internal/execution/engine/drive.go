package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/work"
)

// Names of the events that carry a model's text.
const (
	textChunk     = "llm.chunk"
	thinkingChunk = "llm.thinking"
)

var errDuration = errors.New("engine: the run's time is up")

// drive takes the run from its last commit to its end. It returns nil when the
// run has ended, waits, or is held back because its tenant is suspended. After
// an error (the lease is lost, the node stops, the database cannot store the
// result) the run is continued elsewhere, or later. A node that drains stops it
// between two steps.
func (a *attempt) drive(ctx context.Context) error {
	a.lost, a.journal.holder = ctx, ctx
	a.ctx, a.end = context.WithCancelCause(ctx)
	defer a.end(nil)
	rec := a.journal.rec
	a.e.attempts.track(rec.RunID, a)
	defer a.e.attempts.untrack(rec.RunID)
	if limit := a.journal.limits().MaxDurationMS; limit != nil {
		left := time.Duration(float64(*limit)-a.journal.earlierMS) * time.Millisecond
		var stop context.CancelFunc
		a.ctx, stop = context.WithTimeoutCause(a.ctx, left, errDuration)
		defer stop()
	}
	if a.e.Tracer != nil {
		var span trace.Span
		a.ctx, span = a.e.Tracer.Start(a.ctx, "run", trace.WithAttributes(
			attribute.String("agentd.run_id", rec.RunID), attribute.String("agentd.agent_id", rec.AgentID)))
		defer span.End()
	}
	if err := a.prepare(); err != nil {
		return a.settle(err)
	}
	if onMachine(a) && rec.Status == run.Running {
		return a.handOver()
	}
	for rec.Status == run.Running && rec.Wait.For == "" {
		// Tools that were begun are finished first: else their outcome would be unknown.
		if a.speculative == nil && !a.journal.callsUnderWay() {
			if err := work.StopIfDraining(ctx); err != nil {
				return err
			}
			if suspended, err := a.e.suspended(ctx, a.journal.lease); suspended || err != nil {
				return err
			}
		}
		if err := a.e.backlog.admit(ctx); err != nil {
			return err
		}
		if err := a.step(); err != nil {
			return a.settle(err)
		}
		if a.trial != nil {
			a.endTrial()
		}
	}
	return nil
}

// step does what the journal says is next, up to a commit.
func (a *attempt) step() error {
	switch j := a.journal; {
	case j.pending(run.StepTool):
		return a.turn.runTools(a.ctx)
	case j.pending(run.StepJudge):
		return verdicts{a}.judgeAnswer()
	case j.pending(run.StepCompaction):
		return a.conversation.compact(a.ctx)
	case j.pending(run.StepLLM):
		return a.callModel()
	}
	return a.continueRun()
}

// continueRun commits what the run does next where nothing is under way: it was
// just prepared, or woken.
func (a *attempt) continueRun() error {
	if out := a.turn.transcript.Answer; out != nil { // it was paused when the model had answered
		return a.finish(*out, a.journal.exhausted())
	}
	a.turn.next(a.ctx)
	return a.journal.commit(a.ctx, run.PauseAborts)
}

// settle ends the run where err is the run's own, and returns other errors.
func (a *attempt) settle(err error) error {
	rec, cause := a.journal.rec, context.Cause(a.ctx)
	byOthers, asked := errors.AsType[*endedByOthers](cause)
	switch {
	case rec.Status.Final(): // its end could not be stored
		return err
	case asked:
		return a.fail(byOthers.why.Code, byOthers.why.Sentence)
	case errors.Is(cause, errDuration):
		return a.fail(run.CodeMaxDuration, fmt.Sprintf("The run was given %d ms and had not ended by then.", *a.journal.limits().MaxDurationMS))
	case cause != nil:
		return cause
	}
	if late, ok := errors.AsType[*outOfTime](err); ok {
		return a.fail(run.CodeMaxDuration, late.sentence(*a.journal.limits().MaxDurationMS))
	}
	if governed, ok := errors.AsType[*governedError](err); ok {
		return a.fail(run.CodePolicyBlocked, governed.reason)
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		a.logFailure(failed)
		return a.fail(failed.Code, failed.Detail)
	}
	if over, ok := errors.AsType[*run.OverBudget](err); ok {
		if rec.Outcome.Best() != nil {
			return verdicts{a}.endShort(run.EndedByBudget, "What is left of its budget does not pay for another call.")
		}
		return a.fail(run.CodeBudgetExceeded, fmt.Sprintf(
			"The next model call may cost more than is left: $%.6f of $%.6f.", float64(over.Left)/1e9, float64(over.Limit)/1e9))
	}
	if code := quotaCode(err); code != "" {
		return a.fail(code, fault.From(err).Detail)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind != fault.Unavailable && f.Kind != fault.Internal {
		return a.fail(run.CodeInternalError, f.Detail)
	}
	return err
}

// logFailure logs why a run's model did not answer. Who observes the calls has
// logged what became of one that was made.
func (a *attempt) logFailure(failed *model.Error) {
	log, message := a.e.Logger.Info, "the model of a run could not be called"
	if a.brokenOff != nil {
		log, message = a.e.Logger.Debug, "a run ends because its model call failed"
	}
	log(message, "run", a.journal.rec.RunID, "tenant", a.journal.rec.TenantID, "code", failed.Code, "detail", failed.Detail)
}

// callModel calls the model once and commits its answer.
func (a *attempt) callModel() error {
	j, c := a.journal, a.conversation
	limits := j.limits()
	if allowsNone(limits.MaxSteps) || allowsNone(limits.MaxTokensPerRun) {
		j.sealText()
		return a.finish(run.LLMOutput{FinishReason: model.FinishLength}, true)
	}
	if err := a.governModel(); err != nil {
		return err
	}
	c.closing, a.brokenOff = j.exhausted(), nil
	if a.speculative == nil {
		if compacts, err := c.foresee(a.ctx); compacts || err != nil {
			return err
		}
	}
	r, err := a.answer()
	if over, ok := errors.AsType[*model.OverLimit](err); ok {
		return a.waitForLimit(over)
	}
	if err != nil {
		return err
	}
	if r, err = a.inForm(r); err != nil {
		return err
	}
	if r.err != nil {
		a.brokenOff = &r
		if retry, err := c.handleOverflow(a.ctx, r.err); retry || err != nil {
			return err
		}
		return a.waitForModel(r)
	}
	if context.Cause(a.ctx) != nil {
		return context.Cause(a.ctx)
	}
	c.wokenFrom = time.Time{}
	a.e.waking.answered(r.used, j.newest().Failed > 0)
	c.recordUsage(r)
	return a.commitAnswer(r.resp, r.used)
}

// answer makes the model call: of the model, and if that fails, of the fallback.
func (a *attempt) answer() (callResult, error) {
	if speculative := a.speculative; speculative != nil {
		a.speculative = nil
		r := speculative.wait(a.ctx)
		if r.err != nil {
			return speculative.call.askFallback(a.ctx, r)
		}
		return r, nil
	}
	call, err := a.conversation.prepareCall(a.ctx)
	if err != nil {
		return callResult{}, err
	}
	r := call.ask(a.ctx, call.req.Target, always)
	if r.err != nil {
		return call.askFallback(a.ctx, r)
	}
	return r, nil
}

// commitAnswer commits a model's answer: the run continues with the tools that
// it asked for, or it ends.
func (a *attempt) commitAnswer(resp model.Response, target model.Target) error {
	a.turn.nameCalls(resp.ToolCalls)
	out := run.LLMOutput{
		Text: resp.Text, Thinking: resp.Thinking, ToolCalls: resp.ToolCalls,
		FinishReason: resp.FinishReason, Model: resp.Model, Warnings: run.WarningsOf(&resp),
	}
	if a.conversation.closing || declined(out.FinishReason) != "" {
		out.ToolCalls = nil
	}
	opaque := run.OpaqueOf(&resp, &target)
	m := a.withUnusable(a.journal.countModelCall(resp.Usage, target, len(out.ToolCalls)))
	a.journal.unended = m // in case the run ends here
	last := len(out.ToolCalls) == 0 || a.turn.callsCaller(out.ToolCalls) && a.turn.mayHandOver(a.ctx, out.ToolCalls)
	if last || a.facts.watch.Output {
		text := out.Text
		refused, err := a.checkOutput(&out)
		if err != nil || refused {
			return err
		}
		if out.Text != text { // the data may hold what was removed
			opaque = nil
		}
	}
	return a.continueAfter(out, opaque, a.recordAnswer(&out, opaque, m), last)
}

// recordAnswer adds the step of an answer, with its events, to the next commit
// and returns the step's seq.
func (a *attempt) recordAnswer(out *run.LLMOutput, opaque *run.StepOpaque, m run.StepMetrics) (seq int64) {
	j := a.journal
	// One chunk, so that every stream and replay has the text.
	if c := a.conversation; c.buffered && (c.form == nil || len(out.ToolCalls) == 0) {
		j.chunk(a.ctx, thinkingChunk, out.Thinking)
		j.chunk(a.ctx, textChunk, out.Text)
	}
	j.sealText()
	seq = j.newest().Seq
	j.emitOfStep("llm.completed", run.LLMCompletedOf(j.newest().Ref(), out, m), seq)
	step := &run.Step{
		Seq: seq, Type: run.StepLLM, Status: run.StepCompleted,
		Input: a.conversation.stepInput(), Output: schema.Nullable(encode(*out)), Opaque: opaque,
	}
	for _, c := range out.ToolCalls {
		step.ToolCalls = append(step.ToolCalls, c.Name)
	}
	j.endStep(step, m)
	return seq
}

// continueAfter commits an answer together with what follows it. last: the run
// ends with it, because it asks for nothing or for the caller's tools.
func (a *attempt) continueAfter(out run.LLMOutput, opaque *run.StepOpaque, seq int64, last bool) error {
	j := a.journal
	message := model.Message{Role: model.Assistant, Text: out.Text, ToolCalls: out.ToolCalls, From: j.origin(seq)}
	opaque.Restore(&message)
	switch {
	case len(out.ToolCalls) == 0:
		if j.rec.Options.Outcome != nil { // it is judged, and may be worked on
			a.conversation.messages = append(a.conversation.messages, message)
		}
		cutOff := out.FinishReason == model.FinishLength && j.limits().MaxTokensPerRun != nil
		return a.finish(out, a.conversation.closing || cutOff)
	case last:
		out.ToolCalls = slices.DeleteFunc(out.ToolCalls, func(c model.ToolCall) bool { return !j.rec.Options.HasTool(c.Name) })
		return a.finish(out, false)
	case j.exhausted(): // the calls are not made
		message.ToolCalls = nil
		if strings.TrimSpace(message.Text) != "" {
			a.conversation.messages = append(a.conversation.messages, message)
		}
		j.beginStep(run.StepLLM, nil)
	default:
		a.turn.answered(message)
		a.turn.next(a.ctx)
	}
	return j.commit(a.ctx, run.PauseAborts)
}

// checkOutput has policy check a text that is about to be published, and
// changes it as policy says. Where policy refuses it, the run ends.
func (a *attempt) checkOutput(out *run.LLMOutput) (refused bool, err error) {
	verdict, err := a.e.Gate.BeforeAnswer(a.ctx, ofStep(subject(a.journal.rec, a.spec), a.journal.newest().Ref()), out.Text)
	if err != nil {
		return false, err
	}
	a.journal.recordVerdict(a.journal.newest().Ref(), verdict)
	if verdict.Refused {
		return true, a.fail(run.CodeGuardrailBlocked, verdict.Reason)
	}
	if verdict.Changed { // the thinking may hold what was removed from the text
		out.Text, out.Thinking = verdict.Text, ""
	}
	return false, nil
}

// declined returns the code of a run whose model ended its answer for this reason; "" if
// the answer can be used.
func declined(finish string) string {
	switch finish {
	case model.FinishRefusal:
		return run.CodeModelRefused
	case model.FinishFilter:
		return run.CodeContentFiltered
	}
	return ""
}

// declinedDetail says why a run failed whose model declined.
var declinedDetail = map[string]string{
	run.CodeModelRefused:    "The model refused to answer; what it said is in the output.",
	run.CodeContentFiltered: "The provider's safety filter ended the model's answer; what was said before is in the output.",
}

// finish ends the run with a model's text, or has it judged before.
func (a *attempt) finish(out run.LLMOutput, truncated bool) error {
	a.turn.transcript = &run.Transcript{Answer: &out}
	if v := (verdicts{a}); v.mustJudge(&out) {
		v.beginJudging(truncated)
		return a.journal.commit(a.ctx, run.PauseAborts)
	}
	return complete(a, out, truncated)
}

// outputOf returns the output of a run that ends with a model's text.
func outputOf(a *attempt, out run.LLMOutput, truncated bool) run.Output {
	output := run.Output{
		Text: out.Text, Truncated: truncated, OutputTruncated: out.FinishReason == model.FinishLength && out.Model != "",
		FinishReason: out.FinishReason, ToolCalls: out.ToolCalls,
		Sources: a.conversation.sources, Citations: a.conversation.citations,
	}
	if truncated {
		output.ContinuationToken = a.e.service.Continuation(a.journal.rec.TenantID, a.journal.rec.RunID, a.journal.step)
	}
	return output
}

// complete ends the run with a model's text. If a pause was requested, the text is held
// until the run is resumed.
func complete(a *attempt, out run.LLMOutput, truncated bool) error {
	j := a.journal
	j.rec.Output = schema.Nullable(encode(outputOf(a, out, truncated)))
	if code := declined(out.FinishReason); code != "" {
		j.end(run.Failed, code, declinedDetail[code])
	} else {
		j.end(run.Completed, "", "")
	}
	return j.commit(context.WithoutCancel(a.ctx), run.PauseAborts)
}

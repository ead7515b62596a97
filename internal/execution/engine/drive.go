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
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// Names of the events that carry what a model says.
const (
	textChunk     = "llm.chunk"
	thinkingChunk = "llm.thinking"
)

var errDuration = errors.New("engine: the run's time is up")

// drive takes the run from its last commit to its end. It returns nil when
// the run ended or is held back, and an error where it did neither: the lease is lost, the node
// stops, or the database cannot take the result. The run goes on elsewhere
// then, or later.
func (a *attempt) drive(ctx context.Context) error {
	a.ctx, a.lost = ctx, ctx
	a.e.track(a, true)
	defer a.e.track(a, false)
	if limit := a.limits().MaxDurationMS; limit != nil {
		left := time.Duration(float64(*limit)-a.before) * time.Millisecond
		var stop context.CancelFunc
		a.ctx, stop = context.WithTimeoutCause(a.ctx, left, errDuration)
		defer stop()
	}
	if a.e.Tracer != nil {
		var span trace.Span
		a.ctx, span = a.e.Tracer.Start(a.ctx, "run", trace.WithAttributes(
			attribute.String("agentd.run_id", a.rec.RunID), attribute.String("agentd.agent_id", a.rec.AgentID)))
		defer span.End()
	}

	if err := a.open(); err != nil {
		return a.settle(err)
	}
	for a.rec.Status == run.Running {
		// Tools that were begun are not left: nobody could say what became of them.
		if a.early == nil && !a.pending(run.StepTool) {
			if held, err := a.e.suspended(ctx, a.lease); held || err != nil {
				return err
			}
		}
		var err error
		switch {
		case a.pending(run.StepTool):
			err = a.runTools()
		case a.pending(run.StepCompaction):
			err = a.fold()
		case a.pending(run.StepLLM):
			err = a.ask()
		default:
			err = a.goOn()
		}
		if err != nil {
			return a.settle(err)
		}
	}
	return nil
}

// pending says whether a step of a type was begun and has no result.
func (a *attempt) pending(kind run.StepType) bool {
	return slices.ContainsFunc(a.rec.Pending, func(p run.PendingStep) bool { return p.Type == kind })
}

// goOn commits what the run does next where nothing is under way: it just
// opened, or somebody woke it.
func (a *attempt) goOn() error {
	if out := a.past.Answer; out != nil { // it was paused when the model had answered
		return a.finish(*out, a.exhausted())
	}
	if err := a.next(); err != nil {
		return err
	}
	return a.commit(a.ctx, run.PauseAborts)
}

// settle ends the run where err is the run's own, and passes on what is not.
func (a *attempt) settle(err error) error {
	switch cause := context.Cause(a.ctx); {
	case errors.Is(cause, errDuration):
		return a.fail(run.CodeMaxDuration, fmt.Sprintf("The run was given %d ms and had not ended by then.", *a.limits().MaxDurationMS))
	case cause != nil:
		return cause
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		a.e.Logger.Info("a model call failed", "run", a.rec.RunID, "tenant", a.rec.TenantID, "code", failed.Code, "status", failed.Status, "err", failed.Cause)
		return a.fail(failed.Code, failed.Detail)
	}
	if over, ok := errors.AsType[*run.OverBudget](err); ok {
		return a.fail(run.CodeBudgetExceeded, fmt.Sprintf(
			"The next model call may cost more than is left: $%.6f of $%.6f.", float64(over.Left)/1e9, float64(over.Limit)/1e9))
	}
	if code := refusedBy(err); code != "" {
		return a.fail(code, fault.From(err).Detail)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind != fault.Unavailable && f.Kind != fault.Internal {
		return a.fail(run.CodeInternalError, f.Detail)
	}
	return err
}

// ask calls the model once and commits what it said.
func (a *attempt) ask() error {
	limits := a.limits()
	if none(limits.MaxSteps) || none(limits.MaxTokensPerRun) {
		a.sealText()
		return a.finish(run.LLMOutput{FinishReason: model.FinishLength}, true)
	}
	a.closing = a.exhausted()
	var r callResult
	if early := a.early; early != nil {
		a.early = nil
		r = early.answer(a.ctx)
	} else {
		call, err := a.prepareCall(a.ctx)
		if err != nil {
			return err
		}
		r.resp, r.used, r.err = call(a.ctx, always)
	}
	if r.err != nil {
		if again, err := a.tooLong(r.err); again || err != nil {
			return err
		}
		return r.err
	}
	if context.Cause(a.ctx) != nil {
		return context.Cause(a.ctx)
	}
	a.heeded(r)
	return a.heard(r.resp, r.used)
}

// modelCall makes a call that was prepared. may is asked before each piece is
// given out: no means that there is no run to give it to.
type modelCall func(ctx context.Context, may func() bool) (model.Response, model.Target, error)

func always() bool { return true }

// prepareCall finds out whom to ask what.
func (a *attempt) prepareCall(ctx context.Context) (modelCall, error) {
	to, err := a.whom(ctx)
	if err != nil {
		return nil, err
	}
	a.to = nil
	if err := a.mayAsk(ctx); err != nil {
		return nil, err
	}
	req := a.request(to.Target)
	if err := a.afford(ctx, &req, to.fallback); err != nil {
		return nil, err
	}
	return func(ctx context.Context, may func() bool) (model.Response, model.Target, error) {
		var sink func(model.Delta)
		if !a.whole() {
			sink = func(d model.Delta) {
				if may() {
					a.chunk(thinkingChunk, d.Thinking)
					a.chunk(textChunk, d.Text)
				}
			}
		}
		return model.GenerateWithFallback(ctx, a.e.Client, req, to.fallback, sink)
	}, nil
}

// whole says whether an answer is given out in one piece: nobody wants
// chunks, or somebody looks at the text first.
func (a *attempt) whole() bool { return a.rec.Options.Plain || a.watch.Output }

// heard commits a model's answer: either the run goes on with the tools that
// it asked for, or it ends.
func (a *attempt) heard(resp model.Response, target model.Target) error {
	a.nameCalls(resp.ToolCalls)
	out := run.LLMOutput{
		Text: resp.Text, Thinking: resp.Thinking, ToolCalls: resp.ToolCalls,
		FinishReason: resp.FinishReason, Model: resp.Model,
	}
	if a.closing {
		out.ToolCalls = nil
	}
	m := a.count(resp.Usage, target, len(out.ToolCalls))
	a.spent = m // in case the run ends here
	last := len(out.ToolCalls) == 0 || a.callers(out.ToolCalls)
	if last || a.watch.Output {
		refused, err := a.letOut(&out)
		if err != nil || refused {
			return err
		}
	}
	if a.whole() { // one chunk, so that every stream and replay has the text
		a.chunk(thinkingChunk, out.Thinking)
		a.chunk(textChunk, out.Text)
	}
	a.sealText()
	seq := a.rec.Pending[len(a.rec.Pending)-1].Seq
	a.emitOf("llm.completed", run.LLMCompletedOf(seq, &out, m), seq)
	step := &run.Step{
		Seq: seq, Type: run.StepLLM, Status: run.StepCompleted,
		Input: a.llmInput(), Output: schema.Nullable(encode(out)),
	}
	for _, c := range out.ToolCalls {
		step.ToolCalls = append(step.ToolCalls, c.Name)
	}
	a.endStep(step, m)

	said := model.Message{Role: model.Assistant, Text: out.Text, ToolCalls: out.ToolCalls, From: a.origin(seq)}
	switch {
	case len(out.ToolCalls) == 0:
		return a.finish(out, a.closing || out.FinishReason == model.FinishLength && a.limits().MaxTokensPerRun != nil)
	case last:
		out.ToolCalls = slices.DeleteFunc(out.ToolCalls, func(c model.ToolCall) bool { return !a.rec.Options.HasTool(c.Name) })
		return a.finish(out, false)
	case a.exhausted(): // what it asks for is not done
		said.ToolCalls = nil
		if strings.TrimSpace(said.Text) != "" {
			a.messages = append(a.messages, said)
		}
		a.beginStep(run.StepLLM, nil)
	default:
		a.past = &run.Transcript{OpenTurn: &said, Results: map[string]model.Message{}}
		if err := a.next(); err != nil {
			return err
		}
	}
	return a.commit(a.ctx, run.PauseAborts)
}

// nameCalls gives calls ids of their own where the model gave none, or one
// that it used before: results and approvals are told apart by it.
func (a *attempt) nameCalls(calls []model.ToolCall) {
	used := map[string]bool{"": true}
	for id := range a.approvals { // also of calls that were folded
		used[id] = true
	}
	for _, m := range a.messages {
		for _, c := range m.ToolCalls {
			used[c.ID] = true
		}
	}
	for i := range calls {
		if used[calls[i].ID] {
			calls[i].ID = "call_" + strings.ReplaceAll(ident.New(), "-", "")
		}
		used[calls[i].ID] = true
	}
}

// callers says whether any call is of a tool of the caller's own, which the
// platform cannot run: the caller gets the turn.
func (a *attempt) callers(calls []model.ToolCall) bool {
	return slices.ContainsFunc(calls, func(c model.ToolCall) bool { return a.rec.Options.HasTool(c.Name) })
}

// letOut asks policy whether a text may go out, and changes it as policy says.
// Where it may not, the run ends.
func (a *attempt) letOut(out *run.LLMOutput) (refused bool, err error) {
	verdict, err := a.e.Gate.BeforeAnswer(a.ctx, subject(a.rec, a.spec), out.Text)
	if err != nil {
		return false, err
	}
	a.judged(verdict)
	if verdict.Refused {
		return true, a.fail(run.CodeGuardrailBlocked, verdict.Reason)
	}
	if verdict.Changed { // what was thought may hold what had to go from the text
		out.Text, out.Thinking = verdict.Text, ""
	}
	return false, nil
}

// finish ends the run with a model's text. Where a pause was asked for the
// text is held.
func (a *attempt) finish(out run.LLMOutput, truncated bool) error {
	a.past = &run.Transcript{Answer: &out}
	output := run.Output{
		Text: out.Text, Truncated: truncated, OutputTruncated: out.FinishReason == model.FinishLength && out.Model != "",
		FinishReason: out.FinishReason, ToolCalls: out.ToolCalls,
	}
	if truncated {
		output.ContinuationToken = a.e.service.Continuation(a.rec.TenantID, a.rec.RunID, a.step)
	}
	a.rec.Output = schema.Nullable(encode(output))
	a.end(run.Completed, "", "")
	return a.commit(context.WithoutCancel(a.ctx), run.PauseAborts)
}

// count adds a model call to the run's metrics.
func (a *attempt) count(u model.Usage, target model.Target, calls int) run.StepMetrics {
	m := run.StepMetrics{
		InputTokens: int64(u.InputTokens), OutputTokens: int64(u.OutputTokens), ThinkingTokens: int64(u.ThinkingTokens),
		LLMCalls: 1, ToolCallsCount: int64(calls), Estimated: u.Estimated,
	}
	total := &a.rec.Metrics
	if target.Price != nil {
		cost := target.Price.Cost(u)
		m.CostUSD = &cost
	}
	switch {
	case m.CostUSD == nil:
		total.TotalCostUSD = nil // one call without a price makes the sum unknown
	case total.LLMCallsCount == 0:
		total.TotalCostUSD = m.CostUSD
	case total.TotalCostUSD != nil:
		sum := *total.TotalCostUSD + *m.CostUSD
		total.TotalCostUSD = &sum
	}
	total.LLMCallsCount++
	total.InputTokens += m.InputTokens
	total.OutputTokens += m.OutputTokens
	total.ThinkingTokens += m.ThinkingTokens
	a.used = append(a.used, quota.Called(target, u))
	return m
}

// Limits that apply where nobody set any: a model that calls tools for ever
// must end some time.
const defaultMaxSteps = 200

func (a *attempt) limits() run.Limits {
	l := a.rec.ResourceLimits
	if l.MaxSteps == nil {
		n := int64(defaultMaxSteps)
		l.MaxSteps = &n
	}
	return l
}

func none(limit *int64) bool { return limit != nil && *limit <= 0 }

func reached(limit *int64, n int64) bool { return limit != nil && n >= *limit }

// exhausted says whether the run must close now: its steps, tool calls or
// tokens are used up.
func (a *attempt) exhausted() bool {
	l, m := a.limits(), a.rec.Metrics
	return reached(l.MaxSteps, m.StepsCount-a.aside) ||
		reached(l.MaxToolCalls, m.ToolCallsCount) && m.LLMCallsCount > 0 ||
		reached(l.MaxTokensPerRun, m.InputTokens+m.OutputTokens)
}

func (e *Engine) track(a *attempt, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if on {
		e.active[a.rec.RunID] = a
	} else {
		delete(e.active, a.rec.RunID)
	}
}

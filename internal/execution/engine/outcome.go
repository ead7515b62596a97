package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
)

// A run with a rubric does not end with its first answer: a judge scores it, in a step of
// its own, and what it lacks is the next message to the agent, until the outcome is reached
// or a bound is. The answer is committed with the begin of the judge's step, and the
// verdict with the begin of what follows, so that after a crash neither is made twice.

// judgeLimitWait is how long a judge's call waits, with its worker, for a limit of the
// provider.
const judgeLimitWait = 30 * time.Second

// verdicts are the part of an attempt that has answers judged.
type verdicts struct{ *attempt }

// mustJudge reports whether an answer that would end the run is judged before that. One
// that hands calls to the caller, and one that a model declined to give, are no results.
func (a verdicts) mustJudge(out *run.LLMOutput) bool {
	rec := a.journal.rec
	return rec.Options.Outcome != nil && (rec.Outcome == nil || rec.Outcome.Status == run.OutcomeOpen) &&
		len(out.ToolCalls) == 0 && declined(out.FinishReason) == "" && a.lastAnswerSeq() != 0
}

// lastAnswerSeq returns the number of the step whose answer ends the conversation; 0 if it
// ends with something else.
func (a verdicts) lastAnswerSeq() int64 {
	all := a.conversation.messages
	if n := len(all); n > 0 && all[n-1].Role == model.Assistant && all[n-1].From.RunID == a.journal.rec.RunID {
		return all[n-1].From.StepSeq
	}
	return 0
}

// beginJudging adds to the next commit that the answer is judged next.
func (a verdicts) beginJudging(truncated bool) {
	n := 0
	if o := a.journal.rec.Outcome; o != nil {
		n = len(o.Verdicts)
	}
	a.beginVerdict(run.JudgeInput{Iteration: n + 1, AnswerSeq: a.lastAnswerSeq(), Truncated: truncated})
}

func (a verdicts) beginVerdict(in run.JudgeInput) {
	a.journal.beginStep(run.StepJudge, nil)
	a.journal.newest().Judge = &in
}

// judgeAnswer does the step of type judge that was begun: it has the judge score the
// answer, and commits the verdict with what follows from it.
func (a verdicts) judgeAnswer() error {
	j, out := a.journal, a.turn.transcript.Answer
	in := j.newest().Judge
	if out == nil || in == nil {
		return errors.New("engine: there is no answer to judge")
	}
	if l := j.limits(); reached(l.MaxTokensPerRun, j.rec.Metrics.InputTokens+j.rec.Metrics.OutputTokens) {
		return a.endShort(run.EndedByLimit, "Its limit of tokens leaves none for a judge.")
	}
	if err := a.governJudge(); err != nil {
		return err
	}
	call, fence, err := a.prepareJudge()
	if err != nil {
		return a.judgeFailed(err)
	}
	a.brokenOff = nil
	r := a.askJudge(call)
	if cause := context.Cause(a.ctx); cause != nil {
		a.noteBrokenOff(r)
		return cause
	}
	if r.err != nil {
		return a.judgeFailed(a.waitForModel(r))
	}
	a.conversation.wokenFrom = time.Time{}
	a.e.waking.answered(r.used, j.newest().Failed > 0)
	m := j.countModelCall(r.resp.Usage, r.used, 0)
	scores, total, err := j.rec.Options.Outcome.Read(fence, r.resp.Text)
	if err != nil {
		return a.judgeAgain(*in, m)
	}
	for i := range scores { // they may quote what the company does not store
		scores[i].Reason = j.redact.by.Text(scores[i].Reason)
	}
	return a.commitVerdict(*in, run.JudgeOutput{Score: total, Criteria: scores, Model: r.resp.Model}, m)
}

// noteBrokenOff has a call count that ended with the run.
func (a verdicts) noteBrokenOff(r callResult) {
	if r.err == nil {
		a.journal.unended = a.journal.countModelCall(r.resp.Usage, r.used, 0)
		return
	}
	_, a.journal.costUnknown = errors.AsType[*endedByOthers](context.Cause(a.ctx))
}

// judgeSpec is the agent as rules see it that a call of the judge's model is judged by.
func (a verdicts) judgeSpec() *run.AgentSpec {
	spec := *a.spec
	if ref := a.journal.rec.Options.Outcome.JudgeModel; ref != "" {
		spec.Model, spec.Fallback = model.Spec{ModelRef: ref}, nil
	} else if m := a.journal.rec.Options.Model; m != nil {
		spec.Model = *m
	}
	return &spec
}

// governJudge has the rules of the company judge the call of the judge's model. A refusal
// ends the run.
func (a verdicts) governJudge() error {
	if a.e.Governor == nil {
		return nil
	}
	spec, j := a.judgeSpec(), a.journal
	ruling, err := a.e.judgeModel(a.ctx, j.rec, spec, a.conversation.sources)
	if err != nil {
		return err
	}
	j.recordRuling(spec, j.newest().Ref(), "", ruling)
	switch {
	case ruling.Effect >= policy.Deny:
		return &governedError{"The model of the outcome's judge may not be called: " + reasonOf(ruling)}
	case len(ruling.Findings) == 0:
		return nil
	}
	return j.commit(a.ctx, run.PauseKept)
}

// prepareJudge resolves the judge's model, reserves the budget and builds the request.
func (a verdicts) prepareJudge() (req model.Request, fence judge.Fence, err error) {
	j, rubric := a.journal, a.journal.rec.Options.Outcome
	target, err := a.e.Models.Resolve(a.ctx, j.rec.TenantID, a.judgeSpec().Model)
	if err != nil {
		return req, fence, err
	}
	if err := j.checkQuota(a.ctx); err != nil {
		return req, fence, err
	}
	work := judge.Work{Task: a.task(), Result: a.turn.transcript.Answer.Text}
	if a.e.Artifacts != nil {
		if work.Files, err = a.e.Artifacts.Written(a.ctx, j.rec.TenantID, j.rec.RunID); err != nil {
			return req, fence, err
		}
	}
	fence = judge.NewFence()
	if req, err = rubric.Request(fence, work); err != nil {
		return req, fence, err
	}
	req.Target, req.LimitWait = target, judgeLimitWait
	req.Probe = !a.conversation.wokenFrom.IsZero() || a.e.waking.tries(j.rec.RunID, target)
	if a.spec.ModelRetry.MaxElapsed > 0 {
		req.MaxRetryAfter = maxQuickWait
	}
	return req, fence, j.reserveBudget(a.ctx, &req, nil)
}

// task returns what the run was asked for, as the guardrails left it.
func (a verdicts) task() string {
	in := a.journal.rec.ParsedInput()
	if a.asked != nil {
		return *a.asked
	}
	if in.Message != "" {
		return in.Message
	}
	for i := range slices.Backward(in.History) {
		if m := &in.History[i]; m.Role == model.User {
			return model.Plain(m)
		}
	}
	return ""
}

// askJudge makes the call, of which nothing is published.
func (a verdicts) askJudge(req model.Request) (r callResult) {
	m := modelCall{c: a.conversation, req: req, unheard: true}
	return m.ask(a.ctx, req.Target, always)
}

// judgeAgain asks the judge once more after an answer that was no verdict. After the second
// one the outcome cannot be judged.
func (a verdicts) judgeAgain(in run.JudgeInput, m run.StepMetrics) error {
	j := a.journal
	if in.Again {
		j.unended = m
		return a.endShort(run.EndedByJudge,
			"Its judge answered twice with something that is no verdict; give it another judge_model, or simpler criteria.")
	}
	why := "The judge's answer is no verdict; it is asked once more."
	j.endStep(&run.Step{
		Seq: j.newest().Seq, Type: run.StepJudge, Status: run.StepFailed, Input: schema.Nullable(encode(in)), Error: &why,
	}, m)
	j.overhead++
	in.Again = true
	a.beginVerdict(in)
	return j.commit(a.ctx, run.PauseAborts)
}

// judgeFailed ends a run whose judge does not answer. err is nil where the run waits for
// it; errors that are not the judge's own are returned.
func (a verdicts) judgeFailed(err error) error {
	if failed, ok := errors.AsType[*model.Error](err); ok && failed.Code != run.CodePricing {
		a.logFailure(failed)
		return a.endShort(run.EndedByJudge, "Its judge did not answer. "+failed.Detail)
	}
	return err
}

// commitVerdict commits a verdict with what follows: the end of the run, or the agent's
// next call with what the judge wants to be better.
func (a verdicts) commitVerdict(in run.JudgeInput, out run.JudgeOutput, m run.StepMetrics) error {
	j, p, rubric := a.journal, *a.journal.newest(), a.journal.rec.Options.Outcome
	out.Reached = out.Score >= rubric.Least()
	v := run.OutcomeVerdict{
		Iteration: in.Iteration, StepID: p.StepID, AnswerSeq: in.AnswerSeq, Score: out.Score, MinScore: rubric.Least(),
		Reached: out.Reached, Criteria: out.Criteria,
	}
	j.rec.Outcome = j.rec.Outcome.With(v)
	spent := j.exhausted()
	j.overhead++
	ended, why := "", ""
	switch {
	case out.Reached:
		ended = run.EndedByScore
	case in.Iteration >= rubric.MaxIterations:
		ended, why = run.EndedByIterations, fmt.Sprintf("It was judged %s, which is the most that its rubric allows.", times(in.Iteration))
	case spent:
		ended, why = run.EndedByLimit, "A limit of the run leaves nothing for another iteration."
	default:
		out.Feedback = rubric.Feedback(out.Criteria, out.Score)
	}
	j.emit("outcome.judged", run.OutcomeJudgedData{
		StepRef: p.Ref(), Iteration: v.Iteration, AnswerSeq: v.AnswerSeq,
		Score: v.Score, MinScore: v.MinScore, Reached: v.Reached, Criteria: v.Criteria,
	})
	j.endStep(&run.Step{
		Seq: p.Seq, Type: run.StepJudge, Status: run.StepCompleted, Input: schema.Nullable(encode(in)), Output: schema.Nullable(encode(out)),
	}, m)
	switch ended {
	case "":
	case run.EndedByScore:
		j.rec.Outcome = j.rec.Outcome.Ended(ended)
		return complete(a.attempt, *a.turn.transcript.Answer, in.Truncated)
	default:
		return a.endShort(ended, why)
	}
	a.conversation.messages = append(a.conversation.messages, model.Message{Role: model.User, Text: out.Feedback, From: j.origin(p.Seq)})
	a.turn.transcript = &run.Transcript{Results: map[string]model.Message{}}
	a.conversation.beginCall(a.ctx)
	return j.commit(a.ctx, run.PauseAborts)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// endShort ends a run without the outcome that it was to reach, for this reason. Its output
// is the best answer.
func (a verdicts) endShort(by, why string) error {
	rec := a.journal.rec
	rec.Outcome = rec.Outcome.Ended(by)
	best := rec.Outcome.Best()
	if best == nil || by == run.EndedByJudge {
		return a.fail(run.CodeNotJudged, "The outcome could not be judged. "+why)
	}
	return a.fail(run.CodeNotReached, fmt.Sprintf(
		"The outcome was not reached: the best score is %.2f, and %.2f is needed. %s", best.Score, best.MinScore, why))
}

// keepAnswer makes the best answer the output of a run that ends without its outcome: the
// one with the highest score or, before the first verdict, the one that is being judged.
func (a verdicts) keepAnswer() {
	rec := a.journal.rec
	if rec.Options.Outcome == nil || len(rec.Output) > 0 {
		return
	}
	best, answer := rec.Outcome.Best(), a.turn.transcript.Answer
	if best == nil {
		if answer != nil && a.journal.pending(run.StepJudge) {
			rec.Output = schema.Nullable(encode(outputOf(a.attempt, *answer, false)))
		}
		return
	}
	steps, err := a.e.Runs.ListSteps(context.WithoutCancel(a.ctx), rec.TenantID, rec.RunID, best.AnswerSeq-1, 1)
	var out run.LLMOutput
	if err != nil || len(steps) != 1 || json.Unmarshal(steps[0].Output, &out) != nil {
		a.e.Logger.Warn("the best answer of a run could not be read", "run", rec.RunID, "tenant", rec.TenantID, "err", err)
		return
	}
	rec.Output = schema.Nullable(encode(outputOf(a.attempt, out, false)))
}

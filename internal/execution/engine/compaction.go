package engine

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
)

// summaryTries bounds the calls for one summary. Each is sent less, where the
// one before was too long.
const summaryTries = 3

// summaryLimitWait is how long a summary waits, with its worker, for a limit of the
// provider.
const summaryLimitWait = 30 * time.Second

// maxSummary is the maximum length of summaries in tokens. Thinking models
// need some of it to think.
var maxSummary = map[contextwindow.Style]int{contextwindow.StyleCompaction: 4096, contextwindow.StyleSummarize: 2048}

// style is the style of the agent's summaries; not ok: its strategy makes none.
func (c *conversation) style() (s contextwindow.Style, ok bool) {
	switch c.spec.ContextStrategy {
	case strategySliding, strategyTruncate:
		return "", false
	case string(contextwindow.StyleSummarize):
		return contextwindow.StyleSummarize, true
	}
	return contextwindow.StyleCompaction, true
}

// canCompact reports whether a summary is possible: the agent's strategy makes
// them, the target is a real model, and the call's cost does not end the run.
func (c *conversation) canCompact(t model.Target) bool {
	_, ok := c.style()
	if !ok || t.Provider == model.Builtin || c.j.exhausted() {
		return false
	}
	m := c.j.rec.Metrics
	return !reached(c.j.limits().MaxTokensPerRun, m.InputTokens+m.OutputTokens+int64(c.meter.Total()))
}

// mayStartTooLong reports whether the messages that a run begins with may need
// a compaction first, or be counted, judged by their bytes.
func (c *conversation) mayStartTooLong(ctx context.Context) bool {
	t, err := c.resolveModels(ctx)
	if err != nil {
		return false
	}
	bytes, room := len(c.j.rec.Input)+len(c.spec.System), c.room(t.Target)
	return bytes/3 > room && c.canCompact(t.Target) || bytes/2 > room && c.e.Counter != nil
}

// beginCall adds to the next commit that the model is called next, or that the
// conversation is compacted before that.
func (c *conversation) beginCall(ctx context.Context) {
	kind := run.StepLLM
	c.meter.Read(c.messages)
	if c.compactionDue(ctx) {
		kind = run.StepCompaction
	}
	c.j.beginStep(kind, nil)
}

// compactionDue reports whether the conversation is too long and a summary can
// shorten it. After a summary failed, it must have grown by a tenth first.
func (c *conversation) compactionDue(ctx context.Context) bool {
	t, err := c.resolveModels(ctx)
	if err != nil { // the call meets the same error, and ends the run by it
		return false
	}
	n := c.meter.Total()
	if n <= c.room(t.Target) || n <= c.failedTokens+c.failedTokens/10 || !c.canCompact(t.Target) {
		return false
	}
	_, _, ok := c.planCompaction(t.Target)
	return ok
}

// planCompaction selects the messages that a summary replaces. With more,
// another compaction is to follow; not ok: a summary would shorten nothing.
func (c *conversation) planCompaction(t model.Target) (f contextwindow.Compaction, more, ok bool) {
	context, fixed := c.contextTokens(t), 0
	for i, n := range c.meter.Sizes() {
		if c.messages[i].Role == model.System {
			fixed += n
		}
	}
	n := max(0, context-fixed)
	room := contextwindow.Budget{Most: n * shareOfTurn / 100, Take: context * shareOfSummary / 100}
	if style, _ := c.style(); style == contextwindow.StyleCompaction {
		room.Keep, room.Recent = n*shareKept/100, recentMessages
	}
	return contextwindow.PlanCompaction(c.messages, c.meter.Sizes(), room)
}

// compact does the step of type compaction that was begun: it has a model
// summarize the older messages and continues with the summary in their place.
// The step is committed before the model is called for anything else. Without
// a summary the run continues and the model is sent fewer messages.
func (c *conversation) compact(ctx context.Context) error {
	t, err := c.resolveModels(ctx)
	if err != nil {
		return err
	}
	c.meter.Read(c.messages)
	before := c.meter.Total()
	s, err := c.summarize(ctx, t)
	if err != nil {
		return err
	}
	step := &run.Step{Type: run.StepCompaction, Status: run.StepCompleted, Input: schema.Nullable(encode(s.in))}
	var ref run.StepRef
	for _, p := range c.j.rec.Pending {
		if p.Type == run.StepCompaction {
			ref, step.Seq = p.Ref(), p.Seq
		}
	}
	if s.failure == "" {
		step.Output = schema.Nullable(encode(s.out))
		c.messages = s.after
		c.meter.Reset()
		c.counted.estimated = 0
		c.j.emit("context.compacted", compactedData{
			StepRef: ref, Folded: s.replaced, BeforeTokens: before, AfterTokens: s.out.Tokens,
		})
	} else {
		c.failedTokens = before
		step.Status, step.Error = run.StepFailed, &s.failure
	}
	c.j.endStep(step, s.metrics)
	c.j.overhead++
	if s.more {
		c.j.beginStep(run.StepCompaction, nil)
	} else {
		c.beginCall(ctx)
	}
	return c.j.commit(ctx, run.PauseAborts)
}

// summary is the result of a compaction.
type summary struct {
	in       run.CompactionInput
	out      run.CompactionOutput
	metrics  run.StepMetrics
	replaced int             // messages that the summary replaces
	after    []model.Message // the conversation with the summary
	more     bool            // another compaction is to follow
	failure  string          // why there is no summary, as one sentence; "": there is one
}

// summarize calls a model for a summary of the messages that do not fit. It
// returns errors that concern the run; a failed summary is in summary.failure.
func (c *conversation) summarize(ctx context.Context, t models) (s summary, err error) {
	style, _ := c.style()
	s.in.Strategy = string(style)
	for try := 1; ; try++ {
		plan, more, ok := c.planCompaction(t.Target)
		if !ok {
			s.failure = "There is nothing that a summary would make shorter."
			return s, nil
		}
		replaced := contextwindow.Compacted(c.messages, plan)
		s.in, s.replaced = compactionInput(plan, style, replaced), len(replaced)
		if err := c.j.checkQuota(ctx); err != nil {
			return s, err
		}
		req := c.summaryRequest(t.Target, style, replaced)
		req.LimitWait = summaryLimitWait
		r := c.callForSummary(ctx, req, t.fallback)
		if cause := context.Cause(ctx); cause != nil {
			return s, cause
		}
		if r.err == nil {
			c.acceptSummary(&s, r, more)
			return s, nil
		}
		if _, over := errors.AsType[*run.OverBudget](r.err); over { // the next call may still be within it
			s.failure = "What is left of the run's budget does not pay for a summary."
			return s, nil
		}
		failed, ok := errors.AsType[*model.Error](r.err)
		if !ok {
			return s, r.err
		}
		if failed.Code == model.CodeContextLength && try < summaryTries {
			c.refusedTokens = min(c.contextTokens(t.Target), model.EstimateInput(req)) * 3 / 4
			continue
		}
		c.e.Logger.Warn("a compaction failed; the model is sent fewer messages instead",
			"run", c.j.rec.RunID, "tenant", c.j.rec.TenantID, "code", failed.Code, "err", failed.Cause)
		s.failure = failed.Detail
		return s, nil
	}
}

// callForSummary makes one call for a summary, within the run's budget.
func (c *conversation) callForSummary(ctx context.Context, req model.Request, fallback *model.Fallback) (r callResult) {
	if r.err = c.j.reserveBudget(ctx, &req, fallback); r.err == nil {
		r.resp, r.used, r.err = model.GenerateWithFallback(ctx, c.e.Client, req, fallback, nil)
	}
	return r
}

func compactionInput(plan contextwindow.Compaction, style contextwindow.Style, replaced []model.Message) run.CompactionInput {
	in := run.CompactionInput{Compaction: plan, Strategy: string(style)}
	for i := range replaced {
		in.Tokens += model.EstimateMessage(&replaced[i])
		if from := replaced[i].From; from.RunID != "" {
			in.Through = &from
		}
	}
	return in
}

// acceptSummary checks a model's summary and applies it. Its call is counted
// in any case.
func (c *conversation) acceptSummary(s *summary, r callResult, more bool) {
	s.metrics = c.j.countModelCall(r.resp.Usage, r.used, 0)
	s.out = run.CompactionOutput{Summary: r.resp.Text, Model: r.resp.Model, Sources: c.sources}
	s.after = contextwindow.Apply(c.messages, s.in.Compaction, r.resp.Text, c.sources...)
	for _, n := range contextwindow.Sizes(s.after) {
		s.out.Tokens += n
	}
	if r.resp.Text == "" || s.out.Tokens >= c.meter.Total() {
		s.failure = "The model gave no summary that is shorter than what it stands for."
		return
	}
	s.more = more
}

// summaryRequest asks for a summary. One text is at most a quarter of its
// input.
func (c *conversation) summaryRequest(t model.Target, style contextwindow.Style, replaced []model.Message) model.Request {
	context := c.contextTokens(t)
	return model.Request{
		Target:    t,
		Messages:  contextwindow.SummaryPrompt(style, replaced, context*shareOfSummary/100),
		MaxTokens: max(256, min(maxSummary[style], context/8)),
	}
}

// handleOverflow handles the error of a call that was too long for the model:
// it compacts the conversation, or else has the model sent less, once before
// each answer. retry is false for other errors, and where neither helps.
func (c *conversation) handleOverflow(ctx context.Context, failure error) (retry bool, err error) {
	failed, ok := errors.AsType[*model.Error](failure)
	if !ok || failed.Code != model.CodeContextLength || c.shortened || context.Cause(ctx) != nil {
		return false, nil
	}
	t, err := c.resolveModels(ctx)
	if err != nil {
		return false, err
	}
	c.shortened, c.refusedTokens = true, c.shownTokens*3/4
	c.e.Logger.Info("a conversation was too long for the model",
		"run", c.j.rec.RunID, "tenant", c.j.rec.TenantID, "estimated", c.shownTokens, "err", failed.Cause)
	if c.canCompact(t.Target) && !c.closing {
		if _, _, ok := c.planCompaction(t.Target); ok {
			return true, c.endTooLong(ctx, failed.Detail)
		}
	}
	before := c.shown
	return len(c.view(t.Target)) < before, nil
}

package engine

import (
	"cmp"
	"context"
	"errors"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
)

// What of a model's context window a conversation may take, and what a fold is
// to leave of it, in hundredths of the window. The rest is for the answer, and
// for what the estimates do not see.
const (
	shareOfConversation = 80
	shareKept           = 30 // recent turns that stay as they are
	shareOfTurn         = 50 // what the turn that is under way may take to stay whole
	shareOfSummary      = 70 // what one summary is made of

	recentMessages = 8       // that a compaction leaves, where they are not too long
	defaultContext = 128_000 // tokens, of a model of which nobody said

	summaryTries = 3 // calls for one summary, each with less, where it is still too long
)

// Longest summaries in tokens. Thinking models need some of it to think.
var longestSummary = map[contextwindow.Style]int{contextwindow.Compaction: 4096, contextwindow.Summarize: 2048}

// strategySliding shows the newest messages; truncate is the other strategy
// that folds nothing.
const (
	strategySliding  = "sliding_window"
	strategyTruncate = "truncate"
)

// reading is what a model is given to read of a run's conversation, and what
// was learnt about that.
type reading struct {
	meter   contextwindow.Meter // of the attempt's messages
	offer   int                 // estimated tokens of the tools; 0: not counted yet
	aside   int64               // steps that were about the conversation's length, which count as no work
	refused int                 // estimated tokens that are too many, as the model said; 0: it did not
	harder  bool                // the last call was refused, and what it read was shortened
	inVain  int                 // estimated tokens of a conversation of which no summary could be had
	to      *models             // whom the next call asks, where that was found out already

	shown  int // messages of the last request
	tokens int // estimated tokens of these
}

// models is whom a call asks: a model, and what is asked where that fails.
type models struct {
	model.Target
	fallback *model.Fallback
}

// whom finds out which models are asked next.
func (a *attempt) whom(ctx context.Context) (models, error) {
	if a.to != nil {
		return *a.to, nil
	}
	wanted := a.spec.Model
	if m := a.rec.Options.Model; m != nil {
		wanted = *m
	}
	target, err := a.e.Models.Resolve(ctx, a.rec.TenantID, wanted)
	if err != nil {
		return models{}, err
	}
	a.to = &models{Target: target}
	if a.spec.Fallback != nil {
		// One that cannot be resolved is no fallback; the first error counts.
		if t, err := a.e.Models.Resolve(ctx, a.rec.TenantID, *a.spec.Fallback); err == nil {
			a.to.fallback = &model.Fallback{Target: t}
		}
	}
	return *a.to, nil
}

// style is what summaries are like; not ok: the agent's strategy makes none.
func (a *attempt) style() (s contextwindow.Style, ok bool) {
	switch a.spec.ContextStrategy {
	case strategySliding, strategyTruncate:
		return "", false
	case string(contextwindow.Summarize):
		return contextwindow.Summarize, true
	}
	return contextwindow.Compaction, true
}

// gauged is the name by which it is learnt how a model counts an agent's texts.
func (a *attempt) gauged(t model.Target) string {
	return a.rec.TenantID + "/" + a.rec.AgentID + "/" + t.BaseURL + "/" + t.Model
}

// contextOf is a model's context window in estimated tokens.
func (a *attempt) contextOf(t model.Target) int {
	n := a.e.gauge.Estimated(a.gauged(t), cmp.Or(t.Context, defaultContext))
	if a.refused > 0 {
		n = min(n, a.refused)
	}
	return n
}

// room is how many estimated tokens of messages a model is given.
func (a *attempt) room(t model.Target) int {
	if a.offer == 0 {
		a.offer = model.EstimateTools(a.offered())
	}
	n := a.contextOf(t)
	room := n * shareOfConversation / 100
	if answer := a.rec.Options.MaxTokens; answer > 0 { // many endpoints count it as taken
		room = min(room, max(n-answer, n/2))
	}
	return max(room-a.offer, n/8)
}

// view gives the messages that a model reads of the conversation.
func (a *attempt) view(t model.Target) []model.Message {
	a.meter.Read(a.messages)
	limits := contextwindow.Limits{Tokens: a.room(t)}
	if a.spec.ContextStrategy == strategySliding {
		limits.Messages = cmp.Or(a.spec.ContextWindow, 20)
	}
	shown := a.messages
	a.shown, a.tokens = len(shown), a.meter.Total()
	if a.tokens > limits.Tokens || limits.Messages > 0 {
		shown = contextwindow.Fit(a.messages, a.meter.Sizes(), limits)
	}
	if len(shown) < a.shown {
		a.shown, a.tokens = len(shown), 0
		for i := range shown {
			a.tokens += model.EstimateMessage(&shown[i])
		}
	}
	return shown
}

// mayFold says whether a summary can be had at all: the agent wants them, the
// model is one, and what it costs is not the end of the run.
func (a *attempt) mayFold(t model.Target) bool {
	_, ok := a.style()
	if !ok || t.Provider == model.Builtin || a.exhausted() {
		return false
	}
	m := a.rec.Metrics
	return !reached(a.limits().MaxTokensPerRun, m.InputTokens+m.OutputTokens+int64(a.meter.Total()))
}

// long says whether the conversation that a run begins with may be too much,
// by the bytes it has.
func (a *attempt) long(ctx context.Context) bool {
	t, err := a.whom(ctx)
	return err == nil && a.mayFold(t.Target) && (len(a.rec.Input)+len(a.spec.System))/3 > a.room(t.Target)
}

// beginAsk notes in the commit that is being made that the model is asked
// next, or that the conversation is folded before that.
func (a *attempt) beginAsk() {
	kind := run.StepLLM
	a.meter.Read(a.messages)
	// Where nobody is there to be asked, asking meets the same error.
	if t, err := a.whom(a.ctx); err == nil && a.meter.Total() > a.room(t.Target) && a.meter.Total() > a.inVain+a.inVain/10 && a.mayFold(t.Target) {
		if _, _, ok := a.plan(t.Target); ok {
			kind = run.StepCompaction
		}
	}
	a.beginStep(kind, nil)
}

// plan finds out what is folded.
func (a *attempt) plan(t model.Target) (f contextwindow.Fold, more, ok bool) {
	context, fixed := a.contextOf(t), 0
	for i, n := range a.meter.Sizes() {
		if a.messages[i].Role == model.System {
			fixed += n
		}
	}
	n := max(0, context-fixed)
	room := contextwindow.Room{Most: n * shareOfTurn / 100, Take: context * shareOfSummary / 100}
	if style, _ := a.style(); style == contextwindow.Compaction {
		room.Keep, room.Recent = n*shareKept/100, recentMessages
	}
	return contextwindow.Plan(a.messages, a.meter.Sizes(), room)
}

type compactedData struct {
	StepSeq      int64 `json:"step_seq"`
	Folded       int   `json:"folded"`
	BeforeTokens int   `json:"before_tokens"`
	AfterTokens  int   `json:"after_tokens"`
}

// fold does the step of type compaction that was begun: a model says in short
// what the folded messages say, and the conversation goes on with that. It is
// committed before the model is asked anything else. Where there is no summary
// to be had the run goes on without one, and the model reads less.
func (a *attempt) fold() error {
	t, err := a.whom(a.ctx)
	if err != nil {
		return err
	}
	a.meter.Read(a.messages)
	before := a.meter.Total()
	s, err := a.summarize(t)
	if err != nil {
		return err
	}
	step := &run.Step{Type: run.StepCompaction, Status: run.StepCompleted, Input: schema.Nullable(encode(s.in))}
	for _, p := range a.rec.Pending {
		if p.Type == run.StepCompaction {
			step.Seq = p.Seq
		}
	}
	if s.why == "" {
		step.Output = schema.Nullable(encode(s.out))
		a.messages = s.after
		a.meter.Reset()
		a.emit("context.compacted", compactedData{StepSeq: step.Seq, Folded: s.folded, BeforeTokens: before, AfterTokens: s.out.Tokens})
	} else {
		a.inVain = before
		step.Status, step.Error = run.StepFailed, &s.why
	}
	a.endStep(step, s.metrics)
	a.aside++
	if s.more {
		a.beginStep(run.StepCompaction, nil)
	} else {
		a.beginAsk()
	}
	return a.commit(a.ctx, run.PauseAborts)
}

// summary is what came of asking for one.
type summary struct {
	in      run.CompactionInput
	out     run.CompactionOutput
	metrics run.StepMetrics
	folded  int             // messages
	after   []model.Message // the conversation with the summary
	more    bool            // another fold is to follow
	why     string          // there is no summary, one sentence; "": there is one
}

// summarize asks for a summary of what no longer has room. An error is of the
// run, not of the summary.
func (a *attempt) summarize(t models) (s summary, err error) {
	style, _ := a.style()
	s.in.Strategy = string(style)
	for try := 1; ; try++ {
		f, more, ok := a.plan(t.Target)
		if !ok {
			s.why = "There is nothing that a summary would make shorter."
			return s, nil
		}
		folded := contextwindow.Folded(a.messages, f)
		s.in = run.CompactionInput{Fold: f, Strategy: string(style)}
		s.folded = len(folded)
		for i := range folded {
			s.in.Tokens += model.EstimateMessage(&folded[i])
			if from := folded[i].From; from.RunID != "" {
				s.in.Through = &from
			}
		}
		req := a.summaryRequest(t.Target, style, folded)
		var r callResult
		if err := a.mayAsk(a.ctx); err != nil {
			return s, err
		}
		if r.err = a.afford(a.ctx, &req, t.fallback); r.err == nil {
			r.resp, r.used, r.err = model.GenerateWithFallback(a.ctx, a.e.Client, req, t.fallback, nil)
		}
		if cause := context.Cause(a.ctx); cause != nil {
			return s, cause
		}
		if r.err == nil {
			a.take(&s, r, more)
			return s, nil
		}
		failed, ok := errors.AsType[*model.Error](r.err)
		switch _, over := errors.AsType[*run.OverBudget](r.err); {
		case over: // the next call may still be within it
			s.why = "What is left of the run's budget does not pay for a summary."
			return s, nil
		case !ok:
			return s, r.err
		case failed.Code == model.CodeContextLength && try < summaryTries:
			a.refused = min(a.contextOf(t.Target), model.EstimateInput(req)) * 3 / 4
			continue
		}
		a.e.Logger.Warn("there is no summary; the model reads less instead", "run", a.rec.RunID, "tenant", a.rec.TenantID, "code", failed.Code, "err", failed.Cause)
		s.why = failed.Detail
		return s, nil
	}
}

// take looks at a summary that a model gave. It is paid for in any case.
func (a *attempt) take(s *summary, r callResult, more bool) {
	s.metrics = a.count(r.resp.Usage, r.used, 0)
	s.out = run.CompactionOutput{Summary: r.resp.Text, Model: r.resp.Model}
	s.after = contextwindow.Apply(a.messages, s.in.Fold, r.resp.Text)
	for _, n := range contextwindow.Sizes(s.after) {
		s.out.Tokens += n
	}
	if r.resp.Text == "" || s.out.Tokens >= a.meter.Total() {
		s.why = "The model gave no summary that is shorter than what it stands for."
		return
	}
	s.more = more
}

// summaryRequest asks for a summary. One text is at most a quarter of what it
// is made of.
func (a *attempt) summaryRequest(t model.Target, style contextwindow.Style, folded []model.Message) model.Request {
	context := a.contextOf(t)
	return model.Request{
		Target:    t,
		Messages:  contextwindow.Ask(style, folded, context*shareOfSummary/100),
		MaxTokens: max(256, min(longestSummary[style], context/8)),
	}
}

// tooLong looks at the error of a call. Where the conversation was too long for
// the model and can be made shorter, it sees to that, once before each answer,
// and the run goes on.
func (a *attempt) tooLong(failure error) (again bool, err error) {
	failed, ok := errors.AsType[*model.Error](failure)
	if !ok || failed.Code != model.CodeContextLength || a.harder || context.Cause(a.ctx) != nil {
		return false, nil
	}
	t, err := a.whom(a.ctx)
	if err != nil {
		return false, err
	}
	a.harder, a.refused = true, a.tokens*3/4
	a.e.Logger.Info("a conversation was too long for the model", "run", a.rec.RunID, "tenant", a.rec.TenantID, "estimated", a.tokens, "err", failed.Cause)
	if a.mayFold(t.Target) && !a.closing {
		if _, _, ok := a.plan(t.Target); ok {
			a.sealText()
			a.endStep(&run.Step{
				Seq: a.rec.Pending[len(a.rec.Pending)-1].Seq, Type: run.StepLLM, Status: run.StepFailed,
				Input: a.llmInput(), Error: &failed.Detail,
			}, run.StepMetrics{})
			a.aside++
			a.beginStep(run.StepCompaction, nil)
			return true, a.commit(a.ctx, run.PauseAborts)
		}
	}
	was := a.shown
	return len(a.view(t.Target)) < was, nil
}

// heeded notes that a model answered, and how it counted what it read.
func (a *attempt) heeded(r callResult) {
	a.harder = false
	if !r.resp.Usage.Estimated {
		a.e.gauge.Answered(a.gauged(r.used), a.tokens+a.offer, r.resp.Usage.InputTokens)
	}
}

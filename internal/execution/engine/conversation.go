package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/jsonform"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/tool"
)

// closingNote asks for a final answer when a limit is reached (rule
// D6-truncated). It is never stored: whether it applies follows from the run's
// metrics.
const closingNote = "The limit of this run is reached. Do not call tools. Give your best final answer now, with what you know so far."

// conversation is what the model reads: the messages and tools of its next
// call, and which part of them fits its context window. It reads the journal
// and adds steps of type compaction to it.
type conversation struct {
	e        *Engine
	spec     *run.AgentSpec
	j        *journal
	buffered bool           // answers are published whole, not as chunks
	form     *jsonform.Form // that the run's answer must have; nil: any

	messages  []model.Message
	sources   []string         // the untrusted ones that the run has read, also in messages that it no longer has
	citations []model.Citation // of what its tools have found
	tools     tool.Set
	closing   bool // a limit is reached: the next call asks for one last answer, without tools

	meter         contextwindow.Meter // of messages
	toolTokens    int                 // estimated tokens of the tools; 0: not estimated yet
	refusedTokens int                 // estimated tokens that the model refused as too many; 0: none were
	shortened     bool                // the last call was refused as too long, and is repeated with less
	counted       counting            // by the model itself
	failedTokens  int                 // estimated tokens of the conversation when the last summary failed
	next          *models             // of the next call, where they are resolved already
	permit        *model.Permit       // with which the run was woken; nil: none
	limited       limitedCall         // the call that is waited with
	// waitedForLimit: the run waited for a limit before this attempt.
	waitedForLimit bool
	// wokenFrom is when the next attempt was due of a run that was woken before, to try
	// whether its model is back; zero: it was not.
	wokenFrom   time.Time
	shown       int // messages of the last request
	shownTokens int // estimated tokens of these
}

// newConversation returns an empty conversation with the agent's own tools. spec
// may be nil for a run that this attempt does not drive.
func newConversation(j *journal, spec *run.AgentSpec, f facts) *conversation {
	c := &conversation{e: j.e, spec: spec, j: j, buffered: j.rec.Options.Plain || f.watch.Output, sources: j.rec.Options.Sources}
	if c.form = formOf(&j.rec.Options); c.form != nil {
		c.buffered = true // nothing is published that is not used
	}
	if spec != nil {
		own := spec.Tools
		if granted := j.rec.Options.Grants; len(granted) > 0 {
			own = slices.Compact(slices.Sorted(slices.Values(slices.Concat(own, granted))))
		}
		c.tools, _ = c.e.Tools.Select(own) // unknown names were refused when the agent was written
		if c.e.Images != nil && !absent(spec.ImageGeneration) {
			c.tools = c.tools.Join(c.e.Images.Set([]byte(spec.ImageGeneration)))
		}
		if c.e.Skills != nil && len(spec.Skills) > 0 {
			c.tools = c.tools.Join(c.e.Skills.Set(spec.Skills))
		}
		c.tools = c.allowed(c.tools)
	}
	return c
}

// allowed returns the tools without those that the agent must never use, or not in runs
// of this kind.
func (c *conversation) allowed(tools tool.Set) tool.Set {
	if len(c.spec.ToolOverrides) == 0 && c.spec.Only == nil {
		return tools
	}
	return tools.Filter(func(name string) bool { return c.spec.Trust(name) != agent.NeverAllow && c.spec.Offers(name) })
}

// opening returns what the conversation begins with: the agent's own prompt, the
// earlier turns, and the message with what the agent remembers and the caller's
// instructions in front of it. What differs from turn to turn comes last, because
// providers' caches know prompts by their beginning.
func (c *conversation) opening(in *run.Input, recalled *string, earlier []model.Message) []model.Message {
	var messages []model.Message
	if system := withSkills(c.spec); system != "" {
		messages = append(messages, model.Message{Role: model.System, Text: system})
	}
	messages = append(append(messages, earlier...), in.History...)
	if in.Message != "" || len(in.Parts) > 0 || len(in.History) == 0 {
		messages = append(messages, model.Message{Role: model.User, Text: in.Message, Parts: in.Parts, From: c.j.origin(0)})
	} // else the history ends with what is to be answered: a tool's result
	messages = run.WithInstructions(messages, in.Instructions)
	if recalled != nil {
		messages = run.WithPreface(messages, *recalled)
	}
	return messages
}

// prepareCall resolves the models, reserves the budget and builds the request
// of the next call.
func (c *conversation) prepareCall(ctx context.Context) (*modelCall, error) {
	to, err := c.resolveModels(ctx)
	if err != nil {
		return nil, err
	}
	c.next = nil
	if err := c.j.checkQuota(ctx); err != nil {
		return nil, err
	}
	req := c.request(to.Target)
	if err := c.takePermit(&req); err != nil {
		return nil, err
	}
	if err := c.j.reserveBudget(ctx, &req, to.fallback); err != nil {
		req.Permit.Release()
		return nil, err
	}
	return &modelCall{c: c, req: req, fallback: to.fallback}, nil
}

func (c *conversation) request(target model.Target) model.Request {
	o := c.j.rec.Options
	req := model.Request{
		Target: target, Messages: c.view(target),
		MaxTokens: o.MaxTokens, Temperature: o.Temperature, TopP: o.TopP, Stop: o.Stop,
		Extra: extraFields(c.spec, c.phase(), target.Capabilities, o.Extra),
	}
	if !o.NoCache {
		req.CacheKey = c.cacheKey()
	}
	if c.spec.ModelRetry.MaxElapsed > 0 {
		req.MaxRetryAfter = maxQuickWait
	}
	req.Probe = !c.wokenFrom.IsZero() || c.e.waking.tries(c.j.rec.RunID, target)
	if limit := c.j.limits().MaxTokensPerRun; limit != nil && !c.closing {
		used := c.j.rec.Metrics.InputTokens + c.j.rec.Metrics.OutputTokens + int64(c.shownTokens)
		left := int(max(1, *limit-used))
		if req.MaxTokens == 0 || left < req.MaxTokens {
			req.MaxTokens = left
		}
	}
	if c.closing {
		req.Messages = append(slices.Clip(req.Messages), model.Message{Role: model.User, Text: closingNote})
		return req
	}
	if allowsNone(c.j.limits().MaxToolCalls) {
		return req
	}
	if req.Tools = c.offeredTools(); len(req.Tools) > 0 {
		req.ToolChoice = o.ToolChoice
		if parallel := o.Extra[parallelCalls]; parallel != nil {
			req.Extra[parallelCalls] = parallel
		}
	}
	return req
}

// cacheKey names the session, or the run outside of one. It tells an endpoint nothing
// but that two calls belong together.
func (c *conversation) cacheKey() string {
	rec := c.j.rec
	id := rec.RunID
	if rec.SessionID != nil {
		id = *rec.SessionID
	}
	sum := sha256.Sum256([]byte(rec.TenantID + "/" + id))
	return hex.EncodeToString(sum[:16])
}

// offeredTools returns the tools that a model may call: the agent's and the
// caller's. Of two with one name the caller's is offered.
func (c *conversation) offeredTools() []model.ToolSpec {
	o := &c.j.rec.Options
	tools := slices.DeleteFunc(c.tools.Specs(), func(t model.ToolSpec) bool { return o.HasTool(t.Name) })
	for _, t := range o.Tools {
		tools = append(tools, model.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict})
	}
	return tools
}

// phase is the phase of the next call.
func (c *conversation) phase() phase {
	switch n := len(c.messages); {
	case c.closing:
		return phaseEvaluate
	case n > 0 && c.messages[n-1].Role == model.Tool:
		return phaseAct
	}
	return phasePlan
}

// stepInput is the input of a step of type llm: how many messages the model
// read. The messages themselves are in the steps before it.
func (c *conversation) stepInput() schema.Nullable {
	return schema.Nullable(encode(struct {
		Messages int `json:"messages"`
	}{cmp.Or(c.shown, len(c.messages))}))
}

// recordUsage compares how a model counted its input with the estimate. It is
// called after each answer.
func (c *conversation) recordUsage(r callResult) {
	c.shortened = false
	if !r.resp.Usage.Estimated {
		c.counted.ratio = 0 // what the model reports is newer
		c.e.gauge.Record(c.gaugeKey(r.used), c.shownTokens+c.toolTokens, r.resp.Usage.InputTokens)
	}
}

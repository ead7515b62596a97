package engine

import (
	"cmp"
	"context"
	"math/bits"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
)

// How a conversation shares a model's context window, in percent of it. The
// rest is for the answer, and for what the estimates miss.
const (
	shareOfConversation = 80
	shareKept           = 30 // recent messages that a compaction leaves as they are
	shareOfTurn         = 50 // the turn that is under way stays whole up to this
	shareOfSummary      = 70 // input of one summary

	recentMessages = 8       // that a compaction leaves, where they are not too long
	defaultContext = 128_000 // tokens, of a model whose window is not configured
)

// strategySliding shows the model the newest messages; strategyTruncate those
// that fit. Neither makes summaries.
const (
	strategySliding  = "sliding_window"
	strategyTruncate = "truncate"
)

// models are the model of a call and, if there is one, its fallback.
type models struct {
	model.Target
	fallback *model.Fallback
}

// resolveModels returns the models of the next call.
func (c *conversation) resolveModels(ctx context.Context) (models, error) {
	if c.next != nil {
		return *c.next, nil
	}
	wanted := c.spec.Model
	if m := c.j.rec.Options.Model; m != nil {
		wanted = *m
	}
	target, err := c.e.Models.Resolve(ctx, c.j.rec.TenantID, wanted)
	if err != nil {
		return models{}, err
	}
	c.next = &models{Target: target}
	if c.spec.Fallback != nil {
		// A fallback that cannot be resolved is left out, so that the error of the
		// first model counts.
		if t, err := c.e.Models.Resolve(ctx, c.j.rec.TenantID, *c.spec.Fallback); err == nil {
			c.next.fallback = &model.Fallback{Target: t}
		}
	}
	return *c.next, nil
}

// gaugeKey names what the gauge learns about: how a model counts an agent's
// texts.
func (c *conversation) gaugeKey(t model.Target) string {
	return c.j.rec.TenantID + "/" + c.j.rec.AgentID + "/" + t.BaseURL + "/" + t.Model
}

// contextTokens is a model's context window in estimated tokens.
func (c *conversation) contextTokens(t model.Target) int {
	window := cmp.Or(t.Context, defaultContext)
	n := c.e.gauge.Scale(c.gaugeKey(t), window)
	if c.counted.ratio > 0 {
		n = c.counted.scale(window)
	}
	if c.refusedTokens > 0 {
		n = min(n, c.refusedTokens)
	}
	return n
}

// room is how many estimated tokens of messages a model is sent.
func (c *conversation) room(t model.Target) int {
	if c.toolTokens == 0 {
		c.toolTokens = model.EstimateTools(c.offeredTools())
	}
	n := c.contextTokens(t)
	room := n * shareOfConversation / 100
	if answer := c.j.rec.Options.MaxTokens; answer > 0 { // many endpoints count it as used
		room = min(room, max(n-answer, n/2))
	}
	return max(room-c.toolTokens, n/8)
}

// coarse rounds a number of tokens down, by an eighth at most, so that what is learnt of
// a model's counting does not move the cut in each call.
func coarse(n int) int {
	step := 1 << max(0, bits.Len(uint(max(0, n)))-4)
	return n - n%step
}

// view returns the messages that a model is sent.
func (c *conversation) view(t model.Target) []model.Message {
	c.meter.Read(c.messages)
	limits := contextwindow.Limits{Tokens: c.room(t)}
	if c.spec.ContextStrategy == strategySliding {
		limits.Messages = c.slidingWindow()
	}
	shown := c.messages
	c.shown, c.shownTokens = len(shown), c.meter.Total()
	if c.shownTokens > limits.Tokens || limits.Messages > 0 {
		limits.Tokens = coarse(limits.Tokens)
		shown = contextwindow.Fit(c.messages, c.meter.Sizes(), limits)
	}
	if len(shown) < c.shown {
		c.shown, c.shownTokens = len(shown), 0
		for i := range shown {
			c.shownTokens += model.EstimateMessage(&shown[i])
		}
	}
	return shown
}

// slidingWindow is how many messages strategySliding shows.
func (c *conversation) slidingWindow() int { return cmp.Or(c.spec.ContextWindow, 20) }

// reach returns how much of the earlier turns view may show. Where summaries are
// made, all is read that none replaced: the next one is made of it. The context
// window bounds the tokens, rather than room, because what the gauge learns may
// raise the room while the run goes on.
func (c *conversation) reach(ctx context.Context) (r run.Reach) {
	if c.spec.ContextStrategy == strategySliding {
		r.Messages = c.slidingWindow()
	}
	t, err := c.resolveModels(ctx)
	if err != nil { // the first call meets the same error, and ends the run by it
		return r
	}
	if _, summarizes := c.style(); !summarizes || t.Provider == model.Builtin {
		r.Tokens = cmp.Or(t.Context, defaultContext)
	}
	return r
}

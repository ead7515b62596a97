package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

const (
	countAgainAfter = 8         // the conversation must have grown by 1/8 of the room
	countPause      = time.Hour // for a model that did not count
	maxUncounted    = 4096
)

// uncounted are the models that failed to count lately. It is safe for concurrent use.
type uncounted struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (u *uncounted) has(name string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return now.Before(u.until[name])
}

func (u *uncounted) add(name string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until == nil || len(u.until) >= maxUncounted {
		u.until = map[string]time.Time{}
	}
	u.until[name] = now.Add(countPause)
}

// counting is what the model itself counted of a conversation.
type counting struct {
	estimated int     // tokens of the request that was counted last, by the estimate; 0: none was
	ratio     float64 // of the model's count to the estimate; 0: not known
}

// scale converts a number of the model's tokens into estimated tokens.
func (k counting) scale(tokens int) int {
	if k.ratio <= 1 {
		return tokens
	}
	return int(float64(tokens) / k.ratio)
}

// mostTokens returns how many tokens the conversation has at most, as a rule: two bytes
// each, or twice the estimate.
func (c *conversation) mostTokens() int {
	c.meter.Read(c.messages)
	bytes := 0
	for i := range c.messages {
		bytes += len(c.messages[i].Text)
	}
	return max(2*c.meter.Total(), bytes/2)
}

// foresee has the model count the request that comes next, where it may be too long: then
// the conversation is compacted before the call instead of after its refusal, or the model
// is sent less. compacts: the step of the call has ended, and a compaction has begun.
func (c *conversation) foresee(ctx context.Context) (compacts bool, err error) {
	t, err := c.resolveModels(ctx)
	if err != nil || c.e.Counter == nil || t.Provider == model.Builtin {
		return false, nil // the call meets the same error
	}
	room := c.room(t.Target)
	if c.mostTokens() <= room || c.meter.Total() < c.counted.estimated+room/countAgainAfter {
		return false, nil
	}
	c.counted.estimated = c.meter.Total()
	counted, ok := c.countView(ctx, t.Target)
	if !ok || c.meter.Total() <= c.room(t.Target) || c.closing || !c.canCompact(t.Target) {
		return false, nil
	}
	if _, _, ok := c.planCompaction(t.Target); !ok {
		return false, nil
	}
	c.e.Logger.Info("a conversation would be too long for the model",
		"run", c.j.rec.RunID, "tenant", c.j.rec.TenantID, "estimated", c.shownTokens, "counted", counted)
	return true, c.endTooLong(ctx, fmt.Sprintf(
		"The conversation has %d tokens by the model's own count, which leaves too little of its context window of %d: it is compacted first.",
		counted, cmp.Or(t.Context, defaultContext)))
}

// countView has the model count what it would be sent. Not ok: it does not count.
func (c *conversation) countView(ctx context.Context, t model.Target) (counted int, ok bool) {
	name := t.BaseURL + "/" + t.Model
	if c.e.uncounted.has(name, c.e.Clock.Now()) {
		return 0, false
	}
	req := model.Request{Target: t, Messages: c.view(t), Tools: c.offeredTools()}
	counted, err := c.e.Counter.CountTokens(ctx, req)
	if err != nil {
		if !errors.Is(err, model.ErrCannotCount) && context.Cause(ctx) == nil {
			c.e.uncounted.add(name, c.e.Clock.Now())
			c.e.Logger.Info("a model did not count a conversation; its length is estimated", "run", c.j.rec.RunID, "err", err)
		}
		return 0, false
	}
	estimated := c.shownTokens + c.toolTokens
	c.counted.ratio = float64(counted) / float64(max(1, estimated))
	c.e.gauge.Record(c.gaugeKey(t), estimated, counted)
	return counted, true
}

// endTooLong ends the step of a call that is too long for the model, and begins a compaction.
func (c *conversation) endTooLong(ctx context.Context, why string) error {
	c.j.sealText()
	c.j.endStep(&run.Step{
		Seq: c.j.newest().Seq, Type: run.StepLLM, Status: run.StepFailed, Input: c.stepInput(), Error: &why,
	}, run.StepMetrics{})
	c.j.overhead++
	c.j.beginStep(run.StepCompaction, nil)
	return c.j.commit(ctx, run.PauseAborts)
}

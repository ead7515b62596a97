package engine

import (
	"math/rand/v2"
	"time"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

const (
	// limitRecheck is the shortest time after which a run that waits for a limit
	// comes back by itself; usually it is woken much earlier.
	limitRecheck = time.Minute
	// maxPauseSpread bounds the random time that is added to a pause that an endpoint
	// asks for.
	maxPauseSpread = 10 * time.Second
)

// takePermit takes the permit of a call of a model. Errors: *model.OverLimit.
func (c *conversation) takePermit(req *model.Request) (err error) {
	if c.e.Limits == nil || req.Target.Provider == model.Builtin {
		return nil
	}
	have := c.permit
	c.permit = nil
	if req.Permit, err = c.e.Limits.Try(&req.Target, have, c.shownTokens+c.toolTokens, req.MaxTokens); err != nil {
		c.limited = limitedCall{req.Target, c.shownTokens + c.toolTokens, req.MaxTokens}
		return err
	}
	if c.waitedForLimit && have == nil && req.Target.Limits != (model.Limits{}) { // it came back by itself: others may wait
		c.e.limits.begin(limitWaiters{req.Target.AccountKey(), c.j.rec.TenantID})
	}
	c.waitedForLimit = false
	return nil
}

// limitedCall is a call that a limit did not allow.
type limitedCall struct {
	target        model.Target
	input, output int // tokens
}

// waitForLimit makes the run wait in the queue until the limits of its model's
// provider allow the call. It holds no worker, and this is no failed attempt.
func (a *attempt) waitForLimit(over *model.OverLimit) error {
	j, call := a.journal, a.conversation.limited
	wait := limitRecheck + rand.N(2*limitRecheck)
	w := run.ModelWait{TenantID: j.rec.TenantID, RunID: j.rec.RunID, Endpoint: over.Account}
	if over.Account == "" {
		wait = over.After + rand.N(min(over.After, maxPauseSpread)+1)
	} else {
		w.Tokens = a.e.Limits.Demand(over.Account, call.input, call.output)
	}
	if limit := j.limits().MaxDurationMS; limit != nil { // it ends then
		wait = max(0, min(wait, time.Duration(float64(*limit)-j.runningMS())*time.Millisecond))
	}
	a.e.Logger.Debug("a run waits for a limit of its provider", "run", j.rec.RunID, "tenant", j.rec.TenantID,
		"provider", call.target.Provider, "model", call.target.Model, "at_most", wait)
	a.waitFor(run.Wait{For: run.WaitsForLimit, Next: j.e.Clock.Now().Add(wait), Attempts: j.newest().FailedAttempts()}, w)
	if err := j.commit(a.ctx, run.PauseAborts); err != nil {
		return err
	}
	if over.Account != "" {
		a.e.limits.announce(over, j.rec.TenantID)
	}
	return nil
}

package engine

import (
	"context"

	"agentd/internal/kernel/model"
)

// earlyCall is a run's first model call, begun while the run is being stored:
// an answer takes its time, and the commit need not be added to it. Nothing of
// it is heard before the run is stored; if that fails, the call is given up.
type earlyCall struct {
	stored chan struct{} // closed once the run is stored and driven
	cancel context.CancelCauseFunc
	done   chan callResult // capacity 1
}

type callResult struct {
	resp model.Response
	used model.Target
	err  error
}

// callEarly begins the first call of a run that is about to be stored, where
// there is nothing against one.
func (a *attempt) callEarly() {
	limits := a.limits()
	if none(limits.MaxSteps) || none(limits.MaxTokensPerRun) || none(limits.MaxDurationMS) {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	early := &earlyCall{stored: make(chan struct{}), cancel: cancel, done: make(chan callResult, 1)}
	a.messages = a.opening(a.input(), nil)
	call, err := a.prepareCall(ctx)
	if err != nil {
		cancel(err)
		return // the run meets the same error, and ends by it
	}
	a.early = early
	go func() {
		var r callResult
		r.resp, r.used, r.err = call(ctx, func() bool {
			select {
			case <-early.stored:
				return true
			case <-ctx.Done():
				return false
			}
		})
		early.done <- r
	}()
}

// giveUp ends a call whose run was not stored.
func (c *earlyCall) giveUp(why error) {
	if c != nil {
		c.cancel(why)
	}
}

// answer waits for the call on behalf of the run, whose context ends it too.
func (c *earlyCall) answer(ctx context.Context) callResult {
	defer c.cancel(nil)
	stop := context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
	defer stop()
	close(c.stored)
	return <-c.done
}

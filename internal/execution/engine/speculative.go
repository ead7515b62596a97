package engine

import (
	"context"
)

// speculativeCall is a run's first model call, begun while the run is being
// stored, so that the commit does not add to the time of the answer. Nothing
// of it is published before the run is stored. If that fails, the call is
// cancelled.
type speculativeCall struct {
	stored    chan struct{} // closed once the run is stored and driven
	cancelCtx context.CancelCauseFunc
	call      *modelCall
	done      chan callResult // capacity 1
}

// speculate begins the first model call of a run that is about to be stored,
// unless a limit of the run allows none.
func (a *attempt) speculate() {
	limits := a.journal.limits()
	if allowsNone(limits.MaxSteps) || allowsNone(limits.MaxTokensPerRun) || allowsNone(limits.MaxDurationMS) {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &speculativeCall{stored: make(chan struct{}), cancelCtx: cancel, done: make(chan callResult, 1)}
	a.conversation.messages = a.conversation.opening(a.journal.rec.ParsedInput(), nil, nil)
	call, err := a.conversation.prepareCall(ctx)
	if err != nil {
		cancel(err)
		return // the run meets the same error, and ends by it
	}
	a.speculative, c.call = c, call
	go func() {
		c.done <- call.ask(ctx, call.req.Target, func() bool {
			select {
			case <-c.stored:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
}

// cancel ends the call of a run that was not stored. A nil receiver has none.
func (c *speculativeCall) cancel(why error) {
	if c != nil {
		c.cancelCtx(why)
	}
}

// wait returns the call's result for the run that was stored. ctx ends the
// call too.
func (c *speculativeCall) wait(ctx context.Context) callResult {
	defer c.cancelCtx(nil)
	stop := context.AfterFunc(ctx, func() { c.cancelCtx(context.Cause(ctx)) })
	defer stop()
	close(c.stored)
	return <-c.done
}

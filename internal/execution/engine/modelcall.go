package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// maxQuickWait is the longest Retry-After that a run waits for with its worker.
// For a longer one it waits in the queue.
const maxQuickWait = time.Second

// modelCall is a call of a model that was prepared.
type modelCall struct {
	c        *conversation
	req      model.Request
	fallback *model.Fallback
	unheard  bool // nothing of the answer is published
}

// callResult is what a call returned. used is the model that answered, or whose
// failure err is. resp is empty after a failure, except for the usage, where the
// endpoint had reported any. req is nil where the call is counted already.
type callResult struct {
	req  *model.Request
	resp model.Response
	used model.Target
	err  error
}

func always() bool { return true }

// ask calls one model. It asks mayPublish before it publishes each chunk. A panic
// on the way is a failure of this call only.
func (m *modelCall) ask(ctx context.Context, to model.Target, mayPublish func() bool) (r callResult) {
	r.used = to
	defer func() {
		if p := recover(); p != nil {
			r.err = &model.Error{
				Code: run.CodeInternalError, Detail: "The model's answer could not be processed.",
				Cause: fmt.Errorf("panic: %v\n%s", p, debug.Stack()),
			}
		}
	}()
	var sink func(model.Delta)
	if !m.c.buffered && !m.unheard {
		sink = func(d model.Delta) {
			if mayPublish() {
				m.c.j.chunk(ctx, thinkingChunk, d.Thinking)
				m.c.j.chunk(ctx, textChunk, d.Text)
			}
		}
	}
	req := m.req
	req.Target, r.req = to, &req
	r.resp, r.err = m.c.e.Client.Generate(ctx, req, sink)
	if r.err == nil && r.resp.OpaqueSize() > model.MaxOpaque {
		r.err = &model.Error{Code: run.CodeModelError, Detail: "The model's answer comes with more data of its provider than 1 MiB."}
	}
	return r
}

// askFallback calls the fallback, if there is one, after the first model failed.
// Text of an answer that broke off is void by then: the words of two models must
// not mix. If neither model answered, the failure is the first one's, unless only
// the fallback's passes.
func (m *modelCall) askFallback(ctx context.Context, first callResult) (callResult, error) {
	failed, ok := errors.AsType[*model.Error](first.err)
	if m.fallback == nil || !ok || context.Cause(ctx) != nil || failed.Code == model.CodeFiltered {
		return first, nil
	}
	if j := m.c.j; j.text.any() {
		if !failed.Passing {
			return first, nil
		}
		j.voidText()
		if err := j.commit(ctx, run.PauseKept); err != nil {
			return first, err
		}
	}
	second := m.ask(ctx, m.fallback.Target, always)
	if second.err == nil || context.Cause(ctx) != nil {
		return second, nil
	}
	other, ok := errors.AsType[*model.Error](second.err)
	if ok && other.Passing && !failed.Passing {
		return second, nil
	}
	both := *failed
	both.Cause = errors.Join(failed.Cause, second.err)
	first.err = &both
	return first, nil
}

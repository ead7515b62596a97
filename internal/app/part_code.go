package app

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/share"
	"agentd/internal/content/codetool"
	"agentd/internal/wire/jsengine"
)

// newCodeTool makes the tool that runs code. Four pieces run at a time, and two of one
// company.
func newCodeTool(p *platform, c *content) *codetool.Service {
	engine := &jsengine.Engine{}
	p.onStop(engine.Close)
	return &codetool.Service{
		Engine: codeEngine{engine}, Workspaces: c.workspaces, Blobs: c.blobs, Places: share.New(readers, readersEach, readersWait),
		Limits: func() codetool.Limits {
			c := p.config.CodeInterpreter()
			return codetool.Limits{Time: c.Timeout(), Output: int(c.Output), Written: int(c.Written), Writes: int(c.Files)}
		},
	}
}

// codeEngine implements codetool.Engine.
type codeEngine struct{ engine *jsengine.Engine }

// Run implements codetool.Engine.
func (e codeEngine) Run(ctx context.Context, code string, limit time.Duration, host codetool.Host) (codetool.Outcome, error) {
	got, err := e.engine.Run(ctx, code, limit, host)
	switch {
	case errors.Is(err, jsengine.ErrTime):
		return codetool.Outcome{Ended: "The code took too long and was stopped. Do less, or in several steps."}, nil
	case errors.Is(err, jsengine.ErrMemory):
		return codetool.Outcome{Ended: "The code needed too much memory, or its calls were too deep, and was stopped."}, nil
	case err != nil:
		return codetool.Outcome{}, err
	}
	return codetool.Outcome{Result: got.Result, Thrown: got.Error}, nil
}

package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/kernel/model"
)

// A failure of a model is logged once in failureQuiet, with how often it happened.
const (
	failureQuiet = time.Minute
	maxFailures  = 500 // kinds of failures that are remembered
)

// modelFailures logs failed model calls: those of the operator's endpoints as
// warnings, others for information.
type modelFailures struct {
	log   *slog.Logger
	clock clock.Clock

	mu   sync.Mutex
	seen map[failureKind]*failureCount
}

type failureKind struct {
	provider, model, code string
	status                int
	tenants               bool
}

type failureCount struct {
	at     time.Time
	silent int // since then
}

func (f *modelFailures) observe(c model.Call) {
	if c.Err == nil || c.Err.Code == model.CodeContextLength || c.Outcome != model.CallRefused && c.Outcome != model.CallFailed {
		return
	}
	kind := failureKind{c.Target.Provider, c.Target.Model, c.Err.Code, c.Err.Status, c.Target.Guarded || c.Target.OwnKey}
	repeated, quiet := f.count(kind)
	if quiet {
		return
	}
	level := slog.LevelWarn
	if kind.tenants {
		level = slog.LevelInfo
	}
	attrs := []any{"provider", kind.provider, "model", kind.model, "detail", c.Err.Detail}
	if c.Err.Cause != nil && !kind.tenants {
		attrs = append(attrs, "cause", c.Err.Cause.Error())
	}
	if repeated > 0 {
		attrs = append(attrs, "repeated", repeated)
	}
	f.log.Log(context.Background(), level, "a model call failed", attrs...)
}

// count reports how often a failure was not logged, and whether this one is not
// logged either.
func (f *modelFailures) count(kind failureKind) (repeated int, quiet bool) {
	now := f.clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.seen[kind]
	if last != nil && now.Sub(last.at) < failureQuiet {
		last.silent++
		return 0, true
	}
	if last == nil {
		if len(f.seen) >= maxFailures {
			clear(f.seen)
		}
		last = &failureCount{}
		f.seen[kind] = last
	}
	repeated, last.at, last.silent = last.silent, now, 0
	return repeated, false
}

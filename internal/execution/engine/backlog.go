package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

const (
	// maxCommitWait bounds the wait between two tries to store a result.
	maxCommitWait = 5 * time.Second
	// maxBacklog bounds the bytes of results that wait for a database that is away.
	// Beyond it no new step begins; results that wait are never dropped.
	maxBacklog = 64 << 20
)

// backlog stores results, and counts those that wait because the database is away.
type backlog struct{ bytes atomic.Int64 }

// admit waits while the backlog is full. Errors: the context's.
func (b *backlog) admit(ctx context.Context) error {
	for b.bytes.Load() > maxBacklog {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// write writes a commit of a journal. While the database is away it tries again,
// for as long as the lease may be this worker's and the process lives: a finished
// call is not made twice because its result could not be stored.
func (b *backlog) write(ctx context.Context, j *journal, ops []txn.Op) error {
	wait := 50 * time.Millisecond
	for try := 1; ; try++ {
		err := j.e.write(ctx, ops...)
		switch {
		case err == nil, try > 1 && wasMade(ctx, j):
			return nil
		case errors.Is(err, run.ErrPausing), !fault.Is(err, fault.Unavailable):
			return err
		}
		if try == 1 {
			n := sizeOf(j)
			b.bytes.Add(n)
			defer b.bytes.Add(-n)
			j.e.Logger.Warn("a step's result waits for the database", "run", j.rec.RunID, "err", err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-j.holder.Done():
			return errors.Join(err, context.Cause(j.holder))
		case <-time.After(wait):
		}
		wait = min(2*wait, maxCommitWait)
	}
}

// wasMade reports whether a commit that seemed to fail was made: only this worker's
// ends with these seqs.
func wasMade(ctx context.Context, j *journal) bool {
	if len(j.events.entries) == 0 {
		return false
	}
	r, err := j.e.Runs.Get(ctx, j.rec.TenantID, j.rec.RunID)
	return err == nil && r.EventSeq == j.rec.EventSeq && r.StepSeq == j.rec.StepSeq && r.Status == j.rec.Status
}

// sizeOf is about how many bytes the next commit of a journal holds in memory.
func sizeOf(j *journal) (n int64) {
	for _, s := range j.next.steps {
		n += int64(len(s.Input) + len(s.Output))
	}
	for _, e := range j.events.live {
		n += int64(len(e.Data))
	}
	return n
}

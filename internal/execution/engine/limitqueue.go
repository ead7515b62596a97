package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/work"
)

// signalLimitWait reaches every node when a run begins to wait for a limit; the key
// has the account, the tenant and the limits.
const signalLimitWait = "provider-limit-wait"

const (
	// maxLimitWaiters bounds the tenants and accounts that a node serves at a time.
	// Runs of others come back by themselves.
	maxLimitWaiters = 10_000
	// limitRetry is how long the waking rests where this node has no worker left or
	// the database is away.
	limitRetry = 250 * time.Millisecond
)

// limitWaiters are the runs of one tenant that wait for the limits of one account.
type limitWaiters struct{ account, tenant string }

// limitQueue wakes the runs that wait for a limit of a provider, each when it has a
// permit. For each tenant and account with such runs it has a goroutine, which waits
// for the permit in the tenant's turn, and takes the tenant's oldest run to this
// node. Which runs wait is known by the database alone.
type limitQueue struct {
	e *Engine

	mu      sync.Mutex
	ctx     context.Context // of serve; nil: it has not begun, or has ended
	running sync.WaitGroup
	serving map[limitWaiters]bool    // true: more runs may wait than were looked for
	permits map[string]*model.Permit // of runs that were woken, by id
}

func newLimitQueue(e *Engine) *limitQueue {
	return &limitQueue{e: e, serving: map[limitWaiters]bool{}, permits: map[string]*model.Permit{}}
}

// announce makes known on every node that a run waits.
func (q *limitQueue) announce(over *model.OverLimit, tenant string) {
	q.e.Hub.Signal(signalLimitWait, fmt.Sprintf("%s %s %d %d",
		over.Account, tenant, over.Limits.MaxConcurrency, over.Limits.TokensPerMinute))
}

func (q *limitQueue) announced(key string) {
	var w limitWaiters
	var limits model.Limits
	if _, err := fmt.Sscan(key, &w.account, &w.tenant, &limits.MaxConcurrency, &limits.TokensPerMinute); err != nil {
		return // of another version; the runs come back by themselves
	}
	q.e.Limits.Know(w.account, limits)
	q.begin(w)
}

// begin wakes the runs of a tenant that wait for an account, as permits come.
func (q *limitQueue) begin(w limitWaiters) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, serving := q.serving[w]; serving {
		q.serving[w] = true
		return
	}
	if q.ctx == nil || len(q.serving) >= maxLimitWaiters {
		return
	}
	q.serving[w] = false
	ctx := q.ctx
	q.running.Go(func() { q.serveTenant(ctx, w) })
}

// serve wakes runs until ctx ends. Those that waited when the last process died
// are represented by one run of each tenant and account, which is tried at once.
func (q *limitQueue) serve(ctx context.Context) {
	if q.e.Limits == nil {
		return
	}
	q.mu.Lock()
	q.ctx = ctx
	q.mu.Unlock()
	stop := q.e.Hub.OnSignal(signalLimitWait, q.announced)
	defer stop()
	left, err := q.e.Runs.ListLimitWaiters(ctx, maxLimitWaiters)
	if err == nil && len(left) > 0 {
		err = q.e.Writer.Write(ctx, func(tx txn.Tx) error { return q.e.waking.wakeTx(tx, left) })
	}
	if err != nil {
		q.e.Logger.Warn("runs that wait for a limit of their provider could not be woken yet", "err", err)
	}
	<-ctx.Done()
	q.mu.Lock()
	q.ctx = nil
	q.mu.Unlock()
	q.running.Wait()
	for _, p := range q.permits {
		p.Release()
	}
}

func (q *limitQueue) serveTenant(ctx context.Context, w limitWaiters) {
	for ctx.Err() == nil {
		waits, err := q.e.Runs.ListLimitWaits(ctx, w.account, w.tenant, 1)
		if err != nil {
			rest(ctx, limitRetry)
			continue
		}
		if len(waits) == 0 {
			if q.ended(w) {
				return
			}
			continue
		}
		permit, err := q.e.Limits.Await(ctx, w.account, w.tenant, waits[0].Tokens)
		if err != nil || permit == nil { // the account was forgotten: the runs come back by themselves
			break
		}
		if !q.wake(ctx, waits[0], permit) {
			permit.Release()
			rest(ctx, limitRetry)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.serving, w)
}

// ended reports that no run waits, unless one began to since it was looked for.
func (q *limitQueue) ended(w limitWaiters) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.serving[w] {
		q.serving[w] = false
		return false
	}
	delete(q.serving, w)
	return true
}

// wake takes a run to this node, with the permit. A run that does not wait any more
// is left alone. It reports false where it could not: there is no free worker, or
// the database is away.
func (q *limitQueue) wake(ctx context.Context, w run.ModelWait, permit *model.Permit) bool {
	e := q.e
	slot, ok := e.runner.Reserve()
	if !ok {
		return false
	}
	var lease work.Lease
	found := false
	err := e.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		if found, err = e.Runs.ConsumeModelWaitTx(tx, w); err != nil || !found {
			return err
		}
		if err := e.Queue.DeleteTx(tx, WorkKind, w.RunID); err != nil { // also if it has just been claimed
			return err
		}
		item := e.item(&run.Record{Run: run.Run{RunID: w.RunID, TenantID: w.TenantID}}, e.Clock.Now())
		lease, err = e.Queue.EnqueueHeldTx(tx, item, e.Node, e.Lease)
		return err
	})
	if err != nil || !found {
		slot.Free()
		permit.Release()
		return err == nil
	}
	q.mu.Lock()
	q.permits[w.RunID] = permit
	q.mu.Unlock()
	slot.Adopt(lease)
	return true
}

// take returns the permit with which a run was woken; nil if there is none.
func (q *limitQueue) take(id string) *model.Permit {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.permits[id]
	delete(q.permits, id)
	return p
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

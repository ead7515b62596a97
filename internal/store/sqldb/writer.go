package sqldb

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// maxGroup is how many closures share a commit at most.
const maxGroup = 256

// writer groups the closures that wait into transactions.
//
// A write that finds it idle commits in its own goroutine at once, without a
// switch of goroutines. A write that finds it busy queues; the queue is the next
// group. The grouper commits it, after all goroutines that could run had a turn:
// on a busy machine their writes join the group, which costs less than another
// commit, and on an idle machine there is no wait. Exactly one goroutine owns
// the session at a time.
type writer struct {
	session
	cfg *Config

	mu      sync.Mutex
	queue   []*job
	busy    bool          // a goroutine owns the session
	stopped bool          // accepts no more writes
	idle    chan struct{} // closed once a stopped writer has nothing left
	groups  chan struct{} // capacity 1: the session is the grouper's
}

// job is a closure that waits for its commit.
type job struct {
	ctx   context.Context
	do    func(txn.Tx) error
	began atomic.Bool   // set by the writer or by the end of ctx, whichever is first
	done  chan struct{} // nil where the owner commits its own

	// The outcome, to be read once done is closed.
	tx  *Tx
	err error
}

func newWriter(s session, cfg *Config) *writer {
	w := &writer{session: s, cfg: cfg, idle: make(chan struct{}), groups: make(chan struct{}, 1)}
	go w.grouper()
	return w
}

// grouper commits the groups that queued. A goroutine of its own keeps its
// stack, which SQLite needs a lot of.
func (w *writer) grouper() {
	for {
		select {
		case <-w.idle:
			return
		case <-w.groups:
			runtime.Gosched()
			w.ownNext()
		}
	}
}

// ownNext commits the next group. A closure that ends its goroutine, as a test
// that fails in one does, ends the grouper: another one takes its place.
func (w *writer) ownNext() {
	done := false
	defer func() {
		if !done {
			go w.grouper()
		}
	}()
	w.mu.Lock()
	n := min(len(w.queue), maxGroup)
	group := w.queue[:n:n]
	w.queue = w.queue[n:]
	w.mu.Unlock()
	w.own(group)
	done = true
}

// write returns the hints that the committed closure left.
func (w *writer) write(ctx context.Context, do func(txn.Tx) error) ([]func(), error) {
	j := &job{ctx: ctx, do: do}
	w.mu.Lock()
	switch {
	case w.stopped:
		w.mu.Unlock()
		return nil, errStopped()
	case !w.busy:
		w.busy = true
		w.mu.Unlock()
		w.own([]*job{j})
	default:
		j.done = make(chan struct{})
		w.queue = append(w.queue, j)
		w.mu.Unlock()
		select {
		case <-j.done:
		case <-ctx.Done():
			if j.began.CompareAndSwap(false, true) {
				return nil, ended(ctx)
			}
			<-j.done
		}
	}
	if j.err != nil {
		return nil, j.err
	}
	return j.tx.hints, nil
}

// own commits a group and passes the session on, also where a closure ends
// its goroutine, as a test that fails in one does.
func (w *writer) own(group []*job) {
	defer w.pass()
	w.commit(group)
}

// pass hands the session to the grouper if writes have queued, or releases it.
func (w *writer) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		w.groups <- struct{}{}
		return
	}
	w.queue = nil
	w.busy = false
	if w.stopped {
		close(w.idle)
	}
}

// stop refuses new writes and waits for those that were accepted.
func (w *writer) stop() {
	w.mu.Lock()
	if !w.stopped {
		w.stopped = true
		if !w.busy {
			close(w.idle)
		}
	}
	w.mu.Unlock()
	<-w.idle
}

// errRepeat says that a closure failed after it had written, or what closures
// gathered: they must run again, each inside of a savepoint.
var errRepeat = errors.New("sqldb: repeat with savepoints")

// commit runs a group of closures in one transaction and settles all of them.
//
// Savepoints cost as much as two small statements for each closure, and nearly
// no closure fails after its first write; so the first try goes without.
func (w *writer) commit(group []*job) {
	start := time.Now()
	live := make([]*job, 0, len(group))
	for _, j := range group {
		if j.began.CompareAndSwap(false, true) {
			live = append(live, j)
		}
	}
	err := errGoexit
	defer func() {
		if err == errGoexit {
			w.rollback()
		}
		w.settle(live, err, start)
	}()
	err = w.transact(live, false)
	if err == errRepeat {
		if w.cfg.Metrics.Repeated != nil {
			w.cfg.Metrics.Repeated(len(live))
		}
		err = errGoexit
		err = w.transact(live, true)
	}
}

// settle answers the callers. An error of the transaction is everybody's:
// also those whose closures failed may have failed for something that a
// neighbour wrote and that is not there now.
func (w *writer) settle(group []*job, err error, start time.Time) {
	switch {
	case err != nil && w.cfg.Metrics.Failed != nil:
		w.cfg.Metrics.Failed(len(group), err)
	case err == nil && w.cfg.Metrics.Committed != nil && len(group) > 0:
		w.cfg.Metrics.Committed(len(group), time.Since(start))
	}
	for _, j := range group {
		if err != nil {
			j.err = err
		}
		if j.done != nil {
			close(j.done)
		}
	}
}

// transact runs the closures in one transaction. Its error is the
// transaction's; each closure's own is in its job.
func (w *writer) transact(group []*job, savepoints bool) error {
	if len(group) == 0 {
		return nil
	}
	if err := w.begin(); err != nil {
		return err
	}
	var shared gatherings
	if len(group) > 1 && !savepoints && w.cfg.recorded == nil { // what is recorded is what each writes by itself
		shared = gatherings{}
	}
	for _, j := range group {
		if j.ctx.Err() != nil {
			j.err = ended(j.ctx) // its caller has gone
			continue
		}
		if savepoints {
			if err := w.command("SAVEPOINT closure"); err != nil {
				w.rollback()
				return err
			}
		}
		j.tx = &Tx{cfg: w.cfg, ctx: context.WithoutCancel(j.ctx), sqlite: w.conn, rows: w.rows, shared: shared}
		j.err = j.tx.run(j.do)
		if err := broken(j.err, j.tx.failed); err != nil {
			// SQLite may have rolled back everything, not just this closure.
			w.rollback()
			return err
		}
		switch {
		case savepoints:
			if err := w.endSavepoint(j.err != nil); err != nil {
				w.rollback()
				return err
			}
		case j.err == nil || !j.tx.dirty:
		case len(group) == 1:
			w.rollback()
			return nil
		default:
			w.rollback()
			return errRepeat
		}
	}
	last := &Tx{cfg: w.cfg, ctx: context.Background(), sqlite: w.conn, rows: w.rows}
	if shared.end(last) != nil {
		w.rollback()
		return errRepeat // whose it is shows where each writes for itself
	}
	if err := w.command("COMMIT"); err != nil {
		w.rollback()
		return err
	}
	return nil
}

func (w *writer) endSavepoint(undo bool) error {
	if undo {
		if err := w.command("ROLLBACK TO closure"); err != nil {
			return err
		}
	}
	return w.command("RELEASE closure")
}

// broken picks the first error that is the database's and not the closure's.
func broken(errs ...error) error {
	for _, err := range errs {
		if f, ok := errors.AsType[*fault.Error](err); ok && errors.Is(f.Cause, errDatabase) {
			return f
		}
	}
	return nil
}

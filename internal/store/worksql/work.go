// Package worksql is the work.Queue on SQL.
package worksql

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
)

// Queue is the work.Queue on SQL: table work.
//
// due_at is the one time of an item: when it is due, or, while owner is set,
// when its lease ends. The epoch starts from the clock, so that an item that is
// deleted and enqueued again never matches a lease of the item before.
//
// Over PostgreSQL the database's clock decides what is due and which lease has
// ended; due times that callers name are converted from their clock. Over SQLite
// leases run on time that setting the clock does not change.
type Queue struct {
	db    *sqldb.DB
	time  timeline
	wake  func(kind string)
	texts texts

	mu        sync.Mutex
	turns     map[string]turn // by kind
	leaveHeld time.Time       // no claim takes a held item before
}

var _ work.Queue = (*Queue)(nil)

// New returns a queue. wake, which may be nil, is called after each commit
// that made an item due within work.DefaultPoll; it must not block.
func New(db *sqldb.DB, clock clock.Clock, wake func(kind string)) *Queue {
	t := newTimeline(db, clock)
	return &Queue{db: db, time: t, wake: wake, texts: newTexts(t), turns: make(map[string]turn)}
}

// texts are the statements that name moments.
type texts struct {
	insert, values, holdNew, hold, reschedule, reclaim, next string
	claim, renew, release, due, dueOf, tenants, backlog      string
}

func newTexts(t timeline) texts {
	values := strings.Replace(sqldb.Values(workColumns), "?, ?, ?, ?", "?, ?, ?, @set", 1)
	insert := `INSERT INTO work (` + workColumns + `) VALUES ` + values
	return texts{
		insert: t.text(insert), values: t.text(", " + values), holdNew: t.text(insert),
		hold: t.text(holdWork), reschedule: t.text(rescheduleWork), reclaim: t.text(reclaimWork), next: t.text(nextWork),
		claim: t.text(claimWork), renew: t.text(renewWork), release: t.text(releaseWork),
		due: t.text(dueWork), dueOf: t.text(dueWorkOf), tenants: t.text(tenantsWork), backlog: t.text(backlogWork),
	}
}

const (
	enqueueWork = ` ON CONFLICT (kind, work_key) DO UPDATE SET due_at = excluded.due_at
		WHERE work.owner = '' AND work.due_at > excluded.due_at`
	holdWork       = `UPDATE work SET due_at = @set WHERE kind = ? AND work_key = ? AND epoch = ?`
	finishWork     = `DELETE FROM work WHERE kind = ? AND work_key = ? AND epoch = ?`
	removeWork     = `DELETE FROM work WHERE kind = ? AND work_key = ?`
	rescheduleWork = `UPDATE work SET due_at = @set, payload = ?, attempt = 0, owner = '', epoch = epoch + 1
WHERE kind = ? AND work_key = ? AND epoch = ?`
	// The condition on '' lets the planners use the index of what is held.
	reclaimWork    = `UPDATE work SET due_at = @set, owner = '' WHERE owner <> '' AND owner = ?`
	reclaimAllWork = `UPDATE work SET due_at = ?, owner = '' WHERE owner <> ''`
	// Items that were to be retried, or done at once, by a clock that was ahead.
	clampWork   = `UPDATE work SET due_at = ? WHERE owner = '' AND due_at > ? AND (due_at = epoch OR attempt > 0 AND due_at > ?)`
	backlogWork = `SELECT COUNT(*), @now - MIN(due_at) FROM
(SELECT due_at FROM work WHERE kind = ? AND due_at <= @now ORDER BY due_at LIMIT 10000) AS waiting`
	nextWork = `SELECT MIN(due_at) - @now FROM work WHERE kind = ?`

	workColumns = `kind, work_key, tenant_id, due_at, epoch, attempt, owner, payload`
)

// maxEnqueued is how many items a statement inserts, so that few statements stay
// prepared.
const maxEnqueued = 10

// EnqueueTx implements work.Queue.
func (w *Queue) EnqueueTx(tx txn.Tx, items ...work.Item) error {
	now := w.time.node.Now()
	for chunk := range slices.Chunk(items, maxEnqueued) {
		args := make([]any, 0, 8*len(chunk))
		for i := range chunk {
			item := &chunk[i]
			args = append(args, item.Kind, item.Key, item.TenantID, w.time.dueFrom(item.Due, now), sqldb.Micros(now), 0, "", item.Payload)
		}
		n, err := sqldb.From(tx).Exec(w.texts.insert+strings.Repeat(w.texts.values, len(chunk)-1)+enqueueWork, args...)
		if err != nil {
			return err
		}
		woken := ""
		for i := range chunk {
			if kind := chunk[i].Kind; n > 0 && kind != woken && !chunk[i].Due.After(now.Add(work.DefaultPoll)) {
				w.wakeAfter(tx, kind)
				woken = kind
			}
		}
	}
	return nil
}

// EnqueueHeldTx implements work.Queue.
func (w *Queue) EnqueueHeldTx(tx txn.Tx, item work.Item, owner string, lease time.Duration) (work.Lease, error) {
	now := w.time.node.Now()
	if item.Due.IsZero() {
		item.Due = now
	}
	held := work.Lease{Item: item, Owner: owner, Epoch: sqldb.Micros(now), Attempt: 1, Until: now.Add(lease)}
	exists := sqldb.Expect{Or: func(err error) error { return sqldb.UniqueAs(err, work.ErrExists) }}
	err := sqldb.From(tx).QueueExpecting(exists, w.texts.holdNew,
		item.Kind, item.Key, item.TenantID, w.time.leaseEnd(lease), held.Epoch, held.Attempt, owner, item.Payload)
	if err != nil {
		return work.Lease{}, err
	}
	return held, nil
}

// HoldTx implements work.Queue.
func (w *Queue) HoldTx(tx txn.Tx, held work.Lease, lease time.Duration) error {
	return fenced(sqldb.From(tx).Exec(w.texts.hold, w.time.leaseEnd(lease), held.Kind, held.Key, held.Epoch))
}

// FinishTx implements work.Queue.
func (w *Queue) FinishTx(tx txn.Tx, held work.Lease) error {
	return sqldb.From(tx).QueueExpecting(lost, finishWork, held.Kind, held.Key, held.Epoch)
}

// RescheduleTx implements work.Queue.
func (w *Queue) RescheduleTx(tx txn.Tx, held work.Lease, due time.Time, payload []byte) error {
	now := w.time.node.Now()
	if !due.After(now.Add(work.DefaultPoll)) {
		w.wakeAfter(tx, held.Kind)
	}
	if !due.After(now) {
		due = time.Time{}
	}
	return fenced(sqldb.From(tx).Exec(w.texts.reschedule, w.time.due(due), payload, held.Kind, held.Key, held.Epoch))
}

// DeleteTx implements work.Queue.
func (w *Queue) DeleteTx(tx txn.Tx, kind, key string) error {
	_, err := sqldb.From(tx).Exec(removeWork, kind, key)
	return err
}

// Reclaim implements work.Queue.
func (w *Queue) Reclaim(ctx context.Context, owner string) (n int, err error) {
	err = w.db.Write(ctx, func(tx txn.Tx) error {
		changed, err := sqldb.From(tx).Exec(w.texts.reclaim, w.time.due(time.Time{}), owner)
		n = int(changed)
		return err
	})
	return n, err
}

// GetNextDue implements work.Queue.
func (w *Queue) GetNextDue(ctx context.Context, kind string) (time.Time, error) {
	var in sql.NullInt64 // microseconds
	if err := w.db.QueryRow(ctx, w.texts.next, w.time.due(time.Time{}), kind).Scan(&in); err != nil || !in.Valid {
		return time.Time{}, err
	}
	return sqldb.Time(sqldb.Micros(w.time.node.Now()) + in.Int64), nil
}

// Backlog is what is due of a kind and that no node has begun.
type Backlog struct {
	Depth  int // up to 10,000
	Oldest time.Duration
}

// GetBacklog returns the backlog of a kind.
func (w *Queue) GetBacklog(ctx context.Context, kind string) (b Backlog, err error) {
	var oldest sql.NullInt64 // microseconds
	now := w.time.due(time.Time{})
	err = w.db.QueryRow(ctx, w.texts.backlog, now, kind, now).Scan(&b.Depth, &oldest)
	b.Oldest = time.Duration(oldest.Int64) * time.Microsecond
	return b, err
}

// LeaveHeld keeps Claim for a while from taking items whose lease has ended
// without being given up. It is called when the database was away: then no node
// could renew its leases, and each should find its own again.
func (w *Queue) LeaveHeld(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveHeld = time.Now().Add(d)
}

func (w *Queue) leavesHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.leaveHeld)
}

// maxRetryWait is how long an item may wait for another attempt after a restart.
const maxRetryWait = time.Hour

// ReclaimAll makes everything due at once that is held, and what a clock that was
// ahead has put off. A node calls it at its start where it is the only one.
func (w *Queue) ReclaimAll(ctx context.Context) error {
	now := w.time.node.Now()
	return w.db.Write(ctx, func(tx txn.Tx) error {
		if _, err := sqldb.From(tx).Exec(reclaimAllWork, sqldb.Micros(now)); err != nil {
			return err
		}
		_, err := sqldb.From(tx).Exec(clampWork, sqldb.Micros(now), sqldb.Micros(now), sqldb.Micros(now.Add(maxRetryWait)))
		return err
	})
}

func (w *Queue) wakeAfter(tx txn.Tx, kind string) {
	if w.wake != nil {
		tx.AfterCommit(func() { w.wake(kind) })
	}
}

// lost is what is expected of a statement that ends a lease; [fenced] is the same for
// statements whose count is known at once.
var lost = sqldb.Expect{Row: func() error { return work.ErrLost }}

// fenced returns ErrLost for a write that changed no row.
func fenced(n int64, err error) error {
	if err == nil && n == 0 {
		return work.ErrLost
	}
	return err
}

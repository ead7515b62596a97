// Package worksql is the work.Queue on SQL.
package worksql

import (
	"cmp"
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
type Queue struct {
	db    *sqldb.DB
	clock clock.Clock
	wake  func(kind string)

	mu    sync.Mutex
	turns map[string]turn // by kind
}

var _ work.Queue = (*Queue)(nil)

// New returns a queue. wake, which may be nil, is called after each commit
// that made an item due at once; it must not block.
func New(db *sqldb.DB, clock clock.Clock, wake func(kind string)) *Queue {
	return &Queue{db: db, clock: clock, wake: wake, turns: make(map[string]turn)}
}

const (
	enqueueWork = ` ON CONFLICT (kind, work_key) DO UPDATE SET due_at = excluded.due_at
		WHERE work.owner = '' AND work.due_at > excluded.due_at`
	holdWork       = `UPDATE work SET due_at = ? WHERE kind = ? AND work_key = ? AND epoch = ?`
	finishWork     = `DELETE FROM work WHERE kind = ? AND work_key = ? AND epoch = ?`
	removeWork     = `DELETE FROM work WHERE kind = ? AND work_key = ?`
	rescheduleWork = `UPDATE work SET due_at = ?, payload = ?, attempt = 0, owner = '', epoch = epoch + 1
WHERE kind = ? AND work_key = ? AND epoch = ?`
	reclaimWork = `UPDATE work SET due_at = ?, owner = '' WHERE owner = ?`
	nextWork    = `SELECT MIN(due_at) FROM work WHERE kind = ?`

	workColumns = `kind, work_key, tenant_id, due_at, epoch, attempt, owner, payload`
)

var (
	workValues  = sqldb.Values(workColumns)
	insertWork  = sqldb.Insert(`work`, workColumns)
	holdNewWork = insertWork + ` ON CONFLICT (kind, work_key) DO NOTHING`
)

// maxEnqueued is how many items a statement inserts, so that few statements stay
// prepared.
const maxEnqueued = 10

// EnqueueTx implements work.Queue.
func (w *Queue) EnqueueTx(tx txn.Tx, items ...work.Item) error {
	now := sqldb.Micros(w.clock.Now())
	for chunk := range slices.Chunk(items, maxEnqueued) {
		args := make([]any, 0, 8*len(chunk))
		for i := range chunk {
			item := &chunk[i]
			args = append(args, item.Kind, item.Key, item.TenantID, cmp.Or(sqldb.Micros(item.Due), now), now, 0, "", item.Payload)
		}
		n, err := sqldb.From(tx).Exec(insertWork+strings.Repeat(", "+workValues, len(chunk)-1)+enqueueWork, args...)
		if err != nil {
			return err
		}
		woken := ""
		for i := range chunk {
			if kind := chunk[i].Kind; n > 0 && kind != woken && sqldb.Micros(chunk[i].Due) <= now {
				w.wakeAfter(tx, kind)
				woken = kind
			}
		}
	}
	return nil
}

// EnqueueHeldTx implements work.Queue.
func (w *Queue) EnqueueHeldTx(tx txn.Tx, item work.Item, owner string, lease time.Duration) (work.Lease, error) {
	now := w.clock.Now()
	if item.Due.IsZero() {
		item.Due = now
	}
	held := work.Lease{Item: item, Owner: owner, Epoch: sqldb.Micros(now), Attempt: 1, Until: now.Add(lease)}
	n, err := sqldb.From(tx).Exec(holdNewWork,
		item.Kind, item.Key, item.TenantID, sqldb.Micros(held.Until), held.Epoch, held.Attempt, owner, item.Payload)
	if err == nil && n == 0 {
		err = work.ErrExists
	}
	if err != nil {
		return work.Lease{}, err
	}
	return held, nil
}

// HoldTx implements work.Queue.
func (w *Queue) HoldTx(tx txn.Tx, held work.Lease, lease time.Duration) error {
	until := w.clock.Now().Add(lease)
	return fenced(sqldb.From(tx).Exec(holdWork, sqldb.Micros(until), held.Kind, held.Key, held.Epoch))
}

// FinishTx implements work.Queue.
func (w *Queue) FinishTx(tx txn.Tx, held work.Lease) error {
	return fenced(sqldb.From(tx).Exec(finishWork, held.Kind, held.Key, held.Epoch))
}

// RescheduleTx implements work.Queue.
func (w *Queue) RescheduleTx(tx txn.Tx, held work.Lease, due time.Time, payload []byte) error {
	if now := w.clock.Now(); !due.After(now) {
		due = now
		w.wakeAfter(tx, held.Kind)
	}
	return fenced(sqldb.From(tx).Exec(rescheduleWork, sqldb.Micros(due), payload, held.Kind, held.Key, held.Epoch))
}

// DeleteTx implements work.Queue.
func (w *Queue) DeleteTx(tx txn.Tx, kind, key string) error {
	_, err := sqldb.From(tx).Exec(removeWork, kind, key)
	return err
}

// Reclaim implements work.Queue.
func (w *Queue) Reclaim(ctx context.Context, owner string) (n int, err error) {
	err = w.db.Write(ctx, func(tx txn.Tx) error {
		changed, err := sqldb.From(tx).Exec(reclaimWork, sqldb.Micros(w.clock.Now()), owner)
		n = int(changed)
		return err
	})
	return n, err
}

// GetNextDue implements work.Queue.
func (w *Queue) GetNextDue(ctx context.Context, kind string) (time.Time, error) {
	var due sql.NullInt64
	err := w.db.QueryRow(ctx, nextWork, kind).Scan(&due)
	return sqldb.Time(due.Int64), err
}

func (w *Queue) wakeAfter(tx txn.Tx, kind string) {
	if w.wake != nil {
		tx.AfterCommit(func() { w.wake(kind) })
	}
}

// fenced returns ErrLost for a write that changed no row.
func fenced(n int64, err error) error {
	if err == nil && n == 0 {
		return work.ErrLost
	}
	return err
}

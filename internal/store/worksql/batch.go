package worksql

import (
	"context"
	"math/bits"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
)

// maxKeys is how many items one statement changes: on PostgreSQL the rows stay
// locked until the last of them is written.
const maxKeys = 256

const (
	// The + keeps the planners from using the index of due times, which may hold
	// a long backlog.
	claimWork = `UPDATE work SET due_at = @set, owner = ?, epoch = epoch + 1, attempt = attempt + 1
WHERE kind = ? AND +due_at <= CASE owner WHEN '' THEN @now ELSE @now END AND work_key IN (%) RETURNING work_key, epoch, attempt, payload`
	// Two keys with the same epoch are unlikely, and then only cost a longer lease
	// of one that was lost.
	renewWork = `UPDATE work SET due_at = @set
WHERE kind = ? AND owner = ? AND work_key IN (%) AND epoch IN (%) RETURNING work_key, epoch`
	releaseWork = `UPDATE work SET due_at = @set, attempt = ?, owner = '', epoch = epoch + 1
WHERE kind = ? AND work_key = ? AND epoch = ?`
)

// Claim implements work.Queue.
func (w *Queue) Claim(ctx context.Context, kind, owner string, n int, lease time.Duration) ([]work.Lease, error) {
	anything, free, held := w.time.claimable(w.leavesHeld())
	// Candidates are read outside of the transaction, so that a claim that finds
	// nothing writes nothing. Items claimed meanwhile are no longer due below.
	items, err := w.due(ctx, kind, []any{anything, free, held}, min(n, maxKeys))
	if err != nil || len(items) == 0 {
		return nil, err
	}
	keys := make([]any, len(items))
	for i, item := range items {
		keys[i] = item.Key
	}
	until := w.time.node.Now().Add(lease)
	text, args := in(w.texts.claim, []any{w.time.leaseEnd(lease), owner, kind, free, held}, keys)
	claimed := make(map[string]work.Lease, len(items))
	err = w.db.Write(ctx, func(tx txn.Tx) error {
		clear(claimed)
		rows, err := sqldb.From(tx).Query(text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			l := work.Lease{Owner: owner, Until: until}
			if err := rows.Scan(&l.Key, &l.Epoch, &l.Attempt, &l.Payload); err != nil {
				return err
			}
			claimed[l.Key] = l
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	leases := make([]work.Lease, 0, len(claimed))
	for _, item := range items {
		if l, ok := claimed[item.Key]; ok {
			item.Payload = l.Payload
			l.Item = item
			leases = append(leases, l)
		}
	}
	return leases, nil
}

// Renew implements work.Queue.
func (w *Queue) Renew(ctx context.Context, held []work.Lease, lease time.Duration) (lost []work.Lease, err error) {
	if len(held) == 0 {
		return nil, nil
	}
	until := w.time.leaseEnd(lease)
	current := make(map[string]int64, len(held))
	err = w.db.Write(ctx, func(tx txn.Tx) error {
		clear(current)
		for chunk := range slices.Chunk(inOrder(held), maxKeys) {
			if err := renew(sqldb.From(tx), w.texts.renew, chunk, until, current); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, l := range held {
		if current[l.Key] != l.Epoch {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// renew extends leases and adds the epochs that it found to current.
func renew(tx *sqldb.Tx, text string, held []work.Lease, until int64, current map[string]int64) error {
	keys, epochs := make([]any, len(held)), make([]any, len(held))
	for i, l := range held {
		keys[i], epochs[i] = l.Key, l.Epoch
	}
	text, args := in(text, []any{until, held[0].Kind, held[0].Owner}, keys, epochs)
	rows, err := tx.Query(text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var epoch int64
		if err := rows.Scan(&key, &epoch); err != nil {
			return err
		}
		current[key] = epoch
	}
	return rows.Err()
}

// Release implements work.Queue.
func (w *Queue) Release(ctx context.Context, held []work.Lease, due time.Time) error {
	if len(held) == 0 {
		return nil
	}
	return w.db.Write(ctx, func(tx txn.Tx) error {
		for _, l := range inOrder(held) {
			if _, err := sqldb.From(tx).Exec(w.texts.release, w.time.due(due), max(l.Attempt, 0), l.Kind, l.Key, l.Epoch); err != nil {
				return err
			}
		}
		if !due.After(w.time.node.Now().Add(work.DefaultPoll)) {
			w.wakeAfter(tx, held[0].Kind)
		}
		return nil
	})
}

// inOrder sorts leases by key, so that no two transactions wait for each other.
func inOrder(held []work.Lease) []work.Lease {
	return slices.SortedFunc(slices.Values(held), func(a, b work.Lease) int { return strings.Compare(a.Key, b.Key) })
}

// in fills the lists of a statement that has IN (%). The number of placeholders
// is a power of two, with the last value repeated, so that few statements stay
// prepared.
func in(text string, args []any, lists ...[]any) (string, []any) {
	for _, list := range lists {
		n := 1 << bits.Len(uint(len(list)-1))
		for i := range n {
			args = append(args, list[min(i, len(list)-1)])
		}
		text = strings.Replace(text, "%", strings.Repeat("?, ", n-1)+"?", 1)
	}
	return text, args
}

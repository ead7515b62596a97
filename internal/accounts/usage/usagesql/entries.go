package usagesql

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"agentd/internal/accounts/usage"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/sqldb"
)

// An entry has the columns of a counter, with the day for its period.
const entryColumns = `tenant_id, day, agent_id, model, source, key_id, ` + counters

var (
	insertEntry = sqldb.Insert(`usage_entries`, entryColumns+`, entry_id`)
	// Those that another node is about to delete are left to it.
	deleteEntries = `DELETE FROM usage_entries WHERE (tenant_id, entry_id) IN (
		SELECT tenant_id, entry_id FROM usage_entries ORDER BY tenant_id, entry_id LIMIT ?%s) RETURNING ` + entryColumns
	addCounter = insertCounters + addToCounters
)

// AppendTx implements usage.Store.
func (s *Store) AppendTx(tx txn.Tx, tenant, day string, uses []quota.Use) error {
	t := sqldb.From(tx)
	together, shared := t.Gather(`usage_entries`, func() sqldb.Gathered { return sums{} }).(sums)
	if !shared {
		together = sums{}
	}
	for _, u := range uses {
		together.add(tenant, day, u)
	}
	if shared {
		return nil
	}
	return together.WriteTx(t)
}

// sums are uses of one or more transactions, of which each becomes an entry.
type sums map[sumOf]quota.Use

// sumOf says which uses are added up: those of the same counter and, for runs that
// ended, of the same bucket of durations, which an entry has one of.
type sumOf struct {
	counterOf
	bucket int // -1: no run ended
}

func (s sums) add(tenant, day string, u quota.Use) {
	of := sumOf{counterOf{tenant, day, u.AgentID, u.Model, u.Source, u.KeyID}, -1}
	if n := u.Ended(); n > 0 {
		of.bucket = usage.BucketOf(u.DurationMS / n)
	}
	s[of] = usage.Sum(s[of], u)
}

// WriteTx implements sqldb.Gathered.
func (s sums) WriteTx(t *sqldb.Tx) error {
	for of, u := range s {
		u.AgentID, u.Model, u.Source, u.KeyID = of.agent, of.model, of.source, of.key
		if err := t.Queue(insertEntry, append(useArgs(of.tenant, of.period, u), rand.Int64())...); err != nil {
			return err
		}
	}
	return nil
}

// counterOf identifies a counter. Those of a tenant are locked in their order, the
// month's first.
type counterOf struct{ tenant, period, agent, model, source, key string }

// SettleTx implements usage.Store.
func (s *Store) SettleTx(tx txn.Tx, limit int) (n int, err error) {
	t := sqldb.From(tx)
	lock := ""
	if t.Postgres() {
		lock = ` FOR UPDATE SKIP LOCKED`
	}
	rows, err := t.Query(strings.Replace(deleteEntries, `%s`, lock, 1), limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	added, took := map[counterOf]quota.Use{}, durations{}
	for rows.Next() {
		var at counterOf
		var u quota.Use
		into := append([]any{&at.tenant, &at.period, &at.agent, &at.model, &at.source, &at.key}, scanned(&u)...)
		if err := rows.Scan(into...); err != nil {
			return 0, err
		}
		took.add(durationOf{at.tenant, at.period, at.agent, 0}, &u)
		day, month := counterOf{tenant: at.tenant, period: at.period}, counterOf{tenant: at.tenant, period: at.period[:len("2026-09")]}
		for _, c := range []counterOf{month, day, at} {
			added[c] = usage.Sum(added[c], u)
		}
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	order := func(a, b counterOf) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.period, b.period), cmp.Compare(a.agent, b.agent),
			cmp.Compare(a.model, b.model), cmp.Compare(a.source, b.source), cmp.Compare(a.key, b.key))
	}
	for _, c := range slices.SortedFunc(maps.Keys(added), order) {
		u := added[c]
		u.AgentID, u.Model, u.Source, u.KeyID = c.agent, c.model, c.source, c.key
		if err := t.Queue(addCounter, useArgs(c.tenant, c.period, u)...); err != nil {
			return 0, err
		}
	}
	return n, took.store(t)
}

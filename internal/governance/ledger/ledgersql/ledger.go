// Package ledgersql keeps the governance ledger on SQL.
package ledgersql

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/hashchain"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/store/sqldb"
)

// Store keeps the ledger. It implements ledger.Store.
type Store struct{ db *sqldb.DB }

var _ ledger.Store = (*Store)(nil)

// New uses the tables of migration 88.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	entryColumns  = `entry_id, at, kind, actor_agent_id, actor_user_id, subject_agent_id, rule_id, run_id, details`
	sealedColumns = entryColumns + `, seq, prev_hash, hash`
	listTenants   = `SELECT DISTINCT tenant_id FROM ledger_unsealed WHERE tenant_id > ? ORDER BY tenant_id LIMIT ?`
	hasUnsealed   = `SELECT EXISTS (SELECT 1 FROM ledger_unsealed WHERE tenant_id = ?)`
	listUnsealed  = `SELECT ` + entryColumns + ` FROM ledger_unsealed WHERE tenant_id = ? ORDER BY entry_id LIMIT ?`
	createHead    = `INSERT INTO ledger_heads (tenant_id, seq, hash) VALUES (?, 0, '') ON CONFLICT (tenant_id) DO NOTHING`
	selectHead    = `SELECT seq, hash FROM ledger_heads WHERE tenant_id = ?`
	updateHead    = `UPDATE ledger_heads SET seq = ?, hash = ? WHERE tenant_id = ?`
	deleteOne     = `DELETE FROM ledger_unsealed WHERE tenant_id = ? AND entry_id = ?`
)

var (
	insertUnsealed = sqldb.Insert(`ledger_unsealed`, `tenant_id, `+entryColumns)
	insertSealed   = sqldb.Insert(`ledger`, `tenant_id, category, `+sealedColumns)
	filters        = sqldb.FiltersOf[ledger.Filter]()
)

func values(tenant string, e *hashchain.Entry, first ...any) []any {
	return append(append([]any{tenant}, first...), e.ID, sqldb.Micros(e.At), e.Kind, e.ActorAgentID, e.ActorUserID, e.SubjectAgentID,
		e.RuleID, e.RunID, string(e.Details))
}

// AppendTx implements ledger.Store.
func (s *Store) AppendTx(tx txn.Tx, tenant string, e hashchain.Entry) error {
	_, err := sqldb.From(tx).Exec(insertUnsealed, values(tenant, &e)...)
	return err
}

// ListUnsealedTenants implements ledger.Store.
func (s *Store) ListUnsealedTenants(ctx context.Context, after string, n int) ([]string, error) {
	rows, err := s.db.Query(ctx, listTenants, after, n)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// HasUnsealed implements ledger.Store.
func (s *Store) HasUnsealed(ctx context.Context, tenant string) (has bool, err error) {
	err = s.db.QueryRow(ctx, hasUnsealed, tenant).Scan(&has)
	return has, err
}

// LockHeadTx implements ledger.Store.
func (s *Store) LockHeadTx(tx txn.Tx, tenant string) (h hashchain.Head, err error) {
	t := sqldb.From(tx)
	if _, err := t.Exec(createHead, tenant); err != nil {
		return h, err
	}
	err = t.QueryRow(selectHead+t.ForUpdate(), tenant).Scan(&h.Seq, &h.Hash)
	return h, err
}

// ListUnsealedTx implements ledger.Store.
func (s *Store) ListUnsealedTx(tx txn.Tx, tenant string, n int) ([]hashchain.Entry, error) {
	return sqldb.Collect(sqldb.From(tx).Query, listUnsealed, []any{tenant, n}, scanEntry)
}

// AppendSealedTx implements ledger.Store.
func (s *Store) AppendSealedTx(tx txn.Tx, tenant string, entries []hashchain.Entry, head hashchain.Head) error {
	t := sqldb.From(tx)
	for i := range entries {
		e := &entries[i]
		category, _, _ := strings.Cut(e.Kind, ".")
		if _, err := t.Exec(insertSealed, append(values(tenant, e, category), e.Seq, e.PrevHash, e.Hash)...); err != nil {
			return err
		}
		if _, err := t.Exec(deleteOne, tenant, e.ID); err != nil {
			return err
		}
	}
	_, err := t.Exec(updateHead, head.Seq, head.Hash, tenant)
	return err
}

// GetHead implements ledger.Store.
func (s *Store) GetHead(ctx context.Context, tenant string) (h hashchain.Head, err error) {
	err = sqldb.NoRowsAs(s.db.QueryRow(ctx, selectHead, tenant).Scan(&h.Seq, &h.Hash), nil)
	return h, err
}

// List implements ledger.Store.
func (s *Store) List(ctx context.Context, tenant string, f ledger.Filter, w ledger.Window) ([]hashchain.Entry, error) {
	where, args := filters.Where(tenant, &f)
	if w.From > 0 {
		where, args = where+` AND seq >= ?`, append(args, w.From)
	}
	if w.To > 0 {
		where, args = where+` AND seq <= ?`, append(args, w.To)
	}
	order := ` ORDER BY seq DESC LIMIT ?`
	if w.Ascending {
		order = ` ORDER BY seq LIMIT ?`
	}
	text := `SELECT ` + sealedColumns + ` FROM ledger` + where + order
	return sqldb.Collect(s.db.Reader(ctx), text, append(args, w.Limit), scanSealed)
}

func scanEntry(row sqldb.Row) (hashchain.Entry, error) { return scan(row) }

func scanSealed(row sqldb.Row) (e hashchain.Entry, err error) {
	var seq int64
	var prev, hash string
	e, err = scan(row, &seq, &prev, &hash)
	e.Seq, e.PrevHash, e.Hash = seq, prev, hash
	return e, err
}

func scan(row sqldb.Row, more ...any) (e hashchain.Entry, err error) {
	var at int64
	var details string
	err = row.Scan(append([]any{
		&e.ID, &at, &e.Kind, &e.ActorAgentID, &e.ActorUserID, &e.SubjectAgentID, &e.RuleID, &e.RunID, &details,
	}, more...)...)
	e.At, e.Details = sqldb.Time(at), jsontext.Value(details)
	return e, err
}

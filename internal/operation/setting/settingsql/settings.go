// Package settingsql keeps the operator's settings on SQL.
package settingsql

import (
	"context"
	"database/sql"
	"errors"

	"agentd/internal/base/txn"
	"agentd/internal/operation/setting"
	"agentd/internal/store/sqldb"
)

// Store keeps the operator's settings. It implements setting.Store.
type Store struct{ db *sqldb.DB }

var _ setting.Store = (*Store)(nil)

// New uses the table of migration 131.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	columns       = `section, version, body, sealed, updated_at`
	selectSection = `SELECT ` + columns + ` FROM operator_settings WHERE section = ?`
)

var (
	insertSection = sqldb.Insert(`operator_settings`, columns) + ` ON CONFLICT (section) DO NOTHING`
	putSection    = `UPDATE operator_settings SET version = ?, body = ?, sealed = ?, updated_at = ? WHERE section = ?`
)

func scan(row sqldb.Row) (r setting.Row, err error) {
	var body string
	var updated int64
	err = row.Scan(&r.Section, &r.Version, &body, &r.Sealed, &updated)
	r.Body, r.UpdatedAt = []byte(body), sqldb.Time(updated)
	return r, err
}

// ListVersions implements setting.Store.
func (s *Store) ListVersions(ctx context.Context) (map[string]int64, error) {
	type version struct {
		section string
		n       int64
	}
	all, err := sqldb.Collect(s.db.Reader(ctx), `SELECT section, version FROM operator_settings WHERE section > ''`, nil,
		func(row sqldb.Row) (v version, err error) { return v, row.Scan(&v.section, &v.n) })
	if err != nil {
		return nil, err
	}
	versions := make(map[string]int64, len(all))
	for _, v := range all {
		versions[v.section] = v.n
	}
	return versions, nil
}

// Get implements setting.Store.
func (s *Store) Get(ctx context.Context, section string) (setting.Row, error) {
	all, err := sqldb.Collect(s.db.Reader(ctx), selectSection, []any{section}, scan)
	if err != nil || len(all) == 0 {
		return setting.Row{Section: section}, err
	}
	return all[0], nil
}

// LockTx implements setting.Store.
func (s *Store) LockTx(tx txn.Tx, section string) (setting.Row, error) {
	t := sqldb.From(tx)
	if _, err := t.Exec(insertSection, section, 0, "", []byte{}, 0); err != nil {
		return setting.Row{}, err
	}
	r, err := scan(t.QueryRow(selectSection+t.ForUpdate(), section))
	if errors.Is(err, sql.ErrNoRows) {
		return setting.Row{Section: section}, nil
	}
	return r, err
}

// PutTx implements setting.Store.
func (s *Store) PutTx(tx txn.Tx, r *setting.Row) error {
	sealed := r.Sealed
	if sealed == nil {
		sealed = []byte{}
	}
	_, err := sqldb.From(tx).Exec(putSection, r.Version, string(r.Body), sealed, sqldb.Micros(r.UpdatedAt), r.Section)
	return err
}

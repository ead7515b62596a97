// Package errandsql keeps errands on SQL.
package errandsql

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/personal"
	"agentd/internal/store/sqldb"
	"agentd/internal/teams/errand"
)

// Store keeps errands; it implements errand.Store.
type Store struct{ db *sqldb.DB }

var _ errand.Store = (*Store)(nil)

// New uses the table of migration 840.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	columns = `tenant_id, task_id, team_run_id, cancel, body, created_at`
	one     = ` WHERE tenant_id = ? AND task_id = ?`
)

var insert = sqldb.Insert(`a2a_errands`, columns) + ` ON CONFLICT (tenant_id, task_id) DO NOTHING`

// Personal is what the table keeps of people.
var Personal = []personal.Table{
	{Name: "a2a_errands", By: personal.Part, Of: "team_runs", Column: "team_run_id", Erased: personal.Deleted},
}

// CreateTx implements errand.Store.
func (s *Store) CreateTx(tx txn.Tx, e *errand.Errand) (bool, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return false, err
	}
	n, err := sqldb.From(tx).Exec(insert, e.TenantID, e.TaskID, e.TeamRunID, 0, string(body), sqldb.Micros(e.CreatedAt))
	return n > 0, err
}

// UpdateTx implements errand.Store.
func (s *Store) UpdateTx(tx txn.Tx, e *errand.Errand) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(`UPDATE a2a_errands SET body = ?`+one, string(body), e.TenantID, e.TaskID)
	return err
}

// RequestCancelTx implements errand.Store.
func (s *Store) RequestCancelTx(tx txn.Tx, tenant, taskID string) error {
	_, err := sqldb.From(tx).Exec(`UPDATE a2a_errands SET cancel = 1`+one, tenant, taskID)
	return err
}

// Get implements errand.Store.
func (s *Store) Get(ctx context.Context, tenant, taskID string) (*errand.Errand, error) {
	var e errand.Errand
	var cancel, created int64
	var body string
	err := s.db.QueryRow(ctx, `SELECT `+columns+` FROM a2a_errands`+one, tenant, taskID).
		Scan(&e.TenantID, &e.TaskID, &e.TeamRunID, &cancel, &body, &created)
	if err != nil {
		return nil, sqldb.NoRowsAs(err, fault.NewNotFound("task"))
	}
	e.Cancel, e.CreatedAt = cancel != 0, sqldb.Time(created)
	var dec sqldb.Decoder
	dec.JSON(body, &e)
	return &e, dec.Err()
}

// DeleteTx implements errand.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, taskID string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM a2a_errands`+one, tenant, taskID)
	return err
}

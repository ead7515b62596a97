package runsql

import (
	"database/sql"
	"errors"
	"math"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

const (
	continueRun = `UPDATE runs SET continued_by = ?` + oneRun + ` AND continued_by IS NULL`
	continuedBy = `SELECT continued_by FROM runs` + oneRun
	// inheritSteps copies the steps whose result a model may read: not those that
	// were under way when the run failed, and not the failed calls of models.
	inheritSteps = `INSERT INTO run_steps (tenant_id, run_id, ` + inheritedColumns + `, made_by)
		SELECT tenant_id, ?, ` + inheritedColumns + `, COALESCE(made_by, run_id) FROM run_steps` + oneRun + `
		AND seq < ? AND output IS NOT NULL AND NOT (type = 'llm' AND status = 'failed')`
)

// AppendInheritedTx implements run.Store.
func (s *Store) AppendInheritedTx(tx txn.Tx, tenant, from, to string) error {
	t := sqldb.From(tx)
	n, err := t.Exec(continueRun, to, tenant, from)
	if err != nil {
		return err
	}
	if n == 0 {
		var by sql.NullString
		err := t.QueryRow(continuedBy, tenant, from).Scan(&by)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.NewNotFound("run")
		}
		if err != nil {
			return err
		}
		return run.AlreadyContinued(by.String)
	}
	return s.AppendForkedTx(tx, tenant, from, to, math.MaxInt64)
}

// AppendForkedTx implements run.Store.
func (s *Store) AppendForkedTx(tx txn.Tx, tenant, from, to string, before int64) error {
	_, err := sqldb.From(tx).Exec(inheritSteps, to, tenant, from, before)
	return err
}

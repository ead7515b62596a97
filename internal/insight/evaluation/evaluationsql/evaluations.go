// Package evaluationsql keeps cases, evaluations and their results on SQL.
package evaluationsql

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/insight/evaluation"
	"agentd/internal/store/sqldb"
)

// Store keeps evaluations; it implements evaluation.Store.
type Store struct{ db *sqldb.DB }

var _ evaluation.Store = (*Store)(nil)

// New uses the tables of migration 190.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	columns = `tenant_id, eval_run_id, agent_id, dataset_id, experiment_id, version, status, spec, total, next, tally, summary, error,
		cancel, created_at, completed_at`
	one       = ` WHERE tenant_id = ? AND eval_run_id = ?`
	ofDataset = ` WHERE tenant_id = ? AND dataset_id = ?`
	selectOne = `SELECT ` + columns + ` FROM evaluations`
)

var (
	insertCases = sqldb.Insert(`eval_cases`, `tenant_id, dataset_id, block, body`)
	insert      = sqldb.Insert(`evaluations`, columns)
	putResult   = sqldb.Insert(`evaluation_results`, `tenant_id, eval_run_id, seq, ended, body`) +
		` ON CONFLICT (tenant_id, eval_run_id, seq) DO UPDATE SET ` + sqldb.Excluded(`ended, body`)
)

// AppendCasesTx implements evaluation.Store.
func (s *Store) AppendCasesTx(tx txn.Tx, tenant, datasetID string, first int, cases []evaluation.Case) error {
	for ; len(cases) > 0; first += evaluation.BlockSize {
		n := min(len(cases), evaluation.BlockSize)
		body, err := json.Marshal(cases[:n])
		if err != nil {
			return err
		}
		if _, err := sqldb.From(tx).Exec(insertCases, tenant, datasetID, first/evaluation.BlockSize, string(body)); err != nil {
			return err
		}
		cases = cases[n:]
	}
	return nil
}

// ListCases implements evaluation.Store.
func (s *Store) ListCases(ctx context.Context, tenant, datasetID string, from, limit int) ([]evaluation.Case, error) {
	if limit <= 0 {
		return nil, nil
	}
	first, last := from/evaluation.BlockSize, (from+limit-1)/evaluation.BlockSize
	blocks, err := sqldb.Collect(s.db.Reader(ctx), `SELECT body FROM eval_cases`+ofDataset+` AND block >= ? AND block <= ? ORDER BY block`,
		[]any{tenant, datasetID, first, last}, func(row sqldb.Row) (cases []evaluation.Case, err error) {
			var body string
			if err := row.Scan(&body); err != nil {
				return nil, err
			}
			var dec sqldb.Decoder
			dec.JSON(body, &cases)
			return cases, dec.Err()
		})
	if err != nil {
		return nil, err
	}
	var all []evaluation.Case
	for _, block := range blocks {
		all = append(all, block...)
	}
	skip := min(from-first*evaluation.BlockSize, len(all))
	all = all[skip:]
	return all[:min(limit, len(all))], nil
}

// DeleteCasesTx implements evaluation.Store.
func (s *Store) DeleteCasesTx(tx txn.Tx, tenant, datasetID string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM eval_cases`+ofDataset, tenant, datasetID)
	return err
}

func scan(row sqldb.Row) (r evaluation.Record, err error) {
	var spec, tally, summary string
	var cancel, created, completed int64
	err = row.Scan(&r.TenantID, &r.EvalRunID, &r.AgentID, &r.DatasetID, &r.ExperimentID, &r.Version, &r.Status, &spec, &r.Total, &r.Next,
		&tally, &summary, &r.Error, &cancel, &created, &completed)
	if err != nil {
		return r, sqldb.NoRowsAs(err, fault.NewNotFound("evaluation"))
	}
	r.Cancel, r.CreatedAt, r.CompletedAt = cancel == 1, sqldb.Time(created), sqldb.Time(completed)
	var dec sqldb.Decoder
	dec.JSON(spec, &r.Spec)
	dec.JSON(tally, &r.Tally)
	if summary != "" {
		r.Summary = &evaluation.Summary{}
		dec.JSON(summary, r.Summary)
	}
	return r, dec.Err()
}

// state returns the columns of an evaluation that change.
func state(r *evaluation.Record) (tally, summary string, err error) {
	enc, err := json.Marshal(r.Tally)
	if err != nil || r.Summary == nil {
		return string(enc), "", err
	}
	sum, err := json.Marshal(r.Summary)
	return string(enc), string(sum), err
}

// CreateTx implements evaluation.Store.
func (s *Store) CreateTx(tx txn.Tx, r *evaluation.Record) error {
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return err
	}
	tally, summary, err := state(r)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insert, r.TenantID, r.EvalRunID, r.AgentID, r.DatasetID, r.ExperimentID, r.Version, string(r.Status),
		string(spec), r.Total, r.Next, tally, summary, r.Error, 0, sqldb.Micros(r.CreatedAt), sqldb.Micros(r.CompletedAt))
	return err
}

// UpdateTx implements evaluation.Store.
func (s *Store) UpdateTx(tx txn.Tx, r *evaluation.Record) error {
	tally, summary, err := state(r)
	if err != nil {
		return err
	}
	n, err := sqldb.From(tx).Exec(`UPDATE evaluations SET status = ?, next = ?, tally = ?, summary = ?, error = ?, completed_at = ?`+one,
		string(r.Status), r.Next, tally, summary, r.Error, sqldb.Micros(r.CompletedAt), r.TenantID, r.EvalRunID)
	if err == nil && n == 0 {
		return fault.NewNotFound("evaluation")
	}
	return err
}

// PutResultsTx implements evaluation.Store.
func (s *Store) PutResultsTx(tx txn.Tx, tenant, evalRunID string, results []evaluation.Result) error {
	for i := range results {
		ended := 0
		if results[i].Ended {
			ended = 1
		}
		body, err := json.Marshal(results[i])
		if err != nil {
			return err
		}
		if _, err := sqldb.From(tx).Exec(putResult, tenant, evalRunID, results[i].Seq, ended, string(body)); err != nil {
			return err
		}
	}
	return nil
}

// LockTx implements evaluation.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, evalRunID string) (cancel, ended bool, err error) {
	t := sqldb.From(tx)
	var requested, completed int64
	err = t.QueryRow(`SELECT cancel, completed_at FROM evaluations`+one+t.ForUpdate(), tenant, evalRunID).Scan(&requested, &completed)
	return requested == 1, completed != 0, sqldb.NoRowsAs(err, fault.NewNotFound("evaluation"))
}

// RequestCancelTx implements evaluation.Store.
func (s *Store) RequestCancelTx(tx txn.Tx, tenant, evalRunID string) error {
	n, err := sqldb.From(tx).Exec(`UPDATE evaluations SET cancel = 1`+one, tenant, evalRunID)
	if err == nil && n == 0 {
		return fault.NewNotFound("evaluation")
	}
	return err
}

// CountOpenTx implements evaluation.Store.
func (s *Store) CountOpenTx(tx txn.Tx, tenant string) (n int, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT COUNT(*) FROM evaluations WHERE tenant_id = ? AND completed_at = 0`, tenant).Scan(&n)
	return n, err
}

// Get implements evaluation.Store.
func (s *Store) Get(ctx context.Context, tenant, evalRunID string) (*evaluation.Record, error) {
	r, err := scan(s.db.QueryRow(ctx, selectOne+one, tenant, evalRunID))
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// List implements evaluation.Store.
func (s *Store) List(ctx context.Context, tenant string, f evaluation.Filter, w page.Window) ([]evaluation.Record, error) {
	text, args := selectOne+` WHERE tenant_id = ?`, []any{tenant}
	switch {
	case f.AgentID != "":
		text, args = text+` AND agent_id = ?`, append(args, f.AgentID)
	case f.DatasetID != "":
		text, args = text+` AND dataset_id = ?`, append(args, f.DatasetID)
	default:
		text, args = text+` AND experiment_id = ?`, append(args, f.ExperimentID)
	}
	if w.After != "" {
		text, args = text+` AND eval_run_id < ?`, append(args, w.After)
	}
	return sqldb.Collect(s.db.Reader(ctx), text+` ORDER BY eval_run_id DESC LIMIT ?`, append(args, w.Limit), scan)
}

func scanResult(row sqldb.Row) (r evaluation.Result, err error) {
	var body string
	var ended int64
	if err := row.Scan(&ended, &body); err != nil {
		return r, err
	}
	r.Ended = ended == 1
	var dec sqldb.Decoder
	dec.JSON(body, &r)
	return r, dec.Err()
}

// ListUnended implements evaluation.Store.
func (s *Store) ListUnended(ctx context.Context, tenant, evalRunID string) ([]evaluation.Result, error) {
	return sqldb.Collect(s.db.Reader(ctx), `SELECT ended, body FROM evaluation_results`+one+` AND ended = 0 ORDER BY seq`,
		[]any{tenant, evalRunID}, scanResult)
}

// ListResults implements evaluation.Store.
func (s *Store) ListResults(ctx context.Context, tenant, evalRunID string, after, limit int) ([]evaluation.Result, error) {
	return sqldb.Collect(s.db.Reader(ctx), `SELECT ended, body FROM evaluation_results`+one+` AND ended = 1 AND seq > ? ORDER BY seq LIMIT ?`,
		[]any{tenant, evalRunID, after, limit}, scanResult)
}

// DeleteAgentTx implements evaluation.Store.
func (s *Store) DeleteAgentTx(tx txn.Tx, tenant, agentID string, limit int) ([]string, error) {
	const ofAgent = ` WHERE tenant_id = ? AND eval_run_id IN (SELECT eval_run_id FROM evaluations WHERE tenant_id = ? AND agent_id = ?)`
	t := sqldb.From(tx)
	rows, err := t.Query(`SELECT body FROM evaluation_results`+ofAgent+` AND ended = 0 LIMIT ?`, tenant, tenant, agentID, limit)
	if err != nil {
		return nil, err
	}
	bodies, err := sqldb.ScanStrings(rows)
	if err != nil {
		return nil, err
	}
	var open []string
	for _, body := range bodies {
		var r evaluation.Result
		var dec sqldb.Decoder
		dec.JSON(body, &r)
		if err := dec.Err(); err != nil {
			return nil, err
		}
		open = append(open, r.RunID)
	}
	if _, err := t.Exec(`DELETE FROM evaluation_results`+ofAgent, tenant, tenant, agentID); err != nil {
		return nil, err
	}
	_, err = t.Exec(`DELETE FROM evaluations WHERE tenant_id = ? AND agent_id = ?`, tenant, agentID)
	return open, err
}

// Package artifactsql keeps the artifacts of runs on SQL.
package artifactsql

import (
	"context"
	"database/sql"
	"errors"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/content/artifact"
	"agentd/internal/store/sqldb"
)

// Store keeps the artifacts of runs. It implements artifact.Table.
type Store struct{ db *sqldb.DB }

var _ artifact.Table = (*Store)(nil)

// New uses the tables of migration 5.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	artifactColumns = `run_id, artifact_id, name, mime_type, size, sha256, created_at`
	selectArtifacts = `SELECT ` + artifactColumns + ` FROM run_artifacts WHERE tenant_id = ?`
	usageOfRun      = `SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM run_artifacts WHERE tenant_id = ? AND run_id = ?`
)

var insertArtifact = sqldb.Insert(`run_artifacts`, `tenant_id, `+artifactColumns)

// CreateTx implements artifact.Table.
func (s *Store) CreateTx(tx txn.Tx, r *artifact.Record) error {
	_, err := sqldb.From(tx).Exec(insertArtifact,
		r.TenantID, r.RunID, r.ArtifactID, r.Name, r.MimeType, r.SizeBytes, r.SHA256, sqldb.Micros(r.CreatedAt))
	return err
}

// GetUsage implements artifact.Table.
func (s *Store) GetUsage(ctx context.Context, tenant, runID string) (n int, size int64, err error) {
	err = s.db.QueryRow(ctx, usageOfRun, tenant, runID).Scan(&n, &size)
	return n, size, err
}

// Get implements artifact.Table.
func (s *Store) Get(ctx context.Context, tenant, id string) (*artifact.Record, error) {
	return scanArtifact(tenant, s.db.QueryRow(ctx, selectArtifacts+` AND artifact_id = ?`, tenant, id))
}

// GetByName implements artifact.Table.
func (s *Store) GetByName(ctx context.Context, tenant, runID, name string) (*artifact.Record, error) {
	return scanArtifact(tenant, s.db.QueryRow(ctx, selectArtifacts+` AND run_id = ? AND name = ? ORDER BY artifact_id DESC LIMIT 1`,
		tenant, runID, name))
}

// ListByRun implements artifact.Table.
func (s *Store) ListByRun(ctx context.Context, tenant string, runIDs []string) ([]artifact.Record, error) {
	in, args := sqldb.In(runIDs, tenant)
	text := selectArtifacts + ` AND run_id` + in + ` ORDER BY run_id, artifact_id`
	return sqldb.Collect(s.db.Reader(ctx), text, args, func(row sqldb.Row) (artifact.Record, error) {
		r, err := scanArtifact(tenant, row)
		if err != nil {
			return artifact.Record{}, err
		}
		return *r, nil
	})
}

func scanArtifact(tenant string, row sqldb.Row) (*artifact.Record, error) {
	r := &artifact.Record{}
	r.TenantID = tenant
	var created int64
	err := row.Scan(&r.RunID, &r.ArtifactID, &r.Name, &r.MimeType, &r.SizeBytes, &r.SHA256, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("artifact")
	}
	r.CreatedAt = sqldb.Time(created)
	return r, err
}

// DeleteByRunTx implements artifact.Table.
func (s *Store) DeleteByRunTx(tx txn.Tx, tenant, runID string) ([]string, error) {
	rows, err := sqldb.From(tx).Query(`DELETE FROM run_artifacts WHERE tenant_id = ? AND run_id = ? RETURNING sha256`, tenant, runID)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

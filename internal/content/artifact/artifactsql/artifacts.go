// Package artifactsql keeps the artifacts of runs on SQL.
package artifactsql

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/content/artifact"
	"agentd/internal/store/sqldb"
)

// Store keeps what runs made; it implements artifact.Table.
type Store struct{ db *sqldb.DB }

var _ artifact.Table = (*Store)(nil)

// New uses the tables of migration 5.
func New(db *sqldb.DB) *Store { return &Store{db} }

const selectArtifact = `SELECT run_id, artifact_id, name, mime_type, size, sha256, created_at FROM run_artifacts WHERE tenant_id = ?`

// CreateTx implements artifact.Table.
func (s *Store) CreateTx(tx txn.Tx, r *artifact.Record) error {
	_, err := sqldb.From(tx).Exec(`INSERT INTO run_artifacts (tenant_id, run_id, artifact_id, name, mime_type, size, sha256, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		r.TenantID, r.RunID, r.ArtifactID, r.Name, r.MimeType, r.SizeBytes, r.SHA256, sqldb.Micros(r.CreatedAt))
	return err
}

// GetUsage implements artifact.Table.
func (s *Store) GetUsage(ctx context.Context, tenant, runID string) (n int, size int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM run_artifacts WHERE tenant_id = ? AND run_id = ?`, tenant, runID).
		Scan(&n, &size)
	return n, size, err
}

// Get implements artifact.Table.
func (s *Store) Get(ctx context.Context, tenant, id string) (*artifact.Record, error) {
	return scanArtifact(tenant, s.db.QueryRow(ctx, selectArtifact+` AND artifact_id = ?`, tenant, id))
}

// GetByName implements artifact.Table.
func (s *Store) GetByName(ctx context.Context, tenant, runID, name string) (*artifact.Record, error) {
	return scanArtifact(tenant, s.db.QueryRow(ctx, selectArtifact+` AND run_id = ? AND name = ? ORDER BY artifact_id DESC LIMIT 1`, tenant, runID, name))
}

// ListByRun implements artifact.Table.
func (s *Store) ListByRun(ctx context.Context, tenant string, runIDs []string) ([]artifact.Record, error) {
	args := []any{tenant}
	for _, id := range runIDs {
		args = append(args, id)
	}
	rows, err := s.db.Query(ctx, selectArtifact+` AND run_id IN (?`+strings.Repeat(`, ?`, len(runIDs)-1)+`) ORDER BY run_id, artifact_id`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []artifact.Record
	for rows.Next() {
		r, err := scanArtifact(tenant, rows)
		if err != nil {
			return nil, err
		}
		all = append(all, *r)
	}
	return all, rows.Err()
}

func scanArtifact(tenant string, row sqldb.Row) (*artifact.Record, error) {
	r := &artifact.Record{}
	r.TenantID = tenant
	var created int64
	err := row.Scan(&r.RunID, &r.ArtifactID, &r.Name, &r.MimeType, &r.SizeBytes, &r.SHA256, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NoSuch("artifact")
	}
	r.CreatedAt = sqldb.Time(created)
	return r, err
}

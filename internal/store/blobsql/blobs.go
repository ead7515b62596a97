// Package blobsql keeps the bytes of files on SQL, in parts.
package blobsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/blob"
	"agentd/internal/store/sqldb"
)

// Store keeps bytes in parts. It implements blob.Table.
type Store struct{ db *sqldb.DB }

var _ blob.Table = (*Store)(nil)

// New uses the tables of migration 5.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	deleteParts = `DELETE FROM blob_parts WHERE tenant_id = ? AND parts_id = ? AND part IN
		(SELECT part FROM blob_parts WHERE tenant_id = ? AND parts_id = ? ORDER BY part LIMIT ?)`
	ofBlob  = ` WHERE tenant_id = ? AND sha256 = ?`
	ofParts = ` WHERE tenant_id = ? AND parts_id = ?`
)

var (
	insertPart         = sqldb.Insert(`blob_parts`, `tenant_id, parts_id, part, data`)
	insertUnreferenced = sqldb.Insert(`blob_loose`, `tenant_id, parts_id, due_at`)
	insertBlob         = sqldb.Insert(`blobs`, `tenant_id, sha256, parts_id, size, refs`) + ` ON CONFLICT (tenant_id, sha256) DO NOTHING`
)

// CreatePartTx implements blob.Table.
func (s *Store) CreatePartTx(tx txn.Tx, tenant, parts string, n int, data []byte) error {
	_, err := sqldb.From(tx).Exec(insertPart, tenant, parts, n, data)
	return err
}

// UnreferenceTx implements blob.Table.
func (s *Store) UnreferenceTx(tx txn.Tx, tenant, parts string, due time.Time) error {
	_, err := sqldb.From(tx).Exec(insertUnreferenced, tenant, parts, sqldb.Micros(due))
	return err
}

// CreateTx implements blob.Table.
func (s *Store) CreateTx(tx txn.Tx, tenant string, b blob.Ref, parts string) (created bool, err error) {
	t := sqldb.From(tx)
	// It is repeated for a blob whose last reference is deleted at this moment.
	for range 3 {
		n, err := t.Exec(insertBlob, tenant, b.SHA256, parts, b.Size, 1)
		if err != nil {
			return false, err
		}
		if n == 1 {
			return true, s.adopt(t, tenant, b, parts)
		}
		if err = s.ReferenceTx(tx, tenant, b.SHA256); !fault.Is(err, fault.NotFound) {
			return false, err
		}
	}
	return false, fault.Changed("file's content")
}

// adopt takes a set of parts off the list of unreferenced sets. A set whose
// time has run out is not on it any more, and its parts are deleted.
func (s *Store) adopt(t *sqldb.Tx, tenant string, b blob.Ref, parts string) error {
	n, err := t.Exec(`DELETE FROM blob_loose WHERE tenant_id = ? AND parts_id = ? AND due_at > 0`, tenant, parts)
	if err == nil && n == 0 && b.Size >= blob.PartSize {
		return fault.New(fault.Unavailable, "", "The upload took too long and is gone; send it again.")
	}
	return err
}

// ReferenceTx implements blob.Table.
func (s *Store) ReferenceTx(tx txn.Tx, tenant, sum string) error {
	n, err := sqldb.From(tx).Exec(`UPDATE blobs SET refs = refs + 1`+ofBlob, tenant, sum)
	if err == nil && n == 0 {
		err = noBlob()
	}
	return err
}

// DereferenceTx implements blob.Table.
func (s *Store) DereferenceTx(tx txn.Tx, tenant, sum string) (parts string, err error) {
	t := sqldb.From(tx)
	var refs int64
	err = t.QueryRow(`SELECT parts_id, refs FROM blobs`+ofBlob+t.ForUpdate(), tenant, sum).Scan(&parts, &refs)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", fmt.Errorf("blobsql: a row refers to the blob %s, which does not exist", sum)
	case err != nil:
		return "", err
	case refs > 1:
		_, err = t.Exec(`UPDATE blobs SET refs = refs - 1`+ofBlob, tenant, sum)
		return "", err
	}
	_, err = t.Exec(`DELETE FROM blobs`+ofBlob, tenant, sum)
	return parts, err
}

// Get implements blob.Table.
func (s *Store) Get(ctx context.Context, tenant, sum string) (parts string, size int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT parts_id, size FROM blobs`+ofBlob, tenant, sum).Scan(&parts, &size)
	if errors.Is(err, sql.ErrNoRows) {
		err = noBlob()
	}
	return parts, size, err
}

// ReadPart implements blob.Table.
func (s *Store) ReadPart(ctx context.Context, tenant, parts string, n int, buf []byte) (int, error) {
	rows, err := s.db.Query(ctx, `SELECT data FROM blob_parts WHERE tenant_id = ? AND parts_id = ? AND part = ?`, tenant, parts, n)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return 0, err
		}
		return 0, noBlob()
	}
	var raw sql.RawBytes // spares a copy of the part
	if err := rows.Scan(&raw); err != nil {
		return 0, err
	}
	copied := copy(buf, raw)
	if copied < len(raw) {
		return 0, fmt.Errorf("blobsql: part %d of %s has %d bytes", n, parts, len(raw))
	}
	return copied, rows.Close()
}

// ListDue implements blob.Table.
func (s *Store) ListDue(ctx context.Context, now time.Time, limit int) ([]blob.Loose, error) {
	rows, err := s.db.Query(ctx, `SELECT tenant_id, parts_id FROM blob_loose WHERE due_at <= ? ORDER BY due_at LIMIT ?`,
		sqldb.Micros(now), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []blob.Loose
	for rows.Next() {
		var l blob.Loose
		if err := rows.Scan(&l.Tenant, &l.Parts); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, rows.Err()
}

// DeletePartsTx implements blob.Table. The entry is locked first, so that a
// transaction that adopts the set waits, and then finds no entry.
func (s *Store) DeletePartsTx(tx txn.Tx, l blob.Loose, limit int) (done bool, err error) {
	t := sqldb.From(tx)
	var due int64
	err = t.QueryRow(`SELECT due_at FROM blob_loose`+ofParts+t.ForUpdate(), l.Tenant, l.Parts).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if due > 0 {
		// From now on the set cannot be adopted, though deleting it takes several
		// transactions.
		_, err := t.Exec(`UPDATE blob_loose SET due_at = 0`+ofParts, l.Tenant, l.Parts)
		if err != nil {
			return false, err
		}
	}
	n, err := t.Exec(deleteParts, l.Tenant, l.Parts, l.Tenant, l.Parts, limit)
	if err != nil || n == int64(limit) {
		return false, err
	}
	_, err = t.Exec(`DELETE FROM blob_loose`+ofParts, l.Tenant, l.Parts)
	return true, err
}

func noBlob() error { return fault.NewNotFound("stored content") }

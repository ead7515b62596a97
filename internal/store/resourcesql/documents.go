// Package resourcesql is the resource.Backend on SQL: one table for all kinds.
package resourcesql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"

	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/sqldb"
)

// Store is the resource.Backend on SQL: one table for all kinds.
type Store struct{ db *sqldb.DB }

// New uses the table of migration 1.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	documentKey     = ` WHERE kind = ? AND tenant_id = ? AND id = ?`
	documentColumns = `kind, tenant_id, id, version, created_at, updated_at, body, uniq, ix1, ix2, ix3, ix4, words`

	documentChanges = `version, updated_at, body, uniq, ix1, ix2, ix3, ix4`

	getDocument    = `SELECT version, created_at, updated_at, body FROM documents` + documentKey
	deleteDocument = `DELETE FROM documents` + documentKey + ` AND version = ? RETURNING words`
)

var (
	insertDocument = sqldb.Insert(`documents`, documentColumns)
	updateDocument = `UPDATE documents SET ` + sqldb.Assign(documentChanges) + documentKey + ` AND version = ?`
	renameDocument = `UPDATE documents SET ` + sqldb.Assign(`words, `+documentChanges) + documentKey + ` AND version = ?`
)

// Get implements resource.Backend.
func (d *Store) Get(ctx context.Context, kind, tenant, id string) (resource.Doc, error) {
	return scanDocument(d.db.QueryRow(ctx, getDocument, kind, tenant, id), kind, tenant, id)
}

// LockTx implements resource.Backend.
func (d *Store) LockTx(tx txn.Tx, kind, tenant, id string) (resource.Doc, error) {
	in := sqldb.From(tx)
	return scanDocument(in.QueryRow(getDocument+in.ForUpdate(), kind, tenant, id), kind, tenant, id)
}

func scanDocument(row *sql.Row, kind, tenant, id string) (resource.Doc, error) {
	doc := resource.Doc{Kind: kind, Tenant: tenant, ID: id}
	var created, updated int64
	var body []byte
	err := row.Scan(&doc.Version, &created, &updated, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return resource.Doc{}, resource.ErrAbsent
	}
	doc.CreatedAt, doc.UpdatedAt, doc.Body = sqldb.Time(created), sqldb.Time(updated), body
	return doc, err
}

// List implements resource.Backend.
func (d *Store) List(ctx context.Context, q resource.Query) ([]resource.Doc, error) {
	query, args := listDocuments(q, d.db.Postgres())
	rows, err := d.db.Query(ctx, query, args...)
	return scanDocuments(rows, err, q)
}

// ListTx implements resource.Backend.
func (d *Store) ListTx(tx txn.Tx, q resource.Query) ([]resource.Doc, error) {
	query, args := listDocuments(q, d.db.Postgres())
	rows, err := sqldb.From(tx).Query(query, args...)
	return scanDocuments(rows, err, q)
}

func scanDocuments(rows *sql.Rows, err error, q resource.Query) ([]resource.Doc, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	docs := make([]resource.Doc, 0, min(q.Limit, 128))
	var weight page.Weight
	for rows.Next() {
		doc := resource.Doc{Kind: q.Kind, Tenant: q.Tenant}
		var created, updated int64
		var body []byte
		if err := rows.Scan(&doc.ID, &doc.Version, &created, &updated, &body); err != nil {
			return nil, err
		}
		doc.CreatedAt, doc.UpdatedAt, doc.Body = sqldb.Time(created), sqldb.Time(updated), body
		docs = append(docs, doc)
		if q.Page && weight.Full(len(body)) {
			break
		}
	}
	return docs, rows.Err()
}

// listDocuments builds the statement of a list. Its text depends only on which
// filters are set, so that it is prepared once. Every filter compares a column
// whose index continues with the id. SQLite has no statistics here and would
// rather walk all documents of the tenant, so the statement names the index.
func listDocuments(q resource.Query, postgres bool) (string, []any) {
	var where strings.Builder
	from, id, args := "documents", "id", make([]any, 0, 12)
	if len(q.Words) > 0 {
		from, id, args = fromWords(q, args)
	}
	args = append(args, q.Kind, q.Tenant)
	walk := ""
	equal := func(column, value string) {
		if value == "" {
			return
		}
		where.WriteString(" AND " + column + " = ?")
		args = append(args, indexKey(value))
		if walk == "" && !postgres && len(q.Words) == 0 {
			walk = " INDEXED BY documents_" + column
		}
	}
	equal("uniq", q.Unique)
	for i, column := range []string{"ix1", "ix2", "ix3", "ix4"} {
		equal(column, q.Filter[i])
	}
	if len(q.Words) > 0 {
		where.WriteString(` AND id = word_id`)
	}
	beyond, order := " AND "+id+" < ?", " ORDER BY "+id+" DESC LIMIT ?"
	if q.Asc {
		beyond, order = " AND "+id+" > ?", " ORDER BY "+id+" LIMIT ?"
	}
	if q.After != "" {
		where.WriteString(beyond)
		args = append(args, q.After)
	}
	return `SELECT id, version, created_at, updated_at, body FROM ` + from + walk +
		` WHERE kind = ? AND tenant_id = ?` + where.String() + order, append(args, q.Limit)
}

// PutTx implements resource.Backend.
func (d *Store) PutTx(tx txn.Tx, doc resource.Doc, was int64) error {
	if was == 0 {
		return insertTx(tx, &doc)
	}
	ix := doc.Index
	args := []any{
		doc.Version, sqldb.Micros(doc.UpdatedAt), string(doc.Body), indexValue(doc.Unique),
		indexValue(ix[0]), indexValue(ix[1]), indexValue(ix[2]), indexValue(ix[3]), doc.Kind, doc.Tenant, doc.ID, was,
	}
	if doc.Words == nil {
		return putTx(tx, updateDocument, args)
	}
	before, err := storedWords(tx, doc.Kind, doc.Tenant, doc.ID)
	if err != nil {
		return err
	}
	words := wordsValue(doc.Words)
	if err := putTx(tx, renameDocument, append([]any{words}, args...)); err != nil {
		return err
	}
	return replaceWordRows(tx, doc.Kind, doc.Tenant, doc.ID, before, words)
}

func insertTx(tx txn.Tx, doc *resource.Doc) error {
	ix, words := doc.Index, wordsValue(doc.Words)
	err := putTx(tx, insertDocument, []any{
		doc.Kind, doc.Tenant, doc.ID, doc.Version, sqldb.Micros(doc.CreatedAt), sqldb.Micros(doc.UpdatedAt), string(doc.Body),
		indexValue(doc.Unique), indexValue(ix[0]), indexValue(ix[1]), indexValue(ix[2]), indexValue(ix[3]), words,
	})
	if err != nil {
		return err
	}
	return insertWordRows(tx, doc.Kind, doc.Tenant, doc.ID, words)
}

func putTx(tx txn.Tx, statement string, args []any) error {
	rows, err := sqldb.From(tx).Exec(statement, args...)
	switch {
	case err != nil && sqldb.IsUnique(err):
		return errors.Join(resource.ErrTaken, err)
	case err == nil && rows == 0:
		return resource.ErrStale
	}
	return err
}

// DeleteTx implements resource.Backend.
func (d *Store) DeleteTx(tx txn.Tx, kind, tenant, id string, version int64) error {
	var words string
	err := sqldb.From(tx).QueryRow(deleteDocument, kind, tenant, id, version).Scan(&words)
	if errors.Is(err, sql.ErrNoRows) {
		return resource.ErrStale
	}
	if err != nil {
		return err
	}
	return deleteWordRows(tx, kind, tenant, id, words)
}

// indexValue returns what an index column stores for a value: NULL for "".
func indexValue(s string) any {
	if s == "" {
		return nil
	}
	return indexKey(s)
}

// maxIndexKey keeps keys within what fits into a page of PostgreSQL's index.
const maxIndexKey = 512

var escapeNUL = strings.NewReplacer(`\`, `\\`, "\x00", `\0`)

// indexKey returns the key of a value, valid on both databases and different for
// different values: without NUL and invalid UTF-8, which PostgreSQL refuses, and
// of bounded length.
func indexKey(s string) string {
	if len(s) > maxIndexKey {
		sum := sha256.Sum256([]byte(s))
		s = strings.ToValidUTF8(s[:maxIndexKey/2], "") + "…" + hex.EncodeToString(sum[:])
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsAny(s, "\\\x00") {
		s = escapeNUL.Replace(s)
	}
	return s
}

var _ resource.Backend = (*Store)(nil)

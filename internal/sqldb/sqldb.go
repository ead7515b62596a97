// Package sqldb is the house's one way to SQLite and PostgreSQL.
package sqldb

import (
	"context"
	"database/sql"
	"time"

	"agentd/internal/txn"
)

// DB is an open database.
type DB struct{}

// Write commits a closure; see txn.Writer.
func (db *DB) Write(ctx context.Context, do func(txn.Tx) error) error { panic("contract") }

// Query reads outside of transactions, from the pool of readers. SQL is one
// portable text with ? placeholders.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	panic("contract")
}

// QueryRow is Query for at most one row.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *sql.Row { panic("contract") }

// Postgres says which dialect is spoken, for the few statements that differ.
func (db *DB) Postgres() bool { panic("contract") }

// Tx is the inside of a txn.Tx of this package.
type Tx struct{}

// From opens a transaction that DB.Write handed out.
func From(tx txn.Tx) *Tx { panic("contract") }

// Exec runs a statement and gives the number of rows that it changed.
func (tx *Tx) Exec(query string, args ...any) (int64, error) { panic("contract") }

// Query reads inside the transaction.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) { panic("contract") }

// QueryRow is Query for at most one row.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row { panic("contract") }

// ForUpdate is the suffix of a SELECT that locks its row until commit: empty
// on SQLite, whose one writer needs none.
func (tx *Tx) ForUpdate() string { panic("contract") }

// IsUnique says whether err is a violated unique index.
func IsUnique(err error) bool { panic("contract") }

// Micros is how a time is stored: microseconds since 1970, 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time is the inverse of Micros, in UTC.
func Time(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

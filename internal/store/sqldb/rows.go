package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Row is one row of an answer, alone or one of many.
type Row interface{ Scan(dest ...any) error }

// QueryFunc runs a query, in a transaction ([Tx.Query]) or outside of any
// ([DB.Reader]).
type QueryFunc func(query string, args ...any) (*sql.Rows, error)

// Reader returns Query bound to a context.
func (db *DB) Reader(ctx context.Context) QueryFunc {
	return func(query string, args ...any) (*sql.Rows, error) { return db.Query(ctx, query, args...) }
}

// Collect runs a query and scans all its rows. The result is never nil but
// with an error.
func Collect[T any](query QueryFunc, text string, args []any, scan func(Row) (T, error)) ([]T, error) {
	rows, err := query(text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// ScanStrings reads rows of one text column, and closes them.
func ScanStrings(rows *sql.Rows) ([]string, error) {
	defer rows.Close()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// MaxIn bounds how many ids one statement names.
const MaxIn = 500

// In returns the condition " IN (?, …)" for ids, of which there is at least
// one, and the arguments followed by the ids.
func In(ids []string, args ...any) (string, []any) {
	for _, id := range ids {
		args = append(args, id)
	}
	return ` IN (?` + strings.Repeat(", ?", len(ids)-1) + `)`, args
}

// NoRowsAs returns missing for sql.ErrNoRows, and every other error as it is.
func NoRowsAs(err, missing error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return missing
	}
	return err
}

// UniqueAs wraps taken around the error of a unique index, and returns every
// other error as it is.
func UniqueAs(err, taken error) error {
	if IsUnique(err) {
		return fmt.Errorf("%w: %w", taken, err)
	}
	return err
}

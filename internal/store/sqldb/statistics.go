package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// SQLite's planner chooses indexes by sqlite_stat1. Without it, it takes a
// table for small and the primary key for as good as any index: a list with a
// filter then reads every row of its tenant. ANALYZE would measure the rows
// that there are, so that plans would differ between databases and change with
// their rows. The rows of sqlite_stat1 are constants instead, which say that
// every table is large and how well each column narrows it. They are computed
// from the schema after each migration, so that an index which a migration
// adds has its row.

// statisticRows is how many rows each table is said to have.
const statisticRows = 1_000_000

// distinctValues is how many values a column has among the rows that agree in
// the columns before it. Columns that are not listed have defaultDistinct.
var distinctValues = map[string]int{
	"tenant_id": 10, "kind": 20, "status": 10, "type": 10, "event_type": 10, "finished": 2, "enabled": 2, "dead": 2, "operator": 2,
	"agent_id": 1000, "owner": 10, "owner_type": 4, "relation": 2, "mime_group": 10, "period": 100, "action": 100, "source": 4,
	"branch_id": 4, "model": 10, "vector_model": 2, "provider": 10, "role": 4, "resource": 10, "actor_user_id": 100, "actor_key_id": 100,
	"target_type": 50, "webhook_id": 1000, "workspace_id": 1000, "kb_id": 1000, "collection_id": 1000, "error_code": 20,
	"auth_server": 100, "issuer": 10, "read_at": 2, "expires_at": 100_000, "name": 20, "value": 10,
}

const defaultDistinct = 10_000

// DistinctValues returns how many values a column of a large table has among the
// rows that agree in the columns before it in an index.
func DistinctValues(column string) int {
	if n, ok := distinctValues[column]; ok {
		return n
	}
	return defaultDistinct
}

// writeStatistics fills sqlite_stat1. It does nothing on PostgreSQL, and in a
// database of before that table.
func (db *DB) writeStatistics(ctx context.Context, pool *sql.DB) error {
	if db.Postgres() {
		return nil
	}
	if n, err := countRows(ctx, pool, `SELECT COUNT(*) FROM sqlite_master WHERE name = 'sqlite_stat1'`); err != nil || n == 0 {
		return err
	}
	rows, err := statistics(ctx, pool)
	if err != nil {
		return err
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `DELETE FROM sqlite_stat1`); err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := tx.ExecContext(ctx, `INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)`, row[0], row[1], row[2]); err != nil {
			return err
		}
	}
	// Connections that are open read the statistics again when the schema changes.
	for _, change := range []string{`CREATE TABLE statistics_changed (at BIGINT)`, `DROP TABLE statistics_changed`} {
		if _, err := tx.ExecContext(ctx, change); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// hasStatistics reports whether the last migration wrote its statistics.
func (db *DB) hasStatistics(ctx context.Context) (has bool, err error) {
	if db.Postgres() {
		return true, nil
	}
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_stat1)`).Scan(&has)
	return has, err
}

// statistics computes the rows of sqlite_stat1: table, index, statistics.
func statistics(ctx context.Context, pool *sql.DB) (all [][3]string, err error) {
	rows, err := pool.QueryContext(ctx, `SELECT t.name, CASE WHEN i.origin = 'pk' AND t.wr THEN t.name ELSE i.name END, i."unique", i.partial,
		(SELECT group_concat(name) FROM (SELECT COALESCE(name, '') AS name FROM pragma_index_info(i.name) ORDER BY seqno))
		FROM pragma_table_list AS t, pragma_index_list(t.name) AS i
		WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY 1, 2`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var table, index, columns string
		var unique, partial bool
		if err := rows.Scan(&table, &index, &unique, &partial, &columns); err != nil {
			return nil, err
		}
		all = append(all, [3]string{table, index, statistic(strings.Split(columns, ","), unique, partial)})
	}
	return all, rows.Err()
}

// statistic returns the text of an index in sqlite_stat1: its number of rows,
// and for each prefix of its columns how many rows have the same values there.
func statistic(columns []string, unique, partial bool) string {
	left := statisticRows
	if partial {
		left /= 10
	}
	numbers := []string{strconv.Itoa(left)}
	for i, column := range columns {
		left = max(1, left/DistinctValues(column))
		switch last := i == len(columns)-1; {
		case last && unique:
			left = 1
		case left == 1 && (unique || !last):
			left = 2 // only the last column of a unique index finds one row
		}
		numbers = append(numbers, strconv.Itoa(left))
	}
	return strings.Join(numbers, " ")
}

func countRows(ctx context.Context, pool *sql.DB, query string) (n int, err error) {
	if err := pool.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("sqldb: statistics: %w", err)
	}
	return n, nil
}

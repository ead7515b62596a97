package tenantadminsql

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
)

// The rows of a tenant are found by asking the database which tables have a
// tenant_id, so that no table is forgotten. A part is a table, or a kind of a
// table whose rows are found by kind first: "documents/agent".

// byKind are the tables without an index by tenant alone.
var byKind = []string{"documents", "work"}

// notParts are the tables with a tenant_id that are no parts: the tenant itself.
var notParts = []string{"tenants"}

// positions are tables of the platform in which a tenant's id is part of a
// position in a list: it is set back to the beginning of that moment.
var positions = map[string]string{
	"search_marks": `UPDATE search_marks SET tenant_id = '', thing_id = '' WHERE tenant_id = ?`,
}

const (
	sqliteTables = `SELECT m.name FROM sqlite_master m WHERE m.type = 'table'
		AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) c WHERE c.name = 'tenant_id') ORDER BY m.name`
	postgresTables = `SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::text::regnamespace AND a.attname = 'tenant_id' AND NOT a.attisdropped
		ORDER BY c.relname`

	// Which table has foreign keys to which other.
	sqliteLinks   = `SELECT m.name, f."table" FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`
	postgresLinks = `SELECT r.relname, t.relname FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid
		JOIN pg_class t ON t.oid = c.confrelid WHERE c.contype = 'f' AND r.relnamespace = current_schema()::text::regnamespace`

	sqliteKey   = `SELECT c.name FROM pragma_table_info(?) c WHERE c.pk > 0 ORDER BY c.pk`
	postgresKey = `SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
		WHERE i.indisprimary AND i.indrelid = to_regclass(?) ORDER BY a.attnum`
)

// engine returns the statement for the database that is open.
func (s *Store) engine(sqlite, postgres string) string {
	if s.db.Postgres() {
		return postgres
	}
	return sqlite
}

// ListParts implements tenantadmin.Store.
func (s *Store) ListParts(ctx context.Context) ([]string, error) {
	rows, err := s.db.Query(ctx, s.engine(sqliteTables, postgresTables))
	if err != nil {
		return nil, err
	}
	tables, err := sqldb.ScanStrings(rows)
	if err != nil {
		return nil, err
	}
	tables = slices.DeleteFunc(tables, func(t string) bool { return slices.Contains(notParts, t) })
	if tables, err = s.inOrder(ctx, tables); err != nil {
		return nil, err
	}
	var parts []string
	for _, table := range tables {
		if !slices.Contains(byKind, table) {
			parts = append(parts, table)
			continue
		}
		kinds, err := s.kinds(ctx, table)
		if err != nil {
			return nil, err
		}
		for _, kind := range kinds {
			parts = append(parts, table+"/"+kind)
		}
	}
	return parts, nil
}

// inOrder sorts tables before those that their foreign keys refer to. Work
// comes first of all: a worker whose item is deleted writes no more.
func (s *Store) inOrder(ctx context.Context, tables []string) ([]string, error) {
	links := map[string][]string{} // by table: the tables with foreign keys to it
	rows, err := s.db.Query(ctx, s.engine(sqliteLinks, postgresLinks))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var from, to string
		if err := rows.Scan(&from, &to); err != nil {
			return nil, err
		}
		if from != to {
			links[to] = append(links[to], from)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(tables, func(a, b string) int { return cmp.Compare(last(a == "work"), last(b == "work")) })
	var ordered []string
	var visit func(table string)
	visit = func(table string) {
		if slices.Contains(ordered, table) || !slices.Contains(tables, table) {
			return
		}
		for _, from := range links[table] {
			visit(from)
		}
		ordered = append(ordered, table)
	}
	for _, table := range tables {
		visit(table)
	}
	return ordered, nil
}

func last(first bool) int {
	if first {
		return 0
	}
	return 1
}

// kinds lists the kinds that a table has, by a step along its index for each.
func (s *Store) kinds(ctx context.Context, table string) ([]string, error) {
	rows, err := s.db.Query(ctx, `WITH RECURSIVE kinds (kind) AS (
		SELECT MIN(kind) FROM `+table+`
		UNION ALL
		SELECT (SELECT MIN(kind) FROM `+table+` WHERE kind > kinds.kind) FROM kinds WHERE kinds.kind IS NOT NULL)
		SELECT kind FROM kinds WHERE kind IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// partOf returns the table of a part, and the condition that selects a tenant's
// rows of it with its arguments.
func partOf(part, tenant string) (table, where string, args []any) {
	table, kind, whole := strings.Cut(part, "/")
	if !whole {
		return table, `tenant_id = ?`, []any{tenant}
	}
	return table, `kind = ? AND tenant_id = ?`, []any{kind, tenant}
}

// CountPart implements tenantadmin.Store.
func (s *Store) CountPart(ctx context.Context, tenant, part string) (n int64, err error) {
	table, where, args := partOf(part, tenant)
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM `+table+` WHERE `+where, args...).Scan(&n)
	return n, err
}

// DeletePartTx implements tenantadmin.Store.
func (s *Store) DeletePartTx(tx txn.Tx, tenant, part string, limit int) (int, error) {
	table, where, args := partOf(part, tenant)
	t := sqldb.From(tx)
	if back, ok := positions[part]; ok {
		_, err := t.Exec(back, tenant)
		return 0, err
	}
	key, err := s.key(t, table)
	if err != nil {
		return 0, err
	}
	query := `DELETE FROM ` + table + ` WHERE ` + where
	if key != "" { // otherwise there is at most one row
		query += fmt.Sprintf(` AND (%s) IN (SELECT %s FROM %s WHERE %s LIMIT ?)`, key, key, table, where)
		args = append(append(slices.Clone(args), args...), limit)
	}
	n, err := t.Exec(query, args...)
	if err != nil || n == 0 {
		return 0, err
	}
	return int(n), countPurged(t, tenant, part, n)
}

// key returns the columns that distinguish a tenant's rows of a table; none if
// there is at most one.
func (s *Store) key(t *sqldb.Tx, table string) (string, error) {
	rows, err := t.Query(s.engine(sqliteKey, postgresKey), table)
	if err != nil {
		return "", err
	}
	columns, err := sqldb.ScanStrings(rows)
	if len(columns) == 0 {
		return s.engine("rowid", "ctid"), err
	}
	columns = slices.DeleteFunc(columns, func(c string) bool { return c == "tenant_id" || c == "kind" })
	return strings.Join(columns, ", "), err
}

// countPurged adds to what a purge has deleted.
func countPurged(t *sqldb.Tx, tenant, part string, n int64) error {
	p, err := scanPurge(t.QueryRow(selectPurge+t.ForUpdate(), tenant))
	if err != nil {
		return err
	}
	counts := map[string]int64{}
	if err := json.Unmarshal(p.Counts, &counts); err != nil {
		return err
	}
	counts[part] += n
	text, err := json.Marshal(counts, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = t.Exec(`UPDATE tenant_purges SET counts = ? WHERE subject_id = ?`, string(text), tenant)
	return err
}

// The index of words keeps those of deleted documents until it merges its
// segments. The first statement marks all segments for that, the second goes on
// with it; each rewrites about as much as a transaction may take.
const (
	startMerge = `INSERT INTO search_words (search_words, rank) VALUES ('merge', -64)`
	goOnMerge  = `INSERT INTO search_words (search_words, rank) VALUES ('merge', 64)`
)

// maxMerges bounds the merging of an index that others write to meanwhile.
const maxMerges = 100_000

// DeleteRemains implements tenantadmin.Store. PostgreSQL does the same by its
// vacuum, in its own time.
func (s *Store) DeleteRemains(ctx context.Context, hold func(txn.Tx) error) error {
	if s.db.Postgres() {
		return nil
	}
	for i := range maxMerges {
		if err := work.StopIfDraining(ctx); err != nil {
			return err
		}
		statement := goOnMerge
		if i == 0 {
			statement = startMerge
		}
		changed := int64(0)
		err := s.db.Write(ctx, func(tx txn.Tx) error {
			if err := hold(tx); err != nil {
				return err
			}
			t := sqldb.From(tx)
			var before, after int64
			if err := t.QueryRow(`SELECT total_changes()`).Scan(&before); err != nil {
				return err
			}
			if _, err := t.Exec(statement); err != nil {
				return err
			}
			err := t.QueryRow(`SELECT total_changes()`).Scan(&after)
			changed = after - before
			return err
		})
		if err != nil {
			return err
		}
		if changed < 2 { // the statement itself is one; there is nothing left to merge
			break
		}
	}
	return s.db.TruncateLog(ctx)
}

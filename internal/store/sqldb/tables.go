package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// ColumnKind is what a column holds, alike on both engines.
type ColumnKind string

// The kinds of columns.
const (
	IntColumn   ColumnKind = "int"
	FloatColumn ColumnKind = "float"
	BoolColumn  ColumnKind = "bool"
	TextColumn  ColumnKind = "text"
	BytesColumn ColumnKind = "bytes"
)

// Column is a column of a [Table].
type Column struct {
	Name string     `json:"name"`
	Kind ColumnKind `json:"kind"`
}

// Table is a table whose rows can be copied to another database.
type Table struct {
	Name    string   `json:"name"`
	Columns []Column `json:"columns"` // by their names
	Key     []string `json:"key"`     // the primary key, in its order
}

// names returns the columns as they stand in a statement.
func (t *Table) names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// selectAll returns the statement that reads all rows in the order of the key, which
// is the same on both engines.
func (t *Table) selectAll() string {
	text := `SELECT ` + strings.Join(t.names(), `, `) + ` FROM ` + t.Name
	if len(t.Key) > 0 {
		text += ` ORDER BY ` + strings.Join(t.Key, `, `)
	}
	return text
}

// copied reports whether the rows of a table go into a copy. Those of others belong
// to the nodes that run and to the migrations; the search index differs between the
// engines, and is made again where it is empty.
func copied(table string) bool {
	switch {
	case table == "goose_db_version", table == "nodes", table == "secret_servers":
		return false
	case strings.HasPrefix(table, "search_"), strings.HasPrefix(table, "sqlite_"):
		return false
	}
	return true
}

// reader is a connection, or a transaction, of database/sql.
type reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

const (
	sqliteColumns = `SELECT m.name, c.name, c.type, c.pk FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' ORDER BY m.name, c.name`
	sqliteReferences = `SELECT m.name, f."table" FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`

	postgresColumns = `SELECT c.relname, a.attname, format_type(a.atttypid, NULL), COALESCE(array_position(i.indkey::int2[], a.attnum) + 1, 0)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname COLLATE "C", a.attname COLLATE "C"`
	postgresReferences = `SELECT r.relname, t.relname FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid
		JOIN pg_class t ON t.oid = c.confrelid WHERE c.contype = 'f' AND r.relnamespace = current_schema()::regnamespace`
)

// kinds are the columns' types of both engines.
var kinds = map[string]ColumnKind{
	"BIGINT": IntColumn, "INTEGER": IntColumn, "DOUBLE PRECISION": FloatColumn, "BOOLEAN": BoolColumn, "TEXT": TextColumn,
	"BLOB": BytesColumn, "BYTEA": BytesColumn,
}

// tablesOf lists the tables whose rows are copied, each behind those that its foreign
// keys refer to.
func tablesOf(ctx context.Context, q reader, postgres bool) ([]Table, error) {
	columns, references := sqliteColumns, sqliteReferences
	if postgres {
		columns, references = postgresColumns, postgresReferences
	}
	tables, err := readTables(ctx, q, columns)
	if err != nil {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, references)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	needs := map[string][]string{}
	for rows.Next() {
		var from, to string
		if err := rows.Scan(&from, &to); err != nil {
			return nil, err
		}
		if from != to {
			needs[from] = append(needs[from], to)
		}
	}
	return inOrder(tables, needs), rows.Err()
}

func readTables(ctx context.Context, q reader, columns string) ([]Table, error) {
	rows, err := q.QueryContext(ctx, columns)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var tables []Table
	keys := map[string]map[int]string{}
	for rows.Next() {
		var table, column, declared string
		var inKey int
		if err := rows.Scan(&table, &column, &declared, &inKey); err != nil {
			return nil, err
		}
		if !copied(table) {
			continue
		}
		kind, ok := kinds[strings.ToUpper(declared)]
		if !ok {
			return nil, fmt.Errorf("sqldb: the column %s of %s has the type %q, which cannot be copied", column, table, declared)
		}
		if len(tables) == 0 || tables[len(tables)-1].Name != table {
			tables = append(tables, Table{Name: table})
			keys[table] = map[int]string{}
		}
		last := &tables[len(tables)-1]
		last.Columns = append(last.Columns, Column{column, kind})
		if inKey > 0 {
			keys[table][inKey] = column
		}
	}
	for i := range tables {
		for n := 1; n <= len(keys[tables[i].Name]); n++ {
			tables[i].Key = append(tables[i].Key, keys[tables[i].Name][n])
		}
	}
	return tables, rows.Err()
}

// inOrder sorts tables by what they need. Tables that need one another stay in their
// order.
func inOrder(tables []Table, needs map[string][]string) []Table {
	sorted := make([]Table, 0, len(tables))
	done := map[string]bool{}
	var add func(t Table)
	add = func(t Table) {
		if done[t.Name] {
			return
		}
		done[t.Name] = true
		for _, other := range tables {
			if slices.Contains(needs[t.Name], other.Name) {
				add(other)
			}
		}
		sorted = append(sorted, t)
	}
	for _, t := range tables {
		add(t)
	}
	return sorted
}

// value brings what a driver returned for a column into the type of its kind: int64,
// float64, bool, string, []byte or nil.
func (c Column) value(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int64:
		switch c.Kind {
		case IntColumn:
			return v, nil
		case BoolColumn:
			return v != 0, nil
		case FloatColumn:
			return float64(v), nil
		}
	case float64:
		if c.Kind == FloatColumn {
			return v, nil
		}
	case bool:
		if c.Kind == BoolColumn {
			return v, nil
		}
	case string:
		switch c.Kind {
		case TextColumn:
			return v, nil
		case BytesColumn:
			return []byte(v), nil
		}
	case []byte:
		switch {
		case c.Kind == TextColumn:
			return string(v), nil
		case c.Kind == BytesColumn && v == nil: // a driver's way to say that it is empty
			return []byte{}, nil
		case c.Kind == BytesColumn:
			return v, nil
		}
	case int32: // PostgreSQL's integer
		return c.value(int64(v))
	}
	return nil, fmt.Errorf("sqldb: the column %s has a %T, which is no %s", c.Name, v, c.Kind)
}

// values is value for a row, in place.
func (t *Table) values(row []any) error {
	for i, c := range t.Columns {
		v, err := c.value(row[i])
		if err != nil {
			return fmt.Errorf("%w (table %s)", err, t.Name)
		}
		row[i] = v
	}
	return nil
}

// versionsOf lists the migrations that a database has.
func versionsOf(ctx context.Context, q reader) ([]int64, error) {
	rows, err := q.QueryContext(ctx, `SELECT DISTINCT version_id FROM goose_db_version WHERE version_id > 0 ORDER BY version_id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []int64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}

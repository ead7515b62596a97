package sqldb

import (
	"cmp"
	"strings"
)

// The columns of a table are written once, as "a, b, c": in the order in which
// its rows are inserted, selected and scanned. Statements are built from them
// when the program starts, so that their texts stay the same.

// Insert returns "INSERT INTO table (a, b) VALUES (?, ?)".
func Insert(table, columns string) string {
	return `INSERT INTO ` + table + ` (` + columns + `) VALUES ` + Values(columns)
}

// Values returns "(?, ?)": a placeholder for each column.
func Values(columns string) string {
	return `(?` + strings.Repeat(`, ?`, strings.Count(columns, ",")) + `)`
}

// Assign returns "a = ?, b = ?", for an UPDATE.
func Assign(columns string) string {
	return forEach(columns, func(c string) string { return c + ` = ?` })
}

// Excluded returns "a = excluded.a, b = excluded.b", for an INSERT that
// updates the row that exists.
func Excluded(columns string) string {
	return forEach(columns, func(c string) string { return c + ` = excluded.` + c })
}

// Qualify returns "t.a, t.b", for a SELECT from several tables.
func Qualify(table, columns string) string {
	return forEach(columns, func(c string) string { return table + `.` + c })
}

func forEach(columns string, do func(column string) string) string {
	all := strings.Split(columns, ",")
	for i, c := range all {
		all[i] = do(strings.TrimSpace(c))
	}
	return strings.Join(all, `, `)
}

// Filter is a row of data for one filter of a list.
type Filter[F any] struct {
	Condition string          // with one placeholder, such as "agent_id = ?"
	Index     string          // of the column and then the order of the list; "" without one
	Value     func(*F) string // "" for a list without this filter
}

// Where returns " INDEXED BY … WHERE …" for a list of a tenant's rows: the
// conditions of the filters that are set, and their values after the tenant.
// The list walks the index of the first of them (see [DB.IndexedBy]).
func Where[F any](db *DB, tenant string, filters []Filter[F], f *F) (string, []any) {
	where, index, args := ` WHERE tenant_id = ?`, "", []any{tenant}
	for i := range filters {
		if v := filters[i].Value(f); v != "" {
			where += ` AND ` + filters[i].Condition
			args = append(args, v)
			index = cmp.Or(index, filters[i].Index)
		}
	}
	return db.IndexedBy(index) + where, args
}

// IndexedBy returns the clause behind a table's name that has SQLite walk an
// index; "" for no index and on PostgreSQL. SQLite has no statistics here, and
// prefers the primary key: it would read all rows of the tenant to find those
// that a filter selects.
func (db *DB) IndexedBy(index string) string {
	if index == "" || db.Postgres() {
		return ""
	}
	return ` INDEXED BY ` + index
}

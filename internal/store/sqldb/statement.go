package sqldb

import "strings"

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

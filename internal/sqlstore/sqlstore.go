// Package sqlstore keeps the slices' data in SQLite or PostgreSQL: one type
// for each port, its SQL beside it.
package sqlstore
